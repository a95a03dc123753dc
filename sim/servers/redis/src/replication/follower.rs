//! A replica's side of its link to the master.
//!
//! Order of things: connect and shake hands, then the whole data set or the
//! continuation, then the stream, until the link breaks; a second later again.
//! Whatever arrives after this server was promoted, or told to follow another, is
//! dropped: each step looks at the role's epoch under the lock.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::{BoxFuture, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::codec::{
    ReplyEncoder, RequestDecoder, RequestError, RequestLimits, append_command,
};
use super::super::command::execute;
use super::super::observe::{Observation, Origin};
use super::super::persistence;
use super::super::rdb;
use super::super::script::functions::Functions;
use super::super::settings::Master;
use super::super::state::{Client, DATABASES, Role, Shared, State};
use super::FollowerLink;

const RETRY: Duration = Duration::from_secs(1);
const ACKNOWLEDGE: Duration = Duration::from_secs(1);

/// How much of a reply to the master is made before it is discarded.
const DISCARDED_MAX_BYTES: usize = 64 * 1024;

/// How long one line of a master may be.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// The largest offset that a master may begin with: half of what `INFO` and `ROLE` can
/// tell, so that no stream ever gets there from it.
const OFFSET_MAX: u64 = i64::MAX as u64 / 2;

/// A history's id is 40 visible characters.
fn check_id(id: &str) -> io::Result<()> {
    if id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(invalid("malformed replication id"))
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Why a link's task stops for good.
struct Superseded;

/// Follows `master` until the role's epoch is no more `epoch`.
pub(super) async fn run(shared: Arc<Shared>, master: Master, epoch: u64) {
    let follower = Follower { shared, address: master.address(), epoch };
    loop {
        if let Ok(stream) = follower.connect().await {
            // However the link ended, it ended; what matters is whether to go on.
            let _ = follower.follow(stream).await;
        }
        if follower.mark_down().is_err() {
            return;
        }
        follower.shared.host.sleep(RETRY).await;
    }
}

struct Follower {
    shared: Arc<Shared>,
    address: String,
    epoch: u64,
}

impl Follower {
    /// Works on the state, unless the role has changed.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, Superseded> {
        let mut state = self.shared.lock();
        if state.role_epoch != self.epoch {
            return Err(Superseded);
        }
        Ok(work(&mut state))
    }

    fn with_link(&self, work: impl FnOnce(&mut FollowerLink)) -> Result<(), Superseded> {
        self.with(|state| {
            if let Role::Replica { link, .. } = &mut state.role {
                work(link);
            }
        })
    }

    fn mark_down(&self) -> Result<(), Superseded> {
        let now = self.shared.host.monotonic();
        self.with_link(|link| {
            if link.is_up || link.down_since.is_none() {
                link.down_since = Some(now);
            }
            link.is_up = false;
            link.is_syncing = false;
            link.is_shaking_hands = false;
        })
    }

    async fn connect(&self) -> io::Result<Stream> {
        let connecting = self.shared.host.connect(&self.address);
        let limit = self.shared.lock().replication_timeout(&self.shared.settings);
        self.shared.host.timeout(limit, connecting).await.map_err(io::Error::other)?
    }

    async fn follow(&self, stream: Stream) -> io::Result<()> {
        self.with_link(|link| link.is_shaking_hands = true)?;
        let mut reader = Reader { stream, buffer: Vec::new(), taken: 0, follower: self };
        let (id, offset) =
            self.with(|state| (state.replication.id.clone(), state.replication.offset))?;
        reader.shake_hands().await?;
        let from = itoa::Buffer::new().format(offset + 1).to_owned();
        reader.send(&[b"PSYNC", id.as_bytes(), from.as_bytes()]).await?;
        let answer = reader.line().await?;
        let mut words = answer.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("+FULLRESYNC"), Some(id), Some(offset)) => {
                let offset = offset.parse().ok().filter(|offset| *offset <= OFFSET_MAX);
                let offset = offset.ok_or_else(|| invalid("malformed +FULLRESYNC"))?;
                check_id(id)?;
                self.with_link(|link| link.is_syncing = true)?;
                let file = reader.file().await?;
                self.load(&file, id, offset)?;
            }
            (Some("+CONTINUE"), id, _) => {
                id.map_or(Ok(()), check_id)?;
                self.go_on(id)?;
            }
            _ => return Err(invalid(format!("the master answers PSYNC with {answer}"))),
        }
        reader.follow_stream().await
    }

    /// Replaces the data set by the master's.
    fn load(&self, file: &[u8], id: &str, offset: u64) -> io::Result<()> {
        let limit = self.shared.settings.resync_limit_bytes;
        let new = rdb::read(file, DATABASES, limit).map_err(|error| invalid(error.to_string()))?;
        let functions = Functions::rebuilt(&self.shared.settings, &new.libraries)
            .map_err(|failure| invalid(String::from_utf8_lossy(&failure.0)))?;
        self.with(|state| {
            let old = std::mem::replace(&mut state.databases, new.databases);
            state.functions = functions;
            state.touch_replaced(&old, &(0..DATABASES));
            state.replication.id = id.to_owned();
            state.replication.previous = None;
            state.replication.offset = offset;
            state.replication.followed_database = 0;
            // A history of its own for replicas of this replica, from here on.
            state.replication.backlog = Some(Default::default());
            state.replication.close_replicas();
            persistence::begin_anew(&self.shared, state);
            let strings = super::strings(&state.databases);
            let lost = super::lost(&old, &state.databases);
            let master = &self.address;
            self.shared.observer.observe(&Observation::Resynchronised {
                master,
                offset,
                lost,
                strings,
                fields: super::fields(&state.databases),
            });
        })?;
        Ok(())
    }

    /// Goes on where this server's history and the master's are the same.
    fn go_on(&self, id: Option<&str>) -> io::Result<()> {
        self.with(|state| {
            let replication = &mut state.replication;
            if let Some(id) = id
                && id != replication.id
            {
                let old = std::mem::replace(&mut replication.id, id.to_owned());
                replication.previous =
                    Some(super::Previous { id: old, end: replication.offset + 1 });
                replication.close_replicas();
            }
            replication.backlog.get_or_insert_default();
        })?;
        Ok(())
    }
}

impl From<Superseded> for io::Error {
    fn from(_: Superseded) -> Self {
        io::Error::other("this server's role has changed")
    }
}

/// Reads what the master sends, line by line, as a file, as a stream.
struct Reader<'a> {
    stream: Stream,
    buffer: Vec<u8>,
    /// How much of the buffer is history.
    taken: usize,
    follower: &'a Follower,
}

impl Reader<'_> {
    fn shared(&self) -> &Arc<Shared> {
        &self.follower.shared
    }

    async fn send(&mut self, command: &[&[u8]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        append_command(&mut bytes, command.iter().copied());
        self.stream.write_all(&bytes).await
    }

    /// Reads more, for at most the replication timeout.
    async fn more(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let shared = self.follower.shared.clone();
        let reading = self.stream.read_buf(&mut self.buffer);
        let limit = shared.lock().replication_timeout(&shared.settings);
        let count = shared.host.timeout(limit, reading).await.map_err(io::Error::other)??;
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The next line that is not empty: a busy master keeps the link alive by
    /// empty ones.
    async fn line(&mut self) -> io::Result<String> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).trim_end().to_owned();
                self.taken += end + 1;
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            if rest.len() > LINE_MAX_BYTES {
                return Err(invalid("the master sends a line without end"));
            }
            self.more().await?;
        }
    }

    async fn shake_hands(&mut self) -> io::Result<()> {
        self.send(&[b"PING"]).await?;
        let answer = self.line().await?;
        if answer.starts_with('-') && !answer.starts_with("-NOAUTH") {
            return Err(invalid(format!("the master answers PING with {answer}")));
        }
        let port = self.follower.with(|state| state.port)?;
        let port = itoa::Buffer::new().format(port).to_owned();
        self.send(&[b"REPLCONF", b"listening-port", port.as_bytes()]).await?;
        // Refusals are of old masters and do no harm.
        self.line().await?;
        if let Some(name) = self.shared().settings.announced_name.clone() {
            self.send(&[b"REPLCONF", b"ip-address", name.as_bytes()]).await?;
            self.line().await?;
        }
        self.send(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]).await?;
        self.line().await?;
        Ok(())
    }

    /// The data set: `$<length>`, or `$EOF:<mark>` with the same mark at its end.
    async fn file(&mut self) -> io::Result<Vec<u8>> {
        let header = self.line().await?;
        let header = header.strip_prefix('$').ok_or_else(|| {
            invalid(format!("the master sends {header} where the data set must begin"))
        })?;
        let limit = self.shared().settings.resync_limit_bytes;
        let too_long = || invalid("the master's data set is too large for this replica");
        let mut file = Vec::new();
        let mark = header.strip_prefix("EOF:").map(str::as_bytes);
        let length = match mark {
            Some(mark) if mark.len() != 40 => return Err(invalid("malformed end mark")),
            Some(_) => None,
            None => {
                let length: usize = header.parse().map_err(|_| invalid("malformed length"))?;
                if length > limit {
                    return Err(too_long());
                }
                Some(length)
            }
        };
        loop {
            // Up to the length; of a marked file everything, since the master sends
            // nothing behind the mark until it is acknowledged.
            let rest = &self.buffer[self.taken..];
            let wanted = length.map_or(rest.len(), |length| rest.len().min(length - file.len()));
            file.extend_from_slice(&rest[..wanted]);
            self.taken += wanted;
            if length == Some(file.len()) {
                return Ok(file);
            }
            if let Some(mark) = mark
                && file.ends_with(mark)
            {
                file.truncate(file.len() - mark.len());
                return Ok(file);
            }
            if file.len() > limit {
                return Err(too_long());
            }
            self.more().await?;
        }
    }

    async fn follow_stream(self) -> io::Result<()> {
        let Reader { stream, buffer, taken, follower } = self;
        // The master's commands may be as large as its data set, and no larger.
        let limit_bytes = follower.shared.settings.resync_limit_bytes;
        let limits = RequestLimits {
            arguments: i64::from(i32::MAX),
            argument_bytes: i64::from(u32::MAX),
            buffered_bytes: limit_bytes,
        };
        let mut decoder = RequestDecoder::new(limits);
        decoder.feed(&buffer[taken..]);
        let now = follower.shared.host.monotonic();
        let database = follower.with(|state| {
            if let Role::Replica { link, .. } = &mut state.role {
                *link = FollowerLink { is_up: true, heard_at: now, ..FollowerLink::default() };
            }
            state.replication.followed_database
        })?;
        let mut client = Client::new(0, Origin::Master, stream.peer_addr(), now);
        client.database = database;
        let mut streaming = Streaming {
            follower,
            stream,
            decoder,
            client,
            discarded: ReplyEncoder::with_limit(DISCARDED_MAX_BYTES),
            transaction: Vec::new(),
            limit_bytes,
            acknowledge: follower.shared.host.sleep(ACKNOWLEDGE),
        };
        streaming.run().await
    }
}

/// The stream, being followed.
struct Streaming<'a> {
    follower: &'a Follower,
    stream: Stream,
    decoder: RequestDecoder,
    client: Client,
    /// Nobody reads the replies to a master.
    discarded: ReplyEncoder,
    /// The bytes of a transaction that is not yet executed: its effects and its
    /// part of the offset come together.
    transaction: Vec<u8>,
    /// How large the data set, and a transaction, may become.
    limit_bytes: usize,
    acknowledge: BoxFuture<'static, ()>,
}

enum Event {
    Read(usize),
    Tick,
}

impl Streaming<'_> {
    async fn run(&mut self) -> io::Result<()> {
        let shared = self.follower.shared.clone();
        // At once, as Redis does: the master learns that the data set has arrived.
        self.send_acknowledgement().await?;
        loop {
            shared.thread.goes_on().await;
            shared.thread.script_ended().await;
            if self.apply()? {
                self.send_acknowledgement().await?;
            }
            match self.event().await? {
                Event::Read(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Event::Read(_) => {
                    let now = shared.host.monotonic();
                    self.follower.with_link(|link| link.heard_at = now)?;
                }
                Event::Tick => {
                    self.acknowledge = shared.host.sleep(ACKNOWLEDGE);
                    let now = shared.host.monotonic();
                    let mut silence = Duration::ZERO;
                    self.follower.with_link(|link| silence = now.saturating_sub(link.heard_at))?;
                    let limit = shared.lock().replication_timeout(&shared.settings);
                    if silence > limit {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    self.send_acknowledgement().await?;
                }
            }
        }
    }

    async fn event(&mut self) -> io::Result<Event> {
        let Streaming { stream, decoder, acknowledge, .. } = self;
        std::future::poll_fn(|context: &mut Context<'_>| {
            let reading = pin!(stream.read_buf(decoder.buffer_mut())).poll(context);
            if let Poll::Ready(count) = reading {
                return Poll::Ready(count.map(Event::Read));
            }
            acknowledge.as_mut().poll(context).map(|()| Ok(Event::Tick))
        })
        .await
    }

    /// Executes what has arrived. True if the master asks how far this server is.
    fn apply(&mut self) -> io::Result<bool> {
        let Streaming { follower, decoder, client, discarded, transaction, limit_bytes, .. } = self;
        let shared = &follower.shared;
        let mut is_asked = false;
        let applied = follower.with(|state| {
            loop {
                let Some(arguments) = decoder.decode()? else {
                    persistence::settle(shared, state);
                    return Ok(());
                };
                let is_question = arguments.len() >= 2
                    && arguments[0].eq_ignore_ascii_case(b"replconf")
                    && arguments[1].eq_ignore_ascii_case(b"getack");
                is_asked |= is_question;
                if !is_question {
                    execute(shared, state, client, arguments, discarded);
                    discarded.clear();
                    // What only its own clients can ask of a master.
                    client.next = None;
                }
                transaction.extend_from_slice(decoder.last_command());
                if transaction.len() > *limit_bytes || state.used_bytes() > *limit_bytes {
                    return Err(RequestError::TooMuch);
                }
                if client.transaction.is_none() {
                    state.replication.followed_database = client.database;
                    shared.feed(state, transaction);
                    transaction.clear();
                }
            }
        })?;
        applied.map_err(|error| invalid(error.to_string()))?;
        Ok(is_asked)
    }

    async fn send_acknowledgement(&mut self) -> io::Result<()> {
        let offset = self.follower.with(|state| state.replication.offset)?;
        let mut number = itoa::Buffer::new();
        let mut bytes = Vec::new();
        let offset = number.format(offset).as_bytes();
        append_command(&mut bytes, [&b"REPLCONF"[..], b"ACK", offset]);
        self.stream.write_all(&bytes).await
    }
}

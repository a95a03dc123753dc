//! A client of the pooler.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::backend::{Message, message, parameter};
use super::cancel::{Cancels, Link, cancel};
use super::outlet::{FULL, Outlet, poll_read};
use super::outstanding::Outstanding;
use super::pool::{Lent, Pool, Refusal, refusal};
use super::{Key, Shared, TRACKED};
use crate::codec::{self, Opening};
use crate::error::Severity;

/// Ends the client's entry with its task.
struct Entry {
    shared: Arc<Shared>,
    pid: i32,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.state().clients.remove(&self.pid);
    }
}

struct Client {
    entry: Entry,
    stream: Stream,
    input: Vec<u8>,
    output: Outlet,
    pool: Arc<Pool>,
    /// What it has of the tracked parameters.
    parameters: BTreeMap<String, String>,
    linked: Option<Linked>,
}

/// The session that it has, and what it asks there.
struct Linked {
    lent: Lent,
    output: Outlet,
    outstanding: Outstanding,
    /// It has said last that it is ready, and that no transaction is open.
    is_idle: bool,
    cancels: Arc<Cancels>,
}

/// How a client's connection ends.
enum End {
    /// It has gone, or has said that it goes.
    Left,
    /// It is told why.
    Told(Refusal),
}

pub(super) async fn serve(shared: Arc<Shared>, mut stream: Stream) {
    let mut input = Vec::new();
    let parameters = match opened(&mut stream, &mut input).await {
        Ok(Some(Opening::Startup { parameters, .. })) => parameters,
        Ok(Some(Opening::Cancel { pid, secret })) => return cancel(&shared, pid, secret).await,
        _ => return,
    };
    let (mut stream, told) = match entered(&shared, stream, input, &parameters).await {
        Err(refused) => refused,
        Ok(mut client) => {
            let End::Told(told) = client.relay().await else { return };
            let Client { stream, mut output, linked, .. } = client;
            // A session in its use ends with it.
            drop(linked);
            (stream, [output.take(), told].concat())
        }
    };
    // Whether it hears the reason is up to it.
    let telling = async {
        let _ = stream.write_all(&told).await;
        let _ = stream.flush().await;
    };
    let _ = shared.host.timeout(shared.settings.connect_timeout, telling).await;
}

/// The first message; encryption is refused on the way.
async fn opened(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<Option<Opening>> {
    loop {
        while let Ok(Some((opening, length))) = codec::opening(input) {
            input.drain(..length);
            if opening != Opening::Encryption {
                return Ok(Some(opening));
            }
            stream.write_all(b"N").await?;
            stream.flush().await?;
        }
        if codec::opening(input).is_err() || stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}

/// Lets a client in, once a server has said what its parameters are.
async fn entered(
    shared: &Arc<Shared>,
    stream: Stream,
    input: Vec<u8>,
    startup: &[(String, String)],
) -> Result<Client, (Stream, Refusal)> {
    let (mut user, mut database, mut wanted) = (None, None, BTreeMap::new());
    for (name, value) in startup {
        let tracked = TRACKED.iter().find(|known| known.eq_ignore_ascii_case(name));
        match (name.as_str(), tracked) {
            ("user", _) => user = Some(value.as_str()),
            ("database", _) => database = Some(value.as_str()),
            (_, Some(tracked)) => {
                wanted.insert((*tracked).to_owned(), value.clone());
            }
            _ => {
                let told = format!("unsupported startup parameter: {name}");
                return Err((stream, refusal(&told)));
            }
        }
    }
    let Some(user) = user else { return Err((stream, refusal("no username supplied"))) };
    let pool = shared.pool(user, database.unwrap_or(user));
    let reported = match pool.welcome().await {
        Ok(reported) => reported,
        Err(told) => return Err((stream, told)),
    };
    let mut parameters = reported.clone();
    parameters.retain(|name, _| TRACKED.contains(&name.as_str()));
    parameters.extend(wanted);
    let secret = shared.host.random("pooler-secret") as i32;
    let pid = {
        let mut state = shared.state();
        state.last_pid += 1;
        let pid = state.last_pid;
        state.clients.insert(pid, Key { secret, link: None });
        pid
    };
    let entry = Entry { shared: shared.clone(), pid };
    let mut output = Outlet::default();
    output.push(&greeting(&reported, &parameters, (pid, secret)));
    Ok(Client { entry, stream, input, output, pool, parameters, linked: None })
}

fn greeting(
    reported: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
    (pid, secret): (i32, i32),
) -> Vec<u8> {
    let mut output = Vec::new();
    codec::message(&mut output, b'R', |to| to.extend_from_slice(&[0; 4]));
    for (name, value) in reported {
        codec::message(&mut output, b'S', |to| {
            codec::text(to, name);
            codec::text(to, own.get(name).unwrap_or(value));
        });
    }
    codec::message(&mut output, b'K', |to| {
        to.extend_from_slice(&pid.to_be_bytes());
        to.extend_from_slice(&secret.to_be_bytes());
    });
    codec::message(&mut output, b'Z', |to| to.push(b'I'));
    output
}

/// What a client is told whose session has gone.
fn crashed<T>(_: T) -> End {
    End::Told(refusal("server conn crashed?"))
}

impl Client {
    /// Carries messages until one side ends.
    async fn relay(&mut self) -> End {
        loop {
            let mut may_go_on = true;
            while may_go_on {
                match self.hand_on().await {
                    Ok(handed) => may_go_on = handed,
                    Err(end) => return end,
                }
            }
            if let Err(end) = poll_fn(|context| self.poll_turn(context)).await {
                return end;
            }
            if let Err(end) = self.hand_back() {
                return end;
            }
        }
    }

    /// Reads and writes in both directions whatever can be, the server first: neither side is
    /// waited for while the other has something to say.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        let Client { stream, input, output, linked, .. } = self;
        let mut has_moved = false;
        if let Some(Linked { lent, output: asked, .. }) = linked {
            let Some(backend) = lent.backend() else { return Poll::Ready(Err(crashed(()))) };
            if !output.is_full() {
                match poll_read(&mut backend.stream, &mut backend.input, context) {
                    Poll::Ready(Ok(count)) if count > 0 => has_moved = true,
                    Poll::Ready(_) => return Poll::Ready(Err(crashed(()))),
                    Poll::Pending => {}
                }
            }
            match asked.poll_write(&mut backend.stream, context) {
                Poll::Ready(Ok(())) => has_moved = true,
                // Why it has closed may still be there to be read.
                Poll::Ready(Err(_)) => drop(asked.take()),
                Poll::Pending => {}
            }
        }
        match output.poll_write(stream, context) {
            Poll::Ready(Ok(())) => has_moved = true,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(End::Left)),
            Poll::Pending => {}
        }
        if linked.as_ref().is_none_or(|linked| !linked.output.is_full()) {
            match poll_read(stream, input, context) {
                Poll::Ready(Ok(count)) if count > 0 => has_moved = true,
                Poll::Ready(_) => return Poll::Ready(Err(End::Left)),
                Poll::Pending => {}
            }
        }
        if has_moved { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Hands the next whole message on to a session; false if there is none yet, or no room.
    async fn hand_on(&mut self) -> Result<bool, End> {
        if self.linked.as_ref().is_some_and(|linked| linked.output.is_full()) {
            return Ok(false);
        }
        let most = self.entry.shared.settings.message_bytes;
        let (kind, length) = match codec::frame(&self.input, most) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(false),
            Err(error) => {
                let mut told = Vec::new();
                codec::error(&mut told, &error.severity(Severity::Fatal), "");
                return Err(End::Told(told));
            }
        };
        if kind == b'X' {
            return Err(End::Left);
        }
        let is_late_copy = matches!(kind, b'd' | b'c' | b'f') && self.linked.is_none();
        if self.linked.is_none() && !is_late_copy {
            self.link(length).await?;
        }
        let bytes: Vec<u8> = self.input.drain(..length).collect();
        if let Some(linked) = &mut self.linked {
            linked.outstanding.ask(kind);
            linked.output.push(&bytes);
        }
        Ok(true)
    }

    /// Takes a session for a transaction that begins with a message of this length. What the
    /// client is owed reaches it meanwhile; if it leaves, it waits no longer.
    async fn link(&mut self, length: usize) -> Result<(), End> {
        let Client { entry, stream, input, output, pool, parameters, .. } = self;
        let shared = entry.shared.clone();
        let linking = async {
            let mut lent = pool.lend().await.map_err(End::Told)?;
            let Some(backend) = lent.backend() else { return Err(crashed(())) };
            let applied = backend.apply(parameters);
            let applied = shared.host.timeout(shared.settings.connect_timeout, applied).await;
            match applied.map_err(crashed)?.map_err(crashed)? {
                None => Ok((backend.key, lent)),
                Some(_) => Err(End::Told(refusal("invalid server parameter"))),
            }
        };
        let mut linking = std::pin::pin!(linking);
        let linked = poll_fn(|context| {
            if let Poll::Ready(Err(_)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(End::Left));
            }
            while input.len() < length + FULL {
                match poll_read(stream, input, context) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Err(End::Left)),
                    Poll::Pending => break,
                }
            }
            linking.as_mut().poll(context)
        });
        let (key, lent) = linked.await?;
        let cancels = Arc::<Cancels>::default();
        {
            let mut state = shared.state();
            state.links += 1;
            let link = Link { serial: state.links, key, cancels: cancels.clone() };
            if let Some(key) = state.clients.get_mut(&entry.pid) {
                key.link = Some(link);
            }
        }
        let (output, outstanding) = (Outlet::default(), Outstanding::default());
        self.linked = Some(Linked { lent, output, outstanding, is_idle: false, cancels });
        Ok(())
    }

    /// Hands on what the session has said, and gives it back where a transaction is over.
    fn hand_back(&mut self) -> Result<(), End> {
        let Some(linked) = &mut self.linked else { return Ok(()) };
        let Some(backend) = linked.lent.backend() else { return Err(crashed(())) };
        while let Some(Message { kind, length }) = message(&backend.input).map_err(crashed)? {
            let bytes: Vec<u8> = backend.input.drain(..length).collect();
            let body = &bytes[5..];
            backend.heard(kind, body);
            linked.outstanding.answer(kind);
            if kind == b'S' {
                let told = parameter(body);
                let tracked = told.filter(|(name, _)| TRACKED.contains(&name.as_str()));
                self.parameters.extend(tracked);
            }
            match kind {
                b'Z' => linked.is_idle = body == b"I",
                // Unasked.
                b'N' | b'S' | b'A' => {}
                // A statement of a batch, which goes on until its Sync.
                _ => linked.is_idle = false,
            }
            self.output.push(&bytes);
        }
        let is_answered = linked.outstanding.is_empty() && linked.output.is_empty();
        let is_over = linked.is_idle && is_answered && backend.input.is_empty();
        if is_over && let Some(Linked { lent, cancels, .. }) = self.linked.take() {
            if let Some(key) = self.entry.shared.state().clients.get_mut(&self.entry.pid) {
                key.link = None;
            }
            cancels.give_back(lent);
        }
        Ok(())
    }
}

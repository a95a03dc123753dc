//! One client's connection: read what has come, execute all of it, write all
//! replies at once.
//!
//! Reading goes on while a slow reader's replies wait, as in Redis; what waits is
//! bounded, and who exceeds the bound is closed. Also while the client waits inside a
//! command: what comes then is kept and executed once it goes on.
//!
//! What a client hears besides its replies lies in its mailbox, in the server's state. It
//! is taken whenever the state is locked for this client, before anything else, so that
//! mail and replies are in the order in which they were made.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use lockstorm::host::{BoxFuture, Stream};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::blocking::{time_out, unblock};
use super::codec::{ReplyEncoder, RequestDecoder};
use super::command::execute;
use super::observe::Origin;
use super::persistence;
use super::replication::leader;
use super::state::{Client, Next, Position, Shared, State};

/// Above this an idle reply buffer gives its memory back.
const KEPT_BYTES: usize = 64 * 1024;

/// Serves a connection until either side ends it.
pub(super) async fn serve(shared: Arc<Shared>, id: u64, stream: Stream) {
    let peer = stream.peer_addr();
    let mut client = Client::new(id, Origin::Client(peer), peer, shared.host.monotonic());
    client.mailbox.set_limit(shared.settings.output_limit_bytes);
    let signal = client.signal.clone();
    if !enter(&shared, client) {
        refuse(stream).await;
        return;
    }
    let mut connection = Connection {
        decoder: RequestDecoder::new(shared.settings.requests),
        limit_bytes: shared.settings.output_limit_bytes,
        shared: shared.clone(),
        id,
        stream,
        reply: ReplyEncoder::default(),
        written: 0,
        signal,
        is_blocked: false,
        has_waiting: false,
        timeout: None,
    };
    // A connection that failed is a connection that ended.
    let end = connection.run().await.unwrap_or(End::Closed);
    let client = leave(&shared, id);
    if let (End::Follow(position), Some(client)) = (end, client) {
        let Connection { stream, decoder, .. } = connection;
        follow(shared, *client, stream, decoder, position);
    }
}

/// False: there are too many.
fn enter(shared: &Shared, client: Client) -> bool {
    let mut state = shared.lock();
    let has_room = state.clients.len() < shared.settings.max_clients;
    if has_room {
        state.clients.insert(client.id, Box::new(client));
    }
    has_room
}

fn leave(shared: &Shared, id: u64) -> Option<Box<Client>> {
    let mut state = shared.lock();
    let mut client = state.clients.remove(&id)?;
    state.unwatch(&mut client);
    state.subscribers.leave(&mut client);
    unblock(&mut state.waiting, &mut client);
    Some(client)
}

/// The connection becomes a replica's link, served by a task of its own, so that a
/// pause can hold replication and not the clients.
fn follow(
    shared: Arc<Shared>,
    client: Client,
    stream: Stream,
    decoder: RequestDecoder,
    position: Position,
) {
    let id = shared.lock().draw_id();
    let link = leader::serve(shared.clone(), client, stream, decoder, position);
    shared.spawn("redis-replication", id, link);
}

async fn refuse(mut stream: Stream) {
    // Whether it hears the reason is up to it.
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
}

/// Why a connection is served no more.
enum End {
    Closed,
    Follow(Position),
}

enum Event {
    Read(usize),
    Wrote(usize),
    /// There is mail, or the client waits no more, or it is to close.
    Signalled,
    /// The client has waited for long enough.
    TimedOut,
    /// The server has waited for its disk for long enough.
    GoesOn,
}

struct Connection {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    decoder: RequestDecoder,
    reply: ReplyEncoder,
    /// How much of the replies the kernel has.
    written: usize,
    /// How much may wait for this client.
    limit_bytes: usize,
    signal: Arc<Notify>,
    /// The client waits inside a command; nothing is executed meanwhile.
    is_blocked: bool,
    /// Something came while the whole server waited for its disk.
    has_waiting: bool,
    timeout: Option<BoxFuture<'static, ()>>,
}

impl Connection {
    async fn run(&mut self) -> io::Result<End> {
        loop {
            let end = match self.event().await? {
                Event::Read(0) => return Ok(End::Closed),
                Event::Wrote(count) => {
                    self.note_written(count);
                    None
                }
                Event::Read(_) if self.is_blocked || self.has_waiting => {
                    let limit = self.shared.settings.requests.buffered_bytes;
                    (self.decoder.buffered_bytes() > limit).then_some(End::Closed)
                }
                Event::Read(_) => self.serve_requests().await?,
                Event::Signalled => self.take_mail(false).await?,
                Event::TimedOut => self.take_mail(true).await?,
                Event::GoesOn => self.take_mail(false).await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
            if self.reply.is_full() || self.reply.bytes().len() - self.written > self.limit_bytes {
                return Ok(End::Closed);
            }
        }
    }

    fn note_written(&mut self, count: usize) {
        self.written += count;
        let bytes = self.reply.bytes_mut();
        if self.written == bytes.len() {
            bytes.clear();
            self.written = 0;
            if bytes.capacity() > KEPT_BYTES {
                *bytes = Vec::new();
            }
        }
    }

    /// The next thing that can be done; replies go before new requests.
    async fn event(&mut self) -> io::Result<Event> {
        let Connection { shared, stream, decoder, reply, written, signal, timeout, .. } = self;
        let mut signalled = pin!(signal.notified());
        // Before the look at the thread: it may go on meanwhile.
        let mut goes_on = pin!(shared.thread.changed());
        let is_silent = shared.thread.is_silent();
        if self.has_waiting && !shared.thread.is_busy() {
            return Ok(Event::GoesOn);
        }
        std::future::poll_fn(|context: &mut Context<'_>| {
            if signalled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Signalled));
            }
            let rest = &reply.bytes()[*written..];
            if is_silent && goes_on.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::GoesOn));
            }
            if !rest.is_empty()
                && !is_silent
                && let Poll::Ready(count) = Pin::new(&mut *stream).poll_write(context, rest)
            {
                return Poll::Ready(count.map(Event::Wrote));
            }
            if let Some(timeout) = timeout
                && timeout.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Ok(Event::TimedOut));
            }
            pin!(stream.read_buf(decoder.buffer_mut())).poll(context).map_ok(Event::Read)
        })
        .await
    }

    /// Takes what is in the mailbox; goes on with what came while the client waited, if it
    /// waits no more.
    async fn take_mail(&mut self, is_time_over: bool) -> io::Result<Option<End>> {
        if is_time_over {
            self.timeout = None;
        }
        let is_closing = {
            let Connection { shared, id, reply, limit_bytes, is_blocked, has_waiting, .. } = self;
            let mut state = shared.lock();
            let State { clients, waiting, replication, .. } = &mut *state;
            let Some(client) = clients.get_mut(id) else { return Ok(Some(End::Closed)) };
            if client.killed {
                return Ok(Some(End::Closed));
            }
            if is_time_over {
                time_out(waiting, replication, client);
            }
            take(client, reply);
            if !client.subscriptions.is_empty() {
                *limit_bytes = shared.settings.subscriber_output_limit_bytes;
            }
            if *is_blocked && client.blocked.is_none() {
                *is_blocked = false;
                self.timeout = None;
            } else if !client.closing && !std::mem::take(has_waiting) {
                return Ok(None);
            }
            client.closing
        };
        if is_closing {
            self.write_out().await?;
            return Ok(Some(End::Closed));
        }
        self.serve_requests().await
    }

    /// Executes everything that has arrived.
    async fn serve_requests(&mut self) -> io::Result<Option<End>> {
        self.has_waiting = self.shared.thread.is_busy();
        if self.has_waiting {
            return Ok(None);
        }
        match self.execute_batch() {
            None => Ok(None),
            Some(Next::Abort) => Ok(Some(End::Closed)),
            Some(Next::Close) => {
                self.write_out().await?;
                Ok(Some(End::Closed))
            }
            Some(Next::Follow(position)) => {
                self.write_out().await?;
                Ok(Some(End::Follow(position)))
            }
            Some(Next::Block { timeout }) => {
                self.is_blocked = true;
                self.timeout = timeout.map(|timeout| self.shared.host.sleep(timeout));
                Ok(None)
            }
        }
    }

    /// Executes commands until there are no more, or one has a sequel.
    fn execute_batch(&mut self) -> Option<Next> {
        let Connection { shared, id, decoder, reply, written, has_waiting, .. } = self;
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(mut client) = state.clients.remove(id) else {
            return Some(Next::Close);
        };
        client.active_at = shared.host.monotonic();
        take(&mut client, reply);
        reply.set_protocol(client.protocol);
        let limit = *written + shared.settings.output_limit_bytes;
        reply.set_limit(limit);
        let next = loop {
            match decoder.decode() {
                Ok(None) => break None,
                Ok(Some(arguments)) => {
                    execute(shared, state, &mut client, arguments, reply);
                    if client.next.is_some() {
                        break client.next.take();
                    }
                    if reply.is_full() {
                        // Noticed by the caller, who closes: there is no whole answer.
                        break None;
                    }
                    if shared.thread.is_busy() {
                        *has_waiting = true;
                        break None;
                    }
                }
                Err(error) => {
                    if let Some(text) = error.reply() {
                        state.statistics.answer(&text);
                        reply.error(&text);
                    }
                    break Some(Next::Close);
                }
            }
        };
        client.query_bytes = decoder.buffered_bytes();
        state.clients.insert(*id, client);
        persistence::settle(shared, state);
        next
    }

    /// Writes all replies, unless killed meanwhile.
    async fn write_out(&mut self) -> io::Result<()> {
        self.shared.thread.goes_on().await;
        let Connection { shared, id, stream, reply, written, signal, .. } = self;
        let mut signalled = pin!(signal.notified());
        let mut writing = pin!(stream.write_all(&reply.bytes()[*written..]));
        std::future::poll_fn(|context: &mut Context<'_>| {
            while signalled.as_mut().poll(context).is_ready() {
                // Mail is of no use any more: what is written here is the last.
                if shared.lock().clients.get(id).is_none_or(|client| client.killed) {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionAborted)));
                }
                signalled.set(signal.notified());
            }
            writing.as_mut().poll(context)
        })
        .await?;
        self.reply.clear();
        self.written = 0;
        Ok(())
    }
}

/// Puts a client's mail behind its replies.
fn take(client: &mut Client, reply: &mut ReplyEncoder) {
    if !client.mailbox.bytes().is_empty() {
        reply.bytes_mut().extend_from_slice(client.mailbox.bytes());
        client.mailbox.clear();
    }
}

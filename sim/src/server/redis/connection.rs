//! One client's connection: read what has come, execute all of it, write all
//! replies at once.
//!
//! Reading goes on while a slow reader's replies wait, as in Redis; what waits is
//! bounded, and who exceeds the bound is closed.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::codec::{ReplyEncoder, RequestDecoder};
use super::command::execute;
use super::observe::Origin;
use super::replication::leader;
use super::state::{Client, Next, Position, Shared};

/// Above this an idle reply buffer gives its memory back.
const KEPT_BYTES: usize = 64 * 1024;

/// Serves a connection until either side ends it.
pub(super) async fn serve(shared: Arc<Shared>, id: u64, stream: Stream) {
    let peer = stream.peer_addr();
    let client = Client::new(id, Origin::Client(peer), peer, shared.host.monotonic());
    let killed = client.kill.clone();
    if !enter(&shared, client) {
        refuse(stream).await;
        return;
    }
    let mut connection = Connection {
        decoder: RequestDecoder::new(shared.settings.requests),
        shared: shared.clone(),
        id,
        stream,
        reply: ReplyEncoder::default(),
        written: 0,
        killed,
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
    Killed,
}

struct Connection {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    decoder: RequestDecoder,
    reply: ReplyEncoder,
    /// How much of the replies the kernel has.
    written: usize,
    killed: Arc<Notify>,
}

impl Connection {
    async fn run(&mut self) -> io::Result<End> {
        loop {
            match self.event().await? {
                Event::Killed | Event::Read(0) => return Ok(End::Closed),
                Event::Wrote(count) => self.note_written(count),
                Event::Read(_) => {
                    if let Some(end) = self.serve_requests().await? {
                        return Ok(end);
                    }
                }
            }
            let limit = self.shared.settings.output_limit_bytes;
            if self.reply.is_full() || self.reply.bytes().len() - self.written > limit {
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
        let Connection { stream, decoder, reply, written, killed, .. } = self;
        let mut killed = pin!(killed.notified());
        std::future::poll_fn(|context: &mut Context<'_>| {
            if killed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Killed));
            }
            let rest = &reply.bytes()[*written..];
            if !rest.is_empty()
                && let Poll::Ready(count) = Pin::new(&mut *stream).poll_write(context, rest)
            {
                return Poll::Ready(count.map(Event::Wrote));
            }
            pin!(stream.read_buf(decoder.buffer_mut())).poll(context).map_ok(Event::Read)
        })
        .await
    }

    /// Executes everything that has arrived.
    async fn serve_requests(&mut self) -> io::Result<Option<End>> {
        loop {
            match self.execute_batch() {
                None => return Ok(None),
                Some(Next::Abort) => return Ok(Some(End::Closed)),
                Some(Next::Close) => {
                    self.write_out().await?;
                    return Ok(Some(End::Closed));
                }
                Some(Next::Follow(position)) => {
                    self.write_out().await?;
                    return Ok(Some(End::Follow(position)));
                }
                Some(Next::Wait { replicas, offset, timeout }) => {
                    self.write_out().await?;
                    if let Some(end) = self.wait(replicas, offset, timeout).await? {
                        return Ok(Some(end));
                    }
                }
            }
        }
    }

    /// Executes commands until there are no more, or one has a sequel.
    fn execute_batch(&mut self) -> Option<Next> {
        let Connection { shared, id, decoder, reply, written, .. } = self;
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(mut client) = state.clients.remove(id) else {
            return Some(Next::Close);
        };
        client.active_at = shared.host.monotonic();
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
                }
                Err(error) => {
                    if let Some(text) = error.reply() {
                        reply.error(&text);
                    }
                    break Some(Next::Close);
                }
            }
        };
        client.query_bytes = decoder.buffered_bytes();
        state.clients.insert(*id, client);
        next
    }

    /// Writes all replies, unless killed meanwhile.
    async fn write_out(&mut self) -> io::Result<()> {
        let Connection { stream, reply, written, killed, .. } = self;
        let mut killed = pin!(killed.notified());
        let mut writing = pin!(stream.write_all(&reply.bytes()[*written..]));
        std::future::poll_fn(|context: &mut Context<'_>| {
            if killed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionAborted)));
            }
            writing.as_mut().poll(context)
        })
        .await?;
        self.reply.clear();
        self.written = 0;
        Ok(())
    }

    /// `WAIT`: answers once enough replicas have acknowledged, or the time is over.
    async fn wait(
        &mut self,
        replicas: usize,
        offset: u64,
        timeout: Option<Duration>,
    ) -> io::Result<Option<End>> {
        self.set_blocked(true);
        let shared = self.shared.clone();
        let acknowledgements = shared.lock().replication.acknowledgements.clone();
        let mut sleep = timeout.map(|timeout| shared.host.sleep(timeout));
        let mut killed = pin!(self.killed.notified());
        let stream = &mut self.stream;
        let killed = loop {
            let mut acknowledged = pin!(acknowledgements.notified());
            // Registered before the count is taken, so that none is missed.
            acknowledged.as_mut().enable();
            if shared.lock().replication.acknowledged(offset) >= replicas {
                break false;
            }
            let event = std::future::poll_fn(|context: &mut Context<'_>| {
                if killed.as_mut().poll(context).is_ready()
                    || stream.poll_peer_closed(context).is_ready()
                {
                    return Poll::Ready(Some(true));
                }
                if acknowledged.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                match &mut sleep {
                    Some(sleep) => sleep.as_mut().poll(context).map(|()| Some(false)),
                    None => Poll::Pending,
                }
            })
            .await;
            if let Some(ended) = event {
                break ended;
            }
        };
        self.set_blocked(false);
        let (count, is_replica) = {
            let state = shared.lock();
            (state.replication.acknowledged(offset), state.is_replica())
        };
        if killed {
            if is_replica {
                self.reply.error(
                    b"UNBLOCKED force unblock from blocking operation, instance state changed \
                      (master -> replica?)",
                );
                self.stream.write_all(self.reply.bytes()).await?;
            }
            return Ok(Some(End::Closed));
        }
        self.reply.integer(count as i64);
        Ok(None)
    }

    fn set_blocked(&self, blocked: bool) {
        if let Some(client) = self.shared.lock().clients.get_mut(&self.id) {
            client.blocked = blocked;
        }
    }
}

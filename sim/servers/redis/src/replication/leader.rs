//! A master's side of a replica's link.
//!
//! Order of things: the answer to `PSYNC` (continue, or the whole data set), then
//! for as long as the link lives: what is in the replica's output buffer goes out
//! while the gate is open, what the replica acknowledges comes in.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::sync::Notify;

use super::super::blocking;
use super::super::codec::number::parse_integer;
use super::super::codec::{RequestDecoder, append_command};
use super::super::rdb;
use super::super::state::{Client, Position, Shared, random_id};
use super::Replica;

/// Serves a connection that asked to follow, until it ends.
pub(in super::super) async fn serve(
    shared: Arc<Shared>,
    client: Client,
    stream: Stream,
    decoder: RequestDecoder,
    position: Position,
) {
    let wake = Arc::new(Notify::new());
    let continues = attach(&shared, &client, &position, &wake);
    if !continues {
        if !shared.settings.sync_delay.is_zero() {
            shared.host.sleep(shared.settings.sync_delay).await;
        }
        snapshot(&shared, client.id, position.is_old);
    }
    let id = client.id;
    let mut link = Link {
        shared: shared.clone(),
        id,
        stream,
        decoder,
        wake,
        chunk: Vec::new(),
        written: 0,
        was_stalled: false,
    };
    // However it ends, it ends: the replica will come again.
    let _ = link.run().await;
    let mut state = shared.lock();
    state.replication.replicas.remove(&id);
}

/// Enters the replica. True if it can go on from its position.
fn attach(shared: &Shared, client: &Client, position: &Position, wake: &Arc<Notify>) -> bool {
    let mut state = shared.lock();
    let state = &mut *state;
    if state.replication.backlog.is_none() {
        // The first replica begins a history, as in Redis.
        state.replication.backlog = Some(Default::default());
        if !state.is_replica() {
            state.replication.id = random_id(&shared.host);
            state.replication.previous = None;
        }
    }
    let mut replica = Replica {
        ip: client.announced_ip.clone().unwrap_or_else(|| client.peer.ip().to_string()),
        port: client.listening_port,
        output: Vec::new(),
        in_hand: 0,
        acked: 0,
        heard_at: shared.host.monotonic(),
        online: false,
        wake: wake.clone(),
        closing: false,
        is_old: position.is_old,
    };
    let Some(continuation) = state.replication.continuation(position) else {
        // Its output begins with a snapshot; until then nothing is for it.
        replica.closing = true;
        state.replication.replicas.insert(client.id, replica);
        return false;
    };
    replica.output.extend_from_slice(b"+CONTINUE ");
    replica.output.extend_from_slice(state.replication.id.as_bytes());
    replica.output.extend_from_slice(b"\r\n");
    replica.output.extend_from_slice(&continuation);
    replica.acked = position.from.map_or(0, |from| from.saturating_sub(1));
    replica.online = true;
    state.replication.partial_syncs += 1;
    state.replication.replicas.insert(client.id, replica);
    shared.note_held(state);
    true
}

/// Puts the whole data set, as of this instant, before what will follow.
fn snapshot(shared: &Shared, id: u64, is_old: bool) {
    let mut state = shared.lock();
    let state = &mut *state;
    let replication = &mut state.replication;
    replication.full_syncs += 1;
    // The replica begins with database 0: the next write must name its own.
    replication.selected = None;
    let file = rdb::write(state);
    let replication = &mut state.replication;
    let Some(replica) = replication.replicas.get_mut(&id) else { return };
    replica.closing = false;
    let mut number = itoa::Buffer::new();
    if !is_old {
        replica.output.extend_from_slice(b"+FULLRESYNC ");
        replica.output.extend_from_slice(replication.id.as_bytes());
        replica.output.push(b' ');
        replica.output.extend_from_slice(number.format(replication.offset).as_bytes());
        replica.output.extend_from_slice(b"\r\n");
    }
    replica.output.push(b'$');
    replica.output.extend_from_slice(number.format(file.len()).as_bytes());
    replica.output.extend_from_slice(b"\r\n");
    replica.output.extend_from_slice(&file);
    shared.note_held(state);
}

struct Link {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    decoder: RequestDecoder,
    wake: Arc<Notify>,
    /// Taken from the output buffer, on its way to the kernel.
    chunk: Vec<u8>,
    written: usize,
    /// The gate was stalled when output was last to be taken.
    was_stalled: bool,
}

enum Event {
    Read(usize),
    Wrote(usize),
    Woken,
}

impl Link {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            if !self.refill() {
                return Ok(());
            }
            match self.event().await? {
                Event::Read(0) => return Ok(()),
                Event::Read(_) => self.listen()?,
                Event::Wrote(count) => self.note_written(count),
                Event::Woken => {}
            }
        }
    }

    /// Takes what is to be written once the last of it was. False: close.
    fn refill(&mut self) -> bool {
        let mut state = self.shared.lock();
        let limit = self.shared.settings.replica_output_limit_bytes;
        let Some(replica) = state.replication.replicas.get_mut(&self.id) else { return false };
        if replica.closing || replica.output.len() > limit {
            return false;
        }
        self.was_stalled = self.shared.gate.is_stalled();
        if self.written == self.chunk.len() && !self.was_stalled {
            self.chunk.clear();
            self.written = 0;
            std::mem::swap(&mut self.chunk, &mut replica.output);
            replica.in_hand = self.chunk.len();
            // Everything that came before has reached the kernel.
            replica.online = replica.online || self.chunk.is_empty();
        }
        true
    }

    fn note_written(&mut self, count: usize) {
        self.written += count;
        let left = self.chunk.len() - self.written;
        if let Some(replica) = self.shared.lock().replication.replicas.get_mut(&self.id) {
            replica.in_hand = left;
        }
    }

    /// The next thing that can be done. Writing comes first: replication should not
    /// wait for acknowledgements.
    async fn event(&mut self) -> io::Result<Event> {
        let Link { shared, stream, decoder, wake, chunk, written, was_stalled, .. } = self;
        let mut woken = pin!(wake.notified());
        // Before the gate is looked at, so that no opening is missed.
        let mut opened = pin!(shared.gate.opened());
        if *was_stalled && !shared.gate.is_stalled() {
            // Another thread has opened it since: what waits is to be taken now.
            return Ok(Event::Woken);
        }
        let mut goes_on = pin!(shared.thread.changed());
        let is_silent = shared.thread.is_silent();
        let has_output = *written < chunk.len() && !is_silent;
        std::future::poll_fn(|context: &mut Context<'_>| {
            // Also while the gate is open: it may have been stalled when output was to be
            // taken, and this is who tells that it is not any more.
            if opened.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Woken));
            }
            if is_silent && goes_on.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Woken));
            }
            if has_output
                && !shared.gate.is_stalled()
                && let Poll::Ready(count) =
                    Pin::new(&mut *stream).poll_write(context, &chunk[*written..])
            {
                return Poll::Ready(count.map(Event::Wrote));
            }
            if woken.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Woken));
            }
            pin!(stream.read_buf(decoder.buffer_mut())).poll(context).map_ok(Event::Read)
        })
        .await
    }

    /// What the replica says: how far it is. Everything else is ignored.
    fn listen(&mut self) -> io::Result<()> {
        let now = self.shared.host.monotonic();
        while let Some(arguments) = self.decoder.decode().map_err(io::Error::other)? {
            let is_ack = arguments.len() == 3
                && arguments[0].eq_ignore_ascii_case(b"replconf")
                && arguments[1].eq_ignore_ascii_case(b"ack");
            let mut state = self.shared.lock();
            let Some(replica) = state.replication.replicas.get_mut(&self.id) else {
                return Ok(());
            };
            replica.heard_at = now;
            if is_ack
                && let Some(offset) = parse_integer(&arguments[2])
                && let Ok(offset) = u64::try_from(offset)
            {
                // Who acknowledges has loaded the data set.
                replica.online = true;
                replica.acked = replica.acked.max(offset);
                blocking::serve_acknowledged(&mut state);
            }
        }
        Ok(())
    }
}

/// What a master does for its links besides, once a tick: pings in the stream, and
/// an end to replicas that are silent for too long.
pub(in super::super) fn tend(shared: &Shared, ping: bool) {
    let mut state = shared.lock();
    let now = shared.host.monotonic();
    let state = &mut *state;
    let timeout = state.replication_timeout(&shared.settings);
    for replica in state.replication.replicas.values_mut() {
        if replica.online && !replica.is_old && now.saturating_sub(replica.heard_at) > timeout {
            replica.close();
        }
    }
    if ping && !state.is_replica() && !state.replication.replicas.is_empty() {
        let mut bytes = Vec::new();
        append_command(&mut bytes, [&b"PING"[..]]);
        shared.feed(state, &bytes);
    }
}

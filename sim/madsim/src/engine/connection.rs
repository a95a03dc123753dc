//! What the kernels at both ends know of a connection: what was read, written, closed.
//!
//! An error is told once, to whoever reads or writes first; after it a reader finds the end
//! of the stream and a writer a broken pipe, as on Linux.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use lockstorm_sim::engine::world::NodeId;
use madsim::net::Sender;
use tokio::io::ReadBuf;

use super::core::Effects;

/// What a direction may have written and not yet been read, bytes.
pub(super) const WINDOW_BYTES: usize = 64 * 1024;
/// The same in segments: small ones cost their kernel more than their bytes.
pub(super) const WINDOW_SEGMENTS: usize = 4_096;

/// A connection and one of its sides: 0 connected, 1 listened.
pub(super) type Place = (u64, usize);

/// One end, as its kernel keeps it.
pub(super) struct End {
    pub(super) node: NodeId,
    /// The machine's life in which this end exists.
    pub(super) life: u32,
    /// Whether a program still holds the socket.
    pub(super) held: bool,
    /// Whether the connection is over at this end, other than by both closes.
    pub(super) broken: bool,
    error: Option<io::ErrorKind>,
    /// The way to the other end.
    pub(super) wire: Option<Sender>,
    unread: VecDeque<Bytes>,
    peer_finished: bool,
    /// Written here and not yet read there: bytes, segments.
    outstanding: (usize, usize),
    /// Sent here and not yet arrived there.
    pub(super) under_way: u32,
    /// Whether something that was sent here has met nobody, and the kernel sends it again.
    pub(super) repeats: bool,
    pub(super) finished: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    watcher: Option<Waker>,
}

impl End {
    /// One that a program holds, if there is a way to the other end.
    pub(super) fn new(node: NodeId, life: u32, wire: Option<Sender>) -> End {
        End {
            node,
            life,
            held: wire.is_some(),
            broken: false,
            error: None,
            wire,
            unread: VecDeque::new(),
            peer_finished: false,
            outstanding: (0, 0),
            under_way: 0,
            repeats: false,
            finished: false,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// Whether there is something that the program has not read.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    fn is_full(&self) -> bool {
        self.outstanding.0 >= WINDOW_BYTES || self.outstanding.1 >= WINDOW_SEGMENTS
    }

    /// The connection is over at this end; what was received can still be read.
    pub(super) fn break_with(&mut self, kind: io::ErrorKind, effects: &mut Effects) {
        if !self.broken {
            self.broken = true;
            // Who knows that the peer is done learns that his pipe is broken (tcp_reset).
            let is_known_end = self.peer_finished && !self.finished;
            self.error = Some(match kind {
                io::ErrorKind::ConnectionReset if is_known_end => io::ErrorKind::BrokenPipe,
                kind => kind,
            });
        }
        for waker in [&mut self.reader, &mut self.writer, &mut self.watcher] {
            effects.wake(waker);
        }
    }

    /// The machine died: nothing of this end remains.
    pub(super) fn forget(&mut self, effects: &mut Effects) {
        self.unread.clear();
        self.held = false;
        self.wire = None;
        self.break_with(io::ErrorKind::ConnectionReset, effects);
    }

    /// Bytes have arrived. False if no program is there to read them.
    pub(super) fn take_data(&mut self, bytes: Bytes, effects: &mut Effects) -> bool {
        if !self.held || self.broken {
            return false;
        }
        self.unread.push_back(bytes);
        effects.wake(&mut self.reader);
        true
    }

    /// The peer's close has arrived.
    pub(super) fn take_end(&mut self, effects: &mut Effects) {
        self.peer_finished = true;
        effects.wake(&mut self.reader);
        effects.wake(&mut self.watcher);
    }
}

/// Both ends.
pub(super) struct Connection {
    pub(super) ends: [End; 2],
    /// The connecting end's port, and the listening end's.
    pub(super) ports: [u16; 2],
}

impl Connection {
    /// Whether neither end needs it any more.
    pub(super) fn is_over(&self) -> bool {
        let is_done = |end: &End| {
            let is_sent = end.under_way == 0 && !end.repeats;
            !end.held && (end.broken || (end.finished && is_sent))
        };
        self.ends.iter().all(is_done)
            && (self.ends.iter().any(|end| end.broken)
                || self.ends.iter().all(|end| end.peer_finished))
    }

    /// Reads what is there.
    pub(super) fn poll_read(
        &mut self,
        side: usize,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        effects: &mut Effects,
    ) -> Poll<io::Result<()>> {
        let [first, second] = &mut self.ends;
        let (end, peer) = if side == 0 { (first, second) } else { (second, first) };
        let was_full = peer.is_full();
        let before = buffer.filled().len();
        while let Some(bytes) = end.unread.front_mut() {
            let count = bytes.len().min(buffer.remaining());
            if count == 0 {
                break;
            }
            buffer.put_slice(&bytes.split_to(count));
            peer.outstanding.0 = peer.outstanding.0.saturating_sub(count);
            if !bytes.has_remaining() {
                end.unread.pop_front();
                peer.outstanding.1 = peer.outstanding.1.saturating_sub(1);
            }
        }
        if buffer.filled().len() > before {
            if was_full {
                effects.wake(&mut peer.writer);
            }
            if end.unread.is_empty() && (end.peer_finished || end.broken) {
                effects.wake(&mut end.watcher);
            }
            return Poll::Ready(Ok(()));
        }
        if buffer.remaining() == 0 || end.peer_finished {
            return Poll::Ready(Ok(()));
        }
        match (end.error.take(), end.broken) {
            (Some(kind), _) => Poll::Ready(Err(kind.into())),
            (None, true) => Poll::Ready(Ok(())),
            (None, false) => wait(&mut end.reader, context),
        }
    }

    /// How many bytes the window takes, and counts them.
    pub(super) fn poll_room(
        &mut self,
        side: usize,
        wanted: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let end = &mut self.ends[side];
        if end.broken || end.finished {
            let kind = end.error.take().unwrap_or(io::ErrorKind::BrokenPipe);
            return Poll::Ready(Err(kind.into()));
        }
        if wanted == 0 {
            return Poll::Ready(Ok(0));
        }
        if end.is_full() {
            return wait(&mut end.writer, context);
        }
        let count = wanted.min(WINDOW_BYTES - end.outstanding.0);
        end.outstanding.0 += count;
        end.outstanding.1 += 1;
        Poll::Ready(Ok(count))
    }

    /// Ready once the peer's close or reset has arrived and nothing is to be read before it.
    pub(super) fn poll_peer_closed(&mut self, side: usize, context: &mut Context<'_>) -> Poll<()> {
        let end = &mut self.ends[side];
        if (end.peer_finished || end.broken) && end.unread.is_empty() {
            return Poll::Ready(());
        }
        wait(&mut end.watcher, context)
    }
}

/// Has the caller woken later.
pub(super) fn wait<T>(place: &mut Option<Waker>, context: &Context<'_>) -> Poll<T> {
    if !place.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
        *place = Some(context.waker().clone());
    }
    Poll::Pending
}

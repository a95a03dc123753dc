//! Connections as programs use them: opening, reading, writing, closing.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::ReadBuf;

use super::{Connection, Content, EPHEMERAL_FIRST, End, Network, Segment, WINDOW_BYTES};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::world::{NodeId, World};

/// A connection, its generation, and one of its sides.
pub(in crate::engine::event) type Place = (u32, u32, u8);

/// How far connecting has come, as the connecting end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::event) enum Handshake {
    SynSent,
    Established,
    Failed(io::ErrorKind),
}

impl End {
    fn new(node: NodeId, life: u32, held: bool) -> Self {
        End {
            node,
            life,
            held,
            left_at_us: 0,
            broken: false,
            error: None,
            heard_at_us: 0,
            probing: None,
            probings: 0,
            user_timeout_us: None,
            expected: 0,
            early: Default::default(),
            unread: Default::default(),
            peer_finished: false,
            reader: None,
            watcher: None,
            numbered: 0,
            outstanding: 0,
            outstanding_segments: 0,
            full_since_us: None,
            undelivered: Default::default(),
            retransmission: None,
            retransmissions: 0,
            last_arrival_us: 0,
            finished: false,
            writer: None,
        }
    }

    /// The connection is over at this end; what was received can still be read.
    pub(super) fn break_with(&mut self, kind: io::ErrorKind, effects: &mut Effects) {
        if !self.broken {
            self.broken = true;
            // tcp_reset: who knows that the peer is done learns that his pipe is broken.
            let is_known_end = self.peer_finished && !self.finished;
            self.error = Some(match kind {
                io::ErrorKind::ConnectionReset if is_known_end => io::ErrorKind::BrokenPipe,
                kind => kind,
            });
        }
        self.full_since_us = None;
        self.retransmission = None;
        self.undelivered.clear();
        self.early.clear();
        effects.wake(self.reader.take());
        effects.wake(self.writer.take());
        effects.wake(self.watcher.take());
    }

    /// The machine died: nothing of this end remains.
    pub(super) fn forget(&mut self, effects: &mut Effects) {
        self.unread.clear();
        self.held = false;
        self.break_with(io::ErrorKind::ConnectionReset, effects);
    }
}

impl Connection {
    /// Whether neither end needs it any more.
    pub(super) fn is_over(&self) -> bool {
        self.ends
            .iter()
            .all(|end| !end.held && (end.broken || (end.finished && end.undelivered.is_empty())))
            && (self.ends[0].broken
                || self.ends[1].broken
                || self.ends.iter().all(|end| end.peer_finished))
    }
}

impl Network {
    pub(super) fn connection(&self, index: u32, generation: u32) -> Option<&Connection> {
        self.connections[index as usize]
            .as_ref()
            .filter(|connection| connection.generation == generation)
    }

    pub(super) fn connection_mut(
        &mut self,
        index: u32,
        generation: u32,
    ) -> Option<&mut Connection> {
        self.connections[index as usize]
            .as_mut()
            .filter(|connection| connection.generation == generation)
    }

    pub(super) fn remove(&mut self, index: u32) {
        if self.connections[index as usize].take().is_some() {
            self.generations[index as usize] += 1;
            self.free.push(index);
        }
    }

    pub(super) fn remove_if_over(&mut self, index: u32, generation: u32) {
        if self.connection(index, generation).is_some_and(Connection::is_over) {
            self.remove(index);
        }
    }

    /// Begins to connect.
    pub(in crate::engine::event) fn open(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        from: NodeId,
        to: NodeId,
        port: u16,
        effects: &mut Effects,
    ) -> (u32, u32) {
        let ephemeral = &mut self.ephemeral[from.index()];
        let local = *ephemeral;
        *ephemeral = ephemeral.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.connections.push(None);
                self.generations.push(0);
                (self.connections.len() - 1) as u32
            }
        };
        let generation = self.generations[index as usize];
        let lives = (self.lives[from.index()], self.lives[to.index()]);
        self.connections[index as usize] = Some(Connection {
            generation,
            handshake: Handshake::SynSent,
            ports: [local, port],
            ends: [End::new(from, lives.0, true), End::new(to, lives.1, false)],
            connector: None,
            listener: None,
        });
        self.send_syn(queue, world, (index, generation, 0), effects);
        (index, generation)
    }

    /// Whether the handshake is done; keeps the waker while it is not.
    pub(in crate::engine::event) fn poll_connect(
        &mut self,
        (index, generation): (u32, u32),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(connection) = self.connection_mut(index, generation) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        match connection.handshake {
            Handshake::SynSent => {
                connection.connector = Some(context.waker().clone());
                Poll::Pending
            }
            Handshake::Established => Poll::Ready(Ok(())),
            Handshake::Failed(kind) => Poll::Ready(Err(kind.into())),
        }
    }

    /// The addresses of this end and of the other.
    pub(in crate::engine::event) fn addresses(
        &self,
        (index, generation, side): Place,
    ) -> [SocketAddr; 2] {
        [side, 1 - side].map(|side| match self.connection(index, generation) {
            Some(connection) => {
                let side = usize::from(side);
                (World::address(connection.ends[side].node), connection.ports[side]).into()
            }
            None => SocketAddr::from(([0, 0, 0, 0], 0)),
        })
    }

    /// Reads what is there.
    pub(in crate::engine::event) fn poll_read(
        &mut self,
        (index, generation, side): Place,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        effects: &mut Effects,
    ) -> Poll<io::Result<()>> {
        let Some(connection) = self.connection_mut(index, generation) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let [first, second] = &mut connection.ends;
        let (end, peer) = if side == 0 { (first, second) } else { (second, first) };
        let (mut taken, mut segments) = (0, 0);
        while let Some(bytes) = end.unread.front_mut() {
            let count = bytes.len().min(buffer.remaining());
            if count == 0 {
                break;
            }
            buffer.put_slice(&bytes[..count]);
            bytes.advance(count);
            taken += count;
            if bytes.is_empty() {
                end.unread.pop_front();
                segments += 1;
            }
        }
        if taken > 0 {
            let was_full = peer.is_full();
            peer.outstanding = peer.outstanding.saturating_sub(taken);
            peer.outstanding_segments = peer.outstanding_segments.saturating_sub(segments);
            if was_full {
                peer.full_since_us = None;
                effects.wake(peer.writer.take());
            }
            if end.unread.is_empty() && (end.peer_finished || end.broken) {
                effects.wake(end.watcher.take());
            }
            return Poll::Ready(Ok(()));
        }
        if buffer.remaining() == 0 || end.peer_finished {
            return Poll::Ready(Ok(()));
        }
        if let Some(kind) = end.error.take() {
            return Poll::Ready(Err(kind.into()));
        }
        if end.broken {
            return Poll::Ready(Ok(()));
        }
        keep(&mut end.reader, context);
        Poll::Pending
    }

    /// Hands bytes to the kernel, as many as the window takes.
    pub(in crate::engine::event) fn poll_write(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        bytes: &[u8],
        context: &mut Context<'_>,
        effects: &mut Effects,
    ) -> Poll<io::Result<usize>> {
        let Some(connection) = self.connection_mut(index, generation) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let end = &mut connection.ends[usize::from(side)];
        if end.broken || end.finished {
            let kind = end.error.take().unwrap_or(io::ErrorKind::BrokenPipe);
            return Poll::Ready(Err(kind.into()));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if end.is_full() {
            keep(&mut end.writer, context);
            return Poll::Pending;
        }
        let count = bytes.len().min(WINDOW_BYTES - end.outstanding);
        end.outstanding += count;
        end.outstanding_segments += 1;
        if end.is_full() {
            end.full_since_us = Some(world.now_us());
            self.watch_window(queue, world.now_us(), (index, generation, side));
        }
        let segment = Segment::Data(Bytes::copy_from_slice(&bytes[..count]));
        self.send_segment(queue, world, (index, generation, 1 - side), segment, effects);
        Poll::Ready(Ok(count))
    }

    /// Closes the sending direction.
    pub(in crate::engine::event) fn shutdown(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        if end.finished || end.broken {
            return;
        }
        end.finished = true;
        self.send_segment(queue, world, (index, generation, 1 - side), Segment::Fin, effects);
    }

    /// The program lets go of its socket.
    pub(in crate::engine::event) fn close(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        place: Place,
        effects: &mut Effects,
    ) {
        let (index, generation, side) = place;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let handshake = connection.handshake;
        let end = &mut connection.ends[usize::from(side)];
        if !end.held {
            return;
        }
        end.held = false;
        end.left_at_us = world.now_us();
        let has_unread = !end.unread.is_empty();
        if side == 0 && handshake != Handshake::Established {
            // Nothing was agreed: a late SYN-ACK will be answered with a reset, and the
            // timer that would repeat the SYN takes the connection away.
            end.broken = true;
            if handshake == Handshake::Failed(io::ErrorKind::TimedOut) {
                // That was its last.
                self.remove(index);
            }
            return;
        }
        if has_unread {
            self.reset(queue, world, place, effects);
        } else {
            self.shutdown(queue, world, place, effects);
            self.remove_if_over(index, generation);
        }
    }

    /// Closes abortively.
    pub(in crate::engine::event) fn reset(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        end.held = false;
        if !end.broken {
            end.break_with(io::ErrorKind::ConnectionAborted, effects);
            self.send(queue, world, (index, generation, 1 - side), Content::Reset, effects);
        }
        self.remove_if_over(index, generation);
    }

    /// Ready once the peer's close or reset has arrived and nothing is to be read before it.
    pub(in crate::engine::event) fn poll_peer_closed(
        &mut self,
        (index, generation, side): Place,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(connection) = self.connection_mut(index, generation) else {
            return Poll::Ready(());
        };
        let end = &mut connection.ends[usize::from(side)];
        if (end.peer_finished || end.broken) && end.unread.is_empty() {
            return Poll::Ready(());
        }
        keep(&mut end.watcher, context);
        Poll::Pending
    }
}

fn keep(place: &mut Option<Waker>, context: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(context.waker()) => {}
        _ => *place = Some(context.waker().clone()),
    }
}

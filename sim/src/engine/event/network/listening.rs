//! Who listens: ports, and the connections that wait to be accepted.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use super::{EPHEMERAL_FIRST, Listening, Network};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::world::{NodeId, World};

impl Network {
    /// Begins to listen; 0 chooses a free port.
    pub(in crate::engine::event) fn listen(&mut self, node: NodeId, port: u16) -> io::Result<u16> {
        let port = match port {
            0 => (EPHEMERAL_FIRST..=u16::MAX)
                .find(|port| !self.listening.contains_key(&(node, *port)))
                .ok_or(io::ErrorKind::AddrInUse)?,
            port if self.listening.contains_key(&(node, port)) => {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            port => port,
        };
        self.listeners += 1;
        let listening =
            Listening { number: self.listeners, ready: VecDeque::new(), acceptor: None };
        self.listening.insert((node, port), listening);
        Ok(port)
    }

    /// The next connection that is ready.
    pub(in crate::engine::event) fn poll_accept(
        &mut self,
        at: (NodeId, u16),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(u32, u32)>> {
        let Some(listening) = self.listening.get_mut(&at) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match listening.ready.pop_front() {
            Some(ready) => Poll::Ready(Ok(ready)),
            None => {
                listening.acceptor = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Stops listening: what was not accepted is reset.
    pub(in crate::engine::event) fn stop_listening(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        at: (NodeId, u16),
        effects: &mut Effects,
    ) {
        let Some(listening) = self.listening.remove(&at) else { return };
        effects.wake(listening.acceptor);
        for (index, generation) in listening.ready {
            self.reset(queue, world, (index, generation, 1), effects);
        }
    }

    pub(super) fn stop_listening_all(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        node: NodeId,
        effects: &mut Effects,
    ) {
        let all: Vec<_> = self.listening.keys().filter(|(at, _)| *at == node).copied().collect();
        for at in all {
            self.stop_listening(queue, world, at, effects);
        }
    }

    /// Whether the backlog of the connection's listener has no room for it.
    pub(super) fn is_backlog_full(&self, index: u32, generation: u32) -> bool {
        let Some(connection) = self.connection(index, generation) else { return false };
        let at = (connection.ends[1].node, connection.ports[1]);
        let is_known = connection.ends[1].expected > 0;
        !is_known && self.listening.get(&at).is_some_and(|it| self.kernel.is_full(it.ready.len()))
    }

    /// The handshake is complete at the listening end. False if whoever answered the SYN
    /// does not listen any more, for a handshake is its listener's.
    pub(super) fn establish(&mut self, index: u32, generation: u32, effects: &mut Effects) -> bool {
        let Some(connection) = self.connection(index, generation) else { return true };
        let at = (connection.ends[1].node, connection.ports[1]);
        let listener = connection.listener;
        match self.listening.get_mut(&at) {
            Some(listening) if listener == Some(listening.number) => {
                listening.ready.push_back((index, generation));
                effects.wake(listening.acceptor.take());
                if let Some(connection) = self.connection_mut(index, generation) {
                    connection.ends[1].held = true;
                }
                true
            }
            _ => false,
        }
    }
}

//! Connections and listeners in a program's hands: handles into the [`Core`], closed by
//! dropping.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::{Accept, BoxFuture, Keepalive, Listener, Stream, Transport};
use lockstorm_sim::engine::world::{NodeId, World};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::EPHEMERAL_FIRST;
use super::connection::{Place, wait};
use super::core::{Core, Listening};

pub(super) struct Socket {
    core: Arc<Core>,
    /// Node and incarnation.
    owner: (NodeId, u32),
    place: Place,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Socket {
    pub(super) fn stream(core: Arc<Core>, owner: (NodeId, u32), place: Place) -> Stream {
        let addresses = core.with_connection(place, |connection, _| {
            [place.1, 1 - place.1].map(|side| {
                (World::address(connection.ends[side].node), connection.ports[side]).into()
            })
        });
        let [local, peer] = addresses.unwrap_or([SocketAddr::from(([0, 0, 0, 0], 0)); 2]);
        Stream::new(Socket { core, owner, place, local, peer })
    }

    /// Whether the program lives. I/O of a dead incarnation never completes, also in
    /// tasks that were spawned past the host.
    fn is_alive(&self) -> bool {
        self.core.world.is_alive(self.owner.0, self.owner.1)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_alive() {
            return Poll::Pending;
        }
        let read = self.core.with_connection(self.place, |connection, effects| {
            connection.poll_read(self.place.1, context, buffer, effects)
        });
        read.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_alive() {
            return Poll::Pending;
        }
        let Socket { core, place, .. } = &*self;
        core.change(|state, effects| {
            let Some(connection) = state.connections.get_mut(&place.0) else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            let room = connection.poll_room(place.1, bytes.len(), context);
            if let Poll::Ready(Ok(count @ 1..)) = room {
                core.give(state, *place, &bytes[..count], effects);
            }
            room
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_alive() {
            return Poll::Pending;
        }
        let Socket { core, place, .. } = &*self;
        core.change(|state, effects| core.shutdown(state, *place, effects));
        // Of a connection that is over, tokio too says that all is well.
        Poll::Ready(Ok(()))
    }
}

impl Transport for Socket {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()> {
        unless_asked_for(keepalive.is_some(), "keepalive probes")
    }

    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        unless_asked_for(limit.is_some(), "a user timeout")
    }

    fn abort(&mut self) {
        let core = &self.core;
        core.change(|state, effects| core.abort(state, self.place, effects));
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_alive() {
            return Poll::Pending;
        }
        let closed = self.core.with_connection(self.place, |connection, _| {
            connection.poll_peer_closed(self.place.1, context)
        });
        closed.unwrap_or(Poll::Ready(()))
    }
}

/// madsim has no acknowledgements, and so nothing to count silence by. What needs it is
/// refused and never left out in silence.
fn unless_asked_for(is_asked_for: bool, what: &str) -> io::Result<()> {
    match is_asked_for {
        false => Ok(()),
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the engine madsim has no means for {what}; use timeouts of the program's own"),
        )),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let core = &self.core;
        core.change(|state, effects| core.close(state, self.place, effects));
    }
}

/// Begins to listen; 0 chooses a free port.
pub(super) fn listen(core: &Arc<Core>, owner: (NodeId, u32), port: u16) -> io::Result<Listener> {
    let listening = &mut core.lock().listening;
    let is_taken = |port: u16| listening.contains_key(&(owner.0, port));
    let port = match port {
        0 => (EPHEMERAL_FIRST..=u16::MAX).find(|port| !is_taken(*port)),
        port => Some(port).filter(|port| !is_taken(*port)),
    };
    let port = port.ok_or(io::ErrorKind::AddrInUse)?;
    listening.insert((owner.0, port), Listening::default());
    Ok(Listener::new(Listens { core: core.clone(), owner, port }))
}

struct Listens {
    core: Arc<Core>,
    owner: (NodeId, u32),
    port: u16,
}

impl Listens {
    fn is_alive(&self) -> bool {
        self.core.world.is_alive(self.owner.0, self.owner.1)
    }
}

impl Accept for Listens {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(std::future::poll_fn(|context| {
            if !self.is_alive() {
                return Poll::Pending;
            }
            let accepted = {
                let state = &mut *self.core.lock();
                match state.listening.get_mut(&(self.owner.0, self.port)) {
                    None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                    Some(listening) => match listening.ready.pop_front() {
                        Some(id) => Poll::Ready(Ok(id)),
                        None => wait(&mut listening.acceptor, context),
                    },
                }
            };
            accepted.map_ok(|id| Socket::stream(self.core.clone(), self.owner, (id, 1)))
        }))
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        // A crash has taken the port away already, and a new incarnation may have it.
        if self.is_alive() {
            let core = &self.core;
            let at = (self.owner.0, self.port);
            core.change(|state, effects| core.stop_listening(state, at, effects));
        }
    }
}

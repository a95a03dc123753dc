//! Connections in a program's hands: handles into the [`Core`], sendable, closed
//! by dropping.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::{Accept, BoxFuture, Keepalive, Listener, Stream, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::core::Core;
use super::network::Place;
use crate::engine::world::NodeId;

struct Socket {
    core: Arc<Core>,
    /// Node and incarnation.
    owner: (NodeId, u32),
    place: Place,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Socket {
    fn stream(core: Arc<Core>, owner: (NodeId, u32), place: Place) -> Stream {
        let [local, peer] = core.lock().network.addresses(place);
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
        self.core
            .change(|state, effects| state.network.poll_read(self.place, context, buffer, effects))
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
            let network = &mut state.network;
            network.poll_write(&mut state.queue, &core.world, *place, bytes, context, effects)
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
        core.change(|state, effects| {
            state.network.shutdown(&mut state.queue, &core.world, *place, effects);
        });
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
        let core = &self.core;
        let state = &mut *core.lock();
        state.network.set_keepalive(&mut state.queue, core.now_us(), self.place, keepalive);
        Ok(())
    }

    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let core = &self.core;
        let state = &mut *core.lock();
        state.network.set_user_timeout(&mut state.queue, core.now_us(), self.place, limit);
        Ok(())
    }

    fn abort(&mut self) {
        let core = &self.core;
        core.change(|state, effects| {
            state.network.reset(&mut state.queue, &core.world, self.place, effects);
        });
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_alive() {
            return Poll::Pending;
        }
        self.core.lock().network.poll_peer_closed(self.place, context)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let core = &self.core;
        core.change(|state, effects| {
            state.network.close(&mut state.queue, &core.world, self.place, effects);
        });
    }
}

/// A connect under way.
pub(super) struct Connect {
    core: Arc<Core>,
    /// Node and incarnation.
    owner: (NodeId, u32),
    to: NodeId,
    port: u16,
    opened: Option<(u32, u32)>,
}

impl Connect {
    pub(super) fn new(core: Arc<Core>, owner: (NodeId, u32), to: NodeId, port: u16) -> Self {
        Connect { core, owner, to, port, opened: None }
    }
}

impl Future for Connect {
    type Output = io::Result<Stream>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.core.clone();
        let (from, to, port) = (self.owner.0, self.to, self.port);
        if !core.world.is_alive(from, self.owner.1) {
            return Poll::Pending;
        }
        let opened = *self.opened.get_or_insert_with(|| {
            core.change(|state, effects| {
                let network = &mut state.network;
                network.open(&mut state.queue, &core.world, from, to, port, effects)
            })
        });
        let result = core.lock().network.poll_connect(opened, context);
        match result {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                self.opened = None;
                Poll::Ready(Ok(Socket::stream(core, self.owner, (opened.0, opened.1, 0))))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Connect {
    fn drop(&mut self) {
        if let Some((index, generation)) = self.opened {
            let core = &self.core;
            core.change(|state, effects| {
                let place = (index, generation, 0);
                state.network.close(&mut state.queue, &core.world, place, effects);
            });
        }
    }
}

/// Begins to listen.
pub(super) fn listen(core: &Arc<Core>, node: NodeId, port: u16) -> io::Result<Listener> {
    let life = core.world.incarnation(node);
    let port = core.lock().network.listen(node, port)?;
    Ok(Listener::new(Listens { core: core.clone(), node, port, incarnation: life }))
}

struct Listens {
    core: Arc<Core>,
    node: NodeId,
    port: u16,
    incarnation: u32,
}

impl Accept for Listens {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(std::future::poll_fn(|context| {
            if !self.core.world.is_alive(self.node, self.incarnation) {
                return Poll::Pending;
            }
            let at = (self.node, self.port);
            let result = self.core.lock().network.poll_accept(at, context);
            result.map_ok(|(index, generation)| {
                let owner = (self.node, self.incarnation);
                Socket::stream(self.core.clone(), owner, (index, generation, 1))
            })
        }))
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        // A crash has taken the port away already, and a new incarnation may have it.
        if !self.core.world.is_alive(self.node, self.incarnation) {
            return;
        }
        let core = &self.core;
        core.change(|state, effects| {
            let at = (self.node, self.port);
            state.network.stop_listening(&mut state.queue, &core.world, at, effects);
        });
    }
}

//! Listening, as a kernel does it: it completes handshakes and keeps the connections
//! until the program accepts them, also while the program is paused.
//!
//! turmoil completes a handshake when the program accepts. So the accepting is done
//! here by a task that belongs to the host and to no program.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use lockstorm::host::{Accept, BoxFuture, Listener, Stream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use turmoil::net::TcpListener;

use super::network::Network;
use super::socket::{Connection, Socket};
use crate::engine::world::NodeId;

/// Connections that the program has not accepted yet. A SYN that would add to a full
/// backlog is dropped, and repeated by its kernel.
#[derive(Default)]
pub(super) struct Backlog {
    ready: Mutex<VecDeque<(Connection, SocketAddr)>>,
    arrived: Notify,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn push(&self, connection: (Connection, SocketAddr)) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
        self.arrived.notify_one();
    }

    fn pop(&self) -> Option<(Connection, SocketAddr)> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Begins to listen; 0 chooses a free port.
pub(super) async fn listen(
    network: Arc<Network>,
    node: NodeId,
    incarnation: u32,
    port: u16,
) -> io::Result<Listener> {
    let taken = |network: &Network| network.lock().listening.contains_key(&(node, port));
    let mut result = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await;
    // A listener that was dropped in this tick is still being taken down.
    for _ in 0..4 {
        if result.is_ok() || taken(&network) {
            break;
        }
        tokio::task::yield_now().await;
        result = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await;
    }
    let listener = result?;
    let port = listener.local_addr()?.port();
    let backlog = Arc::new(Backlog::default());
    network.lock().listening.insert((node, port), backlog.clone());
    let kernel = tokio::spawn(complete_handshakes(
        network.clone(),
        (node, incarnation),
        listener,
        backlog.clone(),
    ));
    let kernel = kernel.abort_handle();
    Ok(Listener::new(Listening { network, node, incarnation, port, backlog, kernel }))
}

async fn complete_handshakes(
    network: Arc<Network>,
    owner: (NodeId, u32),
    listener: TcpListener,
    backlog: Arc<Backlog>,
) {
    while let Ok((stream, peer)) = listener.accept().await {
        let connection = network.open(stream);
        if !network.world.is_alive(owner.0, owner.1) {
            return network.close(owner, connection.number, connection.stream);
        }
        backlog.push((connection, peer));
    }
}

struct Listening {
    network: Arc<Network>,
    node: NodeId,
    incarnation: u32,
    port: u16,
    backlog: Arc<Backlog>,
    kernel: AbortHandle,
}

impl Accept for Listening {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            let (connection, address) = loop {
                if let Some(ready) = self.backlog.pop() {
                    break ready;
                }
                self.backlog.arrived.notified().await;
            };
            let peer = match address.ip() {
                std::net::IpAddr::V4(ip) => self.network.world.node_at(ip),
                std::net::IpAddr::V6(_) => None,
            };
            let peer = peer.ok_or(io::ErrorKind::AddrNotAvailable)?;
            let owner = (self.node, self.incarnation);
            Ok(Socket::stream(self.network.clone(), owner, (peer, address), connection))
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.kernel.abort();
        let removed = {
            let listening = &mut self.network.lock().listening;
            match listening.get(&(self.node, self.port)) {
                // A crash has taken the port away already, and a new incarnation may
                // have it.
                Some(backlog) if Arc::ptr_eq(backlog, &self.backlog) => {
                    listening.remove(&(self.node, self.port))
                }
                _ => None,
            }
        };
        drop(removed);
        while let Some((Connection { stream, number, .. }, _)) = self.backlog.pop() {
            self.network.send_reset(number);
            self.network.close((self.node, self.incarnation), number, stream);
        }
    }
}

//! Connecting, as a kernel does it.
//!
//! turmoil's own connect fails at once, at no cost of time, when nobody listens, and
//! leaves its local port taken for ever; through a partition likewise. So it is asked
//! only when it can succeed: into a cut, to a dead machine or to a full backlog, a SYN
//! meets silence and is repeated; to a port that nobody listens on, a refusal comes
//! back after a round trip.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockstorm::host::{BoxFuture, Stream};
use turmoil::net::TcpStream;

use super::link;
use super::network::Network;
use super::socket::Socket;
use super::substrate::until;
use crate::engine::world::{NodeId, Touch};

/// What a SYN would meet.
enum Prospect {
    Silence,
    Refusal,
    Handshake,
}

pub(super) async fn connect(
    network: Arc<Network>,
    owner: (NodeId, u32),
    to: NodeId,
    port: u16,
) -> io::Result<Stream> {
    let node = owner.0;
    let mut repeat_us = network.world.now_us();
    for repeats in 0..=network.kernel.syn_repeats() {
        let sent_us = network.world.now_us();
        let prospect = prospect(&network, node, to, port);
        if !matches!(prospect, Prospect::Silence) {
            network.sent(node, to);
        }
        let round_trip_us = match node == to {
            // Never nothing, or a program that tries again at once would try for ever.
            true => network.tick_us,
            false => 2 * network.latency_us(node, to),
        };
        match prospect {
            Prospect::Silence => {}
            Prospect::Refusal => {
                until_open(&network, node, to, sent_us + round_trip_us).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Prospect::Handshake => {
                let address = SocketAddr::from((link::address(to), port));
                match Handshake::new(network.clone(), owner, address).await {
                    Ok(stream) => {
                        let connection = network.open(stream);
                        let to_address = (to, address);
                        let socket = Socket::stream(network.clone(), owner, to_address, connection);
                        // turmoil's handshake is told to the caller as soon as it is
                        // accepted: wait for the way back.
                        until_open(&network, node, to, sent_us + round_trip_us).await;
                        return Ok(socket);
                    }
                    // It died or stopped listening meanwhile: of the first nothing is heard.
                    Err(_) if network.is_silent(to) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        repeat_us += network.kernel.syn_wait_us(repeats);
        if repeat_us > network.world.now_us() {
            until(&network, repeat_us).await;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn prospect(network: &Network, node: NodeId, to: NodeId, port: u16) -> Prospect {
    if node != to && network.is_held(node, to) {
        network.world.touch(Touch::Cut { from: node, to });
        return Prospect::Silence;
    }
    let state = network.lock();
    if state.silent.contains(&to) {
        return Prospect::Silence;
    }
    match state.listening.get(&(to, port)) {
        None => Prospect::Refusal,
        Some(backlog) if network.is_full(backlog.len()) => Prospect::Silence,
        Some(_) => Prospect::Handshake,
    }
}

/// Waits for an answer that leaves the other end on `at_us` at the latest, or as soon
/// as the link lets it through.
async fn until_open(network: &Network, node: NodeId, to: NodeId, at_us: u64) {
    if at_us > network.world.now_us() {
        until(network, at_us).await;
    }
    while node != to && network.is_held(node, to) {
        network.world.touch(Touch::Cut { from: to, to: node });
        let healed = network.healed.notified();
        healed.await;
    }
}

/// turmoil's connect. Dropped after the other end has accepted, but before the caller
/// was told, it closes the connection, where turmoil would leave it half open.
struct Handshake {
    network: Arc<Network>,
    owner: (NodeId, u32),
    connecting: Option<BoxFuture<'static, io::Result<TcpStream>>>,
}

impl Handshake {
    fn new(network: Arc<Network>, owner: (NodeId, u32), address: SocketAddr) -> Self {
        Handshake { network, owner, connecting: Some(Box::pin(TcpStream::connect(address))) }
    }
}

impl Future for Handshake {
    type Output = io::Result<TcpStream>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connecting) = self.connecting.as_mut() else { return Poll::Pending };
        let poll = connecting.as_mut().poll(context);
        if poll.is_ready() {
            self.connecting = None;
        }
        poll
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let Some(mut connecting) = self.connecting.take() else { return };
        // Outside of a run, turmoil's connect has no world to ask.
        if ::turmoil::in_simulation() {
            let poll = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(Ok(stream)) = poll {
                self.network.close(self.owner, self.network.number_socket(), stream);
            }
        }
    }
}

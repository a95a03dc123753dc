//! Our servers and locks as guests in somebody else's turmoil test: a [`Host`] for
//! code that runs inside `turmoil::Builder`'s hosts and clients, without an engine of
//! ours around it.
//!
//! Clocks are the simulation's and true; tasks are the turmoil host's own and die
//! with it; draws are keyed by the seed and the name that the guest is given.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{Accept, BoxFuture, Keepalive, Listener, Machine, Stream, Task, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use super::socket::unless_asked_for;
use crate::draw::Draw;
use crate::engine::clock::WALL_ORIGIN_US;

/// The host called `name` in a turmoil simulation, drawing from `seed`. Use it inside
/// that simulation.
pub fn guest(name: impl Into<String>, seed: u64) -> Host {
    Host::new(Guest { name: name.into(), seed, draws: Mutex::default() })
}

struct Guest {
    name: String,
    seed: u64,
    draws: Mutex<BTreeMap<&'static str, Draw>>,
}

impl Machine for Guest {
    fn name(&self) -> &str {
        &self.name
    }

    fn monotonic(&self) -> Duration {
        // Outside of the simulation there is no time; its start is as good as any.
        turmoil::sim_elapsed().unwrap_or_default()
    }

    fn wall(&self) -> Duration {
        Duration::from_micros(WALL_ORIGIN_US.unsigned_abs()) + self.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        let handle = tokio::spawn(future).abort_handle();
        Task::new(move || handle.abort())
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        let address = address.to_owned();
        Box::pin(async move {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let peer = stream.peer_addr()?;
                    Ok(Stream::new(Socket { stream, peer }))
                }
                Err(error) => {
                    // turmoil's failures cost no time: who retries at once would never
                    // let the simulation go on.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    Err(error)
                }
            }
        })
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        Box::pin(async move {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
            let port = listener.local_addr()?.port();
            Ok(Listener::new(Listens { listener, port }))
        })
    }

    fn random(&self, purpose: &'static str) -> u64 {
        let mut draws = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
        draws.entry(purpose).or_insert_with(|| Draw::new(self.seed, purpose, &self.name)).bits()
    }
}

struct Listens {
    listener: TcpListener,
    port: u16,
}

impl Accept for Listens {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            let (stream, peer) = self.listener.accept().await?;
            Ok(Stream::new(Socket { stream, peer }))
        })
    }
}

struct Socket {
    stream: TcpStream,
    peer: SocketAddr,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Transport for Socket {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()> {
        unless_asked_for(keepalive.is_some(), "keepalive probes")
    }

    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        unless_asked_for(limit.is_some(), "a user timeout")
    }

    fn abort(&mut self) {
        // turmoil offers no reset: dropping closes.
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        match self.stream.poll_peek(context, &mut buffer) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

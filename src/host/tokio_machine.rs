//! The production machine: tokio's clocks, timers, tasks and TCP.
//!
//! This is the one place in the crate that may read the real clocks and the
//! operating system's entropy (through the standard library's hasher keys, which is
//! enough for owner names and jitter; it is not a source of secrets).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::{Accept, BoxFuture, Keepalive, Listener, Machine, Stream, Task, Transport};

pub(super) struct TokioMachine {
    name: String,
    /// Where it listens.
    address: IpAddr,
    origin: std::time::Instant,
    keys: RandomState,
    draws: AtomicU64,
}

impl TokioMachine {
    #[expect(clippy::disallowed_methods, reason = "the production clock")]
    pub(super) fn new(name: String, address: IpAddr) -> Self {
        TokioMachine {
            name,
            address,
            origin: std::time::Instant::now(),
            keys: RandomState::new(),
            draws: AtomicU64::new(0),
        }
    }
}

impl Machine for TokioMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the production clock")]
    fn wall(&self) -> Duration {
        // A clock before 1970 is a broken clock; reading it as 1970 keeps leases finite.
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        // A guard may be dropped after its runtime: its release is then left to the
        // lease, where a panic in the drop would take the program down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Task::new(|| ());
        };
        let handle = runtime.spawn(future).abort_handle();
        Task::new(move || handle.abort())
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        let address = address.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect(&address).await?;
            let peer = stream.peer_addr()?;
            Tcp::wrap(stream, peer)
        })
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        let address = self.address;
        Box::pin(async move {
            let listener = TcpListener::bind((address, port)).await?;
            let port = listener.local_addr()?.port();
            Ok(Listener::new(TcpAccept { listener, port }))
        })
    }

    fn random(&self, purpose: &'static str) -> u64 {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        self.keys.hash_one((purpose, draw))
    }
}

struct Tcp {
    stream: TcpStream,
    peer: SocketAddr,
    aborted: bool,
    /// An error that was met while looking for the peer's close. The kernel tells an
    /// error once; it belongs to the next read or write.
    met: Option<io::Error>,
}

impl Tcp {
    fn wrap(stream: TcpStream, peer: SocketAddr) -> io::Result<Stream> {
        // Lock commands are small and wait for their replies: Nagle only adds delay.
        stream.set_nodelay(true)?;
        Ok(Stream::new(Tcp { stream, peer, aborted: false, met: None }))
    }
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "this end was closed abortively")
}

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.aborted {
            return Poll::Ready(Err(aborted()));
        }
        if let Some(error) = self.met.take() {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.aborted {
            return Poll::Ready(Err(aborted()));
        }
        if let Some(error) = self.met.take() {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Transport for Tcp {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.stream);
        if let Some(Keepalive { idle, interval, count }) = keepalive {
            let probes = socket2::TcpKeepalive::new().with_time(idle).with_interval(interval);
            socket.set_tcp_keepalive(&probes.with_retries(count))?;
        }
        socket.set_keepalive(keepalive.is_some())
    }

    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        socket2::SockRef::from(&self.stream).set_tcp_user_timeout(limit)
    }

    #[cfg(not(any(target_os = "android", target_os = "fuchsia", target_os = "linux")))]
    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        match limit {
            None => Ok(()),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this operating system has no TCP user timeout",
            )),
        }
    }

    fn abort(&mut self) {
        // Zero linger turns the close that follows into a reset. Failing here leaves
        // an ordinary close, which is all that can be done for a socket that is gone.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        self.aborted = true;
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.met.is_some() {
            return Poll::Ready(());
        }
        let mut byte = [0u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        match self.stream.poll_peek(context, &mut buffer) {
            Poll::Ready(Ok(0)) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                self.met = Some(error);
                Poll::Ready(())
            }
            // Unread bytes hide the close behind them; readiness will come again.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

struct TcpAccept {
    listener: TcpListener,
    port: u16,
}

impl Accept for TcpAccept {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            // The address is told here: a connection that was reset while it waited is
            // accepted as well, and its socket no longer knows of a peer.
            let (stream, peer) = self.listener.accept().await?;
            Tcp::wrap(stream, peer)
        })
    }
}

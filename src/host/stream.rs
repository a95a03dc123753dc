//! Connections and listeners as locks and servers see them, whatever carries them.
//!
//! [`Stream`] is a struct of ours around a [`Transport`]: tokio's TCP, turmoil's,
//! or the message-level network of the event engine. Reading and writing go through
//! tokio's `AsyncRead` and `AsyncWrite`; the rest is what lock clients and servers
//! need beyond bytes: the peer's address, keepalive, an abortive close, and news of
//! the peer's close without reading.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::BoxFuture;

/// When to probe a peer that says nothing, in Linux's three numbers (tcp(7)).
///
/// The peer's kernel answers probes, not its program: a paused or hanging program
/// keeps its connections, a machine that is gone or cut off loses them after about
/// `idle + interval * count`. The reader is then told [`io::ErrorKind::TimedOut`]. A
/// user timeout ([`Stream::set_user_timeout`]) takes the place of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe (TCP_KEEPIDLE): whole seconds, 1 to 32,767.
    pub idle: Duration,
    /// Time between probes (TCP_KEEPINTVL): whole seconds, 1 to 32,767.
    pub interval: Duration,
    /// Unanswered probes after which the connection is over (TCP_KEEPCNT): 1 to 127.
    pub count: u32,
}

impl Keepalive {
    /// Linux has whole seconds; what it would round or refuse is refused on every machine.
    fn check(&self) -> io::Result<()> {
        for (name, duration) in [("idle", self.idle), ("interval", self.interval)] {
            if duration.subsec_nanos() != 0 || !(1..=32_767).contains(&duration.as_secs()) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("keepalive {name} is {duration:?}; give whole seconds, 1 to 32767"),
                ));
            }
        }
        if !(1..=127).contains(&self.count) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("keepalive count is {}; give 1 to 127", self.count),
            ));
        }
        Ok(())
    }
}

/// The longest user timeout, ms: what Linux takes.
const USER_TIMEOUT_MAX_MS: u128 = i32::MAX as u128;

/// What carries a [`Stream`].
pub trait Transport: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// The address of the other end.
    fn peer_addr(&self) -> SocketAddr;

    /// The address of this end: what the other end has for its peer.
    ///
    /// # Errors
    /// When the connection is over and the transport does not know any more.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Probes an idle peer; `None` turns probing off. The numbers were checked.
    ///
    /// # Errors
    /// When the transport cannot probe.
    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()>;

    /// Sets how long the peer may leave what was sent unacknowledged; `None` leaves it
    /// to the kernel. The number was checked.
    ///
    /// # Errors
    /// When the transport has no such limit.
    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()>;

    /// Closes abortively: the peer sees a reset, unsent bytes are dropped.
    fn abort(&mut self);

    /// Ready once the peer has closed or reset and all its bytes were read, without
    /// consuming the error that the next read or write tells. Transports that cannot know
    /// stay pending.
    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// One end of a connection.
pub struct Stream(Box<dyn Transport>);

impl Stream {
    /// Wraps a transport.
    pub fn new(transport: impl Transport + 'static) -> Self {
        Stream(Box::new(transport))
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr()
    }

    /// The address of this end: what the other end has for its peer.
    ///
    /// # Errors
    /// When the connection is over and the transport does not know any more.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Probes an idle peer as `keepalive` says; `None`, the default, turns probing off.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for numbers that Linux does not take,
    /// [`io::ErrorKind::Unsupported`] where the transport cannot probe.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()> {
        if let Some(keepalive) = keepalive {
            keepalive.check()?;
        }
        self.0.set_keepalive(keepalive)
    }

    /// Ends the connection with [`io::ErrorKind::TimedOut`] once the peer's kernel has
    /// left something that was sent unacknowledged, has had no room for it, or has not
    /// answered keepalive probes for `limit` (Linux's TCP_USER_TIMEOUT). `None`, the
    /// default, leaves it to the kernel: about 15 minutes. Resolution is 1 ms.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for less than 1 ms or more than 24 days,
    /// [`io::ErrorKind::Unsupported`] where the transport has no such limit.
    pub fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        if let Some(limit) = limit
            && !(1..=USER_TIMEOUT_MAX_MS).contains(&limit.as_millis())
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the user timeout is {limit:?}; give 1 ms to 24 days"),
            ));
        }
        self.0.set_user_timeout(limit)
    }

    /// Closes abortively: the peer sees a reset, unsent bytes are dropped.
    pub fn abort(mut self) {
        self.0.abort();
    }

    /// Ready once the peer has closed or reset and all its bytes were read, without
    /// consuming the error that the next read or write tells. Bytes that were not read hide
    /// it: read them, or poll again after reading.
    pub fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_peer_closed(context)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stream").field("peer", &self.peer_addr()).finish()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

/// What stands behind a [`Listener`].
pub trait Accept: Send + Sync {
    /// The port that is listened on.
    fn port(&self) -> u16;

    /// The next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>>;
}

/// A port that is listened on, until this is dropped.
pub struct Listener(Box<dyn Accept>);

impl Listener {
    /// Wraps an acceptor.
    pub fn new(accept: impl Accept + 'static) -> Self {
        Listener(Box::new(accept))
    }

    /// The port that is listened on.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// The next connection.
    ///
    /// # Errors
    /// What the machine says; a listener that failed once may work again.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.0.accept().await
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").field("port", &self.port()).finish()
    }
}

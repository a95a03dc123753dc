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

/// What carries a [`Stream`].
pub trait Transport: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// The address of the other end.
    fn peer_addr(&self) -> SocketAddr;

    /// Probes an idle peer after `idle`; `None` turns probing off.
    ///
    /// # Errors
    /// When the transport cannot probe.
    fn set_keepalive(&mut self, idle: Option<Duration>) -> io::Result<()>;

    /// Closes abortively: the peer sees a reset, unsent bytes are dropped.
    fn abort(&mut self);

    /// Ready once the peer has closed or reset, without consuming bytes. Transports
    /// that cannot know stay pending.
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

    /// Probes an idle peer after `idle`; `None` turns probing off.
    ///
    /// # Errors
    /// When the transport cannot probe.
    pub fn set_keepalive(&mut self, idle: Option<Duration>) -> io::Result<()> {
        self.0.set_keepalive(idle)
    }

    /// Closes abortively: the peer sees a reset, unsent bytes are dropped.
    pub fn abort(mut self) {
        self.0.abort();
    }

    /// Ready once the peer has closed or reset, without consuming bytes.
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

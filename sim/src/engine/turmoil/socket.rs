//! A connection in a program's hands, around turmoil's.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::{Stream, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

use super::network::Network;
use crate::engine::world::NodeId;

/// The most that is sent as one segment, bytes. turmoil's flow control counts
/// segments and not bytes.
const SEGMENT_BYTES: usize = 16 * 1024;

pub(super) struct Socket {
    network: Arc<Network>,
    /// Node and incarnation.
    owner: (NodeId, u32),
    peer: (NodeId, SocketAddr),
    number: u64,
    /// `None` once dropped.
    stream: Option<TcpStream>,
    finished: bool,
    aborted: bool,
}

impl Socket {
    pub(super) fn stream(
        network: Arc<Network>,
        owner: (NodeId, u32),
        peer: (NodeId, SocketAddr),
        (stream, number): (TcpStream, u64),
    ) -> Stream {
        let stream = Some(stream);
        let (finished, aborted) = (false, false);
        Stream::new(Socket { network, owner, peer, number, stream, finished, aborted })
    }

    /// turmoil's stream, as long as its program lives. I/O of a dead incarnation
    /// never completes, also in tasks that were spawned past the host.
    fn living(&mut self) -> Option<&mut TcpStream> {
        match self.network.world.is_alive(self.owner.0, self.owner.1) {
            true => self.stream.as_mut(),
            false => None,
        }
    }

    fn sent(&self) {
        self.network.sent(self.owner.0, self.peer.0);
    }
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "this end was closed abortively")
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.aborted {
            return Poll::Ready(Err(aborted()));
        }
        match self.living() {
            Some(stream) => Pin::new(stream).poll_read(context, buffer),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.aborted {
            return Poll::Ready(Err(aborted()));
        }
        let segment = &bytes[..bytes.len().min(SEGMENT_BYTES)];
        let Some(stream) = self.living() else { return Poll::Pending };
        let poll = Pin::new(stream).poll_write(context, segment);
        if let Poll::Ready(Ok(1..)) = poll {
            self.sent();
        }
        poll
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        let Some(stream) = self.living() else { return Poll::Pending };
        let poll = Pin::new(stream).poll_shutdown(context);
        if poll.is_ready() {
            self.finished = true;
            self.sent();
        }
        poll
    }
}

impl Transport for Socket {
    fn peer_addr(&self) -> SocketAddr {
        self.peer.1
    }

    fn set_keepalive(&mut self, _idle: Option<Duration>) -> io::Result<()> {
        // turmoil has no probes: a silent peer is found by timeouts alone.
        Ok(())
    }

    fn abort(&mut self) {
        // turmoil resets only what has unread data; everything else it closes.
        self.aborted = true;
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.aborted {
            return Poll::Ready(());
        }
        let mut byte = [0u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let Some(stream) = self.living() else { return Poll::Pending };
        match stream.poll_peek(context, &mut buffer) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            // Unread bytes hide the close behind them; the reader will find it.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.network.close(self.owner, self.number, stream);
        }
    }
}

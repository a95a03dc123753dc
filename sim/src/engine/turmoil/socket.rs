//! A connection in a program's hands, around turmoil's.
//!
//! Where turmoil tells the end of a connection otherwise than Linux does, it is mended
//! here: an error is told once, to whoever reads or writes first; after it a reader
//! finds the end of the stream and a writer a broken pipe.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockstorm::host::{Keepalive, Stream, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

use super::breaker::{Breaker, Wait};
use super::network::Network;
use crate::engine::world::NodeId;

/// The most that is sent as one segment, bytes. turmoil's flow control counts
/// segments and not bytes.
const SEGMENT_BYTES: usize = 16 * 1024;

/// turmoil's stream, with its number in the [`Network`] and its mark.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) number: u64,
    pub(super) breaker: Arc<Breaker>,
}

pub(super) struct Socket {
    network: Arc<Network>,
    /// Node and incarnation.
    owner: (NodeId, u32),
    peer: (NodeId, SocketAddr),
    number: u64,
    breaker: Arc<Breaker>,
    /// `None` once dropped.
    stream: Option<TcpStream>,
    finished: bool,
    aborted: bool,
    /// Whether the program has read the end of the stream.
    peer_finished: bool,
    /// Whether the program was told that the connection is broken.
    told: bool,
    /// Whether the last write found no room.
    waits_for_room: bool,
}

impl Socket {
    pub(super) fn stream(
        network: Arc<Network>,
        owner: (NodeId, u32),
        peer: (NodeId, SocketAddr),
        connection: Connection,
    ) -> Stream {
        let Connection { stream, number, breaker } = connection;
        Stream::new(Socket {
            network,
            owner,
            peer,
            number,
            breaker,
            stream: Some(stream),
            finished: false,
            aborted: false,
            peer_finished: false,
            told: false,
            waits_for_room: false,
        })
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

    /// Whether the peer's close is the next thing to read.
    fn has_met_the_end(&mut self) -> bool {
        let mut byte = [0u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        let peek = |stream: &mut TcpStream| stream.poll_peek(&mut context, &mut buffer);
        matches!(self.living().map(peek), Some(Poll::Ready(Ok(0))))
    }

    /// What a reader finds where a connection was reset.
    fn read_broken(&mut self) -> Poll<io::Result<()>> {
        Poll::Ready(match std::mem::replace(&mut self.told, true) || self.peer_finished {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    /// What a writer finds where a connection was reset.
    fn write_broken(&mut self) -> Poll<io::Result<usize>> {
        // Behind a mark waits the FIN of the end that was closed abortively.
        if !self.told && !self.breaker.is_struck() && self.has_met_the_end() {
            self.peer_finished = true;
        }
        let is_told = std::mem::replace(&mut self.told, true);
        Poll::Ready(Err(match is_told || self.peer_finished || self.finished {
            true => io::ErrorKind::BrokenPipe.into(),
            false => io::ErrorKind::ConnectionReset.into(),
        }))
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
        let before = buffer.filled().len();
        let Some(stream) = self.living() else { return Poll::Pending };
        let poll = Pin::new(stream).poll_read(context, buffer);
        let has_read = buffer.filled().len() > before || buffer.remaining() == 0;
        match poll {
            Poll::Ready(Ok(())) if has_read => poll,
            Poll::Ready(Err(_)) => self.read_broken(),
            // What was there before a reset can still be read; a close after it cannot.
            _ if self.breaker.is_struck() => self.read_broken(),
            Poll::Ready(Ok(())) => {
                self.peer_finished = true;
                poll
            }
            Poll::Pending => {
                self.breaker.keep(Wait::Read, context);
                Poll::Pending
            }
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
        if self.breaker.is_struck() {
            return self.write_broken();
        }
        let Some(stream) = self.living() else { return Poll::Pending };
        let poll = Pin::new(stream).poll_write(context, segment);
        if std::mem::replace(&mut self.waits_for_room, poll.is_pending()) && poll.is_ready() {
            self.breaker.has_written();
        }
        match &poll {
            Poll::Ready(Ok(1..)) => self.sent(),
            Poll::Ready(Ok(0)) => {}
            Poll::Ready(Err(_)) => return self.write_broken(),
            Poll::Pending => self.breaker.keep(Wait::Write, context),
        }
        poll
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Of a connection that is over, tokio too says that all is well.
        if self.finished || self.breaker.is_struck() {
            return Poll::Ready(Ok(()));
        }
        let Some(stream) = self.living() else { return Poll::Pending };
        match Pin::new(stream).poll_shutdown(context) {
            Poll::Ready(Ok(())) => {
                self.finished = true;
                self.sent();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Transport for Socket {
    fn peer_addr(&self) -> SocketAddr {
        self.peer.1
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let stream = self.stream.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        stream.local_addr()
    }

    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) -> io::Result<()> {
        unless_asked_for(keepalive.is_some(), "keepalive probes")
    }

    fn set_user_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        unless_asked_for(limit.is_some(), "a user timeout")
    }

    fn abort(&mut self) {
        // turmoil resets only what has unread data; everything else it closes.
        if !std::mem::replace(&mut self.aborted, true) && !self.breaker.is_struck() {
            self.network.send_reset(self.number);
        }
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.aborted || self.breaker.is_struck() {
            return Poll::Ready(());
        }
        let mut byte = [0u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let Some(stream) = self.living() else { return Poll::Pending };
        match stream.poll_peek(context, &mut buffer) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            // Unread bytes hide the close behind them; the reader will find it.
            Poll::Ready(Ok(_)) | Poll::Pending => {
                self.breaker.keep(Wait::PeerClosed, context);
                Poll::Pending
            }
        }
    }
}

/// turmoil's TCP has no timers; what needs one is refused and never left out in silence.
pub(super) fn unless_asked_for(is_asked_for: bool, what: &str) -> io::Result<()> {
    match is_asked_for {
        false => Ok(()),
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("turmoil's TCP has no means for {what}; use timeouts of the program's own"),
        )),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.network.close(self.owner, self.number, stream);
        }
    }
}

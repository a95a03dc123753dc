//! TCP connections.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use lockstorm_ground::Connection;
use tokio::io::ReadBuf;

use crate::AsyncToSocketAddrs;

/// One end of a connection; dropping it closes it.
pub struct TcpStream {
    stream: Box<dyn Connection>,
}

impl TcpStream {
    /// This one stands in for the published one. `lockstorm-sim` asks, and is answered by a
    /// trait of its own where the published one is linked.
    #[doc(hidden)]
    pub fn is_of_lockstorm() -> bool {
        true
    }

    /// Connects from the machine on which the calling code runs.
    ///
    /// # Errors
    /// What the network says: refused, reset, unreachable, timed out; a name that nobody
    /// has; on the thread of a run, that the code belongs to none of its nodes.
    pub async fn connect<A: AsyncToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        let (node, place) = (lockstorm_ground::node(), address.place());
        // Nothing of the address is kept: the future is as sendable as the published one.
        drop(address);
        let stream = node.connect(&place).await?;
        Ok(TcpStream { stream })
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(formatter)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let stream = Pin::new(&mut self.stream);
        ready!(tokio::io::AsyncRead::poll_read(stream, context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        tokio::io::AsyncWrite::poll_write(Pin::new(&mut self.stream), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_flush(Pin::new(&mut self.stream), context)
    }

    /// Closes this direction, as the published one does.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), context)
    }
}

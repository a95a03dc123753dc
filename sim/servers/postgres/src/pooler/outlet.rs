//! Bytes on their way into a stream, and out of it, without waiting for either.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use lockstorm::host::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// From so many bytes on that wait to be written, nothing more is read for them.
pub(super) const FULL: usize = 64 * 1024;

/// What is to be written.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    bytes: Vec<u8>,
    is_unflushed: bool,
}

impl Outlet {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// What has not been written.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Writes what the stream takes. Ready: some of it was written.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut has_written = false;
        while !self.bytes.is_empty() {
            match Pin::new(&mut *stream).poll_write(context, &self.bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.bytes.drain(..count);
                    (has_written, self.is_unflushed) = (true, true);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        if self.is_unflushed && self.bytes.is_empty() {
            match Pin::new(stream).poll_flush(context) {
                Poll::Ready(Ok(())) => self.is_unflushed = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        if has_written { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

/// Reads what is there. Ready with nothing: the other end has closed.
pub(super) fn poll_read(
    stream: &mut Stream,
    input: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut bytes = [0; 4096];
    let mut buffer = ReadBuf::new(&mut bytes);
    Pin::new(stream).poll_read(context, &mut buffer).map_ok(|()| {
        input.extend_from_slice(buffer.filled());
        buffer.filled().len()
    })
}

//! In the place of `src/aio/tokio.rs` of `redis` 1.8, for storms: connections and tasks are those
//! of the machine on which the calling code runs (docs/shims.md). The published file asks tokio
//! for sockets, and there is no way to hand it others. `prepare` tells what else of the crate
//! becomes another: its manifest, and that it has no TLS.
//!
//! The names, and what each function is for, are those of the file in whose place it stands:
//! redis-rs, <https://github.com/redis-rs/redis-rs>, BSD-3-Clause.

use super::{AsyncStream, RedisResult, RedisRuntime, SocketAddr, TaskHandle};
use lockstorm_ground::Connection;
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{self, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(unix)]
use super::Path;

/// A connection of the node's.
pub(crate) struct Tokio(Box<dyn Connection>);

impl AsyncWrite for Tokio {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}

impl AsyncRead for Tokio {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl RedisRuntime for Tokio {
    async fn connect_tcp(
        socket_addr: SocketAddr,
        _: &crate::io::tcp::TcpSettings,
    ) -> RedisResult<Self> {
        Ok(Tokio(lockstorm_ground::node().connect(&socket_addr.to_string()).await?))
    }

    #[cfg(unix)]
    async fn connect_unix(_: &Path) -> RedisResult<Self> {
        Err(io::Error::other("a storm has no Unix sockets").into())
    }

    /// The node's own task, frozen and ended with it. It ends when nobody holds its
    /// connection any more; the handle is that of another, which has nothing to do.
    fn spawn(f: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        lockstorm_ground::node().spawn("redis-driver", Box::pin(f));
        TaskHandle::Tokio(tokio::spawn(std::future::ready(())))
    }

    fn boxed(self) -> Pin<Box<dyn AsyncStream + Send + Sync>> {
        Box::pin(self)
    }
}

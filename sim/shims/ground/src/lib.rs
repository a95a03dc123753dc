//! What the shims stand on: the node whose program runs, on the thread of a simulated run;
//! a real machine everywhere else.
//!
//! It knows no simulator and no lock. An engine says, with [`answer`], who runs on the
//! thread of its run; a shim asks with [`node`]. So the two meet without depending on each
//! other, and a client library that is built on the shims may itself be a dependency of
//! what the engine is built on.
//!
//! The published crates bring a reactor thread of their own, so their users need no
//! runtime. So it is here: outside of a run, sockets and timers are tokio's, on one thread
//! that is started when the first of them is asked for. Whichever executor polls them, with
//! a runtime of its own or without one, is all the same to them.
//!
//! Order of things: what a node offers, who answers, then the two things that shims share:
//! instants and timers.

mod instant;
mod reactor;
mod registry;
mod sleep;

pub use instant::now;
pub use registry::{Answering, Finder, answer, current};
pub use sleep::Sleep;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// A boxed, sendable future.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a machine offers to third-party code that runs on it.
pub trait Node: Send + Sync + 'static {
    /// The monotonic clock: time since an origin of the machine's own.
    fn monotonic(&self) -> Duration;

    /// Completes once `duration` has passed on the machine's monotonic clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<()>;

    /// Runs `future` as a task of this machine. `group` names it for pauses and reports.
    fn spawn(&self, group: &'static str, future: BoxFuture<()>);

    /// Opens a connection to `address`, written `name:port`.
    fn connect(&self, address: &str) -> BoxFuture<io::Result<Box<dyn Connection>>>;
}

/// Both directions of a connection.
pub trait Connection: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin> Connection for T {}

/// The machine that the calling code runs on.
pub fn node() -> Arc<dyn Node> {
    current().unwrap_or_else(reactor::node)
}

//! The machine this code runs on: the one door to clocks, timers, tasks, network
//! and randomness.
//!
//! [`Host`] is one concrete, cloneable handle, so no lock and no server carries a
//! type parameter for it. In production it is tokio's ([`Host::tokio`]); in a storm
//! each engine brings its own [`Machine`].
//!
//! Order of things: the handle, what a machine must offer, then the small values
//! that pass between them ([`Task`], [`Elapsed`]). Streams are in [`stream`].
//!
//! It is not a runtime: it starts nothing and owns no thread.

mod stream;
mod tokio_machine;

pub use stream::{Accept, Keepalive, Listener, Stream, Transport};

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A boxed, sendable future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whether there is anything to do.
pub type HasWork = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a machine offers to the code that runs on it. Implemented by tokio's
/// machine here and by the engines of `lockstorm-sim`.
pub trait Machine: Send + Sync + 'static {
    /// The machine's name on the network, such as `app-1`.
    fn name(&self) -> &str;

    /// The monotonic clock: time since an origin of the machine's own. Never steps.
    fn monotonic(&self) -> Duration;

    /// The wall clock: time since the Unix epoch, as this machine believes it.
    /// May step in either direction.
    fn wall(&self) -> Duration;

    /// Completes once `duration` has passed on the machine's monotonic clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// What [`Host::sleep_while_idle`] does, if this machine can look without waking the task.
    fn sleep_while_idle(
        &self,
        period: Duration,
        has_work: HasWork,
    ) -> Option<BoxFuture<'static, ()>> {
        let _ = (period, has_work);
        None
    }

    /// Runs `future` as a task of this machine. `group` names the task for pauses
    /// and reports (`"renewer"`, `"redis-driver"`).
    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) -> Task;

    /// Opens a connection to `address`, written `name:port`. There is no timeout
    /// but the network's own (about two minutes of unanswered SYNs): callers bring theirs.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>>;

    /// Listens on `port` of this machine; 0 chooses a free one.
    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>>;

    /// Draws 64 random bits. `purpose` keys the draw: in a storm, draws for one
    /// purpose on one machine never move the draws of another.
    fn random(&self, purpose: &'static str) -> u64;
}

/// A handle to the machine this code runs on. Cloning is cheap.
#[derive(Clone)]
pub struct Host(Arc<dyn Machine>);

impl Host {
    /// Wraps a machine.
    pub fn new(machine: impl Machine) -> Self {
        Host(Arc::new(machine))
    }

    /// The production machine: tokio's clocks, tasks and TCP. Must be used inside
    /// a tokio runtime with time and I/O enabled. `name` appears in owner names
    /// and reports; it need not resolve. It listens on loopback: a simulated server is
    /// nothing to expose.
    pub fn tokio(name: impl Into<String>) -> Self {
        Host::tokio_at(name, Ipv4Addr::LOCALHOST.into())
    }

    /// The production machine, listening on `address` instead of loopback: for servers
    /// that other machines are to reach. `0.0.0.0` is every address of this machine.
    pub fn tokio_at(name: impl Into<String>, address: IpAddr) -> Self {
        Host::new(tokio_machine::TokioMachine::new(name.into(), address))
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Time since an origin of the machine's own; see [`Machine::monotonic`].
    pub fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    /// Time since the Unix epoch as this machine believes it; see [`Machine::wall`].
    pub fn wall(&self) -> Duration {
        self.0.wall()
    }

    /// Completes once `duration` has passed on this machine's monotonic clock.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    /// Sleeps for `period`, and again for as long as `has_work` says no after it: what a
    /// task does that looks often and mostly finds nothing. `has_work` changes nothing and
    /// waits for nobody. A simulated machine asks it without waking the task.
    pub fn sleep_while_idle(
        &self,
        period: Duration,
        has_work: impl Fn() -> bool + Send + Sync + 'static,
    ) -> BoxFuture<'static, ()> {
        let has_work: HasWork = Arc::new(has_work);
        self.0.sleep_while_idle(period, has_work.clone()).unwrap_or_else(|| {
            let host = self.clone();
            Box::pin(async move {
                loop {
                    host.sleep(period).await;
                    if has_work() {
                        return;
                    }
                }
            })
        })
    }

    /// Awaits `future` for at most `limit` of this machine's monotonic time.
    ///
    /// # Errors
    /// [`Elapsed`] when the limit passed first. When both are ready at once the
    /// future wins, so a reply that is there is never thrown away.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = std::pin::pin!(future);
        let mut sleep = self.sleep(limit);
        std::future::poll_fn(|context: &mut Context<'_>| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            sleep.as_mut().poll(context).map(|()| Err(Elapsed))
        })
        .await
    }

    /// Runs `future` as a task of this machine; see [`Machine::spawn`].
    pub fn spawn(
        &self,
        group: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        self.0.spawn(group, Box::pin(future))
    }

    /// Opens a connection to `address` (`name:port`).
    ///
    /// # Errors
    /// What the network says: refused, reset, unreachable, or timed out after
    /// about two minutes of silence.
    pub async fn connect(&self, address: &str) -> io::Result<Stream> {
        self.0.connect(address).await
    }

    /// Listens on `port`; 0 chooses a free one.
    ///
    /// # Errors
    /// What the machine says, usually that the port is taken.
    pub async fn listen(&self, port: u16) -> io::Result<Listener> {
        self.0.listen(port).await
    }

    /// Draws 64 random bits for `purpose`; see [`Machine::random`].
    pub fn random(&self, purpose: &'static str) -> u64 {
        self.0.random(purpose)
    }

    /// Draws a duration in `[from, to)`, uniformly; `from` when the range is empty.
    /// Resolution is one microsecond.
    pub fn random_duration(&self, purpose: &'static str, from: Duration, to: Duration) -> Duration {
        let width_us = to.saturating_sub(from).as_micros() as u64;
        if width_us == 0 {
            return from;
        }
        // Multiply-shift: unbiased enough for durations, and no rejection loop that
        // would make the number of draws depend on their values.
        let drawn = (u128::from(self.random(purpose)) * u128::from(width_us)) >> 64;
        from + Duration::from_micros(drawn as u64)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Host").field(&self.name()).finish()
    }
}

/// The limit of [`Host::timeout`] passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time limit passed")]
pub struct Elapsed;

/// A spawned task. Dropping the handle leaves the task running.
pub struct Task {
    abort: Box<dyn Fn() + Send + Sync>,
}

impl Task {
    /// A handle that calls `abort` to stop the task.
    pub fn new(abort: impl Fn() + Send + Sync + 'static) -> Self {
        Task { abort: Box::new(abort) }
    }

    /// Stops the task at its next suspension point. Harmless once it has ended.
    pub fn abort(&self) {
        (self.abort)();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Task")
    }
}

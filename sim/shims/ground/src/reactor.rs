//! The real machine: tokio's, on a thread of the shims' own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Listener, Machine, Stream, Task};
use tokio::runtime::{Builder, Handle};

/// The real machine of this process.
pub(crate) fn host() -> Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| Host::new(Reactor { tokio: Host::tokio("localhost") })).clone()
}

/// The runtime, driven by a thread of its own for as long as the process lives.
///
/// # Panics
/// When the system gives no thread or no poll; the published crates panic there as well.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_current_thread().enable_all().build();
        let runtime = built.expect("the system refuses what sockets and timers need");
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("lockstorm-shims".to_owned());
        let drive = move || runtime.block_on(std::future::pending::<()>());
        thread.spawn(drive).expect("the system refuses a thread for sockets and timers");
        handle
    })
}

struct Reactor {
    tokio: Host,
}

impl Machine for Reactor {
    fn name(&self) -> &str {
        self.tokio.name()
    }

    fn monotonic(&self) -> Duration {
        self.tokio.monotonic()
    }

    fn wall(&self) -> Duration {
        self.tokio.wall()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // A timer belongs to the runtime in which it is made.
        let _entered = runtime().enter();
        self.tokio.sleep(duration)
    }

    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        let _entered = runtime().enter();
        self.tokio.spawn(group, future)
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        let (host, address) = (self.tokio.clone(), address.to_owned());
        Box::pin(Within(Box::pin(async move { host.connect(&address).await })))
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        let host = self.tokio.clone();
        Box::pin(Within(Box::pin(async move { host.listen(port).await })))
    }

    fn random(&self, purpose: &'static str) -> u64 {
        self.tokio.random(purpose)
    }
}

/// A future that is polled within the reactor's runtime, by whoever polls it: a socket
/// belongs to the runtime in which it is made, a name is looked up on its threads.
struct Within<T>(BoxFuture<'static, T>);

impl<T> Future for Within<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let _entered = runtime().enter();
        self.0.as_mut().poll(context)
    }
}

//! The real machine: tokio's, on a thread of the shims' own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};

use crate::{BoxFuture, Connection, Node};

/// The real machine of this process.
pub(crate) fn node() -> Arc<dyn Node> {
    static NODE: OnceLock<Arc<Reactor>> = OnceLock::new();
    NODE.get_or_init(|| Arc::new(Reactor::new())).clone()
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
    origin: std::time::Instant,
}

impl Reactor {
    #[expect(clippy::disallowed_methods, reason = "outside of a run it is the real clock")]
    fn new() -> Reactor {
        Reactor { origin: std::time::Instant::now() }
    }
}

impl Node for Reactor {
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        // A timer belongs to the runtime in which it is made.
        let _entered = runtime().enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _group: &'static str, future: BoxFuture<()>) {
        runtime().spawn(future);
    }

    fn connect(&self, address: &str) -> BoxFuture<io::Result<Box<dyn Connection>>> {
        let address = address.to_owned();
        Box::pin(Within(Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // Small requests that wait for their replies: Nagle only adds delay.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })))
    }
}

/// A future that is polled within the reactor's runtime, by whoever polls it: a socket
/// belongs to the runtime in which it is made, a name is looked up on its threads.
struct Within<T>(BoxFuture<T>);

impl<T> Future for Within<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let _entered = runtime().enter();
        self.0.as_mut().poll(context)
    }
}

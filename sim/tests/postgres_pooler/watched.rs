//! A machine for a pooler, of which a test knows what it waits for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Listener, Machine, Stream, Task};
use lockstorm_sim::server::postgres::pooler::PoolerSettings;
use tokio::sync::watch;

/// Lets the runtime look at its sockets, as it does before a timer ends: what has been sent is
/// known to have arrived.
pub async fn turn() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Waits until something is so, and what was sent by then has arrived; the whole test has a
/// limit.
pub async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        turn().await;
    }
    turn().await;
}

/// How many are at something.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

struct Counted(Count);

impl Count {
    fn enter(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is shut is passed when it is opened.
#[derive(Clone)]
pub struct Gate {
    is_open: Arc<watch::Sender<bool>>,
    at_it: Count,
}

impl Gate {
    pub fn open() -> Gate {
        Gate { is_open: Arc::new(watch::Sender::new(true)), at_it: Count::default() }
    }

    pub fn set(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub async fn pass(&self) {
        let _counted = self.at_it.enter();
        self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
    }

    /// Until somebody is held up.
    pub async fn is_waited_at(&self) {
        until(|| self.at_it.get() > 0).await;
    }
}

/// What is known of a pooler's machine, on which connections wait at a gate.
#[derive(Clone)]
pub struct Watched {
    pub gate: Gate,
    /// Clients who wait for a session.
    waiting: Count,
    /// Connections to the server that came about or did not.
    dialled: Count,
}

struct WatchedMachine {
    host: Host,
    watched: Watched,
    wait_timeout: Duration,
}

impl Watched {
    pub fn new() -> Watched {
        Watched { gate: Gate::open(), waiting: Count::default(), dialled: Count::default() }
    }

    /// The machine of a pooler with these settings.
    pub fn host(&self, settings: &PoolerSettings) -> Host {
        let (host, wait_timeout) = (Host::tokio("pooler-1"), settings.wait_timeout);
        assert_ne!(wait_timeout, settings.connect_timeout, "it tells waits apart");
        Host::new(WatchedMachine { host, watched: self.clone(), wait_timeout })
    }

    /// Until so many clients wait for a session.
    pub async fn waiting(&self, count: usize) {
        until(|| self.waiting.get() == count).await;
    }

    /// Until so many connections to the server came about or did not.
    pub async fn dialled(&self, count: usize) {
        until(|| self.dialled.get() == count).await;
    }
}

impl Machine for WatchedMachine {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn monotonic(&self) -> Duration {
        self.host.monotonic()
    }

    fn wall(&self) -> Duration {
        self.host.wall()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let sleep = self.host.sleep(duration);
        let waits = (duration == self.wait_timeout).then(|| self.watched.waiting.enter());
        Box::pin(async move {
            let _waits = waits;
            sleep.await;
        })
    }

    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        let dialled = (group == "pooler-server").then(|| self.watched.dialled.clone());
        self.host.spawn(group, async move {
            future.await;
            if let Some(dialled) = dialled {
                dialled.0.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        let (host, gate, address) =
            (self.host.clone(), self.watched.gate.clone(), address.to_owned());
        Box::pin(async move {
            gate.pass().await;
            host.connect(&address).await
        })
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        let host = self.host.clone();
        Box::pin(async move { host.listen(port).await })
    }

    fn random(&self, purpose: &'static str) -> u64 {
        self.host.random(purpose)
    }
}

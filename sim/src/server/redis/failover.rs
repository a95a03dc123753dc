//! The failover controller: stands in for Sentinel, one process instead of a quorum.
//!
//! It watches every Redis server it is told of, and when the master has not answered
//! for [`Settings::down_after`] it promotes the reachable replica that has received
//! most, points the others at it, and names it to clients that ask
//! `SENTINEL GET-MASTER-ADDR-BY-NAME`. A former master that comes back is demoted.
//! What real Sentinel is known for is here too: a replica that lags is promoted all
//! the same, and a master that restarts empty before it is missed stays the master.
//!
//! What it is not: it votes with nobody, so it cannot be outvoted; it finds no
//! servers by itself; it has no TILT mode, but after having stood still itself it
//! begins counting anew.
//!
//! Order of things: settings and observer, `client` talks to one server, `view`
//! is what is known of the servers, `probe` keeps it up to date, `switch`
//! replaces masters, `service` answers clients.

mod client;
mod probe;
mod service;
mod switch;
mod view;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;

use view::View;

/// Where sentinels listen.
pub const PORT: u16 = 26_379;

/// What a controller is to do. Make it with [`Settings::new`] and change fields.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port that it answers clients on.
    pub port: u16,
    /// The servers, `name:port`; the first is the master to begin with.
    pub nodes: Vec<String>,
    /// The name under which clients ask for the master.
    pub master_name: String,
    /// A master that has given no valid reply for so long is down.
    pub down_after: Duration,
    /// Between two PINGs to a server.
    pub ping_every: Duration,
    /// Between two INFOs to a server.
    pub info_every: Duration,
    /// A reply that takes longer is lost, and its connection is opened anew.
    pub reply_timeout: Duration,
    /// How long a promoted replica may take to call itself a master.
    pub promotion_timeout: Duration,
    /// What outlives a restart of the controller, as Sentinel's configuration file does.
    pub memory: Memory,
}

impl Settings {
    /// The defaults for these servers: port 26379, master name `mymaster`, down after
    /// 1 s, PING every 100 ms, INFO every 500 ms, replies within 500 ms, promotion
    /// within 5 s.
    pub fn new(nodes: Vec<String>) -> Self {
        Settings {
            port: PORT,
            nodes,
            master_name: "mymaster".to_owned(),
            down_after: Duration::from_secs(1),
            ping_every: Duration::from_millis(100),
            info_every: Duration::from_millis(500),
            reply_timeout: Duration::from_millis(500),
            promotion_timeout: Duration::from_secs(5),
            memory: Memory::default(),
        }
    }
}

/// Which server is the master, kept across restarts of the controller's program.
/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Option<String>>>);

impl Memory {
    /// The address of the last master that was named; `None` before the first failover.
    pub fn master(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, address: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(address.to_owned());
    }
}

/// Whoever watches a controller. Called synchronously; must not call back.
pub trait FailoverObserver: Send + Sync {
    /// The master at `address` is down, as far as the controller can tell.
    fn master_down(&self, address: &str);

    /// From now on clients are told `to` instead of `from`. `to` is a master already.
    fn switched(&self, from: &str, to: &str);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl FailoverObserver for Unobserved {
    fn master_down(&self, _address: &str) {}

    fn switched(&self, _from: &str, _to: &str) {}
}

/// A failover controller on its machine.
pub struct FailoverController {
    shared: Arc<Shared>,
}

/// What the controller's tasks have in common.
struct Shared {
    host: Host,
    settings: Settings,
    observer: Arc<dyn FailoverObserver>,
    view: Mutex<View>,
}

impl Shared {
    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        // Nothing that can panic runs while it is held.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailoverController {
    /// A controller on `host`, watched by `observer`.
    pub fn new(host: Host, settings: Settings, observer: Arc<dyn FailoverObserver>) -> Self {
        let now = host.monotonic();
        let remembered = settings.memory.master();
        let master = settings.nodes.iter().position(|node| Some(node) == remembered.as_ref());
        let view = Mutex::new(View::new(settings.nodes.len(), master.unwrap_or(0), now));
        FailoverController { shared: Arc::new(Shared { host, settings, observer, view }) }
    }

    /// Watches, replaces and answers until it is dropped; its tasks end with it.
    ///
    /// # Errors
    /// When its port cannot be listened on, or there are no servers to watch.
    pub async fn run(&self) -> io::Result<()> {
        let shared = &self.shared;
        if shared.settings.nodes.is_empty() {
            let reason = "a failover controller needs at least one server to watch";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let listener = shared.host.listen(shared.settings.port).await?;
        let mut tasks = Tasks::default();
        for node in 0..shared.settings.nodes.len() {
            let probing = probe::probe(shared.clone(), node);
            tasks.0.push(shared.host.spawn("failover-probe", probing));
        }
        let serving = service::serve(shared.clone(), listener);
        tasks.0.push(shared.host.spawn("failover-service", serving));
        switch::keep_a_master(shared).await;
        Ok(())
    }
}

impl std::fmt::Debug for FailoverController {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FailoverController")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

/// Tasks that end when this is dropped.
#[derive(Default)]
struct Tasks(Vec<Task>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

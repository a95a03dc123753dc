//! The lock `zookeeper-reentrant`: its owner may acquire it again while it holds it, and
//! gives it back as often.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::zookeeper::Options;
//! use lockstorm::lock::zookeeper::reentrant::ReentrantLock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers = ["zk-1:2181", "zk-2:2181", "zk-3:2181"].map(str::to_owned);
//! let options = Options::new(Duration::from_secs(6));
//! let lock = ReentrantLock::new(host.clone(), &servers, options)?;
//!
//! let owner = Owner::unique(&host);
//! let outer = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! let inner = lock.acquire("stock:42", &owner, Duration::ZERO).await?;
//! inner.release().await; // still held
//! println!("{:?}", outer.release().await); // free
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`zookeeper`](super) guarantees, for owners instead of attempts. An owner that holds
//! the key is let in again at once, without asking anybody: all its guards stand on one place
//! and have one token, and the place is given back with the last of them. Guards that have
//! been told of a loss stay lost; their owner then stands in the queue anew.
//!
//! The count is this lock value's own, as in Curator's mutex: an owner acquires and releases
//! through one value.
//!
//! # Takeover
//! As [`zookeeper`](super).
//!
//! # How it is known to fail
//! - In all the ways of [`zookeeper`](super).
//! - **One owner in two places**: two programs that use one owner's name are two holders,
//!   and the second waits for the first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::LOCKS;
use super::held::Held;
use super::names::Kind;
use super::options::{InvalidOptions, Options};
use super::place::Node;
use super::queue::{Queues, grant};
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, GuardBackend, Lock, LockError, Owner, Promises, Release};

/// Who holds what: the key, and the owner.
type Name = (String, Owner);

/// The lock `zookeeper-reentrant`; see the module's text.
#[derive(Debug)]
pub struct ReentrantLock {
    queues: Queues,
    holds: Arc<Mutex<BTreeMap<Name, Hold>>>,
}

/// One place, and how many guards stand on it.
#[derive(Clone, Debug)]
struct Hold {
    shared: Arc<Shared>,
    guards: u32,
}

/// What the guards of one place share.
struct Shared {
    node: Node,
    /// `None` once it is given back.
    held: Mutex<Option<Held>>,
}

impl Shared {
    fn lost(&self) -> Option<String> {
        self.held().as_ref().and_then(GuardBackend::lost)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReentrantLock {
    /// A lock kept at the ensemble of `servers`, each as name:port. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(host: Host, servers: &[String], options: Options) -> Result<Self, InvalidOptions> {
        Ok(ReentrantLock {
            queues: Queues::new(host, servers, options, LOCKS)?,
            holds: Arc::default(),
        })
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let name = (key.to_owned(), owner.clone());
        if let Some(guard) = self.enter_again(&name) {
            return Ok(guard);
        }
        let turned = self.queues.enter(key, owner, Kind::Alone, patience).await?;
        let held = Held::new(turned.place, self.queues.options().command_timeout);
        let shared = Arc::new(Shared { node: turned.node, held: Mutex::new(Some(held)) });
        Ok(self.guard(&name, &shared, 1))
    }

    /// One guard more on a place that is held. A place whose guards are lost is given back:
    /// its owner would wait for itself.
    fn enter_again(&self, name: &Name) -> Option<Guard> {
        let known = holds(&self.holds).get(name).cloned()?;
        if known.shared.lost().is_none() {
            return Some(self.guard(name, &known.shared, known.guards + 1));
        }
        holds(&self.holds).remove(name);
        if let Some(mut held) = known.shared.held().take() {
            // Begun by being dropped: it goes on in the background.
            drop(held.release());
        }
        None
    }

    fn guard(&self, name: &Name, shared: &Arc<Shared>, guards: u32) -> Guard {
        holds(&self.holds).insert(name.clone(), Hold { shared: shared.clone(), guards });
        let (key, owner) = name;
        let held = shared.held();
        // It is there: it was made, or found not to be lost, just now.
        let grant = held.as_ref().map(|held| grant(key, owner, &shared.node, held));
        drop(held);
        let grant = grant.unwrap_or_else(|| nothing(key, owner));
        let inside =
            Inside { holds: self.holds.clone(), name: name.clone(), shared: shared.clone() };
        Guard::new(self.queues.host().clone(), grant, inside)
    }
}

/// A grant of no time at all.
fn nothing(key: &str, owner: &Owner) -> crate::lock::Grant {
    crate::lock::Grant {
        key: key.to_owned(),
        owner: owner.clone(),
        token: None,
        lease: Duration::ZERO,
        margin: Duration::ZERO,
        asked_at: Duration::ZERO,
    }
}

impl Lock for ReentrantLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.queues.options().takeover_bound()
    }

    fn promises(&self) -> Promises {
        self.queues.promises()
    }
}

/// One of an owner's guards.
struct Inside {
    holds: Arc<Mutex<BTreeMap<Name, Hold>>>,
    name: Name,
    shared: Arc<Shared>,
}

impl GuardBackend for Inside {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let mut holds = holds(&self.holds);
        let ours = holds.get_mut(&self.name).filter(|hold| Arc::ptr_eq(&hold.shared, &self.shared));
        let is_lost = self.shared.lost().is_some();
        match ours {
            Some(hold) if hold.guards > 1 => {
                hold.guards -= 1;
                let release = if is_lost { Release::NotHeld } else { Release::Released };
                return Box::pin(std::future::ready(release));
            }
            Some(_) => {
                holds.remove(&self.name);
            }
            None => {}
        }
        drop(holds);
        match self.shared.held().take() {
            Some(mut held) => held.release(),
            None => Box::pin(std::future::ready(Release::NotHeld)),
        }
    }

    fn lost(&self) -> Option<String> {
        match &*self.shared.held() {
            Some(held) => held.lost(),
            None => Some("it was given back: its owner stands in the queue anew".to_owned()),
        }
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        match &*self.shared.held() {
            Some(held) => held.told(),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.shared.held().as_ref().and_then(GuardBackend::deadline)
    }
}

fn holds(holds: &Mutex<BTreeMap<Name, Hold>>) -> std::sync::MutexGuard<'_, BTreeMap<Name, Hold>> {
    holds.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("node", &self.node).finish_non_exhaustive()
    }
}

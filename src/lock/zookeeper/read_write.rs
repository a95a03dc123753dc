//! The locks `zookeeper-read` and `zookeeper-write`: readers hold together, a writer alone.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::zookeeper::Options;
//! use lockstorm::lock::zookeeper::read_write::ReadWriteLock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers = ["zk-1:2181", "zk-2:2181", "zk-3:2181"].map(str::to_owned);
//! let options = Options::new(Duration::from_secs(6));
//! let lock = ReadWriteLock::new(host.clone(), &servers, options)?;
//!
//! let reader = Owner::unique(&host);
//! let reading = lock.read().acquire("stock:42", &reader, Duration::from_secs(2)).await?;
//! println!("{:?}", reading.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`zookeeper`](super) guarantees, with two kinds of places in one queue. A reader
//! waits for the last writer before it and for no reader; a writer for whoever is before it.
//! Nobody is let in before a conflicting request that came earlier, so neither starves the
//! other. The writer's lock is the lock `zookeeper` of the same key: the two exclude each
//! other.
//!
//! Tokens are those of places. A resource that is fenced must know that a reader's token is
//! shared (see [`stock`](crate::stock)'s fence).
//!
//! # Takeover
//! As [`zookeeper`](super).
//!
//! # How it is known to fail
//! - In all the ways of [`zookeeper`](super).
//! - **All readers that wait for one writer are woken by its release**: they are let in
//!   together, and ask the servers together.
//! - **A reader that asks to write while it reads** waits for itself for ever. Give the read
//!   lock back first, and read again under the write lock.

use std::sync::Arc;
use std::time::Duration;

use super::LOCKS;
use super::names::Kind;
use super::options::{InvalidOptions, Options};
use super::queue::Queues;
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, Lock, LockError, Owner, Promises};

/// Two locks in one queue; see the module's text.
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    queues: Arc<Queues>,
}

/// One of the two.
#[derive(Clone, Debug)]
pub struct Side {
    queues: Arc<Queues>,
    kind: Kind,
}

impl ReadWriteLock {
    /// Locks kept at the ensemble of `servers`, each as name:port. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(host: Host, servers: &[String], options: Options) -> Result<Self, InvalidOptions> {
        Ok(ReadWriteLock { queues: Arc::new(Queues::new(host, servers, options, LOCKS)?) })
    }

    /// The lock `zookeeper-read`.
    pub fn read(&self) -> Side {
        Side { queues: self.queues.clone(), kind: Kind::Shared }
    }

    /// The lock `zookeeper-write`.
    pub fn write(&self) -> Side {
        Side { queues: self.queues.clone(), kind: Kind::Alone }
    }
}

impl Lock for Side {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.queues.acquire(key, owner, self.kind, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.queues.options().takeover_bound()
    }

    fn promises(&self) -> Promises {
        self.queues.promises()
    }
}

//! The lock `zookeeper`: an ephemeral sequential node for each attempt; the first in line
//! holds, every other watches the one before it.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::zookeeper::{Options, ZooKeeperLock};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers = ["zk-1:2181", "zk-2:2181", "zk-3:2181"].map(str::to_owned);
//! let lock = ZooKeeperLock::new(host.clone(), &servers, Options::new(Duration::from_secs(6)))?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! // … show guard.token() to the resource with every operation …
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! - **One holder, while sessions live.** The leader orders all places; the holder's is the
//!   first, and is gone only by its release or the end of its session. No failover, clock
//!   step or lost server ends a grant: a majority has every place before it is told.
//! - **First come, first served** ([`Promises::bypass_bound`] is 0), in the order in which
//!   the leader made the places. A release wakes the one behind it and nobody else. A waiter
//!   whose session ends has lost its place, and is told so by an error.
//! - **Tokens that grow** ([`Promises::ordered_tokens`]): a grant's token is the zxid of its
//!   place's creation. They have gaps.
//! - **A lost reply leaves nothing behind.** The place is found again by its mark, and one
//!   that is given up is deleted as often as it takes, in the background.
//! - **A holder is told**, and told what: that its session *expired* (another may be in), or
//!   that it is *suspended*: nobody has confirmed the session for as long as the holder may
//!   rely on it, and it may have expired. See [`Options::margin`]. A lost connection alone
//!   ends nothing.
//!
//! All attempts of one lock value share one session, opened when it is first needed; keep
//! one value a process. Servers refuse more than 60 connections from one address.
//!
//! # Takeover
//! The end of a session is the leader's matter: between its timeout and one and a half ticks
//! more after it last heard of it (Apache ZooKeeper's `SessionTrackerImpl` rounds up to
//! ticks; followers tell of their sessions every half tick). A new leader gives every
//! session its whole timeout anew. A waiter whose server falls silent looks for another after
//! two fifths of its timeout.
//!
//! # How it is known to fail
//! - **A pause longer than the session timeout**, of the holder or of the network around it:
//!   the session ends, the next is let in, and what the holder does between its last check
//!   and its next is unguarded. That is what the token is for.
//! - **A leader whose clock runs fast** ends sessions early, by as much as it gains.
//! - **Two locks in opposite order** by two live sessions wait for each other for ever:
//!   sessions that live never expire.
//! - **A place deleted by hand** lets the next in; its holder is not told until it releases.
//!
//! The recipe is that of the ZooKeeper documentation, "Recipes and Solutions: Locks"; the
//! mark is that of Curator's protected creation.

pub mod election;
mod failure;
mod held;
mod names;
mod options;
mod place;
mod queue;
pub mod read_write;
pub mod reentrant;
mod session;
pub mod switch;

pub use options::{InvalidOptions, Options};

use std::time::Duration;

use self::names::Kind;
use self::queue::Queues;
use super::{Guard, Lock, LockError, Owner, Promises};
use crate::host::{BoxFuture, Host};

/// The folder of all locks under the options' root.
const LOCKS: &str = "locks";

/// The lock `zookeeper`; see the module's text.
#[derive(Debug)]
pub struct ZooKeeperLock {
    queues: Queues,
}

impl ZooKeeperLock {
    /// A lock kept at the ensemble of `servers`, each as name:port. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(host: Host, servers: &[String], options: Options) -> Result<Self, InvalidOptions> {
        Ok(ZooKeeperLock { queues: Queues::new(host, servers, options, LOCKS)? })
    }
}

impl Lock for ZooKeeperLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.queues.acquire(key, owner, Kind::Alone, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.queues.options().takeover_bound()
    }

    fn promises(&self) -> Promises {
        self.queues.promises()
    }
}

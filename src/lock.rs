//! The lock as its user sees it: acquire, hold a [`Guard`], release.
//!
//! A lock here is a *lease*: a promise that ends by itself. What a user must know
//! of any grant is therefore when its own deadline passes ([`Guard::check`]), and
//! which [`FencingToken`] to show to the resource, because no check on the client's
//! side can cover a pause between the check and the write.
//!
//! Order of things: names of holders, tokens, errors, the [`Lock`] trait and what a lock
//! [`Promises`] beyond it, the guard.
//! Backends are modules of their own.

mod guard;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use guard::{Grant, Guard, GuardBackend, Release};

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::{BoxFuture, Host};

/// Who holds, or wants, a lock: unique to one attempt, so that a late release by
/// an earlier attempt of the same client can never free a later one's grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// An owner of this exact name. The caller vouches that it is unique among
    /// all attempts of all clients.
    pub fn named(name: impl Into<String>) -> Self {
        Owner(name.into())
    }

    /// An owner nobody else has: the machine's name and 128 random bits.
    pub fn unique(host: &Host) -> Self {
        let (high, low) = (host.random("owner"), host.random("owner"));
        Owner(format!("{}:{high:016x}{low:016x}", host.name()))
    }

    /// The name, as written into the lock's record; of
    /// [`redlock`](crate::lock::redis::redlock) in the round that was won, which may have added
    /// its number ([`OWNER_NUMBER_SEPARATOR`](crate::lock::redis::OWNER_NUMBER_SEPARATOR)).
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A number that grows with each grant of a lock; a resource that remembers the
/// largest it has seen can refuse an older holder (Kleppmann, "How to do
/// distributed locking", 2016). How far it can be trusted to grow is a property
/// of its source; see each backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl fmt::Display for FencingToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Why an acquire, or a held lock, did not go as wished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds the lock and the caller was not ready to wait.
    #[error("somebody else holds the lock")]
    Busy,
    /// Somebody else held the lock for as long as the caller was ready to wait.
    #[error("somebody else held the lock for the whole wait")]
    TimedOut,
    /// The request was sent and its reply never came: the lock may be held in this
    /// owner's name until its lease ends. Not held, as far as the caller may act.
    #[error("no reply: the lock may be held in our name until its lease ends ({reason})")]
    Indeterminate {
        /// What went wrong, for people.
        reason: String,
    },
    /// The lock was held and is no longer: its lease ran out by the holder's own
    /// clock, or the backend said so.
    #[error("the lock is lost: {reason}")]
    Lost {
        /// What went wrong, for people.
        reason: String,
    },
    /// The backend could not be asked, or refused: certainly not held.
    #[error("the lock's backend failed: {reason}")]
    Backend {
        /// What went wrong, for people.
        reason: String,
    },
}

/// A distributed lock.
pub trait Lock: Send + Sync {
    /// Tries to take the lock `key` for `owner`, waiting up to `patience` (of the
    /// host's monotonic time) while somebody else holds it. A patience of zero asks once.
    ///
    /// # Errors
    /// Any [`LockError`] but `Lost`. After `Indeterminate` the backend has been
    /// asked, as a best effort, to forget the attempt.
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>>;

    /// How long, after every fault has healed, a lock whose holder died may stay
    /// closed to a waiter that keeps asking.
    fn takeover_bound(&self) -> Duration;

    /// What it promises beyond mutual exclusion, for whoever judges it: nothing, unless
    /// it says so.
    fn promises(&self) -> Promises {
        Promises::default()
    }
}

/// What a lock promises beyond mutual exclusion. Breaking one of these is a violation;
/// where nothing is promised the same is at most remarkable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Every grant's fencing token is larger than that of the grant before, whatever
    /// happens to the backend. A counter on a server that may lose its latest writes does
    /// not promise it.
    pub ordered_tokens: bool,
    /// How often a waiter may be passed over by requests that reached the backend after
    /// its own. `None`: as often as it happens.
    pub bypass_bound: Option<u32>,
    /// How long, after every fault has healed, a holder may go on without being told that
    /// its grant is lost. `None`: until its own deadline, or for ever.
    pub loss_notice_bound: Option<Duration>,
}

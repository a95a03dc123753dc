//! The lock `redis`: one record in one Redis, `SET key owner NX PX lease`, released
//! by a script that deletes the record only while it still names the owner.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::{Endpoint, Fencing, Options, RedisLock};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::Direct("redis-1:6379".to_owned());
//! let options = Options { fencing: Fencing::Counter, ..Options::new(Duration::from_secs(10)) };
//! let lock = RedisLock::new(host.clone(), endpoint, options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! guard.check()?; // still ours, as far as we can know
//! // … show guard.owner() and guard.token() to the resource with every operation …
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! As long as the Redis it talks to neither loses an acknowledged write nor runs its
//! wall clock fast by more than the margin allows, no two owners hold a key at the
//! same time, where *hold* means: from the grant until [`Guard::check`] says that the
//! lease is over. Every outcome is told apart: granted, busy, refused, and
//! *indeterminate*, when a request was sent and its reply never came.
//!
//! # Takeover
//! A holder that dies keeps others out until its lease ends; a waiter that keeps
//! asking then gets in within [`Lock::takeover_bound`]: the lease, one retry, and
//! four command timeouts (a command on a connection that turns out dead, asking a
//! sentinel, connecting, the command); with sentinels as many more as there are (the
//! server's role, and those that are dead). How long a failover takes is not in it.
//!
//! # How it is known to fail
//! - **Replication lag.** Replication is asynchronous: a failover to a replica that
//!   has not received the record forgets the grant, and a second owner is granted
//!   while the first still believes. The same for a master that restarts empty.
//! - **A pause beyond the lease**, between the check and the write: the holder acts
//!   after its lease. No lock can prevent this; a fence at the resource can.
//! - **Clocks.** Redis expires by its wall clock: a clock that steps forward, or runs
//!   faster than the margin allows, ends leases early.
//! - **A request that arrives late.** After `Indeterminate` the record may still be
//!   written when the network heals; it stays for one lease unless the best-effort
//!   release, which is sent after it on the same connection, arrives too.
//! - **A release heard by a demoted master** finds no record there and says
//!   `NotHeld`; the record that the new master may have stays for its lease.
//! - **Tokens** ([`Fencing::Counter`]) are kept in the same Redis and go back with it:
//!   after an asynchronous failover two owners can be given the same token. A
//!   resource must therefore tell equal tokens apart by their owners, as
//!   [`crate::stock::Fence`] does.
//!
//! # The family
//! The other locks on Redis stand on the same parts and are modules of their own, each
//! with its guarantee, its takeover bound and the ways in which it is known to fail:
//! [`watchdog`] renews the lease while its holder lives, [`redlock`] asks several
//! independent servers, [`wait`] waits for replicas before it grants, [`sentinel`] asks
//! once more who is the master, [`reentrant`] lets its owner in again, [`fair`] grants in
//! order of arrival.
//!
//! Order of things: options and endpoint (what may be configured), the connection
//! and how commands fail, scripts, the records at one Redis and what can be done to
//! them (`records`), the waiting (`patience`), and here the lock `redis`.

pub(crate) mod connection;
mod endpoint;
pub(crate) mod failure;
pub mod fair;
mod options;
mod patience;
mod records;
pub mod redlock;
pub mod reentrant;
mod renewal;
mod script;
pub mod sentinel;
mod together;
mod unsettled;
pub mod wait;
pub mod watchdog;

/// What stands between an owner and the number of its name in a record, where one attempt may
/// have to write more than one ([`redlock`], in its later rounds, and in its first for an owner
/// whose own name has one): `app-1/3#2`. A request that the network held up names the number that
/// it was sent for, and does nothing to a later one.
pub const OWNER_NUMBER_SEPARATOR: char = '#';

pub use endpoint::Endpoint;
pub use options::{Credentials, Fencing, InvalidOptions, Options};

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::failure::Failure;
use self::patience::until_granted;
use self::records::{Records, Taken};
use super::{Guard, GuardBackend, Lock, LockError, Owner, Release};
use crate::host::{BoxFuture, Host};

/// The lock `redis`; see the module's text for what it guarantees and how it fails.
///
/// One value serves all keys and all tasks of a program over one connection, which
/// is opened at the first use and again after it fails.
#[derive(Debug)]
pub struct RedisLock {
    records: Arc<Records>,
}

impl RedisLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(host: Host, endpoint: Endpoint, options: Options) -> Result<Self, InvalidOptions> {
        Ok(RedisLock { records: Records::new(host, endpoint, options)? })
    }

    /// The options in use: as given, the lease in whole milliseconds.
    pub fn options(&self) -> &Options {
        self.records.options()
    }
}

impl Lock for RedisLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(guarded(&self.records, key, owner, patience, || self.records.take(key, owner)))
    }

    fn takeover_bound(&self) -> Duration {
        self.records.takeover_bound()
    }
}

/// Tries until granted, as [`until_granted`] does; the guard is of one record, which nobody
/// renews.
async fn guarded<F>(
    records: &Arc<Records>,
    key: &str,
    owner: &Owner,
    patience: Duration,
    take: impl FnMut() -> F,
) -> Result<Guard, LockError>
where
    F: Future<Output = Result<Option<Taken>, Failure>>,
{
    let taken = until_granted(records.host(), records.options().retry, patience, take).await?;
    let record = Record { records: records.clone(), key: key.to_owned(), owner: owner.clone() };
    Ok(Guard::new(records.host().clone(), records.grant(key, owner, taken), record))
}

/// The record behind a guard that nobody renews.
struct Record {
    records: Arc<Records>,
    key: String,
    owner: Owner,
}

impl GuardBackend for Record {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        Records::releasing(&self.records, &self.key, &self.owner)
    }
}

#[cfg(test)]
mod tests;

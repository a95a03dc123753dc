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
//! sentinel, connecting, the command). How long a failover takes is not in it.
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
//! Order of things: options and endpoint (what may be configured), the connection
//! and how commands fail, scripts, and here the acquire loop and the release.

mod connection;
mod endpoint;
mod failure;
mod options;
mod script;

pub use endpoint::Endpoint;
pub use options::{Credentials, Fencing, InvalidOptions, Options};

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use self::connection::{Connection, Live};
use self::failure::Failure;
use self::script::Scripts;
use super::{FencingToken, Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};
use crate::host::{BoxFuture, Host};

/// The lock `redis`; see the module's text for what it guarantees and how it fails.
///
/// One value serves all keys and all tasks of a program over one connection, which
/// is opened at the first use and again after it fails.
#[derive(Debug)]
pub struct RedisLock {
    shared: Arc<Shared>,
}

/// What the lock, its guards and its best-effort releases have in common.
#[derive(Debug)]
struct Shared {
    host: Host,
    options: Options,
    connection: Connection,
    scripts: Scripts,
}

/// How one try went, when the server answered.
enum Answer {
    Granted { token: Option<FencingToken>, asked_at: Duration },
    Busy,
}

impl RedisLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(host: Host, endpoint: Endpoint, options: Options) -> Result<Self, InvalidOptions> {
        let options = options.checked()?;
        endpoint.check()?;
        let connection = Connection::new(host.clone(), endpoint, &options);
        Ok(RedisLock {
            shared: Arc::new(Shared { host, options, connection, scripts: Scripts::new() }),
        })
    }

    /// The options in use: as given, the lease in whole milliseconds.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Tries until granted, refused, indeterminate, or out of patience.
    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let shared = &self.shared;
        let began = shared.host.monotonic();
        let mut was_busy = false;
        loop {
            let failure = match shared.try_once(key, owner).await {
                Ok(Answer::Granted { token, asked_at }) => {
                    return Ok(shared.guard(key, owner, token, asked_at));
                }
                Ok(Answer::Busy) => {
                    was_busy = true;
                    None
                }
                Err(failure) => {
                    if !failure.may_pass() {
                        return Err(failure.into());
                    }
                    Some(failure)
                }
            };
            let left = patience.saturating_sub(shared.host.monotonic().saturating_sub(began));
            if left.is_zero() {
                return Err(match failure {
                    Some(failure) if !was_busy => failure.into(),
                    _ if patience.is_zero() => LockError::Busy,
                    _ => LockError::TimedOut,
                });
            }
            let retry = shared.options.retry;
            // Jitter parts waiters that were turned away together.
            let wait = shared.host.random_duration("lock-retry", retry / 2, retry);
            shared.host.sleep(wait.min(left)).await;
        }
    }
}

impl Lock for RedisLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let options = &self.shared.options;
        options.lease + options.retry + 4 * options.command_timeout
    }
}

impl Shared {
    /// Asks for the record once. If this is dropped, or fails, when the request may
    /// have been sent, one best-effort release of the owner is spawned.
    async fn try_once(self: &Arc<Self>, key: &str, owner: &Owner) -> Result<Answer, Failure> {
        let live = self.connection.ready().await?;
        let mut unsettled = Unsettled {
            shared: self.clone(),
            live: Some(live.clone()),
            key: key.to_owned(),
            owner: owner.clone(),
        };
        // Before the request is sent: the lease cannot have begun earlier.
        let asked_at = self.host.monotonic();
        let reply = self.connection.run(&live, self.request(&live, key, owner)).await;
        let answer = reply.and_then(|value| self.read_answer(value, asked_at));
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            unsettled.live = None;
        }
        answer
    }

    /// The request that takes the record, and with [`Fencing::Counter`] the token.
    async fn request(&self, live: &Live, key: &str, owner: &Owner) -> RedisResult<Value> {
        let mut multiplexed = live.multiplexed();
        let lease_ms = self.options.lease_ms();
        match self.options.fencing {
            Fencing::None => {
                redis::cmd("SET")
                    .arg(key)
                    .arg(owner.as_str())
                    .arg("NX")
                    .arg("PX")
                    .arg(lease_ms)
                    .query_async(&mut multiplexed)
                    .await
            }
            Fencing::Counter => {
                self.scripts
                    .acquire
                    .key(key)
                    .key(script::token_key(key))
                    .arg(owner.as_str())
                    .arg(lease_ms)
                    .invoke_async(&mut multiplexed)
                    .await
            }
        }
    }

    fn read_answer(&self, value: Value, asked_at: Duration) -> Result<Answer, Failure> {
        match (self.options.fencing, value) {
            (_, Value::Nil) => Ok(Answer::Busy),
            (Fencing::None, Value::Okay) => Ok(Answer::Granted { token: None, asked_at }),
            (Fencing::Counter, Value::Int(token)) if token > 0 => {
                let token = Some(FencingToken(token.unsigned_abs()));
                Ok(Answer::Granted { token, asked_at })
            }
            // Something was done that we do not understand; the lease ends it.
            (_, other) => Err(Failure::NoReply {
                reason: format!("an answer that makes no sense: {other:?}"),
            }),
        }
    }

    fn guard(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
        token: Option<FencingToken>,
        asked_at: Duration,
    ) -> Guard {
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token,
            lease: self.options.lease,
            margin: self.options.margin,
            asked_at,
        };
        let record = Record { shared: self.clone(), key: key.to_owned(), owner: owner.clone() };
        Guard::new(self.host.clone(), grant, record)
    }

    /// Deletes the record if it still names `owner`.
    async fn release(&self, key: &str, owner: &Owner) -> Release {
        let mut released = self.release_once(key, owner).await;
        if matches!(&released, Err(failure) if failure.is_read_only()) {
            // Refused by a master that was demoted meanwhile: nothing happened, and a
            // new connection may find the new one.
            released = self.release_once(key, owner).await;
        }
        match released {
            Ok(true) => Release::Released,
            Ok(false) => Release::NotHeld,
            Err(failure) => Release::Indeterminate { reason: failure.to_string() },
        }
    }

    async fn release_once(&self, key: &str, owner: &Owner) -> Result<bool, Failure> {
        let live = self.connection.ready().await?;
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.scripts.release.key(key);
        let request = invocation.arg(owner.as_str()).invoke_async::<i64>(&mut multiplexed);
        Ok(self.connection.run(&live, request).await? == 1)
    }

    /// Takes an unanswered request back, as a best effort: on the connection it went
    /// out on, where the release cannot overtake it, or, if that has broken, on
    /// another, which may still find the record.
    async fn take_back(&self, live: Arc<Live>, key: &str, owner: &Owner) -> Result<(), Failure> {
        let live = if live.is_open() { live } else { self.connection.ready().await? };
        let mut multiplexed = live.multiplexed();
        let command = script::release_in_one(key, owner.as_str());
        let request = command.query_async::<i64>(&mut multiplexed);
        self.connection.run(&live, request).await.map(drop)
    }
}

/// The record behind a guard.
struct Record {
    shared: Arc<Shared>,
    key: String,
    owner: Owner,
}

impl GuardBackend for Record {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (shared, key, owner) = (self.shared.clone(), self.key.clone(), self.owner.clone());
        Box::pin(async move { shared.release(&key, &owner).await })
    }
}

/// A request that may have been sent and whose answer is not known. Dropping it
/// armed, be it for want of a reply or because the caller lost interest, spawns one
/// best-effort release.
struct Unsettled {
    shared: Arc<Shared>,
    /// The connection the request went to; `None` once the answer is known.
    live: Option<Arc<Live>>,
    key: String,
    owner: Owner,
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let (shared, key, owner) = (self.shared.clone(), self.key.clone(), self.owner.clone());
        self.shared.host.spawn("release", async move {
            let _ = shared.take_back(live, &key, &owner).await;
        });
    }
}

#[cfg(test)]
mod tests;

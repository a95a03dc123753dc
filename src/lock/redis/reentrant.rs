//! The lock `redis-reentrant`: its owner may acquire it again while it holds it, and gives
//! it back as often. The record is a hash, owner → count; who waits is woken by a message.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::reentrant::ReentrantLock;
//! use lockstorm::lock::redis::{Endpoint, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::Direct("redis-1:6379".to_owned());
//! let lock = ReentrantLock::new(host.clone(), endpoint, Options::new(Duration::from_secs(10)))?;
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
//! What [`redis`](super) guarantees, for owners instead of attempts: an owner that holds the
//! key is let in again at once, with a whole lease for all its guards, and the key is free
//! after as many releases as acquires. A release by anybody else changes nothing and says
//! `NotHeld`. An acquire or release that is not answered is set right by saying how many
//! holds are left, never by counting down: it is the same once or twice.
//!
//! An owner acquires and releases one at a time, and through one lock value, which knows
//! how many guards it has out.
//!
//! # Takeover
//! As [`redis`](super), with a poll every ten retries instead of every retry: a release
//! wakes the waiters, the end of a dead holder's lease does not. While it waits, a waiter
//! has a connection of its own, on which it listens.
//!
//! # How it is known to fail
//! - In all the ways of [`redis`](super).
//! - **A message that is lost** (a connection that breaks, a failover) costs a waiter the
//!   time to its next poll.
//! - **One owner in two places**: two programs that use one owner's name are one holder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Script, Value};

use super::connection::Live;
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, Options};
use super::patience::until_woken;
use super::records::{Records, Taken};
use super::script;
use super::unsettled::Unsettled;
use crate::host::{BoxFuture, Host};
use crate::lock::{FencingToken, Guard, GuardBackend, Lock, LockError, Owner, Release};

/// A waiter that is listened for polls so many times more seldom.
const POLLS: u32 = 10;

/// The lock `redis-reentrant`; see the module's text.
#[derive(Debug)]
pub struct ReentrantLock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    records: Arc<Records>,
    enter: Script,
    leave: Script,
    /// What this lock's owners hold, by key and owner.
    holds: Mutex<BTreeMap<(String, Owner), Hold>>,
}

/// What an owner holds of a key.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// How many guards are out.
    guards: u64,
    /// The end of the lease on the host's monotonic clock, margin taken off.
    deadline: Duration,
}

impl ReentrantLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(host: Host, endpoint: Endpoint, options: Options) -> Result<Self, InvalidOptions> {
        let records = Records::new(host, endpoint, options)?;
        let (enter, leave) = (Script::new(script::ENTER), Script::new(script::LEAVE));
        let holds = Mutex::default();
        Ok(ReentrantLock { shared: Arc::new(Shared { records, enter, leave, holds }) })
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let (shared, records) = (&self.shared, &self.shared.records);
        let (host, retry) = (records.host(), records.options().retry);
        let began = host.monotonic();
        let taken = match shared.take(key, owner).await {
            Ok(Some(taken)) => taken,
            Ok(None) if patience.is_zero() => return Err(LockError::Busy),
            Err(failure) if !failure.may_pass() => return Err(failure.into()),
            _ => {
                // Who cannot listen polls as often as others do.
                let listening = records.connection().listen(&script::channel(key)).await.ok();
                let woken = listening.as_ref().map(|listening| &*listening.heard);
                let retry = if woken.is_some() { retry * POLLS } else { retry };
                let left = patience.saturating_sub(host.monotonic().saturating_sub(began));
                until_woken(host, retry, left, woken, || shared.take(key, owner)).await?
            }
        };
        let options = records.options();
        let deadline = taken.asked_at + options.lease.saturating_sub(options.margin);
        let hold = (key.to_owned(), owner.clone());
        let mut holds = shared.holds();
        let held = holds.entry(hold.clone()).or_insert(Hold { guards: 0, deadline });
        (held.guards, held.deadline) = (held.guards + 1, deadline);
        drop(holds);
        let inside = Inside { shared: shared.clone(), hold };
        Ok(Guard::new(host.clone(), records.grant(key, owner, taken), inside))
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
        let records = &self.shared.records;
        records.takeover_bound() + records.options().retry * (POLLS - 1)
    }
}

impl Shared {
    fn holds(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, Owner), Hold>> {
        // Nothing that can panic runs while it is held.
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many guards of this owner are out.
    fn guards(&self, hold: &(String, Owner)) -> u64 {
        self.holds().get(hold).map_or(0, |hold| hold.guards)
    }

    /// Asks to be let in once; `None` while somebody else is in.
    async fn take(self: &Arc<Self>, key: &str, owner: &Owner) -> Result<Option<Taken>, Failure> {
        let records = &self.records;
        let live = records.connection().ready().await?;
        let mut unsettled = Unsettled::new(records.host(), {
            let (shared, live) = (self.clone(), live.clone());
            let hold = (key.to_owned(), owner.clone());
            move || -> BoxFuture<'static, ()> {
                Box::pin(async move {
                    let _ = shared.leave(Some(live), &hold).await;
                })
            }
        });
        let asked_at = records.host().monotonic();
        let tokens = records.options().fencing == Fencing::Counter;
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.enter.key(key);
        invocation.key(script::token_key(key)).arg(owner.as_str());
        invocation.arg(records.options().lease_ms()).arg(u8::from(tokens));
        let request = invocation.invoke_async::<Value>(&mut multiplexed);
        let answer = records.connection().run(&live, request).await;
        let answer = answer.and_then(|value| read_answer(&value, asked_at, tokens));
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            unsettled.settle();
        }
        answer
    }

    /// Leaves until as many holds are left as guards are out: whether there were more.
    /// On `live`, where this cannot overtake what was sent before, while it is open.
    async fn leave(
        &self,
        live: Option<Arc<Live>>,
        hold: &(String, Owner),
    ) -> Result<bool, Failure> {
        let connection = self.records.connection();
        let live = match live.filter(|live| live.is_open()) {
            Some(live) => live,
            None => connection.ready().await?,
        };
        let (key, owner) = hold;
        let left = self.guards(hold);
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.leave.key(key.as_str());
        invocation.arg(owner.as_str()).arg(left).arg(script::channel(key));
        let request = invocation.invoke_async::<u64>(&mut multiplexed);
        Ok(connection.run(&live, request).await? > left)
    }
}

fn read_answer(value: &Value, asked_at: Duration, tokens: bool) -> Result<Option<Taken>, Failure> {
    match value {
        Value::Nil => Ok(None),
        Value::Array(parts) => match parts[..] {
            [Value::Int(_), Value::Int(token)] => {
                let token = tokens.then_some(FencingToken(token.unsigned_abs()));
                Ok(Some(Taken { token, asked_at }))
            }
            _ => Err(nonsense(value)),
        },
        _ => Err(nonsense(value)),
    }
}

/// Something was done that we do not understand; the lease ends it.
fn nonsense(value: &Value) -> Failure {
    Failure::NoReply { reason: format!("an answer that makes no sense: {value:?}") }
}

/// One of an owner's holds, behind a guard.
struct Inside {
    shared: Arc<Shared>,
    hold: (String, Owner),
}

impl GuardBackend for Inside {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (shared, hold) = (self.shared.clone(), self.hold.clone());
        let mut holds = shared.holds();
        if let Some(held) = holds.get_mut(&hold) {
            held.guards = held.guards.saturating_sub(1);
            if held.guards == 0 {
                holds.remove(&hold);
            }
        }
        drop(holds);
        Box::pin(async move {
            let mut left = shared.leave(None, &hold).await;
            if matches!(&left, Err(failure) if failure.is_read_only()) {
                // Refused by a master that was demoted meanwhile: nothing happened, and a
                // new connection may find the new one.
                left = shared.leave(None, &hold).await;
            }
            match left {
                Ok(true) => Release::Released,
                Ok(false) => Release::NotHeld,
                Err(failure) => Release::Indeterminate { reason: failure.to_string() },
            }
        })
    }

    /// An owner that was let in again has a whole lease for all its holds.
    fn deadline(&self) -> Option<Duration> {
        self.shared.holds().get(&self.hold).map(|hold| hold.deadline)
    }
}

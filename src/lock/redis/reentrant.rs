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
//! holds are left, never by counting down: it is the same once or twice. A guard whose
//! record was lost stays lost, also when its owner is let in again.
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
//! - **A release that is not answered** and arrives after its owner was let in again, on
//!   another connection, deletes the new record.
//! - **One owner in two places**: two programs that use one owner's name are one holder.

mod holds;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{ErrorKind, RedisResult, Script, ServerErrorKind, Value};
use tokio::sync::Notify;

use self::holds::{Generation, Held, Holds};
use super::connection::Live;
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, Options};
use super::patience::{Waiting, until_woken};
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
    holds: Mutex<Holds>,
    /// Woken when guards are found to be lost.
    told: Notify,
}

/// An owner let in: what was taken, and which guards stand on it.
struct Entered {
    taken: Taken,
    generation: Generation,
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
        let (holds, told) = (Mutex::default(), Notify::new());
        Ok(ReentrantLock { shared: Arc::new(Shared { records, enter, leave, holds, told }) })
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
        let entered = match shared.take(key, owner).await {
            Ok(Some(entered)) => entered,
            Ok(None) if patience.is_zero() => return Err(LockError::Busy),
            Err(failure) if patience.is_zero() || !failure.may_pass() => {
                return Err(failure.into());
            }
            refused => {
                let was_busy = refused.is_ok();
                // Who cannot listen polls as often as others do.
                let listening = records.connection().listen(&script::channel(key)).await.ok();
                let woken = listening.as_ref().map(|listening| &*listening.heard);
                let retry = if woken.is_some() { retry * POLLS } else { retry };
                let waiting = Waiting { began, patience, was_busy };
                until_woken(host, retry, waiting, woken, || shared.take(key, owner)).await?
            }
        };
        let Entered { taken, generation } = entered;
        let held = (key.to_owned(), owner.clone());
        let inside = Inside { shared: shared.clone(), held, generation };
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
    fn holds(&self) -> std::sync::MutexGuard<'_, Holds> {
        // Nothing that can panic runs while it is held.
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks to be let in once; `None` while somebody else is in.
    async fn take(self: &Arc<Self>, key: &str, owner: &Owner) -> Result<Option<Entered>, Failure> {
        let records = &self.records;
        let live = records.connection().ready().await?;
        let held = (key.to_owned(), owner.clone());
        self.holds().enter(&held);
        let mut unsettled = Unsettled::new(records.host(), {
            let (shared, live, held) = (self.clone(), live.clone(), held.clone());
            move || -> BoxFuture<'static, ()> {
                shared.holds().turn_back(&held);
                Box::pin(async move {
                    let _ = shared.leave(Some(live), &held).await;
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
            return self.settle(&held, answer);
        }
        answer.map(|_| None)
    }

    /// Books an answer.
    fn settle(
        &self,
        held: &Held,
        answer: Result<Option<(u64, Taken)>, Failure>,
    ) -> Result<Option<Entered>, Failure> {
        let (now, options) = (self.records.host().monotonic(), self.records.options());
        let mut holds = self.holds();
        let (settled, lost) = match answer {
            Ok(Some((count, taken))) => {
                let deadline = taken.asked_at + options.lease.saturating_sub(options.margin);
                let (generation, lost) = holds.entered(held, count, now, deadline);
                (Ok(Some(Entered { taken, generation })), lost)
            }
            Ok(None) => {
                let lost = holds.lose(held);
                holds.turn_back(held);
                (Ok(None), lost)
            }
            Err(failure) => {
                holds.turn_back(held);
                (Err(failure), false)
            }
        };
        drop(holds);
        if lost {
            self.told.notify_waiters();
        }
        settled
    }

    /// Leaves until as many holds are left as there should be: whether there were more.
    /// On `live`, where this cannot overtake what was sent before, while it is open.
    async fn leave(&self, live: Option<Arc<Live>>, held: &Held) -> Result<bool, Failure> {
        let connection = self.records.connection();
        let live = match live.filter(|live| live.is_open()) {
            Some(live) => live,
            None => connection.ready().await?,
        };
        connection.run(&live, self.leave_on(&live, held)).await
    }

    /// How many are left is read when it is sent, and again if the server did not know the
    /// script: the owner may have entered meanwhile.
    async fn leave_on(&self, live: &Live, held: &Held) -> RedisResult<bool> {
        let (key, owner) = held;
        let mut multiplexed = live.multiplexed();
        let mut loaded = false;
        loop {
            let left = self.holds().left(held);
            let mut command = redis::cmd("EVALSHA");
            command.arg(self.leave.get_hash()).arg(1).arg(key).arg(owner.as_str());
            command.arg(left).arg(script::channel(key));
            match command.query_async::<u64>(&mut multiplexed).await {
                Err(error)
                    if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) && !loaded =>
                {
                    self.leave.load_async(&mut multiplexed).await?;
                    loaded = true;
                }
                answer => return answer.map(|count| count > left),
            }
        }
    }
}

/// How often the owner is in now, and what it has taken.
fn read_answer(
    value: &Value,
    asked_at: Duration,
    tokens: bool,
) -> Result<Option<(u64, Taken)>, Failure> {
    let (count, token) = match value {
        Value::Nil => return Ok(None),
        Value::Array(parts) => match parts[..] {
            [Value::Int(count), Value::Int(token)] => (count, token),
            _ => return Err(nonsense(value)),
        },
        _ => return Err(nonsense(value)),
    };
    if count <= 0 || (tokens && token <= 0) {
        return Err(nonsense(value));
    }
    let token = tokens.then_some(FencingToken(token.unsigned_abs()));
    Ok(Some((count.unsigned_abs(), Taken { token, asked_at })))
}

/// Something was done that we do not understand; the lease ends it.
fn nonsense(value: &Value) -> Failure {
    Failure::NoReply { reason: format!("an answer that makes no sense: {value:?}") }
}

/// One of an owner's holds, behind a guard.
struct Inside {
    shared: Arc<Shared>,
    held: Held,
    generation: Generation,
}

impl GuardBackend for Inside {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (shared, held) = (self.shared.clone(), self.held.clone());
        if !shared.holds().leave(&held, self.generation) {
            // What the owner may hold since is not this guard's.
            return Box::pin(std::future::ready(Release::NotHeld));
        }
        Box::pin(async move {
            let mut left = shared.leave(None, &held).await;
            if matches!(&left, Err(failure) if failure.is_read_only()) {
                // Refused by a master that was demoted meanwhile: nothing happened, and a
                // new connection may find the new one.
                left = shared.leave(None, &held).await;
            }
            match left {
                Ok(true) => Release::Released,
                Ok(false) => Release::NotHeld,
                Err(failure) => Release::Indeterminate { reason: failure.to_string() },
            }
        })
    }

    /// A record that was taken anew, by us or by others, is not what this guard stands on.
    fn lost(&self) -> Option<String> {
        let standing = self.shared.holds().deadline(&self.held, self.generation);
        standing.is_none().then(|| "the record is no longer the one we entered".to_owned())
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        let (shared, held, generation) = (self.shared.clone(), self.held.clone(), self.generation);
        Box::pin(async move {
            loop {
                let told = shared.told.notified();
                if shared.holds().deadline(&held, generation).is_none() {
                    return;
                }
                told.await;
            }
        })
    }

    /// An owner that was let in again has a whole lease for all its holds.
    fn deadline(&self) -> Option<Duration> {
        self.shared.holds().deadline(&self.held, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(count: i64, token: i64, tokens: bool) -> Result<Option<(u64, Taken)>, Failure> {
        let value = Value::Array(vec![Value::Int(count), Value::Int(token)]);
        read_answer(&value, Duration::ZERO, tokens)
    }

    #[test]
    fn a_token_is_what_the_counter_says_and_never_less_than_one() {
        let (count, taken) = read(2, 7, true).unwrap().unwrap();
        assert_eq!((count, taken.token), (2, Some(FencingToken(7))));
        assert_eq!(read(1, 0, false).unwrap().unwrap().1.token, None);
        for (count, token) in [(1, -7), (1, 0), (0, 1), (-1, 1)] {
            assert!(matches!(read(count, token, true), Err(Failure::NoReply { .. })));
        }
    }
}

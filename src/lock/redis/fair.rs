//! The lock `redis-fair`: granted in the order in which waiters came.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::fair::{FairLock, FairOptions};
//! use lockstorm::lock::redis::{Endpoint, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::Direct("redis-1:6379".to_owned());
//! let options = FairOptions::new(Options::new(Duration::from_secs(10)));
//! let lock = FairLock::new(host.clone(), endpoint, options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(30)).await?;
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`redis`](super) guarantees, and order: whoever finds the lock held, or others
//! waiting, is given a number and a place in the queue beside the record, and the lowest
//! number gets in next. A waiter keeps its place by asking again, every retry; nobody who
//! came later is let in before it ([`Promises::bypass_bound`] is 0). One that has not been heard
//! of for the [waiter timeout](FairOptions::waiter_timeout) is dead and is dropped by whoever
//! asks next; if it lives after all, it stands at the end. Giving up, or losing interest,
//! leaves the queue.
//!
//! # Takeover
//! As [`redis`](super), and one waiter timeout for dead waiters: those that died together
//! are dropped together, whoever waits behind them waits for one timeout and not for each.
//! The order costs throughput: between two grants lies up to a retry of the next in line.
//!
//! # How it is known to fail
//! - In all the ways of [`redis`](super). A failover may lose the queue, or its end: then
//!   the order begins anew.
//! - **A waiter that stands still**, or is cut off, for longer than the waiter timeout loses
//!   its place.
//! - **The server's clock.** Silence is counted on its wall clock: one that steps forward
//!   drops the whole queue, one that steps back keeps dead waiters for as long.

use std::sync::Arc;
use std::time::Duration;

use redis::Script;

use super::Record;
use super::connection::{Live, Unanswered};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, Options};
use super::patience::until_granted;
use super::records::{Records, Taken};
use super::script;
use super::unsettled::Unsettled;
use crate::host::{BoxFuture, Host};
use crate::lock::{FencingToken, Guard, Lock, LockError, Owner, Promises};

/// Options of the lock `redis-fair`. Make them with [`FairOptions::new`] and change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairOptions {
    /// Those that all locks on Redis have.
    pub redis: Options,
    /// After so much silence a waiter counts as dead. Longer than a retry and a command
    /// timeout together, so that one lost reply costs nobody a place.
    pub waiter_timeout: Duration,
}

impl FairOptions {
    /// The defaults: dead after four command timeouts and four retries.
    pub fn new(redis: Options) -> Self {
        let waiter_timeout = 4 * (redis.command_timeout + redis.retry);
        FairOptions { redis, waiter_timeout }
    }
}

/// The lock `redis-fair`; see the module's text.
#[derive(Debug)]
pub struct FairLock {
    queue: Arc<Queue>,
}

/// The records, and the queues beside them.
#[derive(Debug)]
struct Queue {
    records: Arc<Records>,
    waiter_timeout: Duration,
    stand: Script,
}

impl FairLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: FairOptions,
    ) -> Result<Self, InvalidOptions> {
        let FairOptions { redis, waiter_timeout } = options;
        let records = Records::new(host, endpoint, redis)?;
        let least = records.options().retry + records.options().command_timeout;
        if waiter_timeout <= least {
            return Err(InvalidOptions::WaiterTimeout { timeout: waiter_timeout, least });
        }
        let stand = Script::new(script::STAND);
        Ok(FairLock { queue: Arc::new(Queue { records, waiter_timeout, stand }) })
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let (queue, records) = (&self.queue, &self.queue.records);
        // A place in the queue, or a record that nobody heard of, until it is granted.
        let unanswered = Unanswered::default();
        let mut unsettled = Unsettled::new(records.host(), {
            let (queue, key, owner) = (queue.clone(), key.to_owned(), owner.clone());
            let unanswered = unanswered.clone();
            move || -> BoxFuture<'static, ()> {
                Box::pin(async move {
                    let _ = queue.give_up(unanswered.take(), &key, &owner).await;
                })
            }
        });
        let retry = records.options().retry;
        let waits = !patience.is_zero();
        let stand = || queue.stand(key, owner, waits, &unanswered);
        let tried = until_granted(records.host(), retry, patience, stand).await;
        match tried {
            Ok(taken) => {
                unsettled.settle();
                let (key_owned, owner_owned) = (key.to_owned(), owner.clone());
                let record =
                    Record { records: records.clone(), key: key_owned, owner: owner_owned };
                Ok(Guard::new(records.host().clone(), records.grant(key, owner, taken), record))
            }
            Err(error) => {
                if matches!(error, LockError::Busy) {
                    unsettled.settle();
                }
                Err(error)
            }
        }
    }
}

impl Lock for FairLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.queue.records.takeover_bound() + self.queue.waiter_timeout
    }

    fn promises(&self) -> Promises {
        Promises { bypass_bound: Some(0), ..Promises::default() }
    }
}

impl Queue {
    /// Asks once, and stands in the queue if it `waits`; `None` while it is not its turn.
    async fn stand(
        &self,
        key: &str,
        owner: &Owner,
        waits: bool,
        unanswered: &Unanswered,
    ) -> Result<Option<Taken>, Failure> {
        let (records, connection) = (&self.records, self.records.connection());
        let live = connection.ready().await?;
        let asked_at = records.host().monotonic();
        let tokens = records.options().fencing == Fencing::Counter;
        let timeout_ms = u64::try_from(self.waiter_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.stand.key(key);
        for key in script::queue_keys(key) {
            invocation.key(key);
        }
        invocation.key(script::token_key(key)).arg(owner.as_str());
        invocation.arg(records.options().lease_ms()).arg(timeout_ms);
        invocation.arg(u8::from(waits)).arg(u8::from(tokens));
        let request = invocation.invoke_async::<Option<u64>>(&mut multiplexed);
        unanswered.set(Some(live.clone()));
        let answer = connection.run(&live, request).await;
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            unanswered.set(None);
        }
        let token = answer?;
        Ok(token.map(|token| Taken { token: tokens.then_some(FencingToken(token)), asked_at }))
    }

    /// Leaves the queue, and the record if it was taken after all: on `live`, where this
    /// cannot overtake what was sent before, or on another connection. In one message,
    /// whatever scripts the server has.
    async fn give_up(
        &self,
        live: Option<Arc<Live>>,
        key: &str,
        owner: &Owner,
    ) -> Result<(), Failure> {
        let connection = self.records.connection();
        let live = match live {
            Some(live) => live,
            None => connection.ready().await?,
        };
        let [queue, _] = script::queue_keys(key);
        let mut multiplexed = live.multiplexed();
        let mut command = redis::cmd("EVAL");
        command.arg(script::GIVE_UP).arg(2).arg(key).arg(queue).arg(owner.as_str());
        let request = command.query_async::<i64>(&mut multiplexed);
        connection.run(&live, request).await.map(drop)
    }
}

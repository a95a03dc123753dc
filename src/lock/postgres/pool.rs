//! The pool: how many connections are open at most, who waits for one, and for how long.
//!
//! A database has few connections (a hundred, by PostgreSQL's default) and a service has
//! a share of them. Whoever waits for a row at the server occupies one, so the waiters of a
//! hot row use the pool up, and everybody else waits for a connection: what [`Usage`]
//! measures.
//!
//! A connection goes back only when whoever had it says that it is clean; else it is
//! closed, and the server undoes what was open. Waiting is bounded by the host's clock; the
//! pool library's own timeouts are off.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, PoolError, RecycleError, RecycleResult};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::connection::{Dialer, Live};
use super::failure::Failure;
use crate::host::Host;

/// A pool of connections to one primary.
#[derive(Debug)]
pub(crate) struct Pool {
    host: Host,
    inner: deadpool::managed::Pool<Dialer>,
    usage: Arc<Mutex<Usage>>,
    waiting: Waiting,
    /// How many have asked for a connection so far.
    asked: AtomicU64,
}

/// Since when each of those who wait has waited, by the number of its asking.
type Waiting = Arc<Mutex<BTreeMap<u64, Duration>>>;

/// One of those who wait, also where the future is dropped half-way.
struct Waiter(Waiting, u64);

impl Drop for Waiter {
    fn drop(&mut self) {
        lock(&self.0).remove(&self.1);
    }
}

/// How a pool has been used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many connections are lent now.
    pub lent: usize,
    /// The most that were lent at one time.
    pub peak: usize,
    /// How often a connection was lent.
    pub lendings: u64,
    /// How often none was to be had in time.
    pub refusals: u64,
    /// All waiting for a connection together, opening it included.
    pub waited: Duration,
    /// The longest of it.
    pub longest_wait: Duration,
}

impl Manager for Dialer {
    type Type = Arc<Live>;
    type Error = Failure;

    async fn create(&self) -> Result<Arc<Live>, Failure> {
        self.dial().await
    }

    async fn recycle(&self, live: &mut Arc<Live>, _: &Metrics) -> RecycleResult<Failure> {
        match live.ended() {
            None => Ok(()),
            Some(why) => Err(RecycleError::message(why)),
        }
    }
}

impl Pool {
    /// At most `connections` at a time.
    pub(crate) fn new(dialer: Dialer, connections: usize) -> Self {
        let host = dialer.host().clone();
        let built = deadpool::managed::Pool::builder(dialer).max_size(connections).build();
        // Only a timeout without a runtime cannot be built, and there are no timeouts.
        let inner = built.unwrap_or_else(|error| unreachable!("a pool without timeouts: {error}"));
        Pool {
            host,
            inner,
            usage: Arc::default(),
            waiting: Arc::default(),
            asked: AtomicU64::new(0),
        }
    }

    /// How long whoever waits for a connection now has waited, of them the longest; nothing
    /// where nobody does.
    pub(crate) fn wait(&self) -> Duration {
        let oldest = lock(&self.waiting).values().min().copied();
        oldest.map_or(Duration::ZERO, |since| self.host.monotonic().saturating_sub(since))
    }

    /// How it has been used until now.
    pub(crate) fn usage(&self) -> Usage {
        *lock(&self.usage)
    }

    /// A connection, waited for for at most `limit`.
    pub(crate) async fn lend(&self, limit: Duration) -> Result<Lent, Failure> {
        let began = self.host.monotonic();
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).insert(number, began);
        let waiter = Waiter(self.waiting.clone(), number);
        let lent = self.host.timeout(limit, self.inner.get()).await;
        drop(waiter);
        let waited = self.host.monotonic().saturating_sub(began);
        let mut usage = lock(&self.usage);
        usage.waited += waited;
        usage.longest_wait = usage.longest_wait.max(waited);
        let failure = match lent {
            Ok(Ok(object)) => {
                usage.lendings += 1;
                usage.lent += 1;
                usage.peak = usage.peak.max(usage.lent);
                drop(usage);
                let live = Arc::clone(&object);
                let (object, usage) = (Some(object), self.usage.clone());
                return Ok(Lent { live, object, usage, unanswered: AtomicBool::new(false) });
            }
            Ok(Err(PoolError::Backend(failure))) => failure,
            Ok(Err(other)) => Failure::NotSent { reason: other.to_string() },
            Err(_) => Failure::NoConnection {
                reason: format!(
                    "none of {} connections was to be had within {limit:?}",
                    self.inner.status().max_size
                ),
            },
        };
        usage.refusals += 1;
        Err(failure)
    }
}

/// A connection that is lent. Dropped, it is closed, and with it the session and whatever
/// was open in it; see [`give_back`](Lent::give_back).
///
/// A closed connection is not enough where a statement is at work: the server looks at it
/// only when the statement, which may be a long wait, is over. Dropped before the answer
/// came, the statement is ended by a request of its own.
pub(crate) struct Lent {
    live: Arc<Live>,
    /// `None` once it is given back.
    object: Option<Object<Dialer>>,
    usage: Arc<Mutex<Usage>>,
    /// A statement was sent and has no answer yet.
    unanswered: AtomicBool,
}

impl Lent {
    /// The connection.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// What statements are sent through.
    pub(crate) fn client(&self) -> &Client {
        self.live.client()
    }

    /// Awaits a reply for at most `limit`; see [`Live::run`].
    pub(crate) async fn run<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        self.unanswered.store(true, Ordering::Relaxed);
        let answer = self.live.run(limit, request).await;
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            self.unanswered.store(false, Ordering::Relaxed);
        }
        answer
    }

    /// Sends statements as one simple query, whose rows come back as text.
    pub(crate) async fn tell(
        &self,
        limit: Duration,
        statements: &str,
    ) -> Result<Vec<SimpleQueryMessage>, Failure> {
        self.run(limit, self.client().simple_query(statements)).await
    }

    /// Gives it back to the pool: nothing is open on it, no setting is left.
    pub(crate) fn give_back(mut self) {
        // An object that is dropped is back in its pool.
        drop(self.object.take());
    }

    /// The same, if it can be used again.
    pub(crate) fn give_back_if_open(self) {
        if self.live.is_open() {
            self.give_back();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            if self.unanswered.load(Ordering::Relaxed) {
                self.live.cancel();
            }
            drop(Object::take(object));
            self.live.close();
        }
        let mut usage = lock(&self.usage);
        usage.lent = usage.lent.saturating_sub(1);
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Lent").field(&self.live).finish()
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing that can panic runs while it is held.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

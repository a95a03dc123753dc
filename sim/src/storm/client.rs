//! The clients of a storm: what a service does with a lock, and what it tells of it.
//!
//! Each round: think, acquire, read the stock under the lock, work (and stop when told
//! that the lock is lost), ask the guard for the own deadline, sell a unit, release.
//! Whoever only reads reads again after the work, in place of selling: what was read first
//! must still be so. Whatever lock is under test, the record of belief is made here, around
//! the [`Lock`] trait, and that of what each buyer was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::{Guard, Lock, LockError, Owner, Release};
use lockstorm::stock::{Level, Sharing, Shown, StockClient, StockError};

use super::cancelling::{Cancelling, DROPPED};
use super::conductor::Stop;
use crate::history::{
    AcquireOutcome, Attempt, BeliefEnd, EventId, Name, OrderAnswer, Recorder, What,
};
use crate::plan::{Micros, Operation, Workload};

/// The lock of the sale. Its name is written into every record.
pub const KEY: &str = "lock:sku-42";

/// The other lock, of clients that take two: the buyer's account.
pub const OTHER_KEY: &str = "lock:account-7";

/// One client: what it needs besides its machine.
#[derive(Clone)]
pub struct Client {
    /// Its name, like its node.
    pub name: Name,
    /// What it does.
    pub workload: Workload,
    /// Whether it only reads, beside others that do.
    pub reads: bool,
    /// Where it says what it does.
    pub recorder: Recorder,
    /// When to stop.
    pub stop: Arc<Stop>,
    /// How many acquires it has tried, in all its incarnations.
    pub attempts: Arc<AtomicU32>,
    /// Drops its operations half-way where a fault wants it.
    pub cancelling: Cancelling,
}

/// A lock in its holder's hands.
struct Held {
    guard: Guard,
    attempt: Attempt,
    owner: Owner,
    /// The event of its grant.
    granted: EventId,
}

impl Client {
    /// Works until it is stopped.
    pub async fn run(self, host: Host, lock: Arc<dyn Lock>, mut stock: StockClient) {
        while !self.stop.is_stopped() {
            host.sleep(around(&host, "think", self.workload.think)).await;
            if self.stop.is_stopped() {
                return;
            }
            let round = self.stop.round();
            self.round(&host, lock.as_ref(), &mut stock).await;
            drop(round);
        }
    }

    async fn round(&self, host: &Host, lock: &dyn Lock, stock: &mut StockClient) {
        if self.workload.locks > 1 {
            return self.round_of_two(host, lock, stock).await;
        }
        let Some(held) = self.take(host, lock, KEY).await else { return };
        let inner = self.enter_again(lock, &held.attempt, &held.owner).await;
        self.hold(host, held, inner, stock).await;
    }

    /// Takes both locks, in the order of this client, sells, gives both back.
    async fn round_of_two(&self, host: &Host, lock: &dyn Lock, stock: &mut StockClient) {
        let number = self.name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
        let turned = number.is_some_and(|number| number % 2 == 0);
        let keys = if turned { [OTHER_KEY, KEY] } else { [KEY, OTHER_KEY] };
        let Some(first) = self.take(host, lock, keys[0]).await else { return };
        let Some(second) = self.take(host, lock, keys[1]).await else {
            return self.give_back(host, first).await;
        };
        // The stock is guarded by its own lock, whichever came first.
        let (of_stock, other) = if turned { (second, first) } else { (first, second) };
        self.hold(host, of_stock, Vec::new(), stock).await;
        self.give_back(host, other).await;
    }

    /// Acquires the lock `key`.
    async fn take(&self, host: &Host, lock: &dyn Lock, name: &str) -> Option<Held> {
        let ordinal = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let attempt = Attempt { client: self.name.clone(), ordinal };
        let owner = Owner::named(attempt.to_string());
        let key: Name = name.into();
        let invoked = self.ask(&attempt, &key);
        let patience = Duration::from_micros(self.workload.patience.0);
        let acquire = lock.acquire(name, &owner, patience);
        let occasion = (self.name.clone(), Operation::Acquire, ordinal);
        let result = self.cancelling.run(host, occasion, acquire).await;
        let dropped = || LockError::Indeterminate { reason: DROPPED.to_owned() };
        let result = result.unwrap_or_else(|| Err(dropped()));
        let outcome = outcome_of(&result);
        let returned = What::AcquireReturned { attempt: attempt.clone(), key, outcome };
        let granted = self.say(Some(invoked), returned);
        result.ok().map(|guard| Held { guard, attempt, owner, granted })
    }

    /// Says that it asks for the lock.
    fn ask(&self, attempt: &Attempt, key: &Name) -> EventId {
        let (attempt, key) = (attempt.clone(), key.clone());
        self.say(None, What::AcquireInvoked { attempt, key, shared: self.reads })
    }

    /// Acquires again what it holds, as often as the workload says.
    async fn enter_again(
        &self,
        lock: &dyn Lock,
        attempt: &Attempt,
        owner: &Owner,
    ) -> Vec<(Guard, EventId)> {
        let mut guards = Vec::new();
        for _ in 0..self.workload.reentries {
            let (attempt, key) = (attempt.clone(), Name::from(KEY));
            let invoked = self.ask(&attempt, &key);
            let patience = Duration::from_micros(self.workload.patience.0);
            let result = lock.acquire(KEY, owner, patience).await;
            let outcome = outcome_of(&result);
            let returned = What::AcquireReturned { attempt, key, outcome };
            let granted = self.say(Some(invoked), returned);
            guards.extend(result.ok().map(|guard| (guard, granted)));
        }
        guards
    }

    /// The critical section; then the inner guards are given back, then the outer.
    async fn hold(
        &self,
        host: &Host,
        held: Held,
        inner: Vec<(Guard, EventId)>,
        stock: &mut StockClient,
    ) {
        let attempt = held.attempt.clone();
        let belief_end = match self.reads {
            true => self.read_twice(host, &held.guard, stock).await,
            false => self.sell_one(host, &held.guard, &attempt, stock).await,
        };
        if let Some(reason) = belief_end {
            let ended = What::BeliefEnded { attempt: attempt.clone(), reason };
            self.say(Some(held.granted), ended);
        }
        for (guard, granted) in inner.into_iter().rev() {
            let attempt = attempt.clone();
            let invoked =
                self.say(Some(granted), What::ReleaseInvoked { attempt: attempt.clone() });
            let release = guard.release().await;
            self.say(Some(invoked), What::ReleaseReturned { attempt, release });
        }
        self.give_back(host, held).await;
    }

    /// Releases what is held.
    async fn give_back(&self, host: &Host, held: Held) {
        let Held { guard, attempt, granted, .. } = held;
        let invoked = self.say(Some(granted), What::ReleaseInvoked { attempt: attempt.clone() });
        let occasion = (self.name.clone(), Operation::Release, attempt.ordinal);
        let release = self.cancelling.run(host, occasion, guard.release()).await;
        let dropped = || Release::Indeterminate { reason: DROPPED.to_owned() };
        let release = release.unwrap_or_else(dropped);
        self.say(Some(invoked), What::ReleaseReturned { attempt, release });
    }

    /// The buyer's order, and what the buyer is told of it. Says why the client no longer
    /// believes, if so.
    async fn sell_one(
        &self,
        host: &Host,
        guard: &Guard,
        attempt: &Attempt,
        stock: &mut StockClient,
    ) -> Option<BeliefEnd> {
        let order = attempt.to_string();
        let (answer, belief_end) = self.order(host, guard, &order, stock).await;
        self.say(None, What::OrderReturned { order: order.into(), answer });
        belief_end
    }

    /// Reads, works, sells.
    async fn order(
        &self,
        host: &Host,
        guard: &Guard,
        order: &str,
        stock: &mut StockClient,
    ) -> (OrderAnswer, Option<BeliefEnd>) {
        let shown = Shown::from(guard);
        let unit = match stock.read(&shown).await {
            Ok(level) => level.next_unit.ok_or(OrderAnswer::SoldOut),
            Err(StockError::Refused { .. }) => {
                return (OrderAnswer::Refused, Some(BeliefEnd::Told));
            }
            // Nothing was learnt, nothing will be done.
            Err(StockError::Unreachable { .. } | StockError::Indeterminate { .. }) => {
                Err(OrderAnswer::Refused)
            }
        };
        if let Some(end) = self.work(host, guard).await {
            return (OrderAnswer::Refused, Some(end));
        }
        let unit = match unit {
            Ok(unit) => unit,
            Err(answer) => return (answer, None),
        };
        match stock.sell(&shown, unit, order).await {
            Ok(()) => (OrderAnswer::Accepted, None),
            Err(StockError::Refused { .. }) => (OrderAnswer::Refused, Some(BeliefEnd::Told)),
            Err(StockError::Unreachable { .. }) => (OrderAnswer::Refused, None),
            // What became of a sale without an answer stands in the stock's books.
            Err(StockError::Indeterminate { .. }) => (OrderAnswer::Indeterminate, None),
        }
    }

    /// Reads, works, reads again; says why the client no longer believes, if so.
    async fn read_twice(
        &self,
        host: &Host,
        guard: &Guard,
        stock: &mut StockClient,
    ) -> Option<BeliefEnd> {
        let shown = Shown { sharing: Sharing::Shared, ..Shown::from(guard) };
        let refused = |read: Result<Level, StockError>| {
            matches!(read, Err(StockError::Refused { .. })).then_some(BeliefEnd::Told)
        };
        if let Some(end) = refused(stock.read(&shown).await) {
            return Some(end);
        }
        if let Some(end) = self.work(host, guard).await {
            return Some(end);
        }
        refused(stock.read(&shown).await)
    }

    /// Works, mostly briefly; says why the client no longer believes, if so.
    async fn work(&self, host: &Host, guard: &Guard) -> Option<BeliefEnd> {
        let is_slow = host.random("slow work") % 1_000 < u64::from(self.workload.slow_per_mille);
        let work = if is_slow { self.workload.slow_work } else { self.workload.work };
        let work = around(host, "work", work);
        if !self.workload.deadline_check {
            host.sleep(work).await;
            return None;
        }
        if host.timeout(work, guard.lost()).await.is_ok() {
            return Some(BeliefEnd::Told);
        }
        guard.check().err().map(|_| match guard.remaining().is_zero() {
            true => BeliefEnd::Deadline,
            // Its own time is not up: somebody has told the guard of the loss.
            false => BeliefEnd::Told,
        })
    }

    fn say(&self, cause: Option<EventId>, what: What) -> EventId {
        self.recorder.record_caused(&self.name, cause, what)
    }
}

/// A time drawn from half of `middle` to one and a half of it.
fn around(host: &Host, purpose: &'static str, middle: Micros) -> Duration {
    let middle = Duration::from_micros(middle.0);
    host.random_duration(purpose, middle / 2, middle * 3 / 2)
}

fn outcome_of(result: &Result<Guard, LockError>) -> AcquireOutcome {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    match result {
        Ok(guard) => AcquireOutcome::Granted {
            token: guard.token().map(|token| token.0),
            lease_us: micros(guard.lease()),
            margin_us: micros(guard.margin()),
        },
        Err(LockError::Busy) => AcquireOutcome::Busy,
        Err(LockError::TimedOut) => AcquireOutcome::TimedOut,
        Err(LockError::Indeterminate { reason }) => {
            AcquireOutcome::Indeterminate { reason: reason.clone() }
        }
        Err(LockError::Lost { reason } | LockError::Backend { reason }) => {
            AcquireOutcome::Failed { reason: reason.clone() }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

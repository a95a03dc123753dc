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
use lockstorm::stock::{Sharing, Shown};

use super::beside::Beside;
use super::cancelling::{Cancelling, DROPPED};
use super::conductor::Stop;
use super::drawn::Drawn;
use super::shop::{Selling, Shop};
use crate::history::{
    AcquireOutcome, Attempt, BeliefEnd, EventId, Name, OrderAnswer, Recorder, What,
};
use crate::own::section::Section;
use crate::own::{Inside, Node};
use crate::plan::{Micros, Operation, Plan, Workload};

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
    /// Whether what it acquires is a lock.
    pub has_locks: bool,
    /// Drops its operations half-way where a fault wants it.
    pub cancelling: Cancelling,
    /// What it does inside, where that is not to sell.
    pub section: Option<Section>,
    /// What it was told of the storm.
    pub plan: Plan,
    /// Who is told when it asks, where its lock is not ours.
    pub drawn: Option<Arc<Drawn>>,
}

/// A lock in its holder's hands.
pub(super) struct Held {
    pub(super) guard: Guard,
    pub(super) attempt: Attempt,
    owner: Owner,
    /// The event of its grant.
    granted: EventId,
}

impl Client {
    /// All buyers work side by side until they are stopped.
    pub async fn run_all(self, host: Host, lock: Arc<dyn Lock>, buyers: Vec<Selling>) {
        let at_work =
            buyers.into_iter().map(|selling| self.clone().run(host.clone(), lock.clone(), selling));
        Beside::of(at_work).await;
    }

    /// Works until it is stopped.
    async fn run(self, host: Host, lock: Arc<dyn Lock>, mut selling: Selling) {
        while !self.stop.is_stopped() {
            host.sleep(around(&host, "think", self.workload.think)).await;
            if self.stop.is_stopped() {
                return;
            }
            let round = self.stop.round();
            match &mut selling {
                _ if self.section.is_some() => self.round_inside(&host, lock.as_ref()).await,
                Selling::Shop(shop) => self.round(&host, lock.as_ref(), shop).await,
                Selling::Transactions(sales) => {
                    self.round_of_items(&host, &lock, sales.as_mut()).await;
                }
            }
            drop(round);
        }
    }

    async fn round(&self, host: &Host, lock: &dyn Lock, shop: &mut Shop) {
        if self.workload.locks > 1 && self.has_locks {
            return self.round_of_two(host, lock, shop).await;
        }
        let Some(held) = self.take(host, lock, KEY).await else { return };
        let inner = self.enter_again(lock, &held.attempt, &held.owner).await;
        self.hold(host, held, inner, shop).await;
    }

    /// Takes the lock, does inside what the test wants, gives it back.
    async fn round_inside(&self, host: &Host, lock: &dyn Lock) {
        let Some(section) = &self.section else { return };
        let Some(held) = self.take(host, lock, KEY).await else { return };
        let Held { guard, attempt, owner, granted } = held;
        let guard = Arc::new(guard);
        let node = Node::new(host, &self.plan);
        let inside = Inside::new(node, guard.clone(), self.recorder.clone(), granted);
        // Why it gave up is its own affair; whether it still believes is not.
        let gave_up = section.run(inside).await.is_err();
        let Some(guard) = Arc::into_inner(guard) else {
            panic!(
                "the section of a storm kept what it was given beyond its own end: `Inside` must \
                 not be moved into a task or a static"
            );
        };
        let end = deadline_of(&guard).filter(|_| gave_up);
        let held = Held { guard, attempt, owner, granted };
        self.stop_believing(&held, end);
        self.give_back(host, held).await;
    }

    /// Takes both locks, in the order of this client, sells, gives both back.
    async fn round_of_two(&self, host: &Host, lock: &dyn Lock, shop: &mut Shop) {
        let turned = is_turned(&self.name);
        let keys = if turned { [OTHER_KEY, KEY] } else { [KEY, OTHER_KEY] };
        let Some(first) = self.take(host, lock, keys[0]).await else { return };
        let Some(second) = self.take(host, lock, keys[1]).await else {
            return self.give_back(host, first).await;
        };
        // The stock is guarded by its own lock, whichever came first.
        let (of_stock, other) = if turned { (second, first) } else { (first, second) };
        self.hold(host, of_stock, Vec::new(), shop).await;
        self.give_back(host, other).await;
    }

    /// Acquires the lock `key`.
    pub(super) async fn take(&self, host: &Host, lock: &dyn Lock, name: &str) -> Option<Held> {
        let ordinal = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let attempt = Attempt { client: self.name.clone(), ordinal };
        let owner = Owner::named(attempt.to_string());
        let key: Name = name.into();
        let invoked = self.ask(&attempt, &key);
        let patience = Duration::from_micros(self.workload.patience.0);
        if let Some(drawn) = &self.drawn {
            drawn.begins(&attempt);
        }
        let acquire = lock.acquire(name, &owner, patience);
        let occasion = (self.name.clone(), Operation::Acquire, ordinal);
        let result = self.cancelling.run(host, occasion, acquire).await;
        let dropped = || LockError::Indeterminate { reason: DROPPED.to_owned() };
        let result = result.unwrap_or_else(|| Err(dropped()));
        if let Some(drawn) = &self.drawn {
            drawn.ends(&attempt);
        }
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
    async fn hold(&self, host: &Host, held: Held, inner: Vec<(Guard, EventId)>, shop: &mut Shop) {
        let attempt = held.attempt.clone();
        let belief_end = match self.reads {
            true => self.read_twice(host, &held.guard, shop).await,
            false => self.sell_one(host, &held.guard, &attempt, shop).await,
        };
        self.stop_believing(&held, belief_end);
        for (guard, granted) in inner.into_iter().rev() {
            let attempt = attempt.clone();
            let invoked =
                self.say(Some(granted), What::ReleaseInvoked { attempt: attempt.clone() });
            let release = guard.release().await;
            self.say(Some(invoked), What::ReleaseReturned { attempt, release });
        }
        self.give_back(host, held).await;
    }

    /// Says why the client no longer believes, if so.
    pub(super) fn stop_believing(&self, held: &Held, end: Option<BeliefEnd>) {
        if let Some(reason) = end {
            let attempt = held.attempt.clone();
            self.say(Some(held.granted), What::BeliefEnded { attempt, reason });
        }
    }

    /// Releases what is held.
    pub(super) async fn give_back(&self, host: &Host, held: Held) {
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
        shop: &mut Shop,
    ) -> Option<BeliefEnd> {
        let order = attempt.to_string();
        let (answer, belief_end) = self.order(host, guard, &order, shop).await;
        self.say(None, What::OrderReturned { order: order.into(), answer });
        belief_end
    }

    /// Reads, works, sells.
    async fn order(
        &self,
        host: &Host,
        guard: &Guard,
        order: &str,
        shop: &mut Shop,
    ) -> (OrderAnswer, Option<BeliefEnd>) {
        let shown = Shown::from(guard);
        let offer = match shop.look(&shown).await {
            Err((answer, end @ Some(_))) => return (answer, end),
            Err((answer, None)) => Err(answer),
            Ok(offer) => Ok(offer),
        };
        if let Some(end) = self.work(host, guard).await {
            return (OrderAnswer::Refused, Some(end));
        }
        match offer {
            Ok(offer) => shop.buy(&shown, guard, offer, order).await,
            Err(answer) => (answer, None),
        }
    }

    /// Reads, works, reads again; says why the client no longer believes, if so.
    async fn read_twice(&self, host: &Host, guard: &Guard, shop: &mut Shop) -> Option<BeliefEnd> {
        let shown = Shown { sharing: Sharing::Shared, ..Shown::from(guard) };
        if let Err((_, Some(end))) = shop.look(&shown).await {
            return Some(end);
        }
        if let Some(end) = self.work(host, guard).await {
            return Some(end);
        }
        shop.look(&shown).await.err().and_then(|(_, end)| end)
    }

    /// Works, mostly briefly; says why the client no longer believes, if so.
    pub(super) async fn work(&self, host: &Host, guard: &Guard) -> Option<BeliefEnd> {
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
        deadline_of(guard)
    }

    fn say(&self, cause: Option<EventId>, what: What) -> EventId {
        self.recorder.record_caused(&self.name, cause, what)
    }
}

/// Why whoever asks its guard now believes no longer, if so.
pub(super) fn deadline_of(guard: &Guard) -> Option<BeliefEnd> {
    guard.check().err().map(|_| match guard.remaining().is_zero() {
        true => BeliefEnd::Deadline,
        // Its own time is not up: somebody has told the guard of the loss.
        false => BeliefEnd::Told,
    })
}

/// Whether this client takes two things in the other order: every second one.
pub(super) fn is_turned(name: &str) -> bool {
    let number = name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| number % 2 == 0)
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

//! The facts of a finding that depend on its kind.

use serde::Serialize;

use crate::history::Name;

/// How a record vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vanished {
    /// A server without it became master.
    Failover,
    /// A full resynchronisation replaced it.
    Resync,
    /// Its server lost its memory.
    Crash,
    /// Somebody else deleted it.
    Deleted,
    /// Somebody else overwrote it.
    Overwritten,
    /// Its server's clock ended it before its time.
    ExpiredEarly,
}

/// The facts of a finding that depend on its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Detail {
    /// Of a double grant: the interval is the overlap.
    DoubleGrant,
    /// Of an interleaving: the interval runs from the first foreign operation to the
    /// operation after it.
    EffectInterleaved {
        /// Which resource.
        resource: Name,
    },
    /// Of an oversold unit: the interval runs from its first sale to its last.
    Oversell {
        /// Which unit.
        unit: u32,
        /// How many units there were.
        units: u32,
        /// The orders under which it was sold.
        orders: Vec<String>,
    },
    /// Of a stock whose units have no names: the interval runs from the sale that was
    /// one too many to the count.
    OversellCounted {
        /// How many units there were.
        units: u32,
        /// How many the counter says are left.
        left: i64,
        /// At least so many were sold.
        sold: u64,
    },
    /// Of a wrong release: the interval is what was left of the promise.
    WrongRelease {
        /// Where.
        node: Name,
    },
    /// Of a leak: the interval is the time for which the lock was closed.
    LeakedLock {
        /// The bound that the lock itself declares, µs.
        bound_us: u64,
        /// Whose record is in the way, where that is known.
        held_by: Option<String>,
        /// Whether that record never expires.
        never_expires: bool,
    },
    /// Of a section against the order of grants: the interval runs from the later
    /// grant's last operation to the older grant's first one after it.
    StaleEffect {
        /// Which resource.
        resource: Name,
    },
    /// Of a refused buyer: the interval runs from the refusal to the reading of the books.
    Undersell {
        /// A unit that was free all the time; `None` where units have no names.
        unit: Option<u32>,
        /// How many units there were.
        units: u32,
        /// How many of them were free in the end.
        free: u32,
    },
    /// Of an order with several units: the interval runs from its first sale to its last.
    DuplicateOrder {
        /// The order.
        order: String,
        /// The units that it bought.
        units: Vec<u32>,
    },
    /// Of a lost order: the interval runs from the answer to the reading of the books.
    LostOrder {
        /// The order.
        order: String,
    },
    /// Of sums that differ: the interval is the moment of the count.
    StockNotConserved {
        /// How many units there were.
        units: u32,
        /// How many the counter says are left.
        left: i64,
        /// How many are set aside.
        reserved: u32,
        /// At least so many were sold, by the books or by what buyers were told.
        sold_at_least: u64,
        /// At most so many were.
        sold_at_most: u64,
    },
    /// Of a loss: the interval runs from the loss to the wrong answer, or to the end of
    /// the belief.
    LossNotTold {
        /// What the holder was told or not told.
        how: Untold,
    },
    /// Of a waiter that is not served: the interval is its wait.
    StuckWaiter {
        /// The bound that the lock itself declares, µs.
        bound_us: u64,
        /// Who waits for whom, from the waiter on; the waiter alone when the lock is free.
        chain: Vec<Waiting>,
    },
    /// Of a circle: the interval is the time for which all of them waited.
    Deadlock {
        /// The bound that the lock itself declares, µs.
        bound_us: u64,
        /// Who waits for whom; the last one waits for the first.
        cycle: Vec<Waiting>,
    },
    /// Of a broken broadcast: the interval is the moment at which it showed.
    BroadcastBroken {
        /// At which server it showed.
        node: Name,
        /// How.
        how: String,
    },
    /// Of a waiter passed over: the interval is its wait.
    Unfair {
        /// How often.
        bypasses: u64,
        /// How often the lock allows it.
        bound: u32,
    },
    /// Of a lost grant: the interval is what was left of the promise.
    GrantLost {
        /// Where.
        node: Name,
        /// How.
        how: Vanished,
    },
    /// Of an overstay: the interval is the belief beyond the promise.
    Overstay,
    /// Of a regression: the interval runs from grant to grant.
    TokenRegression {
        /// The earlier grant's token.
        earlier: u64,
        /// The later grant's.
        later: u64,
    },
    /// Of a false reject: the interval runs from the registration to the refusal.
    FalseReject {
        /// The token shown.
        shown: Option<u64>,
        /// The token that the resource had registered.
        registered: u64,
    },
}

/// One link of a chain of waiters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Waiting {
    /// Who waits.
    pub owner: String,
    /// For which lock.
    pub key: String,
    /// Who holds it; `None` when nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// How a loss was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Untold {
    /// A release was answered "released" though no server had anything to release.
    ToldReleased,
    /// A renewal was answered "renewed" though no server renewed anything.
    ToldRenewed,
    /// Nobody told it within the lock's own bound.
    NotTold,
}

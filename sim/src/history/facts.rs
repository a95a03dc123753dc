//! The facts that events are made of: outcomes, reasons, operations, families.

use serde::{Deserialize, Serialize};

use super::Name;

/// The lease of a lock that has none: it ends with a release or a session. In JSON
/// files it is `null`.
pub const NO_END: u64 = u64::MAX;

/// How an acquire came back to the client's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum AcquireOutcome {
    /// Held.
    Granted {
        /// The fencing token, where there is one.
        token: Option<u64>,
        /// The lease, µs; [`NO_END`] for a lock that has none.
        #[serde(with = "no_end")]
        lease_us: u64,
        /// What the lock leaves unused of it for clocks that run apart, µs.
        margin_us: u64,
    },
    /// Somebody else held it and the client would not wait.
    Busy,
    /// Somebody else held it for the whole wait.
    TimedOut,
    /// No reply.
    Indeterminate {
        /// Why, for people.
        reason: String,
    },
    /// The backend failed or refused.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// Why a client stopped believing that it holds a lock, other than by releasing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeliefEnd {
    /// Its own deadline check said so.
    Deadline,
    /// The backend or the resource told it of the loss.
    Told,
    /// It crashed.
    Died,
    /// The guard was dropped without a release.
    Dropped,
    /// Nobody saw what it believed: of a client outside, whose lock is seen by its servers alone.
    Unseen,
}

/// How a lock's record left a server without release or expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordLoss {
    /// A full resynchronisation replaced the data set.
    Resync,
    /// The server lost its memory in a crash.
    Crash,
    /// Somebody deleted it who is not its owner.
    Deleted,
    /// Somebody overwrote it.
    Overwritten,
}

/// What was asked of the stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "operation")]
pub enum StockOperation {
    /// Which units are left?
    Read {
        /// How many were left.
        left: u32,
        /// The first of them: what a buyer would take.
        next_unit: Option<u32>,
    },
    /// Sell this unit under this order.
    Sell {
        /// The unit, from 1.
        unit: u32,
        /// The order's name; a repeated order is the same sale.
        order: Name,
    },
    /// Set this unit aside for this order.
    Reserve {
        /// The unit, from 1.
        unit: u32,
        /// The order's name.
        order: Name,
    },
    /// Give this unit back that was set aside.
    Cancel {
        /// The unit, from 1.
        unit: u32,
        /// The order's name.
        order: Name,
    },
    /// Something else that is done to the resource, in a test's own words.
    Act {
        /// What.
        name: Name,
    },
}

/// How a renewal came back to the client's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Renewal {
    /// Still held.
    Renewed,
    /// No longer held: this tells the holder of the loss.
    NotHeld,
    /// No reply.
    Indeterminate {
        /// Why, for people.
        reason: String,
    },
}

/// What a buyer was told of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderAnswer {
    /// It is bought.
    Accepted,
    /// Nothing is left.
    SoldOut,
    /// It was not bought, for another reason.
    Refused,
    /// No reply: it may or may not be bought.
    Indeterminate,
}

/// The sorts of faults, as far as blame tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultFamily {
    /// A program died.
    ProcessCrash,
    /// A machine died.
    MachineCrash,
    /// A node, or one of its task groups, stood still.
    Pause,
    /// Messages did not arrive.
    Partition,
    /// Messages took longer.
    SlowLink,
    /// Replication output did not drain.
    ReplicationStall,
    /// A clock ran at another rate.
    ClockRate,
    /// A wall clock jumped.
    ClockStep,
    /// Connections were reset.
    Reset,
    /// A wall clock stood still.
    ClockFreeze,
    /// A clock was slewed: off its rate until it had gained or lost an amount.
    ClockSlew,
    /// A client dropped an operation half-way.
    Cancel,
    /// A client's work stood still, and its node went on.
    Hang,
    /// A disk was slow.
    DiskSlow,
    /// A disk completed nothing.
    DiskStall,
    /// A disk failed to synchronise.
    DiskError,
    /// A standby was made a primary.
    Promote,
}

/// [`NO_END`] is `null`: few JSON readers have 64 bits.
mod no_end {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub fn serialize<S: Serializer>(lease_us: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*lease_us).filter(|lease_us| *lease_us != super::NO_END).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.unwrap_or(super::NO_END))
    }
}

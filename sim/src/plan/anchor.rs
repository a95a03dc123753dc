//! Names of events that a fault can wait for.

use super::Micros;

/// When a fault begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time from the start of the run.
    At(Micros),
    /// Some time after an event; with no delay, inside the recording of the event.
    After {
        /// The event.
        anchor: Anchor,
        /// How long after it.
        delay: Micros,
    },
}

/// An event, named so that the name survives other seeds and other engines: the
/// n-th operation of a client, in one of its phases. Written
/// `app-1 acquire 3 applied`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The client.
    pub client: String,
    /// Which of its operations.
    pub operation: Operation,
    /// The how-manieth of its attempts, from 1. For `acquire` all attempts count,
    /// granted or not, like [`Attempt`](crate::history::Attempt); `release`, `read`
    /// and `sell` bear the ordinal of their attempt.
    pub ordinal: u32,
    /// Which moment of it.
    pub phase: Phase,
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Taking the lock.
    Acquire,
    /// Reading the stock.
    Read,
    /// Selling a unit.
    Sell,
    /// Giving the lock back.
    Release,
}

/// A moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The client asks. (Not for `read` and `sell`.)
    Invoked,
    /// The server has applied it, and has told nobody yet.
    Applied,
    /// A replica has applied it. (Only for `acquire`.)
    Replicated,
    /// The answer is in the client's hands; for `acquire`: it was granted.
    /// (Not for `read` and `sell`.)
    Returned,
}

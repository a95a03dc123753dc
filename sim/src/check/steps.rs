//! How long a checker may think: counted in steps, never by a clock, so that a verdict
//! does not depend on the machine.
//!
//! A checker that is out of steps panics with [`OutOfSteps`]; the judge catches it and
//! the verdict is unknown.

use std::cell::Cell;

/// What is thrown when the steps are used up.
#[derive(Clone, Copy, Debug)]
pub struct OutOfSteps;

/// The steps that are left.
#[derive(Debug)]
pub struct Steps {
    left: Cell<u64>,
    all: u64,
}

impl Default for Steps {
    /// As many as anybody could use.
    fn default() -> Self {
        Steps::new(u64::MAX)
    }
}

impl Steps {
    /// So many.
    pub fn new(all: u64) -> Steps {
        Steps { left: Cell::new(all), all }
    }

    /// Enough for every sweep over `events` events, and for no search: n log n with room
    /// for the pairs that have to be looked at.
    pub fn enough_for(events: usize) -> Steps {
        let events = events as u64;
        let log = u64::from(u64::BITS - events.leading_zeros());
        Steps::new(1_000_000_u64.saturating_add(events.saturating_mul(64 + 8 * log)))
    }

    /// Uses `count` of them.
    ///
    /// # Panics
    /// With [`OutOfSteps`] when there are not so many left.
    pub fn take(&self, count: u64) {
        match self.left.get().checked_sub(count) {
            Some(left) => self.left.set(left),
            None => std::panic::panic_any(OutOfSteps),
        }
    }

    /// All of them again, for the next checker.
    pub fn again(&self) {
        self.left.set(self.all);
    }
}

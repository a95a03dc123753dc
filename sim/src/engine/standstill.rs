//! Where a run stands still, to be looked at.
//!
//! The event engine is *at rest* whenever no task is ready: all that an instant set off has been
//! done, no lock of a server is held, and the next thing (a packet that arrives, a timer, a
//! fault) is not yet begun. Rests are numbered, and their numbers are the same in every run of
//! a plan; so a run can be stopped at the rest before an event, or at the one after it.
//!
//! Only runs that are to stand still count their rests: for all others this is one look at a
//! flag that they look at anyway.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an engine does at a rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on.
    No,
    /// It ends the run here.
    Stand,
    /// The run cannot go on, for this reason.
    Stuck(String),
}

/// Called once, on the run's thread, when the run has come to where it stands; what it does not
/// return from stands for so long.
pub type Look = Box<dyn FnOnce() + Send>;

/// Counts the rests of a run and knows at which it ends.
pub struct Standstill {
    rests: AtomicU64,
    at: Option<u64>,
    look: Mutex<Option<Look>>,
}

impl Standstill {
    /// At the rest of this number, from 0, or where the run ends of itself; there `look` is
    /// called.
    pub fn new(at: Option<u64>, look: Look) -> Standstill {
        Standstill { rests: AtomicU64::new(0), at, look: Mutex::new(Some(look)) }
    }

    /// How many rests there have been.
    pub(super) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    /// There is another.
    pub(super) fn rest(&self) -> Stop {
        match self.rests.fetch_add(1, Ordering::Relaxed) {
            rest if Some(rest) == self.at => Stop::Stand,
            _ => Stop::No,
        }
    }

    /// The run is over.
    pub(super) fn stand(&self) {
        let look = self.look.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(look) = look {
            look();
        }
    }
}

impl fmt::Debug for Standstill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Standstill").field("at", &self.at).finish_non_exhaustive()
    }
}

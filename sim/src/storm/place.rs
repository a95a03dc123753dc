//! Where the storm of this process is, for whoever waits for it from outside: a worker's
//! watchdog asks here when a run does not come back.
//!
//! It is read while the run's own thread is stuck, so nothing of it may wait for that
//! thread: the world's locks are never held while a program runs.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::engine::world::World;

static LATEST: Mutex<Weak<World>> = Mutex::new(Weak::new());

/// The world of the storm that begins now.
pub(super) fn begin(world: &Arc<World>) {
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(world);
}

/// Where the storm that began last is, as a clause; `None` when it is over or nothing has
/// run in it yet.
pub fn place() -> Option<String> {
    let latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
    latest.place()
}

//! Other futures of one past: a run up to an event as it was, and with other draws after
//! it. How often such runs fail tells how much of a failure was settled at that event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::locks::LockFactory;
use super::{Manner, Run, staged};
use crate::draw;
use crate::engine::Engine;
use crate::history::{EventId, Recorder};
use crate::plan::Plan;

/// Whether faults no longer begin.
#[derive(Clone, Debug, Default)]
pub struct Lull(Arc<AtomicBool>);

impl Lull {
    /// Whether that is so now.
    pub fn is_calm(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where the draws of a run become others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reseed {
    /// After this event; what it sets off has the new draws already.
    pub after: EventId,
    /// The seed of all later draws.
    pub seed: u64,
    /// Whether no fault begins any more after it. What has begun goes on to its end.
    pub calm: bool,
}

impl Reseed {
    /// Has the thread of the run reseeded, and where it is to be calm the `lull` begun, as
    /// soon as `recorder` writes the event down.
    pub(super) fn wait(self, recorder: &Recorder, lull: Lull) {
        recorder.listen(Arc::new(move |event| {
            if event.id == self.after {
                draw::reseed(self.seed);
                lull.0.store(self.calm, Ordering::Relaxed);
            }
        }));
    }
}

/// Runs `plan` as [`run_with`](super::run_with) does, up to and with an event, and then
/// with other draws. The events up to that one are those of the plain run: whoever builds on
/// it compares them.
pub fn run_reseeded(
    plan: &Plan,
    engine: &dyn Engine,
    factory: &LockFactory,
    reseed: Reseed,
) -> Run {
    staged(plan, engine, factory, Manner { reseed: Some(reseed), ..Manner::default() })
}

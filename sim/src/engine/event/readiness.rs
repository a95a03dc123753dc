//! Is a task ready, after an event of ours has woken somebody?
//!
//! A waker may lead nowhere: its task has ended. If tokio parked after it, its clock
//! would leap past events of ours that are due. There are two ways to know, and runs are
//! the same with both:
//! - [`Readiness::Depths`] reads how many tasks are in tokio's run queues, and takes the
//!   next event at once where there are none. tokio tells that with `--cfg tokio_unstable`.
//! - [`Readiness::Turn`] has tokio look itself: it wakes the future that waits for the end
//!   of the run. tokio does not park then, polls that future before all tasks, takes
//!   what is in its queue, and comes back to the park hook. A waker that led nowhere
//!   costs one such turn.

use super::core::Core;

/// How the driver knows whether a task is ready.
pub(super) enum Readiness {
    /// By the depths of tokio's run queues.
    #[cfg(tokio_unstable)]
    Depths,
    /// By a turn of tokio's.
    Turn,
}

impl Readiness {
    /// How a build, or a run that is as one, knows it.
    pub(super) fn of(plain: bool) -> Readiness {
        #[cfg(tokio_unstable)]
        if !plain {
            return Readiness::Depths;
        }
        let _ = plain;
        Readiness::Turn
    }

    /// Whether tokio must have its turn now: a task is ready, or may be.
    pub(super) fn is_turn(&self, core: &Core) -> bool {
        match self {
            #[cfg(tokio_unstable)]
            Readiness::Depths => core.tokio().metrics.as_ref().is_some_and(|metrics| {
                metrics.worker_local_queue_depth(0) != 0 || metrics.global_queue_depth() != 0
            }),
            Readiness::Turn => {
                core.wake_main();
                true
            }
        }
    }
}

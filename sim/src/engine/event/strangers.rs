//! Tasks that were spawned past their host, where only their number is known: without
//! tokio's hooks (`--cfg tokio_unstable`) it is what tokio has more of than the world.
//! With the hooks there is [`attribution`](super::attribution).
//!
//! Whose such a task is cannot be told. So a pause or a crash of any node beside one is
//! declared not expressible.
//!
//! Nor can be seen how often it runs, and such tasks that never wait would keep a run at
//! one instant for ever. Beside strangers a task of our own therefore tries, after each
//! event, whether it has tokio's queue to itself. tokio polls the future that waits for
//! the end of the run after every [`EVENT_INTERVAL`] polls of tasks at the latest; if all
//! of these were our task's, everybody else waits. If after [`WINDOWS_OF_AN_INSTANT`]
//! times somebody still ran in between, time stands still. That costs some microseconds
//! an event, and nothing where there are no strangers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use super::core::Core;
use crate::engine::senses;
use crate::engine::turns::TURNS_OF_AN_INSTANT;
use crate::plan::Micros;

/// So many polls of tasks tokio makes before it looks at anything else; its default.
pub(super) const EVENT_INTERVAL: u32 = 61;
/// More than the nodes' own tasks may take: those are stopped, and named, by their world.
const WINDOWS_OF_AN_INSTANT: u32 = 2 * TURNS_OF_AN_INSTANT;

/// Looks whether strangers ever wait.
#[derive(Default)]
pub(super) struct Strangers {
    probe: Arc<Probe>,
    /// Windows in a row in which somebody else ran.
    busy: AtomicU32,
}

/// Our task beside the strangers.
#[derive(Default)]
struct Probe {
    waker: OnceLock<Waker>,
    is_spawned: AtomicBool,
    /// It runs again and again until this is false.
    is_trying: AtomicBool,
    /// Its polls since the last look.
    polls: AtomicU32,
}

impl Probe {
    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let _ = self.waker.set(context.waker().clone());
        if self.is_trying.load(Ordering::Relaxed) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn start(self: &Arc<Self>) {
        self.is_trying.store(true, Ordering::Relaxed);
        if !self.is_spawned.swap(true, Ordering::Relaxed) {
            let probe = self.clone();
            let polled = std::future::poll_fn(move |context| probe.poll(context));
            drop(senses::of_nobody(|| tokio::spawn(polled)));
        } else if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl Strangers {
    /// How many there are.
    pub(super) fn count(&self, core: &Core) -> usize {
        let own = usize::from(self.probe.is_spawned.load(Ordering::Relaxed));
        let alive = core.tokio().metrics.as_ref().map_or(0, |metrics| metrics.num_alive_tasks());
        alive.saturating_sub(core.world.living_tasks() + own)
    }

    /// A task of a node has had its turn, and may have spawned some.
    fn look_after_turn(&self, core: &Core) {
        if !self.probe.is_trying.load(Ordering::Relaxed) && self.count(core) > 0 {
            core.wake_main();
        }
    }

    /// The future that waits for the end of the run is polled: after an event, or after a
    /// window of the probe's.
    pub(super) fn look(&self, core: &Core, context: &Context<'_>) {
        let polls = self.probe.polls.swap(0, Ordering::Relaxed);
        let was_trying = self.probe.is_trying.load(Ordering::Relaxed);
        if was_trying && polls >= EVENT_INTERVAL {
            self.probe.is_trying.store(false, Ordering::Relaxed);
            return;
        }
        if was_trying {
            let windows = self.busy.fetch_add(1, Ordering::Relaxed);
            if windows >= WINDOWS_OF_AN_INSTANT {
                return core.get_stuck(stuck(core.now_us(), self.count(core)));
            }
        } else if self.count(core) == 0 {
            return;
        } else {
            self.busy.store(0, Ordering::Relaxed);
            self.probe.start();
        }
        context.waker().wake_by_ref();
    }

    /// Why a fault at a node is not expressible, if it is not.
    pub(super) fn object(&self, core: &Core, fault: &str, name: &str) -> Option<String> {
        let count = self.count(core);
        (count > 0).then(|| {
            let tasks = if count == 1 { "a task" } else { "tasks" };
            format!(
                "{fault} of {name}, while {tasks} spawned past the host may be its own: build with \
                 `--cfg tokio_unstable`, which tells whose they are"
            )
        })
    }
}

impl Core {
    /// Has strangers noticed when they are born, where they are only counted.
    pub(super) fn watch_for_strangers(self: &Arc<Self>) {
        if self.strangers.is_none() {
            return;
        }
        let core = Arc::downgrade(self);
        self.world.after_turns(move || {
            if let Some(core) = core.upgrade()
                && let Some(strangers) = &core.strangers
            {
                strangers.look_after_turn(&core);
            }
        });
    }
}

fn stuck(now_us: u64, count: usize) -> String {
    let at = Micros(now_us);
    let tasks = if count == 1 { "a task" } else { "tasks" };
    format!(
        "time stands still at {at}: {tasks} spawned past the host ran more than \
         {TURNS_OF_AN_INSTANT} times without waiting; a build with `--cfg tokio_unstable` tells \
         where it was spawned"
    )
}

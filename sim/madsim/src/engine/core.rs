//! What the parts of the engine share.
//!
//! Locking: one mutex. Under it only madsim's network is called, which calls nobody; wakers
//! are woken, closures run and the world is told after it is let go.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockstorm_sim::engine::world::{NodeId, Touch, World};
use lockstorm_sim::engine::{Kernel, Links as Latency, Stage};
use lockstorm_sim::history::Recorder;
use madsim::net::Endpoint;
use madsim::runtime::NodeHandle;
use madsim::time::{Instant, TimeHandle};
use tokio::sync::Notify;

use super::connection::{Connection, Place};
use super::library::Library;
use super::links::Links;

/// madsim moves nothing in less, µs: its channels sleep at least so long for each message.
const LATENCY_MIN_US: u64 = 1_000;
/// Where each machine's kernel has its end of madsim's channels.
const KERNEL_PORT: u16 = u16::MAX;

/// Something that a fault or the storm wants done at a time.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// What a change of the state causes outside of it.
#[derive(Default)]
pub(super) struct Effects {
    wakers: Vec<Waker>,
    touches: Vec<Touch>,
}

impl Effects {
    pub(super) fn wake(&mut self, waker: &mut Option<Waker>) {
        self.wakers.extend(waker.take());
    }

    pub(super) fn touch(&mut self, touch: Touch) {
        self.touches.push(touch);
    }
}

/// Who listens on a port.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) ready: VecDeque<u64>,
    /// Connections whose handshake is under way.
    pub(super) coming: usize,
    pub(super) acceptor: Option<Waker>,
}

/// A machine.
pub(super) struct Machine {
    /// The node in madsim; another handle after each death.
    pub(super) handle: NodeHandle,
    /// Counts the machine's deaths.
    pub(super) life: u32,
    /// Its kernel's end of madsim's channels; `None` while it boots or is dead.
    pub(super) endpoint: Option<Arc<Endpoint>>,
    pub(super) is_dead: bool,
    /// What the libraries of the living program have of tokio.
    pub(super) library: Option<Arc<Library>>,
    pub(super) next_port: u16,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) machines: Vec<Machine>,
    pub(super) connections: BTreeMap<u64, Connection>,
    opened: u64,
    pub(super) listening: BTreeMap<(NodeId, u16), Listening>,
    pub(super) links: Links,
    agenda: BTreeMap<(u64, u64), Action>,
    scheduled: u64,
    pub(super) driver: Option<Waker>,
    stuck: Option<String>,
    /// What is of a dead program and must be dropped where no runtime of tokio runs.
    pub(super) buried: Vec<Arc<Library>>,
}

impl State {
    pub(super) fn machine(&self, node: NodeId) -> &Machine {
        &self.machines[node.index()]
    }

    /// Whether a life of a machine is the present one.
    pub(super) fn lives(&self, node: NodeId, life: u32) -> bool {
        let machine = self.machine(node);
        !machine.is_dead && machine.life == life
    }

    /// The number of a new connection.
    pub(super) fn number_connection(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }
}

/// The engine of one run.
pub(super) struct Core {
    pub(super) world: Arc<World>,
    pub(super) recorder: Recorder,
    pub(super) kernel: Kernel,
    latency_us: u64,
    time: TimeHandle,
    /// madsim's time at which the run began.
    origin: OnceLock<Instant>,
    state: Mutex<State>,
    finished: AtomicBool,
    steps: AtomicU64,
    messages: AtomicU64,
    /// Told when a kernel has booted.
    pub(super) booted: Notify,
    /// One for each node, told when its clock changes.
    pub(super) clocks: Vec<Notify>,
}

impl Core {
    /// For a run in the runtime of madsim that runs on this thread.
    pub(super) fn new(stage: &Stage) -> Arc<Core> {
        Arc::new(Core {
            world: stage.world.clone(),
            recorder: stage.recorder.clone(),
            kernel: stage.kernel,
            latency_us: stage.links.median_us.max(LATENCY_MIN_US),
            time: TimeHandle::current(),
            origin: OnceLock::new(),
            state: Mutex::default(),
            finished: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            booted: Notify::new(),
            clocks: (0..stage.world.len()).map(|_| Notify::new()).collect(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and then does what that causes outside of it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = change(&mut self.lock(), &mut effects);
        // What happens as a finished run is torn down is nobody's doing any more.
        for touch in effects.touches.into_iter().filter(|_| !self.is_finished()) {
            self.world.touch(touch);
        }
        for waker in effects.wakers {
            waker.wake();
        }
        result
    }

    /// Looks at a connection, if it is still there.
    pub(super) fn with_connection<R>(
        &self,
        place: Place,
        work: impl FnOnce(&mut Connection, &mut Effects) -> R,
    ) -> Option<R> {
        self.change(|state, effects| Some(work(state.connections.get_mut(&place.0)?, effects)))
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.clocks.len()).map(|index| NodeId(index as u16))
    }

    /// Where a node's kernel has its end of madsim's channels.
    pub(super) fn address(node: NodeId) -> SocketAddr {
        (World::address(node), KERNEL_PORT).into()
    }

    // -- time ------------------------------------------------------------------

    /// The run begins now.
    pub(super) fn begin(&self) {
        let _ = self.origin.set(self.time.now_instant());
        self.follow();
    }

    /// Sets the world's clock to madsim's. Whoever gets a turn does that first: in madsim
    /// every turn takes time.
    pub(super) fn follow(&self) {
        if let Some(origin) = self.origin.get() {
            let now = self.time.now_instant().saturating_duration_since(*origin);
            self.world.set_now_us(now.as_micros() as u64);
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn now_us(&self) -> u64 {
        self.world.now_us()
    }

    /// Completes at `true_us`, to the microsecond: madsim's own sleeps take at least a
    /// millisecond, unless they are set again.
    pub(super) fn until(&self, true_us: u64) -> impl Future<Output = ()> + Send + Unpin + use<> {
        let origin = self.origin.get().copied().unwrap_or_else(|| self.time.now_instant());
        let deadline = origin + Duration::from_micros(true_us);
        let mut sleep = Box::pin(self.time.sleep_until(deadline));
        sleep.as_mut().reset(deadline);
        // Every poll of a sleep gives madsim one more timer, which it never takes back.
        let mut armed: Option<Waker> = None;
        std::future::poll_fn(move |context: &mut Context<'_>| {
            let is_armed = armed.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if is_armed && !sleep.is_elapsed() {
                return Poll::Pending;
            }
            armed = Some(context.waker().clone());
            sleep.as_mut().poll(context)
        })
    }

    /// One-way latency of the link at its median, µs.
    pub(super) fn latency_us(&self, state: &State, from: NodeId, to: NodeId) -> u64 {
        self.latency_us + state.links.extra_us(from, to)
    }

    // -- the run ---------------------------------------------------------------

    /// Has `action` run by the driver once `delay_us` have passed.
    pub(super) fn schedule(&self, delay_us: u64, action: Action) {
        let at_us = self.now_us().saturating_add(delay_us);
        self.change(|state, effects| {
            state.scheduled += 1;
            state.agenda.insert((at_us, state.scheduled), action);
            effects.wake(&mut state.driver);
        });
    }

    /// What is due now, and when the next of it is due.
    pub(super) fn due(&self) -> (Vec<Action>, Option<u64>) {
        let state = &mut *self.lock();
        let later = state.agenda.split_off(&(self.now_us() + 1, 0));
        let due = std::mem::replace(&mut state.agenda, later);
        let next = state.agenda.keys().next().map(|(at_us, _)| *at_us);
        (due.into_values().collect(), next)
    }

    /// Whether the driver has something to do at once.
    pub(super) fn has_due(&self) -> bool {
        let state = self.lock();
        let next = state.agenda.keys().next();
        next.is_some_and(|(at_us, _)| *at_us <= self.now_us())
            || !state.buried.is_empty()
            || self.is_finished()
            || self.world.is_halted()
    }

    /// Has the driver woken by whoever schedules something.
    pub(super) fn keep_driver(&self, context: &Context<'_>) {
        let before = self.lock().driver.replace(context.waker().clone());
        drop(before);
    }

    /// Has the driver look at the run.
    pub(super) fn wake_driver(&self) {
        self.change(|state, effects| effects.wake(&mut state.driver));
    }

    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
        self.wake_driver();
    }

    /// The engine itself cannot go on; the first reason is kept.
    pub(super) fn get_stuck(&self, why: String) {
        self.lock().stuck.get_or_insert(why);
        self.finish();
    }

    pub(super) fn stuck(&self) -> Option<String> {
        self.lock().stuck.clone()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Takes everything that is still to come, or open, for dropping.
    pub(super) fn dismantle(&self) -> State {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Counts a message and tells which faults it meets. True if a cut keeps it.
    pub(super) fn count(
        &self,
        state: &State,
        (from, to): (NodeId, NodeId),
        effects: &mut Effects,
    ) -> bool {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let is_cut = state.links.is_cut(from, to);
        if is_cut {
            effects.touch(Touch::Cut { from, to });
        }
        if state.links.extra_us(from, to) > 0 {
            effects.touch(Touch::Slowed { from, to });
        }
        is_cut
    }

    /// The order of arrivals is part of the trace; their bytes are not.
    pub(super) fn trace(&self, (connection, side): Place, code: u8) {
        let mut step = [0u8; 18];
        step[..8].copy_from_slice(&self.now_us().to_le_bytes());
        step[8..16].copy_from_slice(&connection.to_le_bytes());
        step[16] = side as u8;
        step[17] = code;
        self.recorder.mix(&step);
    }
}

/// Distance of the tenth percentile of a normal from its mean, in sigmas.
const TENTH: f64 = -1.281_552;

/// The range of madsim's latencies, which are drawn evenly: the median is the stage's, and
/// its tenth percentile is the least of them.
pub(super) fn latency_range(latency: Latency) -> std::ops::Range<Duration> {
    let sigma = latency.sigma_milli as f64 / 1_000.0;
    let median_ns = latency.median_us.max(1) * 1_000;
    let least_ns = libm::round(median_ns as f64 * libm::exp(sigma * TENTH)) as u64;
    // Never empty: madsim draws from it.
    let most_ns = 2 * median_ns - least_ns + 1;
    Duration::from_nanos(least_ns)..Duration::from_nanos(most_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_latencies_keeps_the_median_and_is_never_empty() {
        let range = |median_us, sigma_milli| {
            let range = latency_range(Latency { median_us, sigma_milli });
            (range.start.as_nanos(), range.end.as_nanos())
        };
        assert_eq!(range(250, 400), (149_731, 350_270));
        assert_eq!(range(1_000, 0), (1_000_000, 1_000_001));
        assert_eq!(range(0, 0), (1_000, 1_001));
        let (least, most) = range(5_000, 2_000);
        assert_eq!(least + most, 10_000_001, "{least} {most}");
    }
}

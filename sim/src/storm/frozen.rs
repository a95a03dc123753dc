//! A run that stands still at one of its events, so that one can look inside.
//!
//! Order of things: [`watched`] runs a plan and notes behind which rest of the engine each event
//! fell; [`Until`] names an event and [`Watched::place`] finds it; [`Watched::freeze`] runs the
//! plan once more, up to there, and gives a [`Frozen`]: the run's own world, which stands as long
//! as that lives. Nothing was copied out of it: its thread waits, and whoever [looks](window) is
//! answered by the servers' own code from their own memory, on their own clocks, which stand.
//!
//! A run can stand only where the engine is at rest (see [`standstill`](crate::engine::standstill)):
//! *behind* an event all that the event set off at once has been done as well, and *before* one
//! the packet, timer or fault that leads to it is due and not yet begun. Both runs have the same
//! events up to there, or freezing fails: what is looked at is the run that was told of.

pub mod until;
pub mod window;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

pub use until::{Place, Until};
pub use window::{State, Window};

use super::locks::LockFactory;
use super::{Manner, Run, staged};
use crate::engine::event::EventEngine;
use crate::engine::standstill::Standstill;
use crate::engine::world::World;
use crate::history::{History, Name, Recorder};
use crate::plan::Plan;

/// How a run is made that is to stand still.
pub(super) struct Freezing {
    place: Option<Place>,
    /// Behind how many rests each event fell.
    rests: Mutex<Vec<u64>>,
    windows: Mutex<BTreeMap<Name, Window>>,
    /// Where the world goes once it stands, and what its thread then waits for.
    door: Mutex<Option<Door>>,
}

/// The two ends that a run's thread has.
struct Door {
    out: Sender<Standing>,
    until: Receiver<()>,
}

/// What comes out of a run that stands.
struct Standing {
    world: Arc<World>,
    history: History,
}

impl std::fmt::Debug for Freezing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Freezing").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Freezing {
    fn new(place: Option<Place>, door: Option<Door>) -> Arc<Freezing> {
        let (rests, windows) = (Mutex::default(), Mutex::default());
        Arc::new(Freezing { place, rests, windows, door: Mutex::new(door) })
    }

    /// The run begins.
    pub(super) fn begin(self: &Arc<Self>, world: &Arc<World>, recorder: &Recorder) {
        let (counting, of) = (self.clone(), Arc::downgrade(world));
        recorder.listen(Arc::new(move |_| {
            let rests = of.upgrade().map_or(0, |world| world.rests());
            lock(&counting.rests).push(rests);
        }));
        let (standing, world_then) = (self.clone(), Arc::downgrade(world));
        let recorder = recorder.clone();
        let look = move || {
            let Some(door) = lock(&standing.door).take() else { return };
            let Some(world) = world_then.upgrade() else { return };
            if let Some(at_us) = standing.place.and_then(|place| place.at_us) {
                world.set_now_us(at_us.max(world.now_us()));
            }
            let (history, _) = recorder.close();
            if door.out.send(Standing { world, history }).is_ok() {
                // An end that is dropped is as good as one that says so.
                let _ = door.until.recv();
            }
        };
        let at = self.place.and_then(|place| place.rest);
        world.stand_still(Standstill::new(at, Box::new(look)));
    }

    /// A server is started, again or for the first time.
    pub(super) fn enter(&self, name: &Name, window: Window) {
        lock(&self.windows).insert(name.clone(), window);
    }
}

/// A run of which it is known where its events fell.
#[derive(Debug)]
pub struct Watched {
    /// The run.
    pub run: Run,
    factory: Factory,
    rests: Vec<u64>,
}

/// A lock factory, which says nothing of itself.
#[derive(Clone)]
struct Factory(LockFactory);

impl std::fmt::Debug for Factory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Factory")
    }
}

/// Runs `plan` with a lock from `factory` on the event engine, as
/// [`run_with`](super::run_with) does, and notes where its events fall.
pub fn watched(plan: &Plan, factory: &LockFactory) -> Watched {
    let freezing = Freezing::new(None, None);
    let manner = Manner { freezing: Some(freezing.clone()), ..Manner::default() };
    let run = staged(plan, &EventEngine, factory, manner);
    let rests = std::mem::take(&mut *lock(&freezing.rests));
    Watched { run, factory: Factory(factory.clone()), rests }
}

/// Why a world does not stand where it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFrozen {
    /// The second run was another.
    #[error("nondeterminism: the run that was to stand still parted from itself at event {0}")]
    OtherPast(u64),
    /// The run did not come to a stand.
    #[error("the run did not come to where it was to stand: {0}")]
    NeverStood(String),
}

impl Watched {
    /// Behind how many rests the event of this number fell.
    fn rest_of(&self, event: u64) -> Option<u64> {
        usize::try_from(event).ok().and_then(|event| self.rests.get(event)).copied()
    }

    /// Runs it again, and has it stand at `place`.
    ///
    /// # Errors
    /// When it does not come there, or with another past.
    pub fn freeze(&self, place: Place) -> Result<Frozen, NotFrozen> {
        let (out, standing) = mpsc::channel();
        let (release, until) = mpsc::channel();
        let freezing = Freezing::new(Some(place), Some(Door { out, until }));
        let manner = Manner { freezing: Some(freezing.clone()), ..Manner::default() };
        let (plan, factory) = (self.run.plan.clone(), self.factory.0.clone());
        let thread = std::thread::Builder::new()
            .name("frozen".to_owned())
            .spawn(move || staged(&plan, &EventEngine, &factory, manner))
            .map_err(|error| NotFrozen::NeverStood(error.to_string()))?;
        let Ok(Standing { world, history }) = standing.recv() else {
            let run = thread.join().ok();
            let why = run.and_then(|run| run.ending.told());
            return Err(NotFrozen::NeverStood(why.unwrap_or_else(|| "it ended".to_owned())));
        };
        let windows = std::mem::take(&mut *lock(&freezing.windows));
        let plan = self.run.plan.clone();
        let hold = Hold { release: Some(release), thread: Some(thread) };
        let frozen = Frozen { plan, place, history, world, windows, _hold: hold };
        frozen.check(&self.run.history)?;
        frozen.windows.values().for_each(|window| window.freeze(&place.instant()));
        Ok(frozen)
    }
}

/// A world that stands still, as long as this lives.
#[derive(Debug)]
pub struct Frozen {
    /// What ran.
    pub plan: Plan,
    /// Where it stands.
    pub place: Place,
    /// What happened up to there.
    pub history: History,
    world: Arc<World>,
    windows: BTreeMap<Name, Window>,
    _hold: Hold,
}

/// Keeps a run's thread waiting until it is dropped.
#[derive(Debug)]
struct Hold {
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<Run>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Frozen {
    /// True simulated time, µs.
    pub fn now_us(&self) -> u64 {
        self.world.now_us()
    }

    /// The names of all nodes, in the plan's order.
    pub fn nodes(&self) -> Vec<Name> {
        self.plan.topology.nodes().into_iter().map(Name::from).collect()
    }

    /// How a node is.
    pub fn state(&self, name: &str) -> State {
        let Some(node) = self.world.find(name) else { return State::Down };
        if !self.world.is_machine_up(node) {
            return State::MachineDown;
        }
        let is_over = self.windows.get(name).is_some_and(Window::is_over);
        match (self.world.is_up(node) && !is_over, self.world.is_paused(node)) {
            (false, _) => State::Down,
            (true, true) => State::Paused,
            (true, false) => State::Up,
        }
    }

    /// What is seen of a node's server; `None` where there is none, or none that lives.
    pub fn window(&self, name: &str) -> Option<&Window> {
        let lives = matches!(self.state(name), State::Up | State::Paused);
        self.windows.get(name).filter(|_| lives)
    }

    /// Whether the events are those of the run that it is to be.
    fn check(&self, whole: &History) -> Result<(), NotFrozen> {
        let pairs = self.history.iter().zip(whole.iter());
        let same = pairs.take_while(|(one, other)| one == other).count();
        match same == self.history.events.len() {
            true => Ok(()),
            false => Err(NotFrozen::OtherPast(same as u64)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

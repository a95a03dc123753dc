//! What is true of the nodes on every engine: who is up, in which incarnation, who
//! is paused, what each clock shows, and the keyed draws of each machine.
//!
//! Tasks of nodes run inside [`Scoped`], which asks the world before each poll: a
//! task of a dead incarnation is dropped, a task of a paused node keeps its waker
//! here until the node is resumed. That is all that a pause is, on every engine.
//!
//! A task that panics ends, and the world remembers it ([`World::panic`]): engines
//! stop the run there instead of letting it go on without the task.
//!
//! Locking: one mutex, never held while a waker is woken or dropped, because that
//! may run foreign destructors that come back here.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use lockstorm::host::BoxFuture;

use super::clock::{ClockChange, Deviation, NodeClock};
use super::scoped::{Admission, Scoped};
use super::senses;
use super::standstill::{Standstill, Stop};
use super::tasks::{Running, Spawner};
pub use super::touch::{Touch, TouchListener};
use super::turns::{TURNS_OF_AN_INSTANT, Turns};
use crate::draw::Draw;
use crate::history::Name;

/// A node, by its position in the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A program's panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// Whose task it was.
    pub node: NodeId,
    /// The task's group.
    pub group: &'static str,
    /// What it said.
    pub message: String,
}

struct Node {
    name: Name,
    up: bool,
    machine_up: bool,
    incarnation: u32,
    paused: u32,
    paused_groups: BTreeMap<String, u32>,
    frozen: Vec<Waker>,
    clock: NodeClock,
    clock_changed: bool,
    tasks: Vec<Running>,
    draws: BTreeMap<&'static str, Draw>,
}

impl Node {
    /// The stream of draws of this machine for `purpose`.
    fn draw(&mut self, seed: u64, purpose: &'static str) -> &mut Draw {
        let Node { draws, name, .. } = self;
        draws.entry(purpose).or_insert_with(|| Draw::new(seed, purpose, name))
    }
}

/// What the order of ready tasks is drawn for.
const ORDER: &str = "order of tasks";

/// The nodes of a run.
pub struct World {
    seed: u64,
    now_us: AtomicU64,
    nodes: Mutex<Vec<Node>>,
    touched: Mutex<Option<TouchListener>>,
    panic: Mutex<Option<Panic>>,
    not_expressible: Mutex<Option<String>>,
    turns: Turns,
    halted: AtomicBool,
    living_tasks: Arc<AtomicUsize>,
    after_turn: OnceLock<Box<dyn Fn() + Send + Sync>>,
    standstill: OnceLock<Standstill>,
    spawner: OnceLock<Arc<dyn Spawner>>,
    draws_order: AtomicBool,
}

/// How many worlds there are.
static LIVING: AtomicUsize = AtomicUsize::new(0);

impl Drop for World {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl World {
    /// A world of nodes with these names, all down, clocks true, at time 0.
    pub fn new(seed: u64, names: impl IntoIterator<Item = Name>) -> Arc<World> {
        let nodes = names.into_iter().map(|name| Node {
            name,
            up: false,
            machine_up: false,
            incarnation: 0,
            paused: 0,
            paused_groups: BTreeMap::new(),
            frozen: Vec::new(),
            clock: NodeClock::default(),
            clock_changed: false,
            tasks: Vec::new(),
            draws: BTreeMap::new(),
        });
        LIVING.fetch_add(1, Ordering::Relaxed);
        Arc::new(World {
            seed,
            now_us: AtomicU64::new(0),
            nodes: Mutex::new(nodes.collect()),
            touched: Mutex::new(None),
            panic: Mutex::new(None),
            not_expressible: Mutex::new(None),
            turns: Turns::default(),
            halted: AtomicBool::new(false),
            living_tasks: Arc::default(),
            after_turn: OnceLock::new(),
            standstill: OnceLock::new(),
            spawner: OnceLock::new(),
            draws_order: AtomicBool::new(false),
        })
    }

    /// The storm's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// True simulated time, µs.
    pub fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::Relaxed)
    }

    /// Moves true time; for engines.
    pub fn set_now_us(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        let index = self.lock().iter().position(|node| &*node.name == name)?;
        u16::try_from(index).ok().map(NodeId)
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> Name {
        self.lock()[node.index()].name.clone()
    }

    /// A node's address: 192.168.0.1 for node 0, and so on. Engines with addresses
    /// of their own map them to these.
    pub fn address(node: NodeId) -> Ipv4Addr {
        let number = u32::from(node.0) + 1;
        Ipv4Addr::from(0xC0A8_0000 + number)
    }

    /// The node of an [`address`](World::address).
    pub fn node_at(&self, address: Ipv4Addr) -> Option<NodeId> {
        let number = u32::from(address).checked_sub(0xC0A8_0000 + 1)?;
        let number = u16::try_from(number).ok()?;
        (usize::from(number) < self.len()).then_some(NodeId(number))
    }

    /// Whether the node is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.lock()[node.index()].up
    }

    /// The node's incarnation: 0 before the first start.
    pub fn incarnation(&self, node: NodeId) -> u32 {
        self.lock()[node.index()].incarnation
    }

    /// Whether this incarnation of the node is the living one.
    pub fn is_alive(&self, node: NodeId, incarnation: u32) -> bool {
        let node = &self.lock()[node.index()];
        node.up && node.incarnation == incarnation
    }

    /// Begins a new incarnation and tells its number. `None` if the node is up.
    pub fn start(&self, node: NodeId) -> Option<u32> {
        let node = &mut self.lock()[node.index()];
        if node.up {
            return None;
        }
        node.up = true;
        node.machine_up = true;
        node.incarnation += 1;
        Some(node.incarnation)
    }

    /// Whether the node's machine is up; it outlives its program.
    pub fn is_machine_up(&self, node: NodeId) -> bool {
        self.lock()[node.index()].machine_up
    }

    /// Ends the machine, and with it the living incarnation if there is one. False if
    /// the machine was down already.
    pub fn crash_machine(&self, node: NodeId) -> bool {
        self.crash(node);
        std::mem::replace(&mut self.lock()[node.index()].machine_up, false)
    }

    /// Ends the living incarnation: its tasks are aborted and never polled again.
    /// False if the node was down already.
    pub fn crash(&self, node: NodeId) -> bool {
        let (tasks, frozen) = {
            let node = &mut self.lock()[node.index()];
            if !node.up {
                return false;
            }
            node.up = false;
            node.paused = 0;
            node.paused_groups.clear();
            (std::mem::take(&mut node.tasks), std::mem::take(&mut node.frozen))
        };
        for task in tasks {
            task.abort();
        }
        drop(frozen);
        true
    }

    /// Freezes the tasks of the living incarnation, or those of one group. Pauses nest
    /// and end with their incarnation. Nothing if the node is down.
    pub fn pause(&self, node: NodeId, group: Option<&str>) {
        let node = &mut self.lock()[node.index()];
        if !node.up {
            return;
        }
        match group {
            None => node.paused += 1,
            Some(group) => *node.paused_groups.entry(group.to_owned()).or_default() += 1,
        }
    }

    /// Ends one pause with the same arguments. Nothing if there is none.
    pub fn resume(&self, node: NodeId, group: Option<&str>) {
        let frozen = {
            let node = &mut self.lock()[node.index()];
            match group {
                None => node.paused = node.paused.saturating_sub(1),
                Some(group) => {
                    if let Some(count) = node.paused_groups.get_mut(group) {
                        *count -= 1;
                        if *count == 0 {
                            node.paused_groups.remove(group);
                        }
                    }
                }
            }
            std::mem::take(&mut node.frozen)
        };
        for waker in frozen {
            waker.wake();
        }
    }

    /// A node's monotonic clock, µs.
    pub fn monotonic_us(&self, node: NodeId) -> u64 {
        let (reading, changed) = {
            let node = &self.lock()[node.index()];
            (node.clock.monotonic_us(self.now_us()), node.clock_changed)
        };
        if changed {
            self.touch(Touch::Clock { node, wall: false });
        }
        reading
    }

    /// A node's wall clock, µs since the Unix epoch.
    pub fn wall_us(&self, node: NodeId) -> i64 {
        let (reading, changed) = {
            let node = &self.lock()[node.index()];
            (node.clock.wall_us(self.now_us()), node.clock_changed)
        };
        if changed {
            self.touch(Touch::Clock { node, wall: true });
        }
        reading
    }

    /// Like [`monotonic_us`](World::monotonic_us), unless the nodes are being changed by
    /// whoever asks: this never waits.
    pub(super) fn try_monotonic_us(&self, node: NodeId) -> Option<u64> {
        self.try_read(node, false, NodeClock::monotonic_us)
    }

    /// Like [`wall_us`](World::wall_us); this never waits either.
    pub(super) fn try_wall_us(&self, node: NodeId) -> Option<i64> {
        self.try_read(node, true, NodeClock::wall_us)
    }

    fn try_read<R>(
        &self,
        node: NodeId,
        wall: bool,
        read: impl FnOnce(&NodeClock, u64) -> R,
    ) -> Option<R> {
        let (reading, changed) = {
            let nodes = self.nodes.try_lock().ok()?;
            let node = nodes.get(node.index())?;
            (read(&node.clock, self.now_us()), node.clock_changed)
        };
        if changed {
            self.touch(Touch::Clock { node, wall });
        }
        Some(reading)
    }

    /// A program of this node waits, and what it waits for comes at another time than it would
    /// have by the clock with which it began to wait.
    pub(super) fn wait_moved(&self, node: NodeId) {
        if self.lock()[node.index()].clock_changed {
            self.touch(Touch::Clock { node, wall: false });
        }
    }

    /// How a node's wall clock is off now. No program reads it by this.
    pub fn deviation(&self, node: NodeId) -> Deviation {
        self.lock()[node.index()].clock.deviation(self.now_us())
    }

    /// The true time at which a node's monotonic clock will show this, µs.
    pub fn true_us_of(&self, node: NodeId, monotonic_us: u64) -> u64 {
        self.lock()[node.index()].clock.true_us_of(monotonic_us)
    }

    /// Changes a node's clock. Engines then wake the node's timers.
    pub fn change_clock(&self, node: NodeId, change: ClockChange) {
        let now_us = self.now_us();
        let node = &mut self.lock()[node.index()];
        node.clock.change(now_us, change);
        node.clock_changed = true;
    }

    /// The next draw of this machine for `purpose`.
    pub fn random(&self, node: NodeId, purpose: &'static str) -> u64 {
        self.lock()[node.index()].draw(self.seed, purpose).bits()
    }

    /// Has `listener` told of every touch from now on; `None` turns it off.
    pub fn on_touch(&self, listener: Option<TouchListener>) {
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = listener;
    }

    /// Lets go of all tasks, which are over, and of whoever listens; for engines, at the end of a
    /// run. A task holds its scheduler, whose hooks hold the engine, which holds the world.
    pub fn let_go(&self) {
        let held = |node: &mut Node| (take(&mut node.tasks), take(&mut node.frozen));
        let held: Vec<_> = self.lock().iter_mut().map(held).collect();
        drop(held);
        self.on_touch(None);
    }

    /// How many worlds there are in this process: none between runs.
    pub fn living() -> usize {
        LIVING.load(Ordering::Relaxed)
    }

    /// Tells that a fault did something; for engines.
    pub fn touch(&self, touch: Touch) {
        let listener = self.touched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(touch);
        }
    }

    /// The first panic of a program in this run.
    pub fn panic(&self) -> Option<Panic> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something happened that this engine has no means for, as a clause for people; the
    /// first is kept, and the run is ended.
    pub(super) fn declare_not_expressible(&self, clause: String) {
        let place = &mut *self.not_expressible.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(clause);
        self.halted.store(true, Ordering::Relaxed);
    }

    /// What happened in this run that its engine has no means for.
    pub fn not_expressible(&self) -> Option<String> {
        self.not_expressible.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the whole node stands still.
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.lock()[node.index()].paused > 0
    }

    /// A program panicked; the first is kept.
    pub(super) fn panicked(&self, panic: Panic) {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        self.halted.store(true, Ordering::Relaxed);
    }

    /// Whether the engine is to look why it should stop: this run cannot go on, as
    /// [`stuck`](World::stuck) says, or is to stand still somewhere.
    pub fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Has this run's rests counted, and the run stopped at one of them; before it begins, and
    /// once.
    pub fn stand_still(&self, standstill: Standstill) {
        let _ = self.standstill.set(standstill);
        // So that the engine looks here at each rest, which it does for no other run.
        self.halted.store(true, Ordering::Relaxed);
    }

    /// How many rests of the engine there have been, where they are counted.
    pub fn rests(&self) -> u64 {
        self.standstill.get().map_or(0, Standstill::rests)
    }

    /// The engine is at rest, and was told to [look](World::is_halted): whether it goes on.
    pub(super) fn at_rest(&self) -> Stop {
        match (self.stuck(), self.standstill.get()) {
            (None, Some(standstill)) => standstill.rest(),
            (why, _) => Stop::Stuck(why.unwrap_or_default()),
        }
    }

    /// The run is over, and nothing of it torn down: whoever waits for it to stand still looks.
    pub(super) fn stand(&self) {
        if let Some(standstill) = self.standstill.get() {
            self.on_touch(None);
            standstill.stand();
        }
    }

    /// Why this run cannot go on, if it cannot: a program panicked, or tasks run for ever
    /// at one instant. Names node and task.
    pub fn stuck(&self) -> Option<String> {
        if let Some(clause) = self.not_expressible() {
            return Some(clause);
        }
        if let Some(Panic { node, group, message }) = self.panic() {
            return Some(format!("a task of {} ({group}) panicked: {message}", self.name(node)));
        }
        let (at_us, places) = self.turns.stuck()?;
        let names: Vec<String> = places.iter().map(|place| self.describe(*place)).collect();
        let at = crate::plan::Micros(at_us);
        let names = names.join(", ");
        Some(format!(
            "time stands still at {at}: tasks ran {TURNS_OF_AN_INSTANT} times without waiting, \
             the last of them {names}"
        ))
    }

    /// Where the run is, as a clause for whoever waits for it from outside.
    pub fn place(&self) -> Option<String> {
        let (at_us, place) = self.turns.place()?;
        let at = crate::plan::Micros(at_us);
        Some(format!("the last turn, at {at} of simulated time, was of {}", self.describe(place)))
    }

    fn describe(&self, (node, group): super::turns::Place) -> String {
        format!("{} ({group})", self.name(node))
    }

    /// Spawns `future` as a task of this incarnation: where the engine has its tasks run
    /// ([`on_spawn`](World::on_spawn)), else on the current tokio runtime. `None` if the
    /// incarnation is dead: what a crashed program's destructors would still like to start
    /// does not start.
    pub fn spawn(
        self: &Arc<Self>,
        node: NodeId,
        incarnation: u32,
        group: &'static str,
        future: BoxFuture<'static, ()>,
    ) -> Option<Running> {
        if !self.is_alive(node, incarnation) {
            return None;
        }
        let scoped = Scoped::new(self.clone(), (node, incarnation), group, future);
        let scoped = scoped.counted(&self.living_tasks);
        let running = match self.spawner.get() {
            Some(spawner) => spawner.spawn((node, incarnation), scoped)?,
            // As nobody: what is not spawned so is a task past its host.
            None => Running::Tokio(senses::of_nobody(|| tokio::spawn(scoped)).abort_handle()),
        };
        let node = &mut self.lock()[node.index()];
        if node.tasks.len() == node.tasks.capacity() {
            node.tasks.retain(|task| !task.is_finished());
        }
        node.tasks.push(running.clone());
        Some(running)
    }

    /// Has `spawner` run the tasks that are spawned from now on; for engines with a
    /// scheduler of their own. The first stays.
    pub fn on_spawn(&self, spawner: Arc<dyn Spawner>) {
        let _ = self.spawner.set(spawner);
    }

    /// Has the order drawn in which tasks run that are ready at one instant. Without it they
    /// run as they were woken.
    pub(super) fn draw_order(&self) {
        self.draws_order.store(true, Ordering::Relaxed);
    }

    /// Has `listener` called after every turn of a task; the first stays.
    pub(super) fn after_turns(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.after_turn.set(Box::new(listener));
    }

    /// A task has had its turn.
    pub(super) fn turn_is_over(&self) {
        if let Some(listener) = self.after_turn.get() {
            listener();
        }
    }

    /// How many tasks live that were [spawned](World::spawn) here: a task that was aborted
    /// lives until its runtime has dropped it.
    pub fn living_tasks(&self) -> usize {
        self.living_tasks.load(Ordering::Relaxed)
    }

    /// Wraps a future so that it runs as part of this incarnation: for engines that
    /// hand a node's main program to somebody else's scheduler.
    pub fn scope(
        self: &Arc<Self>,
        node: NodeId,
        incarnation: u32,
        group: &'static str,
        future: BoxFuture<'static, ()>,
    ) -> Scoped {
        Scoped::new(self.clone(), (node, incarnation), group, future)
    }

    /// Whether a task of this incarnation and group may run now. If it may not for a
    /// while, `waker` is woken when it may again.
    pub(super) fn admit(
        &self,
        (id, incarnation): (NodeId, u32),
        group: &'static str,
        waker: &Waker,
    ) -> Admission {
        let node = &mut self.lock()[id.index()];
        if !node.up || node.incarnation != incarnation {
            return Admission::Dead;
        }
        let group_paused = !node.paused_groups.is_empty() && node.paused_groups.contains_key(group);
        if node.paused > 0 || group_paused {
            node.frozen.push(waker.clone());
            return Admission::Frozen;
        }
        if self.draws_order.load(Ordering::Relaxed) && node.draw(self.seed, ORDER).bits() & 1 == 1 {
            return Admission::Later;
        }
        if !self.turns.take(self.now_us(), (id, group)) {
            self.halted.store(true, Ordering::Relaxed);
            return Admission::NoTurn;
        }
        Admission::Run
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("World")
            .field("now_us", &self.now_us())
            .field("nodes", &self.len())
            .finish_non_exhaustive()
    }
}

/// What a panic said, as far as it is text.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "a panic without a text".to_owned(),
    }
}

//! Conducts a storm: begins and ends its faults, notices what they do, heals
//! everything, and calls the end.
//!
//! Order of things in a run: faults strike, at times or at anchors, while clients
//! work; at the plan's duration every fault ends, crashed nodes are started and
//! [`What::Healed`] is recorded; the clients go on until one of them has been granted
//! the lock again, or the takeover bound has passed; they are told to stop; once all
//! are idle (or their patience is over) the stock's books are recorded and the run
//! is finished.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::anchors;
use super::reseed::Lull;
use crate::engine::world::Touch;
use crate::fault::{self, Begun, Ground, Sign};
use crate::history::{AcquireOutcome, Event, Name, Recorder, What};
use crate::plan::{Anchor, Fault, FaultKind, Plan, When};

/// Clients look here before they begin another round.
#[derive(Debug, Default)]
pub struct Stop {
    stopped: AtomicBool,
    busy: AtomicUsize,
}

impl Stop {
    /// Whether the clients should come to an end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A client is in the middle of a round until the returned value is dropped.
    pub fn round(self: &Arc<Self>) -> Round {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Round(self.clone())
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }
}

/// A client's round under way.
#[derive(Debug)]
pub struct Round(Arc<Stop>);

impl Drop for Round {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long the conductor waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After the heal, for a first grant, µs.
    pub takeover_us: u64,
    /// After the stop, for clients to come to an end, µs.
    pub settle_us: u64,
}

impl Patience {
    /// None at all: the run ends with the heal.
    pub const NONE: Patience = Patience { takeover_us: 0, settle_us: 0 };
}

/// How often the conductor looks whether all clients are idle, µs.
const LOOK_EVERY_US: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    Waiting,
    Active { showed: bool },
    Over,
}

fn is_active(strike: &Strike) -> bool {
    matches!(strike, Strike::Active { .. })
}

struct State {
    strikes: Vec<Strike>,
    /// The faults that have begun, in order of their beginning.
    begun: Vec<usize>,
    /// Faults that wait for an anchor.
    anchored: Vec<(usize, Anchor, u64)>,
    /// The nodes whose programs have come to an end by themselves.
    ended: BTreeSet<Name>,
    healed: bool,
    stopping: bool,
}

/// The conductor of one run.
pub struct Conductor {
    ground: Ground,
    faults: Vec<Fault>,
    storm_node: Name,
    duration_us: u64,
    patience: Patience,
    stop: Arc<Stop>,
    lull: Lull,
    books: Box<dyn Fn(&Recorder) + Send + Sync>,
    state: Mutex<State>,
}

impl Conductor {
    /// Takes its place: schedules the faults of `plan` and the heal, listens for
    /// anchors and touches. `books` records the stock's ledger at the end.
    pub fn open(
        ground: Ground,
        plan: &Plan,
        patience: Patience,
        (stop, lull): (Arc<Stop>, Lull),
        books: impl Fn(&Recorder) + Send + Sync + 'static,
    ) -> Arc<Conductor> {
        let conductor = Arc::new(Conductor {
            faults: plan.faults.clone(),
            storm_node: "storm".into(),
            duration_us: plan.duration.0,
            patience,
            stop,
            lull,
            books: Box::new(books),
            state: Mutex::new(State {
                strikes: vec![Strike::Waiting; plan.faults.len()],
                begun: Vec::new(),
                anchored: Vec::new(),
                ended: BTreeSet::new(),
                healed: false,
                stopping: false,
            }),
            ground,
        });
        conductor.schedule();
        conductor.listen();
        conductor
    }

    fn schedule(self: &Arc<Self>) {
        let mut anchored = Vec::new();
        for (index, fault) in self.faults.iter().enumerate() {
            match &fault.when {
                When::At(at) => self.after(at.0, move |conductor| conductor.begin(index)),
                When::After { anchor, delay } => anchored.push((index, anchor.clone(), delay.0)),
            }
        }
        self.lock().anchored = anchored;
        self.after(self.duration_us, Conductor::heal);
    }

    fn listen(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.ground.recorder.listen(Arc::new(move |event| {
            if let Some(conductor) = weak.upgrade() {
                conductor.hear(event);
            }
        }));
        if !self.faults.is_empty() {
            let weak = Arc::downgrade(self);
            let listener = move |touch: Touch| {
                if let Some(conductor) = Weak::upgrade(&weak) {
                    conductor.notice(Sign::Touch(touch));
                }
            };
            self.ground.world.on_touch(Some(Arc::new(listener)));
            for (node, disk) in self.ground.disks.iter() {
                let (node, weak) = (*node, Arc::downgrade(self));
                disk.on_sign(Arc::new(move |sign| {
                    if let Some(conductor) = weak.upgrade() {
                        conductor.notice(Sign::Disk { node, sign });
                    }
                }));
            }
        }
    }

    fn after(self: &Arc<Self>, delay_us: u64, action: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let conductor = self.clone();
        self.ground.control.after(delay_us, Box::new(move || action(&conductor)));
    }

    /// An event was recorded: does a fault wait for it?
    fn hear(self: &Arc<Self>, event: &Event) {
        let due: Vec<(usize, u64)> = {
            let mut state = self.lock();
            match event.what {
                What::ProgramEnded { .. } => {
                    state.ended.insert(event.node.clone());
                }
                What::NodeStarted { .. } => {
                    state.ended.remove(&event.node);
                }
                _ => {}
            }
            if state.healed {
                let granted = matches!(
                    event.what,
                    What::AcquireReturned { outcome: AcquireOutcome::Granted { .. }, .. }
                );
                drop(state);
                if granted {
                    self.stop_clients();
                }
                return;
            }
            if state.anchored.is_empty() {
                return;
            }
            let (due, waiting) = std::mem::take(&mut state.anchored)
                .into_iter()
                .partition(|(_, anchor, _)| anchors::is_at(anchor, event));
            state.anchored = waiting;
            due.into_iter().map(|(index, _, delay_us)| (index, delay_us)).collect()
        };
        for (index, delay_us) in due {
            match delay_us {
                0 => self.begin(index),
                _ => self.after(delay_us, move |conductor| conductor.begin(index)),
            }
        }
    }

    /// Something happened that an active fault may have caused.
    pub fn notice(&self, sign: Sign) {
        let candidates: Vec<usize> = {
            let state = self.lock();
            let is_active = |strike: &Strike| *strike == Strike::Active { showed: false };
            let active = state.strikes.iter().enumerate().filter(|(_, strike)| is_active(strike));
            active.map(|(index, _)| index).collect()
        };
        for index in candidates {
            let kind = &self.faults[index].kind;
            if let Some(how) = fault::showed(kind, &sign, &self.ground) {
                self.show(index, how);
            }
            if fault::is_over_with(kind, &sign) {
                self.close(index);
            }
        }
    }

    fn show(&self, index: usize, how: String) {
        {
            let strike = &mut self.lock().strikes[index];
            if *strike != (Strike::Active { showed: false }) {
                return;
            }
            *strike = Strike::Active { showed: true };
        }
        self.ground.recorder.record(&self.node_of(index), What::FaultTouched { fault: index, how });
    }

    fn begin(self: &Arc<Self>, index: usize) {
        let others = {
            let mut state = self.lock();
            if state.healed || self.lull.is_calm() || state.strikes[index] != Strike::Waiting {
                return;
            }
            let others = self.at_work(&state);
            state.strikes[index] = Strike::Active { showed: false };
            state.begun.push(index);
            others
        };
        let fault = &self.faults[index];
        let began = What::FaultBegan {
            fault: index,
            family: fault::family(&fault.kind),
            targets: fault::targets(&fault.kind),
            description: fault::narration(&fault.kind),
        };
        self.ground.recorder.record(&self.node_of(index), began);
        let kinds: Vec<&FaultKind> = others.iter().map(|other| &self.faults[*other].kind).collect();
        match fault::begin(&fault.kind, &kinds, &self.ground) {
            Begun::Going => {}
            Begun::Showed(how) => self.show(index, how),
            Begun::Void | Begun::Struck => return self.close(index),
        }
        let mut others = others;
        others.sort_unstable();
        for other in others {
            if fault::is_ended_by(&self.faults[other].kind, &fault.kind) {
                self.close(other);
            }
        }
        if let Some(lasts) = fault.lasts.or(fault.kind.own_length()) {
            self.after(lasts.0, move |conductor| conductor.end(index));
        }
    }

    fn end(&self, index: usize) {
        self.finish(index);
        let others = self.at_work(&self.lock());
        let kinds: Vec<&FaultKind> = others.iter().map(|other| &self.faults[*other].kind).collect();
        if let Some(sign) = fault::left_behind(&self.faults[index].kind, &kinds, &self.ground) {
            self.notice(sign);
        }
    }

    fn finish(&self, index: usize) {
        let (others, ended) = {
            let state = &mut *self.lock();
            if !is_active(&state.strikes[index]) {
                return;
            }
            state.strikes[index] = Strike::Over;
            (self.at_work(state), state.ended.clone())
        };
        let kinds: Vec<&FaultKind> = others.iter().map(|other| &self.faults[*other].kind).collect();
        let kind = &self.faults[index].kind;
        fault::end(kind, &kinds, &self.ground);
        fault::start_again(kind, &kinds, &ended, &self.ground);
        self.ground.recorder.record(&self.node_of(index), What::FaultEnded { fault: index });
    }

    /// A fault is over of itself: there is nothing to undo.
    fn close(&self, index: usize) {
        let was_active = {
            let strike = &mut self.lock().strikes[index];
            is_active(&std::mem::replace(strike, Strike::Over))
        };
        if was_active {
            self.ground.recorder.record(&self.node_of(index), What::FaultEnded { fault: index });
        }
    }

    /// The faults that are active, in order of their beginning.
    fn at_work(&self, state: &State) -> Vec<usize> {
        state.begun.iter().copied().filter(|index| is_active(&state.strikes[*index])).collect()
    }

    fn heal(self: &Arc<Self>) {
        if self.lock().healed {
            return;
        }
        for index in 0..self.faults.len() {
            self.finish(index);
        }
        {
            let mut state = self.lock();
            state.anchored.clear();
            state.healed = true;
        }
        self.ground.recorder.record(&self.storm_node, What::Healed);
        self.after(self.patience.takeover_us, |conductor| conductor.stop_clients());
    }

    /// Ends the storm before its time, unless it is ending.
    pub fn interrupt(self: &Arc<Self>) {
        if !self.lock().healed {
            self.heal();
        }
    }

    fn stop_clients(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().stopping, true) {
            return;
        }
        self.stop.stopped.store(true, Ordering::Relaxed);
        let give_up_us = self.ground.recorder.now_us() + self.patience.settle_us;
        self.after(LOOK_EVERY_US, move |conductor| conductor.close_when_idle(give_up_us));
    }

    fn close_when_idle(self: &Arc<Self>, give_up_us: u64) {
        if self.stop.is_idle() || self.ground.recorder.now_us() >= give_up_us {
            (self.books)(&self.ground.recorder);
            self.ground.world.on_touch(None);
            self.ground.control.finish();
        } else {
            self.after(LOOK_EVERY_US, move |conductor| conductor.close_when_idle(give_up_us));
        }
    }

    fn node_of(&self, index: usize) -> crate::history::Name {
        let targets = fault::targets(&self.faults[index].kind);
        targets.into_iter().next().unwrap_or_else(|| self.storm_node.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Conductor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Conductor").field("faults", &self.faults).finish_non_exhaustive()
    }
}

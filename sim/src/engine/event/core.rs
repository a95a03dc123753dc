//! The engine's state and one step of it.
//!
//! Locking: one mutex around everything that changes. What a step causes outside
//! (wakers to wake, faults to notice, closures to call) is collected in [`Effects`]
//! and done after the mutex is let go, because all of it may come back here.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use lockstorm::host::{BoxFuture, Listener, Stream};
use tokio::runtime::RuntimeMetrics;

use super::Manner;
use super::network::{Network, Packet};
use super::queue::Queue;
use super::socket;
use super::strangers::Strangers;
use super::timer::{Timer, Timers};
use crate::engine::machine::Substrate;
use crate::engine::world::{NodeId, Touch, World};
use crate::engine::{Ending, Stage};
use crate::history::Recorder;

/// Something that is due at a time.
pub(super) enum Step {
    /// A timer of a program.
    Timer { index: u32, generation: u32 },
    /// A packet reaches the kernel at the other end.
    Arrive(Packet),
    /// A kernel sends again what was not delivered.
    Retransmit { connection: u32, generation: u32, side: u8, number: u32 },
    /// A kernel looks whether its peer has been heard lately.
    Probe { connection: u32, generation: u32, side: u8, number: u32 },
    /// A kernel looks whether its peer still has no room for more.
    LookAtWindow { connection: u32, generation: u32, side: u8, since_us: u64 },
    /// A kernel repeats a SYN that nobody answered.
    RepeatSyn { connection: u32, generation: u32, tries: u32 },
    /// A fault, or the end.
    Action(Box<dyn FnOnce() + Send>),
}

/// What a step causes outside of the engine's state.
#[derive(Default)]
pub(super) struct Effects {
    first: Option<Waker>,
    more: Vec<Waker>,
    touches: Vec<Touch>,
}

impl Effects {
    pub(super) fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            match self.first {
                None => self.first = Some(waker),
                Some(_) => self.more.push(waker),
            }
        }
    }

    pub(super) fn touch(&mut self, touch: Touch) {
        self.touches.push(touch);
    }

    /// Does it all; true if anything was woken. What happens as a finished run is torn
    /// down is nobody's doing any more, and its order is not promised.
    pub(super) fn perform(self, world: &World, is_finished: bool) -> bool {
        for touch in self.touches.into_iter().filter(|_| !is_finished) {
            world.touch(touch);
        }
        let any = self.first.is_some();
        if let Some(waker) = self.first {
            waker.wake();
        }
        for waker in self.more {
            waker.wake();
        }
        any
    }
}

pub(super) struct State {
    pub(super) queue: Queue<Step>,
    pub(super) network: Network,
    pub(super) timers: Timers,
    steps: u64,
    stuck: Option<String>,
}

/// What the engine has of tokio's runtime.
#[derive(Default)]
pub(super) struct Tokio {
    /// What it tells of itself.
    pub(super) metrics: Option<RuntimeMetrics>,
    /// Wakes the future that waits for the end of the run.
    pub(super) main: Option<Waker>,
}

/// The engine of one run.
pub(super) struct Core {
    pub(super) world: Arc<World>,
    recorder: Recorder,
    state: Mutex<State>,
    finished: AtomicBool,
    /// What there is of tokio while it runs. It holds the engine by its hooks, so the
    /// engine lets go of it at the end.
    tokio: Mutex<Tokio>,
    /// Where the hooks do not say whose the tasks are that were spawned past their host.
    pub(super) strangers: Option<Strangers>,
    /// Whether a heal retransmits at once.
    pub(super) prompt: bool,
}

impl Core {
    pub(super) fn new(stage: &Stage, manner: &Manner) -> Arc<Core> {
        let mut network = Network::new(&stage.world, stage.links, stage.kernel, manner.wire);
        network.note_with(&stage.recorder);
        Arc::new(Core {
            world: stage.world.clone(),
            recorder: stage.recorder.clone(),
            state: Mutex::new(State {
                queue: Queue::new(),
                network,
                timers: Timers::default(),
                steps: 0,
                stuck: None,
            }),
            finished: AtomicBool::new(false),
            tokio: Mutex::default(),
            strangers: manner.plain.then(Strangers::default),
            prompt: manner.prompt,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tokio(&self) -> MutexGuard<'_, Tokio> {
        self.tokio.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.world.now_us()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Ends the run: nothing is delivered or recorded any more.
    pub(super) fn finish(&self) {
        self.recorder.stop();
        self.finished.store(true, Ordering::Relaxed);
        self.wake_main();
    }

    /// Has the future polled that waits for the end of the run.
    pub(super) fn wake_main(&self) {
        if let Some(main) = &self.tokio().main {
            main.wake_by_ref();
        }
    }

    /// Takes everything that could still call back into programs or wake their tasks, for
    /// dropping.
    pub(super) fn dismantle(&self) -> impl Sized + use<> {
        let state = &mut *self.lock();
        (state.queue.clear(), std::mem::take(&mut state.timers), state.network.dismantle())
    }

    pub(super) fn ending(&self) -> Ending {
        let stuck = self.world.stuck();
        let state = self.lock();
        Ending {
            steps: state.steps,
            messages: state.network.messages(),
            stuck: state.stuck.clone().or(stuck),
            not_expressible: self.world.not_expressible().is_some(),
            mend: None,
        }
    }

    pub(super) fn get_stuck(&self, why: String) {
        self.lock().stuck = Some(why);
        self.finish();
    }

    /// Runs `change` on the state and then does what it caused.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = change(&mut self.lock(), &mut effects);
        effects.perform(&self.world, self.is_finished());
        result
    }

    /// Executes one step that is due now. `None` if none is due; `Some(true)` if it
    /// may have made a task ready.
    pub(super) fn execute_due(&self) -> Option<bool> {
        let now_us = self.now_us();
        let mut effects = Effects::default();
        let action = {
            let state = &mut *self.lock();
            let step = state.queue.pop_due(now_us)?;
            state.steps += 1;
            match step {
                Step::Timer { index, generation } => {
                    effects.wake(state.timers.fire(index, generation));
                    None
                }
                Step::Arrive(packet) => {
                    self.trace(now_us, &packet);
                    state.network.arrive(&mut state.queue, &self.world, packet, &mut effects);
                    None
                }
                Step::Retransmit { connection, generation, side, number } => {
                    let place = ((connection, generation, side), number);
                    state.network.retransmit(&mut state.queue, &self.world, place, &mut effects);
                    None
                }
                Step::Probe { connection, generation, side, number } => {
                    let place = ((connection, generation, side), number);
                    state.network.probe(&mut state.queue, &self.world, place, &mut effects);
                    None
                }
                Step::LookAtWindow { connection, generation, side, since_us } => {
                    let place = (connection, generation, side);
                    state.network.look_at_window(now_us, place, since_us, &mut effects);
                    None
                }
                Step::RepeatSyn { connection, generation, tries } => {
                    let place = (connection, generation, tries);
                    state.network.repeat_syn(&mut state.queue, &self.world, place, &mut effects);
                    None
                }
                Step::Action(action) => Some(action),
            }
        };
        let woken = effects.perform(&self.world, self.is_finished());
        Some(match action {
            Some(action) => {
                action();
                true
            }
            None => woken,
        })
    }

    /// The order of deliveries is part of the trace; their bytes are not.
    fn trace(&self, now_us: u64, packet: &Packet) {
        let mut step = [0u8; 14];
        step[..8].copy_from_slice(&now_us.to_le_bytes());
        step[8..12].copy_from_slice(&packet.connection.to_le_bytes());
        step[12] = packet.to_side;
        step[13] = packet.content.code();
        self.recorder.mix(&step);
    }
}

/// The engine as its nodes see it.
pub(super) struct EventSubstrate(pub(super) Arc<Core>);

impl Substrate for EventSubstrate {
    fn sleep_until(&self, node: NodeId, true_us: u64) -> BoxFuture<'static, ()> {
        Box::pin(Timer::new(self.0.clone(), node, true_us))
    }

    fn connect(
        &self,
        node: NodeId,
        incarnation: u32,
        to: NodeId,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Stream>> {
        let core = self.0.clone();
        if !core.world.is_alive(node, incarnation) {
            return Box::pin(std::future::ready(Err(io::ErrorKind::NotConnected.into())));
        }
        Box::pin(socket::Connect::new(core, (node, incarnation), to, port))
    }

    fn listen(
        &self,
        node: NodeId,
        incarnation: u32,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Listener>> {
        let result = if self.0.world.is_alive(node, incarnation) {
            socket::listen(&self.0, node, port)
        } else {
            Err(io::ErrorKind::NotConnected.into())
        };
        Box::pin(std::future::ready(result))
    }
}

//! Turns the crank: a tokio current-thread runtime with paused time, driven from
//! its `on_thread_park` hook, which runs exactly when no task is ready.
//!
//! Two clocks must agree to the microsecond: ours, in whose units events are
//! scheduled, and tokio's, whose timer wheel has ticks of a millisecond and which,
//! when paused, leaps by whole milliseconds *from wherever it stands*. Hence the
//! rule: within a millisecond we advance tokio's clock ourselves, event by event;
//! before tokio may leap, it is advanced to the next whole millisecond and its
//! timers are processed there; and a sentinel timer stops the leap at the last whole
//! millisecond before our next event.
//!
//! After an event that woke somebody tokio has its turn, if a task is ready: see
//! [`readiness`](super::readiness).

use std::future::Future;
#[cfg(tokio_unstable)]
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[cfg(tokio_unstable)]
use tokio::runtime::RngSeed;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep};

use super::Manner;
#[cfg(tokio_unstable)]
use super::attribution::Attribution;
use super::control::EventControl;
use super::core::{Core, EventSubstrate, Step, Tokio};
use super::readiness::Readiness;
use super::strangers::EVENT_INTERVAL;
use crate::engine::standstill::Stop;
#[cfg(tokio_unstable)]
use crate::engine::turns::TURNS_OF_AN_INSTANT;
use crate::engine::world::{NodeId, panic_message};
use crate::engine::{Factory, Stage};
use crate::engine::{current, senses};

const MILLISECOND_US: u64 = 1_000;

/// So many steps may follow each other at one instant. Tasks that make them by running are
/// stopped long before.
const STEPS_OF_AN_INSTANT: u32 = 1_000_000;
const STANDSTILL: &str = "time stands still: the engine made a million steps at one instant; \
    an action of a fault schedules itself for ever";

struct Driver {
    core: Arc<Core>,
    readiness: Readiness,
    origin: OnceLock<Instant>,
    sentinel: Mutex<Option<Pin<Box<Sleep>>>>,
    /// Whether tokio's clock may have leapt when the thread goes on.
    leaps: AtomicBool,
    /// Steps since time last moved.
    steps: AtomicU32,
    /// Polls of any task since the thread last parked.
    #[cfg(tokio_unstable)]
    polls: AtomicU32,
}

/// Runs the stage to its end.
pub(super) fn drive(core: &Arc<Core>, stage: Stage, manner: &Manner) {
    // Before the runtime is built: its clock begins with a reading.
    let _senses = (!manner.unseeded).then(|| senses::enter(&core.world));
    let _current = current::enter(&core.world, Arc::new(EventSubstrate(core.clone())));
    let driver = Arc::new(Driver {
        core: core.clone(),
        readiness: Readiness::of(manner.plain),
        origin: OnceLock::new(),
        sentinel: Mutex::new(None),
        leaps: AtomicBool::new(false),
        steps: AtomicU32::new(0),
        #[cfg(tokio_unstable)]
        polls: AtomicU32::new(0),
    });
    let built = runtime(&driver, manner);
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return core.get_stuck(format!("tokio's runtime did not start: {error}")),
    };
    core.tokio().metrics = Some(runtime.metrics());
    core.watch_for_strangers();
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _ = driver.origin.set(Instant::now());
            open(core, stage);
            std::future::poll_fn(|context: &mut Context<'_>| {
                if core.is_finished() {
                    return Poll::Ready(());
                }
                core.tokio().main.get_or_insert_with(|| context.waker().clone());
                if let Some(strangers) = &core.strangers {
                    strangers.look(core, context);
                }
                if core.is_finished() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
    }));
    if let Err(payload) = result {
        core.get_stuck(panic_message(&*payload));
    }
    core.world.stand();
    // Tasks are dropped with the runtime and may still reach for the core, so it
    // must stand until then; the sentinel belongs to the runtime and must go first.
    *driver.sentinel.lock().unwrap_or_else(PoisonError::into_inner) = None;
    drop(runtime);
    *core.tokio() = Tokio::default();
    drop(core.dismantle());
    core.world.let_go();
}

/// A runtime with paused time whose hooks drive the engine.
fn runtime(driver: &Arc<Driver>, manner: &Manner) -> std::io::Result<Runtime> {
    let (parking, unparking) = (driver.clone(), driver.clone());
    let mut builder = Builder::new_current_thread();
    builder
        .enable_time()
        .start_paused(true)
        .event_interval(EVENT_INTERVAL)
        .on_thread_park(move || parking.park())
        .on_thread_unpark(move || unparking.follow());
    #[cfg(tokio_unstable)]
    if !manner.plain {
        attribute(&mut builder, driver);
        if !manner.unseeded {
            builder.rng_seed(RngSeed::from_bytes(&driver.core.world.seed().to_le_bytes()));
        }
    }
    let _ = manner;
    builder.build()
}

/// Has tokio tell of every task's birth, turns and end.
#[cfg(tokio_unstable)]
fn attribute(builder: &mut Builder, driver: &Arc<Driver>) {
    let polling = driver.clone();
    let tasks = Arc::new(Attribution::new(driver.core.world.clone()));
    let (births, turns, ends, deaths) = (tasks.clone(), tasks.clone(), tasks.clone(), tasks);
    builder
        .on_task_spawn(move |task| births.born(task.id(), task.spawned_at()))
        .on_before_task_poll(move |task| {
            polling.count(task.spawned_at());
            turns.begins(task.id());
        })
        .on_after_task_poll(move |_| ends.ends())
        .on_task_terminate(move |task| deaths.died(task.id()));
}

/// Schedules the end, lets the faults be scheduled, starts the nodes.
pub(super) fn open(core: &Arc<Core>, stage: Stage) {
    let ending = core.clone();
    core.lock().queue.push(stage.ends_at_us, Step::Action(Box::new(move || ending.finish())));
    let factories: Arc<[Factory]> = stage.factories.into();
    let substrate = Arc::new(EventSubstrate(core.clone()));
    let control = Arc::new(EventControl::new(core.clone(), substrate, factories.clone()));
    (stage.opening)(control.clone());
    for index in 0..factories.len() {
        control.start_node(NodeId(index as u16));
    }
}

impl Driver {
    /// Nothing is ready: take events until something is, or let tokio leap.
    fn park(&self) {
        if self.origin.get().is_none() {
            return;
        }
        #[cfg(tokio_unstable)]
        self.polls.store(0, Ordering::Relaxed);
        while !self.core.is_finished() {
            if self.core.world.is_halted() {
                match self.core.world.at_rest() {
                    Stop::No => {}
                    Stop::Stand => return self.core.finish(),
                    Stop::Stuck(why) => return self.core.get_stuck(why),
                }
            }
            if let Some(may_be_ready) = self.core.execute_due() {
                if self.steps.fetch_add(1, Ordering::Relaxed) >= STEPS_OF_AN_INSTANT {
                    return self.core.get_stuck(STANDSTILL.to_owned());
                }
                if may_be_ready && self.readiness.is_turn(&self.core) {
                    return;
                }
                continue;
            }
            self.steps.store(0, Ordering::Relaxed);
            let now_us = self.core.now_us();
            let next_ms_us = (now_us / MILLISECOND_US + 1) * MILLISECOND_US;
            let is_whole = now_us.is_multiple_of(MILLISECOND_US);
            let next_at_us = self.core.lock().queue.next_at_us();
            match next_at_us {
                Some(at_us) if at_us < next_ms_us => self.advance(at_us),
                _ if !is_whole => return self.advance(next_ms_us),
                Some(at_us) => return self.leap_to(at_us / MILLISECOND_US * MILLISECOND_US),
                None => return self.leaps.store(true, Ordering::Relaxed),
            }
        }
    }

    /// A task is about to be polled. Tasks of nodes are stopped by their world when they
    /// never wait; one that was spawned past its host can only be stopped by a panic.
    #[cfg(tokio_unstable)]
    fn count(&self, spawned_at: &'static Location<'static>) {
        let polls = self.polls.fetch_add(1, Ordering::Relaxed);
        if polls < 2 * TURNS_OF_AN_INSTANT {
            return;
        }
        self.polls.store(0, Ordering::Relaxed);
        let at = crate::plan::Micros(self.core.now_us());
        panic!(
            "time stands still at {at}: tasks ran {polls} times without waiting, the last of \
             them a task spawned past its host at {spawned_at}"
        );
    }

    /// Advances both clocks to `to_us`.
    fn advance(&self, to_us: u64) {
        let by_us = to_us - self.core.now_us();
        self.core.world.set_now_us(to_us);
        // One poll advances; what remains of the future is a yield that makes tokio
        // look at its timers before it parks, which is wanted.
        let mut advance = std::pin::pin!(tokio::time::advance(Duration::from_micros(by_us)));
        let _ = advance.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Lets tokio leap, to the earliest of its own timers and `to_us`.
    fn leap_to(&self, to_us: u64) {
        self.leaps.store(true, Ordering::Relaxed);
        let Some(origin) = self.origin.get() else { return };
        let deadline = *origin + Duration::from_micros(to_us);
        let mut sentinel = self.sentinel.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = sentinel.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Follows tokio's clock after it may have leapt.
    fn follow(&self) {
        if self.leaps.swap(false, Ordering::Relaxed)
            && let Some(origin) = self.origin.get()
        {
            let now_us = (Instant::now() - *origin).as_micros() as u64;
            self.core.world.set_now_us(now_us);
        }
    }
}

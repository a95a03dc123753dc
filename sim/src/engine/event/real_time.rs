//! The event engine at the pace of real time, on a runtime that has sockets: what serves a
//! plan's nodes to programs outside.
//!
//! The queue, the network and the nodes are those of a storm. What differs is who turns the
//! crank: whenever no task is ready, what has become due by the real clock is done, and the
//! thread sleeps until the next step is due or a socket has something. Nothing of it is the
//! same twice, so nothing is seeded but the draws.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, Sleep};

use super::core::{Core, Tokio};
use super::driver;
use crate::engine::Stage;
use crate::engine::world::panic_message;

/// So many steps are done at once, before sockets have their turn.
const MOST_STEPS: u32 = 1_000;

struct Pace {
    core: Arc<Core>,
    /// When the run began.
    began: OnceLock<Instant>,
    /// Ends the thread's sleep when a step is due.
    sentinel: Mutex<Option<Pin<Box<Sleep>>>>,
}

/// Runs the stage to its end.
pub(super) fn drive(core: &Arc<Core>, stage: Stage) {
    let pace =
        Arc::new(Pace { core: core.clone(), began: OnceLock::new(), sentinel: Mutex::new(None) });
    let (parking, unparking) = (pace.clone(), pace.clone());
    let built = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || parking.park())
        .on_thread_unpark(move || unparking.follow())
        .build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return core.get_stuck(format!("tokio's runtime did not start: {error}")),
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _ = pace.began.set(Instant::now());
            driver::open(core, stage);
            std::future::poll_fn(|context: &mut Context<'_>| {
                core.tokio().main.get_or_insert_with(|| context.waker().clone());
                if core.is_finished() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
    }));
    if let Err(payload) = result {
        core.get_stuck(panic_message(&*payload));
    }
    // In the order in which the driver of storms takes its run down.
    *pace.sentinel.lock().unwrap_or_else(PoisonError::into_inner) = None;
    drop(runtime);
    *core.tokio() = Tokio::default();
    drop(core.dismantle());
    core.world.let_go();
}

impl Pace {
    /// Time has passed while the thread slept.
    fn follow(&self) {
        let Some(began) = self.began.get() else { return };
        let now_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.core.world.set_now_us(now_us.max(self.core.now_us()));
    }

    /// No task is ready: does what is due, or has the thread woken for what comes next.
    fn park(&self) {
        self.follow();
        let mut steps = 0;
        while steps < MOST_STEPS && !self.core.is_finished() {
            if self.core.world.is_halted() {
                let why = self.core.world.stuck();
                return self.core.get_stuck(why.unwrap_or_default());
            }
            if self.core.execute_due().is_none() {
                break;
            }
            steps += 1;
        }
        if steps > 0 {
            // Whoever was woken has its turn, and this comes again.
            return self.core.wake_main();
        }
        self.sleep_until_due();
    }

    fn sleep_until_due(&self) {
        let next_at_us = self.core.lock().queue.next_at_us();
        let (Some(began), Some(at_us)) = (self.began.get(), next_at_us) else { return };
        let Some(deadline) = began.checked_add(Duration::from_micros(at_us)) else { return };
        let mut sentinel = self.sentinel.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = sentinel.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() != deadline || sleep.is_elapsed() {
            sleep.as_mut().reset(deadline);
        }
        // Nobody is woken by it: that the thread goes on is enough.
        let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

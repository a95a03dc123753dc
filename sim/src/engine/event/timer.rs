//! Timers of simulated nodes, in true microseconds.
//!
//! A timer completes at its time, or early when its node's clock changes: the sleep
//! above it ([`machine`](crate::engine::machine)) then computes the time anew.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::core::{Core, Step};
use crate::engine::machine::Tick;
use crate::engine::world::NodeId;

/// All timers of a run.
#[derive(Default)]
pub(super) struct Timers {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    node: NodeId,
    generation: u32,
    fired: bool,
    waker: Option<Waker>,
    tick: Option<Arc<Tick>>,
    /// When the tick is due, on the node's monotonic clock, µs.
    deadline_us: u64,
}

impl Slot {
    fn new(node: NodeId) -> Slot {
        Slot { node, generation: 0, fired: false, waker: None, tick: None, deadline_us: 0 }
    }
}

impl Timers {
    fn arm(&mut self, node: NodeId) -> (u32, u32) {
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.node = node;
                (index, slot.generation)
            }
            None => {
                self.slots.push(Slot::new(node));
                ((self.slots.len() - 1) as u32, 0)
            }
        }
    }

    /// Fires the timer, unless it was dropped meanwhile.
    pub(super) fn fire(&mut self, index: u32, generation: u32) -> Option<Waker> {
        let slot = &mut self.slots[index as usize];
        if slot.generation != generation {
            return None;
        }
        slot.fired = true;
        slot.waker.take()
    }

    /// The tick that is due, if this timer is one and was not dropped meanwhile.
    pub(super) fn tick(&self, index: u32, generation: u32) -> Option<Arc<Tick>> {
        let slot = &self.slots[index as usize];
        slot.tick.clone().filter(|_| slot.generation == generation && !slot.fired)
    }

    /// The tick has nothing to do until this reading of its node's monotonic clock, µs.
    pub(super) fn put_off(&mut self, index: u32, deadline_us: u64) {
        self.slots[index as usize].deadline_us = deadline_us;
    }

    /// Fires all timers of a node early.
    pub(super) fn fire_all_of(&mut self, node: NodeId) -> Vec<Waker> {
        let of_node = self.slots.iter_mut().filter(|slot| slot.node == node);
        of_node
            .filter_map(|slot| {
                let waker = slot.waker.take()?;
                slot.fired = true;
                Some(waker)
            })
            .collect()
    }

    fn release(&mut self, index: u32) -> (Option<Waker>, Option<Arc<Tick>>) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.fired = false;
        self.free.push(index);
        (slot.waker.take(), slot.tick.take())
    }
}

/// Completes when its timer fires.
pub(super) struct Timer {
    core: Arc<Core>,
    index: u32,
}

impl Timer {
    pub(super) fn new(core: Arc<Core>, node: NodeId, true_us: u64) -> Self {
        let index = {
            let mut state = core.lock();
            let (index, generation) = state.timers.arm(node);
            state.queue.push(true_us, Step::Timer { index, generation });
            index
        };
        Timer { core, index }
    }
}

impl Timer {
    /// Whether it has fired; if not, whoever polls is woken.
    fn poll_fired(&self, context: &mut Context<'_>) -> Poll<()> {
        let replaced = {
            let mut state = self.core.lock();
            let slot = &mut state.timers.slots[self.index as usize];
            if slot.fired {
                return Poll::Ready(());
            }
            match &slot.waker {
                Some(waker) if waker.will_wake(context.waker()) => None,
                _ => slot.waker.replace(context.waker().clone()),
            }
        };
        drop(replaced);
        Poll::Pending
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_fired(context)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let (waker, tick) = self.core.lock().timers.release(self.index);
        drop((waker, tick));
    }
}

/// Completes when its tick has something to do, with the deadline that it has come to.
pub(super) struct Ticking(Timer);

impl Ticking {
    pub(super) fn new(core: Arc<Core>, tick: Tick, true_us: u64) -> Self {
        let timer = Timer::new(core, tick.node, true_us);
        {
            let mut state = timer.core.lock();
            let slot = &mut state.timers.slots[timer.index as usize];
            slot.deadline_us = tick.deadline_us;
            slot.tick = Some(Arc::new(tick));
        }
        Ticking(timer)
    }
}

impl Future for Ticking {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let timer = &self.0;
        timer
            .poll_fired(context)
            .map(|()| timer.core.lock().timers.slots[timer.index as usize].deadline_us)
    }
}

//! Timers of simulated nodes, in true microseconds.
//!
//! A timer completes at its time, or early when its node's clock changes: the sleep
//! above it ([`machine`](crate::engine::machine)) then computes the time anew.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::core::{Core, Step};
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
                self.slots.push(Slot { node, generation: 0, fired: false, waker: None });
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

    fn release(&mut self, index: u32) -> Option<Waker> {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.fired = false;
        self.free.push(index);
        slot.waker.take()
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

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
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

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = self.core.lock().timers.release(self.index);
        drop(waker);
    }
}

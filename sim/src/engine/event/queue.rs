//! What is to come, in order: by time, and among equals by order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A priority queue of steps. The steps themselves lie in a slab, so that the heap
/// moves three numbers and no closures.
pub(super) struct Queue<S> {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    steps: Vec<Option<S>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl<S> Queue<S> {
    pub(super) fn new() -> Self {
        Queue { heap: BinaryHeap::new(), steps: Vec::new(), free: Vec::new(), scheduled: 0 }
    }

    /// Schedules `step` for `at_us`.
    pub(super) fn push(&mut self, at_us: u64, step: S) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.steps[slot as usize] = Some(step);
                slot
            }
            None => {
                self.steps.push(Some(step));
                (self.steps.len() - 1) as u32
            }
        };
        self.scheduled += 1;
        self.heap.push(Reverse((at_us, self.scheduled, slot)));
    }

    /// When the next step is due.
    pub(super) fn next_at_us(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_us, _, _))| *at_us)
    }

    /// Takes the next step if it is due at `now_us`.
    pub(super) fn pop_due(&mut self, now_us: u64) -> Option<S> {
        if self.next_at_us()? > now_us {
            return None;
        }
        let Reverse((_, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.steps[slot as usize].take()
    }

    /// Forgets everything; what is returned is to be dropped by the caller, outside
    /// of any lock.
    pub(super) fn clear(&mut self) -> Vec<Option<S>> {
        self.heap.clear();
        self.free.clear();
        std::mem::take(&mut self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = Queue::new();
        for (at_us, name) in [(5, "b"), (3, "a"), (5, "c"), (4, "x")] {
            queue.push(at_us, name);
        }
        assert_eq!(queue.pop_due(2), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_due(9)).collect();
        assert_eq!(order, ["a", "x", "b", "c"]);
    }
}

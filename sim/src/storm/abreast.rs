//! Several runs at once, as many as the machine has cores. Each has a thread of its own as
//! ever, and what comes of one does not depend on the others.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What `work` makes of each of `items`, in their order.
pub fn abreast<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    spread(items, std::thread::available_parallelism().map_or(1, NonZero::get), work)
}

/// Likewise, on so many threads.
pub fn spread<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1).min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::EventEngine;
    use crate::plan::{Fence, Plan, Seed};
    use crate::storm::run;

    #[test]
    fn what_comes_of_a_run_does_not_depend_on_those_beside_it() {
        let plan = |seed| Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed));
        let plans: Vec<Plan> = (0..6).map(|seed| plan(seed).unwrap()).collect();
        let trace = |plan: &Plan| run(plan, &EventEngine).trace_hash;
        let alone: Vec<_> = plans.iter().map(trace).collect();
        assert_eq!(abreast(&plans, trace), alone);
        assert!(abreast(&[], |_: &u8| ()).is_empty());
    }
}

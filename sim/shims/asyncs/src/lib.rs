//! Stands in for `asyncs`: a task that is spawned by a simulated node's program is a task of
//! that node, frozen with it by a pause and dead with it after a crash; outside of a run
//! tasks go where the published crate sends them. docs/shims.md says more.
//!
//! [`select!`] asks its branches in the order in which they are written: the published one
//! begins at one that the address of its futures picks, which no seed can repeat. `sync` and
//! the tasks' handles are the published ones.

#[cfg(any(feature = "smol", feature = "async-global-executor"))]
compile_error!(
    "this `asyncs` stands in for the published one in tests, beside patched I/O crates that smol \
     and async-global-executor do not build on: enable the client's feature `tokio` instead"
);

pub mod task;

#[doc(hidden)]
pub use async_select::select_biased;
#[doc(inline)]
pub use asyncs_sync as sync;
pub use task::spawn;

// Linked for the tasks' way to tokio, which registers itself.
#[cfg(feature = "tokio")]
use spawns as _;

/// Waits for several futures at once, as `async_select::select!` does, and asks them in the
/// order in which they are written whether they are ready.
///
/// The published macro promises no order unless `biased;` stands first, so that any order is
/// one that a program must bear.
#[macro_export]
macro_rules! select {
    (biased; $($token:tt)*) => {
        $crate::select_biased! { $($token)* }
    };
    ($($token:tt)*) => {
        $crate::select_biased! { $($token)* }
    };
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Which branch is taken, with the futures `depth` words further down the stack.
    fn taken<const DEPTH: usize>() -> usize {
        let room = std::hint::black_box([0u64; DEPTH]);
        let chosen = async {
            crate::select! {
                first = ready(0) => first,
                second = ready(1) => second,
                third = ready(2) => third,
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        let taken = pin!(chosen).poll(&mut context);
        std::hint::black_box(room);
        match taken {
            Poll::Ready(taken) => taken,
            Poll::Pending => unreachable!("all branches are ready"),
        }
    }

    #[test]
    fn of_branches_that_are_ready_the_first_is_taken_wherever_they_lie() {
        let taken = [taken::<1>(), taken::<3>(), taken::<5>(), taken::<8>(), taken::<13>()];
        assert_eq!(taken, [0; 5]);
    }
}

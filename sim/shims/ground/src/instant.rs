//! `std::time::Instant`, which the published APIs are written in, without the real clock
//! inside a run.
//!
//! An `Instant` can only be had from the C library's clock. In a run the interposer has it
//! answer with the node's; without the interposer it would be the real clock, and the run
//! would depend on it. So there it is refused.

use std::cell::Cell;
use std::time::Instant;

/// Looks at the clock until it is known: a real one has moved by then, a simulated one
/// stands still while a program runs.
const LOOKS: usize = 1_000;

thread_local! {
    /// Whether this thread's run has been found to have the interposer.
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
}

/// Now, on the clock of the machine that the calling code runs on.
///
/// # Panics
/// On the thread of a run whose program has not installed the interposer: what this gives
/// would come from outside of the seed.
#[expect(clippy::disallowed_methods, reason = "in a run the interposer answers, or it is refused")]
pub fn now() -> Instant {
    let now = Instant::now();
    if crate::current().is_some() && !IS_SIMULATED.get() {
        assert!(
            (0..LOOKS).all(|_| Instant::now() == now),
            "a storm's program asks for an Instant, and the C library's clock is the real one: \
             call lockstorm_interpose::install in this test program before the run (docs/shims.md)"
        );
        IS_SIMULATED.set(true);
    }
    now
}

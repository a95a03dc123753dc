//! Stands in for `futures-timer`: [`Delay`] follows the clock of the simulated node whose
//! program made it; outside of a run it is a real timer. docs/shims.md says more.
//!
//! It has what clients use and no more: something that is missing does not compile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm_ground::Sleep;

/// Completes after a duration.
#[derive(Debug)]
pub struct Delay(Sleep);

impl Delay {
    /// Completes once `duration` has passed, counted from now.
    pub fn new(duration: Duration) -> Delay {
        Delay(Sleep::new(duration))
    }

    /// Completes once `duration` has passed, counted from now, whether or not it has
    /// completed before.
    pub fn reset(&mut self, duration: Duration) {
        self.0.reset(duration);
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

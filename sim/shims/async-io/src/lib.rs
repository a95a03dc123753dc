//! Stands in for `async-io`: [`Timer`] follows the clock of the simulated node whose
//! program made it; outside of a run it is a real timer. docs/shims.md says more.
//!
//! It has what clients use and no more: something that is missing (`Async`, `block_on`)
//! does not compile.
//!
//! Instants are the standard library's, so on a node they mean something only in a program
//! that has installed `lockstorm-interpose`; in a run without it they are refused.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;
use lockstorm_ground::{Sleep, now};

/// Emits instants: one, or one each period.
///
/// As with the published one, a poll after a late wake-up gives the instant that was due,
/// and an interval gives the instants that it missed one after the other.
#[derive(Debug)]
pub struct Timer {
    /// `None`: it emits nothing any more.
    next: Option<Next>,
    period: Duration,
}

#[derive(Debug)]
struct Next {
    sleep: Sleep,
    /// When it is due, by the sleep's clock.
    due: Duration,
    /// When it is due, as it will be told.
    when: Instant,
}

impl Timer {
    /// This one stands in for the published one. `lockstorm-sim` asks, and is answered by a
    /// trait of its own where the published one is linked.
    #[doc(hidden)]
    pub fn is_of_lockstorm() -> bool {
        true
    }

    /// Emits nothing.
    pub fn never() -> Timer {
        Timer { next: None, period: Duration::MAX }
    }

    /// Emits once, after `duration`.
    pub fn after(duration: Duration) -> Timer {
        Timer::new(duration, Duration::MAX)
    }

    /// Emits once, at `instant`; at once if that is past.
    pub fn at(instant: Instant) -> Timer {
        Timer::interval_at(instant, Duration::MAX)
    }

    /// Emits after each `period`.
    pub fn interval(period: Duration) -> Timer {
        Timer::new(period, period)
    }

    /// Emits at `start` and then after each `period`.
    pub fn interval_at(start: Instant, period: Duration) -> Timer {
        let wait = start.saturating_duration_since(now());
        Timer { next: Some(Next::new(wait, start)), period }
    }

    fn new(wait: Duration, period: Duration) -> Timer {
        // Beyond what clocks can show is never, as with the published one.
        let when = now().checked_add(wait);
        Timer { next: when.map(|when| Next::new(wait, when)), period }
    }

    /// Whether it will emit anything.
    pub fn will_fire(&self) -> bool {
        self.next.is_some()
    }
}

impl Next {
    fn new(wait: Duration, when: Instant) -> Next {
        let sleep = Sleep::new(wait);
        let due = sleep.monotonic().saturating_add(wait);
        Next { sleep, due, when }
    }

    /// The one after this, a period later.
    fn following(mut self, period: Duration) -> Option<Next> {
        let when = self.when.checked_add(period)?;
        let due = self.due.checked_add(period)?;
        self.sleep.reset(due.saturating_sub(self.sleep.monotonic()));
        Some(Next { sleep: self.sleep, due, when })
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Instant> {
        match ready!(self.poll_next(context)) {
            Some(when) => Poll::Ready(when),
            // A timer's stream has no end.
            None => Poll::Pending,
        }
    }
}

impl Stream for Timer {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        let Some(next) = &mut self.next else { return Poll::Pending };
        ready!(Pin::new(&mut next.sleep).poll(context));
        let when = next.when;
        let period = self.period;
        self.next = self.next.take().and_then(|next| next.following(period));
        Poll::Ready(Some(when))
    }
}

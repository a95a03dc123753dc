//! A timer that can be sent and shared, as the published ones can.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{BoxFuture, Node};

/// Completes once a duration has passed on the monotonic clock of the machine on which it
/// was made. It counts from when it was made.
pub struct Sleep {
    node: Arc<dyn Node>,
    // Never locked: whoever polls has it for himself. It is what makes this `Sync`.
    sleep: Mutex<BoxFuture<()>>,
}

impl Sleep {
    /// Sleeps for `duration`, of which the simulation has whole microseconds.
    pub fn new(duration: Duration) -> Self {
        Sleep::on(crate::node(), duration)
    }

    fn on(node: Arc<dyn Node>, duration: Duration) -> Self {
        // What is left of a microsecond is waited for, never saved.
        let whole = Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        let rest = if whole < duration { Duration::from_micros(1) } else { Duration::ZERO };
        let sleep = Mutex::new(node.sleep(whole.saturating_add(rest)));
        Sleep { node, sleep }
    }

    /// Time on the clock that this follows; see [`Node::monotonic`].
    pub fn monotonic(&self) -> Duration {
        self.node.monotonic()
    }

    /// Begins again, for `duration` from now, on the same machine.
    pub fn reset(&mut self, duration: Duration) {
        *self = Sleep::on(self.node.clone(), duration);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_mut().unwrap_or_else(PoisonError::into_inner);
        sleep.as_mut().poll(context)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sleep").finish_non_exhaustive()
    }
}

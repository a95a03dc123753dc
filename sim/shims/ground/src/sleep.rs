//! A timer that can be sent and shared, as the published ones can.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;

/// Completes once a duration has passed on the monotonic clock of the machine on which it
/// was made. It counts from when it was made.
pub struct Sleep {
    host: Host,
    // Never locked: whoever polls has it for himself. It is what makes this `Sync`.
    sleep: Mutex<BoxFuture<'static, ()>>,
}

impl Sleep {
    /// Sleeps for `duration`, of which the simulation has whole microseconds.
    pub fn new(duration: Duration) -> Self {
        Sleep::on(crate::host(), duration)
    }

    fn on(host: Host, duration: Duration) -> Self {
        // What is left of a microsecond is waited for, never saved.
        let whole = Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        let rest = if whole < duration { Duration::from_micros(1) } else { Duration::ZERO };
        let sleep = Mutex::new(host.sleep(whole.saturating_add(rest)));
        Sleep { host, sleep }
    }

    /// Time on the clock that this follows; see [`lockstorm::Host::monotonic`].
    pub fn monotonic(&self) -> Duration {
        self.host.monotonic()
    }

    /// Begins again, for `duration` from now, on the same machine.
    pub fn reset(&mut self, duration: Duration) {
        *self = Sleep::on(self.host.clone(), duration);
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
        formatter.debug_struct("Sleep").field("host", &self.host).finish_non_exhaustive()
    }
}

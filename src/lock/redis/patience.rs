//! Waiting: asking again while somebody else holds the lock.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Notify;

use super::failure::Failure;
use crate::host::Host;
use crate::lock::LockError;

/// Tries until granted, refused, indeterminate, or out of patience. `try_once` says
/// `None` while somebody else holds the lock. Between two tries it waits for a time
/// drawn from half of `retry` to all of it: jitter parts waiters that were turned away
/// together.
pub(super) async fn until_granted<T, F>(
    host: &Host,
    retry: Duration,
    patience: Duration,
    try_once: impl FnMut() -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let waiting = Waiting { began: host.monotonic(), patience, was_busy: false };
    until_woken(host, retry, waiting, None, try_once).await
}

/// A wait that is under way.
pub(super) struct Waiting {
    /// The monotonic clock when it began.
    pub(super) began: Duration,
    /// For how long at most, since it began.
    pub(super) patience: Duration,
    /// Somebody else has been found to hold the lock.
    pub(super) was_busy: bool,
}

/// Goes on with a wait likewise; and `woken` ends a pause early.
pub(super) async fn until_woken<T, F>(
    host: &Host,
    retry: Duration,
    waiting: Waiting,
    woken: Option<&Notify>,
    mut try_once: impl FnMut() -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let Waiting { began, patience, mut was_busy } = waiting;
    // What one try may have left behind is not undone by the next.
    let mut unknown = None;
    loop {
        let failure = match try_once().await {
            Ok(Some(granted)) => return Ok(granted),
            Ok(None) => {
                was_busy = true;
                None
            }
            Err(failure) => {
                if !failure.may_pass() {
                    return Err(failure.into());
                }
                if matches!(failure, Failure::Scattered { .. }) {
                    unknown = Some(failure.clone());
                }
                Some(failure)
            }
        };
        let left = patience.saturating_sub(host.monotonic().saturating_sub(began));
        if left.is_zero() {
            return Err(match unknown.or(failure) {
                Some(unknown @ Failure::Scattered { .. }) => unknown.into(),
                Some(failure) if !was_busy => failure.into(),
                _ if patience.is_zero() => LockError::Busy,
                _ => LockError::TimedOut,
            });
        }
        let wait = host.random_duration("lock-retry", retry / 2, retry);
        match woken {
            // Woken or not, it is tried again.
            Some(woken) => drop(host.timeout(wait.min(left), woken.notified()).await),
            None => host.sleep(wait.min(left)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_was_used_up_before_it_goes_on_has_timed_out() {
        let host = Host::tokio("app-1");
        let patience = Duration::from_millis(1);
        let began = host.monotonic();
        host.sleep(2 * patience).await;
        let waiting = Waiting { began, patience, was_busy: true };
        let retry = Duration::from_millis(1);
        let busy = || std::future::ready(Ok(None::<()>));
        let error = until_woken(&host, retry, waiting, None, busy).await.unwrap_err();
        assert!(matches!(error, LockError::TimedOut), "{error}");
        let error = until_granted(&host, retry, Duration::ZERO, busy).await.unwrap_err();
        assert!(matches!(error, LockError::Busy), "{error}");
    }
}

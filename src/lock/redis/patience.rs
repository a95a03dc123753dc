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
    until_woken(host, retry, patience, None, try_once).await
}

/// Likewise; and `woken` ends a wait early.
pub(super) async fn until_woken<T, F>(
    host: &Host,
    retry: Duration,
    patience: Duration,
    woken: Option<&Notify>,
    mut try_once: impl FnMut() -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let began = host.monotonic();
    let mut was_busy = false;
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
                Some(failure)
            }
        };
        let left = patience.saturating_sub(host.monotonic().saturating_sub(began));
        if left.is_zero() {
            return Err(match failure {
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

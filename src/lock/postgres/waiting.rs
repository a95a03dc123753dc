//! Waiting: asking again while somebody else holds the lock.

use std::future::Future;
use std::time::Duration;

use super::failure::Failure;
use crate::host::Host;
use crate::lock::LockError;

/// Tries until granted, refused, indeterminate, or out of patience. `try_once` is told how
/// much patience is left, for those that wait at the server, and says `None` while somebody
/// else holds the lock. Between two tries it waits for a time drawn from half of `retry` to
/// all of it: jitter parts waiters that were turned away together.
pub(super) async fn until_granted<T, F>(
    host: &Host,
    retry: Duration,
    patience: Duration,
    mut try_once: impl FnMut(Duration) -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let began = host.monotonic();
    let left = || patience.saturating_sub(host.monotonic().saturating_sub(began));
    let mut was_busy = false;
    loop {
        let failure = match try_once(left()).await {
            Ok(Some(granted)) => return Ok(granted),
            Ok(None) => {
                was_busy = true;
                None
            }
            Err(failure) if !failure.may_pass() => return Err(failure.into()),
            Err(failure) => Some(failure),
        };
        let left = left();
        if left.is_zero() {
            return Err(match failure {
                Some(failure) if !was_busy => failure.into(),
                _ if patience.is_zero() => LockError::Busy,
                _ => LockError::TimedOut,
            });
        }
        let wait = host.random_duration("lock-retry", retry / 2, retry);
        host.sleep(wait.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_wait_ends_with_what_it_met() {
        let host = Host::tokio("app-1");
        let busy = |_| std::future::ready(Ok(None::<()>));
        let error = until_granted(&host, RETRY, Duration::ZERO, busy).await.unwrap_err();
        assert_eq!(error, LockError::Busy);
        let error = until_granted(&host, RETRY, 3 * RETRY, busy).await.unwrap_err();
        assert_eq!(error, LockError::TimedOut);
        let down = |_| {
            let reason = "down".to_owned();
            std::future::ready(Err::<Option<()>, _>(Failure::NotSent { reason }))
        };
        let error = until_granted(&host, RETRY, 3 * RETRY, down).await.unwrap_err();
        assert_eq!(error, LockError::Backend { reason: "down".to_owned() });
    }

    #[tokio::test]
    async fn an_unanswered_try_is_the_last() {
        let host = Host::tokio("app-1");
        let mut tries = 0;
        let lost = |_| {
            tries += 1;
            let reason = "silence".to_owned();
            std::future::ready(Err::<Option<()>, _>(Failure::NoReply { reason }))
        };
        let error = until_granted(&host, RETRY, Duration::from_secs(9), lost).await.unwrap_err();
        assert!(matches!(error, LockError::Indeterminate { .. }), "{error}");
        assert_eq!(tries, 1);
    }
}

//! What planted locks do alike: ask again until the lock is granted or patience is at its end,
//! and say what a grant is worth.

use std::future::Future;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::{FencingToken, Grant, LockError, Owner};

use crate::plan::LockPlan;

/// What came of asking once.
pub(super) enum Asked<T> {
    Granted(T),
    /// Somebody else has it.
    Busy,
    /// It failed, and may go well when it is asked again.
    Failed(LockError),
}

/// Asks again until granted, failed for good, or out of patience. Between two tries it waits
/// for a time drawn from half of the lock's retry to all of it.
pub(super) async fn until_granted<T, F>(
    host: &Host,
    lock: &LockPlan,
    patience: Duration,
    mut ask_once: impl FnMut() -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<Asked<T>, LockError>>,
{
    let (began, retry) = (host.monotonic(), lock.retry.to_duration());
    let mut was_busy = false;
    loop {
        let failure = match ask_once().await? {
            Asked::Granted(granted) => return Ok(granted),
            Asked::Busy => None,
            Asked::Failed(failure) => Some(failure),
        };
        was_busy |= failure.is_none();
        let left = patience.saturating_sub(host.monotonic().saturating_sub(began));
        if left.is_zero() {
            return Err(failure.filter(|_| !was_busy).unwrap_or(LockError::TimedOut));
        }
        host.sleep(host.random_duration("lock-retry", retry / 2, retry).min(left)).await;
    }
}

/// What of the lease its holder leaves unused.
pub(super) fn margin(lock: &LockPlan) -> Duration {
    let us = u128::from(lock.lease.0) * u128::from(lock.margin_ppm) / 1_000_000;
    Duration::from_micros(us as u64)
}

/// A grant for the plan's lease.
pub(super) fn grant(
    lock: &LockPlan,
    key: &str,
    owner: &Owner,
    token: Option<u64>,
    asked_at: Duration,
) -> Grant {
    Grant {
        key: key.to_owned(),
        owner: owner.clone(),
        token: token.map(FencingToken),
        lease: lock.lease.to_duration(),
        margin: margin(lock),
        asked_at,
    }
}

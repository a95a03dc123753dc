//! Bugs of failing open: who cannot have the lock goes on without it.

use std::sync::Arc;

use lockstorm::lock::{Lock, LockError};

use super::Half;
use super::desk::{Answer, Desk};
use super::recipe::{Recipe, lock};

/// Goes on without the lock where this is so.
struct Open {
    half: Half,
    when: fn(&LockError) -> bool,
}

impl Recipe for Open {
    fn refused(&self, desk: &Desk, error: LockError) -> Result<Answer, LockError> {
        if self.half == Half::Planted && (self.when)(&error) {
            return Ok(Answer::Granted { token: None, asked_at: desk.host.monotonic() });
        }
        Err(error)
    }
}

/// sim#4722: whoever waited long enough goes in.
pub(super) fn on_timeout(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Open { half, when: |error| matches!(error, LockError::TimedOut) })
}

/// The same when the store cannot be asked: the sale must go on.
pub(super) fn on_error(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let is_an_error = |error: &LockError| !matches!(error, LockError::TimedOut | LockError::Busy);
    lock(desk, Open { half, when: is_an_error })
}

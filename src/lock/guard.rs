//! The guard: a granted lock in its holder's hands.
//!
//! What dropping does, in order: the holder's belief ends, renewal (if the backend
//! renews) stops, and one best-effort release is spawned. [`Guard::release`] does
//! the same and tells how it went.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FencingToken, LockError, Owner};
use crate::host::{BoxFuture, Host};

/// What a backend keeps behind a [`Guard`].
pub trait GuardBackend: Send + Sync {
    /// Asks the backend, once, to release. Called at most once, by
    /// [`Guard::release`] or by the drop.
    fn release(&mut self) -> BoxFuture<'static, Release>;

    /// Why the grant is known to be lost, where the backend or a renewal has said so.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Where renewal has moved it: the end of the lease on the host's monotonic
    /// clock, safety margin taken off. `None` keeps what the guard was made with.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

/// How a release went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Release {
    /// The lock was ours and is free now.
    Released,
    /// The lock was no longer ours: what we did since it was lost, we did unguarded.
    NotHeld,
    /// No reply: the lock is free now or when its lease ends.
    Indeterminate {
        /// What went wrong, for people.
        reason: String,
    },
}

/// A granted lock. See the module's text for what dropping it does.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    host: Host,
    key: String,
    owner: Owner,
    token: Option<FencingToken>,
    /// On the host's monotonic clock.
    deadline: Duration,
    /// What the backend allows for clocks that run apart, taken off the lease's end.
    margin: Duration,
    lease: Duration,
    backend: Option<Box<dyn GuardBackend>>,
}

/// The facts of a grant, from which its guard is made.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The lock's name.
    pub key: String,
    /// Who holds it.
    pub owner: Owner,
    /// The token to show to the resource, where the backend has one.
    pub token: Option<FencingToken>,
    /// How long the backend promised to keep it.
    pub lease: Duration,
    /// How much of the lease the holder leaves unused, for clocks that run apart.
    pub margin: Duration,
    /// The host's monotonic clock when the request was *sent*: the lease cannot
    /// have begun earlier, so counting from here errs on the safe side.
    pub asked_at: Duration,
}

impl Guard {
    /// A guard for `grant`, backed by `backend`.
    pub fn new(host: Host, grant: Grant, backend: impl GuardBackend + 'static) -> Self {
        Guard {
            host,
            deadline: grant.asked_at + grant.lease.saturating_sub(grant.margin),
            key: grant.key,
            owner: grant.owner,
            token: grant.token,
            margin: grant.margin,
            lease: grant.lease,
            backend: Some(Box::new(backend)),
        }
    }

    /// The lock's name.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Who holds it.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The token to show to the resource with every operation, reads included.
    pub fn token(&self) -> Option<FencingToken> {
        self.token
    }

    /// The lease as it was granted.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How much of the lease this holder leaves unused.
    pub fn margin(&self) -> Duration {
        self.margin
    }

    /// What is left until this holder must stop acting, by its own monotonic clock.
    pub fn remaining(&self) -> Duration {
        let deadline = self.backend.as_ref().and_then(|backend| backend.deadline());
        deadline.unwrap_or(self.deadline).saturating_sub(self.host.monotonic())
    }

    /// Whether the holder may still act, as far as it can know. Necessary, not
    /// sufficient: a pause after this check is what fencing is for.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the own deadline has passed or the backend has told
    /// of the loss.
    pub fn check(&self) -> Result<(), LockError> {
        if let Some(reason) = self.backend.as_ref().and_then(|backend| backend.lost()) {
            return Err(LockError::Lost { reason });
        }
        if self.remaining().is_zero() {
            return Err(LockError::Lost {
                reason: "the lease ran out by our own clock".to_owned(),
            });
        }
        Ok(())
    }

    /// Releases and tells how it went. Belief ends now, whatever the answer.
    pub async fn release(mut self) -> Release {
        match self.backend.take() {
            Some(mut backend) => backend.release().await,
            // Only `release` and the drop take the backend, and both consume the guard.
            None => Release::NotHeld,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut backend) = self.backend.take() {
            let release = backend.release();
            drop(backend);
            self.host.spawn("release", async move {
                // Best effort: the lease ends what this cannot.
                let _ = release.await;
            });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guard")
            .field("key", &self.key)
            .field("owner", &self.owner)
            .field("token", &self.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

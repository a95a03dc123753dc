//! The guard: a granted lock in its holder's hands.
//!
//! What dropping does, in order: the holder's belief ends, renewal (if the backend
//! renews) stops, and one best-effort release is spawned. [`Guard::release`] does
//! the same and tells how it went; if its caller loses interest half-way, the release
//! goes on by itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FencingToken, LockError, Owner};
use crate::host::{BoxFuture, Host};

/// What a backend keeps behind a [`Guard`].
pub trait GuardBackend: Send + Sync {
    /// Asks the backend, once, to release. Called at most once, by
    /// [`Guard::release`] or by the drop; the backend is dropped before the future
    /// is polled. The future ends by itself, within the backend's own time limits.
    fn release(&mut self) -> BoxFuture<'static, Release>;

    /// Why the grant is known to be lost, where the backend or a renewal has said so.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Completes as soon as [`lost`](GuardBackend::lost) has something to say. The default
    /// never does: nobody watches over the grant.
    fn told(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
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
    /// The lock was ours and is given back. It is free now, or, acquired more than once by
    /// its owner, held as often as is left.
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

    /// Completes, with why, as soon as the holder is told that the grant is lost; never
    /// where nobody watches over it. It does not watch the own deadline: a holder whose
    /// renewer stands still is told nothing, and must [`check`](Guard::check).
    pub async fn lost(&self) -> String {
        loop {
            // Both before the first wait: what is told in between is not missed.
            let told = match self.backend.as_ref() {
                Some(backend) => backend.told(),
                None => Box::pin(std::future::pending()),
            };
            if let Some(reason) = self.backend.as_ref().and_then(|backend| backend.lost()) {
                return reason;
            }
            told.await;
        }
    }

    /// Releases and tells how it went. Belief ends now, whatever the answer. If the
    /// returned future is dropped before it is done, the release goes on as a task.
    pub async fn release(mut self) -> Release {
        match self.begin_release() {
            Some(releasing) => releasing.await,
            // Only `release` and the drop take the backend, and both consume the guard.
            None => Release::NotHeld,
        }
    }

    /// Ends renewal, by dropping the backend, and hands over the release to be sent.
    fn begin_release(&mut self) -> Option<Releasing> {
        let release = self.backend.take()?.release();
        Some(Releasing { host: self.host.clone(), release: Some(release) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Dropped at once, the release is spawned.
        drop(self.begin_release());
    }
}

/// A release that is finished as a task if nobody waits for it.
struct Releasing {
    host: Host,
    /// `None` once it is done.
    release: Option<BoxFuture<'static, Release>>,
}

impl Future for Releasing {
    type Output = Release;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Release> {
        let Some(release) = self.release.as_mut() else {
            return Poll::Pending;
        };
        let outcome = std::task::ready!(release.as_mut().poll(context));
        self.release = None;
        Poll::Ready(outcome)
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts: releases asked for, releases done, and whether the backend still lives.
    #[derive(Default)]
    struct Counts {
        asked: AtomicU32,
        done: AtomicU32,
        gone: AtomicU32,
    }

    struct Counting(Host, Arc<Counts>);

    impl GuardBackend for Counting {
        fn release(&mut self) -> BoxFuture<'static, Release> {
            let (host, counts) = (self.0.clone(), self.1.clone());
            counts.asked.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                assert_eq!(counts.gone.load(Ordering::Relaxed), 1, "renewal has not ended");
                host.sleep(Duration::from_millis(20)).await;
                counts.done.fetch_add(1, Ordering::Relaxed);
                Release::Released
            })
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            self.1.gone.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn guard(host: &Host, lease: Duration) -> (Guard, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let grant = Grant {
            key: "k".to_owned(),
            owner: Owner::named("o"),
            token: None,
            lease,
            margin: lease / 10,
            asked_at: host.monotonic(),
        };
        (Guard::new(host.clone(), grant, Counting(host.clone(), counts.clone())), counts)
    }

    async fn until_done(host: &Host, counts: &Counts) {
        while counts.done.load(Ordering::Relaxed) == 0 {
            host.sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn release_asks_once_and_tells() {
        let host = Host::tokio("app-1");
        let (guard, counts) = guard(&host, Duration::from_secs(1));
        assert_eq!(guard.release().await, Release::Released);
        assert_eq!(counts.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn dropping_releases_once_in_the_background() {
        let host = Host::tokio("app-1");
        let (guard, counts) = guard(&host, Duration::from_secs(1));
        drop(guard);
        until_done(&host, &counts).await;
        assert_eq!(counts.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_release_whose_caller_loses_interest_goes_on() {
        let host = Host::tokio("app-1");
        let (guard, counts) = guard(&host, Duration::from_secs(1));
        let waited = host.timeout(Duration::from_millis(1), guard.release()).await;
        assert!(waited.is_err());
        until_done(&host, &counts).await;
        assert_eq!(counts.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn belief_ends_the_margin_before_the_lease() {
        let host = Host::tokio("app-1");
        let (guard, _counts) = guard(&host, Duration::from_secs(10));
        assert!(guard.check().is_ok());
        assert!(guard.remaining() <= Duration::from_secs(9));
        let (guard, _counts) = self::guard(&host, Duration::from_millis(10));
        host.sleep(Duration::from_millis(10)).await;
        assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
    }

    #[test]
    fn a_guard_may_outlive_its_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (guard, counts) = runtime.block_on(async {
            let host = Host::tokio("app-1");
            guard(&host, Duration::from_secs(1))
        });
        drop(runtime);
        drop(guard);
        assert_eq!(counts.done.load(Ordering::Relaxed), 0);
    }
}

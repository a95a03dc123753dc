//! Bugs of what a release says and leaves behind in its own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Lock, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Held, Recipe, lock};

/// Nobody looks at how many records were deleted: a lock that was lost long ago is "released".
pub(super) fn released_regardless(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct Regardless(Half);
    impl Recipe for Regardless {
        fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
            let (at, ask, half) = (desk.clone(), ask.clone(), self.0);
            Held::given_back_by(desk, move || {
                let (desk, ask) = (at.clone(), ask.clone());
                Box::pin(async move {
                    match desk.give_back(&ask).await {
                        Release::NotHeld if half == Half::Planted => Release::Released,
                        release => release,
                    }
                })
            })
        }
    }
    lock(desk, Regardless(half))
}

/// spring-integration#1888: a lock of the process stands before the lock of the store. When the
/// store says that the lock was lost, the release gives up before it frees the process's own.
pub(super) fn local_lock_kept(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, TwoLevels { half, taken: Arc::default() })
}

struct TwoLevels {
    half: Half,
    /// The lock of the process.
    taken: Arc<AtomicBool>,
}

impl Recipe for TwoLevels {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            if self.taken.load(Ordering::Relaxed) {
                return Ok(Answer::Busy);
            }
            let answer = desk.take(ask).await?;
            if matches!(answer, Answer::Granted { .. }) {
                self.taken.store(true, Ordering::Relaxed);
            }
            Ok(answer)
        })
    }

    fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
        let (at, ask, half, taken) = (desk.clone(), ask.clone(), self.half, self.taken.clone());
        Held::given_back_by(desk, move || {
            let (desk, ask, taken) = (at.clone(), ask.clone(), taken.clone());
            Box::pin(async move {
                let release = desk.give_back(&ask).await;
                if half.is_mended() || release == Release::Released {
                    taken.store(false, Ordering::Relaxed);
                }
                release
            })
        })
    }
}

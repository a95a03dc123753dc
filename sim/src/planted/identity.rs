//! Bugs of who holds: an owner that is not one, a hold that ends with the call.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Lock, Owner, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Held, Recipe, lock};

/// aredis#119: who holds is the process (there, the thread), not the attempt. What is left of an
/// earlier attempt, a release that was under way, frees a later one's record.
pub(super) fn one_owner_a_process(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Process { half, owner: OnceLock::new() })
}

struct Process {
    half: Half,
    /// The owner of the process's first attempt.
    owner: OnceLock<Owner>,
}

impl Process {
    fn as_written(&self, ask: &Ask) -> Ask {
        let owner = match self.half {
            Half::Planted => self.owner.get_or_init(|| ask.owner.clone()).clone(),
            Half::Mended => ask.owner.clone(),
        };
        Ask { key: ask.key.clone(), owner }
    }
}

impl Recipe for Process {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        let ask = self.as_written(ask);
        Box::pin(async move { desk.take(&ask).await })
    }

    fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
        Held::plain(desk, &self.as_written(ask))
    }
}

/// The guard of the inner lock ends with the function that took it (Rust's `let _ = guard`; in
/// spree#10697 a row lock ends with its statement, for want of a transaction).
pub(super) fn released_at_once(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct AtOnce(Half);
    impl Recipe for AtOnce {
        fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
            if self.0.is_mended() {
                return Held::plain(desk, ask);
            }
            let (at, ask) = (desk.clone(), ask.clone());
            desk.host.spawn("release", async move {
                at.give_back(&ask).await;
            });
            Held::given_back_by(desk, || Box::pin(std::future::ready(Release::Released)))
        }
    }
    lock(desk, AtOnce(half))
}

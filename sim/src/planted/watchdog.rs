//! Bugs of the renewal that keeps a holder's record alive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Lock, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Belief, Held, Recipe, lock};
use super::renewal::{Renewal, Renewer, renew_by};

/// A lock whose record is renewed.
struct Watched {
    renewer: Renewer,
    belief: Belief,
    renewal_ends: bool,
}

impl Watched {
    fn by(renewer: Renewer) -> Watched {
        Watched { renewer, belief: Belief::UntilTheDeadline, renewal_ends: true }
    }
}

impl Recipe for Watched {
    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        Held {
            renewal: Some(Renewal::begin(desk, ask, asked_at, self.renewer, || {})),
            renewal_ends: self.renewal_ends,
            belief: self.belief,
            ..Held::plain(desk, ask)
        }
    }
}

/// redlock-rb#44: milliseconds handed to the command that takes seconds.
pub(super) fn expire_in_seconds(desk: Desk, half: Half) -> Arc<dyn Lock> {
    const COMPARE_AND_EXPIRE_IN_SECONDS: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0";
    let mut renewer = Renewer::default();
    if half == Half::Planted {
        renewer.renew = |desk, ask| {
            Box::pin(async move { renew_by(&desk, &ask, COMPARE_AND_EXPIRE_IN_SECONDS).await })
        };
    }
    lock(desk, Watched::by(renewer))
}

/// RedLock.net#93: renewals fail, and the holder's state stays "acquired".
pub(super) fn loss_not_noticed(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let mut watched = Watched::by(Renewer::default());
    if half == Half::Planted {
        watched.renewer.tells = false;
        watched.belief = Belief::UntilTold;
    }
    lock(desk, watched)
}

/// redisson#775: a renewal that failed once is not scheduled again. (Its holders have no
/// deadline of their own: they believe until they are told.)
pub(super) fn renewal_not_retried(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let renewer = Renewer { retries: half.is_mended(), ..Renewer::default() };
    lock(desk, Watched { belief: Belief::UntilTold, ..Watched::by(renewer) })
}

/// etcd#17470, redisson#7251: the renewal goes on after the lock was given back, and keeps
/// alive what the release did not reach.
pub(super) fn renewal_outlives_hold(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let watched = Watched::by(Renewer::default());
    lock(desk, Watched { renewal_ends: half.is_mended(), ..watched })
}

/// redbeat#127: the renewal is a bare PEXPIRE, and renews whoever's record it finds.
pub(super) fn renew_without_owner(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn expire(desk: Desk, ask: Ask) -> BoxFuture<'static, Result<bool, Failure>> {
        Box::pin(async move {
            let mut command = redis::cmd("PEXPIRE");
            command.arg(&ask.key).arg(desk.lease_ms());
            Ok(desk.ask::<i64>(&command).await? == 1)
        })
    }
    let mut renewer = Renewer::default();
    if half == Half::Planted {
        renewer.renew = expire;
    }
    lock(desk, Watched::by(renewer))
}

/// redlock-rb#36: the renewal takes the lock once more, whether or not it was lost meanwhile.
pub(super) fn renew_by_set(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn set(desk: Desk, ask: Ask) -> BoxFuture<'static, Result<bool, Failure>> {
        Box::pin(async move {
            let mut command = redis::cmd("SET");
            command.arg(&ask.key).arg(ask.owner.as_str()).arg("PX").arg(desk.lease_ms());
            desk.ask::<String>(&command).await.map(|_| true)
        })
    }
    let mut renewer = Renewer::default();
    if half == Half::Planted {
        renewer.renew = set;
    }
    lock(desk, Watched::by(renewer))
}

/// redisson#3712: the process keeps a list of the locks it renews. A renewal that finds no
/// record ends and leaves its entry, so that the next grant of the lock is not renewed.
pub(super) fn stale_renewal_entry(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Listed { half, renewed: Arc::default() })
}

struct Listed {
    half: Half,
    renewed: Arc<Mutex<BTreeSet<String>>>,
}

impl Recipe for Listed {
    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        let is_new = locked(&self.renewed).insert(ask.key.clone());
        let (key, renewed, half) = (ask.key.clone(), self.renewed.clone(), self.half);
        let missed = move || {
            if half.is_mended() {
                locked(&renewed).remove(&key);
            }
        };
        let renewer = Renewer::default();
        let renewal = is_new.then(|| Renewal::begin(desk, ask, asked_at, renewer, missed));
        let (at, ask, renewed) = (desk.clone(), ask.clone(), self.renewed.clone());
        let held = Held::given_back_by(desk, move || {
            let (desk, ask, renewed) = (at.clone(), ask.clone(), renewed.clone());
            Box::pin(async move {
                let release = desk.give_back(&ask).await;
                if half.is_mended() || release == Release::Released {
                    locked(&renewed).remove(&ask.key);
                }
                release
            })
        });
        Held { renewal, belief: Belief::UntilTold, ..held }
    }
}

/// redisson#7272: the renewal is armed by whoever hears the server's answer, and disarmed by the
/// release. An acquire whose caller has gone arms a renewal for nobody.
pub(super) fn armed_by_callback(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Armed { half, renewals: Arc::default() })
}

struct Armed {
    half: Half,
    /// By owner.
    renewals: Arc<Mutex<BTreeMap<String, Arc<Renewal>>>>,
}

impl Recipe for Armed {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (half, renewals) = (self.half, self.renewals.clone());
        let (at, asked) = (desk.clone(), ask.clone());
        let asking = async move {
            let answer = at.take(&asked).await;
            if let Ok(Answer::Granted { asked_at, .. }) = &answer {
                let renewal = Renewal::begin(&at, &asked, *asked_at, Renewer::default(), || {});
                locked(&renewals).insert(asked.owner.to_string(), renewal);
            }
            let is_heard = sender.send(answer).is_ok();
            if half.is_mended() && !is_heard {
                disarm(&renewals, &asked);
                at.give_back(&asked).await;
            }
        };
        Box::pin(async move {
            desk.host.spawn("redis-driver", asking);
            let lost = |_| Err(Failure::NoReply("nobody answers".to_owned()));
            receiver.await.unwrap_or_else(lost)
        })
    }

    fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
        let renewal = locked(&self.renewals).get(ask.owner.as_str()).cloned();
        let (at, ask, renewals) = (desk.clone(), ask.clone(), self.renewals.clone());
        let held = Held::given_back_by(desk, move || {
            let (desk, ask) = (at.clone(), ask.clone());
            disarm(&renewals, &ask);
            Box::pin(async move { desk.give_back(&ask).await })
        });
        Held { renewal, ..held }
    }
}

fn disarm(renewals: &Mutex<BTreeMap<String, Arc<Renewal>>>, ask: &Ask) {
    if let Some(renewal) = locked(renewals).remove(ask.owner.as_str()) {
        renewal.end();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

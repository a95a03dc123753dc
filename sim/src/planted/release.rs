//! Bugs of giving back: a record deleted that may be another's.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Lock, Release};

use super::Half;
use super::desk::{Ask, Desk, Failure, released};
use super::recipe::{Held, Recipe, lock};

/// A lock with this way of giving back.
struct GivenBack {
    give_back: fn(Desk, Ask, Duration) -> BoxFuture<'static, Release>,
}

impl Recipe for GivenBack {
    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        let (give_back, at, ask) = (self.give_back, desk.clone(), ask.clone());
        Held::given_back_by(desk, move || give_back(at.clone(), ask.clone(), asked_at))
    }
}

/// The mend of all: compare and delete in one script.
fn compare_and_delete(desk: Desk, ask: Ask, _asked_at: Duration) -> BoxFuture<'static, Release> {
    Box::pin(async move { desk.give_back(&ask).await })
}

async fn delete(desk: &Desk, ask: &Ask) -> Result<i64, Failure> {
    desk.ask(redis::cmd("DEL").arg(&ask.key)).await
}

/// reinhardt-web#740, redis-py#415: the release deletes the key, whoever's it is.
pub(super) fn bare_del(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let give_back = match half {
        Half::Planted => |desk: Desk, ask: Ask, _| -> BoxFuture<'static, Release> {
            Box::pin(async move { released(delete(&desk, &ask).await) })
        },
        Half::Mended => compare_and_delete,
    };
    lock(desk, GivenBack { give_back })
}

/// redis-py#1031: the release reads, compares in the client, then deletes.
pub(super) fn get_then_del(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let give_back = match half {
        Half::Planted => |desk: Desk, ask: Ask, _| -> BoxFuture<'static, Release> {
            Box::pin(async move {
                let found = desk.ask::<Option<String>>(redis::cmd("GET").arg(&ask.key)).await;
                released(match found {
                    Ok(Some(owner)) if owner == ask.owner.as_str() => delete(&desk, &ask).await,
                    Ok(_) => Ok(0),
                    Err(failure) => Err(failure),
                })
            })
        },
        Half::Mended => compare_and_delete,
    };
    lock(desk, GivenBack { give_back })
}

/// etcd#22082 and its kin (K07): the holder is within its lease, so the record must be its own
/// and is deleted as it is; what is forgotten is that a request without an answer is sent
/// again, and that the first may have been applied.
pub(super) fn resent_del(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let give_back = match half {
        Half::Planted => |desk: Desk, ask: Ask, asked_at| -> BoxFuture<'static, Release> {
            Box::pin(async move { released(resent(&desk, &ask, asked_at, false).await) })
        },
        Half::Mended => |desk: Desk, ask: Ask, asked_at| -> BoxFuture<'static, Release> {
            Box::pin(async move { released(resent(&desk, &ask, asked_at, true).await) })
        },
    };
    lock(desk, GivenBack { give_back })
}

async fn resent(desk: &Desk, ask: &Ask, asked_at: Duration, compare: bool) -> Result<i64, Failure> {
    let mut command = redis::cmd("DEL");
    command.arg(&ask.key);
    if compare {
        command = redis::cmd("EVAL");
        command.arg(super::desk::COMPARE_AND_DELETE).arg(1).arg(&ask.key).arg(ask.owner.as_str());
    }
    let deadline = asked_at + desk.lease().saturating_sub(desk.margin());
    let mut answer = Ok(0);
    for _ in 0..2 {
        if desk.host.monotonic() >= deadline {
            return Ok(0);
        }
        answer = desk.ask(&command).await;
        if !matches!(answer, Err(Failure::NoReply(_))) {
            break;
        }
    }
    answer
}

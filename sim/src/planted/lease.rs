//! Bugs of the holder's own deadline: none, or one that is counted from too late.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Lock;

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Belief, Held, Recipe, lock};

/// bull#308, ShedLock#1502, etcd#10811: whoever was granted the lock believes to hold it until it
/// gives it back.
pub(super) fn no_deadline(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct NoDeadline(Half);
    impl Recipe for NoDeadline {
        fn held(&self, desk: &Desk, ask: &Ask, _asked_at: Duration) -> Held {
            let belief = match self.0 {
                Half::Planted => Belief::UntilTold,
                Half::Mended => Belief::UntilTheDeadline,
            };
            Held { belief, ..Held::plain(desk, ask) }
        }
    }
    lock(desk, NoDeadline(half))
}

/// RedLock's rule in redisson#624: the lease runs from the request, not from its answer.
pub(super) fn lease_from_reply(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct FromReply(Half);
    impl Recipe for FromReply {
        fn take<'a>(
            &'a self,
            desk: &'a Desk,
            ask: &'a Ask,
        ) -> BoxFuture<'a, Result<Answer, Failure>> {
            Box::pin(async move {
                Ok(match desk.take(ask).await? {
                    Answer::Granted { token, .. } if self.0 == Half::Planted => {
                        Answer::Granted { token, asked_at: desk.host.monotonic() }
                    }
                    answer => answer,
                })
            })
        }
    }
    lock(desk, FromReply(half))
}

/// A request without an answer is sent again (K07), and one that finds its own record is
/// taken for granted: rightly. But the lease runs from the first of them.
pub(super) fn own_record_as_new(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct OwnRecord(Half);
    impl Recipe for OwnRecord {
        fn take<'a>(
            &'a self,
            desk: &'a Desk,
            ask: &'a Ask,
        ) -> BoxFuture<'a, Result<Answer, Failure>> {
            Box::pin(async move {
                let first_at = desk.host.monotonic();
                let mut unanswered = None;
                for _ in 0..TRIES {
                    let again_at = desk.host.monotonic();
                    match own_or_set(desk, ask).await {
                        Err(failure @ Failure::NoReply(_)) => unanswered = Some(failure),
                        // An earlier one may have been applied.
                        Err(Failure::NotSent(_)) if unanswered.is_some() => {}
                        Err(failure) => return Err(failure),
                        Ok(false) => return Ok(Answer::Busy),
                        Ok(true) => {
                            let asked_at = if self.0.is_mended() { first_at } else { again_at };
                            return Ok(Answer::Granted { token: None, asked_at });
                        }
                    }
                }
                Err(unanswered.unwrap_or(Failure::NoReply("no reply to any try".to_owned())))
            })
        }
    }
    lock(desk, OwnRecord(half))
}

/// How often a request is sent.
const TRIES: u32 = 3;

/// Whether the record is ours, new or not.
async fn own_or_set(desk: &Desk, ask: &Ask) -> Result<bool, Failure> {
    let mut command = redis::cmd("SET");
    command.arg(&ask.key).arg(ask.owner.as_str()).arg("NX").arg("PX").arg(desk.lease_ms());
    if desk.ask::<Option<String>>(&command).await?.is_some() {
        return Ok(true);
    }
    let found = desk.ask::<Option<String>>(redis::cmd("GET").arg(&ask.key)).await?;
    Ok(found.as_deref() == Some(ask.owner.as_str()))
}

//! Bugs of taking: a record without an expiry, with a wrong one, or written over another's.

use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Lock;

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Taken, lock};

fn set(ask: &Ask) -> redis::Cmd {
    let mut command = redis::cmd("SET");
    command.arg(&ask.key).arg(ask.owner.as_str());
    command
}

/// horizon#1738, redis-py#818, ShedLock#65: the record and its expiry are two commands, and
/// nobody looks at the answer to the second.
pub(super) fn setnx_then_expire(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut setnx = redis::cmd("SETNX");
            setnx.arg(&ask.key).arg(ask.owner.as_str());
            let answer = desk.taking(ask, &setnx).await?;
            if matches!(answer, Answer::Granted { .. }) {
                let mut expire = redis::cmd("PEXPIRE");
                expire.arg(&ask.key).arg(desk.lease_ms());
                let _ = desk.ask::<i64>(&expire).await;
            }
            Ok(answer)
        })
    }
    lock(desk, Taken { half, take })
}

/// The mend that is none: both commands in one transaction, where the second is executed
/// though the first was refused. Waiters keep a dead holder's record alive.
pub(super) fn waiters_renew(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let live = desk.ready().await?;
            let mut unsettled = desk.unsettled(ask, &live);
            let asked_at = desk.host.monotonic();
            let mut transaction = redis::pipe();
            transaction.atomic().cmd("SETNX").arg(&ask.key).arg(ask.owner.as_str());
            transaction.cmd("PEXPIRE").arg(&ask.key).arg(desk.lease_ms());
            let mut multiplexed = live.multiplexed();
            let reply = transaction.query_async::<(i64, i64)>(&mut multiplexed);
            let reply = desk.within(&live, reply).await;
            unsettled.settle_unless_unanswered(&reply);
            Ok(match reply? {
                (0, _) => Answer::Busy,
                _ => Answer::Granted { token: None, asked_at },
            })
        })
    }
    lock(desk, Taken { half, take })
}

/// reinhardt-web#736: whole seconds, what is beyond them is cut off.
pub(super) fn lease_cut_to_seconds(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut command = set(ask);
            command.arg("NX").arg("EX").arg((desk.lease_ms() / 1_000).max(1));
            desk.taking(ask, &command).await
        })
    }
    lock(desk, Taken { half, take })
}

/// Check, then act: nothing there, so the record is written.
pub(super) fn get_then_set(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let found = desk.ask::<Option<String>>(redis::cmd("GET").arg(&ask.key)).await?;
            if found.is_some() {
                return Ok(Answer::Busy);
            }
            let mut command = set(ask);
            command.arg("PX").arg(desk.lease_ms());
            desk.taking(ask, &command).await
        })
    }
    lock(desk, Taken { half, take })
}

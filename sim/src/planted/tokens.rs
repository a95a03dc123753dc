//! Bugs of fencing tokens: not taken with the lock, not kept, not counted.

use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Lock;

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure, token_key};
use super::recipe::{Taken, lock};

fn set(desk: &Desk, ask: &Ask) -> redis::Cmd {
    let mut command = redis::cmd("SET");
    command.arg(&ask.key).arg(ask.owner.as_str()).arg("NX").arg("PX").arg(desk.lease_ms());
    command
}

/// A grant with another token than its answer has.
fn with_token(answer: Answer, token: u64) -> Answer {
    match answer {
        Answer::Granted { asked_at, .. } => Answer::Granted { token: Some(token), asked_at },
        Answer::Busy => Answer::Busy,
    }
}

/// The token is counted, then the lock taken: whoever is slow between the two has an old one.
pub(super) fn before_the_lock(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let token = desk.ask::<u64>(redis::cmd("INCR").arg(token_key(&ask.key))).await?;
            Ok(with_token(desk.taking(ask, &set(desk, ask)).await?, token))
        })
    }
    lock(desk, Taken { half, take })
}

/// The counter is swept up with the lock's other keys: it expires when nobody took the lock for
/// as long as a lease. (redisson#6510 asks for it: 25 million keys of tokens were never removed.)
pub(super) fn that_expire(desk: Desk, half: Half) -> Arc<dyn Lock> {
    const TAKE_AND_EXPIRE: &str = "\
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
local token = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return token";
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut command = redis::cmd("EVAL");
            command.arg(TAKE_AND_EXPIRE).arg(2).arg(&ask.key).arg(token_key(&ask.key));
            command.arg(ask.owner.as_str()).arg(desk.lease_ms());
            desk.taking(ask, &command).await
        })
    }
    lock(desk, Taken { half, take })
}

/// The token is the time, by the clock of whoever takes the lock.
pub(super) fn from_the_clock(desk: Desk, half: Half) -> Arc<dyn Lock> {
    fn take<'a>(desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let answer = desk.taking(ask, &set(desk, ask)).await?;
            let us = u64::try_from(desk.host.wall().as_micros()).unwrap_or(u64::MAX);
            Ok(with_token(answer, us))
        })
    }
    lock(desk, Taken { half, take })
}

//! A bug of locks whose record counts how often its owner is inside.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Lock, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Held, Recipe, lock};
use super::renewal::{Renewal, Renewer, renew_by};

/// Counts the owner in, unless another is inside.
const COUNT_IN: &str = "\
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// Likewise; asked twice, it has counted once.
const COUNT_IN_ONCE: &str = "\
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// Counts the owner out: how often it is still inside; -1 if it was not.
const COUNT_OUT: &str = "\
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return left
end
redis.call('DEL', KEYS[1])
return 0";

/// Gives the record a whole lease, if its owner is inside.
const RENEW: &str = "\
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// redisson#4822: an acquire without an answer is sent again, and counted again. Its owner gives
/// back once; what the record still counts is renewed on.
pub(super) fn counted_again(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Counted(half))
}

/// So often an acquire without an answer is sent in all.
const TRIES: u32 = 3;

struct Counted(Half);

impl Counted {
    async fn count_in(&self, desk: &Desk, ask: &Ask) -> Result<Answer, Failure> {
        let script = if self.0.is_mended() { COUNT_IN_ONCE } else { COUNT_IN };
        let mut tries = 1;
        loop {
            let asked_at = desk.host.monotonic();
            match desk.ask::<i64>(&command(desk, ask, script)).await {
                Ok(0) => return Ok(Answer::Busy),
                Ok(_) => return Ok(Answer::Granted { token: None, asked_at }),
                Err(Failure::NoReply(_)) if tries < TRIES => tries += 1,
                Err(failure) => return Err(failure),
            }
        }
    }
}

impl Recipe for Counted {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(self.count_in(desk, ask))
    }

    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        let renewal = Renewal::begin(desk, ask, asked_at, renewer(), || {});
        let (at, ask) = (desk.clone(), ask.clone());
        let held = Held::given_back_by(desk, move || {
            let (desk, ask) = (at.clone(), ask.clone());
            Box::pin(async move {
                let asked_at = desk.host.monotonic();
                match desk.ask::<i64>(&command(&desk, &ask, COUNT_OUT)).await {
                    Ok(-1) => Release::NotHeld,
                    Ok(0) => Release::Released,
                    Ok(_) => {
                        // Its owner is inside, says the count: the renewal goes on, and
                        // nobody is left to end it.
                        drop(Renewal::begin(&desk, &ask, asked_at, renewer(), || {}));
                        Release::Released
                    }
                    Err(failure) => Release::Indeterminate { reason: format!("{failure:?}") },
                }
            })
        });
        Held { renewal: Some(renewal), ..held }
    }
}

fn renewer() -> Renewer {
    fn renew(desk: Desk, ask: Ask) -> BoxFuture<'static, Result<bool, Failure>> {
        Box::pin(async move { renew_by(&desk, &ask, RENEW).await })
    }
    Renewer { renew, ..Renewer::default() }
}

fn command(desk: &Desk, ask: &Ask, script: &str) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(1).arg(&ask.key).arg(ask.owner.as_str()).arg(desk.lease_ms());
    command
}

//! A bug of locks that waiters queue for.

use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Lock;

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Recipe, lock};

/// Takes the record if it is free and nobody stands before the owner; else the owner is
/// queued.
const IN_TURN: &str = "\
local head = redis.call('LINDEX', KEYS[2], 0)
if redis.call('EXISTS', KEYS[1]) == 0 and (not head or head == ARGV[1]) then
  if head then
    redis.call('LPOP', KEYS[2])
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
for _, owner in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  if owner == ARGV[1] then
    return 0
  end
end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0";

/// Whoever has not asked for a while has left, and loses its place.
const WHO_IS_HERE: &str = "\
redis.call('SET', KEYS[3] .. ARGV[1], 1, 'PX', ARGV[3])
local first = redis.call('LINDEX', KEYS[2], 0)
while first and redis.call('EXISTS', KEYS[3] .. first) == 0 do
  redis.call('LPOP', KEYS[2])
  first = redis.call('LINDEX', KEYS[2], 0)
end
";

/// redisson#7223: a waiter that left without taking itself out of the queue is waited for.
pub(super) fn ghost_in_queue(desk: Desk, half: Half) -> Arc<dyn Lock> {
    lock(desk, Queued(half))
}

struct Queued(Half);

impl Recipe for Queued {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        let mut script = String::new();
        if self.0.is_mended() {
            script.push_str(WHO_IS_HERE);
        }
        script.push_str(IN_TURN);
        // A waiter asks again after a retry; an answer takes no longer than its timeout.
        let plan = &desk.lock;
        let leaves_ms = (plan.command_timeout.0 + 4 * plan.retry.0) / 1_000;
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(3).arg(&ask.key);
        command.arg(format!("{{{}}}:line", ask.key)).arg(format!("{{{}}}:waits:", ask.key));
        command.arg(ask.owner.as_str()).arg(desk.lease_ms()).arg(leaves_ms);
        Box::pin(async move { desk.taking(ask, &command).await })
    }
}

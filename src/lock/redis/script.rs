//! The scripts that Redis runs for the lock, and the names of the keys they touch.

use redis::{Cmd, Script};

/// Deletes the record only while it names the owner: 1 if it did, else 0.
/// `KEYS[1]` the record, `ARGV[1]` the owner.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// Writes the record and counts the grant, both or neither: the token, or nil where
/// somebody else's record is in place. `KEYS[1]` the record, `KEYS[2]` the counter,
/// `ARGV[1]` the owner, `ARGV[2]` the lease in ms.
///
/// A script is not undone when it fails half-way, so a counter that cannot be
/// incremented (it is no number, or at its end) takes the record back.
const ACQUIRE: &str = "\
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
local token = redis.pcall('INCR', KEYS[2])
if type(token) == 'table' then
  redis.call('DEL', KEYS[1])
end
return token";

/// Lets the record live on, only while it names the owner: 1 if it does, else 0.
/// `KEYS[1]` the record, `ARGV[1]` the owner, `ARGV[2]` the lease in ms from now.
const RENEW: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// Lets the owner in, or in once more: the count and the token. Somebody else's record is
/// there: nil. `KEYS[1]` the record, `KEYS[2]` the counter, `ARGV[1]` the owner, `ARGV[2]`
/// the lease in ms, `ARGV[3]` whether there are tokens.
///
/// The counter first: a script is not undone when it fails half-way.
pub(super) const ENTER: &str = "\
local inside = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not inside and redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local token = 0
if ARGV[3] == '1' then
  token = tonumber(inside and redis.call('GET', KEYS[2]) or redis.call('INCR', KEYS[2]))
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {count, token}";

/// Leaves until the owner is in `ARGV[2]` times: how often it was in before, 0 for not at
/// all. Whoever leaves for good tells those who wait. `KEYS[1]` the record, `ARGV[1]` the
/// owner, `ARGV[3]` the channel.
///
/// That it says how often is left, not how often to leave, makes it the same whether it
/// comes once or twice.
pub(super) const LEAVE: &str = "\
local count = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local left = tonumber(ARGV[2])
if count <= left then
  return count
end
if left > 0 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], left - count)
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[3], '')
end
return count";

/// Takes the record if it is free and nobody came earlier, else stands in the queue: the
/// token (1 where there are none), or nil. `KEYS[1]` the record, `KEYS[2]` the queue,
/// `KEYS[3]` its numbers, `KEYS[4]` the counter, `ARGV[1]` the owner, `ARGV[2]` the lease
/// in ms, `ARGV[3]` after how many ms of silence a waiter is dead, `ARGV[4]` whether to
/// wait, `ARGV[5]` whether there are tokens.
///
/// The queue is a hash of waiters, each with its number and when it was last heard of, on
/// the server's clock: waiters' own clocks do not matter.
pub(super) const STAND: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local head, first, mine
local queue = redis.call('HGETALL', KEYS[2])
for i = 1, #queue, 2 do
  local number, heard = string.match(queue[i + 1], '^(%d+):(%d+)$')
  number = tonumber(number)
  if now - tonumber(heard) > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[2], queue[i])
  else
    if queue[i] == ARGV[1] then mine = number end
    if not first or number < first then head, first = queue[i], number end
  end
end
if (head or ARGV[1]) == ARGV[1] and redis.call('EXISTS', KEYS[1]) == 0 then
  local token = 1
  if ARGV[5] == '1' then token = redis.call('INCR', KEYS[4]) end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('HDEL', KEYS[2], ARGV[1])
  return token
end
if ARGV[4] == '1' then
  mine = mine or redis.call('INCR', KEYS[3])
  redis.call('HSET', KEYS[2], ARGV[1], mine .. ':' .. string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[3])
  redis.call('PEXPIRE', KEYS[3], 2 * ARGV[3])
end
return false";

/// Leaves the queue and takes the record back, if it was taken. `KEYS[1]` the record,
/// `KEYS[2]` the queue, `ARGV[1]` the owner.
pub(super) const GIVE_UP: &str = "\
redis.call('HDEL', KEYS[2], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// The scripts with their digests, computed once.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) release: Script,
    pub(super) acquire: Script,
    pub(super) renew: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            release: Script::new(RELEASE),
            acquire: Script::new(ACQUIRE),
            renew: Script::new(RENEW),
        }
    }
}

/// The release in one message, whatever scripts the server has: what cannot wait for
/// an answer cannot load a script either.
pub(super) fn release_in_one(key: &str, owner: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(RELEASE).arg(1).arg(key).arg(owner);
    command
}

/// The counter of the lock `key`. The braces keep both in one slot of a cluster.
pub(super) fn token_key(key: &str) -> String {
    format!("{{{key}}}:token")
}

/// The waiters for the lock `key`, and the numbers that they drew.
pub(super) fn queue_keys(key: &str) -> [String; 2] {
    [format!("{{{key}}}:queue"), format!("{{{key}}}:queue:numbers")]
}

/// Where those who wait for the lock `key` are told that it is free.
pub(super) fn channel(key: &str) -> String {
    format!("{{{key}}}:free")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_lies_in_the_slot_of_its_lock() {
        assert_eq!(super::token_key("stock:42"), "{stock:42}:token");
    }
}

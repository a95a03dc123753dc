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

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_lies_in_the_slot_of_its_lock() {
        assert_eq!(super::token_key("stock:42"), "{stock:42}:token");
    }
}

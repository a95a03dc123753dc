//! The lock of a shop: a record in Redis with a random owner, a fencing token, and a release
//! that looks whose the record is. It knows nothing of storms.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};

/// Takes the record, and the next token with it.
const TAKE: &str = "
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[1] .. ':count')
end
return false";

/// Deletes the record while it is ours.
const GIVE_BACK: &str = "
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

/// The lock.
#[derive(Clone, Debug)]
pub struct ShopLock {
    redis: MultiplexedConnection,
    lease: Duration,
}

/// What its holder has.
#[derive(Clone, Debug)]
pub struct Held {
    /// What the record says.
    pub owner: String,
    /// Larger with each grant.
    pub token: u64,
}

impl ShopLock {
    /// A lock over this connection, for so long at a time.
    pub fn new(redis: MultiplexedConnection, lease: Duration) -> Self {
        ShopLock { redis, lease }
    }

    /// The connection.
    pub fn redis(&self) -> MultiplexedConnection {
        self.redis.clone()
    }

    /// Takes the lock; `None` while somebody else has it.
    ///
    /// # Errors
    /// Redis' own.
    pub async fn try_lock(&self, key: &str) -> RedisResult<Option<Held>> {
        let owner = uuid::Uuid::new_v4().to_string();
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let script = Script::new(TAKE);
        let mut taking = script.key(format!("shop:{key}"));
        taking.arg(&owner).arg(lease_ms);
        let token: Option<u64> = taking.invoke_async(&mut self.redis()).await?;
        Ok(token.map(|token| Held { owner, token }))
    }

    /// Gives it back; says whether it was still held.
    ///
    /// # Errors
    /// Redis' own.
    pub async fn unlock(&self, key: &str, held: &Held) -> RedisResult<bool> {
        let script = Script::new(GIVE_BACK);
        let mut giving = script.key(format!("shop:{key}"));
        giving.arg(&held.owner);
        giving.invoke_async(&mut self.redis()).await
    }
}

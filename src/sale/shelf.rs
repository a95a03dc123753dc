//! What is left of a sku, in Redis: put there before the sale, taken from by a script,
//! given back when nobody pays.
//!
//! All that belongs to one sku has one hash tag, so that one script may touch all of it
//! also in a cluster:
//!
//! | key | what |
//! |---|---|
//! | `sale:{SKU}:left` | how many units are left |
//! | `sale:{SKU}:epoch` | under which token they were put there |
//! | `sale:{SKU}:buyers` | hash: each buyer's order |
//! | `sale:{SKU}:unpaid` | sorted set: each unpaid order, by its deadline |
//! | `sale:{SKU}:of` | hash: each unpaid order's buyer |
//! | `sale:{SKU}:orders` | stream: what the books are to be told ([`queue`](super::queue)) |
//!
//! A script is one step at its server: either a buyer has a unit, the deadline runs and
//! the order is in the queue, or nothing has happened. What a script cannot give is
//! durability: a failover to a replica that has not heard of it forgets the whole step,
//! and a reply that is lost leaves its buyer not knowing ([`ShelfError::Indeterminate`]).
//! The same wish may therefore always be asked again; it is recognised by its order.
//!
//! [`Shelf::take_naively`] is how it must not be done: it reads, and writes later.

use std::sync::Arc;
use std::time::Duration;

use redis::{Script, Value};

use super::{Buyer, OrderName, Sku, Wish};
use crate::host::Host;
use crate::lock::FencingToken;
use crate::lock::redis::connection::{Connection, Live};
use crate::lock::redis::failure::Failure;
use crate::lock::redis::{Credentials, Endpoint, InvalidOptions};

/// Puts units on the shelf unless a later leader has: 1 if they are there now, 0 if
/// they were. `KEYS` left, epoch; `ARGV` units, token.
const PREHEAT: &str = "\
local epoch = tonumber(redis.call('GET', KEYS[2]) or '-1')
if epoch >= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0";

/// Gives a unit. `KEYS` left, buyers, unpaid, of, orders; `ARGV` buyer, order, how long it
/// may stay unpaid in ms.
const TAKE: &str = "\
local had = redis.call('HGET', KEYS[2], ARGV[1])
if had then return had == ARGV[2] and 'again' or 'taken' end
local left = redis.call('GET', KEYS[1])
if not left then return 'closed' end
if tonumber(left) < 1 then return 'sold-out' end
redis.call('DECR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])
redis.call('ZADD', KEYS[3], string.format('%.0f', deadline), ARGV[2])
redis.call('HSET', KEYS[4], ARGV[2], ARGV[1])
redis.call('XADD', KEYS[5], '*', 'what', 'sold', 'order', ARGV[2], 'buyer', ARGV[1])
return 'sold'";

/// Ends the deadline of an order: 1, or 0 where it has none (any more). `KEYS` unpaid, of;
/// `ARGV` order.
const PAY: &str = "\
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
return 1";

/// Puts back what nobody paid for in time: how many. `KEYS` left, buyers, unpaid, of,
/// orders; `ARGV` how many at most.
const RETURN: &str = "\
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, order in ipairs(due) do
  local buyer = redis.call('HGET', KEYS[4], order)
  redis.call('ZREM', KEYS[3], order)
  redis.call('HDEL', KEYS[4], order)
  if buyer then
    redis.call('HDEL', KEYS[2], buyer)
    redis.call('INCR', KEYS[1])
    redis.call('XADD', KEYS[5], '*', 'what', 'returned', 'order', order, 'buyer', buyer)
  end
end
return #due";

/// How a request for a unit was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The buyer has a unit now.
    Sold,
    /// … and had it before, under the same order.
    Again,
    /// The buyer has a unit under another order.
    OtherOrder,
    /// All are sold.
    SoldOut,
    /// Nothing was ever put on the shelf.
    Closed,
}

/// Why a shelf did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShelfError {
    /// It was not asked, or refused: nothing was done.
    #[error("the shelf cannot be asked: {reason}")]
    Unreachable {
        /// What went wrong, for people.
        reason: String,
    },
    /// It was, or may have been, asked, and no answer came. The same wish may be asked again.
    #[error("the shelf did not answer: {reason}")]
    Indeterminate {
        /// What went wrong, for people.
        reason: String,
    },
    /// What is there is not what a sale puts there.
    #[error("the shelf is not a sale's: {reason}")]
    Foreign {
        /// What it says.
        reason: String,
    },
}

/// Options of a shelf.
#[derive(Clone, Debug)]
pub struct ShelfOptions {
    /// How long a reply may take.
    pub command_timeout: Duration,
    /// How long a unit is kept for a buyer who has not paid.
    pub unpaid: Duration,
    /// How to log in; `None` where that is not asked for.
    pub credentials: Option<Credentials>,
}

impl Default for ShelfOptions {
    fn default() -> Self {
        ShelfOptions {
            command_timeout: Duration::from_millis(250),
            unpaid: Duration::from_secs(900),
            credentials: None,
        }
    }
}

/// The shelf as a client sees it; clones share their connection.
#[derive(Clone, Debug)]
pub struct Shelf {
    host: Host,
    options: ShelfOptions,
    connection: Arc<Connection>,
}

/// What is on a shelf, read at one instant, for whoever compares it with the books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Units left; `None` where nothing was ever put there. Below zero only if somebody
    /// else has had a hand in it.
    pub left: Option<i64>,
    /// Who has a unit, and under which order.
    pub buyers: Vec<(Buyer, OrderName)>,
    /// The orders that have not been paid for.
    pub unpaid: Vec<OrderName>,
}

pub(super) fn key(sku: &Sku, what: &str) -> String {
    format!("sale:{{{sku}}}:{what}")
}

impl Shelf {
    /// The shelf at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] of an address that is none, or a timeout of zero.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: ShelfOptions,
    ) -> Result<Self, InvalidOptions> {
        endpoint.check()?;
        if options.command_timeout.is_zero() {
            return Err(InvalidOptions::CommandTimeout);
        }
        let limit = options.command_timeout;
        let credentials = options.credentials.as_ref();
        let connection = Arc::new(Connection::new(host.clone(), endpoint, credentials, limit));
        Ok(Shelf { host, options, connection })
    }

    /// The host from which it is asked.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Puts `units` of `sku` on the shelf before the sale, in the name of the leader whose
    /// election gave `token`. Whether they were put there by this call: a leader that was
    /// replaced meanwhile, and one that comes again, change nothing.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn preheat(
        &self,
        sku: &Sku,
        units: u32,
        token: FencingToken,
    ) -> Result<bool, ShelfError> {
        let script = Script::new(PREHEAT);
        let mut call = script.key(key(sku, "left"));
        call.key(key(sku, "epoch")).arg(units).arg(token.0);
        let reply: i64 = self.run(&call).await?;
        Ok(reply == 1)
    }

    /// Takes a unit for `wish` and puts the order into the queue, in one step.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn take(&self, wish: &Wish) -> Result<Taken, ShelfError> {
        let script = Script::new(TAKE);
        let mut call = script.key(key(&wish.sku, "left"));
        for what in ["buyers", "unpaid", "of", "orders"] {
            call.key(key(&wish.sku, what));
        }
        let unpaid = u64::try_from(self.options.unpaid.as_millis()).unwrap_or(u64::MAX >> 11);
        call.arg(wish.buyer.as_str()).arg(wish.order.as_str()).arg(unpaid);
        let reply: String = self.run(&call).await?;
        match reply.as_str() {
            "sold" => Ok(Taken::Sold),
            "again" => Ok(Taken::Again),
            "taken" => Ok(Taken::OtherOrder),
            "sold-out" => Ok(Taken::SoldOut),
            "closed" => Ok(Taken::Closed),
            other => Err(ShelfError::Foreign { reason: format!("the script said `{other}`") }),
        }
    }

    /// Takes a unit as one is tempted to: reads how many are left, looks, and writes one
    /// less. Between the two somebody else does the same; only a lock around it helps.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn take_naively(&self, wish: &Wish) -> Result<Taken, ShelfError> {
        let left = key(&wish.sku, "left");
        let seen: Option<i64> = self.ask(redis::cmd("GET").arg(&left)).await?;
        match seen {
            None => return Ok(Taken::Closed),
            Some(..=0) => return Ok(Taken::SoldOut),
            Some(seen) => {
                let _: () = self.ask(redis::cmd("SET").arg(&left).arg(seen - 1)).await?;
            }
        }
        let fields = ["what", "sold", "order", wish.order.as_str(), "buyer", wish.buyer.as_str()];
        let queue = key(&wish.sku, "orders");
        let _: Value = self.ask(redis::cmd("XADD").arg(queue).arg("*").arg(&fields)).await?;
        Ok(Taken::Sold)
    }

    /// The order was paid for. `false` where it cannot be any more: its unit went back, or
    /// it was paid for already.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn pay(&self, sku: &Sku, order: &OrderName) -> Result<bool, ShelfError> {
        let script = Script::new(PAY);
        let mut call = script.key(key(sku, "unpaid"));
        call.key(key(sku, "of")).arg(order.as_str());
        let reply: i64 = self.run(&call).await?;
        Ok(reply == 1)
    }

    /// Puts back up to `most` units that were not paid for in time, on the server's clock,
    /// and tells the queue. How many.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn return_unpaid(&self, sku: &Sku, most: u32) -> Result<u32, ShelfError> {
        let script = Script::new(RETURN);
        let mut call = script.key(key(sku, "left"));
        for what in ["buyers", "unpaid", "of", "orders"] {
            call.key(key(sku, what));
        }
        call.arg(most);
        self.run(&call).await
    }

    /// What is there, in one step.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn inventory(&self, sku: &Sku) -> Result<Inventory, ShelfError> {
        let mut all = redis::pipe();
        all.atomic().cmd("GET").arg(key(sku, "left"));
        all.cmd("HGETALL").arg(key(sku, "buyers"));
        all.cmd("ZRANGE").arg(key(sku, "unpaid")).arg(0).arg(-1);
        let live = self.live().await?;
        let mut multiplexed = live.multiplexed();
        let query = all.query_async(&mut multiplexed);
        let (left, buyers, unpaid): (Option<i64>, Vec<(String, String)>, Vec<String>) =
            self.connection.run(&live, query).await.map_err(told)?;
        let foreign = |error: super::InvalidName| ShelfError::Foreign { reason: error.to_string() };
        let mut inventory = Inventory { left, ..Inventory::default() };
        for (buyer, order) in buyers {
            let buyer = Buyer::new(buyer).map_err(foreign)?;
            inventory.buyers.push((buyer, OrderName::new(order).map_err(foreign)?));
        }
        for order in unpaid {
            inventory.unpaid.push(OrderName::new(order).map_err(foreign)?);
        }
        inventory.buyers.sort();
        inventory.unpaid.sort();
        Ok(inventory)
    }

    pub(super) async fn ask<T: redis::FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, ShelfError> {
        let live = self.live().await?;
        let mut multiplexed = live.multiplexed();
        self.connection.run(&live, command.query_async(&mut multiplexed)).await.map_err(told)
    }

    pub(super) async fn ask_all(&self, commands: &redis::Pipeline) -> Result<(), ShelfError> {
        let live = self.live().await?;
        let mut multiplexed = live.multiplexed();
        self.connection.run(&live, commands.query_async(&mut multiplexed)).await.map_err(told)
    }

    async fn run<T: redis::FromRedisValue>(
        &self,
        call: &redis::ScriptInvocation<'_>,
    ) -> Result<T, ShelfError> {
        let live = self.live().await?;
        let mut multiplexed = live.multiplexed();
        self.connection.run(&live, call.invoke_async(&mut multiplexed)).await.map_err(told)
    }

    async fn live(&self) -> Result<Arc<Live>, ShelfError> {
        self.connection.ready().await.map_err(told)
    }
}

fn told(failure: Failure) -> ShelfError {
    let reason = failure.to_string();
    match failure {
        Failure::NoReply { .. } | Failure::Scattered { .. } => ShelfError::Indeterminate { reason },
        Failure::NotSent { .. } | Failure::Refused { .. } | Failure::TooFewReplicas { .. } => {
            ShelfError::Unreachable { reason }
        }
    }
}

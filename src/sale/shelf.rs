//! What is left of a sku, in Redis: put there before the sale, taken from by a script,
//! given back when an order came to nothing.
//!
//! All that belongs to one sku has one hash tag, so that one script may touch all of it
//! also in a cluster:
//!
//! | key | what |
//! |---|---|
//! | `sale:{SKU}:left` | how many units are left |
//! | `sale:{SKU}:epoch` | the token of the leader who last set that |
//! | `sale:{SKU}:moves` | how often anything here was changed |
//! | `sale:{SKU}:buyers` | hash: each buyer's order |
//! | `sale:{SKU}:orders` | stream: what the books are to be told ([`queue`](super::queue)) |
//!
//! A script is one step at its server: either a buyer has a unit and the order is in the queue,
//! or nothing has happened. What a script cannot give is durability: a failover to a replica
//! that has not heard of it forgets the whole step, and a reply that is lost leaves its buyer
//! not knowing ([`ShelfError::Indeterminate`]). The same wish may therefore always be asked
//! again; it is recognised by its order. And what is here is never the truth of a sale, but
//! follows it: [`Shelf::restock`].
//!
//! [`Shelf::take_naively`] and [`Shelf::take_in_two_steps`] are how it must not be done: the
//! one reads, and writes later; the other may die between the unit and its order.

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
/// they were. `KEYS` left, epoch, moves; `ARGV` units, token.
const PREHEAT: &str = "\
local epoch = tonumber(redis.call('GET', KEYS[2]) or '-1')
if epoch >= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('INCR', KEYS[3])
return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0";

/// Sets a unit aside. `KEYS` left, buyers, moves, orders; `ARGV` buyer, order.
const SET_ASIDE: &str = "\
local had = redis.call('HGET', KEYS[2], ARGV[1])
if had then return had == ARGV[2] and 'again' or 'taken' end
local left = redis.call('GET', KEYS[1])
if not left then return 'closed' end
if tonumber(left) < 1 then return 'sold-out' end
redis.call('DECR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('INCR', KEYS[3])
";

/// … and in the same step puts its order into the queue.
const ENQUEUE: &str = "\
redis.call('XADD', KEYS[4], '*', 'order', ARGV[2], 'buyer', ARGV[1])
";

const SOLD: &str = "return 'sold'";

/// Puts a unit back if its buyer has it under this order: 1, else 0. `KEYS` left, buyers,
/// moves; `ARGV` buyer, order.
const GIVE_BACK: &str = "\
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('INCR', KEYS[1])
redis.call('INCR', KEYS[3])
return 1";

/// Has the shelf say what its leader has worked out, unless it was changed since the leader
/// looked, or a later leader has been here: 1, else 0. `KEYS` left, epoch, moves, buyers,
/// orders; `ARGV` left, token, moves as seen, how many orders are put into the queue again,
/// then order and buyer of each, then the buyers who have nothing here any more.
const RESTOCK: &str = "\
if (redis.call('GET', KEYS[3]) or '0') ~= ARGV[3] then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '-1') > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('INCR', KEYS[3])
local at = 5
for _ = 1, tonumber(ARGV[4]) do
  redis.call('XADD', KEYS[5], '*', 'order', ARGV[at], 'buyer', ARGV[at + 1])
  at = at + 2
end
for gone = at, #ARGV do redis.call('HDEL', KEYS[4], ARGV[gone]) end
return 1";

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
    /// How to log in; `None` where that is not asked for.
    pub credentials: Option<Credentials>,
}

impl Default for ShelfOptions {
    fn default() -> Self {
        ShelfOptions { command_timeout: Duration::from_millis(250), credentials: None }
    }
}

/// The shelf as a client sees it; clones share their connection.
#[derive(Clone, Debug)]
pub struct Shelf {
    host: Host,
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
    /// How often anything was changed until then.
    pub moves: u64,
}

/// What a leader has a shelf say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restock {
    /// How many units are left.
    pub left: u32,
    /// Orders that go into the queue (again): the books do not have them.
    pub requeued: Vec<Wish>,
    /// Buyers who have no unit any more, whatever the shelf says.
    pub gone: Vec<Buyer>,
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
        Ok(Shelf { host, connection })
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
        call.key(key(sku, "epoch")).key(key(sku, "moves")).arg(units).arg(token.0);
        let reply: i64 = self.run(&call).await?;
        Ok(reply == 1)
    }

    /// Takes a unit for `wish` and puts the order into the queue, in one step.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn take(&self, wish: &Wish) -> Result<Taken, ShelfError> {
        self.set_aside(wish, &format!("{SET_ASIDE}{ENQUEUE}{SOLD}")).await
    }

    /// Takes a unit, and puts the order into the queue with a command of its own: whoever dies
    /// in between has taken a unit for nobody.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn take_in_two_steps(&self, wish: &Wish) -> Result<Taken, ShelfError> {
        let taken = self.set_aside(wish, &format!("{SET_ASIDE}{SOLD}")).await?;
        if taken == Taken::Sold {
            self.enqueue(wish).await?;
        }
        Ok(taken)
    }

    async fn set_aside(&self, wish: &Wish, script: &str) -> Result<Taken, ShelfError> {
        let script = Script::new(script);
        let mut call = script.key(key(&wish.sku, "left"));
        for what in ["buyers", "moves", "orders"] {
            call.key(key(&wish.sku, what));
        }
        call.arg(wish.buyer.as_str()).arg(wish.order.as_str());
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

    async fn enqueue(&self, wish: &Wish) -> Result<(), ShelfError> {
        let fields = ["order", wish.order.as_str(), "buyer", wish.buyer.as_str()];
        let queue = key(&wish.sku, "orders");
        let _: Value = self.ask(redis::cmd("XADD").arg(queue).arg("*").arg(&fields)).await?;
        Ok(())
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
        self.enqueue(wish).await?;
        Ok(Taken::Sold)
    }

    /// Puts the unit of `wish` back, if it is set aside under its order. Whether it was.
    ///
    /// # Errors
    /// Any [`ShelfError`]; it may be called again.
    pub async fn give_back(&self, wish: &Wish) -> Result<bool, ShelfError> {
        let script = Script::new(GIVE_BACK);
        let mut call = script.key(key(&wish.sku, "left"));
        call.key(key(&wish.sku, "buyers")).key(key(&wish.sku, "moves"));
        call.arg(wish.buyer.as_str()).arg(wish.order.as_str());
        let reply: i64 = self.run(&call).await?;
        Ok(reply == 1)
    }

    /// Has the shelf say what the leader with `token` has worked out from what it saw there,
    /// when there had been so many `moves`. `false` where the shelf was changed since, or has
    /// heard of a later leader: nothing was done.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn restock(
        &self,
        sku: &Sku,
        restock: &Restock,
        moves: u64,
        token: FencingToken,
    ) -> Result<bool, ShelfError> {
        let script = Script::new(RESTOCK);
        let mut call = script.key(key(sku, "left"));
        for what in ["epoch", "moves", "buyers", "orders"] {
            call.key(key(sku, what));
        }
        call.arg(restock.left).arg(token.0).arg(moves).arg(restock.requeued.len());
        for wish in &restock.requeued {
            call.arg(wish.order.as_str()).arg(wish.buyer.as_str());
        }
        for buyer in &restock.gone {
            call.arg(buyer.as_str());
        }
        let reply: i64 = self.run(&call).await?;
        Ok(reply == 1)
    }

    /// What is there, in one step.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn inventory(&self, sku: &Sku) -> Result<Inventory, ShelfError> {
        let mut all = redis::pipe();
        all.atomic().cmd("GET").arg(key(sku, "left"));
        all.cmd("HGETALL").arg(key(sku, "buyers"));
        all.cmd("GET").arg(key(sku, "moves"));
        let live = self.live().await?;
        let mut multiplexed = live.multiplexed();
        let query = all.query_async(&mut multiplexed);
        let (left, buyers, moves): (Option<i64>, Vec<(String, String)>, Option<u64>) =
            self.connection.run(&live, query).await.map_err(told)?;
        let foreign = |error: super::InvalidName| ShelfError::Foreign { reason: error.to_string() };
        let mut inventory =
            Inventory { left, moves: moves.unwrap_or_default(), ..Inventory::default() };
        for (buyer, order) in buyers {
            let buyer = Buyer::new(buyer).map_err(foreign)?;
            inventory.buyers.push((buyer, OrderName::new(order).map_err(foreign)?));
        }
        inventory.buyers.sort();
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

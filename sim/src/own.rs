//! A test's own lock, and what its clients do inside it: the door for locks that are not ours.
//!
//! ```no_run
//! use lockstorm_sim::own;
//! use lockstorm_sim::storm::Storm;
//! # use std::time::Duration;
//! # struct ShopLock;
//! # impl ShopLock {
//! #     fn new(_: redis::aio::MultiplexedConnection, _: Duration) -> Self { ShopLock }
//! #     async fn try_lock(&self, _: &str) -> redis::RedisResult<Option<String>> { Ok(None) }
//! #     async fn unlock(&self, _: &str, _: &String) -> redis::RedisResult<bool> { Ok(true) }
//! # }
//!
//! Storm::new("redis-single")
//!     .own_lock(|node| async move {
//!         let lock = ShopLock::new(node.redis("redis-1").await?, node.lease());
//!         Ok(own::lock(lock, ShopLock::try_lock, ShopLock::unlock))
//!     })
//!     .seeds(200)
//!     .run();
//! ```
//!
//! The lock is built on the node of each client, by its ordinary client library, over that
//! node's network: [`Node`] opens connections. It is built again after it has failed, as a
//! service would open a new connection.
//!
//! # What it is judged by
//! Clients say when they ask, are let in and give back, as with every lock. A record of the
//! lock at a Redis server is found by its key, which ends with the key that the lock was asked
//! for; whose it is, by the connection that wrote it while its client was asking. So a lock
//! may call its owners what it likes. Of a lock that has no such record (in another store, or
//! under a key of another name) promises are not known: it is judged by what its clients
//! believed and by the effects that the resource accepted, and the report says so.
//!
//! Order of things: [`Node`] is where a lock is built, `lock` is the [`OwnLock`] and how a
//! storm takes it, [`parts`] makes one of two functions, [`section`] what is done inside. Whose a record is finds `storm::drawn`.
//!
//! It is not a simulator of anything: servers, network and faults are those of the plan.

mod lock;
mod node;
pub mod parts;
pub mod section;

pub(crate) use lock::with_section;
pub use lock::{OwnLock, factory};
pub use node::Node;
pub use parts::lock;
pub use section::Inside;

/// Why something of a test's own did not work. `?` makes one of every error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

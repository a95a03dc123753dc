//! Distributed locks for services that sell the last unit, with fencing for the
//! times when a lock fails.
//!
//! This crate is production code: it knows no simulator. Everything it asks of
//! the machine it runs on (clocks, timers, tasks, network, randomness) goes
//! through [`Host`], so the same lock runs in a service and, unchanged, in a storm
//! of the companion crate `lockstorm-sim`.
//!
//! # Layout
//! - [`host`]: the machine this code runs on.
//! - [`lock`]: [`Lock`](lock::Lock), [`Guard`](lock::Guard), [`LockError`](lock::LockError),
//!   [`FencingToken`](lock::FencingToken); one folder for each backend.
//! - [`sale`], with the features `redis`, `zookeeper` and `postgres`: the flash sale around the
//!   lock, layer by layer.
//! - [`stock`]: the guarded stock and its fence: the half of mutual exclusion that
//!   no lock can give.

pub mod host;
pub mod lock;
#[cfg(all(feature = "redis", feature = "zookeeper", feature = "postgres"))]
pub mod sale;
pub mod stock;

pub use host::Host;

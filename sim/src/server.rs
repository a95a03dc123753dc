//! Simulated servers that speak their real wire protocols on any
//! [`Stream`](lockstorm::host::Stream): inside an engine, or on a TCP port.
//!
//! They know [`Host`](lockstorm::Host) and streams; they know no engine, no history. Each is
//! a crate of its own, so that a change to one compiles that one.

pub use lockstorm_postgres_server as postgres;
pub use lockstorm_redis_server as redis;
pub use lockstorm_zookeeper_server as zookeeper;

//! Simulated servers that speak their real wire protocols on any
//! [`Stream`](lockstorm::host::Stream): inside an engine, or on a TCP port.
//!
//! They know [`Host`](lockstorm::Host) and streams; they know no engine, no history.

pub mod postgres;
pub mod redis;
pub mod zookeeper;

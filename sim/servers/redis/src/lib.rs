//! Redis 7.0 as clients see it.
//!
//! A server speaks RESP2 and RESP3 on any [`Stream`](lockstorm::host::Stream), keeps
//! keys with expiries on its machine's wall clock, runs Lua scripts, and
//! replicates asynchronously over the wire: also to and from a real Redis.
//!
//! # Layout
//! - [`Server`] (in `server`), [`Settings`], [`ConfigFile`], [`ReplicationGate`]: what
//!   an integrator needs.
//! - [`observe`]: what the server tells whoever watches it.
//! - [`codec`]: the protocol as bytes.
//! - `state`: what is in memory, under one mutex; `keyspace`, `script`, `rdb`: parts of it.
//! - [`Persistence`] (in `persistence`): what is kept on the machine's disk.
//! - `pubsub`, `blocking`: who listens, who waits; `statistics`: what is counted of commands.
//! - `command`: the commands; `connection`: one client; `replication`: masters and replicas;
//!   `frozen`: a server whose world stands still, as visitors see it.
//!
//! It is not a cluster: who becomes master is decided elsewhere, as in Redis.

mod blocking;
pub mod codec;
mod command;
mod connection;
mod frozen;
mod gate;
mod glob;
mod keyspace;
pub mod observe;
mod persistence;
mod pubsub;
mod rdb;
mod replication;
mod script;
pub mod sentinel;
mod server;
mod settings;
mod state;
mod statistics;

pub use frozen::{Kept, Standing, Window};
pub use gate::ReplicationGate;
pub use persistence::{AppendFsync, Persistence, SAVE_RULES, SaveRule};
pub use server::Server;
pub use settings::{ConfigFile, Master, Settings};

/// The version whose behaviour this is, told by `INFO` and `HELLO`.
pub const VERSION: &str = "7.0.15";

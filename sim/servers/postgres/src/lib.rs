//! PostgreSQL 15 as clients see it.
//!
//! A server speaks protocol 3.0 on any [`Stream`](lockstorm::host::Stream), executes a part
//! of PostgreSQL's SQL over versions of rows, locks rows and tables as the real one does, keeps
//! a write-ahead log on a simulated disk, and streams it to standbys.
//!
//! # The door
//! [`Server::new`] with a host, [`Settings`], the machine's mounted disk and an
//! [`observe::Observer`]; then [`Server::run`], whose future is the process: dropping it is
//! a crash. A new server over the same disk recovers. [`Server::control`] gives a handle
//! that promotes a standby. A standby is a server with [`Settings::primary`] over an empty
//! disk.
//!
//! # Order of things
//! - [`observe`]: what the server tells whoever watches it.
//! - `sql`: text to syntax; `plan`: names and types; `execute`, `evaluate`: rows and values.
//! - `catalogue`, `heap`, `transaction`, `locks`, `wal`: what is in `state`, under one mutex.
//! - `session`: one client; `codec`: the protocol as bytes; `replication`: standbys.
//!
//! - [`pooler`]: what many clients share few sessions of a server through.
//!
//! It is not all of PostgreSQL. What it does not have it refuses with 0A000, or with the
//! code of what it took the statement for; docs/conformance.md lists what there is.

mod catalogue;
mod codec;
mod error;
mod evaluate;
mod execute;
mod heap;
mod locks;
pub mod observe;
mod parameters;
mod plan;
pub mod pooler;
mod replication;
mod server;
mod session;
mod settings;
mod sql;
mod state;
mod transaction;
mod value;
mod wal;

pub use server::{Control, Server};
pub use settings::{Costs, Primary, Settings};

/// The version whose behaviour this is.
pub const VERSION: &str = "15.18";

/// As `server_version_num` tells it.
const VERSION_NUMBER: &str = "150018";

//! ZooKeeper 3.8 as clients see it.
//!
//! A server speaks ZooKeeper's protocol on any [`Stream`](lockstorm::host::Stream), keeps
//! znodes with watches and sessions on its machine's monotonic clock, and writes what it
//! decides to a log on its machine's simulated disk before it says so. Servers of an ensemble
//! elect a leader, which orders and broadcasts transactions (Zab), in the words of the real
//! ones.
//!
//! # The door
//! ```no_run
//! # use std::sync::Arc;
//! # use lockstorm_machine::disk::Disk;
//! # use lockstorm_zookeeper_server::{Ensemble, Server, Settings, observe::Unobserved};
//! # async fn start(host: lockstorm::Host, disk: Disk) -> std::io::Result<()> {
//! // Member 2 of three; the same number and hosts again after a crash.
//! let hosts = ["zk-1", "zk-2", "zk-3"].map(str::to_owned);
//! let ensemble = Ensemble::of(2, &hosts);
//! let files = disk.mount(&host);
//! Server::new(host, Settings::default(), ensemble, files, Arc::new(Unobserved)).run().await
//! # }
//! ```
//! [`run`](Server::run) serves until its future is dropped, which is a crash of the process;
//! it ends with an error when the disk fails, as the real process does. Clients connect to
//! [`CLIENT_PORT`]. One host gives a server that stands alone ([`Server::alone`] for short).
//!
//! # Layout
//! - [`Server`] (in `server`), [`Settings`], [`Ensemble`]: what an integrator needs.
//! - [`observe`]: what the server tells whoever watches it.
//! - [`codec`], [`records`], [`code`], [`transaction`], [`path`]: the protocol as bytes.
//! - `tree`, `watch`, `session`, `access`: what is in memory, under the one mutex of `state`.
//! - `pipeline`: from a request to its reply, with `prepare`, `read`, `reply`.
//! - `store`, `snapshot`, `logger`: the disk.
//! - `connection`, `words`: one client. `ensemble`: elections, leaders, followers.
//! - `frozen`: a server whose world stands still, as visitors see it.
//!
//! It is not a quorum with weights or observers, and members do not change.

mod access;
pub mod code;
pub mod codec;
mod connection;
mod ensemble;
mod frozen;
mod logger;
pub mod observe;
pub mod path;
mod pipeline;
mod prepare;
mod read;
pub mod records;
mod reply;
mod server;
mod session;
mod settings;
mod snapshot;
mod state;
mod store;
pub mod transaction;
mod tree;
mod watch;
mod words;

pub use frozen::{Kept, Standing, Window};
pub use server::{Listeners, Peers, Server};
pub use settings::{
    Bugs, CLIENT_PORT, ELECTION_PORT, Ensemble, Member, QUORUM_PORT, ServerId, Settings,
};
pub use watch::EventKind;

/// The version whose behaviour this is, told by `srvr`.
pub const VERSION: &str = "3.8.0-lockstorm, built on 01/01/1970 00:00 UTC";

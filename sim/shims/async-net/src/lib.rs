//! Stands in for `async-net`: a [`TcpStream`] of a simulated node goes over the run's
//! network, where names are those of nodes; outside of a run it is a real one.
//! docs/shims.md says more.
//!
//! It has what clients use and no more: something that is missing (listeners, UDP, Unix
//! sockets) does not compile.

mod address;
mod tcp;

pub use address::AsyncToSocketAddrs;
pub use tcp::TcpStream;

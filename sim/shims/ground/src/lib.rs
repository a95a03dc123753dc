//! What the shims stand on: the host of the node whose program runs, on the thread of a
//! simulated run; a real machine everywhere else.
//!
//! The published crates bring a reactor thread of their own, so their users need no
//! runtime. So it is here: outside of a run, sockets and timers are tokio's, on one thread
//! that is started when the first of them is asked for. Whichever executor polls them, with
//! a runtime of its own or without one, is all the same to them.

mod instant;
mod reactor;
mod sleep;

pub use instant::now;
pub use sleep::Sleep;

use lockstorm::Host;

/// The machine that the calling code runs on.
pub fn host() -> Host {
    lockstorm::host::current().unwrap_or_else(reactor::host)
}

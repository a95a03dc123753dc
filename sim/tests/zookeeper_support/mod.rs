//! Servers of ours and real ones, a client that shows each frame.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod ask;
pub mod cluster;
pub mod draw;
pub mod sequence;
pub mod servers;
pub mod transcript;
pub mod wire;

/// Runs a test on one thread with real time and real sockets.
pub fn on_tokio<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

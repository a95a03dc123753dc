//! Stands in for `asyncs`: a task that is spawned by a simulated node's program is a task of
//! that node, frozen with it by a pause and dead with it after a crash; outside of a run
//! tasks go where the published crate sends them. docs/shims.md says more.
//!
//! `select!`, `sync` and the tasks' handles are the published ones.

#[cfg(any(feature = "smol", feature = "async-global-executor"))]
compile_error!(
    "this `asyncs` stands in for the published one in tests, beside patched I/O crates that smol \
     and async-global-executor do not build on: enable the client's feature `tokio` instead"
);

pub mod task;

pub use async_select::select;
#[doc(inline)]
pub use asyncs_sync as sync;
pub use task::spawn;

// Linked for the tasks' way to tokio, which registers itself.
#[cfg(feature = "tokio")]
use spawns as _;

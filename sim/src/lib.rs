//! The storm: simulated servers, faults, engines, checkers and reports for locks
//! that are ordinary Rust code.
//!
//! # Layout
//! - [`plan`]: what decides a run, as a value.
//! - [`engine`]: what carries it (`event`, `turmoil`), nodes, clocks.
//! - [`disk`]: what a machine keeps through a crash.
//! - [`server`]: servers that speak their real wire protocols.
//! - [`fault`]: what goes wrong.
//! - [`storm`]: a plan set on a stage, run, judged; the builder for tests.
//! - [`history`]: what happened.
//! - [`check`]: what is to be thought of it.
//! - [`report`]: telling people.
//! - [`hunt`], [`shrink`], [`mod@explain`], [`seeds`]: searching, making what was found small,
//!   saying what decided it, keeping it.
//! - `proptest`, behind the feature of its name: plans as inputs of properties.
//! - [`draw`]: keyed random draws.
//!
//! Dependencies point downwards in this picture: program → hunt, explain, seeds → shrink → storm →
//! engine, server, fault → plan, history, draw; report → check → history.

#[cfg(not(tokio_unstable))]
compile_error!(
    "lockstorm-sim needs `--cfg tokio_unstable`: write `[build]` and `rustflags = [\"--cfg\", \
     \"tokio_unstable\"]` into .cargo/config.toml (an environment variable RUSTFLAGS switches that \
     file off). Without it tokio's `select!` is outside the seed. Errors after this one follow from it"
);

pub mod check;
pub mod disk;
pub mod draw;
pub mod engine;
pub mod explain;
pub mod fault;
pub mod history;
pub mod hunt;
pub mod plan;
#[cfg(feature = "proptest")]
pub mod proptest;
pub mod report;
pub mod seeds;
pub mod server;
pub mod shrink;
pub mod storm;

//! The storm: simulated servers, faults, engines, checkers and reports for locks
//! that are ordinary Rust code.
//!
//! # Layout
//! - [`plan`]: what decides a run, as a value.
//! - [`engine`]: what carries it (`event`, `turmoil`), nodes, clocks.
//! - [`disk`]: what a machine keeps through a crash.
//! - [`server`]: servers that speak their real wire protocols.
//! - [`fault`]: what goes wrong.
//! - [`planted`]: locks with bugs, and their mended twins.
//! - [`storm`]: a plan set on a stage, run, judged; the builder for tests.
//! - [`own`]: a test's own lock, and what its clients do inside it.
//! - [`history`]: what happened.
//! - [`check`]: what is to be thought of it.
//! - [`report`]: telling people.
//! - [`hunt`], [`shrink`], [`mod@explain`], [`seeds`]: searching, making what was found small,
//!   saying what decided it, keeping it.
//! - [`mod@bench`]: how soon hunts find planted bugs.
//! - [`mod@lesson`]: storms to learn from.
//! - [`mod@matrix`]: every lock against every family of faults.
//! - [`claims`]: what a text on locks says, sentence by sentence, tried in storms.
//! - [`sale`]: a whole flash sale in storms, layer by layer.
//! - `proptest`, behind the feature of its name: plans as inputs of properties.
//! - [`draw`]: keyed random draws; [`visible`]: foreign text in which everything is seen;
//!   [`whole_file`]: files written as a whole.
//!
//! Dependencies point downwards in this picture: program → bench, lesson, matrix, claims, sale → hunt, explain, seeds → shrink →
//! storm → engine, server, fault, planted → plan, history, draw; report → check → history. The door for tests, [`storm::builder`], stands above: it shrinks and
//! reports what fails.

pub mod bench;
pub mod check;
pub mod claims;
pub mod engine;
pub mod explain;
pub mod fault;
pub mod history;
pub mod hunt;
pub mod lesson;
pub mod matrix;
pub mod own;
pub mod plan;
pub mod planted;
#[cfg(feature = "proptest")]
pub mod proptest;
pub mod report;
pub mod sale;
pub mod seeds;
pub mod server;
pub mod shrink;
pub mod storm;
pub mod visible;
pub mod whole_file;

pub use lockstorm_machine::{disk, draw};

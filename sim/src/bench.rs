//! The bug bench: how soon each strategy of a hunt finds each planted bug.
//!
//! A *trial* is one hunt: a bug, a strategy, a seed, a budget of executions. It counts
//! executions (the fault-free runs in which a strategy looks for moments among them) and CPU
//! seconds until the bug is found. A plan finds a bug when it shows one of the bug's kinds of
//! violation and its mended twin, under the same plan, shows none of them: else a hunt would
//! be praised for finding what no lock of this sort can help. The twin's runs are the bench's
//! and are not counted.
//!
//! Beside each strategy runs a *matched swarm*: drawn plans thinned to as many faults as the
//! strategy's plan in the same place has (or what the draw has, if that is less). What is
//! left between the two is the choice of faults and moments, not their number.
//!
//! Order of things: [`trial`] runs one, [`pack`] runs many in worker processes, [`statistics`]
//! says what they mean, [`report`] tells. Strategies are those of [`hunt`](crate::hunt).

mod cpu;
pub mod pack;
pub mod report;
pub mod statistics;
pub mod trial;

pub use report::Report;
pub use trial::{Outcome, Trial, Tried};

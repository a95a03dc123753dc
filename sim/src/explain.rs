//! Explaining a failure by running what might have been.
//!
//! Order of things: [`explain`] runs the plan; [`cliff`] repeats it up to each step of its
//! story and lets the rest go on with other draws, many times, so that one sees when the
//! failure was settled, and finds the decisive event; [`pair`] sets the nearest plan
//! that passes beside the last that fails on the way to it and finds where the two part; [`causes`] walks from the harm
//! back to what set it off; [`measures`] tries what might help, over the same draws and with the
//! plan's own.
//!
//! Every count here is of runs that were made, and a run whose past did not come out the same is
//! an error, never a count. What is estimated says so: the intervals of shares, and with how few
//! draws a rise could not be told from chance ([`cliff::Rise::least_draws`]).

pub mod causes;
pub mod cliff;
pub mod measures;
pub mod names;
pub mod pair;

use std::sync::Arc;

use crate::check::Verdict;
use crate::draw::Draw;
use crate::engine::event::EventEngine;
use crate::plan::{Plan, Seed};
use crate::shrink::{self, Limits, Nearest, Signature};
use crate::storm::locks::{self, LockFactory};
use crate::storm::{self, Run};

use causes::Link;
use cliff::Cliff;
use measures::Measure;
use pair::Pair;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How many draws each question is asked over: from 1, of which nothing can be told, to
    /// [`cliff::MOST_DRAWS`]. Over none nothing is settled.
    pub draws: u32,
    /// How many runs the search for the nearest plan that passes may take.
    pub replays: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { draws: 50, replays: 100 }
    }
}

/// Whoever waits for an explanation. It is told from several threads, and of every run.
pub trait Watch: Sync {
    /// So many more runs are to be made; as soon as it is known.
    fn expect(&self, runs: u64);
    /// One of them is made.
    fn done(&self);
}

/// Nobody waits.
impl Watch for () {
    fn expect(&self, _runs: u64) {}
    fn done(&self) {}
}

/// A failure, explained.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The run.
    pub run: Run,
    /// What it fails with.
    pub signature: Signature,
    /// How many draws each question was asked over.
    pub draws: u32,
    /// From the harm back to what set it off.
    pub causes: Vec<Link>,
    /// When it was settled.
    pub cliff: Cliff,
    /// The nearest plan that passes.
    pub nearest: Option<Nearest>,
    /// Where it and the last plan that fails part.
    pub pair: Option<Pair>,
    /// What might help.
    pub measures: Vec<Measure>,
}

/// Why there is no explanation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// The plan does not fail.
    #[error("the plan gives {0} and not a violation; there is nothing to explain")]
    NoViolation(Verdict),
    /// A run with other draws after an event had another past.
    #[error("nondeterminism: a repeated run parted from itself before event {0}")]
    OtherPast(u64),
}

/// Explains the failure of `plan`, with one of our own locks.
///
/// # Errors
/// When it does not fail, or does not repeat.
pub fn explain(plan: &Plan, effort: &Effort) -> Result<Explained, Unexplained> {
    explain_watched(plan, effort, &())
}

/// Explains the failure of `plan`, with one of our own locks, while `watch` waits.
///
/// # Errors
/// Those of [`explain`].
pub fn explain_watched(
    plan: &Plan,
    effort: &Effort,
    watch: &dyn Watch,
) -> Result<Explained, Unexplained> {
    let factory: LockFactory = Arc::new(locks::build);
    explain_with(plan, effort, &factory, watch)
}

/// Explains the failure of `plan`, with a lock from `factory`.
///
/// # Errors
/// Those of [`explain`].
pub fn explain_with(
    plan: &Plan,
    effort: &Effort,
    factory: &LockFactory,
    watch: &dyn Watch,
) -> Result<Explained, Unexplained> {
    let run_of = |plan: &Plan| {
        watch.expect(1);
        let run = storm::run_with(plan, &EventEngine, factory);
        watch.done();
        run
    };
    let run = run_of(plan);
    let verdict = run.judgement.verdict;
    let Some(signature) = Signature::of(&run) else {
        return Err(Unexplained::NoViolation(verdict));
    };
    watch.expect(cliff::runs(&run, effort.draws) + measures::runs(plan, effort.draws));
    let causes = causes::of(&run);
    let cliff = cliff::of(&run, effort.draws, factory, watch)?;
    let limits = Limits { replays: effort.replays };
    // How many runs the search takes is known when they are made.
    let nearest = shrink::nearest_passing(&run, &limits, factory, &|| {
        watch.expect(1);
        watch.done();
    });
    let pair = nearest
        .as_ref()
        .and_then(|nearest| pair::of(&run_of(&nearest.failing), &run_of(&nearest.plan)));
    let measures = measures::all(plan, effort.draws, factory, watch);
    Ok(Explained { signature, draws: effort.draws, causes, cliff, nearest, pair, measures, run })
}

/// Which draws a question is asked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The same for every question.
    Same,
    /// Others, for what was found with those.
    Anew,
}

/// The other seeds that a plan is tried with.
fn other_seeds(plan: &Plan, draws: u32, which: Draws) -> impl Iterator<Item = Seed> {
    let seed = plan.seed.0;
    let site = match which {
        Draws::Same => "explain",
        Draws::Anew => "explain/anew",
    };
    (0..draws).map(move |number| Seed(Draw::new(seed, site, &number.to_string()).bits()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Fence;

    /// What was found with draws is judged by others, or it is not judged.
    #[test]
    fn what_is_drawn_anew_was_drawn_for_nothing_else() {
        for seed in [0, 2, u64::MAX] {
            let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed)).unwrap();
            let drawn = |which| other_seeds(&plan, cliff::MOST_DRAWS, which).map(|seed| seed.0);
            let same: BTreeSet<u64> = drawn(Draws::Same).collect();
            let anew: BTreeSet<u64> = drawn(Draws::Anew).collect();
            assert_eq!([same.len(), anew.len()], [cliff::MOST_DRAWS as usize; 2]);
            assert!(same.is_disjoint(&anew), "seed {seed}");
        }
    }
}

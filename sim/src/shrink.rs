//! Shrinking: of a plan that fails, the smallest that still fails in the same way.
//!
//! Every candidate is really run, on the event engine, and is taken only if its failure
//! has the signature of the first one: the lock, the kind, what parted promise, belief and
//! effect, and the families of the faults blamed with the roles of what they struck
//! ([`Signature`]). So shrinking never slips to another bug. Equal candidates are run once.
//!
//! Order of things: [`shrink`] lets the `passes` take away faults (delta debugging),
//! clocks, servers, clients, operations (earlier anchors, fewer units, a shorter storm),
//! then turns knobs to the scenario's defaults, times to anchors and numbers to round
//! ones, over and over until nothing gives; proves each surviving fault necessary by
//! running the plan without it; and looks for the `nearest` plan that passes. `replay`
//! runs, remembers and counts; `dial` knows the numbers of a fault.
//!
//! It is not a search for bugs, and it knows no files: who calls it is told of each
//! improvement ([`shrink_with`]) and can write the best so far down.

mod dial;
mod nearest;
mod passes;
mod replay;
mod signature;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::Plan;
use crate::storm::locks::{self, LockFactory};
use crate::storm::{self, Run};

pub use nearest::Nearest;
pub use signature::Signature;

use replay::{Replays, Search};

/// How much may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many runs at most, the first included.
    pub replays: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { replays: 200 }
    }
}

/// Of the replays so many in a hundred are kept for the proof and the nearest plan.
const KEPT_PER_CENT: u32 = 25;

/// A shrunk plan, and what is known of it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan before.
    pub original: Plan,
    /// The run of the smallest plan that was found.
    pub run: Arc<Run>,
    /// What both fail with.
    pub signature: Signature,
    /// Of each of its faults, in their order: what comes of the plan without it.
    pub without: Vec<Without>,
    /// The nearest plan that passes; `None` where none was found within the limits.
    pub nearest: Option<Nearest>,
    /// How many plans were run.
    pub replays: u32,
    /// How often a candidate had been run before.
    pub remembered: u32,
    /// Why it was given up before nothing more could be taken away.
    pub stopped: Option<Stopped>,
}

/// Why shrinking stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All replays were used.
    Limit,
    /// Who called it wanted no more.
    Caller,
}

/// What comes of a shrunk plan without one of its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Without {
    /// The fault, by its position in the plan, from 0.
    pub fault: usize,
    /// The verdict; `None` where the limits did not allow to try, or the plan without the
    /// fault breaks a rule of plans.
    pub verdict: Option<Verdict>,
    /// What it fails with instead, if it still fails.
    pub signature: Option<Signature>,
}

impl Without {
    /// Whether it is known that the failure needs the fault.
    pub fn is_necessary(&self) -> bool {
        self.verdict.is_some()
    }
}

impl Shrunk {
    /// The smallest plan that was found.
    pub fn plan(&self) -> &Plan {
        &self.run.plan
    }

    /// Whether each fault is proved necessary.
    pub fn is_minimal(&self) -> bool {
        self.without.iter().all(Without::is_necessary)
    }
}

/// An improvement.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The smallest plan so far.
    pub plan: &'a Plan,
    /// How many plans were run.
    pub replays: u32,
}

/// Why a plan cannot be shrunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan gives {verdict} and not a violation; there is nothing to shrink")]
pub struct NothingToShrink {
    /// What it gives.
    pub verdict: Verdict,
}

/// Shrinks `plan`, with one of our own locks.
///
/// # Errors
/// When it does not fail.
pub fn shrink(plan: &Plan, limits: &Limits) -> Result<Shrunk, NothingToShrink> {
    let factory: LockFactory = Arc::new(locks::build);
    shrink_with(plan, limits, &factory, &mut |_| ControlFlow::Continue(()))
}

/// Shrinks `plan`, with a lock from `factory`. `tell` hears of each improvement and says
/// whether to go on.
///
/// # Errors
/// When it does not fail.
pub fn shrink_with(
    plan: &Plan,
    limits: &Limits,
    factory: &LockFactory,
    tell: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> Result<Shrunk, NothingToShrink> {
    let run = storm::run_with(plan, &EventEngine, factory);
    let verdict = run.judgement.verdict;
    let Some(signature) = Signature::of(&run) else { return Err(NothingToShrink { verdict }) };
    let replays = Replays::new(factory, limits.replays, &run);
    let kept = limits.replays.saturating_mul(KEPT_PER_CENT) / 100;
    let mut search = Search::new(run, signature, replays, kept, tell);
    passes::all(&mut search);
    search.open_what_was_kept();
    let without = passes::necessity(&mut search);
    let nearest = nearest::find(&mut search, &without);
    Ok(Shrunk {
        original: plan.clone(),
        signature: search.target.clone(),
        without,
        nearest,
        replays: search.replays.run,
        remembered: search.replays.remembered,
        stopped: search.stopped(),
        run: search.best,
    })
}

/// What a plan that passes has in common with one that fails, and does not: see
/// [`Nearest`]. For plans that were not shrunk: `run` is that of the plan, and counts as the first
/// of the replays; `made` is called after each other. `None` where none is found, and of a run
/// that does not fail.
pub fn nearest_passing(
    run: &Run,
    limits: &Limits,
    factory: &LockFactory,
    made: &dyn Fn(),
) -> Option<Nearest> {
    let signature = Signature::of(run)?;
    let replays = Replays::new(factory, limits.replays, run).told(made);
    let mut tell = |_: &Progress<'_>| ControlFlow::Continue(());
    let mut search = Search::new(run.clone(), signature, replays, 0, &mut tell);
    let without = passes::without_each(&mut search);
    nearest::find(&mut search, &without)
}

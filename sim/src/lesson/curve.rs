//! What a knob does: how many runs fail at each of its positions.
//!
//! The same positions and the same numbers of runs give the same counts, whoever measures
//! and with however many threads: each run has its own seed, drawn from the plan's and its
//! ordinal, and a thread of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::file::Knob;
use crate::check::Verdict;
use crate::draw::Draw;
use crate::engine::event::EventEngine;
use crate::plan::{Plan, PlanError, Seed};
use crate::storm;

/// How many runs each position has where a lesson says nothing.
pub const RUNS: u32 = 24;

/// How often a storm fails at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// In no run.
    Never,
    /// In some, not in all.
    Sometimes,
    /// In half of them or more.
    Mostly,
    /// In all.
    Always,
}

impl Claim {
    /// Whether so many of so many runs are that often.
    pub fn holds(self, failed: u32, runs: u32) -> bool {
        match self {
            Claim::Never => failed == 0,
            Claim::Sometimes => failed > 0 && failed < runs,
            Claim::Mostly => 2 * failed >= runs,
            Claim::Always => failed == runs,
        }
    }
}

/// What came of the runs at a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The position.
    pub value: String,
    /// How many were run.
    pub runs: u32,
    /// How many failed.
    pub failed: u32,
    /// How many say nothing.
    pub inconclusive: u32,
}

/// Runs the storm of `plan` at every position of `knob`, on up to `threads` threads.
///
/// # Errors
/// A plan that is not possible.
pub fn measured(plan: &Plan, knob: &Knob, threads: usize) -> Result<Vec<Point>, PlanError> {
    let mut plans = Vec::new();
    for point in &knob.points {
        let at = knob.plan(plan, &point.value)?;
        plans.extend((0..knob.runs).map(|ordinal| {
            let seed = Draw::new(at.seed.0, "lesson", &ordinal.to_string()).bits();
            Plan { seed: Seed(seed), ..at.clone() }
        }));
    }
    let verdicts = verdicts(&plans, threads);
    let points = knob.points.iter().zip(verdicts.chunks(knob.runs as usize));
    let count = |verdicts: &[Verdict], is: fn(Verdict) -> bool| {
        verdicts.iter().filter(|verdict| is(**verdict)).count() as u32
    };
    Ok(points
        .map(|(point, verdicts)| Point {
            value: point.value.clone(),
            runs: knob.runs,
            failed: count(verdicts, |verdict| verdict == Verdict::Violation),
            inconclusive: count(verdicts, |verdict| {
                verdict != Verdict::Violation && !verdict.is_safe()
            }),
        })
        .collect())
}

/// The verdict of each plan, in their order.
fn verdicts(plans: &[Plan], threads: usize) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![Verdict::Internal; plans.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, plans.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(n) else { break };
                    let verdict = storm::run(plan, &EventEngine).judgement.verdict;
                    found.lock().unwrap_or_else(PoisonError::into_inner)[n] = verdict;
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_shares() {
        let holds = |failed| {
            [Claim::Never, Claim::Sometimes, Claim::Mostly, Claim::Always]
                .map(|claim| claim.holds(failed, 12))
        };
        assert_eq!(holds(0), [true, false, false, false]);
        assert_eq!(holds(5), [false, true, false, false]);
        assert_eq!(holds(7), [false, true, true, false]);
        assert_eq!(holds(12), [false, false, true, true]);
    }
}

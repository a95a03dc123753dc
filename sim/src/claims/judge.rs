//! Judges claims: runs the storms of their arms, measures, compares with what the sentences
//! predict.
//!
//! Storms of several arms run on several threads, each storm on a fresh one of its own; what
//! they come to does not depend on how many there are.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::measure::{Sample, Value};
use super::{Arm, Claim, Prediction, Reading};
use crate::engine::event::EventEngine;
use crate::plan::{PlanError, Seed, capsule};
use crate::storm;

/// What is to be thought of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// What it predicts came true.
    Confirmed,
    /// It did not.
    Refuted,
    /// Under some conditions it did, under others not.
    Depends,
    /// There is no experiment that could tell.
    NotMeasured,
}

impl Standing {
    /// All of them.
    pub const ALL: [Standing; 4] =
        [Standing::Confirmed, Standing::Refuted, Standing::Depends, Standing::NotMeasured];
}

/// What one arm of an experiment came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The arm.
    pub arm: &'static Arm,
    /// What its runs say; `None` if they say nothing.
    pub value: Option<Value>,
    /// Whether what the sentence predicts came true; `None` where it predicts nothing, or
    /// nothing was measured.
    pub holds: Option<bool>,
    /// The plan of a run that shows it, on one line: one that contradicts the prediction where
    /// there is any, else one in which it happened, else the first.
    pub witness: Option<String>,
}

/// A claim with what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// What its arms came to, in their order.
    pub outcomes: Vec<Outcome>,
    /// What is to be thought of it.
    pub standing: Standing,
}

impl Judged {
    /// The outcome that decided against the sentence, or, of one that says that something can
    /// happen, for it.
    pub fn witness(&self) -> Option<&Outcome> {
        let wanted = self.claim.reading != Reading::Possible;
        let decided = |outcome: &&Outcome| outcome.holds == Some(!wanted);
        self.outcomes.iter().find(decided).filter(|outcome| outcome.witness.is_some())
    }
}

/// Judges these claims with so many seeds for each arm, on so many threads; `note` hears of
/// each arm that is done.
///
/// # Errors
/// An arm whose storm is impossible: ours.
pub fn judge(
    claims: &[&'static Claim],
    seeds: u64,
    jobs: usize,
    note: &(dyn Fn() + Sync),
) -> Result<Vec<Judged>, PlanError> {
    let arms: Vec<&'static Arm> = claims.iter().flat_map(|claim| claim.arms()).collect();
    let next = AtomicUsize::new(0);
    let tried: Mutex<Vec<Option<Result<Tried, PlanError>>>> =
        Mutex::new(arms.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(arm) = arms.get(number) else { return };
                    let result = try_arm(arm, seeds);
                    let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                    tried[number] = Some(result);
                    drop(tried);
                    note();
                }
            });
        }
    });
    let tried = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut tried = tried.into_iter().flatten();
    let mut judged = Vec::new();
    for claim in claims {
        let of_claim: Result<Vec<Tried>, PlanError> =
            tried.by_ref().take(claim.arms().len()).collect();
        judged.push(conclude(claim, of_claim?));
    }
    Ok(judged)
}

/// An arm that was run.
struct Tried {
    arm: &'static Arm,
    /// What each run says that says anything, with its plan.
    samples: Vec<(Sample, String)>,
}

fn try_arm(arm: &'static Arm, seeds: u64) -> Result<Tried, PlanError> {
    let mut samples = Vec::new();
    for seed in 1..=seeds {
        let plan = arm.storm.plan(Seed(seed))?;
        let run = storm::run(&plan, &EventEngine);
        samples.extend(arm.measure.of(&run).map(|sample| (sample, capsule::write(&plan))));
    }
    Ok(Tried { arm, samples })
}

fn conclude(claim: &'static Claim, tried: Vec<Tried>) -> Judged {
    let values: Vec<Option<Value>> = tried
        .iter()
        .map(|tried| {
            let samples: Vec<Sample> = tried.samples.iter().map(|(sample, _)| *sample).collect();
            tried.arm.measure.value(&samples)
        })
        .collect();
    let outcomes: Vec<Outcome> = tried
        .iter()
        .zip(&values)
        .map(|(tried, value)| {
            let holds = value.and_then(|value| holds(tried.arm.predicts, value, &values));
            Outcome { arm: tried.arm, value: *value, holds, witness: witness(tried, holds) }
        })
        .collect();
    let standing = standing(claim, &outcomes);
    Judged { claim, outcomes, standing }
}

/// Whether a prediction came true; `None` if there is none, or what it is compared with was not
/// measured.
fn holds(predicts: Prediction, value: Value, all: &[Option<Value>]) -> Option<bool> {
    let number = |value: Value| match value {
        Value::Share(share) => share.count,
        Value::Number { number, .. } => number,
    };
    let of = match value {
        Value::Share(share) => share.of,
        Value::Number { of, .. } => of,
    };
    let other = |arm: usize| all.get(arm).copied().flatten().map(number);
    let here = number(value);
    match predicts {
        Prediction::Nothing => None,
        Prediction::Never => Some(here == 0),
        Prediction::Sometimes => Some(here > 0),
        Prediction::EachTime => Some(here == of),
        Prediction::AtMost(most) => Some(here <= most),
        Prediction::AtLeast(least) => Some(here >= least),
        Prediction::AtMostOf { arm, percent } => {
            other(arm).map(|there| here * 100 <= there * percent)
        }
        Prediction::AtLeastOf { arm, percent } => {
            other(arm).map(|there| here * 100 >= there * percent)
        }
    }
}

/// See [`Outcome::witness`].
fn witness(tried: &Tried, holds: Option<bool>) -> Option<String> {
    let happened =
        |wanted: bool| tried.samples.iter().find(|(sample, _)| *sample == Sample::Happened(wanted));
    // What must happen each time is contradicted by a run in which it did not.
    let is_each_time = tried.arm.predicts == Prediction::EachTime;
    let shown = match (holds, is_each_time) {
        (Some(false), true) => happened(false),
        _ => happened(true),
    };
    shown.or(tried.samples.first()).map(|(_, capsule)| capsule.clone())
}

fn standing(claim: &Claim, outcomes: &[Outcome]) -> Standing {
    let told: Vec<bool> = outcomes.iter().filter_map(|outcome| outcome.holds).collect();
    let (kept, broken) = (told.contains(&true), told.contains(&false));
    match (claim.reading, kept, broken) {
        (_, false, false) => Standing::NotMeasured,
        (Reading::Always, _, true) | (Reading::Possible | Reading::Graded, false, true) => {
            Standing::Refuted
        }
        (Reading::Graded, true, true) => Standing::Depends,
        (Reading::Possible, true, _) | (Reading::Always | Reading::Graded, true, false) => {
            Standing::Confirmed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::measure::Unit;
    use crate::hunt::proportion::Proportion;

    #[test]
    fn predictions_are_compared_with_what_was_measured() {
        let share = |count, of| Value::Share(Proportion::new(count, of));
        let number = |number| Value::Number { number, unit: Unit::Times, of: 3 };
        let all = [Some(number(100)), None];
        for (predicts, value, expected) in [
            (Prediction::Never, share(0, 5), Some(true)),
            (Prediction::Never, share(1, 5), Some(false)),
            (Prediction::Sometimes, share(1, 5), Some(true)),
            (Prediction::Sometimes, share(0, 5), Some(false)),
            (Prediction::EachTime, share(5, 5), Some(true)),
            (Prediction::EachTime, share(4, 5), Some(false)),
            (Prediction::AtMost(9), number(10), Some(false)),
            (Prediction::AtLeast(9), number(10), Some(true)),
            (Prediction::AtMostOf { arm: 0, percent: 50 }, number(50), Some(true)),
            (Prediction::AtMostOf { arm: 0, percent: 50 }, number(51), Some(false)),
            (Prediction::AtLeastOf { arm: 0, percent: 90 }, number(89), Some(false)),
            (Prediction::AtLeastOf { arm: 1, percent: 90 }, number(89), None),
            (Prediction::Nothing, number(1), None),
        ] {
            assert_eq!(holds(predicts, value, &all), expected, "{predicts:?} {value:?}");
        }
    }

    #[test]
    fn how_a_sentence_is_read_decides_what_a_counterexample_does() {
        let claim = |reading| Claim { reading, ..super::super::all().next().copied().unwrap() };
        let arm = super::super::all().find_map(|claim| claim.arms().first()).unwrap();
        let outcome = |holds| Outcome { arm, value: None, holds: Some(holds), witness: None };
        let of = |reading, holds: &[bool]| {
            let outcomes: Vec<Outcome> = holds.iter().map(|holds| outcome(*holds)).collect();
            standing(&claim(reading), &outcomes)
        };
        assert_eq!(of(Reading::Always, &[true, false]), Standing::Refuted);
        assert_eq!(of(Reading::Graded, &[true, false]), Standing::Depends);
        assert_eq!(of(Reading::Possible, &[true, false]), Standing::Confirmed);
        assert_eq!(of(Reading::Possible, &[false]), Standing::Refuted);
        assert_eq!(of(Reading::Graded, &[false, false]), Standing::Refuted);
        assert_eq!(of(Reading::Always, &[true, true]), Standing::Confirmed);
        assert_eq!(of(Reading::Always, &[]), Standing::NotMeasured);
    }
}

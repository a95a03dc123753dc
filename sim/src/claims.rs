//! What an often-read text on locks for flash sales says, sentence by sentence, and what comes
//! of it in storms.
//!
//! Each factual sentence has an experiment: arms, which are storms with something that is
//! measured and something that the sentence predicts of it. The standing follows from the runs
//! and from how the sentence is read ([`Reading`]); nothing says beforehand how it ends. Runs of
//! which nothing can be said are counted apart, and a sentence whose runs are mostly such is not
//! measured. What no storm can tell is listed with the reason.
//!
//! What the committed documents say stands in [`expected`]. It is compared with what came out
//! and is read by no experiment.
//!
//! Speeds are ratios of two arms within the simulator's cost model: messages take what its links
//! take, statements of PostgreSQL and disks what was measured, a processor of Redis or ZooKeeper
//! nothing. No wall clock is read.
//!
//! Order of things: [`Claim`] and its parts here; [`mod@measure`] what is measured, [`mod@judge`]
//! runs and compares, [`prove`] repeats what is shown; [`conditions`] and [`loads`] are storms
//! that several arms share; then the sentences, by the parts of the text: [`sale`], [`rows`] and
//! [`tables`] of databases, [`cache`], [`cache_choice`], [`coordination`], [`choice`].

pub mod cache;
pub mod cache_choice;
pub mod choice;
pub mod conditions;
pub mod coordination;
pub mod expected;
pub mod judge;
pub mod loads;
pub mod measure;
pub mod prove;
pub mod rows;
pub mod sale;
pub mod standing;
pub mod tables;

pub use judge::{Judged, Outcome, judge};
pub use measure::Measure;
pub use standing::Standing;

use crate::hunt::{Quarry, Task};
use crate::plan::{Fence, Plan, PlanError, Seed};

/// How many seeds an arm has where nothing is said.
pub const SEEDS: u64 = 10;

/// How many seeds an arm has when it must be quick.
pub const QUICK_SEEDS: u64 = 3;

/// A sentence and its experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its stable name: a letter for the part of the text, a number.
    pub id: &'static str,
    /// The sentence, or the part of it that is meant, as it stands.
    pub chinese: &'static str,
    /// The same in English.
    pub english: &'static str,
    /// How it is read.
    pub reading: Reading,
    /// How it is tried.
    pub trial: Trial,
    /// What of it is tried, where that is not plain: in English, in Chinese.
    pub note: Option<(&'static str, &'static str)>,
}

/// How a sentence is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It says that something is so, or never so: one counterexample refutes it.
    Always,
    /// It says that something can be: one example confirms it.
    Possible,
    /// It recommends or compares: where it holds under some conditions and not under others,
    /// it depends on them.
    Graded,
}

/// How a sentence is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// By these storms.
    Arms(&'static [Arm]),
    /// Not at all, for this reason: in English, in Chinese.
    None(&'static str, &'static str),
}

/// One condition under which a sentence predicts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The condition.
    pub english: &'static str,
    /// The same in Chinese.
    pub chinese: &'static str,
    /// The storm.
    pub storm: Storm,
    /// What is measured.
    pub measure: Measure,
    /// What the sentence predicts of it.
    pub predicts: Prediction,
}

/// A storm of an arm; its seed varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Its scenario.
    pub scenario: &'static str,
    /// Its lock.
    pub lock: &'static str,
    /// How much of the fence.
    pub fence: Fence,
    /// What of the scenario's plan is changed, as `--set` writes it.
    pub settings: &'static [(&'static str, &'static str)],
    /// Its faults, as a plan's file writes them.
    pub faults: &'static str,
}

/// What a sentence predicts of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// Nothing: another arm is compared with it, or it shows that the measure can tell.
    Nothing,
    /// It happens in no run.
    Never,
    /// It happens in some run.
    Sometimes,
    /// It happens in every run.
    EachTime,
    /// No more than this.
    AtMost(u64),
    /// No less than this.
    AtLeast(u64),
    /// No more than so many percent of what another arm of the sentence measures.
    AtMostOf {
        /// Its position, from 0.
        arm: usize,
        /// So many.
        percent: u64,
    },
    /// No less than so many percent of what another arm of the sentence measures.
    AtLeastOf {
        /// Its position, from 0.
        arm: usize,
        /// So many.
        percent: u64,
    },
}

impl Prediction {
    /// The arm that it compares with, if it does.
    pub fn compared_with(self) -> Option<usize> {
        match self {
            Prediction::AtMostOf { arm, .. } | Prediction::AtLeastOf { arm, .. } => Some(arm),
            _ => None,
        }
    }
}

impl Claim {
    /// The same, and what of it is tried.
    const fn noted(self, english: &'static str, chinese: &'static str) -> Claim {
        Claim { note: Some((english, chinese)), ..self }
    }

    /// Its arms; none of a sentence that is not measured.
    pub fn arms(&self) -> &'static [Arm] {
        match self.trial {
            Trial::Arms(arms) => arms,
            Trial::None(..) => &[],
        }
    }
}

impl Storm {
    /// Its plan with this seed.
    ///
    /// # Errors
    /// A storm that is impossible.
    pub fn plan(&self, seed: Seed) -> Result<Plan, PlanError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let quarry = Quarry {
            settings: self.settings.iter().map(owned).collect(),
            ..Quarry::new(self.scenario, self.lock, self.fence)
        };
        quarry.plan_of(&Task::Written { seed, faults: self.faults.to_owned() })
    }
}

/// All sentences, in the order of the text.
pub fn all() -> impl Iterator<Item = &'static Claim> + Clone {
    [
        sale::CLAIMS,
        rows::CLAIMS,
        tables::CLAIMS,
        cache::CLAIMS,
        cache_choice::CLAIMS,
        coordination::CLAIMS,
        choice::CLAIMS,
    ]
    .into_iter()
    .flatten()
}

/// An arm.
const fn arm(
    english: &'static str,
    chinese: &'static str,
    storm: Storm,
    measure: Measure,
    predicts: Prediction,
) -> Arm {
    Arm { english, chinese, storm, measure, predicts }
}

/// A sentence that is tried by these arms.
const fn tried(
    id: &'static str,
    chinese: &'static str,
    english: &'static str,
    reading: Reading,
    arms: &'static [Arm],
) -> Claim {
    Claim { id, chinese, english, reading, trial: Trial::Arms(arms), note: None }
}

/// A sentence that no storm can tell.
const fn untried(
    id: &'static str,
    chinese: &'static str,
    english: &'static str,
    why_english: &'static str,
    why_chinese: &'static str,
) -> Claim {
    let trial = Trial::None(why_english, why_chinese);
    Claim { id, chinese, english, reading: Reading::Graded, trial, note: None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_storm_is_possible_and_every_sentence_has_its_own_name() {
        let mut ids = BTreeSet::new();
        for claim in all() {
            assert!(ids.insert(claim.id), "{} twice", claim.id);
            for (number, arm) in claim.arms().iter().enumerate() {
                let plan = arm.storm.plan(Seed(1));
                assert!(plan.is_ok(), "{} {number}: {}", claim.id, plan.unwrap_err());
                if let Some(other) = arm.predicts.compared_with() {
                    assert!(other < claim.arms().len() && other != number, "{} {number}", claim.id);
                }
            }
        }
        let measured = all().filter(|claim| !claim.arms().is_empty()).count();
        assert!(measured >= 40, "{measured}");
    }

    /// A speed is told as a ratio of two storms, never as so many per second.
    #[test]
    fn speeds_are_predicted_as_ratios_only() {
        for claim in all() {
            for arm in claim.arms().iter().filter(|arm| arm.measure.is_speed()) {
                let is_ratio = arm.predicts.compared_with().is_some();
                assert!(is_ratio || arm.predicts == Prediction::Nothing, "{}", claim.id);
            }
        }
    }

    #[test]
    fn something_is_predicted_of_every_sentence_that_is_tried() {
        for claim in all().filter(|claim| !claim.arms().is_empty()) {
            let says = |arm: &Arm| arm.predicts != Prediction::Nothing;
            assert!(claim.arms().iter().any(says), "{}", claim.id);
        }
    }
}

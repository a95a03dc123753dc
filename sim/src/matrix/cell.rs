//! One cell: what its runs came to, and what may be said of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{Kind, Verdict};
use crate::hunt::Summary;
use crate::hunt::proportion::Proportion;
use crate::plan::{Fence, Seed};

/// With fewer effective runs nothing is said of a cell that did not fail.
pub const FEWEST_EFFECTIVE: u64 = 10;

/// Which cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Place {
    /// The lock.
    pub lock: String,
    /// How much of the fence.
    pub fence: Fence,
    /// The family of faults.
    pub family: String,
}

/// A run of a cell that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Witness {
    /// Its seed.
    pub seed: Seed,
    /// What was violated.
    pub violations: Vec<Kind>,
    /// Its trace hash.
    pub trace: String,
    /// Its plan on one line, for `lockstorm replay`.
    pub capsule: String,
}

/// What the runs of a cell came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// Which.
    #[serde(flatten)]
    pub place: Place,
    /// In which scenario.
    pub scenario: String,
    /// How many runs.
    pub runs: u64,
    /// How many of them ended so.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// In how many of them each kind was found as a violation.
    pub violations: BTreeMap<Kind, u64>,
    /// Faults that did something, over all runs.
    pub faults: u64,
    /// The first run that failed, repeated in a fresh process.
    pub witness: Option<Witness>,
    /// Whether that process left another trace.
    pub nondeterministic: bool,
}

impl Cell {
    /// One without runs.
    pub fn new(place: Place, scenario: &str) -> Cell {
        Cell {
            place,
            scenario: scenario.to_owned(),
            runs: 0,
            verdicts: BTreeMap::new(),
            violations: BTreeMap::new(),
            faults: 0,
            witness: None,
            nondeterministic: false,
        }
    }

    /// Counts a run.
    pub fn add(&mut self, summary: &Summary) {
        self.runs += 1;
        *self.verdicts.entry(summary.verdict).or_default() += 1;
        for kind in &summary.violations {
            *self.violations.entry(*kind).or_default() += 1;
        }
        self.faults += summary.faults_showed;
    }

    /// How many runs ended so.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Runs in which the faults had an effect and that came to a verdict; of the family without
    /// faults those that came to one.
    pub fn effective(&self) -> u64 {
        [Verdict::Safe, Verdict::SafeByFence, Verdict::Violation]
            .into_iter()
            .map(|verdict| self.ended(verdict))
            .sum()
    }

    /// How many of the effective runs failed.
    pub fn failed(&self) -> Proportion {
        Proportion::new(self.ended(Verdict::Violation), self.effective())
    }

    /// What is said of the cell. One failure is enough for *violation*; for *safe* the
    /// effective runs must be enough.
    pub fn verdict(&self) -> Verdict {
        let failed = self.failed();
        if self.nondeterministic {
            Verdict::Nondeterminism
        } else if failed.count > 0 {
            Verdict::Violation
        } else if self.ended(Verdict::Internal) > 0 {
            Verdict::Internal
        } else if self.runs > 0 && self.ended(Verdict::NotExpressible) == self.runs {
            Verdict::NotExpressible
        } else if self.runs > 0 && self.ended(Verdict::Inert) == self.runs {
            Verdict::Inert
        } else if failed.of < FEWEST_EFFECTIVE {
            Verdict::Unknown
        } else if self.ended(Verdict::SafeByFence) > 0 {
            Verdict::SafeByFence
        } else {
            Verdict::Safe
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(runs: &[(Verdict, u64)]) -> Cell {
        let place =
            Place { lock: "redis".into(), fence: Fence::Off, family: "holder-pause".into() };
        let mut cell = Cell::new(place, "redis-failover");
        for (verdict, count) in runs {
            for _ in 0..*count {
                let lost = Summary::lost(Seed(0), String::new());
                cell.add(&Summary { verdict: *verdict, ..lost });
            }
        }
        cell
    }

    #[test]
    fn inert_runs_are_never_safe_ones() {
        let few = cell(&[(Verdict::Safe, 9), (Verdict::Inert, 31)]);
        assert_eq!((few.verdict(), few.effective()), (Verdict::Unknown, 9));
        assert_eq!(cell(&[(Verdict::Inert, 40)]).verdict(), Verdict::Inert);
        let enough = cell(&[(Verdict::Safe, 10), (Verdict::Inert, 30)]);
        assert_eq!((enough.verdict(), enough.failed().of), (Verdict::Safe, 10));
    }

    #[test]
    fn one_failure_is_enough_and_ours_is_not_the_locks() {
        let one = cell(&[(Verdict::Violation, 1), (Verdict::Unknown, 39)]);
        assert_eq!((one.verdict(), one.failed()), (Verdict::Violation, Proportion::new(1, 1)));
        let lost = cell(&[(Verdict::Internal, 1), (Verdict::Safe, 39)]);
        assert_eq!(lost.verdict(), Verdict::Internal);
        let fenced = cell(&[(Verdict::SafeByFence, 1), (Verdict::Safe, 39)]);
        assert_eq!(fenced.verdict(), Verdict::SafeByFence);
        assert_eq!(cell(&[]).verdict(), Verdict::Unknown);
    }
}

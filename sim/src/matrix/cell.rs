//! One cell: what its runs came to, and what may be said of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{Kind, Verdict};
use crate::hunt::Summary;
use crate::hunt::proportion::Proportion;
use crate::plan::draw::alone::NO_FAULT;
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
    /// How many of them ended so; those of `unstruck` are not among them.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// In how many of the runs that ended as violations each kind was found.
    pub violations: BTreeMap<Kind, u64>,
    /// How many runs violated something although no fault had touched anything: whatever they
    /// show, it is not what the family does.
    pub unstruck: u64,
    /// Faults that did something, over all runs.
    pub faults: u64,
    /// The first run that failed and did so again in a fresh process, or the one whose trace
    /// was another one there.
    pub witness: Option<Witness>,
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
            unstruck: 0,
            faults: 0,
            witness: None,
        }
    }

    /// Whether this run violated something under what the family does: a fault touched
    /// something, or the family has none.
    pub fn is_failed_by(&self, summary: &Summary) -> bool {
        let is_struck = summary.faults_showed > 0 || self.place.family == NO_FAULT;
        summary.verdict == Verdict::Violation && is_struck
    }

    /// Counts a run.
    pub fn add(&mut self, summary: &Summary) {
        self.runs += 1;
        self.faults += summary.faults_showed;
        let is_failure = self.is_failed_by(summary);
        if summary.verdict == Verdict::Violation && !is_failure {
            self.unstruck += 1;
            return;
        }
        *self.verdicts.entry(summary.verdict).or_default() += 1;
        for kind in summary.violations.iter().filter(|_| is_failure) {
            *self.violations.entry(*kind).or_default() += 1;
        }
    }

    /// How many runs ended so.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Whether a run of it was lost by a worker or failed inside: it is worth running again.
    pub fn is_ours(&self) -> bool {
        self.ended(Verdict::Internal) > 0
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

    /// What is said of the cell: as of a hunt's drawn plans, so one failure is enough for
    /// *violation*, and one run of which nothing can be said for *unknown*. More strictly than
    /// there, for *safe* the effective runs must be enough, and none may have been ours.
    pub fn verdict(&self) -> Verdict {
        let merged = Verdict::merge_drawn(self.verdicts.keys().copied());
        match merged {
            Verdict::Nondeterminism | Verdict::Violation => merged,
            _ if self.is_ours() => Verdict::Internal,
            _ if self.unstruck > 0 => Verdict::Unknown,
            _ if merged.is_safe() && self.effective() < FEWEST_EFFECTIVE => Verdict::Unknown,
            _ => merged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(family: &str) -> Cell {
        let place = Place { lock: "redis".into(), fence: Fence::Off, family: family.into() };
        Cell::new(place, "redis-failover")
    }

    fn ended(verdict: Verdict, faults_showed: u64) -> Summary {
        let violations = match verdict {
            Verdict::Violation => vec![Kind::Oversell],
            _ => Vec::new(),
        };
        Summary { verdict, violations, faults_showed, ..Summary::lost(Seed(0), String::new()) }
    }

    fn cell(runs: &[(Verdict, u64)]) -> Cell {
        let mut cell = empty("holder-pause");
        for (verdict, count) in runs {
            let touched = u64::from(*verdict != Verdict::Inert);
            (0..*count).for_each(|_| cell.add(&ended(*verdict, touched)));
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
    fn a_run_of_which_nothing_can_be_said_leaves_no_safe_cell() {
        for verdict in [Verdict::Unknown, Verdict::NotExpressible] {
            assert_eq!(cell(&[(Verdict::Safe, 39), (verdict, 1)]).verdict(), verdict);
            assert_eq!(cell(&[(Verdict::SafeByFence, 39), (verdict, 1)]).verdict(), verdict);
        }
    }

    #[test]
    fn a_violation_without_a_fault_is_not_the_familys_and_nobody_is_safe_beside_it() {
        let mut struck = cell(&[(Verdict::Safe, 39)]);
        struck.add(&ended(Verdict::Violation, 0));
        assert_eq!((struck.verdict(), struck.unstruck), (Verdict::Unknown, 1));
        assert_eq!((struck.failed(), struck.violations.len()), (Proportion::new(0, 39), 0));
        struck.add(&ended(Verdict::Violation, 1));
        assert_eq!(
            (struck.verdict(), struck.failed()),
            (Verdict::Violation, Proportion::new(1, 40))
        );
        let mut calm = empty(NO_FAULT);
        calm.add(&ended(Verdict::Violation, 0));
        assert_eq!((calm.verdict(), calm.unstruck), (Verdict::Violation, 0));
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

//! The book of a hunt: what its runs came to, counted as they come in.
//!
//! It keeps counts, one example of each distinct failure, and what came of single faults;
//! never all runs, for a night has millions.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::certificate::{Key, Outcome};
use super::course::{Course, Shard, Source, Step, Strategy};
use super::{Quarry, Summary};
use crate::check::{Kind, Verdict};
use crate::plan::Fence;
use crate::report::layout::{counted, grouped};
use crate::report::table::Tally;

/// Failures of one signature.
#[derive(Clone, Debug)]
pub struct Catch {
    /// How many runs.
    pub runs: u64,
    /// The first of them.
    pub step: Step,
    /// What it is, for people.
    pub label: String,
    /// What its worker told.
    pub summary: Summary,
}

/// A single fault that broke something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// By its name on the menu.
    pub fault: String,
    /// At so many moments.
    pub broke: u64,
    /// Of so many at which it was tried.
    pub tried: u64,
    /// What was violated.
    pub kinds: BTreeSet<Kind>,
}

/// Counts of one part of the coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// Runs.
    pub tried: u64,
    /// Of those, so many in which no fault did anything.
    pub inert: u64,
    /// Of those, so many in which nobody was granted the lock before the faults were over.
    pub untried: u64,
    /// Of those, so many violations.
    pub broke: u64,
}

impl Cell {
    fn add(&mut self, summary: &Summary) {
        self.tried += 1;
        self.inert += u64::from(summary.verdict == Verdict::Inert);
        self.untried += u64::from(summary.untried);
        self.broke += u64::from(summary.verdict == Verdict::Violation);
    }
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    /// Of all runs.
    pub tally: Tally,
    /// Of the fault-free runs.
    pub calm: Tally,
    /// Of the single faults.
    pub singles: Tally,
    /// Of single faults in the weather of seeds.
    pub again: Tally,
    /// Of the pairs.
    pub pairs: Tally,
    /// Of the drawn plans.
    pub drawn: Tally,
    /// Distinct failures, by their signature.
    pub caught: BTreeMap<String, Catch>,
    /// Single faults: kind of fault and operation of the moment.
    pub coverage: BTreeMap<(&'static str, &'static str), Cell>,
    /// What came of each single fault.
    pub outcomes: BTreeMap<Key, Outcome>,
    hasher: blake3::Hasher,
}

impl Book {
    /// Writes down what a step brought.
    pub fn add(&mut self, course: &Course, step: &Step, summary: &Summary) {
        self.hasher.update(format!("{} {}\n", summary.seed, summary.trace).as_bytes());
        self.tally.add(summary);
        match step.source {
            Source::Single(index) => {
                self.singles.add(summary);
                let trial = &course.trials()[index];
                let operation = trial.moment.anchor.operation.name();
                let cell = (trial.single.fault.kind.name(), operation);
                self.coverage.entry(cell).or_default().add(summary);
                self.outcomes.insert(trial.key(), Outcome::of(summary));
            }
            Source::Calm(_) => self.calm.add(summary),
            Source::Again(_) => self.again.add(summary),
            Source::Pair(..) => self.pairs.add(summary),
            Source::Drawn => self.drawn.add(summary),
        }
        if is_failure(step, summary) {
            let catch = self.caught.entry(summary.signature.clone()).or_insert_with(|| Catch {
                runs: 0,
                step: step.clone(),
                label: course.label(step),
                summary: summary.clone(),
            });
            catch.runs += 1;
        }
    }

    /// One hash over the traces of all runs, in their order. 64 bits, hex.
    pub fn trace(&self) -> String {
        self.hasher.finalize().to_hex()[..16].to_owned()
    }

    /// The verdict on all of them (see [`Tally::verdict_of_hunt`]).
    pub fn verdict(&self) -> Verdict {
        self.tally.verdict_of_hunt()
    }

    /// The distinct failures, what is wrong with us first, then the commonest.
    pub fn failures(&self) -> Vec<(&String, &Catch)> {
        let mut failures: Vec<(&String, &Catch)> = self.caught.iter().collect();
        failures.sort_by_key(|(signature, catch)| {
            let ours = matches!(catch.summary.verdict, Verdict::Internal | Verdict::Nondeterminism);
            let is_violation = catch.summary.verdict == Verdict::Violation;
            (!ours, !is_violation, std::cmp::Reverse(catch.runs), (*signature).clone())
        });
        failures
    }

    /// What was tried, of what there is to try: the part's name and its counts.
    pub fn denominators(&self, quarry: &Quarry, course: &Course) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let counts = |tally: &Tally| {
            let broke = grouped(tally.ended(Verdict::Violation));
            let inert = grouped(tally.ended(Verdict::Inert));
            match tally.untried {
                0 => format!("{broke} broke, {inert} inert"),
                untried => format!("{broke} broke, {inert} inert, {} untried", grouped(untried)),
            }
        };
        if self.calm.runs > 0 {
            let broke = grouped(self.calm.ended(Verdict::Violation));
            lines.push(("fault-free", format!("{}: {broke} broke", grouped(self.calm.runs))));
        }
        if let Some(survey) = course.survey() {
            let all = grouped(course.trials().len() as u64);
            let text = format!(
                "{} of {all} tried, at {}: {}",
                grouped(self.singles.runs),
                counted(survey.moments.len() as u64, "moment"),
                counts(&self.singles)
            );
            lines.push(("single faults", text));
        }
        if self.again.runs > 0 {
            let tried = grouped(self.again.runs);
            lines.push(("in weather", format!("{tried} single faults: {}", counts(&self.again))));
        }
        if self.pairs.runs > 0 {
            let (tried, all) = (grouped(self.pairs.runs), grouped(course.pairs()));
            lines.push(("pairs", format!("{tried} of {all} tried: {}", counts(&self.pairs))));
        }
        if self.drawn.runs > 0 {
            let text = format!(
                "{} ({} draws): {}; {} took effect, {} did not",
                grouped(self.drawn.runs),
                quarry.draws.name(),
                counts(&self.drawn),
                counted(self.drawn.touched, "fault"),
                grouped(self.drawn.inert),
            );
            lines.push(("drawn plans", text));
        }
        lines
    }

    /// Why a hunt for pairs, or this shard of one, tried none; `None` of one that did, or that is
    /// for something else.
    pub fn why_no_pair(&self, course: &Course, shard: Option<Shard>) -> Option<String> {
        if course.strategy() != Strategy::Pairs || self.pairs.runs > 0 {
            return None;
        }
        let singles = course.trials().len() as u64;
        let before = course.before_pairs();
        let pairs = course.pairs();
        let mend = |runs: String| match course.runs() {
            Some(_) => format!("give it {runs}"),
            None => "give it more time, or let it go on".to_owned(),
        };
        let why = if self.singles.runs < singles {
            let tried = format!("{} of {}", grouped(self.singles.runs), grouped(singles));
            let mend = mend(format!("more than --seeds {before}"));
            format!("pairs follow from the single faults, and {tried} were tried; {mend}")
        } else if pairs == 0 {
            let fence = match course.quarry().fence {
                Fence::Full => "leaves",
                Fence::Off | Fence::Write => "or a full fence leaves",
            };
            format!(
                "no two different faults each did something in the same lock cycle and broke \
                 nothing alone; a longer storm (--set duration=20s) {fence} more to pair"
            )
        } else if let Some(shard) = shard {
            let all = counted(pairs, "pair");
            // Pairs are the steps behind the single faults; every so-manieth is this shard's.
            let own = (before..before + pairs).find(|number| shard.has(*number));
            match own {
                Some(first) => {
                    let mend = mend(format!("--seeds {} or more", first + 1));
                    format!("of the {all} the first that is this shard's was not reached; {mend}")
                }
                None => format!(
                    "all of the {all} fall to other shards; `lockstorm merge` puts the shards \
                     together"
                ),
            }
        } else {
            let mend = mend(format!(
                "more than --seeds {before} (--seeds {} tries all that are known)",
                before + pairs
            ));
            let known = counted(pairs, "pair");
            format!(
                "the single faults took every run there was, and {known} of them are known; {mend}"
            )
        };
        Some(format!("no pair was tried: {why}"))
    }

    /// The single faults that broke something: the fault, at how many moments of how many
    /// it did, and which kinds of violation; those that did it most often first.
    pub fn breakers(&self) -> Vec<Breaker> {
        let mut of_fault: BTreeMap<&str, Breaker> = BTreeMap::new();
        for ((_, fault), outcome) in &self.outcomes {
            let breaker = of_fault.entry(fault).or_insert_with(|| Breaker {
                fault: fault.clone(),
                broke: 0,
                tried: 0,
                kinds: Default::default(),
            });
            breaker.tried += 1;
            if outcome.verdict == Verdict::Violation {
                breaker.broke += 1;
                breaker.kinds.extend(outcome.violations.iter().copied());
            }
        }
        let mut breakers: Vec<Breaker> =
            of_fault.into_values().filter(|breaker| breaker.broke > 0).collect();
        breakers.sort_by_key(|breaker| std::cmp::Reverse(breaker.broke));
        breakers
    }

    /// What a safe hunt rests on; empty for one that is not safe.
    pub fn rests_on(&self, course: &Course) -> Vec<String> {
        if !self.verdict().is_safe() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let all = course.trials().len() as u64;
        if all > 0 && self.singles.runs == all {
            let untried = match self.singles.untried {
                0 => String::new(),
                untried => {
                    format!(
                        "; {} of those let the lock pass to nobody in the storm",
                        grouped(untried)
                    )
                }
            };
            lines.push(format!(
                "the certificate is clean: none of {} single faults broke anything, and {} of \
                 them did something{untried}",
                grouped(all),
                grouped(all - self.singles.ended(Verdict::Inert))
            ));
        } else if self.singles.runs > 0 {
            lines.push(format!(
                "no certificate: {} of {} single faults were tried",
                grouped(self.singles.runs),
                grouped(all)
            ));
        }
        if self.again.runs > 0 {
            let tried = counted(self.again.runs, "single fault");
            lines.push(format!("none of {tried} in the weather of seeds broke anything"));
        }
        if self.pairs.runs > 0 {
            lines.push(format!("none of {} broke anything", counted(self.pairs.runs, "pair")));
        }
        lines.extend(self.drawn.bound());
        lines
    }
}

/// Whether a run is told as a failure. A single fault or a pair that does nothing, or that leaves
/// the lock untried, is counted in the coverage, and is no failure.
pub fn is_failure(step: &Step, summary: &Summary) -> bool {
    let proves_nothing = summary.verdict == Verdict::Inert || summary.untried;
    let is_counted = proves_nothing && step.source != Source::Drawn;
    !summary.verdict.is_safe() && !is_counted
}

#[cfg(test)]
mod tests;

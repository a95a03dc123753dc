//! Judges claims: runs the storms of their arms, measures, compares with what the sentences
//! predict.
//!
//! Storms run on several threads, each on a fresh one of its own; what they come to does not
//! depend on how many there are. A storm that several arms share is run once for all of them.

use std::collections::BTreeMap;

use super::measure::{Sample, Value};
use super::prove::Witness;
use super::{Arm, Claim, Measure, Prediction, Reading, Standing, Storm, expected};
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::{PlanError, Seed};
use crate::storm::abreast::spread;
use crate::storm::{self, Run};

/// What one arm of an experiment came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The arm.
    pub arm: &'static Arm,
    /// What its runs say; `None` if they say nothing.
    pub value: Option<Value>,
    /// How many runs there were.
    pub runs: u64,
    /// The runs of which nothing can be said, by how they ended: they are in no share and in no
    /// number, neither as something that happened nor as something that did not.
    pub silent: BTreeMap<Verdict, u64>,
    /// Whether what the sentence predicts came true; `None` where it predicts nothing, or where
    /// most runs say nothing.
    pub holds: Option<bool>,
}

impl Outcome {
    /// How many of its runs say something.
    pub fn told(&self) -> u64 {
        self.runs - self.silent.values().sum::<u64>()
    }

    /// Whether too many of its runs say nothing for anything to be said of it.
    pub fn is_mostly_silent(&self) -> bool {
        is_mostly_silent(self.told(), self.runs)
    }
}

/// See [`Outcome::is_mostly_silent`].
fn is_mostly_silent(told: u64, runs: u64) -> bool {
    told == 0 || told * 2 < runs
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
    /// A run that shows it.
    pub witness: Option<Witness>,
}

impl Judged {
    /// Whether it came out as the committed table says.
    pub fn is_as_expected(&self) -> bool {
        expected::of(self.claim.id) == Some(self.standing)
    }
}

/// What a run says to an arm.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub seed: Seed,
    pub verdict: Verdict,
    pub trace: String,
    /// `None` if it says nothing.
    pub sample: Option<Sample>,
}

impl Sighting {
    /// What this run says to an arm with this measure.
    pub(super) fn of(run: &Run, measure: Measure) -> Sighting {
        Sighting {
            seed: run.plan.seed,
            verdict: run.judgement.verdict,
            trace: run.trace_hash.to_string(),
            sample: measure.of(run),
        }
    }
}

/// Judges these claims with so many seeds for each arm, on so many threads; `note` hears of
/// each storm that is done. Witnesses are not repeated yet ([`prove`](super::prove)).
///
/// # Errors
/// An arm whose storm is impossible: ours.
pub fn judge(
    claims: &[&'static Claim],
    seeds: u64,
    jobs: usize,
    note: &(dyn Fn() + Sync),
) -> Result<Vec<Judged>, PlanError> {
    let storms = storms(claims);
    let tried = spread(&storms, jobs, |(storm, measures)| {
        let tried = try_storm(storm, measures, seeds);
        note();
        tried
    });
    let tried: Result<Vec<_>, PlanError> = tried.into_iter().collect();
    let tried = tried?;
    let sightings = |arm: &Arm| {
        let at = storms.iter().position(|(storm, _)| *storm == arm.storm)?;
        let measure = storms[at].1.iter().position(|measure| *measure == arm.measure)?;
        Some(tried[at][measure].as_slice())
    };
    Ok(claims
        .iter()
        .map(|claim| {
            let of_arm = |arm| sightings(arm).unwrap_or_default();
            conclude(claim, &claim.arms().iter().map(of_arm).collect::<Vec<_>>())
        })
        .collect())
}

/// The storms of these claims, each once, with all that is measured of it.
pub fn storms(claims: &[&'static Claim]) -> Vec<(Storm, Vec<Measure>)> {
    let mut storms: Vec<(Storm, Vec<Measure>)> = Vec::new();
    for arm in claims.iter().flat_map(|claim| claim.arms()) {
        match storms.iter_mut().find(|(storm, _)| *storm == arm.storm) {
            Some((_, measures)) if measures.contains(&arm.measure) => {}
            Some((_, measures)) => measures.push(arm.measure),
            None => storms.push((arm.storm, vec![arm.measure])),
        }
    }
    storms
}

/// For each measure what each run says.
fn try_storm(
    storm: &Storm,
    measures: &[Measure],
    seeds: u64,
) -> Result<Vec<Vec<Sighting>>, PlanError> {
    let mut sightings: Vec<Vec<Sighting>> = measures.iter().map(|_| Vec::new()).collect();
    for seed in 1..=seeds {
        let run = storm::run(&storm.plan(Seed(seed))?, &EventEngine);
        for (of_measure, measure) in sightings.iter_mut().zip(measures) {
            of_measure.push(Sighting::of(&run, *measure));
        }
    }
    Ok(sightings)
}

fn conclude(claim: &'static Claim, sightings: &[&[Sighting]]) -> Judged {
    let samples = |of_arm: &[Sighting]| -> Vec<Sample> {
        of_arm.iter().filter_map(|sighting| sighting.sample).collect()
    };
    let arms = || claim.arms().iter().zip(sightings);
    let is_silent =
        |of_arm: &[Sighting]| is_mostly_silent(samples(of_arm).len() as u64, of_arm.len() as u64);
    let values: Vec<Option<Value>> =
        arms().map(|(arm, of_arm)| arm.measure.value(&samples(of_arm))).collect();
    // What most runs say nothing of is compared with nothing.
    let known: Vec<Option<Value>> = values
        .iter()
        .zip(sightings)
        .map(|(value, of_arm)| value.filter(|_| !is_silent(of_arm)))
        .collect();
    let outcomes: Vec<Outcome> = arms()
        .zip(&values)
        .enumerate()
        .map(|(at, ((arm, of_arm), value))| Outcome {
            arm,
            value: *value,
            runs: of_arm.len() as u64,
            silent: silent(of_arm),
            holds: known[at].and_then(|value| holds(arm.predicts, value, &known)),
        })
        .collect();
    let predicted = outcomes.iter().filter(|outcome| outcome.arm.predicts != Prediction::Nothing);
    let told: Vec<Option<bool>> = predicted.map(|outcome| outcome.holds).collect();
    let standing = Standing::of(claim.reading, &told);
    let witness = witness(claim.reading, standing, &outcomes, sightings);
    Judged { claim, outcomes, standing, witness }
}

fn silent(of_arm: &[Sighting]) -> BTreeMap<Verdict, u64> {
    let mut silent = BTreeMap::new();
    for sighting in of_arm.iter().filter(|sighting| sighting.sample.is_none()) {
        *silent.entry(sighting.verdict).or_default() += 1;
    }
    silent
}

/// Whether a prediction came true; `None` if there is none, or what it is compared with was not
/// measured.
fn holds(predicts: Prediction, value: Value, all: &[Option<Value>]) -> Option<bool> {
    let other = |arm: usize| all.get(arm).copied().flatten().map(Value::number);
    let here = value.number();
    match predicts {
        Prediction::Nothing => None,
        Prediction::Never => Some(here == 0),
        Prediction::Sometimes => Some(here > 0),
        Prediction::EachTime => Some(here == value.of()),
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

/// The run that shows why a sentence stands as it does: of the arms that decided, the one with
/// the plainest evidence (a violation, then something else that happened, then something that
/// did not, then a number).
fn witness(
    reading: Reading,
    standing: Standing,
    outcomes: &[Outcome],
    sightings: &[&[Sighting]],
) -> Option<Witness> {
    if standing == Standing::NotMeasured {
        return None;
    }
    // What is not confirmed is shown by an arm that did not come out as predicted.
    let wanted = standing == Standing::Confirmed;
    let decided = outcomes.iter().zip(sightings).enumerate();
    let decided = decided.filter(|(_, (outcome, _))| outcome.holds == Some(wanted));
    let shown = decided.filter_map(|(at, (outcome, of_arm))| {
        let sighting = shown(outcome, of_arm)?;
        let rank = match (sighting.verdict, sighting.sample) {
            (Verdict::Violation, Some(Sample::Happened(true))) => 0,
            (_, Some(Sample::Happened(true))) => 1,
            (_, Some(Sample::Happened(false))) => 2,
            _ => 3,
        };
        Some((rank, at, sighting))
    });
    let (_, at, sighting) = shown.min_by_key(|(rank, at, _)| (*rank, *at))?;
    // What is confirmed because nothing happened has an example and no proof.
    let is_decisive = !wanted || reading == Reading::Possible;
    Witness::of(at, outcomes[at].arm, sighting, is_decisive)
}

/// The run of an arm that shows what its runs say together.
fn shown<'a>(outcome: &Outcome, of_arm: &'a [Sighting]) -> Option<&'a Sighting> {
    let says = |wanted: Sample| of_arm.iter().find(|sighting| sighting.sample == Some(wanted));
    match outcome.value? {
        // What must happen each time is contradicted by a run in which it did not.
        Value::Share(share) => {
            let each_time = outcome.arm.predicts == Prediction::EachTime;
            let is_there = !(each_time && outcome.holds == Some(false)) && share.count > 0;
            says(Sample::Happened(is_there))
        }
        Value::Number { number, .. } => says(Sample::Number(number)),
    }
}

#[cfg(test)]
mod tests;

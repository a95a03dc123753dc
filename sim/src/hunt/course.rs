//! The course of a hunt: which plans are run, in which order.
//!
//! It goes in rounds. A round is fixed before it begins, by the seed, the budget and what
//! earlier rounds brought, so nothing depends on how many workers there are or which of
//! them is fast; and a hunt that was interrupted finds its way again by what it wrote down.
//!
//! What there is to try: *fault-free runs*, of which one gives the moments at which faults can
//! strike (whoever fails without a fault is told of first); *single faults*, every one at
//! every moment ([`certificate`]), in the order of [`rank`]; *pairs* of two that
//! each did something in the same lock cycle and broke nothing alone, those first that came
//! near the lock ([`pairs`](super::pairs)); and the *swarm* of drawn plans.
//!
//! A portfolio begins with a few drawn plans, which find what is everywhere; then it takes of
//! each by turns, step by step: of eight steps three single faults, two once more in the weather
//! that a seed draws, two drawn plans, one pair. What one has no more of falls to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::certificate::{self, Key, Outcome, Trial};
use super::moments::{self, Survey};
use super::pairs::Pairs;
use super::{Quarry, Summary, Task, rank};
use crate::engine::Engine;
use crate::plan::{PlanError, Seed, file};
use crate::report::layout::counted;

/// How a hunt searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every single fault at every moment.
    Certify,
    /// Those, then pairs of them.
    Pairs,
    /// Drawn plans.
    Swarm,
    /// All three.
    Portfolio,
}

impl Strategy {
    /// As flags and files write it.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Certify => "certify",
            Strategy::Pairs => "pairs",
            Strategy::Swarm => "swarm",
            Strategy::Portfolio => "portfolio",
        }
    }
}

/// From which seeds on a hunt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Seeds {
    /// The first that is drawn from.
    pub first: Seed,
    /// The first that the fault-free run is sought from. It stays when fresh seeds are
    /// drawn, so that certificates stay comparable.
    pub calm: Seed,
}

/// Where a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No fault: the how-manieth of the runs in which moments were looked for.
    Calm(usize),
    /// A single fault, by its position among the trials.
    Single(usize),
    /// A single fault once more, in the weather of a seed: other sections, latencies, clocks.
    Again(usize),
    /// Two of them.
    Pair(usize, usize),
    /// A draw.
    Drawn,
}

/// One run of a hunt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The how-manieth, from 0, over all shards.
    pub number: u64,
    /// Where it comes from.
    pub source: Source,
    /// What is run.
    pub task: Task,
    /// What came of it, where the course itself has run it.
    pub known: Option<Summary>,
}

/// A part of a hunt: shard `index` of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// Whether the step of this number is its own.
    pub fn has(self, number: u64) -> bool {
        number % self.of == self.index - 1
    }
}

/// Steps in a round.
const ROUND: u64 = 200;

/// How many pairs or seeds a hunt tries that was given no number of runs.
pub const DEFAULT_RUNS: u64 = 1_000;

/// With so many drawn plans a portfolio begins.
const OPENING: u64 = 16;

/// What a portfolio takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Single,
    Again,
    Pair,
    Drawn,
}

/// The turns of a portfolio, over and over.
const TURNS: [Turn; 8] = [
    Turn::Again,
    Turn::Single,
    Turn::Drawn,
    Turn::Single,
    Turn::Again,
    Turn::Single,
    Turn::Drawn,
    Turn::Pair,
];

/// The course.
pub struct Course {
    quarry: Quarry,
    engine: Arc<dyn Engine>,
    strategy: Strategy,
    seeds: Seeds,
    runs: Option<u64>,
    endless: bool,
    survey: Option<Survey>,
    /// Fault-free runs that are not yet among the steps.
    calm: Vec<Summary>,
    trials: Vec<Trial>,
    /// Positions of trials in the order in which they are run.
    order: Vec<usize>,
    next_single: usize,
    /// How many faults there are, each at many moments.
    kinds: usize,
    /// How many single faults were tried once more, in the weather of a seed.
    again: u64,
    pairs: Pairs,
    drawn: u64,
    number: u64,
}

impl std::fmt::Debug for Course {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut told = formatter.debug_struct("Course");
        told.field("strategy", &self.strategy).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Course {
    /// A course that has not begun. Without a number of `runs`: all single faults, and
    /// beside them [`DEFAULT_RUNS`] pairs or seeds, in a portfolio what is between them;
    /// `endless` has no end. What is to be tried is looked for where it is needed: by a
    /// portfolio after its opening.
    ///
    /// # Errors
    /// When the quarry names something unknown.
    pub fn new(
        quarry: &Quarry,
        engine: Arc<dyn Engine>,
        strategy: Strategy,
        seeds: Seeds,
        runs: Option<u64>,
        endless: bool,
    ) -> Result<Course, PlanError> {
        let mut course = Course {
            quarry: quarry.clone(),
            engine,
            strategy,
            seeds,
            runs,
            endless,
            survey: None,
            calm: Vec::new(),
            trials: Vec::new(),
            order: Vec::new(),
            next_single: 0,
            kinds: 0,
            again: 0,
            pairs: Pairs::new(seeds.calm),
            drawn: 0,
            number: 0,
        };
        match strategy {
            Strategy::Certify | Strategy::Pairs => course.look_around()?,
            Strategy::Swarm => {}
            Strategy::Portfolio => drop(quarry.calm_plan(seeds.calm)?),
        }
        Ok(course)
    }

    /// Finds out what there is to try.
    fn look_around(&mut self) -> Result<(), PlanError> {
        let survey = moments::survey(&self.quarry, self.engine.as_ref(), self.seeds.calm)?;
        self.calm = survey.calm.iter().map(Summary::of).collect();
        self.trials = certificate::trials(&survey);
        self.order = rank::order(&self.trials, self.seeds.calm);
        let names = self.trials.iter().map(|trial| trial.single.name.as_str());
        self.kinds = names.collect::<BTreeSet<_>>().len();
        self.survey = Some(survey);
        Ok(())
    }

    /// The fault-free run, where single faults are tried; of a portfolio, when its opening is
    /// over.
    pub fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// All trials.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// How many runs it will be, if that is known.
    pub fn budget(&self) -> Option<u64> {
        if self.runs.is_some() {
            return self.runs;
        }
        let calm = self.survey.as_ref().map(|survey| survey.calm.len() as u64);
        let singles = self.trials.len() as u64;
        match self.strategy {
            Strategy::Certify => Some(singles + calm?),
            _ if self.endless => None,
            Strategy::Portfolio => {
                let of_singles = TURNS.iter().filter(|turn| **turn == Turn::Single).count() as u64;
                let turns = singles.div_ceil(of_singles) * TURNS.len() as u64;
                Some((OPENING + calm? + turns).max(DEFAULT_RUNS))
            }
            Strategy::Pairs => Some(singles + calm? + DEFAULT_RUNS),
            Strategy::Swarm => Some(DEFAULT_RUNS),
        }
    }

    /// How it searches.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How many runs it may make, if that was said.
    pub fn runs(&self) -> Option<u64> {
        self.runs
    }

    /// What is hunted.
    pub fn quarry(&self) -> &Quarry {
        &self.quarry
    }

    /// How many runs come before the first pair: those without a fault, and the single faults.
    pub fn before_pairs(&self) -> u64 {
        self.survey.as_ref().map_or(0, |survey| survey.calm.len() as u64) + self.trials.len() as u64
    }

    /// What to say before a hunt for pairs that is not given enough runs to try one.
    pub fn too_few_for_pairs(&self) -> Option<String> {
        let before = self.before_pairs();
        if self.strategy != Strategy::Pairs || self.runs? > before {
            return None;
        }
        let singles = self.trials.len() as u64;
        Some(format!(
            "no pair will be tried: {} without a fault and {} come first; give it more than \
             --seeds {before}",
            counted(before - singles, "run"),
            counted(singles, "single fault"),
        ))
    }

    /// How many pairs there are to try, by what is known so far.
    pub fn pairs(&self) -> u64 {
        self.pairs.total()
    }

    /// The next round; empty when the hunt is over.
    ///
    /// # Errors
    /// When the quarry names something unknown.
    pub fn next_round(&mut self) -> Result<Vec<Step>, PlanError> {
        let is_opening = self.strategy == Strategy::Portfolio && self.number == 0;
        if self.strategy == Strategy::Portfolio && !is_opening && self.survey.is_none() {
            self.look_around()?;
        }
        let left = self.budget().map_or(ROUND, |budget| budget.saturating_sub(self.number));
        let size = left.min(if is_opening { OPENING } else { ROUND });
        let mut round = Vec::new();
        self.take_calm(size, &mut round);
        let rest = |round: &Vec<Step>| size - round.len() as u64;
        match self.strategy {
            Strategy::Certify => self.take_singles(rest(&round), &mut round),
            Strategy::Pairs => {
                self.take_singles(rest(&round), &mut round);
                self.take_pairs(rest(&round), &mut round);
            }
            Strategy::Swarm => self.take_drawn(rest(&round), &mut round),
            Strategy::Portfolio if is_opening => self.take_drawn(size, &mut round),
            Strategy::Portfolio => self.take_by_turns(size, &mut round),
        }
        Ok(round)
    }

    /// Of what a portfolio has, a step of each in its turn.
    fn take_by_turns(&mut self, size: u64, round: &mut Vec<Step>) {
        for turn in TURNS.iter().cycle() {
            if round.len() as u64 >= size {
                return;
            }
            let before = round.len();
            match turn {
                Turn::Single => self.take_singles(1, round),
                Turn::Again => self.take_again(round),
                Turn::Pair => self.take_pairs(1, round),
                Turn::Drawn => {}
            }
            if round.len() == before && *turn == Turn::Single {
                // What there were no singles for falls to the pairs …
                self.take_pairs(1, round);
            }
            if round.len() == before {
                // … and what there were no pairs for to the swarm.
                self.take_drawn(1, round);
            }
        }
    }

    /// From where every fault has had its turn once, with another moment each: what those
    /// moments show is being found out by the single faults.
    fn take_again(&mut self, round: &mut Vec<Step>) {
        let place = self.kinds as u64 + self.again;
        let place = usize::try_from(place).unwrap_or(usize::MAX) % self.order.len().max(1);
        let Some(index) = self.order.get(place).copied() else { return };
        let seed = Seed(self.seeds.first.0.wrapping_add(self.again));
        self.again += 1;
        let faults = file::write_faults(std::slice::from_ref(&self.trials[index].single.fault));
        self.push(Source::Again(index), Task::InWeather { seed, faults }, round);
    }

    fn take_calm(&mut self, most: u64, round: &mut Vec<Step>) {
        let all = self.survey.as_ref().map_or(0, |survey| survey.calm.len());
        for _ in 0..most {
            if self.calm.is_empty() {
                return;
            }
            let position = all - self.calm.len();
            let summary = self.calm.remove(0);
            let task = Task::written(summary.seed, &[]);
            self.push(Source::Calm(position), task, round);
            if let Some(step) = round.last_mut() {
                step.known = Some(summary);
            }
        }
    }

    fn take_drawn(&mut self, most: u64, round: &mut Vec<Step>) {
        for _ in 0..most {
            let task = Task::Drawn(Seed(self.seeds.first.0.wrapping_add(self.drawn)));
            self.drawn += 1;
            self.push(Source::Drawn, task, round);
        }
    }

    fn take_singles(&mut self, most: u64, round: &mut Vec<Step>) {
        let Some(survey) = self.survey.take() else { return };
        for _ in 0..most {
            let Some(index) = self.order.get(self.next_single).copied() else { break };
            self.next_single += 1;
            let task = self.trials[index].task(&survey);
            self.push(Source::Single(index), task, round);
        }
        self.survey = Some(survey);
    }

    fn take_pairs(&mut self, most: u64, round: &mut Vec<Step>) {
        let Some(seed) = self.survey.as_ref().map(|survey| survey.plan.seed) else { return };
        for (a, b) in self.pairs.next(most, &self.trials) {
            let faults = [a, b].map(|index| self.trials[index].single.fault.clone());
            self.push(Source::Pair(a, b), Task::written(seed, &faults), round);
        }
    }

    fn push(&mut self, source: Source, task: Task, round: &mut Vec<Step>) {
        round.push(Step { number: self.number, source, task, known: None });
        self.number += 1;
    }

    /// What a step brought.
    pub fn note(&mut self, step: &Step, summary: &Summary) {
        if let (Source::Single(index), Some(survey)) = (step.source, &self.survey) {
            let calm = survey.run.judgement.goals.handovers as u64;
            self.pairs.note(index, summary, calm, &self.trials);
        }
    }

    /// Whether a shard makes this step. Where pairs follow from single faults every shard
    /// tries all of those, so that all agree about the pairs; fault-free runs cost it nothing.
    pub fn is_of(&self, step: &Step, shard: Option<Shard>) -> bool {
        let Some(shard) = shard else { return true };
        let is_common = match step.source {
            Source::Calm(_) => true,
            Source::Single(_) => self.strategy != Strategy::Certify,
            Source::Again(_) | Source::Pair(..) | Source::Drawn => false,
        };
        is_common || shard.has(step.number)
    }

    /// What a step is, for people.
    pub fn label(&self, step: &Step) -> String {
        let name = |index: usize| {
            let (moment, fault) = self.trials[index].key();
            format!("{fault} at {moment}")
        };
        match step.source {
            Source::Single(index) => name(index),
            Source::Again(index) => format!("{}, seed {}", name(index), step.task.seed()),
            Source::Pair(a, b) => format!("{} and {}", name(a), name(b)),
            Source::Calm(_) => format!("no fault, seed {}", step.task.seed()),
            Source::Drawn => format!("seed {}", step.task.seed()),
        }
    }

    /// The certificate's line that a step is; `None` for others than single faults.
    pub fn key(&self, step: &Step) -> Option<Key> {
        match step.source {
            Source::Single(index) => Some(self.trials[index].key()),
            _ => None,
        }
    }

    /// The certificate of what was tried; `None` for a swarm.
    pub fn certificate(
        &self,
        quarry: &Quarry,
        outcomes: &BTreeMap<Key, Outcome>,
    ) -> Option<certificate::Certificate> {
        let survey = self.survey.as_ref()?;
        let untried = self.trials.len().saturating_sub(outcomes.len()) as u64;
        Some(certificate::Certificate::new(quarry, survey, outcomes.clone(), untried))
    }
}

#[cfg(test)]
mod tests;

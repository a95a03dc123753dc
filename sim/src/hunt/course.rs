//! The course of a hunt: which plans are run, in which order.
//!
//! It goes in rounds. A round is fixed before it begins, by the seed, the budget and what
//! earlier rounds brought, so nothing depends on how many workers there are or which of
//! them is fast; and a hunt that was interrupted finds its way again by what it wrote down.
//!
//! In order of expected yield: *single faults*, every one at every moment
//! ([`certificate`]), in an order drawn by the seed; *pairs* of two
//! that each did something in the same lock cycle and broke nothing alone, those first that
//! came near the lock ([`pairs`](super::pairs)); and the *swarm* of drawn plans. A
//! portfolio takes of each in every round: two parts, one part, one part, and what one has
//! no more of falls to the next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::certificate::{self, Key, Outcome, Trial};
use super::moments::{self, Survey};
use super::pairs::Pairs;
use super::{Quarry, Summary, Task};
use crate::draw::Draw;
use crate::engine::Engine;
use crate::plan::{PlanError, Seed};

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
    /// A single fault, by its position among the trials.
    Single(usize),
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
}

/// A part of a hunt: shard `index` of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

/// Steps in a round.
const ROUND: u64 = 200;

/// How many pairs or seeds a hunt tries that was given no number of runs.
pub const DEFAULT_RUNS: u64 = 1_000;

/// The course.
#[derive(Debug)]
pub struct Course {
    strategy: Strategy,
    first: Seed,
    budget: Option<u64>,
    survey: Option<Survey>,
    trials: Vec<Trial>,
    /// Positions of trials in the order in which they are run.
    order: Vec<usize>,
    next_single: usize,
    pairs: Pairs,
    drawn: u64,
    number: u64,
}

impl Course {
    /// Finds out what there is to try. Without a `budget` of runs: all single faults, and
    /// beside them [`DEFAULT_RUNS`] pairs or seeds, in a portfolio as many as single faults;
    /// `endless` has no end.
    ///
    /// # Errors
    /// When the quarry names something unknown.
    pub fn new(
        quarry: &Quarry,
        engine: &dyn Engine,
        strategy: Strategy,
        seeds: Seeds,
        budget: Option<u64>,
        endless: bool,
    ) -> Result<Course, PlanError> {
        let survey = match strategy {
            Strategy::Swarm => None,
            _ => Some(moments::survey(quarry, engine, seeds.calm)?),
        };
        let first = seeds.first;
        let trials = survey.as_ref().map(certificate::trials).unwrap_or_default();
        let mut order: Vec<usize> = (0..trials.len()).collect();
        order.sort_by_cached_key(|index| {
            let (moment, fault) = trials[*index].key();
            let entity = format!("{moment} | {fault}");
            (Draw::new(seeds.calm.0, "hunt/singles", &entity).bits(), *index)
        });
        let singles = trials.len() as u64;
        let budget = match (budget, strategy) {
            (Some(budget), _) => Some(budget),
            (None, Strategy::Certify) => Some(singles),
            (None, _) if endless => None,
            // Half of its runs are single faults.
            (None, Strategy::Portfolio) => Some((2 * singles).max(DEFAULT_RUNS)),
            (None, _) => Some(singles + DEFAULT_RUNS),
        };
        let pairs = Pairs::new(seeds.calm);
        Ok(Course {
            strategy,
            first,
            budget,
            survey,
            trials,
            order,
            next_single: 0,
            pairs,
            drawn: 0,
            number: 0,
        })
    }

    /// The fault-free run, where single faults are tried.
    pub fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// All trials.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// How many runs it will be, if that is known.
    pub fn budget(&self) -> Option<u64> {
        self.budget
    }

    /// How many pairs there are to try, by what is known so far.
    pub fn pairs(&self) -> u64 {
        self.pairs.total()
    }

    /// The next round; empty when the hunt is over.
    pub fn next_round(&mut self) -> Vec<Step> {
        let left = self.budget.map_or(ROUND, |budget| budget.saturating_sub(self.number));
        let size = left.min(ROUND);
        let (singles, pairs) = match self.strategy {
            Strategy::Certify | Strategy::Pairs => (size, size),
            Strategy::Swarm => (0, 0),
            Strategy::Portfolio => (size.div_ceil(2), size / 4),
        };
        let mut round = Vec::new();
        self.take_singles(singles, &mut round);
        if self.strategy != Strategy::Certify {
            // What there were no singles for falls to the pairs.
            let pairs = match self.strategy {
                Strategy::Pairs => size - round.len() as u64,
                _ if round.is_empty() => size / 2,
                _ => pairs,
            };
            self.take_pairs(pairs, &mut round);
        }
        if matches!(self.strategy, Strategy::Swarm | Strategy::Portfolio) {
            while (round.len() as u64) < size {
                let task = Task::Drawn(Seed(self.first.0.wrapping_add(self.drawn)));
                self.drawn += 1;
                self.push(Source::Drawn, task, &mut round);
            }
        }
        round
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
        round.push(Step { number: self.number, source, task });
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
    /// tries all of those, so that all agree about the pairs.
    pub fn is_of(&self, step: &Step, shard: Option<Shard>) -> bool {
        let Some(shard) = shard else { return true };
        let is_common = matches!(step.source, Source::Single(_));
        (is_common && self.strategy != Strategy::Certify)
            || step.number % shard.of == shard.index - 1
    }

    /// What a step is, for people.
    pub fn label(&self, step: &Step) -> String {
        let name = |index: usize| {
            let (moment, fault) = self.trials[index].key();
            format!("{fault} at {moment}")
        };
        match step.source {
            Source::Single(index) => name(index),
            Source::Pair(a, b) => format!("{} and {}", name(a), name(b)),
            Source::Drawn => format!("seed {}", step.task.seed()),
        }
    }

    /// The certificate's line that a step is; `None` for pairs and draws.
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

//! Pairs of single faults: of two that each did something in the same lock cycle and broke
//! nothing alone.
//!
//! Those come first that came near the lock: an advisory about it (a lost grant, an
//! overstay), a failover, handovers that did not happen. Each of them meets one partner
//! after the other, in an order drawn by the seed, so that any budget is spread over all.

use std::collections::{BTreeMap, BTreeSet};

use super::Summary;
use super::certificate::Trial;
use crate::check::Verdict;
use crate::draw::Draw;
use crate::plan::Seed;

/// A lock cycle: a client and the how-manieth of its attempts.
type Cycle = (String, u32);

/// Which pairs there are, and which come next.
#[derive(Debug)]
pub struct Pairs {
    seed: Seed,
    /// Trials that did something and broke nothing, by their cycle.
    cycles: BTreeMap<Cycle, Vec<usize>>,
    /// The same trials, those that came nearest first.
    ranked: BTreeSet<(std::cmp::Reverse<u8>, u64, usize)>,
    used: BTreeSet<(usize, usize)>,
    /// How many pairs there are by what is known.
    total: u64,
    /// The partner that each gets next.
    turn: usize,
    /// Whose turn it is, in the order of rank.
    place: usize,
}

impl Pairs {
    /// None yet.
    pub fn new(seed: Seed) -> Pairs {
        let (cycles, ranked, used) = Default::default();
        Pairs { seed, cycles, ranked, used, total: 0, turn: 0, place: 0 }
    }

    /// What came of the single fault `index`; `calm_handovers` is how often the lock changes
    /// hands without it.
    pub fn note(&mut self, index: usize, summary: &Summary, calm_handovers: u64, trials: &[Trial]) {
        let is_quiet = summary.verdict.is_safe() || summary.verdict == Verdict::Unknown;
        if summary.faults_showed == 0 || !is_quiet {
            return;
        }
        let draw = Draw::new(self.seed.0, "hunt/pairs", &index.to_string()).bits();
        let near = nearness(summary, calm_handovers);
        let partners = self.cycles.entry(cycle(&trials[index])).or_default();
        let new = partners.iter().filter(|other| is_pair(trials, index, **other)).count();
        self.total += new as u64;
        partners.push(index);
        self.ranked.insert((std::cmp::Reverse(near), draw, index));
        // The order has changed: begin anew, past the pairs that were.
        (self.turn, self.place) = (0, 0);
    }

    /// How many pairs there are by what is known, tried or not: as many as [`Pairs::next`]
    /// gives in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The next pairs, at most so many.
    pub fn next(&mut self, most: u64, trials: &[Trial]) -> Vec<(usize, usize)> {
        let ranked: Vec<usize> = self.ranked.iter().map(|(_, _, index)| *index).collect();
        let near = self.ranked.iter().filter(|(near, _, _)| near.0 > 0).count();
        let longest = self.cycles.values().map(Vec::len).max().unwrap_or(0);
        let mut found = Vec::new();
        // First the near ones with all others, then whatever is left.
        while (found.len() as u64) < most && self.turn < 2 * longest {
            let callers = if self.turn < longest { &ranked[..near] } else { &ranked[near..] };
            let Some(one) = callers.get(self.place).copied() else {
                (self.turn, self.place) = (self.turn + 1, 0);
                continue;
            };
            self.place += 1;
            let partners = &self.cycles[&cycle(&trials[one])];
            let begin = Draw::new(self.seed.0, "hunt/partners", &one.to_string()).bits();
            let turn = self.turn % longest;
            if turn >= partners.len() {
                continue;
            }
            let position = (begin as usize).wrapping_add(turn) % partners.len();
            let other = partners[position];
            let pair = (one.min(other), one.max(other));
            if is_pair(trials, one, other) && self.used.insert(pair) {
                found.push(pair);
            }
        }
        found
    }
}

/// Whether two trials of a cycle make a pair: one fault twice is no pair.
fn is_pair(trials: &[Trial], one: usize, other: usize) -> bool {
    let kind = |index: usize| &trials[index].single.fault.kind;
    one != other && kind(one) != kind(other)
}

fn cycle(trial: &Trial) -> Cycle {
    (trial.moment.anchor.client.clone(), trial.moment.anchor.ordinal)
}

/// How near to the lock a fault came that broke nothing.
fn nearness(summary: &Summary, calm_handovers: u64) -> u8 {
    if !summary.kinds.is_empty() {
        3
    } else if summary.failovers > 0 {
        2
    } else {
        u8::from(summary.handovers < calm_handovers / 10 * 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::engine::event::EventEngine;
    use crate::hunt::Quarry;
    use crate::hunt::course::{Course, Seeds, Strategy};
    use crate::plan::Fence;

    #[test]
    fn the_walk_ends_exactly_at_the_total() {
        let quarry = Quarry::new("redis-single", "redis", Fence::Off);
        let seeds = Seeds { first: Seed(7), calm: Seed(7) };
        let course =
            Course::new(&quarry, Arc::new(EventEngine), Strategy::Certify, seeds, None, false)
                .unwrap();
        let trials = course.trials();
        let lost = Summary::lost(Seed(7), String::new());
        let quiet = Summary { verdict: Verdict::Safe, faults_showed: 1, ..lost };
        let mut pairs = Pairs::new(Seed(7));
        let mut walked = 0;
        let mut noted: BTreeMap<Cycle, u64> = BTreeMap::new();
        for index in (0..trials.len()).filter(|index| index % 3 != 0) {
            let failovers = u64::from(index % 5 == 0);
            pairs.note(index, &Summary { failovers, ..quiet.clone() }, 0, trials);
            *noted.entry(cycle(&trials[index])).or_default() += 1;
            // What is noted later finds its partners too.
            if index == trials.len() / 2 {
                walked += pairs.next(100, trials).len() as u64;
            }
        }
        while let found @ 1.. = pairs.next(64, trials).len() as u64 {
            walked += found;
        }
        assert_eq!(walked, pairs.total());
        let with_equal: u64 = noted.values().map(|number| number * (number - 1) / 2).sum();
        assert!(walked > 0 && walked < with_equal, "{walked} of {with_equal}: one kind twice");
    }
}

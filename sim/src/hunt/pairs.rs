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
    /// The partner that each gets next.
    turn: usize,
    /// Whose turn it is, in the order of rank.
    place: usize,
}

impl Pairs {
    /// None yet.
    pub fn new(seed: Seed) -> Pairs {
        let (cycles, ranked, used) = Default::default();
        Pairs { seed, cycles, ranked, used, turn: 0, place: 0 }
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
        self.cycles.entry(cycle(&trials[index])).or_default().push(index);
        self.ranked.insert((std::cmp::Reverse(near), draw, index));
        // The order has changed: begin anew, past the pairs that were.
        (self.turn, self.place) = (0, 0);
    }

    /// How many pairs there are by what is known, tried or not.
    pub fn total(&self) -> u64 {
        let of = |cycle: &Vec<usize>| {
            let number = cycle.len() as u64;
            number * number.saturating_sub(1) / 2
        };
        self.cycles.values().map(of).sum()
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
            let kind = |index: usize| &trials[index].single.fault.kind;
            if one != other && kind(one) != kind(other) && self.used.insert(pair) {
                found.push(pair);
            }
        }
        found
    }
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

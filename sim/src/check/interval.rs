//! Moments and half-open intervals in the one order of the run.
//!
//! Two events at the same microsecond are told apart by their ids. A moment that no
//! event marks (a lease's end) comes before all events of its microsecond: what
//! happens *at* the end of a lease happens after it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::steps::Steps;
use crate::history::Event;

/// A point in the run's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Moment {
    /// When, µs of true simulated time.
    pub at_us: u64,
    /// 0 for a time that no event marks, or the event's id plus one.
    order: u64,
}

impl Moment {
    /// Before everything.
    pub const START: Moment = Moment { at_us: 0, order: 0 };
    /// After everything.
    pub const NEVER: Moment = Moment { at_us: u64::MAX, order: u64::MAX };

    /// The moment of an event.
    pub fn of(event: &Event) -> Moment {
        Moment { at_us: event.at_us, order: event.id.0.saturating_add(1) }
    }

    /// After all events of this microsecond.
    pub fn end_of(at_us: u64) -> Moment {
        Moment { at_us, order: u64::MAX }
    }

    /// The end of what this moment still belongs to.
    #[must_use]
    pub fn just_after(self) -> Moment {
        Moment { order: self.order.saturating_add(1), ..self }
    }

    /// A time that no event marks; `u64::MAX` is [`Moment::NEVER`].
    pub fn at(at_us: u64) -> Moment {
        if at_us == u64::MAX { Moment::NEVER } else { Moment { at_us, order: 0 } }
    }
}

/// From its start, which belongs to it, to its end, which does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interval {
    /// The first moment in it.
    pub from: Moment,
    /// The first moment after it.
    pub to: Moment,
}

impl Interval {
    /// From `from` up to `to`.
    pub fn new(from: Moment, to: Moment) -> Interval {
        Interval { from, to }
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// Whether `moment` is in it.
    pub fn contains(self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }

    /// What of it is left when both ends may be off by `uncertainty_us`. What begins
    /// with everything, or never ends, has no end there.
    #[must_use]
    pub fn shrunk(self, uncertainty_us: u64) -> Interval {
        if uncertainty_us == 0 {
            return self;
        }
        let from = Moment::at(self.from.at_us.saturating_add(uncertainty_us));
        let to = match self.to {
            Moment::NEVER => Moment::NEVER,
            to => Moment::at(to.at_us.saturating_sub(uncertainty_us)),
        };
        Interval { from, to }
    }

    /// What both have in common, unless that is nothing.
    pub fn overlap(self, other: Interval) -> Option<Interval> {
        let common = Interval::new(self.from.max(other.from), self.to.min(other.to));
        (!common.is_empty()).then_some(common)
    }
}

/// All pairs of overlapping intervals, by their positions in `intervals`, in order of
/// the start of the overlap, the pair's earlier interval first, at most `limit` pairs.
/// Takes O(n log n) and the pairs that are looked at, each of which is a step.
///
/// `shared` says of a position whether it may overlap with others such: these are not
/// even looked at, however many readers there are. `conflict` says of two positions
/// whether their overlap counts.
pub fn overlapping_pairs(
    intervals: &[Interval],
    limit: usize,
    shared: impl Fn(usize) -> bool,
    conflict: impl Fn(usize, usize) -> bool,
    steps: &Steps,
) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> =
        (0..intervals.len()).filter(|&i| !intervals[i].is_empty()).collect();
    order.sort_by_key(|&i| (intervals[i].from, i));
    // Of those that are open: the exclusive and the shared.
    let mut open: [BTreeSet<(Moment, usize)>; 2] = [BTreeSet::new(), BTreeSet::new()];
    let mut pairs = Vec::new();
    for later in order {
        steps.take(1);
        for open in &mut open {
            while let Some(&(to, ended)) = open.first() {
                if to > intervals[later].from {
                    break;
                }
                open.remove(&(to, ended));
            }
        }
        let is_shared = shared(later);
        let looked_at = if is_shared { &open[..1] } else { &open[..] };
        let mut earlier: Vec<usize> = Vec::new();
        for open in looked_at {
            steps.take(open.len() as u64);
            earlier.extend(open.iter().map(|&(_, i)| i).filter(|&i| conflict(i, later)));
        }
        earlier.sort_by_key(|&i| (intervals[i].from, i));
        for earlier in earlier {
            if pairs.len() == limit {
                return pairs;
            }
            pairs.push((earlier, later));
        }
        open[usize::from(is_shared)].insert((intervals[later].to, later));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(at_us: u64, order: u64) -> Moment {
        Moment { at_us, order }
    }

    #[test]
    fn what_happens_at_the_end_of_a_lease_is_after_it() {
        let lease = Interval::new(marked(5, 3), Moment::at(10));
        assert!(lease.contains(marked(9, 100)));
        assert!(!lease.contains(marked(10, 1)));
        assert_eq!(lease.overlap(Interval::new(marked(10, 1), Moment::NEVER)), None);
    }

    #[test]
    fn equal_times_are_ordered_by_the_event() {
        let first = Interval::new(marked(5, 1), marked(7, 4));
        assert_eq!(first.overlap(Interval::new(marked(7, 4), Moment::NEVER)), None);
        let early = Interval::new(marked(7, 3), Moment::NEVER);
        assert_eq!(first.overlap(early), Some(Interval::new(marked(7, 3), marked(7, 4))));
    }

    fn any_interval() -> impl Strategy<Value = Interval> {
        ((0_u64..12, 0_u64..3), (0_u64..12, 0_u64..3))
            .prop_map(|((a, b), (c, d))| Interval::new(marked(a, b), marked(c, d)))
    }

    proptest! {
        #[test]
        fn the_sweep_agrees_with_all_pairs(
            intervals in proptest::collection::vec((any_interval(), 0_u8..7), 0..12),
        ) {
            let owners: Vec<u8> = intervals.iter().map(|(_, owner)| *owner).collect();
            let intervals: Vec<Interval> = intervals.into_iter().map(|(i, _)| i).collect();
            let readers = |n: usize| owners[n] >= 4;
            let conflict =
                |a: usize, b: usize| owners[a] != owners[b] && !(readers(a) && readers(b));
            let mut brute = Vec::new();
            for a in 0..intervals.len() {
                for b in a + 1..intervals.len() {
                    if intervals[a].is_empty() || intervals[b].is_empty() || !conflict(a, b) {
                        continue;
                    }
                    if intervals[a].from < intervals[b].to && intervals[b].from < intervals[a].to {
                        brute.push((a, b));
                    }
                }
            }
            let steps = Steps::default();
            let swept = overlapping_pairs(&intervals, usize::MAX, readers, conflict, &steps);
            for pair in swept.windows(2) {
                let start = |&(_, later): &(usize, usize)| intervals[later].from;
                prop_assert!(start(&pair[0]) <= start(&pair[1]));
            }
            let mut swept: Vec<(usize, usize)> =
                swept.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            swept.sort_unstable();
            brute.sort_unstable();
            prop_assert_eq!(swept, brute);
        }
    }
}

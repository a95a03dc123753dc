//! Which links are cut, and which are slow.
//!
//! madsim knows of cuts ([`NetSim::clog_link`](madsim::net::NetSim::clog_link)), of which
//! there is one or none in a direction; they nest here. It has one range of latencies for
//! all links, so a slow link delays what has arrived.

use std::collections::BTreeMap;

use lockstorm_sim::engine::world::NodeId;

/// The links that are not as they were.
#[derive(Debug, Default)]
pub(super) struct Links {
    cuts: BTreeMap<(NodeId, NodeId), u32>,
    extra_us: BTreeMap<(NodeId, NodeId), u64>,
}

impl Links {
    /// Whether nothing crosses in this direction.
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        !self.cuts.is_empty() && self.cuts.contains_key(&(from, to))
    }

    /// A direction between the two that is cut, if any is: nobody gets an answer across.
    pub(super) fn first_cut(&self, a: NodeId, b: NodeId) -> Option<(NodeId, NodeId)> {
        [(a, b), (b, a)].into_iter().find(|(from, to)| self.is_cut(*from, *to))
    }

    /// Cuts the direction once more. True if it was open.
    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) -> bool {
        let count = self.cuts.entry((from, to)).or_default();
        *count += 1;
        *count == 1
    }

    /// Takes one cut of the direction away. True if it is open now and was not.
    pub(super) fn heal(&mut self, from: NodeId, to: NodeId) -> bool {
        let Some(count) = self.cuts.get_mut(&(from, to)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.cuts.remove(&(from, to));
            return true;
        }
        false
    }

    /// Slows the direction by so much; 0 ends that.
    pub(super) fn slow(&mut self, from: NodeId, to: NodeId, extra_us: u64) {
        match extra_us {
            0 => self.extra_us.remove(&(from, to)),
            _ => self.extra_us.insert((from, to), extra_us),
        };
    }

    /// By how much the direction is slowed, µs.
    pub(super) fn extra_us(&self, from: NodeId, to: NodeId) -> u64 {
        if self.extra_us.is_empty() {
            return 0;
        }
        self.extra_us.get(&(from, to)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    #[test]
    fn cuts_nest_and_are_of_one_direction() {
        let mut links = Links::default();
        assert!(links.cut(A, B));
        assert!(!links.cut(A, B));
        assert!(links.is_cut(A, B) && !links.is_cut(B, A));
        assert!(!links.heal(A, B));
        assert!(links.heal(A, B));
        assert!(!links.heal(A, B), "one heal too many");
        assert!(!links.is_cut(A, B));
    }

    #[test]
    fn each_direction_is_slow_by_itself() {
        let mut links = Links::default();
        links.slow(A, B, 5_000);
        assert_eq!((links.extra_us(A, B), links.extra_us(B, A)), (5_000, 0));
        links.slow(A, B, 0);
        assert_eq!(links.extra_us(A, B), 0);
    }
}

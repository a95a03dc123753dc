//! Which links are cut or slowed, and what turmoil is told of it.
//!
//! turmoil's `hold` is the cut that delivers after the heal, and it is two-way: so a
//! link is held while both its directions are cut, and a cut of one direction alone
//! changes nothing (such plans are declared not expressible). `partition_oneway`
//! throws away what one end has sent; it is used, for a moment, when that end's
//! machine dies.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::engine::world::{NodeId, World};

/// turmoil's switches, wherever they can be reached from.
pub(super) trait Switches {
    fn hold(&self, a: IpAddr, b: IpAddr);
    fn release(&self, a: IpAddr, b: IpAddr);
    fn partition_oneway(&self, from: IpAddr, to: IpAddr);
}

/// From inside a host.
pub(super) struct Inside;

impl Switches for Inside {
    fn hold(&self, a: IpAddr, b: IpAddr) {
        ::turmoil::hold(a, b);
    }

    fn release(&self, a: IpAddr, b: IpAddr) {
        ::turmoil::release(a, b);
    }

    fn partition_oneway(&self, from: IpAddr, to: IpAddr) {
        ::turmoil::partition_oneway(from, to);
    }
}

/// From between two steps.
impl Switches for ::turmoil::Sim<'_> {
    fn hold(&self, a: IpAddr, b: IpAddr) {
        ::turmoil::Sim::hold(self, a, b);
    }

    fn release(&self, a: IpAddr, b: IpAddr) {
        ::turmoil::Sim::release(self, a, b);
    }

    fn partition_oneway(&self, from: IpAddr, to: IpAddr) {
        ::turmoil::Sim::partition_oneway(self, from, to);
    }
}

/// The links that are not as they were.
#[derive(Debug, Default)]
pub(super) struct Links {
    cuts: BTreeMap<(NodeId, NodeId), u32>,
    extra_us: BTreeMap<(NodeId, NodeId), u64>,
}

impl Links {
    /// Whether anything is cut or slowed.
    pub(super) fn are_disturbed(&self) -> bool {
        !self.cuts.is_empty() || !self.extra_us.is_empty()
    }

    /// Whether the link is held: both its directions are cut.
    pub(super) fn is_held(&self, a: NodeId, b: NodeId) -> bool {
        self.cuts.contains_key(&(a, b)) && self.cuts.contains_key(&(b, a))
    }

    /// Cuts one direction once more. True if the link is held now and was not.
    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) -> bool {
        let was_held = self.is_held(from, to);
        *self.cuts.entry((from, to)).or_default() += 1;
        !was_held && self.is_held(from, to)
    }

    /// Takes one cut of the direction away. True if the link is free now and was not.
    pub(super) fn heal(&mut self, from: NodeId, to: NodeId) -> bool {
        let was_held = self.is_held(from, to);
        if let Some(count) = self.cuts.get_mut(&(from, to)) {
            *count -= 1;
            if *count == 0 {
                self.cuts.remove(&(from, to));
            }
        }
        was_held && !self.is_held(from, to)
    }

    pub(super) fn slow(&mut self, from: NodeId, to: NodeId, extra_us: u64) {
        match extra_us {
            0 => self.extra_us.remove(&(from, to)),
            _ => self.extra_us.insert((from, to), extra_us),
        };
    }

    /// By how much the link is slowed, µs. turmoil has one latency for both
    /// directions, so the slower one counts.
    pub(super) fn extra_us(&self, a: NodeId, b: NodeId) -> u64 {
        let one = |from, to| self.extra_us.get(&(from, to)).copied().unwrap_or(0);
        one(a, b).max(one(b, a))
    }
}

/// Makes the link between two nodes as it should be.
pub(super) fn set(switches: &dyn Switches, is_held: bool, a: NodeId, b: NodeId) {
    let (a, b) = (address(a), address(b));
    if is_held { switches.hold(a, b) } else { switches.release(a, b) }
}

/// Throws away what `from` has sent to `to` and leaves the link in need of [`set`].
pub(super) fn forget(switches: &dyn Switches, from: NodeId, to: NodeId) {
    switches.partition_oneway(address(from), address(to));
}

pub(super) fn address(node: NodeId) -> IpAddr {
    World::address(node).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    #[test]
    fn cuts_nest_and_hold_only_when_both_directions_are_cut() {
        let mut links = Links::default();
        assert!(!links.cut(A, B));
        assert!(!links.cut(A, B));
        assert!(links.cut(B, A));
        assert!(!links.heal(A, B));
        assert!(links.is_held(B, A));
        assert!(links.heal(B, A));
        assert!(!links.heal(A, B));
        assert!(!links.heal(A, B), "one heal too many");
        assert!(!links.are_disturbed());
    }

    #[test]
    fn the_slower_direction_counts_for_both() {
        let mut links = Links::default();
        links.slow(A, B, 5_000);
        assert_eq!((links.extra_us(A, B), links.extra_us(B, A)), (5_000, 5_000));
        links.slow(A, B, 0);
        assert!(!links.are_disturbed());
    }
}

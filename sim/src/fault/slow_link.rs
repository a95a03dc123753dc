//! Messages between two sets of nodes, both ways, take longer; where two such faults
//! meet on a link, their times add up. Shows when a message took the slow link.

use super::{Begun, Ground};
use crate::engine::world::{NodeId, Touch};
use crate::plan::{FaultKind, Micros};

pub(super) fn narration(from: &[String], to: &[String], extra: Micros) -> String {
    format!("messages between {} and {} take {extra} longer", from.join(", "), to.join(", "))
}

pub(super) fn begin(
    from: &[String],
    to: &[String],
    extra: Micros,
    others: &[&FaultKind],
    ground: &Ground,
) -> Begun {
    set(from, to, extra.0, others, ground);
    Begun::Going
}

pub(super) fn end(from: &[String], to: &[String], others: &[&FaultKind], ground: &Ground) {
    set(from, to, 0, others, ground);
}

/// Makes the links of this fault as slow as it and the `others` want them.
fn set(from: &[String], to: &[String], own_us: u64, others: &[&FaultKind], ground: &Ground) {
    for (a, b) in ground.pairs(from, to) {
        let theirs = others.iter().map(|other| extra_us(other, a, b, ground));
        let extra_us = theirs.fold(own_us, u64::saturating_add);
        ground.control.slow(a, b, extra_us);
        ground.control.slow(b, a, extra_us);
    }
}

/// By how much a fault slows the link between two nodes, µs.
fn extra_us(kind: &FaultKind, a: NodeId, b: NodeId, ground: &Ground) -> u64 {
    let FaultKind::SlowLink { from, to, extra } = kind else { return 0 };
    let pairs = ground.pairs(from, to);
    if pairs.contains(&(a, b)) || pairs.contains(&(b, a)) { extra.0 } else { 0 }
}

pub(super) fn showed(
    from: &[String],
    to: &[String],
    touch: Touch,
    ground: &Ground,
) -> Option<String> {
    let Touch::Slowed { from: sender, to: receiver } = touch else { return None };
    let pairs = ground.pairs(from, to);
    let is_ours = pairs.contains(&(sender, receiver)) || pairs.contains(&(receiver, sender));
    is_ours.then(|| {
        let (sender, receiver) = (ground.world.name(sender), ground.world.name(receiver));
        format!("a message from {sender} to {receiver} was slowed")
    })
}

//! Messages between two sets of nodes, both ways, take longer. Shows when a message
//! took the slow link.

use super::Ground;
use crate::engine::world::Touch;
use crate::plan::{FaultKind, Micros};

pub(super) fn narration(from: &[String], to: &[String], extra: Micros) -> String {
    format!("messages between {} and {} take {extra} longer", from.join(", "), to.join(", "))
}

pub(super) fn begin(
    from: &[String],
    to: &[String],
    extra: Micros,
    ground: &Ground,
) -> Option<String> {
    slow(from, to, extra.0, ground);
    None
}

pub(super) fn end(from: &[String], to: &[String], others: &[&FaultKind], ground: &Ground) {
    slow(from, to, 0, ground);
    // Where slow links overlap, those that go on are slow still.
    for other in others {
        if let FaultKind::SlowLink { from, to, extra } = other {
            slow(from, to, extra.0, ground);
        }
    }
}

fn slow(from: &[String], to: &[String], extra_us: u64, ground: &Ground) {
    for (from, to) in ground.pairs(from, to) {
        ground.control.slow(from, to, extra_us);
        ground.control.slow(to, from, extra_us);
    }
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

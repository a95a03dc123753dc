//! Messages between two sets of nodes do not arrive; what was sent is retransmitted
//! after the heal. Shows when a message met the cut.

use super::{Begun, Ground};
use crate::engine::world::{NodeId, Touch};

pub(super) fn narration(from: &[String], to: &[String], one_way: bool) -> String {
    let (from, to) = (from.join(", "), to.join(", "));
    match one_way {
        false => format!("the network between {from} and {to} is cut"),
        true => format!("messages from {from} to {to} are lost, the other way is open"),
    }
}

fn cuts(from: &[String], to: &[String], one_way: bool, ground: &Ground) -> Vec<(NodeId, NodeId)> {
    let mut cuts = ground.pairs(from, to);
    if !one_way {
        cuts.extend(ground.pairs(to, from));
    }
    cuts
}

pub(super) fn begin(from: &[String], to: &[String], one_way: bool, ground: &Ground) -> Begun {
    for (from, to) in cuts(from, to, one_way, ground) {
        ground.control.cut(from, to);
    }
    Begun::Going
}

pub(super) fn end(from: &[String], to: &[String], one_way: bool, ground: &Ground) {
    for (from, to) in cuts(from, to, one_way, ground) {
        ground.control.heal(from, to);
    }
}

pub(super) fn showed(
    from: &[String],
    to: &[String],
    one_way: bool,
    touch: Touch,
    ground: &Ground,
) -> Option<String> {
    let Touch::Cut { from: sender, to: receiver } = touch else { return None };
    let is_ours = cuts(from, to, one_way, ground).contains(&(sender, receiver));
    is_ours.then(|| {
        let (sender, receiver) = (ground.world.name(sender), ground.world.name(receiver));
        format!("a message from {sender} to {receiver} met the cut")
    })
}

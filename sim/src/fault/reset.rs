//! Every established connection between two sets of nodes is reset, at both ends, as by a
//! middlebox that has lost its memory. It is over at once. Shows when there was a
//! connection.
//!
//! Anchored to an event that a server has applied, it is the reply that is lost after the
//! request took effect.

use super::{Begun, Ground};
use crate::engine::world::Touch;

pub(super) fn narration(from: &[String], to: &[String]) -> String {
    format!("every connection between {} and {} is reset", from.join(", "), to.join(", "))
}

pub(super) fn begin(from: &[String], to: &[String], ground: &Ground) -> Begun {
    for (a, b) in ground.pairs(from, to) {
        ground.control.reset(a, b);
    }
    Begun::Struck
}

pub(super) fn showed(
    from: &[String],
    to: &[String],
    touch: Touch,
    ground: &Ground,
) -> Option<String> {
    let Touch::Reset { a, b } = touch else { return None };
    let pairs = ground.pairs(from, to);
    let is_ours = pairs.contains(&(a, b)) || pairs.contains(&(b, a));
    is_ours.then(|| {
        let (a, b) = (ground.world.name(a), ground.world.name(b));
        format!("a connection between {a} and {b} was reset")
    })
}

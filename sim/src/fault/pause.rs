//! A node, or one of its task groups, stands still: a long garbage collection, a
//! stopped virtual machine. Its kernel goes on. Shows when a task was due meanwhile. It
//! ends with the program it stopped: what is started afterwards runs.

use super::{Begun, Ground};
use crate::engine::world::Touch;
use crate::plan::{FaultKind, groups};

pub(super) fn narration(node: &str, group: Option<&str>) -> String {
    match group {
        None => format!("{node} stands still"),
        Some(group) => format!("the {group} of {node} stands still"),
    }
}

/// A hang is a pause of the group in which a client does its own work.
pub(super) const OWN_WORK: &str = groups::MAIN;

pub(super) fn hang_narration(node: &str) -> String {
    format!("the work of {node} hangs, and its other tasks go on")
}

pub(super) fn begin(node: &str, group: Option<&str>, ground: &Ground) -> Begun {
    match ground.find(node) {
        Some(id) if ground.world.is_up(id) => {
            ground.control.pause(id, group);
            Begun::Going
        }
        _ => Begun::Void,
    }
}

/// Whether this fault kills the program that stands still.
pub(super) fn is_ended_by(node: &str, other: &FaultKind) -> bool {
    match other {
        FaultKind::ProcessCrash { node: dead } | FaultKind::MachineCrash { node: dead } => {
            dead == node
        }
        _ => false,
    }
}

pub(super) fn end(node: &str, group: Option<&str>, ground: &Ground) {
    if let Some(id) = ground.find(node) {
        ground.control.resume(id, group);
    }
}

pub(super) fn showed(
    node: &str,
    group: Option<&str>,
    touch: Touch,
    ground: &Ground,
) -> Option<String> {
    match touch {
        Touch::Frozen { node: id, group: due }
            if ground.find(node) == Some(id) && group.is_none_or(|group| group == due) =>
        {
            Some(format!("{node} had something to do and did not"))
        }
        _ => None,
    }
}

//! A node, or one of its task groups, stands still: a long garbage collection, a
//! stopped virtual machine. Its kernel goes on. Shows when a task was due meanwhile.

use super::Ground;
use crate::engine::world::Touch;

pub(super) fn narration(node: &str, group: Option<&str>) -> String {
    match group {
        None => format!("{node} stands still"),
        Some(group) => format!("the {group} of {node} stands still"),
    }
}

pub(super) fn begin(node: &str, group: Option<&str>, ground: &Ground) -> Option<String> {
    ground.control.pause(ground.find(node)?, group);
    None
}

pub(super) fn end(node: &str, group: Option<&str>, ground: &Ground) {
    if let Some(id) = ground.find(node) {
        ground.control.resume(id, group);
    }
}

pub(super) fn showed(node: &str, touch: Touch, ground: &Ground) -> Option<String> {
    match touch {
        Touch::Frozen { node: id } if ground.find(node) == Some(id) => {
            Some(format!("{node} had something to do and did not"))
        }
        _ => None,
    }
}

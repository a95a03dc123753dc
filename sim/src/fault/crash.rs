//! A node's program dies, alone or with its machine; when the fault ends it is
//! started again, with an empty memory, unless another crash still holds it down.
//! Shows at once, unless the node was down.

use super::Ground;
use crate::history::What;
use crate::plan::FaultKind;

pub(super) fn narration(node: &str, machine: bool) -> String {
    match machine {
        false => format!("{node}'s process is killed"),
        true => format!("{node}'s machine dies, with every byte in its kernel"),
    }
}

pub(super) fn begin(node: &str, machine: bool, ground: &Ground) -> Option<String> {
    let id = ground.find(node)?;
    if !ground.world.is_up(id) {
        return None;
    }
    match machine {
        false => ground.control.crash_process(id),
        true => ground.control.crash_machine(id),
    }
    ground.recorder.record(&ground.name(node), What::NodeCrashed { machine });
    Some(format!("{node} is down"))
}

pub(super) fn end(node: &str, others: &[&FaultKind], ground: &Ground) {
    let is_held = others.iter().any(|other| match other {
        FaultKind::ProcessCrash { node: held } | FaultKind::MachineCrash { node: held } => {
            held == node
        }
        _ => false,
    });
    if is_held {
        return;
    }
    if let Some(id) = ground.find(node) {
        ground.control.start(id);
    }
}

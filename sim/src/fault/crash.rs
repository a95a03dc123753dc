//! A node's program dies, alone or with its machine; when the fault ends it is
//! started again, with an empty memory, unless another crash still holds it down.
//! Shows at once, or, where there was nothing left to die, when all other crashes are over
//! and it still holds the node down. A machine whose program is dead
//! has a kernel with bytes in it: that dies, and what its disk had not synchronised.

use super::{Begun, Ground, Sign};
use crate::history::What;
use crate::plan::FaultKind;

pub(super) fn narration(node: &str, machine: bool) -> String {
    match machine {
        false => format!("{node}'s process is killed"),
        true => format!("{node}'s machine dies, with every byte in its kernel"),
    }
}

pub(super) fn begin(node: &str, machine: bool, ground: &Ground) -> Begun {
    let Some(id) = ground.find(node) else { return Begun::Void };
    let lives = match machine {
        false => ground.world.is_up(id),
        true => ground.world.is_machine_up(id),
    };
    if !lives {
        // It may still hold the node down when another crash is over.
        return Begun::Going;
    }
    match machine {
        false => ground.control.crash_process(id),
        true => {
            ground.control.crash_machine(id);
            if let Some(disk) = ground.disks.get(&id) {
                disk.lose_power();
            }
        }
    }
    ground.recorder.record(&ground.name(node), What::NodeCrashed { machine });
    Begun::Showed(format!("{node} is down"))
}

pub(super) fn end(node: &str, others: &[&FaultKind], ground: &Ground) {
    if holders(node, others) > 0 {
        return;
    }
    if let Some(id) = ground.find(node) {
        ground.control.start(id);
    }
}

/// How many of these faults hold the node down.
pub(super) fn holders(node: &str, faults: &[&FaultKind]) -> usize {
    let holds = |fault: &&&FaultKind| match fault {
        FaultKind::ProcessCrash { node: held } | FaultKind::MachineCrash { node: held } => {
            held == node
        }
        _ => false,
    };
    faults.iter().filter(holds).count()
}

/// A crash has ended: whether one other keeps the node down. Where several do, none of them
/// changes anything yet: the node would be down without it.
pub(super) fn left_behind(node: &str, others: &[&FaultKind], ground: &Ground) -> Option<Sign> {
    let id = ground.find(node)?;
    let is_kept = holders(node, others) == 1 && !ground.world.is_up(id);
    is_kept.then_some(Sign::StillDown { node: id })
}

pub(super) fn showed(node: &str, sign: &Sign, ground: &Ground) -> Option<String> {
    match sign {
        Sign::StillDown { node: id } if ground.find(node) == Some(*id) => {
            Some(format!("{node} stays down"))
        }
        _ => None,
    }
}

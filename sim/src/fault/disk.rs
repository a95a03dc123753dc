//! A node's disk is slow, stalls, or fails to synchronise. Shows when a program of the
//! node used the disk meanwhile: a server that writes nothing makes it inert.
//!
//! Where several such faults are at work on a node they add up, and each lasts until it is
//! over itself.
//!
//! A server that cannot synchronise what it must keep ends, as real ones do. Whoever repairs the
//! disk starts it again, unless a crash still holds the node down.

use super::{Begun, Ground, Sign, crash};
use crate::disk::{Ailment, DiskSign};
use crate::plan::{FaultKind, Micros};

pub(super) fn slow_narration(node: &str, extra: Micros) -> String {
    format!("{node}'s disk takes {extra} longer")
}

pub(super) fn stall_narration(node: &str) -> String {
    format!("{node}'s disk completes nothing")
}

pub(super) fn error_narration(node: &str) -> String {
    format!("{node}'s disk fails to synchronise")
}

pub(super) fn begin(node: &str, kind: &FaultKind, others: &[&FaultKind], ground: &Ground) -> Begun {
    let all: Vec<&FaultKind> = others.iter().copied().chain([kind]).collect();
    if settle(node, &all, ground) { Begun::Going } else { Begun::Void }
}

pub(super) fn end(node: &str, others: &[&FaultKind], ground: &Ground) {
    settle(node, others, ground);
}

/// Starts the node's program, which its disk has ended, unless something else keeps it down.
pub(super) fn start_again(node: &str, others: &[&FaultKind], ground: &Ground) {
    let fails =
        |fault: &&FaultKind| matches!(fault, FaultKind::DiskError { node: held } if held == node);
    if others.iter().any(fails) || crash::holders(node, others) > 0 {
        return;
    }
    if let Some(id) = ground.find(node) {
        // Of a program that has ended by itself, tasks may be left.
        ground.control.crash_process(id);
        ground.control.start(id);
    }
}

/// Makes the disk as ill as the faults at work want it; false if there is none.
fn settle(node: &str, faults: &[&FaultKind], ground: &Ground) -> bool {
    let Some(disk) = ground.find(node).and_then(|id| ground.disks.get(&id)) else { return false };
    let mut ailment = Ailment::default();
    for fault in faults {
        match fault {
            FaultKind::DiskSlow { node: held, extra } if held == node => {
                ailment.extra_us = ailment.extra_us.saturating_add(extra.0);
            }
            FaultKind::DiskStall { node: held } if held == node => ailment.stalled = true,
            FaultKind::DiskError { node: held } if held == node => ailment.failing = true,
            _ => {}
        }
    }
    disk.set_ailment(ailment);
    true
}

pub(super) fn showed(node: &str, wanted: DiskSign, sign: &Sign, ground: &Ground) -> Option<String> {
    match sign {
        Sign::Disk { node: id, sign } if ground.find(node) == Some(*id) && *sign == wanted => {
            let how = match wanted {
                DiskSign::Slowed => "waited longer for its disk",
                DiskSign::Stalled => "waited for its disk",
                DiskSign::Failed => "was told that a synchronisation failed",
                DiskSign::LostTail => "lost what it had not synchronised",
            };
            Some(format!("{node} {how}"))
        }
        _ => None,
    }
}

//! A Redis master's replication output buffers do not drain: the master goes on
//! answering its clients, and its replicas fall behind. What is held dies with the
//! process. Shows when output was held.

use super::{Begun, Ground, Sign};

pub(super) fn narration(node: &str) -> String {
    format!("{node}'s replication output buffer stops draining")
}

pub(super) fn begin(node: &str, ground: &Ground) -> Begun {
    match ground.find(node).and_then(|id| ground.gates.get(&id)) {
        Some(gate) => {
            gate.stall();
            Begun::Going
        }
        None => Begun::Void,
    }
}

/// Ends its own stall: those of other faults hold the gate on.
pub(super) fn end(node: &str, ground: &Ground) {
    if let Some(gate) = ground.find(node).and_then(|id| ground.gates.get(&id)) {
        gate.open();
    }
}

pub(super) fn showed(node: &str, sign: &Sign, ground: &Ground) -> Option<String> {
    match sign {
        Sign::OutputHeld { node: id } if ground.find(node) == Some(*id) => {
            Some(format!("{node} answered a client before its replicas could know"))
        }
        _ => None,
    }
}

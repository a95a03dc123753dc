//! A client drops the future of an operation half-way, as a `select!` or a timeout around
//! it does: nothing of it runs any more, and what it has sent is on its way. Begins with
//! its operation. Shows when the future was dropped; ends with it, or when the operation
//! has come back before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Begun, Ground, Sign};
use crate::history::Name;
use crate::plan::{FaultKind, Micros, Operation};

/// An operation of a client: the n-th of this sort.
pub type Occasion = (Name, Operation, u32);

/// When a future is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropPoint {
    /// At the how-manieth time that it is polled and not ready, from 1 …
    pub suspension: u32,
    /// … and so long after it.
    pub delay: Micros,
}

/// The futures that are to be dropped: faults write them down, clients look here.
#[derive(Clone, Debug, Default)]
pub struct Cancellations(Arc<Mutex<BTreeMap<Occasion, DropPoint>>>);

impl Cancellations {
    /// Whether the future of this operation is to be dropped; tells it once.
    pub fn take(&self, occasion: &Occasion) -> Option<DropPoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(occasion)
    }

    fn set(&self, occasion: Occasion, drop: DropPoint) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(occasion, drop);
    }
}

/// How an operation that was to be cancelled ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub occasion: Occasion,
    /// Whether its future was dropped; else it came back before.
    pub dropped: bool,
}

fn occasion(kind: &FaultKind) -> Option<(Occasion, DropPoint)> {
    let FaultKind::Cancel { node, operation, ordinal, suspension, delay } = kind else {
        return None;
    };
    let drop = DropPoint { suspension: *suspension, delay: *delay };
    Some(((node.as_str().into(), *operation, *ordinal), drop))
}

pub(super) fn narration(kind: &FaultKind) -> String {
    let Some(((node, operation, ordinal), DropPoint { suspension, delay })) = occasion(kind) else {
        return String::new();
    };
    let operation = operation.name();
    let when = match delay {
        Micros(0) => format!("at suspension {suspension}"),
        _ => format!("{delay} after suspension {suspension}"),
    };
    format!("{node} is to drop its {operation} {ordinal} {when}")
}

pub(super) fn begin(kind: &FaultKind, ground: &Ground) -> Begun {
    if let Some((occasion, drop)) = occasion(kind) {
        ground.cancellations.set(occasion, drop);
    }
    Begun::Going
}

pub(super) fn end(kind: &FaultKind, ground: &Ground) {
    if let Some((occasion, _)) = occasion(kind) {
        ground.cancellations.take(&occasion);
    }
}

/// Whether `sign` is about the end of this fault's operation.
pub(super) fn is_about(kind: &FaultKind, sign: &Sign) -> bool {
    match (occasion(kind), sign) {
        (Some((own, _)), Sign::Operation(ended)) => own == ended.occasion,
        _ => false,
    }
}

pub(super) fn showed(kind: &FaultKind, sign: &Sign) -> Option<String> {
    match sign {
        Sign::Operation(ended) if ended.dropped && is_about(kind, sign) => {
            let (node, operation, ordinal) = &ended.occasion;
            Some(format!("{node} dropped its {} {ordinal} while it waited", operation.name()))
        }
        _ => None,
    }
}

//! Whom a fault strikes: one node, or the links between two sides.
//!
//! The one place that says it of every kind; what narrates, writes, checks or shrinks a fault
//! asks here.

use super::FaultKind;

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck<'a> {
    /// One node.
    Node(&'a String),
    /// The links between these two sides.
    Sides(&'a Vec<String>, &'a Vec<String>),
}

/// The same, to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum StruckMut<'a> {
    /// One node.
    Node(&'a mut String),
    /// The links between these two sides.
    Sides(&'a mut Vec<String>, &'a mut Vec<String>),
}

/// One list of the kinds for both ways of looking at them.
macro_rules! struck {
    ($kind:expr, $struck:ident) => {
        match $kind {
            FaultKind::Partition { from, to, .. }
            | FaultKind::SlowLink { from, to, .. }
            | FaultKind::Reset { from, to } => $struck::Sides(from, to),
            FaultKind::ProcessCrash { node }
            | FaultKind::MachineCrash { node }
            | FaultKind::Pause { node, .. }
            | FaultKind::ReplicationStall { node }
            | FaultKind::Promote { node }
            | FaultKind::ClockRate { node, .. }
            | FaultKind::ClockStep { node, .. }
            | FaultKind::ClockFreeze { node }
            | FaultKind::ClockSlew { node, .. }
            | FaultKind::Cancel { node, .. }
            | FaultKind::Hang { node }
            | FaultKind::DiskSlow { node, .. }
            | FaultKind::DiskStall { node }
            | FaultKind::DiskError { node } => $struck::Node(node),
        }
    };
}

impl FaultKind {
    /// Whom a fault of this kind strikes.
    pub fn struck(&self) -> Struck<'_> {
        struck!(self, Struck)
    }

    /// Whom a fault of this kind strikes, to be changed.
    pub fn struck_mut(&mut self) -> StruckMut<'_> {
        struck!(self, StruckMut)
    }
}

//! Faults: how each kind of a plan is applied, told, and noticed.
//!
//! One small module for each kind: what it does when it begins and when it ends, the
//! line that tells of it, and which [`Touch`] shows that it did something. A fault
//! that nothing touched is *inert*, and a run of inert faults proves nothing.

pub mod cancel;
mod clock;
mod crash;
mod disk;
mod partition;
mod pause;
pub mod promotion;
mod replication_stall;
mod reset;
mod slow_link;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::disk::{Disk, DiskSign};
use crate::engine::Control;
use crate::engine::world::{NodeId, Touch, World};
use crate::history::event::FaultFamily;
use crate::history::{Name, Recorder};
use crate::plan::{FaultKind, Struck};
use crate::server::redis::ReplicationGate;
use cancel::Cancellations;

/// Where faults strike.
#[derive(Clone)]
pub struct Ground {
    /// The nodes.
    pub world: Arc<World>,
    /// The engine's controls.
    pub control: Arc<dyn Control>,
    /// Where the storm is written down.
    pub recorder: Recorder,
    /// The replication gates of the Redis servers.
    pub gates: Arc<BTreeMap<NodeId, ReplicationGate>>,
    /// The PostgreSQL servers.
    pub controls: promotion::Controls,
    /// The rates at which clocks run when no fault changes them, ppm; 0 for those
    /// that are not here.
    pub rates_ppm: Arc<BTreeMap<NodeId, i64>>,
    /// The disks of the nodes' machines.
    pub disks: Arc<BTreeMap<NodeId, Disk>>,
    /// Where clients learn which of their futures they are to drop.
    pub cancellations: Cancellations,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ground").field("world", &self.world).finish_non_exhaustive()
    }
}

impl Ground {
    fn find(&self, name: &str) -> Option<NodeId> {
        self.world.find(name)
    }

    fn name(&self, name: &str) -> Name {
        name.into()
    }

    fn find_all(&self, names: &[String]) -> Vec<NodeId> {
        names.iter().filter_map(|name| self.find(name)).collect()
    }

    /// Every pair of one of `from` and another of `to`.
    fn pairs(&self, from: &[String], to: &[String]) -> Vec<(NodeId, NodeId)> {
        let to = self.find_all(to);
        let pairs = self.find_all(from).into_iter().flat_map(|from| {
            to.iter().filter(move |to| **to != from).map(move |to| (from, *to)).collect::<Vec<_>>()
        });
        pairs.collect()
    }
}

/// What can show that a fault did something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The engine noticed.
    Touch(Touch),
    /// A Redis master held back replication output.
    OutputHeld {
        /// The master.
        node: NodeId,
    },
    /// A program used an ill disk.
    Disk {
        /// Whose.
        node: NodeId,
        /// How the illness showed.
        sign: DiskSign,
    },
    /// A crash is over, and the node stays down by one other.
    StillDown {
        /// The node.
        node: NodeId,
    },
    /// An operation ended that was to be cancelled.
    Operation(cancel::Ended),
}

/// A fault's family: what findings are blamed on, and what a swarm switches.
pub fn family(kind: &FaultKind) -> FaultFamily {
    match kind {
        FaultKind::ProcessCrash { .. } => FaultFamily::ProcessCrash,
        FaultKind::MachineCrash { .. } => FaultFamily::MachineCrash,
        FaultKind::Pause { .. } => FaultFamily::Pause,
        FaultKind::Partition { .. } => FaultFamily::Partition,
        FaultKind::SlowLink { .. } => FaultFamily::SlowLink,
        FaultKind::ReplicationStall { .. } => FaultFamily::ReplicationStall,
        FaultKind::ClockRate { .. } => FaultFamily::ClockRate,
        FaultKind::ClockStep { .. } => FaultFamily::ClockStep,
        FaultKind::Reset { .. } => FaultFamily::Reset,
        FaultKind::ClockFreeze { .. } => FaultFamily::ClockFreeze,
        FaultKind::ClockSlew { .. } => FaultFamily::ClockSlew,
        FaultKind::Cancel { .. } => FaultFamily::Cancel,
        FaultKind::Hang { .. } => FaultFamily::Hang,
        FaultKind::DiskSlow { .. } => FaultFamily::DiskSlow,
        FaultKind::DiskStall { .. } => FaultFamily::DiskStall,
        FaultKind::DiskError { .. } => FaultFamily::DiskError,
        FaultKind::Promote { .. } => FaultFamily::Promote,
    }
}

/// All nodes that a fault strikes; for faults of links, both sides.
pub fn targets(kind: &FaultKind) -> Vec<Name> {
    match kind.struck() {
        Struck::Node(node) => vec![node.as_str().into()],
        Struck::Sides(from, to) => from.iter().chain(to).map(|name| name.as_str().into()).collect(),
    }
}

/// The line that tells of a fault.
pub fn narration(kind: &FaultKind) -> String {
    match kind {
        FaultKind::ProcessCrash { node } => crash::narration(node, false),
        FaultKind::MachineCrash { node } => crash::narration(node, true),
        FaultKind::Pause { node, group } => pause::narration(node, group.as_deref()),
        FaultKind::Partition { from, to, one_way } => partition::narration(from, to, *one_way),
        FaultKind::SlowLink { from, to, extra } => slow_link::narration(from, to, *extra),
        FaultKind::ReplicationStall { node } => replication_stall::narration(node),
        FaultKind::ClockRate { node, ppm } => clock::rate_narration(node, *ppm),
        FaultKind::ClockStep { node, by_us } => clock::step_narration(node, *by_us),
        FaultKind::Reset { from, to } => reset::narration(from, to),
        FaultKind::ClockFreeze { node } => clock::freeze_narration(node),
        FaultKind::ClockSlew { node, by_us, ppm } => clock::slew_narration(node, *by_us, *ppm),
        FaultKind::Cancel { .. } => cancel::narration(kind),
        FaultKind::Hang { node } => pause::hang_narration(node),
        FaultKind::DiskSlow { node, extra } => disk::slow_narration(node, *extra),
        FaultKind::DiskStall { node } => disk::stall_narration(node),
        FaultKind::DiskError { node } => disk::error_narration(node),
        FaultKind::Promote { node } => promotion::narration(node),
    }
}

/// How a fault began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It goes on; a [`Sign`] will tell whether it does anything.
    Going,
    /// It goes on and showed at once; how.
    Showed(String),
    /// It struck and is over; what it did has been told by a [`Sign`].
    Struck,
    /// There was nothing for it to strike: it is over.
    Void,
}

/// Begins a fault. `others` are the faults that are at work already, in order of their
/// beginning.
pub fn begin(kind: &FaultKind, others: &[&FaultKind], ground: &Ground) -> Begun {
    match kind {
        FaultKind::ProcessCrash { node } => crash::begin(node, false, ground),
        FaultKind::MachineCrash { node } => crash::begin(node, true, ground),
        FaultKind::Pause { node, group } => pause::begin(node, group.as_deref(), ground),
        FaultKind::Partition { from, to, one_way } => partition::begin(from, to, *one_way, ground),
        FaultKind::SlowLink { from, to, extra } => {
            slow_link::begin(from, to, *extra, others, ground)
        }
        FaultKind::ReplicationStall { node } => replication_stall::begin(node, ground),
        FaultKind::ClockRate { node, .. }
        | FaultKind::ClockFreeze { node }
        | FaultKind::ClockSlew { node, .. } => clock::begin(node, kind, others, ground),
        FaultKind::ClockStep { node, by_us } => clock::begin_step(node, *by_us, ground),
        FaultKind::Reset { from, to } => reset::begin(from, to, ground),
        FaultKind::Cancel { .. } => cancel::begin(kind, ground),
        FaultKind::Hang { node } => pause::begin(node, Some(pause::OWN_WORK), ground),
        FaultKind::DiskSlow { node, .. }
        | FaultKind::DiskStall { node }
        | FaultKind::DiskError { node } => disk::begin(node, kind, others, ground),
        FaultKind::Promote { node } => promotion::begin(node, ground),
    }
}

/// Whether a fault at work is over as soon as `other` begins.
pub fn is_ended_by(kind: &FaultKind, other: &FaultKind) -> bool {
    match kind {
        FaultKind::Pause { node, .. } | FaultKind::Hang { node } => pause::is_ended_by(node, other),
        _ => false,
    }
}

/// Whether a fault at work is over with what `sign` says.
pub fn is_over_with(kind: &FaultKind, sign: &Sign) -> bool {
    cancel::is_about(kind, sign)
}

/// Ends a fault that has begun. `others` are the faults that go on, in order of their
/// beginning: what one of them still wants (a node down, a link slow, a clock fast) stays.
pub fn end(kind: &FaultKind, others: &[&FaultKind], ground: &Ground) {
    match kind {
        FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } => {
            crash::end(node, others, ground);
        }
        FaultKind::Pause { node, group } => pause::end(node, group.as_deref(), ground),
        FaultKind::Partition { from, to, one_way } => partition::end(from, to, *one_way, ground),
        FaultKind::SlowLink { from, to, .. } => slow_link::end(from, to, others, ground),
        FaultKind::ReplicationStall { node } => replication_stall::end(node, ground),
        FaultKind::ClockRate { node, .. }
        | FaultKind::ClockFreeze { node }
        | FaultKind::ClockSlew { node, .. } => clock::end(node, others, ground),
        FaultKind::ClockStep { node, by_us } => clock::end_step(node, *by_us, ground),
        FaultKind::Hang { node } => pause::end(node, Some(pause::OWN_WORK), ground),
        FaultKind::Cancel { .. } => cancel::end(kind, ground),
        FaultKind::DiskSlow { node, .. }
        | FaultKind::DiskStall { node }
        | FaultKind::DiskError { node } => disk::end(node, others, ground),
        // There is nothing to undo.
        FaultKind::Reset { .. } | FaultKind::Promote { .. } => {}
    }
}

/// A fault of this kind has ended, and the programs of the nodes `ended` have come to an end by
/// themselves: starts the one that it was in the way of, unless one of the faults that go on, the
/// `others`, still is.
pub fn start_again(
    kind: &FaultKind,
    others: &[&FaultKind],
    ended: &BTreeSet<Name>,
    ground: &Ground,
) {
    if let FaultKind::DiskError { node } = kind
        && ended.contains(node.as_str())
    {
        disk::start_again(node, others, ground);
    }
}

/// What shows of the faults that go on, the `others`, when one of this kind has ended while the
/// storm goes on.
pub fn left_behind(kind: &FaultKind, others: &[&FaultKind], ground: &Ground) -> Option<Sign> {
    match kind {
        FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } => {
            crash::left_behind(node, others, ground)
        }
        _ => None,
    }
}

/// What `sign` says of an active fault of this kind, if it is about it.
pub fn showed(kind: &FaultKind, sign: &Sign, ground: &Ground) -> Option<String> {
    match kind {
        FaultKind::Pause { node, group } => {
            pause::showed(node, group.as_deref(), sign.touch()?, ground)
        }
        FaultKind::Hang { node } => {
            pause::showed(node, Some(pause::OWN_WORK), sign.touch()?, ground)
        }
        FaultKind::Partition { from, to, one_way } => {
            partition::showed(from, to, *one_way, sign.touch()?, ground)
        }
        FaultKind::SlowLink { from, to, .. } => slow_link::showed(from, to, sign.touch()?, ground),
        FaultKind::Reset { from, to } => reset::showed(from, to, sign.touch()?, ground),
        FaultKind::ClockRate { node, .. } | FaultKind::ClockSlew { node, .. } => {
            clock::showed(node, false, sign.touch()?, ground)
        }
        FaultKind::ClockStep { node, .. } | FaultKind::ClockFreeze { node } => {
            clock::showed(node, true, sign.touch()?, ground)
        }
        FaultKind::ReplicationStall { node } => replication_stall::showed(node, sign, ground),
        FaultKind::Cancel { .. } => cancel::showed(kind, sign),
        FaultKind::DiskSlow { node, .. } => disk::showed(node, DiskSign::Slowed, sign, ground),
        FaultKind::DiskStall { node } => disk::showed(node, DiskSign::Stalled, sign, ground),
        FaultKind::DiskError { node } => disk::showed(node, DiskSign::Failed, sign, ground),
        FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } => {
            crash::showed(node, sign, ground)
        }
        // It shows at once or not at all.
        FaultKind::Promote { .. } => None,
    }
}

impl Sign {
    fn touch(&self) -> Option<Touch> {
        match self {
            Sign::Touch(touch) => Some(*touch),
            _ => None,
        }
    }
}

//! Faults: how each kind of a plan is applied, told, and noticed.
//!
//! One small module for each kind: what it does when it begins and when it ends, the
//! line that tells of it, and which [`Touch`] shows that it did something. A fault
//! that nothing touched is *inert*, and a run of inert faults proves nothing.

mod clock;
mod crash;
mod partition;
mod pause;
mod replication_stall;
mod slow_link;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Control;
use crate::engine::world::{NodeId, Touch, World};
use crate::history::event::FaultFamily;
use crate::history::{Name, Recorder};
use crate::plan::FaultKind;
use crate::server::redis::ReplicationGate;

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
    /// The rates at which clocks run when no fault changes them, ppm; 0 for those
    /// that are not here.
    pub rates_ppm: Arc<BTreeMap<NodeId, i64>>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The engine noticed.
    Touch(Touch),
    /// A Redis master held back replication output.
    OutputHeld {
        /// The master.
        node: NodeId,
    },
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
    }
}

/// All nodes that a fault strikes; for faults of links, both sides.
pub fn targets(kind: &FaultKind) -> Vec<Name> {
    match kind {
        FaultKind::ProcessCrash { node }
        | FaultKind::MachineCrash { node }
        | FaultKind::Pause { node, .. }
        | FaultKind::ReplicationStall { node }
        | FaultKind::ClockRate { node, .. }
        | FaultKind::ClockStep { node, .. } => vec![node.as_str().into()],
        FaultKind::Partition { from, to, .. } | FaultKind::SlowLink { from, to, .. } => {
            from.iter().chain(to).map(|name| name.as_str().into()).collect()
        }
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
    }
}

/// How a fault began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It goes on; a [`Sign`] will tell whether it does anything.
    Going,
    /// It goes on and showed at once; how.
    Showed(String),
    /// There was nothing for it to strike: it is over.
    Void,
}

/// Begins a fault. `others` are the faults that are at work already.
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
        FaultKind::ClockRate { node, ppm } => clock::begin_rate(node, *ppm, ground),
        FaultKind::ClockStep { node, by_us } => clock::begin_step(node, *by_us, ground),
    }
}

/// Whether a fault at work is over as soon as `other` begins.
pub fn is_ended_by(kind: &FaultKind, other: &FaultKind) -> bool {
    match kind {
        FaultKind::Pause { node, .. } => pause::is_ended_by(node, other),
        _ => false,
    }
}

/// Ends a fault that has begun. `others` are the faults that go on: what one of them
/// still wants (a node down, a link slow, a clock fast) stays.
pub fn end(kind: &FaultKind, others: &[&FaultKind], ground: &Ground) {
    match kind {
        FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } => {
            crash::end(node, others, ground);
        }
        FaultKind::Pause { node, group } => pause::end(node, group.as_deref(), ground),
        FaultKind::Partition { from, to, one_way } => partition::end(from, to, *one_way, ground),
        FaultKind::SlowLink { from, to, .. } => slow_link::end(from, to, others, ground),
        FaultKind::ReplicationStall { node } => replication_stall::end(node, others, ground),
        FaultKind::ClockRate { node, .. } => clock::end_rate(node, others, ground),
        FaultKind::ClockStep { node, by_us } => clock::end_step(node, *by_us, ground),
    }
}

/// What `sign` says of an active fault of this kind, if it is about it.
pub fn showed(kind: &FaultKind, sign: Sign, ground: &Ground) -> Option<String> {
    match (kind, sign) {
        (FaultKind::Pause { node, .. }, Sign::Touch(touch)) => pause::showed(node, touch, ground),
        (FaultKind::Partition { from, to, one_way }, Sign::Touch(touch)) => {
            partition::showed(from, to, *one_way, touch, ground)
        }
        (FaultKind::SlowLink { from, to, .. }, Sign::Touch(touch)) => {
            slow_link::showed(from, to, touch, ground)
        }
        (FaultKind::ClockRate { node, .. } | FaultKind::ClockStep { node, .. }, sign) => {
            clock::showed(node, sign, ground)
        }
        (FaultKind::ReplicationStall { node }, sign) => {
            replication_stall::showed(node, sign, ground)
        }
        // Crashes show at once or not at all.
        _ => None,
    }
}

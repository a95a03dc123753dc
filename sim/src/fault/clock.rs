//! A node's clocks are made untrue: they run at another rate, the wall clock jumps, or
//! stands still, or both are slewed until the wall clock has gained an amount.
//!
//! A rate or a slew shows when a program of the node reads a clock or waits by it; a jump
//! or a wall clock that stands still only when the wall clock is read.
//!
//! Where several faults are at work on a node, what its clocks do follows from all of
//! them: of the rates the one that began last holds, or else the node's own; slews add to
//! it; a wall clock stands still until the last fault that wants it to is over.

use super::{Begun, Ground};
use crate::engine::clock::ClockChange;
use crate::engine::world::{NodeId, Touch};
use crate::history::What;
use crate::plan::{FaultKind, Micros, Ppm};

pub(super) fn rate_narration(node: &str, ppm: i64) -> String {
    let direction = if ppm < 0 { "slow" } else { "fast" };
    format!("{node}'s clocks run {} ppm {direction}", ppm.unsigned_abs())
}

pub(super) fn step_narration(node: &str, by_us: i64) -> String {
    let direction = if by_us < 0 { "back" } else { "ahead" };
    format!("{node}'s wall clock jumps {} {direction}", Micros(by_us.unsigned_abs()))
}

pub(super) fn freeze_narration(node: &str) -> String {
    format!("{node}'s wall clock stands still")
}

pub(super) fn slew_narration(node: &str, by_us: i64, ppm: u32) -> String {
    let direction = if by_us < 0 { "back" } else { "ahead" };
    let (by, rate) = (Micros(by_us.unsigned_abs()), Ppm(i64::from(ppm)).without_plus());
    format!("{node}'s clocks are slewed {by} {direction} at {rate}")
}

/// Begins a fault that holds for as long as it lasts.
pub(super) fn begin(node: &str, kind: &FaultKind, others: &[&FaultKind], ground: &Ground) -> Begun {
    let Some(id) = ground.find(node) else { return Begun::Void };
    let all: Vec<&FaultKind> = others.iter().copied().chain([kind]).collect();
    settle(id, node, &all, ground);
    Begun::Going
}

/// Ends it: the `others` go on.
pub(super) fn end(node: &str, others: &[&FaultKind], ground: &Ground) {
    if let Some(id) = ground.find(node) {
        settle(id, node, others, ground);
    }
}

/// What the faults at work make of a node's clocks, in order of their beginning.
fn wanted(own_ppm: i64, node: &str, faults: &[&FaultKind]) -> (i64, bool) {
    let (mut base_ppm, mut slewed_ppm, mut frozen) = (own_ppm, 0_i64, false);
    for fault in faults {
        match fault {
            FaultKind::ClockRate { node: held, ppm } if held == node => base_ppm = *ppm,
            FaultKind::ClockSlew { node: held, by_us, ppm } if held == node => {
                slewed_ppm += i64::from(*ppm) * by_us.signum();
            }
            FaultKind::ClockFreeze { node: held } if held == node => frozen = true,
            _ => {}
        }
    }
    (base_ppm + slewed_ppm, frozen)
}

/// Makes the clocks of `node` what the faults at work want of them.
fn settle(id: NodeId, node: &str, faults: &[&FaultKind], ground: &Ground) {
    let own_ppm = ground.rates_ppm.get(&id).copied().unwrap_or(0);
    let (ppm, frozen) = wanted(own_ppm, node, faults);
    // In this order: a rate changes what the wall clock will be right with.
    ground.control.change_clock(id, ClockChange::Rate { ppm });
    let change = if frozen { ClockChange::Freeze } else { ClockChange::Thaw };
    ground.control.change_clock(id, change);
    ground.note_clock(id);
}

pub(super) fn begin_step(node: &str, by_us: i64, ground: &Ground) -> Begun {
    let Some(id) = ground.find(node) else { return Begun::Void };
    step(id, by_us, ground);
    Begun::Going
}

pub(super) fn end_step(node: &str, by_us: i64, ground: &Ground) {
    if let Some(id) = ground.find(node) {
        step(id, by_us.saturating_neg(), ground);
    }
}

fn step(id: NodeId, by_us: i64, ground: &Ground) {
    ground.control.change_clock(id, ClockChange::Step { by_us });
    ground.note_clock(id);
}

impl Ground {
    /// Records how the clocks of a node run from here on.
    pub(crate) fn note_clock(&self, node: NodeId) {
        let deviation = self.world.deviation(node);
        let (offset_us, rate_ppm) = (deviation.offset_us, deviation.rate_ppm);
        self.recorder.record(&self.world.name(node), What::ClockChanged { offset_us, rate_ppm });
    }
}

/// `wall_only`: whether the monotonic clock is as it would be without the fault.
pub(super) fn showed(node: &str, wall_only: bool, touch: Touch, ground: &Ground) -> Option<String> {
    match touch {
        Touch::Clock { node: id, wall } if ground.find(node) == Some(id) => {
            (wall || !wall_only).then(|| format!("{node} read its clock, or waited by it"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(ppm: i64) -> FaultKind {
        FaultKind::ClockRate { node: "redis-1".to_owned(), ppm }
    }

    fn slew(by_us: i64, ppm: u32) -> FaultKind {
        FaultKind::ClockSlew { node: "redis-1".to_owned(), by_us, ppm }
    }

    #[test]
    fn what_clocks_do_follows_from_all_faults_at_work() {
        let freeze = FaultKind::ClockFreeze { node: "redis-1".to_owned() };
        let elsewhere = FaultKind::ClockFreeze { node: "redis-2".to_owned() };
        let cases: [(&[&FaultKind], (i64, bool)); 6] = [
            (&[], (7, false)),
            (&[&rate(100)], (100, false)),
            (&[&rate(100), &rate(-200)], (-200, false)),
            (&[&slew(5, 500), &slew(-5, 300)], (207, false)),
            (&[&slew(-5, 300), &rate(1_000), &freeze], (700, true)),
            (&[&elsewhere], (7, false)),
        ];
        for (faults, expected) in cases {
            assert_eq!(wanted(7, "redis-1", faults), expected, "{faults:?}");
        }
    }
}

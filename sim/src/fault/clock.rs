//! A node's clocks run at another rate, or its wall clock jumps. Shows when the
//! node's programs read a clock or wait by it.

use super::{Begun, Ground, Sign};
use crate::engine::clock::ClockChange;
use crate::engine::world::Touch;
use crate::plan::{FaultKind, Micros};

pub(super) fn rate_narration(node: &str, ppm: i64) -> String {
    let direction = if ppm < 0 { "slow" } else { "fast" };
    format!("{node}'s clocks run {} ppm {direction}", ppm.unsigned_abs())
}

pub(super) fn step_narration(node: &str, by_us: i64) -> String {
    let direction = if by_us < 0 { "back" } else { "ahead" };
    format!("{node}'s wall clock jumps {} {direction}", Micros(by_us.unsigned_abs()))
}

pub(super) fn begin_rate(node: &str, ppm: i64, ground: &Ground) -> Begun {
    change(node, ClockChange::Rate { ppm }, ground)
}

fn change(node: &str, change: ClockChange, ground: &Ground) -> Begun {
    match ground.find(node) {
        Some(id) => {
            ground.control.change_clock(id, change);
            Begun::Going
        }
        None => Begun::Void,
    }
}

pub(super) fn end_rate(node: &str, others: &[&FaultKind], ground: &Ground) {
    if let Some(id) = ground.find(node) {
        let still = others.iter().rev().find_map(|other| match other {
            FaultKind::ClockRate { node: held, ppm } if held == node => Some(*ppm),
            _ => None,
        });
        let own = || ground.rates_ppm.get(&id).copied().unwrap_or(0);
        let ppm = still.unwrap_or_else(own);
        ground.control.change_clock(id, ClockChange::Rate { ppm });
    }
}

pub(super) fn begin_step(node: &str, by_us: i64, ground: &Ground) -> Begun {
    change(node, ClockChange::Step { by_us }, ground)
}

pub(super) fn end_step(node: &str, by_us: i64, ground: &Ground) {
    if let Some(id) = ground.find(node) {
        ground.control.change_clock(id, ClockChange::Step { by_us: by_us.saturating_neg() });
    }
}

pub(super) fn showed(node: &str, sign: Sign, ground: &Ground) -> Option<String> {
    match sign {
        Sign::Touch(Touch::Clock { node: id }) if ground.find(node) == Some(id) => {
            Some(format!("{node} read its clock"))
        }
        _ => None,
    }
}

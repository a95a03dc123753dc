//! What the clocks of a run showed: the plan's, with the faults that changed them.
//!
//! A lease in a server is the wall time of its end. It ends too early when the clock
//! that it is compared with has gained on true time since it was written, by a jump,
//! by running fast, or because it is another server's clock.

use crate::check::Mechanism;
use crate::engine::clock::{ClockChange, NodeClock, WALL_ORIGIN_US};
use crate::history::{Event, EventId, History, What};
use crate::plan::{FaultKind, Plan};

/// What a server's clock gained on a lease, by what did most of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// The lease was written by another server's clock, which was so far behind, µs.
    Moved(i64),
    /// The wall clock jumped so far ahead, µs.
    Stepped(i64),
    /// The clock ran fast at this rate, ppm.
    Fast(i64),
    /// Nothing that would have ended a lease early.
    Nothing,
}

/// A plan's clocks along a history.
#[derive(Clone, Copy, Debug)]
pub struct Clocks<'a> {
    history: &'a History,
    plan: &'a Plan,
}

impl<'a> Clocks<'a> {
    /// The clocks of this run.
    pub fn of(history: &'a History, plan: &'a Plan) -> Clocks<'a> {
        Clocks { history, plan }
    }

    /// What ended a lease early, and by how much.
    pub fn gain(&self, mechanism: &Mechanism) -> Gain {
        let Mechanism::ExpiredEarly { set_at, set, expired_at, expiry, .. } = mechanism else {
            return Gain::Nothing;
        };
        let (Some(set), Some(expiry)) = (self.history.get(*set), self.history.get(*expiry)) else {
            return Gain::Nothing;
        };
        let then = self.wall_ahead_us(expired_at, set);
        let moved = then - self.wall_ahead_us(set_at, set);
        let stepped = self.stepped_us(expired_at, set.id, expiry.id);
        let drifted = self.wall_ahead_us(expired_at, expiry) - then - stepped;
        let most = moved.max(stepped).max(drifted);
        match most {
            ..=0 => Gain::Nothing,
            _ if most == moved => Gain::Moved(moved),
            _ if most == stepped => Gain::Stepped(stepped),
            _ => Gain::Fast(self.ppm(expired_at, expiry.id)),
        }
    }

    /// How far the wall clock of `node` is ahead of true time at `event`, µs.
    pub fn wall_ahead_us(&self, node: &str, event: &Event) -> i64 {
        let at_us = i64::try_from(event.at_us).unwrap_or(i64::MAX);
        self.clock(node, event.id).wall_us(event.at_us) - WALL_ORIGIN_US - at_us
    }

    /// What the monotonic clock of `node` counted from one event to the other, µs.
    pub fn counted_us(&self, node: &str, from: &Event, to: &Event) -> u64 {
        let reading = |event: &Event| self.clock(node, event.id).monotonic_us(event.at_us);
        reading(to).saturating_sub(reading(from))
    }

    fn clock(&self, node: &str, until: EventId) -> NodeClock {
        let mut clock = NodeClock::default();
        for (at_us, _, change) in
            self.changes(node).into_iter().filter(|(_, id, _)| *id <= Some(until))
        {
            clock.change(at_us, change);
        }
        clock
    }

    /// By how much the wall clock jumped in all: steps, and being set right after it had
    /// stood still.
    fn stepped_us(&self, node: &str, after: EventId, until: EventId) -> i64 {
        let mut clock = NodeClock::default();
        let mut stepped_us = 0;
        for (at_us, id, change) in self.changes(node) {
            let before_us = clock.wall_us(at_us);
            clock.change(at_us, change);
            if Some(after) < id && id <= Some(until) {
                stepped_us += clock.wall_us(at_us) - before_us;
            }
        }
        stepped_us
    }

    fn ppm(&self, node: &str, until: EventId) -> i64 {
        let changes = self.changes(node).into_iter().filter(|(_, id, _)| *id <= Some(until));
        let mut rates = changes.filter_map(|(_, _, change)| match change {
            ClockChange::Rate { ppm } => Some(ppm),
            ClockChange::Step { .. } | ClockChange::Freeze | ClockChange::Thaw => None,
        });
        rates.next_back().unwrap_or(0)
    }

    /// The changes of a node's clock: when, at which event (none for those before the
    /// first), which.
    fn changes(&self, node: &str) -> Vec<(u64, Option<EventId>, ClockChange)> {
        let mut changes = Vec::new();
        let mut own_ppm = 0;
        for clock in self.plan.clocks.iter().filter(|clock| clock.node == node) {
            own_ppm = clock.rate_ppm;
            changes.push((0, None, ClockChange::Rate { ppm: clock.rate_ppm }));
            changes.push((0, None, ClockChange::Step { by_us: clock.offset_us }));
        }
        // The rates of faults at work, by position in the plan; slews add to them.
        let mut rates: Vec<(usize, i64)> = Vec::new();
        let mut slews: Vec<(usize, i64)> = Vec::new();
        for event in self.history.iter() {
            let (What::FaultBegan { fault, .. } | What::FaultEnded { fault }) = &event.what else {
                continue;
            };
            let begins = matches!(event.what, What::FaultBegan { .. });
            let change = match self.plan.faults.get(*fault).map(|fault| &fault.kind) {
                Some(FaultKind::ClockStep { node: of, by_us }) if of == node => {
                    let by_us = if begins { *by_us } else { by_us.saturating_neg() };
                    ClockChange::Step { by_us }
                }
                Some(FaultKind::ClockRate { node: of, ppm }) if of == node => {
                    rates.retain(|(other, _)| other != fault);
                    if begins {
                        rates.push((*fault, *ppm));
                    }
                    ClockChange::Rate { ppm: rate_of(own_ppm, &rates, &slews) }
                }
                Some(FaultKind::ClockSlew { node: of, by_us, ppm }) if of == node => {
                    slews.retain(|(other, _)| other != fault);
                    if begins {
                        slews.push((*fault, i64::from(*ppm) * by_us.signum()));
                    }
                    ClockChange::Rate { ppm: rate_of(own_ppm, &rates, &slews) }
                }
                Some(FaultKind::ClockFreeze { node: of }) if of == node => match begins {
                    true => ClockChange::Freeze,
                    false => ClockChange::Thaw,
                },
                _ => continue,
            };
            changes.push((event.at_us, Some(event.id), change));
        }
        changes
    }
}

/// As the faults compose: the latest rate, or the clock's own, and all slews on top.
fn rate_of(own_ppm: i64, rates: &[(usize, i64)], slews: &[(usize, i64)]) -> i64 {
    let base_ppm = rates.last().map_or(own_ppm, |(_, ppm)| *ppm);
    base_ppm + slews.iter().map(|(_, ppm)| ppm).sum::<i64>()
}

//! How a promised lock came to be granted again: read off what its servers went
//! through between the two grants, never off the faults of the plan.
//!
//! The rules, in order, for a first grant, what became of its record, and a second:
//! 1. One of the two was granted by a server that had been replaced as master when it
//!    granted: split brain.
//! 2. The record was lost when its server restarted: it restarted empty.
//! 3. A server without the record was promoted.
//! 4. The record expired before its promise had ended: a matter of clocks.
//! 5. Somebody else deleted or overwrote it.
//!
//! Only then is it asked which faults stood behind that, each within the stretch of
//! the run in which it could have.

use serde::Serialize;

use super::faults::{BlamedFault, Faults, Group, Mark, Struck, distinct};
use crate::check::detail::Vanished;
use crate::check::grants::{Application, Grant};
use crate::check::interval::{Interval, Moment};
use crate::check::records::Loss;
use crate::history::FaultFamily::{
    ClockFreeze, ClockRate, ClockSlew, ClockStep, MachineCrash, Partition, ProcessCrash,
};
use crate::history::{EventId, Name};

/// A failover as the history shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failover {
    /// The master that was replaced.
    pub from: Name,
    /// The server that became master.
    pub to: Name,
    /// A sentinel gave up on the old master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<EventId>,
    /// The promotion.
    pub promotion: EventId,
    /// Clients were told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<EventId>,
}

impl Failover {
    fn of(faults: &Faults, from: &Name, promotion: &Mark) -> Failover {
        Failover {
            from: from.clone(),
            to: promotion.node.clone(),
            down: faults.down_of(from, promotion).map(|down| down.event),
            promotion: promotion.event,
            switch: faults.switch_to(promotion).map(|switch| switch.event),
        }
    }
}

/// How a promised lock came to be granted again, or its record to be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", tag = "by")]
pub enum Mechanism {
    /// No failover, restart or expiry had a part in it, or the history does not tell.
    #[default]
    Unknown,
    /// The server that had the record restarted without it.
    RestartedEmpty {
        /// Which.
        server: Name,
        /// The restart.
        #[serde(skip_serializing_if = "Option::is_none")]
        restart: Option<EventId>,
        /// Another became master after the restart and before the second grant.
        #[serde(skip_serializing_if = "Option::is_none")]
        then: Option<Failover>,
    },
    /// A server without the record was promoted.
    PromotedWithout {
        /// The failover.
        failover: Failover,
    },
    /// A server that had been replaced as master granted the lock.
    SplitBrain {
        /// The failover, before that grant.
        failover: Failover,
        /// The replaced master had restarted, after the first grant, in between.
        #[serde(skip_serializing_if = "Option::is_none")]
        restart: Option<EventId>,
    },
    /// A server's clock ended the lease before its time.
    ExpiredEarly {
        /// Where the record was set.
        set_at: Name,
        /// Its setting.
        set: EventId,
        /// Where it expired.
        expired_at: Name,
        /// Its expiry.
        expiry: EventId,
        /// The failover that took it from the one to the other.
        #[serde(skip_serializing_if = "Option::is_none")]
        failover: Option<Failover>,
    },
    /// Somebody else deleted the record.
    Deleted,
    /// Somebody else overwrote the record.
    Overwritten,
    /// The holder stood still when its promise ended.
    AsleepAtEnd {
        /// Its node.
        holder: Name,
    },
    /// The leader of an ensemble ended the holder's session, and the next was let in.
    SessionEnded {
        /// The holder's node.
        holder: Name,
        /// The session's end.
        expiry: EventId,
        /// The server that led then.
        #[serde(skip_serializing_if = "Option::is_none")]
        leader: Option<Name>,
        /// The change since which the leader's clock ran fast.
        #[serde(skip_serializing_if = "Option::is_none")]
        clock: Option<EventId>,
    },
}

impl Mechanism {
    /// The failover that has a part in it.
    pub fn failover(&self) -> Option<&Failover> {
        match self {
            Mechanism::PromotedWithout { failover } | Mechanism::SplitBrain { failover, .. } => {
                Some(failover)
            }
            Mechanism::RestartedEmpty { then: failover, .. }
            | Mechanism::ExpiredEarly { failover, .. } => failover.as_ref(),
            _ => None,
        }
    }

    /// The events without which it cannot be told.
    pub fn events(&self) -> Vec<EventId> {
        let mut events: Vec<EventId> = self.failover().iter().map(|over| over.promotion).collect();
        match self {
            Mechanism::RestartedEmpty { restart, .. } | Mechanism::SplitBrain { restart, .. } => {
                events.extend(restart);
            }
            Mechanism::ExpiredEarly { set, expiry, .. } => events.extend([set, expiry]),
            Mechanism::SessionEnded { expiry, clock, .. } => {
                events.push(*expiry);
                events.extend(clock);
            }
            _ => {}
        }
        events.sort_unstable();
        events
    }
}

/// A mechanism and the faults behind it.
pub(super) type Told = (Mechanism, Vec<BlamedFault>);

/// How the lock of `first` came to be granted to `second`, or, without a second, how
/// its record was lost. `loss` is what became of the record before that.
pub(super) fn between(
    faults: &Faults,
    first: &Grant,
    loss: Option<&Loss>,
    second: Option<&Grant>,
) -> Told {
    let Some(set) = &first.applied else { return Told::default() };
    if let Some(told) = split_brain(faults, first, loss, second) {
        return told;
    }
    let Some(loss) = loss else { return Told::default() };
    let since = Interval::new(set.moment, loss.moment);
    match loss.how {
        Vanished::Crash => {
            let until = second.map_or(loss.moment, Grant::start);
            restarted_empty(faults, &loss.authority, since, until)
        }
        Vanished::Failover => match faults.promotion_in(since, Some(&loss.node)) {
            Some(promotion) => promoted_without(faults, &loss.authority, set.moment, promotion),
            None => Told::default(),
        },
        Vanished::ExpiredEarly => {
            // Of a quorum every server has a setting of its own.
            let here = |applied: &&Application| {
                applied.node == loss.authority && applied.moment <= loss.moment
            };
            let set = first.applications.iter().rfind(here).unwrap_or(set);
            expired_early(faults, set, loss)
        }
        Vanished::Deleted => (Mechanism::Deleted, Vec::new()),
        Vanished::Overwritten => (Mechanism::Overwritten, Vec::new()),
        Vanished::Resync => Told::default(),
    }
}

/// How a counter went back between two grants, whatever became of their records.
pub(super) fn of_counter(faults: &Faults, earlier: &Grant, later: &Grant) -> Told {
    let (Some(one), Some(other)) = (&earlier.applied, &later.applied) else {
        return Told::default();
    };
    if let Some(told) = split_brain(faults, earlier, None, Some(later)) {
        return told;
    }
    let between = Interval::new(one.moment, other.moment);
    if let Some(promotion) = faults.promotion_in(between, Some(&other.node)) {
        return promoted_without(faults, &one.node, one.moment, promotion);
    }
    match faults.restart_in(between, &one.node) {
        Some(_) => restarted_empty(faults, &one.node, between, other.moment),
        None => Told::default(),
    }
}

fn split_brain(
    faults: &Faults,
    first: &Grant,
    loss: Option<&Loss>,
    second: Option<&Grant>,
) -> Option<Told> {
    let one = first.applied.as_ref()?;
    let replaced_by = |node: &Name, at: Moment| faults.replaced_before(node, at);
    let (old, granted, promotion) = match second.and_then(|second| second.applied.as_ref()) {
        Some(other) => {
            let parted = one.node != other.node;
            let first_was = replaced_by(&one.node, one.moment).filter(|_| parted);
            let second_was = replaced_by(&other.node, other.moment)
                .filter(|promotion| parted || promotion.moment > one.moment);
            match first_was {
                Some(promotion) => (&one.node, one, promotion),
                None => (&other.node, other, second_was?),
            }
        }
        None => {
            loss.filter(|loss| loss.how == Vanished::Resync)?;
            (&one.node, one, replaced_by(&one.node, one.moment)?)
        }
    };
    // A master that came back from a crash with nothing grants whatever it is asked.
    let stretch = Interval::new(one.moment, granted.moment);
    let restart = faults.restart_in(stretch, old).map(|restart| restart.event);
    let took = faults.took(old, Moment::START, promotion);
    let failover = Failover::of(faults, old, promotion);
    Some((Mechanism::SplitBrain { failover, restart }, distinct([took])))
}

fn restarted_empty(faults: &Faults, server: &Name, since: Interval, until: Moment) -> Told {
    let crash: [Group<'_>; 1] =
        [(&[ProcessCrash, MachineCrash], vec![Struck::node(server, "authority")])];
    let crash = faults.pick(&crash, since);
    let after = Interval::new(since.to, until);
    let then = faults.promotion_in(after, None).filter(|promotion| promotion.node != *server);
    let mechanism = Mechanism::RestartedEmpty {
        server: server.clone(),
        restart: faults.restart_in(since, server).map(|restart| restart.event),
        then: then.map(|promotion| Failover::of(faults, server, promotion)),
    };
    (mechanism, distinct([crash]))
}

fn promoted_without(faults: &Faults, from: &Name, set: Moment, promotion: &Mark) -> Told {
    let took = faults.took(from, set, promotion);
    // A cut that hid the master from its replicas as well, since before the grant, needs
    // no help.
    let cut: [Group<'_>; 1] =
        [(&[Partition], vec![Struck::link(from, &promotion.node, "authority")])];
    let cut = faults.pick(&cut, Interval::new(set, set));
    let is_enough =
        took.is_some() && cut.as_ref().map(|c| c.fault) == took.as_ref().map(|t| t.fault);
    let kept = (!is_enough)
        .then(|| faults.kept_from(from, &promotion.node, Interval::new(set, promotion.moment)));
    let failover = Failover::of(faults, from, promotion);
    (Mechanism::PromotedWithout { failover }, distinct([kept.flatten(), took]))
}

fn expired_early(faults: &Faults, set: &Application, loss: &Loss) -> Told {
    let since = Interval::new(set.moment, loss.moment);
    let untrue = &[ClockStep, ClockRate, ClockFreeze, ClockSlew];
    let clock: [Group<'_>; 1] = [(untrue, vec![Struck::node(&loss.authority, "authority")])];
    let clock = faults.pick(&clock, since);
    let moved = (set.node != loss.authority)
        .then(|| faults.promotion_in(since, Some(&loss.authority)))
        .flatten();
    let took = moved.and_then(|promotion| faults.took(&set.node, set.moment, promotion));
    let mechanism = Mechanism::ExpiredEarly {
        set_at: set.node.clone(),
        set: set.event,
        expired_at: loss.authority.clone(),
        expiry: loss.event,
        failover: moved.map(|promotion| Failover::of(faults, &set.node, promotion)),
    };
    (mechanism, distinct([clock, took]))
}

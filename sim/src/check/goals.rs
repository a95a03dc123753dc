//! Goals: what must have happened in a run for its silence to mean anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::grants::Grant;
use super::interval::{Interval, Moment, overlapping_pairs};
use super::words::{self, Language};
use crate::history::{EventId, Name, OrderAnswer, StockOperation, What};

/// A thing that must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The lock passed from one owner to another.
    Handover,
    /// Of a plan with faults, one had an observable effect.
    FaultTookEffect,
    /// Of a plan with faults, somebody was granted the lock before they had all ended.
    GrantInStorm,
    /// Where something was sold, the books or the counter were read at the end.
    BooksRead,
    /// Of a strategy without locks: two were at it at once, or one was refused.
    Conflict,
    /// A server became master.
    Failover,
    /// A lease or a session ran out.
    Expiry,
    /// A lease was renewed.
    Renewal,
    /// A client's node crashed while it held the lock.
    HolderDied,
    /// Somebody found nothing left.
    SoldOut,
    /// The resource refused an operation.
    FenceRefused,
    /// Somebody did something to the resource that the lock guards.
    ResourceTouched,
}

impl Goal {
    /// All of them.
    pub const ALL: [Goal; 12] = [
        Goal::Handover,
        Goal::FaultTookEffect,
        Goal::GrantInStorm,
        Goal::BooksRead,
        Goal::Conflict,
        Goal::Failover,
        Goal::Expiry,
        Goal::Renewal,
        Goal::HolderDied,
        Goal::SoldOut,
        Goal::FenceRefused,
        Goal::ResourceTouched,
    ];

    /// Its stable name.
    pub fn id(self) -> &'static str {
        match self {
            Goal::Handover => "handover",
            Goal::FaultTookEffect => "fault-took-effect",
            Goal::GrantInStorm => "grant-in-storm",
            Goal::BooksRead => "books-read",
            Goal::Conflict => "conflict",
            Goal::Failover => "failover",
            Goal::Expiry => "expiry",
            Goal::Renewal => "renewal",
            Goal::HolderDied => "holder-died",
            Goal::SoldOut => "sold-out",
            Goal::FenceRefused => "fence-refused",
            Goal::ResourceTouched => "resource-touched",
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }
}

/// The goals of a scenario, beside those that every run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Goal>", into = "Vec<Goal>")]
pub struct Wanted(u16);

impl Wanted {
    /// Whether this one is among them.
    pub fn contains(self, goal: Goal) -> bool {
        self.0 & (1 << goal as u16) != 0
    }
}

impl From<Vec<Goal>> for Wanted {
    fn from(goals: Vec<Goal>) -> Wanted {
        Wanted(goals.into_iter().fold(0, |all, goal| all | (1 << goal as u16)))
    }
}

impl From<Wanted> for Vec<Goal> {
    fn from(wanted: Wanted) -> Vec<Goal> {
        Goal::ALL.into_iter().filter(|goal| wanted.contains(*goal)).collect()
    }
}

/// A fault of the plan that touched nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InertFault {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// Its beginning; `None` when what it waited for never came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<EventId>,
    /// For people; empty when it never began.
    pub description: String,
}

/// Which goals were met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Goals {
    /// How often a lock passed from one owner to another.
    pub handovers: usize,
    /// The grant that completed the first handover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_handover: Option<EventId>,
    /// Faults of the plan that had an observable effect, by position.
    pub touched: Vec<usize>,
    /// Faults of the plan that had none.
    pub inert: Vec<InertFault>,
    /// Goals that were not met.
    pub missed: Vec<Goal>,
    /// Whether a fault that had an effect was at work until the faults were over, or ended so
    /// shortly before that the lock was still allowed to be closed.
    #[serde(skip)]
    pub struck_to_the_end: bool,
}

impl Goals {
    /// Looks for them.
    pub fn of(case: &Case<'_>) -> Goals {
        let mut goals = Goals::default();
        goals.look_for_handovers(case);
        goals.look_at_faults(case);
        let seen = Seen::of(case);
        let setting = &case.setting;
        let is_met = |goal: Goal| match goal {
            Goal::Handover => goals.handovers > 0,
            Goal::FaultTookEffect => !goals.touched.is_empty(),
            Goal::GrantInStorm => granted_in_storm(case),
            Goal::BooksRead => seen.books,
            Goal::Conflict => seen.refused || believed_together(case),
            Goal::Failover => seen.promoted,
            Goal::Expiry => seen.expired,
            Goal::Renewal => seen.renewed,
            Goal::HolderDied => holder_died(case),
            Goal::SoldOut => seen.sold_out,
            Goal::FenceRefused => seen.refused,
            Goal::ResourceTouched => seen.touched,
        };
        let is_owed = |goal: Goal| match goal {
            // A history of sales without any lock is one of the stock alone.
            Goal::Handover => !setting.lock_free && (seen.lock || !seen.sold),
            Goal::Conflict => setting.lock_free,
            Goal::FaultTookEffect => setting.faults > 0,
            // Where nobody was granted it, no handover says so.
            Goal::GrantInStorm => {
                let is_granted = case.grants.rows().iter().any(Grant::is_told);
                setting.faults > 0 && !setting.lock_free && seen.healed && is_granted
            }
            Goal::BooksRead => seen.sold,
            _ => false,
        };
        let owed = Goal::ALL.into_iter();
        let owed = owed.filter(|goal| is_owed(*goal) || setting.goals.contains(*goal));
        goals.missed = owed.filter(|goal| !is_met(*goal)).collect();
        goals.struck_to_the_end = struck_to_the_end(case);
        goals
    }

    /// Whether this one was missed.
    pub fn is_missed(&self, goal: Goal) -> bool {
        self.missed.contains(&goal)
    }

    fn look_for_handovers(&mut self, case: &Case<'_>) {
        let rows = case.grants.rows();
        let mut first: Option<(Moment, EventId)> = None;
        for of_key in case.grants.by_key().values() {
            let told = of_key.iter().map(|row| &rows[*row]).filter(|grant| grant.is_told());
            let told: Vec<_> = told.collect();
            for pair in told.windows(2) {
                // One client that gets the lock again and again hands nothing over.
                if !pair[0].conflicts_with(pair[1]) || pair[0].is_same_client(pair[1]) {
                    continue;
                }
                self.handovers += 1;
                let second = pair[1].evidence().first().map(|event| (pair[1].start(), *event));
                first = first.into_iter().chain(second).min();
            }
        }
        self.first_handover = first.map(|(_, event)| event);
    }

    fn look_at_faults(&mut self, case: &Case<'_>) {
        let mut began: BTreeMap<usize, (EventId, &str)> = BTreeMap::new();
        let mut touched = std::collections::BTreeSet::new();
        for event in case.history.iter() {
            match &event.what {
                What::FaultBegan { fault, description, .. } => {
                    began.entry(*fault).or_insert((event.id, description));
                }
                What::FaultTouched { fault, .. } => {
                    touched.insert(*fault);
                }
                _ => {}
            }
        }
        self.touched = touched.into_iter().collect();
        for fault in (0..case.setting.faults).filter(|fault| !self.touched.contains(fault)) {
            let (event, description) = began.get(&fault).copied().unzip();
            let description = description.unwrap_or_default().to_owned();
            self.inert.push(InertFault { fault, began: event, description });
        }
    }
}

/// What the events show.
#[derive(Default)]
struct Seen {
    lock: bool,
    sold: bool,
    books: bool,
    refused: bool,
    promoted: bool,
    expired: bool,
    renewed: bool,
    sold_out: bool,
    healed: bool,
    touched: bool,
}

impl Seen {
    fn of(case: &Case<'_>) -> Seen {
        let mut seen = Seen::default();
        for event in case.history.iter() {
            seen.touched |= matches!(event.what, What::Effect { .. });
            match &event.what {
                What::Effect { accepted: false, .. } => seen.refused = true,
                What::Effect { operation: StockOperation::Sell { .. }, .. } => seen.sold = true,
                What::Effect { operation: StockOperation::Read { left: 0, .. }, .. } => {
                    seen.sold_out = true;
                }
                What::Ledger { .. } | What::StockCounted { .. } => seen.books = true,
                What::OrderReturned { answer: OrderAnswer::SoldOut, .. } => seen.sold_out = true,
                What::OrderReturned { answer: OrderAnswer::Accepted, .. } => seen.sold = true,
                What::AcquireInvoked { .. }
                | What::AcquireReturned { .. }
                | What::RecordSet { .. }
                | What::WaitBegan { .. } => seen.lock = true,
                What::Promoted { .. } => seen.promoted = true,
                What::Healed => seen.healed = true,
                What::RecordExpired { .. } | What::SessionExpired { .. } => seen.expired = true,
                What::RecordExtended { .. } => seen.renewed = true,
                _ => {}
            }
        }
        seen
    }
}

/// Whether two clients ever believed to be in at once.
fn believed_together(case: &Case<'_>) -> bool {
    let rows = case.grants.rows();
    case.grants.by_key().values().any(|of_key| {
        let held: Vec<(usize, Interval)> =
            of_key.iter().filter_map(|row| Some((*row, rows[*row].belief?))).collect();
        let intervals: Vec<Interval> = held.iter().map(|(_, belief)| *belief).collect();
        let shared = |n: usize| rows[held[n].0].shared;
        let conflict = |a: usize, b: usize| rows[held[a].0].conflicts_with(&rows[held[b].0]);
        !overlapping_pairs(&intervals, 1, shared, conflict, &case.steps).is_empty()
    })
}

/// The end of the last fault.
fn healed(case: &Case<'_>) -> Option<Moment> {
    let healed = case.history.iter().find(|event| matches!(event.what, What::Healed));
    healed.map(Moment::of)
}

/// Whether a fault was at work until the healing, or ended less than the takeover bound before it.
fn struck_to_the_end(case: &Case<'_>) -> bool {
    let Some(healed) = healed(case) else { return false };
    let bound_us = case.setting.takeover_bound_us.unwrap_or_default();
    // What lasts to the storm's end is ended by the healing, at its very microsecond.
    let from = Moment::at(healed.at_us.saturating_sub(bound_us));
    case.faults.were_at_work(Interval::new(from, healed))
}

/// Whether somebody was granted the lock before every fault had ended.
fn granted_in_storm(case: &Case<'_>) -> bool {
    let Some(healed) = healed(case) else { return false };
    case.grants.rows().iter().any(|grant| grant.is_told() && grant.start() < healed)
}

/// Whether a node crashed on which somebody held the lock.
fn holder_died(case: &Case<'_>) -> bool {
    let mut crashes: BTreeMap<&Name, Vec<Moment>> = BTreeMap::new();
    for event in case.history.iter() {
        if matches!(event.what, What::NodeCrashed { .. }) {
            crashes.entry(&event.node).or_default().push(Moment::of(event));
        }
    }
    case.grants.rows().iter().any(|grant| {
        let belief = grant.belief.zip(grant.client().and_then(|client| crashes.get(client)));
        belief.is_some_and(|(belief, crashes)| crashes.binary_search(&belief.to).is_ok())
    })
}

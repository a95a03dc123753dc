//! Goals: what must have happened in a run for its silence to mean anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::Case;
use super::interval::Moment;
use super::words::{self, Language};
use crate::history::{EventId, StockOperation, What};

/// A thing that must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The lock passed from one owner to another.
    Handover,
    /// Of a plan with faults, one had an observable effect.
    FaultTookEffect,
    /// Where something was sold, the books were read at the end.
    BooksRead,
}

impl Goal {
    /// All of them.
    pub const ALL: [Goal; 3] = [Goal::Handover, Goal::FaultTookEffect, Goal::BooksRead];

    /// Its stable name.
    pub fn id(self) -> &'static str {
        match self {
            Goal::Handover => "handover",
            Goal::FaultTookEffect => "fault-took-effect",
            Goal::BooksRead => "books-read",
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
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
}

impl Goals {
    /// Looks for them.
    pub fn of(case: &Case<'_>) -> Goals {
        let mut goals = Goals::default();
        goals.look_for_handovers(case);
        goals.look_at_faults(case);
        let has = |is: fn(&What) -> bool| case.history.iter().any(|event| is(&event.what));
        let sold = has(|what| {
            let sell =
                |operation: &StockOperation| matches!(operation, StockOperation::Sell { .. });
            matches!(what, What::Effect { operation, accepted: true, .. } if sell(operation))
        });
        if goals.handovers == 0 {
            goals.missed.push(Goal::Handover);
        }
        if case.setting.faults > 0 && goals.touched.is_empty() {
            goals.missed.push(Goal::FaultTookEffect);
        }
        if sold && !has(|what| matches!(what, What::Ledger { .. })) {
            goals.missed.push(Goal::BooksRead);
        }
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

//! The critical pair: two events whose order parts the run that fails from the nearest
//! one that passes.
//!
//! Both runs have the same draws, so they are the same up to where the one change first
//! matters. The first event of the failing run that the passing one does not have there,
//! and the first of the passing run that the failing one does not have there, are what one
//! looks for. Only what concerns the parties, the cluster and the faults is compared: a
//! stranger's request that came a millisecond later is no reason.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use crate::history::{Event, EventId, History, What};
use crate::report::subject::Subject;
use crate::storm::Run;

/// An event as one of the two runs has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The event, in its run.
    pub event: EventId,
    /// When, µs.
    pub at_us: u64,
    /// What.
    pub name: String,
    /// Whether the other run has it too, later.
    pub in_both: bool,
}

/// Where two runs part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What comes first in the run that fails.
    pub failing: Moment,
    /// What comes first in the run that passes, in its place.
    pub passing: Moment,
}

/// Where the run that fails and one that passes part; `None` if they part in nothing that
/// is compared.
pub fn of(failing: &Run, passing: &Run) -> Option<Pair> {
    let subject = Subject::of(&failing.history, &failing.judgement)?;
    let owners: BTreeSet<&str> = subject.owners().into_iter().collect();
    let one = sequence(&failing.history, &owners);
    let other = sequence(&passing.history, &owners);
    let at = one.iter().zip(&other).position(|(one, other)| one.key != other.key)?;
    let moment = |of: &Step<'_>, others: &[Step<'_>]| Moment {
        event: of.event.id,
        at_us: of.event.at_us,
        name: of.key.0.clone(),
        in_both: others.iter().any(|other| other.key == of.key),
    };
    Some(Pair { failing: moment(&one[at], &other), passing: moment(&other[at], &one) })
}

/// A name and the how-manieth event of that name it is.
type Key = (String, u32);

struct Step<'h> {
    event: &'h Event,
    key: Key,
}

fn sequence<'h>(history: &'h History, owners: &BTreeSet<&str>) -> Vec<Step<'h>> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let compared = |event: &&Event| {
        // When a fault ends is what was changed; what that leads to is compared.
        let is_end = matches!(event.what, What::FaultEnded { .. } | What::RecordRefused { .. });
        !is_end && names::owner(event).is_none_or(|owner| owners.contains(owner.as_str()))
    };
    let steps = history.iter().filter(compared).filter_map(|event| {
        let name = names::name(event)?;
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        Some(Step { event, key: (name, *count) })
    });
    steps.collect()
}

//! The faults that were at work on a party, or on a server that its lock lives on, between
//! its grant and what it did wrong.
//!
//! A blame names what the finding follows from. What kept a holder from its work, or its
//! server from the others, meanwhile belongs to the story whether or not it is blamed: who
//! reads the story looks for it there.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::blame::Faults;
use crate::check::interval::{Interval, Moment};
use crate::history::{AcquireOutcome, EventId, FaultFamily, History, Name, What};

/// A fault of the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtWork {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// What sort of fault it is.
    pub family: FaultFamily,
    /// Where it first did something.
    pub touched: EventId,
}

/// Who must have been struck, and from when to when.
struct Stretch<'h> {
    node: &'h Name,
    over: Interval,
}

/// All of them, by their beginnings. `grants` are the applications that the owners' clients were
/// told of.
pub(super) fn at_work(
    history: &History,
    owners: &BTreeSet<&str>,
    grants: &BTreeSet<EventId>,
    evidence: &BTreeSet<EventId>,
) -> BTreeMap<EventId, AtWork> {
    let faults = Faults::of(history);
    let stretches = stretches(history, owners, grants, evidence);
    let facts = stretches.iter().flat_map(|stretch| faults.striking(stretch.node, stretch.over));
    let at_work = facts.filter_map(|fact| {
        let (_, touched) = fact.touched?;
        Some((fact.began.1, AtWork { fault: fact.fault, family: fact.family, touched }))
    });
    at_work.collect()
}

/// Each holder from its grant to its last act that proves the finding, or else to the end of
/// the proof; each server that granted the lock from the first grant to that end.
fn stretches<'h>(
    history: &'h History,
    owners: &BTreeSet<&str>,
    grants: &BTreeSet<EventId>,
    evidence: &BTreeSet<EventId>,
) -> Vec<Stretch<'h>> {
    let (Some(first), Some(end)) = (grants.first().copied(), evidence.last().copied()) else {
        return Vec::new();
    };
    let mut granted: BTreeMap<&str, EventId> = BTreeMap::new();
    let mut acts: BTreeMap<&str, EventId> = BTreeMap::new();
    let mut holders: BTreeMap<String, &Name> = BTreeMap::new();
    let mut servers: BTreeSet<&Name> = BTreeSet::new();
    for event in history.iter() {
        match &event.what {
            What::RecordSet { owner, .. } if owners.contains(&**owner) && event.id <= end => {
                servers.insert(&event.node);
                if grants.contains(&event.id) {
                    granted.insert(owner, event.id);
                }
            }
            What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
                holders.insert(attempt.to_string(), &event.node);
            }
            What::Effect { owner, .. } if evidence.contains(&event.id) => {
                acts.insert(owner, event.id);
            }
            _ => {}
        }
    }
    let stretch = |node, from, to| {
        let moment = |id| history.get(id).map(Moment::of);
        Some(Stretch { node, over: Interval::new(moment(from)?, moment(to)?) })
    };
    let of_holders = granted.iter().filter_map(|(owner, from)| {
        let node = holders.get(*owner)?;
        stretch(node, *from, acts.get(owner).copied().unwrap_or(end))
    });
    let of_servers = servers.into_iter().filter_map(|node| stretch(node, first, end));
    of_holders.chain(of_servers).collect()
}

//! The faults that were at work on a party, or on a server that its lock lives on, between
//! its grant and what it did wrong.
//!
//! A blame names what the finding follows from. What kept a holder from its work, or its
//! server from the others, meanwhile belongs to the story whether or not it is blamed: who
//! reads the story looks for it there.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::event::{ENSEMBLE, is_of_ensemble};
use crate::history::{AcquireOutcome, Event, EventId, FaultFamily, History, Name, What};

/// A fault of the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtWork {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// What sort of fault it is.
    pub family: FaultFamily,
    /// Where it began.
    pub began: EventId,
}

/// Who must have been struck, and from when to when.
struct Stretch<'h> {
    node: &'h Name,
    from: EventId,
    to: EventId,
}

/// All of them, in order of their beginnings. `grants` are the applications that the owners'
/// clients were told of.
pub(super) fn at_work(
    history: &History,
    owners: &BTreeSet<&str>,
    grants: &BTreeSet<EventId>,
    evidence: &BTreeSet<EventId>,
) -> Vec<AtWork> {
    let stretches = stretches(history, owners, grants, evidence);
    let spans = spans(history);
    let strikes = |span: &Span<'_>, stretch: &Stretch<'_>| {
        let reaches = |target: &Name| is(stretch.node, target);
        span.targets.iter().any(|target| reaches(target))
            && span.touched.is_some_and(|touched| touched <= stretch.to)
            && span.ended.is_none_or(|ended| ended >= stretch.from)
    };
    let struck = spans.iter().filter(|span| stretches.iter().any(|over| strikes(span, over)));
    struck.map(|span| span.what).collect()
}

/// Whether what strikes `target` strikes `node`: an ensemble is struck with any of its servers.
fn is(node: &Name, target: &Name) -> bool {
    node == target || (**node == *ENSEMBLE && is_of_ensemble(target))
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
    let of_holders = granted.iter().filter_map(|(owner, from)| {
        let node = holders.get(*owner)?;
        Some(Stretch { node, from: *from, to: acts.get(owner).copied().unwrap_or(end) })
    });
    let of_servers = servers.into_iter().map(|node| Stretch { node, from: first, to: end });
    of_holders.chain(of_servers).collect()
}

/// A fault from its beginning to its end.
struct Span<'h> {
    what: AtWork,
    targets: Vec<&'h Name>,
    touched: Option<EventId>,
    ended: Option<EventId>,
}

fn spans(history: &History) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    for Event { id, node, what, .. } in history.iter() {
        match what {
            What::FaultBegan { fault, family, targets, .. } => {
                let targets = targets.iter().chain([node]).collect();
                let what = AtWork { fault: *fault, family: *family, began: *id };
                spans.push(Span { what, targets, touched: None, ended: None });
            }
            What::FaultTouched { fault, .. } => {
                if let Some(span) = latest(&mut spans, *fault) {
                    span.touched.get_or_insert(*id);
                }
            }
            What::FaultEnded { fault } => {
                if let Some(span) = latest(&mut spans, *fault) {
                    span.ended.get_or_insert(*id);
                }
            }
            _ => {}
        }
    }
    spans
}

fn latest<'s, 'h>(spans: &'s mut [Span<'h>], fault: usize) -> Option<&'s mut Span<'h>> {
    spans.iter_mut().rev().find(|span| span.what.fault == fault)
}

//! `leaked-lock`: after everything has healed nobody believes to hold the lock, and
//! yet nobody gets it for longer than the lock itself declares
//! ([`takeover_bound`](lockstorm::lock::Lock::takeover_bound)).
//!
//! A lock is *closed* from the latest of: the healing; the end of the last belief
//! (of a foreigner: of its promise); the last record set by anybody, since the record
//! of an indeterminate acquire may rightly block for as long as its lease. It is closed
//! until somebody is granted it, or the run ends. That is a leak when the closure
//! outlasts the bound and somebody shows it: an ask refused for somebody's record
//! after the bound, an ask made and answered "busy" after the bound, one that waited
//! for longer than the bound; or a record that never expires, at the end of the run.
//! Such a record is a leak at once when its owner's node has died.

use std::collections::BTreeMap;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::finding::{Detail, Finding, Kind, Party};
use super::grants::Grant;
use super::interval::{Interval, Moment};
use crate::history::{AcquireOutcome, Attempt, Event, EventId, Name, What};

/// An attempt to get the lock.
struct Ask {
    event: EventId,
    waits: Interval,
    /// Whether it was told that somebody else holds the lock.
    denied: bool,
}

/// A record that is there.
#[derive(Clone)]
struct Record {
    owner: String,
    event: EventId,
    never_expires: bool,
}

/// What is known of one lock.
#[derive(Default)]
struct Door {
    asks: Vec<Ask>,
    open: BTreeMap<Attempt, usize>,
    /// Refusals for somebody's record: when, which event, whose record.
    refusals: Vec<(Moment, EventId, String)>,
    record: Option<Record>,
}

/// Proof that a closed lock is leaked.
struct Proof {
    events: Vec<EventId>,
    held_by: Option<String>,
}

/// Finds `leaked-lock`.
pub(super) fn leaked(case: &Case<'_>) -> Vec<Finding> {
    let healed = case.history.iter().find(|event| matches!(event.what, What::Healed));
    let Some(healed) = healed.map(Moment::of) else { return Vec::new() };
    let (doors, crashes) = watch(case);
    let rows = case.grants.by_key();
    let mut found = Vec::new();
    for (key, door) in &doors {
        let of_key = rows.get(key.as_str()).map_or(&[][..], Vec::as_slice);
        let closures = closures(case, of_key, healed);
        let mut seen = std::collections::BTreeSet::new();
        for (closure, proof) in proofs(case, door, &closures, &crashes) {
            if seen.insert(closure) {
                found.push(tell(case, key, door, closures[closure], proof));
            }
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

type Crashes = BTreeMap<Name, Moment>;

/// Reads the history: the locks, and the last crash of each node.
fn watch(case: &Case<'_>) -> (BTreeMap<String, Door>, Crashes) {
    let mut doors: BTreeMap<String, Door> = BTreeMap::new();
    let mut crashes = Crashes::new();
    for event in case.history.iter() {
        let moment = Moment::of(event);
        match &event.what {
            What::NodeCrashed { .. } => {
                crashes.insert(event.node.clone(), moment);
                for door in doors.values_mut() {
                    door.client_died(&event.node, moment);
                }
            }
            What::AcquireInvoked { attempt, key } => {
                let door = doors.entry(key.clone()).or_default();
                door.open.insert(attempt.clone(), door.asks.len());
                let waits = Interval::new(moment, Moment::end_of(case.history.ended_us));
                door.asks.push(Ask { event: event.id, waits, denied: false });
            }
            What::AcquireReturned { attempt, key, outcome } => {
                let door = doors.entry(key.clone()).or_default();
                let Some(ask) = door.open.remove(attempt) else { continue };
                door.asks[ask].waits.to = moment;
                door.asks[ask].denied =
                    matches!(outcome, AcquireOutcome::Busy | AcquireOutcome::TimedOut);
            }
            What::RecordRefused { key, held_by, .. } => {
                let door = doors.entry(key.clone()).or_default();
                door.refusals.push((moment, event.id, held_by.clone()));
            }
            _ => follow_record(&mut doors, event),
        }
    }
    (doors, crashes)
}

impl Door {
    fn client_died(&mut self, node: &Name, moment: Moment) {
        let asks = &mut self.asks;
        self.open.retain(|attempt, ask| {
            if attempt.client == *node {
                asks[*ask].waits.to = moment;
            }
            attempt.client != *node
        });
    }

    fn record_gone(&mut self, owner: &str) {
        if self.record.as_ref().is_some_and(|record| record.owner == owner) {
            self.record = None;
        }
    }
}

/// Keeps the newest record of each lock.
fn follow_record(doors: &mut BTreeMap<String, Door>, event: &Event) {
    match &event.what {
        What::RecordSet { key, owner, lease_us } => {
            doors.entry(key.clone()).or_default().record = Some(Record {
                owner: owner.clone(),
                event: event.id,
                never_expires: lease_us.is_none(),
            });
        }
        What::RecordExtended { key, owner, .. } => {
            let record = doors.entry(key.clone()).or_default().record.as_mut();
            if let Some(record) = record.filter(|record| record.owner == *owner) {
                record.never_expires = false;
            }
        }
        What::RecordReleased { key, owner }
        | What::RecordExpired { key, owner }
        | What::RecordLost { key, owner, .. } => {
            doors.entry(key.clone()).or_default().record_gone(owner);
        }
        What::Promoted { records, .. } => {
            for (key, door) in doors {
                let Some(record) = &door.record else { continue };
                if !records.iter().any(|(has, owner)| has == key && *owner == record.owner) {
                    door.record = None;
                }
            }
        }
        _ => {}
    }
}

/// The stretches after the healing in which a lock is closed, in order.
fn closures(case: &Case<'_>, of_key: &[usize], healed: Moment) -> Vec<Interval> {
    let rows = case.grants.rows();
    let mut held: Vec<Interval> = Vec::new();
    for grant in of_key.iter().map(|row| &rows[*row]) {
        held.extend(grant.applications.iter().map(|set| Interval::new(set.moment, set.moment)));
        match grant.belief {
            Some(belief) => held.push(Interval::new(grant.start(), belief.to)),
            None if grant.attempt.is_none() => held.extend(&grant.promise),
            None => {}
        }
    }
    held.sort_unstable();
    let mut closures = Vec::new();
    let mut closed = healed;
    for interval in held {
        closures.push(Interval::new(closed, interval.from));
        closed = closed.max(interval.to);
    }
    closures.push(Interval::new(closed, Moment::end_of(case.history.ended_us)));
    closures.retain(|closure| !closure.is_empty());
    closures
}

/// Proofs of leaks, each with the closure that it proves leaked.
fn proofs(
    case: &Case<'_>,
    door: &Door,
    closures: &[Interval],
    crashes: &Crashes,
) -> Vec<(usize, Proof)> {
    let bound_us = case.setting.takeover_bound_us;
    let due = |closure: &Interval| closure.from.at_us.saturating_add(bound_us);
    let mut proofs = Vec::new();
    for (moment, event, held_by) in &door.refusals {
        let at = closures.partition_point(|closure| closure.to <= *moment);
        let Some(closure) = closures.get(at) else { continue };
        if closure.contains(*moment) && moment.at_us > due(closure) {
            let held_by = Some(held_by.clone());
            proofs.push((at, Proof { events: vec![*event], held_by }));
        }
    }
    for ask in &door.asks {
        let first = closures.partition_point(|closure| closure.to <= ask.waits.from);
        let overlapped = closures.iter().enumerate().skip(first);
        for (at, closure) in overlapped.take_while(|(_, c)| c.from < ask.waits.to) {
            let Some(waited) = closure.overlap(ask.waits) else { continue };
            let too_long = waited.to.at_us.saturating_sub(waited.from.at_us) > bound_us;
            let denied_late =
                ask.denied && ask.waits.from.at_us > due(closure) && closure.contains(ask.waits.to);
            if too_long || denied_late {
                let held_by = door.record.as_ref().map(|record| record.owner.clone());
                proofs.push((at, Proof { events: vec![ask.event], held_by }));
                // One closure is enough: a second could only be told of, too.
                break;
            }
        }
    }
    if let (Some(last), Some(record)) = (closures.last(), &door.record) {
        let at_the_end = last.to == Moment::end_of(case.history.ended_us);
        let owner = Attempt::parse(&record.owner);
        let died = owner.and_then(|owner| crashes.get(&owner.client));
        let set = case.history.get(record.event).map(Moment::of);
        let is_orphan = died.zip(set).is_some_and(|(died, set)| *died > set);
        let is_overdue = case.history.ended_us > due(last);
        if at_the_end && record.never_expires && (is_orphan || is_overdue) {
            let held_by = Some(record.owner.clone());
            proofs.push((closures.len() - 1, Proof { events: vec![record.event], held_by }));
        }
    }
    proofs
}

fn tell(case: &Case<'_>, key: &str, door: &Door, closure: Interval, proof: Proof) -> Finding {
    let rows = case.grants.rows();
    // Whose record it is, else who held the lock last.
    let is_holder = |grant: &&Grant| {
        grant.key == key
            && grant.start() <= closure.from
            && proof.held_by.as_ref().map_or(grant.is_told(), |owner| grant.owner == *owner)
    };
    let holder = rows.iter().rfind(is_holder);
    let record =
        door.record.as_ref().filter(|record| Some(&record.owner) == proof.held_by.as_ref());
    let detail = Detail::LeakedLock {
        bound_us: case.setting.takeover_bound_us,
        held_by: proof.held_by.clone(),
        never_expires: record.is_some_and(|record| record.never_expires),
    };
    let mut finding = Finding::new(case.history, Kind::LeakedLock, &[], closure, detail)
        .proved_by(holder.map(Grant::evidence).into_iter().flatten().chain(proof.events))
        .blamed(blame::leak(case, holder, closure.to));
    key.clone_into(&mut finding.key);
    finding.parties = holder.map(Party::from).into_iter().collect();
    finding
}

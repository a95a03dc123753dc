//! Locks that are closed: after everything has healed nobody holds one, and yet nobody
//! gets it for longer than the lock itself declares
//! ([`takeover_bound`](lockstorm::lock::Lock::takeover_bound)). With a record in the way
//! it is a `leaked-lock`; with nothing in the way, and somebody waiting, it is a
//! `stuck-waiter` that nobody woke ([`stuck`](super::stuck) tells of it).
//!
//! A lock is *closed* from the latest of: the healing; the end of the last belief
//! (of a foreigner: of its promise); the last record set by anybody, since the record
//! of an indeterminate acquire may rightly block for as long as its lease. It is closed
//! until somebody is granted it, or the run ends. That is wrong when the closure
//! outlasts the bound and somebody shows it: an ask refused for somebody's record
//! after the bound, an ask made and answered "busy" after the bound, one that waited
//! for longer than the bound; or a record without a lease, at the end of the run. One that no
//! session ends either is a leak at once when its owner's node has died.

use std::collections::{BTreeMap, BTreeSet};

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::deadlock::healed;
use super::detail::Detail;
use super::finding::{Finding, Kind, Party};
use super::grants::Grant;
use super::interval::{Interval, Moment};
use super::waits::Ended;
use crate::history::event::ENSEMBLE;
use crate::history::{Attempt, Event, EventId, Name, What};

/// A record that is, or was, there.
struct Record<'c> {
    owner: &'c str,
    event: EventId,
    shared: bool,
    goes: Goes,
    there: Interval,
}

/// How a record goes that nobody removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    /// With its lease.
    ByItself,
    /// With its holder's session, which an ensemble ends.
    WithSession,
    /// Not at all.
    Never,
}

/// What is known of one lock.
#[derive(Default)]
struct Door<'c> {
    /// Refusals for somebody's record: when, which event, whose record.
    refusals: Vec<(Moment, EventId, &'c str)>,
    /// Its records in order.
    records: Vec<Record<'c>>,
    /// Those that are there, by owner: one, or several that are shared.
    there: BTreeMap<&'c str, usize>,
}

/// Proof that a closed lock should be open.
struct Proof {
    events: Vec<EventId>,
    held_by: Option<String>,
    /// The wait that shows it, where it is one.
    wait: Option<usize>,
}

/// A lock that was closed for too long.
pub(super) struct Closed<'c> {
    /// Which lock.
    pub key: &'c str,
    /// How long.
    pub closure: Interval,
    /// The events that show it.
    pub events: Vec<EventId>,
    /// Whose record is in the way.
    pub held_by: Option<String>,
    /// Whether that record never expires.
    pub never_expires: bool,
    /// The wait that shows it, where it is one.
    pub wait: Option<usize>,
}

impl Closed<'_> {
    /// Whether nothing is in the way of a waiter.
    pub fn is_stuck(&self) -> bool {
        self.held_by.is_none() && self.wait.is_some()
    }
}

/// Finds `leaked-lock`.
pub(super) fn leaked(case: &Case<'_>) -> Vec<Finding> {
    let mut leaks: Vec<Closed<'_>> =
        closed(case).into_iter().filter(|closed| !closed.is_stuck()).collect();
    leaks.sort_by_key(|closed| closed.closure);
    leaks.truncate(MOST_OF_A_KIND);
    leaks.into_iter().map(|closed| tell(case, closed)).collect()
}

/// All locks that were closed for too long, each closure once.
pub(super) fn closed<'c>(case: &'c Case<'_>) -> Vec<Closed<'c>> {
    let (Some(healed), Some(bound_us)) = (healed(case), case.setting.takeover_bound_us) else {
        return Vec::new();
    };
    let (doors, crashes) = watch(case);
    let mut waits: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, wait) in case.waits.iter().enumerate() {
        waits.entry(wait.key).or_default().push(n);
    }
    let rows = case.grants.by_key();
    let keys: BTreeSet<&str> = doors.keys().chain(waits.keys()).copied().collect();
    let mut found = Vec::new();
    for key in keys {
        let none = Door::default();
        let door = doors.get(key).unwrap_or(&none);
        let of_key = rows.get(key).map_or(&[][..], Vec::as_slice);
        let waits = waits.get(key).map_or(&[][..], Vec::as_slice);
        let closures = closures(case, of_key, healed);
        let mut seen = BTreeSet::new();
        for (at, proof) in proofs(case, (door, waits, &crashes), &closures, bound_us) {
            if !seen.insert(at) {
                continue;
            }
            let closure = closures[at];
            // Whoever was refused knows whose record it was; else what was there last.
            let record = match &proof.held_by {
                Some(owner) => door.records.iter().rfind(|record| record.owner == *owner),
                None => door.records.iter().rfind(|record| {
                    record.there.from < closure.to && record.there.to >= closure.to
                }),
            };
            found.push(Closed {
                key,
                closure,
                events: proof.events,
                never_expires: record.is_some_and(|record| record.goes == Goes::Never),
                held_by: proof.held_by.or_else(|| record.map(|record| record.owner.to_owned())),
                wait: proof.wait,
            });
        }
    }
    found
}

type Crashes = BTreeMap<Name, Moment>;

/// Reads the history: the locks, and the last crash of each node.
fn watch<'c>(case: &'c Case<'_>) -> (BTreeMap<&'c str, Door<'c>>, Crashes) {
    let mut doors: BTreeMap<&str, Door<'_>> = BTreeMap::new();
    let mut crashes = Crashes::new();
    for event in case.history.iter() {
        let moment = Moment::of(event);
        match &event.what {
            What::NodeCrashed { .. } => {
                crashes.insert(event.node.clone(), moment);
            }
            What::RecordRefused { key, held_by, .. } => {
                let door = doors.entry(key).or_default();
                door.refusals.push((moment, event.id, held_by));
            }
            _ => {
                if matches!(event.what, What::Promoted { .. }) {
                    case.steps.take(doors.len() as u64);
                }
                follow_record(&mut doors, event);
            }
        }
    }
    (doors, crashes)
}

impl<'c> Door<'c> {
    fn record_set(&mut self, record: Record<'c>) {
        let (moment, is_shared) = (record.there.from, record.shared);
        // Only records that are shared are there beside each other.
        self.keep(moment, |other| is_shared && other.shared && other.owner != record.owner);
        self.there.insert(record.owner, self.records.len());
        self.records.push(record);
    }

    fn record_gone(&mut self, owner: &str, moment: Moment) {
        if let Some(record) = self.there.remove(owner) {
            self.records[record].there.to = moment;
        }
    }

    /// From `moment` on only these of the records are there.
    fn keep(&mut self, moment: Moment, stays: impl Fn(&Record<'_>) -> bool) {
        let records = &mut self.records;
        self.there.retain(|_, record| {
            let record = &mut records[*record];
            let stays = stays(record);
            if !stays {
                record.there.to = moment;
            }
            stays
        });
    }
}

/// Keeps the records of each lock.
fn follow_record<'c>(doors: &mut BTreeMap<&'c str, Door<'c>>, event: &'c Event) {
    let moment = Moment::of(event);
    match &event.what {
        What::RecordSet { key, owner, lease_us, shared } => {
            doors.entry(key).or_default().record_set(Record {
                owner,
                event: event.id,
                shared: *shared,
                goes: match lease_us {
                    Some(_) => Goes::ByItself,
                    None if *event.node == *ENSEMBLE => Goes::WithSession,
                    None => Goes::Never,
                },
                there: Interval::new(moment, Moment::NEVER),
            });
        }
        What::RecordExtended { key, owner, .. } => {
            let door = doors.entry(key).or_default();
            if let Some(record) = door.there.get(&**owner) {
                door.records[*record].goes = Goes::ByItself;
            }
        }
        What::RecordReleased { key, owner }
        | What::RecordExpired { key, owner }
        | What::RecordLost { key, owner, .. } => {
            doors.entry(key).or_default().record_gone(owner, moment);
        }
        What::SessionExpired { records, .. } => {
            for (key, owner) in records {
                doors.entry(key).or_default().record_gone(owner, moment);
            }
        }
        What::Promoted { records, .. } => {
            for (key, door) in doors {
                door.keep(moment, |record| {
                    records.iter().any(|(has, owner)| **has == **key && **owner == *record.owner)
                });
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

/// Proofs, each with the closure that it speaks of.
fn proofs(
    case: &Case<'_>,
    (door, waits, crashes): (&Door<'_>, &[usize], &Crashes),
    closures: &[Interval],
    bound_us: u64,
) -> Vec<(usize, Proof)> {
    let due = |closure: &Interval| closure.from.at_us.saturating_add(bound_us);
    let mut proofs = Vec::new();
    for (moment, event, held_by) in &door.refusals {
        let at = closures.partition_point(|closure| closure.to <= *moment);
        let Some(closure) = closures.get(at) else { continue };
        if closure.contains(*moment) && moment.at_us > due(closure) {
            let held_by = Some((*held_by).to_owned());
            proofs.push((at, Proof { events: vec![*event], held_by, wait: None }));
        }
    }
    for n in waits {
        let wait = &case.waits[*n];
        let is_denied = wait.ended == Ended::Denied;
        let first = closures.partition_point(|closure| closure.to <= wait.span.from);
        let overlapped = closures.iter().enumerate().skip(first);
        for (at, closure) in overlapped.take_while(|(_, c)| c.from < wait.span.to) {
            case.steps.take(1);
            // In line, and then without a place, of which it should have been told in time.
            let in_line = wait.in_line();
            let is_long = |part: Interval| {
                let waited = closure.overlap(part);
                waited.is_some_and(|w| w.to.at_us.saturating_sub(w.from.at_us) > bound_us)
            };
            let too_long = is_long(in_line) || is_long(Interval::new(in_line.to, wait.span.to));
            let denied_late =
                is_denied && wait.span.from.at_us > due(closure) && closure.contains(wait.span.to);
            if too_long || denied_late {
                // Who is told "busy" at once waits for nobody.
                let wait_that_shows = (too_long && !is_denied).then_some(*n);
                let events = vec![wait.event];
                proofs.push((at, Proof { events, held_by: None, wait: wait_that_shows }));
                // One closure is enough: a second could only be told of, too.
                break;
            }
        }
    }
    let record = door.there.values().max().map(|record| &door.records[*record]);
    if let (Some(last), Some(record)) = (closures.last(), record) {
        let at_the_end = last.to == Moment::end_of(case.history.ended_us);
        let owner = Attempt::parse(record.owner);
        let died = owner.and_then(|owner| crashes.get(&owner.client));
        let is_orphan = died.is_some_and(|died| *died > record.there.from);
        let is_overdue = case.history.ended_us > due(last);
        let stays = match record.goes {
            Goes::ByItself => false,
            Goes::WithSession => is_overdue,
            Goes::Never => is_orphan || is_overdue,
        };
        if at_the_end && stays {
            let held_by = Some(record.owner.to_owned());
            let events = vec![record.event];
            proofs.push((closures.len() - 1, Proof { events, held_by, wait: None }));
        }
    }
    proofs
}

fn tell(case: &Case<'_>, closed: Closed<'_>) -> Finding {
    let Closed { key, closure, events, held_by, never_expires, .. } = closed;
    let rows = case.grants.rows();
    // Whose record it is, else who held the lock last.
    let is_holder = |grant: &&Grant| {
        *grant.key == *key
            && grant.start() <= closure.from
            && held_by.as_ref().map_or(grant.is_told(), |owner| *grant.owner == **owner)
    };
    let holder = rows.iter().rfind(is_holder);
    let detail = Detail::LeakedLock {
        bound_us: case.setting.takeover_bound_us.unwrap_or_default(),
        held_by: held_by.clone(),
        never_expires,
    };
    let mut finding = Finding::new(case.history, Kind::LeakedLock, &[], closure, detail)
        .proved_by(holder.map(Grant::evidence).into_iter().flatten().chain(events))
        .blamed(blame::leak(case, holder, closure.to));
    key.clone_into(&mut finding.key);
    finding.parties = holder.map(Party::from).into_iter().collect();
    finding
}

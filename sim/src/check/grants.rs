//! The table of grants: who was promised what when, who believed what when, and what
//! they did meanwhile. Every checker reads it; none looks at raw events twice.
//!
//! A grant is a row per lock and owner. Its three intervals (DESIGN §5):
//! - *promise*: from the application of the grant to the earliest of: release invoked
//!   by a client whose side is known (docs/adr/0003), or applied;
//!   the lease's end in true elapsed time less the margin, of the last applied
//!   renewal; the loss told to the holder. Neither losing the record nor a step of a
//!   clock ends it. A renewal that is applied after the promise has ended promises
//!   anew, so a promise may come in several pieces. An acquire that nobody was told of
//!   promises nothing (`docs/adr/0002-a-promise-needs-an-acknowledgement.md`).
//! - *belief*: from the acquire coming back as granted until release is invoked, the
//!   belief ends, or the client's node crashes. A pause does not end it.
//! - *effects*: what the resource was asked in the owner's name, in its order.
//!
//! Order of things: the clues of a row are gathered in one pass ([`Gathering`]), then
//! its intervals are computed from the clues alone.

use std::collections::{BTreeMap, BTreeSet};

use super::interval::{Interval, Moment};
use crate::history::{AcquireOutcome, Attempt, Event, EventId, History, Name, What};

/// An event that put a grant's record on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// The event.
    pub event: EventId,
    /// When.
    pub moment: Moment,
    /// At which server.
    pub node: Name,
    /// The lease written, µs; `None` for a record that never expires.
    pub lease_us: Option<u64>,
}

/// The reply that told a holder of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The event.
    pub event: EventId,
    /// When.
    pub moment: Moment,
    /// The fencing token, where there is one.
    pub token: Option<u64>,
    /// The lease told, µs.
    pub lease_us: u64,
    /// What the lock leaves unused of it, µs.
    pub margin_us: u64,
}

/// Something that was asked of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The event.
    pub event: EventId,
    /// When.
    pub moment: Moment,
    /// At which resource.
    pub resource: Name,
    /// Whether it was accepted.
    pub accepted: bool,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which lock; empty when nothing tells.
    pub key: String,
    /// The owner, as the record and the resource know it.
    pub owner: String,
    /// The attempt of one of our clients that the owner names. `None` for owners of
    /// whom the history has no client's side.
    pub attempt: Option<Attempt>,
    /// Where it was asked for.
    pub invoked: Option<EventId>,
    /// All its applications in order.
    pub applications: Vec<Application>,
    /// The application that was acknowledged: the promise begins there.
    pub applied: Option<Application>,
    /// The reply. `None` for a record that is a promise to nobody, and for foreigners.
    pub acknowledged: Option<Acknowledgement>,
    /// The promise, in order, disjoint. Empty where nobody was promised anything.
    pub promise: Vec<Interval>,
    /// The belief, up to [`Moment::NEVER`] when nothing in the history ends it.
    pub belief: Option<Interval>,
    /// What was asked of resources in its name, in their order.
    pub acts: Vec<Act>,
}

impl Grant {
    /// Whether anybody was told of it (or, for a foreigner, must be presumed told).
    pub fn is_told(&self) -> bool {
        self.acknowledged.is_some() || (self.attempt.is_none() && self.applied.is_some())
    }

    /// Where it comes in the order of grants: the application that was told of, else
    /// its reply, else its first application, else its first act.
    pub fn start(&self) -> Moment {
        let applied = self.applied.as_ref().map(|applied| applied.moment);
        applied
            .or(self.acknowledged.map(|reply| reply.moment))
            .or(self.applications.first().map(|applied| applied.moment))
            .or(self.acts.first().map(|act| act.moment))
            .unwrap_or(Moment::NEVER)
    }

    /// Whether it was promised at `moment`.
    pub fn is_promised(&self, moment: Moment) -> bool {
        self.promise.iter().any(|piece| piece.contains(moment))
    }

    /// When its last promise ends.
    pub fn promise_end(&self) -> Option<Moment> {
        self.promise.last().map(|piece| piece.to)
    }

    /// When `other` and this were promised at once, for the first time.
    pub fn promise_overlap(&self, other: &Grant) -> Option<Interval> {
        let pieces = self.promise.iter();
        pieces.flat_map(|a| other.promise.iter().filter_map(|b| a.overlap(*b))).min()
    }

    /// When both clients believed to hold the lock.
    pub fn belief_overlap(&self, other: &Grant) -> Option<Interval> {
        self.belief?.overlap(other.belief?)
    }

    /// Whether both cannot hold at once: the same lock, different owners.
    pub fn conflicts_with(&self, other: &Grant) -> bool {
        self.key == other.key && self.owner != other.owner
    }

    /// Whether both are attempts of one client. Of foreign owners nobody can tell.
    pub fn is_same_client(&self, other: &Grant) -> bool {
        match (&self.attempt, &other.attempt) {
            (Some(mine), Some(theirs)) => mine.client == theirs.client,
            _ => false,
        }
    }

    /// The events that make it a grant: its application and its reply; without
    /// either, its first act.
    pub fn evidence(&self) -> Vec<EventId> {
        let applied = self.applied.as_ref().map(|applied| applied.event);
        let reply = self.acknowledged.map(|reply| reply.event);
        if applied.or(reply).is_some() {
            return applied.into_iter().chain(reply).collect();
        }
        let first = self.applications.first().map(|applied| applied.event);
        first.or(self.acts.first().map(|act| act.event)).into_iter().collect()
    }

    /// The token that it was granted with.
    pub fn token(&self) -> Option<u64> {
        self.acknowledged.and_then(|reply| reply.token)
    }

    /// The client that holds it, which is also its node.
    pub fn client(&self) -> Option<&Name> {
        self.attempt.as_ref().map(|attempt| &attempt.client)
    }
}

/// All grants of a history, in order of [`Grant::start`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rows: Vec<Grant>,
}

impl Grants {
    /// Builds the table. Without records (`lock_has_records` false) no grant has a
    /// promise: belief and effects only.
    pub fn of(history: &History, lock_has_records: bool) -> Grants {
        Gathering::new(history).gather(history).finish(lock_has_records)
    }

    /// The rows.
    pub fn rows(&self) -> &[Grant] {
        &self.rows
    }

    /// The rows of each lock, by their positions.
    pub fn by_key(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (row, grant) in self.rows.iter().enumerate() {
            keys.entry(&grant.key).or_default().push(row);
        }
        keys
    }

    /// The rows of each owner of each lock, by their positions.
    pub fn by_owner(&self) -> BTreeMap<(&str, &str), Vec<usize>> {
        let mut owners: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (row, grant) in self.rows.iter().enumerate() {
            owners.entry((&grant.key, &grant.owner)).or_default().push(row);
        }
        owners
    }

    /// The row in whose name each act was done.
    pub fn by_act(&self) -> BTreeMap<EventId, usize> {
        let acts = |(row, grant): (usize, &Grant)| {
            grant.acts.iter().map(|act| (act.event, row)).collect::<Vec<_>>()
        };
        self.rows.iter().enumerate().flat_map(acts).collect()
    }
}

/// What the events say of one row.
struct Clues {
    grant: Grant,
    renewals: Vec<(Moment, u64)>,
    /// Releases applied, losses told.
    ends: Vec<Moment>,
    /// Ends of the belief that are told by an event of the attempt.
    belief_ends: Vec<Moment>,
    /// For foreigners: whether the record is gone, so that the next is a new grant.
    over: bool,
}

/// The pass over the events.
struct Gathering {
    rows: Vec<Clues>,
    /// The newest row of an owner of a lock.
    newest: BTreeMap<(String, String), usize>,
    /// The newest row of an owner of any lock.
    owners: BTreeMap<String, usize>,
    /// Owners whose client's side is in the history.
    witnessed: BTreeMap<String, Attempt>,
    crashes: BTreeMap<Name, Vec<Moment>>,
    /// The lock, where there is but one.
    only_key: String,
}

impl Gathering {
    fn new(history: &History) -> Gathering {
        let mut witnessed = BTreeMap::new();
        let mut keys = BTreeSet::new();
        let mut crashes: BTreeMap<Name, Vec<Moment>> = BTreeMap::new();
        for event in history.iter() {
            match &event.what {
                What::AcquireInvoked { attempt, key }
                | What::AcquireReturned { attempt, key, .. } => {
                    witnessed.insert(attempt.to_string(), attempt.clone());
                    keys.insert(key);
                }
                What::BeliefEnded { attempt, .. }
                | What::ReleaseInvoked { attempt }
                | What::ReleaseReturned { attempt, .. } => {
                    witnessed.insert(attempt.to_string(), attempt.clone());
                }
                What::RecordSet { key, .. } => {
                    keys.insert(key);
                }
                What::NodeCrashed { .. } => {
                    crashes.entry(event.node.clone()).or_default().push(Moment::of(event));
                }
                _ => {}
            }
        }
        let only_key = match keys.first() {
            Some(key) if keys.len() == 1 => (*key).clone(),
            _ => String::new(),
        };
        let (newest, owners) = (BTreeMap::new(), BTreeMap::new());
        Gathering { rows: Vec::new(), newest, owners, witnessed, crashes, only_key }
    }

    /// The newest row of this owner of this lock, made if there is none.
    fn row(&mut self, key: &str, owner: &str) -> &mut Clues {
        let name = (key.to_owned(), owner.to_owned());
        let row = match self.newest.get(&name) {
            Some(row) => *row,
            None => self.new_row(name),
        };
        &mut self.rows[row]
    }

    fn new_row(&mut self, name: (String, String)) -> usize {
        let row = self.rows.len();
        let grant = Grant {
            key: name.0.clone(),
            owner: name.1.clone(),
            attempt: self.witnessed.get(&name.1).cloned(),
            invoked: None,
            applications: Vec::new(),
            applied: None,
            acknowledged: None,
            promise: Vec::new(),
            belief: None,
            acts: Vec::new(),
        };
        self.rows.push(Clues {
            grant,
            renewals: Vec::new(),
            ends: Vec::new(),
            belief_ends: Vec::new(),
            over: false,
        });
        self.owners.insert(name.1.clone(), row);
        self.newest.insert(name, row);
        row
    }

    /// The newest row of the attempt, if it has any.
    fn of_attempt(&mut self, attempt: &Attempt) -> Option<&mut Clues> {
        let row = *self.owners.get(&attempt.to_string())?;
        self.rows.get_mut(row)
    }

    fn gather(mut self, history: &History) -> Gathering {
        for event in history.iter() {
            self.client_event(event);
            self.record_event(event);
            self.act(event);
        }
        self
    }

    fn client_event(&mut self, event: &Event) {
        let moment = Moment::of(event);
        match &event.what {
            What::AcquireInvoked { attempt, key } => {
                let row = self.row(key, &attempt.to_string());
                row.grant.invoked.get_or_insert(event.id);
            }
            What::AcquireReturned {
                attempt,
                key,
                outcome: AcquireOutcome::Granted { token, lease_us, margin_us },
            } => {
                let row = self.row(key, &attempt.to_string());
                row.grant.acknowledged.get_or_insert(Acknowledgement {
                    event: event.id,
                    moment,
                    token: *token,
                    lease_us: *lease_us,
                    margin_us: *margin_us,
                });
            }
            What::BeliefEnded { attempt, reason } => {
                if let Some(row) = self.of_attempt(attempt) {
                    row.belief_ends.push(moment);
                    if *reason == crate::history::BeliefEnd::Told {
                        row.ends.push(moment);
                    }
                }
            }
            What::ReleaseInvoked { attempt } => {
                if let Some(row) = self.of_attempt(attempt) {
                    row.belief_ends.push(moment);
                    row.ends.push(moment);
                }
            }
            What::ReleaseReturned { attempt, release } => {
                use lockstorm::lock::Release;
                // "Not held" tells the holder of the loss; "released" was applied
                // by now, if nothing observed where.
                if let (Release::Released | Release::NotHeld, Some(row)) =
                    (release, self.of_attempt(attempt))
                {
                    row.ends.push(moment);
                }
            }
            _ => {}
        }
    }

    fn record_event(&mut self, event: &Event) {
        let moment = Moment::of(event);
        match &event.what {
            What::RecordSet { key, owner, lease_us } => {
                let name = (key.clone(), owner.clone());
                if let Some(newest) = self.newest.get(&name).map(|row| &mut self.rows[*row])
                    && newest.over
                    && newest.grant.attempt.is_none()
                {
                    // The new grant of a foreigner takes the place of its old one.
                    newest.ends.push(moment);
                    self.new_row(name);
                }
                self.row(key, owner).grant.applications.push(Application {
                    event: event.id,
                    moment,
                    node: event.node.clone(),
                    lease_us: *lease_us,
                });
            }
            What::RecordExtended { key, owner, lease_us } => {
                self.row(key, owner).renewals.push((moment, *lease_us));
            }
            What::RecordReleased { key, owner } => {
                let row = self.row(key, owner);
                row.ends.push(moment);
                row.over = true;
            }
            What::RecordExpired { key, owner } | What::RecordLost { key, owner, .. } => {
                self.row(key, owner).over = true;
            }
            _ => {}
        }
    }

    fn act(&mut self, event: &Event) {
        let What::Effect { owner, accepted, .. } = &event.what else { return };
        let row = match self.owners.get(owner) {
            Some(row) => *row,
            // Somebody acts who never asked for a lock: a row of its own.
            None => self.new_row((self.only_key.clone(), owner.clone())),
        };
        self.rows[row].grant.acts.push(Act {
            event: event.id,
            moment: Moment::of(event),
            resource: event.node.clone(),
            accepted: *accepted,
        });
    }

    fn finish(self, lock_has_records: bool) -> Grants {
        let crashes = self.crashes;
        let mut rows: Vec<Grant> = self
            .rows
            .into_iter()
            .map(|clues| clues.finish(lock_has_records, &crashes))
            // An attempt that came to nothing is no grant.
            .filter(|grant| {
                let grant: &Grant = grant;
                grant.acknowledged.is_some()
                    || !grant.applications.is_empty()
                    || !grant.acts.is_empty()
            })
            .collect();
        rows.sort_by_key(Grant::start);
        Grants { rows }
    }
}

impl Clues {
    fn finish(mut self, records: bool, crashes: &BTreeMap<Name, Vec<Moment>>) -> Grant {
        self.grant.belief = self.belief(crashes);
        if records {
            let reply = self.grant.acknowledged;
            self.grant.applied = match (&self.grant.attempt, reply) {
                (None, _) => self.grant.applications.first().cloned(),
                (Some(_), None) => None,
                (Some(_), Some(reply)) => {
                    let before = |applied: &&Application| applied.moment < reply.moment;
                    self.grant.applications.iter().rfind(before).cloned()
                }
            };
            self.grant.promise = self.promise();
        }
        self.grant
    }

    fn belief(&self, crashes: &BTreeMap<Name, Vec<Moment>>) -> Option<Interval> {
        let from = self.grant.acknowledged?.moment;
        let crashes = crashes.get(self.grant.client()?).map_or(&[][..], Vec::as_slice);
        let crash = crashes.get(crashes.partition_point(|crash| *crash < from)).copied();
        let told = self.belief_ends.iter().copied().filter(|end| *end > from).min();
        let to = [crash, told].into_iter().flatten().min().unwrap_or(Moment::NEVER);
        Some(Interval::new(from, to))
    }

    fn promise(&self) -> Vec<Interval> {
        let reply = self.grant.acknowledged;
        let margin_us = reply.map_or(0, |reply| reply.margin_us);
        let end = |from: Moment, lease_us: u64| -> Moment {
            let lease_us =
                if lease_us == u64::MAX { lease_us } else { lease_us.saturating_sub(margin_us) };
            Moment::at(from.at_us.saturating_add(lease_us)).max(from)
        };
        let mut renewals = self.renewals.clone();
        let (from, lease_us) = match (&self.grant.applied, reply) {
            (Some(applied), Some(reply)) => (applied.moment, reply.lease_us),
            // Granted without any record: the holder was promised all the same.
            (None, Some(reply)) => (reply.moment, reply.lease_us),
            (Some(applied), None) => {
                // A foreigner; nested acquires of one owner are one grant.
                let again = self.grant.applications.iter().skip(1);
                let lease_us = |applied: &Application| applied.lease_us.unwrap_or(u64::MAX);
                renewals.extend(again.map(|applied| (applied.moment, lease_us(applied))));
                renewals.sort_unstable();
                (applied.moment, lease_us(applied))
            }
            (None, None) => return Vec::new(),
        };
        let over = self.ends.iter().copied().filter(|end| *end > from).min();
        let over = over.unwrap_or(Moment::NEVER);
        let mut pieces = vec![Interval::new(from, end(from, lease_us))];
        for (moment, lease_us) in renewals {
            if moment <= from || moment >= over {
                continue;
            }
            match pieces.last_mut() {
                Some(piece) if moment < piece.to => piece.to = end(moment, lease_us),
                _ => pieces.push(Interval::new(moment, end(moment, lease_us))),
            }
        }
        for piece in &mut pieces {
            piece.to = piece.to.min(over);
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

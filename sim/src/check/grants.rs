//! The table of grants: who was promised what when, who believed what when, and what
//! they did meanwhile. Every checker reads it; none looks at raw events twice.
//!
//! A grant is a row per lock and owner; nested acquires of one owner are one grant,
//! which ends with the release that evens them out. Its three intervals (DESIGN §5):
//! - *promise*: from the application of the grant to the earliest of: release invoked
//!   by a client whose side is known (docs/adr/0003), or applied;
//!   the lease's end in true elapsed time less the margin, of the last applied
//!   renewal; the session declared expired; the loss told to the holder. Neither losing the record nor a step of a
//!   clock ends it. A renewal that is applied after the promise has ended promises
//!   anew, so a promise may come in several pieces. An acquire that nobody was told of
//!   promises nothing (`docs/adr/0002-a-promise-needs-an-acknowledgement.md`).
//!   Where a lock needs its record at several servers (a *quorum*), it is applied when
//!   the quorum-th server has it, its lease counts from the first of them (the holder's
//!   began no later, and no server's ends earlier), and it is released when fewer have
//!   it. Whatever falls short of the quorum promises nothing.
//! - *belief*: from the acquire coming back as granted until release is invoked, the
//!   belief ends, or the client's node crashes. A pause does not end it.
//! - *effects*: what the resource was asked in the owner's name, in its order.
//!
//! Order of things: the clues of a row are gathered in one pass ([`gather`]), then
//! its intervals are computed from the clues alone ([`clues`]).

mod clues;
mod gather;

use std::collections::BTreeMap;

use super::interval::{Interval, Moment};
use crate::history::{Attempt, EventId, History, Name};
use gather::Gathering;

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
    pub key: Name,
    /// The owner, as the record and the resource know it.
    pub owner: Name,
    /// The attempt of one of our clients that the owner names. `None` for owners of
    /// whom the history has no client's side.
    pub attempt: Option<Attempt>,
    /// The node from which it was asked for.
    pub node: Option<Name>,
    /// Where it was asked for.
    pub invoked: Option<EventId>,
    /// Whether it is shared with other such grants.
    pub shared: bool,
    /// How far the clocks behind its times may be from true time, µs.
    pub uncertainty_us: u64,
    /// All its applications in order.
    pub applications: Vec<Application>,
    /// The application that was acknowledged: the promise begins there. Of a quorum, the
    /// one that made it up.
    pub applied: Option<Application>,
    /// From when the lease of `applied` counts: earlier than it for a quorum, and for a record
    /// that a transaction wrote before it committed.
    pub leased: Option<Moment>,
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

    /// Whether it was promised at `moment`, whatever the clocks.
    pub fn is_promised(&self, moment: Moment) -> bool {
        let surely = |piece: &Interval| piece.shrunk(self.uncertainty_us).contains(moment);
        self.promise.iter().any(surely)
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

    /// Whether both cannot hold at once: the same lock, different owners, not both
    /// shared.
    pub fn conflicts_with(&self, other: &Grant) -> bool {
        self.key == other.key && self.owner != other.owner && !(self.shared && other.shared)
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

    /// The node of the client that holds it.
    pub fn client(&self) -> Option<&Name> {
        self.node.as_ref().or(self.attempt.as_ref().map(|attempt| &attempt.client))
    }
}

/// All grants of a history, in order of [`Grant::start`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rows: Vec<Grant>,
    /// The row of each act, in order of events.
    acts: Vec<(EventId, usize)>,
}

impl Grants {
    /// Builds the table. Without records (`lock_has_records` false) no grant has a
    /// promise: belief and effects only. A grant stands on records at `quorum` servers.
    pub fn of(history: &History, lock_has_records: bool, quorum: u16) -> Grants {
        Gathering::new(history, quorum).gather().finish(lock_has_records)
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

    /// The row in whose name this act was done.
    pub fn of_act(&self, act: EventId) -> Option<usize> {
        let at = self.acts.binary_search_by_key(&act, |(event, _)| *event).ok()?;
        self.acts.get(at).map(|(_, row)| *row)
    }

    /// Whether the history has a server's side at all.
    pub fn has_servers(&self) -> bool {
        self.rows.iter().any(|grant| !grant.applications.is_empty())
    }

    fn in_order(mut rows: Vec<Grant>) -> Grants {
        // Rows are large: a sort that moves them once, and needs no second table.
        rows.sort_by_cached_key(Grant::start);
        rows.shrink_to_fit();
        let acts = rows.iter().enumerate();
        let acts = acts.flat_map(|(row, grant)| grant.acts.iter().map(move |act| (act.event, row)));
        let mut acts: Vec<(EventId, usize)> = acts.collect();
        acts.sort_unstable();
        Grants { rows, acts }
    }
}

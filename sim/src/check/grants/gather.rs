//! The pass over the events that gathers the clues of each row.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::lock::Release;

use super::clues::{Clues, add};
use super::{Acknowledgement, Act, Application, Grant, Grants};
use crate::check::interval::Moment;
use crate::check::roster::{Number, Roster};
use crate::history::{AcquireOutcome, Attempt, BeliefEnd, Event, History, Name, Renewal, What};

/// Who is who: the numbers of owners and locks, and which owners are attempts whose
/// client's side is in the history.
pub(super) struct Witnesses<'a> {
    roster: Roster,
    /// By the owner's number.
    attempts: Vec<Option<&'a Attempt>>,
}

impl<'a> Witnesses<'a> {
    pub fn of(history: &'a History) -> Witnesses<'a> {
        let mut roster = Roster::new();
        let mut attempts: Vec<Option<&Attempt>> = Vec::new();
        for attempt in history.iter().filter_map(attempt_of) {
            let number = roster.of_attempt(attempt) as usize;
            if number == attempts.len() {
                attempts.push(Some(attempt));
            }
        }
        Witnesses { roster, attempts }
    }

    /// The attempt of this owner.
    fn attempt(&self, owner: Number) -> Option<&'a Attempt> {
        self.attempts.get(owner as usize).copied().flatten()
    }
}

/// The attempt whose client tells this event.
fn attempt_of(event: &Event) -> Option<&Attempt> {
    match &event.what {
        What::AcquireInvoked { attempt, .. }
        | What::AcquireReturned { attempt, .. }
        | What::BeliefEnded { attempt, .. }
        | What::ReleaseInvoked { attempt }
        | What::ReleaseReturned { attempt, .. }
        | What::RenewInvoked { attempt }
        | What::RenewReturned { attempt, .. } => Some(attempt),
        _ => None,
    }
}

/// The pass.
pub(super) struct Gathering<'a> {
    history: &'a History,
    rows: Vec<Clues>,
    /// The newest row of an owner of a lock.
    newest: BTreeMap<(Number, Number), usize>,
    /// The newest row of an owner of any lock, by the owner's number.
    owners: Vec<Option<usize>>,
    witnesses: Witnesses<'a>,
    /// The number of the lock of those who act before they ask for one.
    nameless: Number,
    quorum: u16,
    crashes: BTreeMap<Name, Vec<Moment>>,
}

impl<'a> Gathering<'a> {
    pub fn new(history: &'a History, quorum: u16) -> Gathering<'a> {
        let mut crashes: BTreeMap<Name, Vec<Moment>> = BTreeMap::new();
        for event in history.iter().filter(|e| matches!(e.what, What::NodeCrashed { .. })) {
            crashes.entry(event.node.clone()).or_default().push(Moment::of(event));
        }
        let mut witnesses = Witnesses::of(history);
        let nameless = witnesses.roster.of(&"".into());
        let (rows, newest, owners) = (Vec::new(), BTreeMap::new(), Vec::new());
        Gathering { history, rows, newest, owners, witnesses, nameless, quorum, crashes }
    }

    /// The newest row of this owner of this lock, made if there is none.
    fn row(&mut self, key: &Name, owner: Number) -> &mut Clues {
        let lock = self.witnesses.roster.of(key);
        let row = match self.newest.get(&(owner, lock)) {
            Some(row) => *row,
            None => match self.newest.remove(&(owner, self.nameless)) {
                // It acted before it asked.
                Some(row) => {
                    self.rows[row].grant.key = key.clone();
                    self.newest.insert((owner, lock), row);
                    row
                }
                None => self.new_row(lock, owner),
            },
        };
        &mut self.rows[row]
    }

    /// The same of the owner with this name.
    fn row_of(&mut self, key: &Name, owner: &Name) -> &mut Clues {
        let owner = self.witnesses.roster.of(owner);
        self.row(key, owner)
    }

    fn new_row(&mut self, lock: Number, owner: Number) -> usize {
        let row = self.rows.len();
        let grant = Grant {
            key: self.witnesses.roster.name(lock).clone(),
            owner: self.witnesses.roster.name(owner).clone(),
            attempt: self.witnesses.attempt(owner).cloned(),
            node: None,
            invoked: None,
            shared: false,
            uncertainty_us: 0,
            applications: Vec::new(),
            applied: None,
            leased: None,
            acknowledged: None,
            promise: Vec::new(),
            belief: None,
            acts: Vec::new(),
        };
        self.rows.push(Clues::of(grant, self.quorum));
        let known = self.witnesses.roster.len().max(self.owners.len());
        self.owners.resize(known, None);
        self.owners[owner as usize] = Some(row);
        self.newest.insert((owner, lock), row);
        row
    }

    /// The newest row of this owner, if it has any.
    fn newest_of(&self, owner: Number) -> Option<usize> {
        self.owners.get(owner as usize).copied().flatten()
    }

    /// The newest row of the attempt, if it has any.
    fn of_attempt(&mut self, attempt: &Attempt) -> Option<&mut Clues> {
        let owner = self.witnesses.roster.of_attempt(attempt);
        let row = self.newest_of(owner)?;
        self.rows.get_mut(row)
    }

    pub fn gather(mut self) -> Gathering<'a> {
        for event in self.history.iter() {
            match &event.what {
                What::Effect { owner, accepted, .. } => self.act(event, owner, *accepted),
                _ => {
                    self.client_event(event);
                    self.record_event(event);
                }
            }
        }
        self
    }

    fn client_event(&mut self, event: &'a Event) {
        let moment = Moment::of(event);
        match &event.what {
            What::AcquireInvoked { attempt, key, shared } => {
                let owner = self.witnesses.roster.of_attempt(attempt);
                let row = self.row(key, owner);
                row.grant.invoked.get_or_insert(event.id);
                row.grant.node.get_or_insert_with(|| event.node.clone());
                row.grant.shared |= shared;
            }
            What::AcquireReturned {
                attempt,
                key,
                outcome: AcquireOutcome::Granted { token, lease_us, margin_us },
            } => {
                let owner = self.witnesses.roster.of_attempt(attempt);
                let row = self.row(key, owner);
                row.grant.node.get_or_insert_with(|| event.node.clone());
                row.acknowledged(Acknowledgement {
                    event: event.id,
                    moment,
                    token: *token,
                    lease_us: *lease_us,
                    margin_us: *margin_us,
                });
            }
            What::BeliefEnded { attempt, reason } => {
                if let Some(row) = self.of_attempt(attempt) {
                    row.belief_ends(moment);
                    if *reason == BeliefEnd::Told {
                        row.ends(moment);
                    }
                }
            }
            What::ReleaseInvoked { attempt } => {
                if let Some(row) = self.of_attempt(attempt) {
                    row.held = row.held.saturating_sub(1);
                    // An inner release of nested acquires gives nothing back.
                    if row.held == 0 {
                        row.belief_ends(moment);
                        row.ends(moment);
                    }
                }
            }
            What::ReleaseReturned { attempt, release } => {
                if let Some(row) = self.of_attempt(attempt) {
                    // "Not held" tells the holder of the loss; "released" was applied
                    // by now, if nothing observed where.
                    match release {
                        Release::NotHeld => row.ends(moment),
                        Release::Released if row.held == 0 => row.ends(moment),
                        Release::Released | Release::Indeterminate { .. } => {}
                    }
                }
            }
            What::RenewReturned { attempt, renewal: Renewal::NotHeld } => {
                if let Some(row) = self.of_attempt(attempt) {
                    row.belief_ends(moment);
                    row.ends(moment);
                }
            }
            _ => {}
        }
    }

    fn record_event(&mut self, event: &'a Event) {
        let moment = Moment::of(event);
        match &event.what {
            What::RecordSet { key, owner, lease_us, shared } => {
                let owner = self.witnesses.roster.of(owner);
                let lock = self.witnesses.roster.of(key);
                if let Some(newest) =
                    self.newest.get(&(owner, lock)).map(|row| &mut self.rows[*row])
                    && newest.over
                    && newest.grant.attempt.is_none()
                {
                    // The new grant of a foreigner takes the place of its old one.
                    newest.ends(moment);
                    self.new_row(lock, owner);
                }
                let row = self.row(key, owner);
                row.grant.shared |= shared;
                let node = event.node.clone();
                let applied = Application { event: event.id, moment, node, lease_us: *lease_us };
                row.applied(applied);
            }
            What::LeaseBegan { key, owner } => {
                add(&mut self.row_of(key, owner).lease_began, moment);
            }
            What::RecordExtended { key, owner, lease_us } => {
                add(&mut self.row_of(key, owner).renewals, (moment, *lease_us));
            }
            What::RecordRefused { key, owner, held_by } if self.quorum > 1 && owner == held_by => {
                self.row_of(key, owner).refused_itself(&event.node);
            }
            What::RecordReleased { key, owner } => {
                let row = self.row_of(key, owner);
                if row.gone_from(&event.node) {
                    row.ends(moment);
                    row.over = true;
                }
            }
            What::RecordExpired { key, owner } | What::RecordLost { key, owner, .. } => {
                let row = self.row_of(key, owner);
                if row.gone_from(&event.node) {
                    row.over = true;
                }
            }
            What::SessionExpired { records, .. } => {
                for (key, owner) in records {
                    let row = self.row_of(key, owner);
                    row.ends(moment);
                    row.over = true;
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, event: &'a Event, owner: &Name, accepted: bool) {
        let owner = self.witnesses.roster.of(owner);
        // Somebody acts who never asked for a lock: a row of its own.
        let row = self.newest_of(owner).unwrap_or_else(|| self.new_row(self.nameless, owner));
        let (moment, resource) = (Moment::of(event), event.node.clone());
        let act = Act { event: event.id, moment, resource, accepted };
        add(&mut self.rows[row].grant.acts, act);
    }

    /// Whoever acts without ever having asked for a lock is against the lock that
    /// guards the resource: the one under which the others act there; else the only
    /// one that there is.
    fn find_locks_of_strangers(&mut self) {
        let mut guards: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        let mut all: BTreeSet<&Name> = BTreeSet::new();
        for clues in self.rows.iter().filter(|clues| !clues.grant.key.is_empty()) {
            all.insert(&clues.grant.key);
            for act in &clues.grant.acts {
                guards.entry(&act.resource).or_default().insert(&clues.grant.key);
            }
        }
        let only = |keys: &BTreeSet<&Name>| match keys.first() {
            Some(key) if keys.len() == 1 => Some((*key).clone()),
            _ => None,
        };
        let strangers = self.rows.iter().enumerate().filter(|(_, c)| c.grant.key.is_empty());
        let found: Vec<(usize, Name)> = strangers
            .filter_map(|(row, clues)| {
                let resources = clues.grant.acts.iter().map(|act| &act.resource);
                let mut guarded = resources.filter_map(|resource| only(guards.get(resource)?));
                Some((row, guarded.next().or_else(|| only(&all))?))
            })
            .collect();
        for (row, key) in found {
            self.rows[row].grant.key = key;
        }
    }

    pub fn finish(mut self, lock_has_records: bool) -> Grants {
        self.find_locks_of_strangers();
        let crashes = self.crashes;
        let clocks = &self.history.clock_uncertainty;
        let rows = self
            .rows
            .into_iter()
            .map(|clues| clues.finish(lock_has_records, &crashes, clocks))
            // An attempt that came to nothing is no grant.
            .filter(|grant| {
                let grant: &Grant = grant;
                grant.acknowledged.is_some()
                    || !grant.applications.is_empty()
                    || !grant.acts.is_empty()
            });
        Grants::in_order(rows.collect())
    }
}

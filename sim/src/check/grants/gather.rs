//! The pass over the events that gathers the clues of each row.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::lock::Release;

use super::clues::{Clues, add};
use super::{Acknowledgement, Act, Application, Grant, Grants};
use crate::check::interval::Moment;
use crate::history::{AcquireOutcome, Attempt, BeliefEnd, Event, History, Name, Renewal, What};

/// The attempts whose client's side is in the history, with their owners' names.
pub(super) struct Witnesses<'a> {
    /// In order of attempts.
    owners: Vec<(&'a Attempt, String)>,
    /// Positions in `owners`, in order of the names.
    by_name: Vec<usize>,
}

impl<'a> Witnesses<'a> {
    pub fn of(history: &'a History) -> Witnesses<'a> {
        let attempts: BTreeSet<&Attempt> = history.iter().filter_map(attempt_of).collect();
        let owners: Vec<(&Attempt, String)> =
            attempts.into_iter().map(|attempt| (attempt, attempt.to_string())).collect();
        let mut by_name: Vec<usize> = (0..owners.len()).collect();
        by_name.sort_by(|a, b| owners[*a].1.cmp(&owners[*b].1));
        Witnesses { owners, by_name }
    }

    /// The attempt of this owner.
    fn attempt(&self, owner: &str) -> Option<&'a Attempt> {
        let at = self.by_name.binary_search_by(|n| self.owners[*n].1.as_str().cmp(owner)).ok()?;
        Some(self.owners[self.by_name[at]].0)
    }

    /// The owner's name of this attempt, which was witnessed.
    fn owner(&self, attempt: &Attempt) -> &str {
        let at = self.owners.binary_search_by(|(known, _)| (*known).cmp(attempt));
        at.map_or("", |at| &self.owners[at].1)
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
    newest: BTreeMap<(&'a str, &'a str), usize>,
    /// The newest row of an owner of any lock.
    owners: BTreeMap<&'a str, usize>,
    witnesses: &'a Witnesses<'a>,
    quorum: u16,
    crashes: BTreeMap<Name, Vec<Moment>>,
}

impl<'a> Gathering<'a> {
    pub fn new(history: &'a History, witnesses: &'a Witnesses<'a>, quorum: u16) -> Gathering<'a> {
        let mut crashes: BTreeMap<Name, Vec<Moment>> = BTreeMap::new();
        for event in history.iter().filter(|e| matches!(e.what, What::NodeCrashed { .. })) {
            crashes.entry(event.node.clone()).or_default().push(Moment::of(event));
        }
        let (newest, owners) = (BTreeMap::new(), BTreeMap::new());
        Gathering { history, rows: Vec::new(), newest, owners, witnesses, quorum, crashes }
    }

    /// The newest row of this owner of this lock, made if there is none.
    fn row(&mut self, key: &'a str, owner: &'a str) -> &mut Clues {
        let row = match self.newest.get(&(key, owner)) {
            Some(row) => *row,
            None => match self.newest.remove(&("", owner)) {
                // It acted before it asked.
                Some(row) => {
                    key.clone_into(&mut self.rows[row].grant.key);
                    self.newest.insert((key, owner), row);
                    row
                }
                None => self.new_row(key, owner),
            },
        };
        &mut self.rows[row]
    }

    fn new_row(&mut self, key: &'a str, owner: &'a str) -> usize {
        let row = self.rows.len();
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.to_owned(),
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
        self.owners.insert(owner, row);
        self.newest.insert((key, owner), row);
        row
    }

    /// The newest row of the attempt, if it has any.
    fn of_attempt(&mut self, attempt: &Attempt) -> Option<&mut Clues> {
        let row = *self.owners.get(self.witnesses.owner(attempt))?;
        self.rows.get_mut(row)
    }

    pub fn gather(mut self, history: &'a History) -> Gathering<'a> {
        for event in history.iter() {
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
                let row = self.row(key, self.witnesses.owner(attempt));
                row.grant.invoked.get_or_insert(event.id);
                row.grant.node.get_or_insert_with(|| event.node.clone());
                row.grant.shared |= shared;
            }
            What::AcquireReturned {
                attempt,
                key,
                outcome: AcquireOutcome::Granted { token, lease_us, margin_us },
            } => {
                let row = self.row(key, self.witnesses.owner(attempt));
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
                if let Some(newest) = self.newest.get(&(key, owner)).map(|row| &mut self.rows[*row])
                    && newest.over
                    && newest.grant.attempt.is_none()
                {
                    // The new grant of a foreigner takes the place of its old one.
                    newest.ends(moment);
                    self.new_row(key, owner);
                }
                let row = self.row(key, owner);
                row.grant.shared |= shared;
                let node = event.node.clone();
                let applied = Application { event: event.id, moment, node, lease_us: *lease_us };
                row.applied(applied);
            }
            What::RecordExtended { key, owner, lease_us } => {
                add(&mut self.row(key, owner).renewals, (moment, *lease_us));
            }
            What::RecordReleased { key, owner } => {
                let row = self.row(key, owner);
                if row.gone_from(&event.node) {
                    row.ends(moment);
                    row.over = true;
                }
            }
            What::RecordExpired { key, owner } | What::RecordLost { key, owner, .. } => {
                let row = self.row(key, owner);
                if row.gone_from(&event.node) {
                    row.over = true;
                }
            }
            What::SessionExpired { records, .. } => {
                for (key, owner) in records {
                    let row = self.row(key, owner);
                    row.ends(moment);
                    row.over = true;
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, event: &'a Event, owner: &'a str, accepted: bool) {
        let row = match self.owners.get(owner) {
            Some(row) => *row,
            // Somebody acts who never asked for a lock: a row of its own.
            None => self.new_row("", owner),
        };
        let (moment, resource) = (Moment::of(event), event.node.clone());
        let act = Act { event: event.id, moment, resource, accepted };
        add(&mut self.rows[row].grant.acts, act);
    }

    /// Whoever acts without ever having asked for a lock is against the lock that
    /// guards the resource: the one under which the others act there; else the only
    /// one that there is.
    fn find_locks_of_strangers(&mut self) {
        let mut guards: BTreeMap<&Name, BTreeSet<&str>> = BTreeMap::new();
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for clues in self.rows.iter().filter(|clues| !clues.grant.key.is_empty()) {
            all.insert(&clues.grant.key);
            for act in &clues.grant.acts {
                guards.entry(&act.resource).or_default().insert(&clues.grant.key);
            }
        }
        let only = |keys: &BTreeSet<&str>| match keys.first() {
            Some(key) if keys.len() == 1 => Some((*key).to_owned()),
            _ => None,
        };
        let strangers = self.rows.iter().enumerate().filter(|(_, c)| c.grant.key.is_empty());
        let found: Vec<(usize, String)> = strangers
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

//! What is known of a server of PostgreSQL: its sessions and what they hold, its transactions,
//! its rows of the lock table.

use std::collections::BTreeMap;

use super::table::{Change, Rows};
use crate::history::{Name, What};
use crate::server::postgres::observe::Session;

/// A lock that a session holds, or the transaction in it: once for each owner, of which a
/// session has several where a pooler gives it to one client after another.
pub(super) struct Held {
    pub(super) pid: i32,
    pub(super) owner: Name,
    pub(super) shared: bool,
    /// How often the owner has it.
    pub(super) count: u32,
    /// Its session has not been silent yet since it took it.
    pub(super) is_fresh: bool,
}

/// What is known of a session.
#[derive(Default)]
pub(super) struct Known {
    pub(super) name: Name,
    /// The lock that it waits for.
    pub(super) waits: Option<Name>,
    pub(super) is_ending: bool,
    /// What it lost as it ended, as (lock, owner).
    pub(super) lost: Vec<(Name, Name)>,
}

/// What a transaction that is under way has done.
#[derive(Default)]
pub(super) struct Open {
    pub(super) changes: Vec<Change>,
    /// Units and their orders.
    pub(super) sales: Vec<(u32, Name)>,
}

/// What is known of a server.
#[derive(Default)]
pub(super) struct Server {
    pub(super) sessions: BTreeMap<i32, Known>,
    pub(super) held: BTreeMap<Name, Vec<Held>>,
    pub(super) open: BTreeMap<u64, Open>,
    pub(super) rows: Rows,
}

impl Server {
    pub(super) fn known(&mut self, session: Session) -> &mut Known {
        self.sessions.entry(session.pid).or_default()
    }

    /// A session has a lock.
    pub(super) fn took(
        &mut self,
        session: Session,
        key: Name,
        shared: bool,
        lease_us: Option<u64>,
    ) -> Option<What> {
        let known = self.known(session);
        known.waits = None;
        let owner = known.name.clone();
        let held = self.held.entry(key.clone()).or_default();
        let is_it =
            |one: &&mut Held| one.pid == session.pid && one.owner == owner && one.shared == shared;
        if let Some(held) = held.iter_mut().find(is_it) {
            held.count += 1;
            return None;
        }
        let pid = session.pid;
        held.push(Held { pid, owner: owner.clone(), shared, count: 1, is_fresh: true });
        Some(What::RecordSet { key, owner, lease_us, shared })
    }

    /// A session waits for a lock; a row's queue has two places to wait in, and is one wait.
    pub(super) fn awaits(&mut self, session: Session, key: Name) -> Option<What> {
        let known = self.known(session);
        let is_new = known.waits.as_ref() != Some(&key);
        known.waits = Some(key.clone());
        is_new.then(|| What::WaitBegan { key, owner: known.name.clone() })
    }

    /// A session has given back one of its holds, whoever's it was under its present name; or
    /// the last, or it ends: then nobody has the lock through it.
    pub(super) fn gave_back(
        &mut self,
        session: Session,
        key: &Name,
        shared: bool,
        left: u32,
    ) -> Vec<What> {
        let name = self.known(session).name.clone();
        let Some(all) = self.held.get_mut(key) else { return Vec::new() };
        let is_its = |held: &Held| held.pid == session.pid && held.shared == shared;
        let mut gone = Vec::new();
        if left == 0 {
            gone.extend(all.extract_if(.., |held| is_its(held)).map(|held| held.owner));
        } else {
            let by_name = all.iter().position(|held| is_its(held) && held.owner == name);
            if let Some(at) = by_name.or_else(|| all.iter().rposition(is_its)) {
                all[at].count -= 1;
                gone.extend((all[at].count == 0).then(|| all.remove(at).owner));
            }
        }
        if all.is_empty() {
            self.held.remove(key);
        }
        let known = self.known(session);
        if known.is_ending {
            known.lost.extend(gone.into_iter().map(|owner| (key.clone(), owner)));
            return Vec::new();
        }
        let released = |owner| What::RecordReleased { key: key.clone(), owner };
        gone.into_iter().map(released).collect()
    }

    /// A session has said something, and may be silent for so long again.
    pub(super) fn heard(&mut self, pid: i32, lease_us: u64) -> Vec<What> {
        if let Some(known) = self.sessions.get_mut(&pid) {
            // A wait is over with its statement, whatever came of it.
            known.waits = None;
        }
        let mut events = Vec::new();
        let all =
            self.held.iter_mut().flat_map(|(key, held)| held.iter_mut().map(move |one| (key, one)));
        for (key, held) in all.filter(|(_, held)| held.pid == pid) {
            if !std::mem::take(&mut held.is_fresh) {
                let (key, owner) = (key.clone(), held.owner.clone());
                events.push(What::RecordExtended { key, owner, lease_us });
            }
        }
        events
    }
}

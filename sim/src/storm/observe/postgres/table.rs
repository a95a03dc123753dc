//! The rows of the lock table as one server has them, and what a transaction's changes to them
//! mean.

use std::collections::BTreeMap;

use crate::history::{Attempt, Name, RecordLoss, What};
use crate::server::postgres::observe::{Row, moment_us};

/// A row of the lock table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    owner: Name,
    token: i64,
    holds: i64,
    /// µs since 2000, on the server's wall clock; `None` for one that never expires.
    expires_us: Option<i64>,
}

/// What a transaction does to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Set { key: Name, record: RecordOf },
    Gone { key: Name, by: Name },
}

/// A record in a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordOf(Record);

/// The rows of one server, by their keys.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<Name, Record>);

/// A column of a row; `None` for NULL, too.
pub(super) fn column<'r>(row: Row<'r>, name: &str) -> Option<&'r str> {
    row.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_deref())
}

fn record(column: impl Fn(&'static str) -> Option<String>) -> Option<(Name, Record)> {
    let number = |name| column(name).and_then(|text| text.parse().ok());
    let record = Record {
        owner: column("owner")?.into(),
        token: number("token")?,
        holds: number("holds")?,
        expires_us: column("expires_at").and_then(|text| moment_us(&text)),
    };
    Some((column("key")?.into(), record))
}

impl Change {
    /// What the writing of a row is, by the session of this name.
    pub(super) fn of(old: Option<Row<'_>>, new: Option<Row<'_>>, by: &Name) -> Option<Change> {
        if let Some(new) = new {
            let (key, record) = record(|name| column(new, name).map(ToOwned::to_owned))?;
            return Some(Change::Set { key, record: RecordOf(record) });
        }
        let key = column(old?, "key")?.into();
        Some(Change::Gone { key, by: by.clone() })
    }
}

impl Rows {
    /// The locks that are held, as (lock, owner).
    pub(super) fn records(&self) -> Vec<(Name, Name)> {
        self.0.iter().map(|(key, record)| (key.clone(), record.owner.clone())).collect()
    }

    /// A change is made and not committed: does a lease begin with it?
    pub(super) fn began(&self, change: &Change) -> Option<What> {
        let Change::Set { key, record: RecordOf(new) } = change else { return None };
        let is_same = |old: &Record| old.owner == new.owner && old.token == new.token;
        if self.0.get(key).is_some_and(is_same) || new.expires_us.is_none() {
            return None;
        }
        Some(What::LeaseBegan { key: key.clone(), owner: new.owner.clone() })
    }

    /// A change of a client's is committed.
    pub(super) fn commit(&mut self, change: &Change, wall_us: i64) -> Vec<What> {
        match change {
            Change::Set { key, record: RecordOf(new) } => {
                let old = self.0.insert(key.clone(), new.clone());
                set(key, old, new, wall_us)
            }
            Change::Gone { key, by } => {
                let Some(old) = self.0.remove(key) else { return Vec::new() };
                let is_its_own = match Attempt::parse(&old.owner) {
                    Some(attempt) => attempt.client == *by,
                    // Foreign owners do not say which client they are.
                    None => true,
                };
                let (key, owner) = (key.clone(), old.owner);
                vec![match is_its_own {
                    true => What::RecordReleased { key, owner },
                    false => What::RecordLost { key, owner, how: RecordLoss::Deleted },
                }]
            }
        }
    }

    /// A change of the primary's is replayed.
    pub(super) fn replay(&mut self, change: &Change) -> Option<What> {
        match change {
            Change::Set { key, record: RecordOf(new) } => {
                let old = self.0.insert(key.clone(), new.clone());
                let is_new =
                    old.is_none_or(|old| (old.owner, old.token) != (new.owner.clone(), new.token));
                let (key, owner) = (key.clone(), new.owner.clone());
                is_new.then_some(What::RecordReplicated { key, owner })
            }
            Change::Gone { key, .. } => {
                let old = self.0.remove(key)?;
                Some(What::RecordUnreplicated { key: key.clone(), owner: old.owner })
            }
        }
    }

    /// The server has read its log: these rows are what it has. What is not among them is
    /// gone; what is new had been committed and nobody was told.
    pub(super) fn replace<'r>(
        &mut self,
        rows: impl Iterator<Item = &'r Vec<(String, Option<String>)>>,
    ) -> Vec<What> {
        let read = |row: &Vec<(String, Option<String>)>| {
            record(|name| row.iter().find(|(known, _)| known == name)?.1.clone())
        };
        let before = std::mem::replace(&mut self.0, rows.filter_map(read).collect());
        let mut events = Vec::new();
        for (key, old) in &before {
            if self.0.get(key).is_none_or(|new| new.owner != old.owner) {
                let (key, owner) = (key.clone(), old.owner.clone());
                events.push(What::RecordLost { key, owner, how: RecordLoss::Crash });
            }
        }
        for (key, new) in &self.0 {
            if before.get(key).is_none_or(|old| new.owner != old.owner) {
                let (key, owner) = (key.clone(), new.owner.clone());
                events.push(What::RecordLoaded { key, owner });
            }
        }
        events
    }
}

/// A row stands now where there was another, or none.
fn set(key: &Name, old: Option<Record>, new: &Record, wall_us: i64) -> Vec<What> {
    let left_us = |at: i64| u64::try_from(at.saturating_sub(wall_us)).unwrap_or(0);
    let lease_us = new.expires_us.map(left_us);
    let owner = new.owner.clone();
    let set = What::RecordSet { key: key.clone(), owner: owner.clone(), lease_us, shared: false };
    let Some(old) = old else { return vec![set] };
    let is_same = old.owner == new.owner && old.token == new.token;
    if is_same && new.holds > old.holds {
        return vec![set];
    }
    if is_same {
        let is_later = old.expires_us != new.expires_us;
        let extended = |lease_us| What::RecordExtended { key: key.clone(), owner, lease_us };
        return lease_us.filter(|_| is_later).map(extended).into_iter().collect();
    }
    let (key, owner) = (key.clone(), old.owner);
    let gone = match old.expires_us {
        Some(expires_us) if expires_us <= wall_us => What::RecordExpired { key, owner },
        _ => What::RecordLost { key, owner, how: RecordLoss::Overwritten },
    };
    vec![gone, set]
}

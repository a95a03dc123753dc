//! How commands look at keys and change them: expiry on access, observations, and
//! what becomes of a change in the replication stream.

use std::sync::Arc;

use bytes::Bytes;

use super::super::codec::append_command;
use super::super::keyspace::{Database, Entry, Hash, Value};
use super::super::observe::{Observation, Origin};
use super::super::state::{Shared, State};
use super::{Call, Failure, WRONG_TYPE};

/// Effects of one command or script on their way into the replication stream.
/// More than one travel as a transaction.
#[derive(Debug, Default)]
pub(in super::super) struct Pending {
    bytes: Vec<u8>,
    count: usize,
}

impl Pending {
    /// Appends a command that has the effect.
    pub(in super::super) fn push<'a, I>(&mut self, state: &mut State, database: usize, command: I)
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    {
        // What a replica executes it has from its master, and forwards as it came.
        if !state.replication.is_fed() || state.is_replica() {
            return;
        }
        if state.replication.selected != Some(database) {
            state.replication.selected = Some(database);
            let mut number = itoa::Buffer::new();
            append_command(&mut self.bytes, [&b"SELECT"[..], number.format(database).as_bytes()]);
        }
        append_command(&mut self.bytes, command);
        self.count += 1;
    }

    /// Hands everything over to the replication stream.
    pub(in super::super) fn flush(self, shared: &Shared, state: &mut State) {
        match self.count {
            0 => {}
            1 => shared.feed(state, &self.bytes),
            _ => {
                let mut bytes = Vec::with_capacity(self.bytes.len() + 32);
                append_command(&mut bytes, [&b"MULTI"[..]]);
                bytes.extend_from_slice(&self.bytes);
                append_command(&mut bytes, [&b"EXEC"[..]]);
                shared.feed(state, &bytes);
            }
        }
    }
}

/// Deletes every key whose time has come: the active half of expiry. Nothing on a
/// replica, which waits for its master's deletions.
pub(in super::super) fn expire_due(shared: &Arc<Shared>, state: &mut State) {
    if state.is_replica() || state.databases.iter().all(|database| database.expiring_len() == 0) {
        return;
    }
    let now_ms = shared.wall_ms();
    for database in 0..state.databases.len() {
        while let Some(key) = state.databases[database].first_expired(now_ms) {
            // Each by itself: keys that expire together are no transaction.
            let mut pending = Pending::default();
            remove_expired(shared, state, database, &key, &mut pending);
            pending.flush(shared, state);
        }
    }
}

fn remove_expired(
    shared: &Shared,
    state: &mut State,
    database: usize,
    key: &[u8],
    pending: &mut Pending,
) {
    if let Some(entry) = state.databases[database].remove(key) {
        let value = entry.value.string().map(Bytes::as_ref);
        shared.observer.observe(&Observation::Expired { key, value });
        state.touch(database, key);
        pending.push(state, database, [&b"DEL"[..], key]);
    }
}

impl Call<'_> {
    /// Whether this key's time has come. On a master it is deleted then; on a
    /// replica clients do not see it, and its master's commands always do.
    fn is_expired(&mut self, key: &[u8]) -> bool {
        let database = self.client.database;
        let entry = self.state.databases[database].get(key);
        let Some(at_ms) = entry.and_then(|entry| entry.expires_at_ms) else {
            return false;
        };
        if self.now_ms <= at_ms {
            return false;
        }
        if self.state.is_replica() {
            return self.client.origin != Origin::Master;
        }
        remove_expired(self.shared, self.state, database, key, self.pending);
        true
    }

    /// What is under a key, as this client sees it now.
    pub(super) fn lookup(&mut self, key: &[u8]) -> Option<&Entry> {
        if self.is_expired(key) {
            return None;
        }
        self.state.databases[self.client.database].get(key)
    }

    /// The string under a key.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else.
    pub(super) fn lookup_string(&mut self, key: &[u8]) -> Result<Option<&Bytes>, Failure> {
        match self.lookup(key) {
            None => Ok(None),
            Some(entry) => entry.value.string().map(Some).ok_or(WRONG_TYPE.into()),
        }
    }

    /// The hash under a key.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else.
    pub(super) fn lookup_hash(&mut self, key: &[u8]) -> Result<Option<&Hash>, Failure> {
        match self.lookup(key) {
            None => Ok(None),
            Some(entry) => entry.value.hash().map(Some).ok_or(WRONG_TYPE.into()),
        }
    }

    /// Changes the hash under a key. One that is not there begins empty; one that
    /// becomes empty goes.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else; nothing is changed then.
    pub(super) fn change_hash<T>(
        &mut self,
        key: &[u8],
        work: impl FnOnce(&mut Hash) -> T,
    ) -> Result<T, Failure> {
        let number = self.client.database;
        if self.lookup_hash(key)?.is_none() {
            self.state.databases[number].insert(key, Value::Hash(Hash::default()), None);
        }
        let changed = self.state.databases[number].modify(key, |value| match value {
            Value::Hash(hash) => Some((work(hash), hash.is_empty())),
            Value::String(_) => None,
        });
        let (result, is_empty) = changed.flatten().ok_or(WRONG_TYPE)?;
        if is_empty {
            self.remove(key);
        } else {
            self.state.touch(number, key);
        }
        Ok(result)
    }

    /// When a key expires, if it is there.
    pub(super) fn lookup_expiry(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.lookup(key).map(|entry| entry.expires_at_ms)
    }

    /// Puts a string under a key. Whoever calls this has looked the key up.
    pub(super) fn put_string(&mut self, key: &[u8], value: Bytes, expires_at_ms: Option<i64>) {
        let database = &mut self.state.databases[self.client.database];
        let previous = database.get(key).and_then(|entry| entry.value.string());
        self.shared.observer.observe(&Observation::Set {
            origin: self.client.origin,
            key,
            previous: previous.map(Bytes::as_ref),
            value: &value,
            expires_at_ms,
            now_ms: self.now_ms,
        });
        database.insert(key, Value::String(value), expires_at_ms);
        self.state.touch(self.client.database, key);
    }

    /// Deletes a key that was looked up; false if it is not there.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let database = self.client.database;
        let Some(entry) = self.state.databases[database].remove(key) else {
            return false;
        };
        self.shared.observer.observe(&Observation::Deleted {
            origin: self.client.origin,
            key,
            value: entry.value.string().map(Bytes::as_ref),
        });
        self.state.touch(database, key);
        true
    }

    /// Changes when a key that was looked up expires.
    pub(super) fn put_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        let database = &mut self.state.databases[self.client.database];
        let value = database.get(key).and_then(|entry| entry.value.string());
        self.shared.observer.observe(&Observation::Expiry {
            origin: self.client.origin,
            key,
            value: value.map(Bytes::as_ref),
            expires_at_ms,
            now_ms: self.now_ms,
        });
        database.set_expiry(key, expires_at_ms);
        self.state.touch(self.client.database, key);
    }

    /// Deletes all keys of some databases.
    pub(super) fn clear(&mut self, databases: std::ops::Range<usize>) {
        let mut old = vec![Database::default(); self.state.databases.len()];
        for number in databases.clone() {
            let database = &mut self.state.databases[number];
            for (key, entry) in database.iter() {
                self.shared.observer.observe(&Observation::Deleted {
                    origin: self.client.origin,
                    key,
                    value: entry.value.string().map(Bytes::as_ref),
                });
            }
            old[number] = std::mem::take(database);
        }
        self.state.touch_replaced(&old, &databases);
    }

    /// Sends this command as it came to the replicas.
    pub(super) fn propagate(&mut self) {
        let arguments = self.arguments;
        self.pending.push(self.state, self.client.database, arguments.iter());
    }

    /// Sends another command that has the same effect to the replicas.
    pub(super) fn propagate_as<'b, I>(&mut self, command: I)
    where
        I: IntoIterator<Item = &'b [u8], IntoIter: ExactSizeIterator>,
    {
        self.pending.push(self.state, self.client.database, command);
    }
}

//! How commands look at keys and change them: expiry on access, observations, and
//! what becomes of a change in the replication stream.

use std::sync::Arc;

use bytes::Bytes;

use super::super::blocking::serve_ready;
use super::super::codec::{ReplyEncoder, append_command};
use super::super::keyspace::{Database, Entry, Kind, Value};
use super::super::observe::{Observation, Origin};
use super::super::pubsub::event;
use super::super::state::{Client, Shared, State};
use super::notifications::notify;
use super::{Call, Failure, Outcome, WRONG_TYPE};

/// Effects of one command or script on their way into the replication stream.
/// More than one travel as a transaction.
#[derive(Debug, Default)]
pub(in super::super) struct Pending {
    /// For the replication stream.
    stream: Effects,
    /// For the append-only file.
    file: Effects,
}

#[derive(Debug, Default)]
struct Effects {
    bytes: Vec<u8>,
    count: usize,
}

impl Effects {
    /// More than one are a transaction.
    fn wrapped(self) -> Vec<u8> {
        if self.count < 2 {
            return self.bytes;
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + 32);
        append_command(&mut bytes, [&b"MULTI"[..]]);
        bytes.extend_from_slice(&self.bytes);
        append_command(&mut bytes, [&b"EXEC"[..]]);
        bytes
    }
}

impl Pending {
    /// Appends a command that has the effect.
    pub(in super::super) fn push<'a, I>(&mut self, state: &mut State, database: usize, command: I)
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator + Clone>,
    {
        let command = command.into_iter();
        if state.kept.is_appending() {
            state.kept.append.select(database, &mut self.file.bytes);
            append_command(&mut self.file.bytes, command.clone());
            self.file.count += 1;
        }
        self.push_to_replicas(state, database, command);
    }

    /// Appends a command that only replicas are to hear of.
    fn push_to_replicas<'a, I>(&mut self, state: &mut State, database: usize, command: I)
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    {
        // What a replica executes it has from its master, and forwards as it came.
        if !state.replication.is_fed() || state.is_replica() {
            return;
        }
        let Effects { bytes, count } = &mut self.stream;
        if state.replication.selected != Some(database) {
            state.replication.selected = Some(database);
            let mut number = itoa::Buffer::new();
            append_command(bytes, [&b"SELECT"[..], number.format(database).as_bytes()]);
        }
        append_command(bytes, command);
        *count += 1;
    }

    /// Hands everything over to the append-only file and to the replication stream.
    pub(in super::super) fn flush(self, shared: &Shared, state: &mut State) {
        if self.file.count > 0 {
            state.kept.append.take(&self.file.wrapped());
        }
        if self.stream.count > 0 {
            shared.feed(state, &self.stream.wrapped());
        }
    }
}

/// Deletes every key whose time has come: the active half of expiry. Nothing on a
/// replica, which waits for its master's deletions.
pub(in super::super) fn expire_due(shared: &Arc<Shared>, state: &mut State) {
    if !looks_for_expired(state) {
        return;
    }
    let now_ms = shared.wall_ms();
    for database in 0..state.databases.len() {
        while let Some(key) = state.databases[database].first_expired(now_ms) {
            // Each by itself: keys that expire together are no transaction.
            let mut pending = Pending::default();
            remove_expired(shared, state, None, database, &key, &mut pending);
            pending.flush(shared, state);
        }
    }
    serve_ready(shared, state);
}

fn looks_for_expired(state: &State) -> bool {
    state.expires_actively
        && !state.is_replica()
        && state.databases.iter().any(|database| database.expiring_len() > 0)
}

/// Whether [`expire_due`] would find a key, or somebody to serve.
pub(in super::super) fn is_any_due(shared: &Shared, state: &State) -> bool {
    if !looks_for_expired(state) {
        return false;
    }
    let now_ms = shared.wall_ms();
    state.waiting.has_ready() || state.databases.iter().any(|database| database.has_expired(now_ms))
}

fn remove_expired(
    shared: &Shared,
    state: &mut State,
    current: Option<&mut Client>,
    database: usize,
    key: &[u8],
    pending: &mut Pending,
) {
    if let Some(entry) = state.databases[database].remove(key) {
        let value = entry.value.told();
        shared.observer.observe(&Observation::Expired { key, value });
        state.touch(database, key);
        pending.push(state, database, [&b"DEL"[..], key]);
        notify(state, current, database, event::EXPIRED, "expired", key);
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
        remove_expired(self.shared, self.state, Some(self.client), database, key, self.pending);
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

    /// What is under a key, if it is of one type.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else.
    pub(super) fn lookup_as<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&T>, Failure> {
        match self.lookup(key) {
            None => Ok(None),
            Some(entry) => T::of(&entry.value).map(Some).ok_or(WRONG_TYPE.into()),
        }
    }

    /// Answers with what `tell` makes of what is under a key, if it is of one type.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else.
    pub(super) fn ask<T: Kind>(
        &mut self,
        key: &[u8],
        tell: impl FnOnce(Option<&T>, &mut ReplyEncoder),
    ) -> Outcome {
        let is_there = self.lookup_as::<T>(key)?.is_some();
        let Call { state, client, reply, .. } = self;
        let entry = state.databases[client.database].get(key).filter(|_| is_there);
        tell(entry.and_then(|entry| T::of(&entry.value)), reply);
        Ok(())
    }

    /// Changes what is under a key, if it is of one type. If nothing is there, it begins
    /// empty; one that becomes empty goes, and `true` is told besides. The events of the
    /// change and of the deletion are the caller's to tell.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else; nothing is changed then.
    pub(super) fn change<T: Kind, R>(
        &mut self,
        key: &[u8],
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<(R, bool), Failure> {
        let number = self.client.database;
        if self.lookup_as::<T>(key)?.is_none() {
            self.state.databases[number].insert(key, T::default().wrap(), None);
            self.notify(event::NEW, "new", key);
        }
        let changed = self.state.databases[number].modify(key, |value| {
            let value = T::of_mut(value)?;
            Some((work(value), value.is_spent()))
        });
        let (result, is_spent) = changed.flatten().ok_or(WRONG_TYPE)?;
        if is_spent {
            self.remove(key);
        } else {
            self.state.touch(number, key);
        }
        Ok((result, is_spent))
    }

    /// Changes something within what is under a key that was looked up and is of this type,
    /// which those who watch the key do not count as a change.
    ///
    /// # Errors
    /// WRONGTYPE when it is something else.
    pub(super) fn update<T: Kind, R>(
        &mut self,
        key: &[u8],
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Failure> {
        let database = &mut self.state.databases[self.client.database];
        database.modify_as(key, work).ok_or(WRONG_TYPE.into())
    }

    /// Changes what is under a key as [`change`](Self::change) does, and tells one event,
    /// and `del` behind it if the key goes.
    pub(super) fn change_and_notify<T: Kind, R>(
        &mut self,
        key: &[u8],
        class: u16,
        name: &str,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Failure> {
        let (result, is_gone) = self.change(key, work)?;
        self.notify(class, name, key);
        if is_gone {
            self.notify(event::GENERIC, "del", key);
        }
        Ok(result)
    }

    /// Tells that a field of a hash was set or removed.
    pub(super) fn observe_field(&self, key: &[u8], field: &[u8], value: Option<&[u8]>) {
        let origin = self.client.origin;
        self.shared.observer.observe(&Observation::Field { origin, key, field, value });
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
        let is_new = database.insert(key, Value::String(value), expires_at_ms);
        self.state.touch(self.client.database, key);
        if is_new {
            self.notify(event::NEW, "new", key);
        }
    }

    /// Puts something other than a string under a key, in place of whatever is there. Whoever
    /// calls this has looked the key up.
    pub(super) fn put<T: Kind>(&mut self, key: &[u8], value: T, expires_at_ms: Option<i64>) {
        let number = self.client.database;
        let database = &mut self.state.databases[number];
        if let Some(previous) = database.get(key).and_then(|entry| entry.value.string()) {
            self.shared.observer.observe(&Observation::Deleted {
                origin: self.client.origin,
                key,
                value: Some(previous),
            });
        }
        let is_new = database.insert(key, value.wrap(), expires_at_ms);
        self.state.touch(number, key);
        if is_new {
            self.notify(event::NEW, "new", key);
        }
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
            value: entry.value.told(),
        });
        self.state.touch(database, key);
        true
    }

    /// Changes when a key that was looked up expires.
    pub(super) fn put_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        let database = &mut self.state.databases[self.client.database];
        let value = database.get(key).and_then(|entry| entry.value.told());
        self.shared.observer.observe(&Observation::Expiry {
            origin: self.client.origin,
            key,
            value,
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
                    value: entry.value.told(),
                });
            }
            old[number] = std::mem::take(database);
            self.state.kept.snapshots.changes += old[number].len() as u64;
        }
        self.state.touch_replaced(&old, &databases);
    }

    /// Sends this command as it came to the replicas.
    pub(super) fn propagate(&mut self) {
        let arguments = self.arguments;
        self.pending.push(self.state, self.client.database, arguments.iter());
    }

    /// Sends this command as it came to the replicas, and does not keep it.
    pub(super) fn propagate_to_replicas(&mut self) {
        let arguments = self.arguments;
        self.pending.push_to_replicas(self.state, self.client.database, arguments.iter());
    }

    /// Sends another command that has the same effect to the replicas.
    pub(super) fn propagate_as<'b, I>(&mut self, command: I)
    where
        I: IntoIterator<Item = &'b [u8], IntoIter: ExactSizeIterator + Clone>,
    {
        self.pending.push(self.state, self.client.database, command);
    }
}

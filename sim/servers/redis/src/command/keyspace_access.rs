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
    /// They are no transaction, however many: keys that a walk found expired.
    pub(super) is_loose: bool,
}

#[derive(Debug, Default)]
struct Effects {
    /// The choice of the database of the first, which comes before a transaction.
    select: Vec<u8>,
    bytes: Vec<u8>,
    count: usize,
}

impl Effects {
    /// More than one are a transaction, unless they are `loose`.
    fn wrapped(self, is_loose: bool) -> Vec<u8> {
        let mut bytes = self.select;
        let is_transaction = self.count > 1 && !is_loose;
        if bytes.is_empty() && !is_transaction {
            return self.bytes;
        }
        bytes.reserve(self.bytes.len() + 32);
        if is_transaction {
            append_command(&mut bytes, [&b"MULTI"[..]]);
        }
        bytes.extend_from_slice(&self.bytes);
        if is_transaction {
            append_command(&mut bytes, [&b"EXEC"[..]]);
        }
        bytes
    }

    /// Where the choice of a database goes.
    fn place_of_select(&mut self) -> &mut Vec<u8> {
        if self.count == 0 { &mut self.select } else { &mut self.bytes }
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
            state.kept.append.select(database, self.file.place_of_select());
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
        if state.replication.selected != Some(database) {
            state.replication.selected = Some(database);
            let mut number = itoa::Buffer::new();
            let select = [&b"SELECT"[..], number.format(database).as_bytes()];
            append_command(self.stream.place_of_select(), select);
        }
        append_command(&mut self.stream.bytes, command);
        self.stream.count += 1;
    }

    /// Hands everything over to the append-only file and to the replication stream.
    pub(in super::super) fn flush(self, shared: &Shared, state: &mut State) {
        if self.file.count > 0 {
            state.kept.append.take(&self.file.wrapped(self.is_loose));
        }
        // Who was made a replica in a transaction keeps what came before to itself.
        if self.stream.count > 0 && !state.is_replica() {
            shared.feed(state, &self.stream.wrapped(self.is_loose));
        }
    }
}

/// Deletes every key whose time has come: the active half of expiry. Nothing on a
/// replica, which waits for its master's deletions.
pub(in super::super) fn expire_due(shared: &Arc<Shared>, state: &mut State) {
    if !state.expires_actively
        || state.is_replica()
        || state.databases.iter().all(|database| database.expiring_len() == 0)
    {
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
    /// Whether this key's time has come. On a master it is deleted then, unless the world stands
    /// still; on a replica clients do not see it, and its master's commands always do.
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
        if self.state.frozen.is_some() {
            return true;
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
            let before = value.first().map(Bytes::copy_from_slice);
            let inner = T::of_mut(value)?;
            let (result, is_spent) = (work(inner), inner.is_spent());
            Some((result, is_spent, before))
        });
        let (result, is_spent, before) = changed.flatten().ok_or(WRONG_TYPE)?;
        if is_spent {
            self.remove_told(key, before.as_deref());
        } else {
            self.observe_first(key, before.as_deref());
            self.state.touch(number, key);
        }
        Ok((result, is_spent))
    }

    /// Tells that something else is first under a key than was before.
    fn observe_first(&self, key: &[u8], previous: Option<&[u8]>) {
        let entry = self.state.databases[self.client.database].get(key);
        let first = entry.and_then(|entry| Some((entry.value.first()?, entry.expires_at_ms)));
        let Some((value, expires_at_ms)) = first.filter(|(value, _)| Some(*value) != previous)
        else {
            return;
        };
        self.shared.observer.observe(&Observation::Set {
            origin: self.client.origin,
            key,
            previous,
            value,
            expires_at_ms,
            now_ms: self.now_ms,
        });
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
        let value = value.wrap();
        let previous = self.state.databases[number].get(key).and_then(|entry| entry.value.told());
        let previous = previous.map(Bytes::copy_from_slice);
        if previous.is_some() && value.first().is_none() {
            let (origin, value) = (self.client.origin, previous.as_deref());
            self.shared.observer.observe(&Observation::Deleted { origin, key, value });
        }
        let is_new = self.state.databases[number].insert(key, value, expires_at_ms);
        self.observe_first(key, previous.as_deref());
        self.state.touch(number, key);
        if is_new {
            self.notify(event::NEW, "new", key);
        }
    }

    /// Deletes a key that was looked up; false if it is not there.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_told(key, None)
    }

    /// The same; `value` is told where nothing is left in what is removed.
    fn remove_told(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let database = self.client.database;
        let Some(entry) = self.state.databases[database].remove(key) else {
            return false;
        };
        self.shared.observer.observe(&Observation::Deleted {
            origin: self.client.origin,
            key,
            value: entry.value.told().or(value),
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

//! Transactions: begin, commit, abort, savepoints, and the settings that go with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Core, Session};
use crate::error::{SqlError, SqlResult};
use crate::locks::{EXCLUSIVE, Tag};
use crate::observe::Observation;
use crate::sql::ast::{Isolation, Modes};
use crate::state::{Shared, State, shown, tell_released};
use crate::transaction::{Block, Change, Level, Transaction, Undo};
use crate::wal::Record;

fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

fn isolation_of(name: &str) -> Isolation {
    match name {
        "read uncommitted" => Isolation::ReadUncommitted,
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => Isolation::ReadCommitted,
    }
}

pub(crate) fn no_serializable() -> SqlError {
    SqlError::new("0A000", "the simulated server does not have the isolation level SERIALIZABLE")
        .hint("Use REPEATABLE READ or READ COMMITTED.")
}

impl Core {
    /// The value of a parameter as SHOW tells it.
    pub(crate) fn show(&self, name: &str) -> SqlResult<String> {
        match (name.to_ascii_lowercase().as_str(), &self.transaction) {
            ("transaction_isolation", Some(transaction)) => {
                Ok(isolation_name(transaction.isolation).to_owned())
            }
            ("transaction_read_only", Some(transaction)) => {
                Ok(if transaction.read_only || self.is_standby { "on" } else { "off" }.to_owned())
            }
            _ => self.parameters.get(name),
        }
    }

    pub(crate) fn set_parameter(
        &mut self,
        shared: &Shared,
        state: &mut State,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> SqlResult<()> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "transaction_isolation" => {
                let modes = Modes {
                    isolation: Some((0, isolation_of(value.unwrap_or("read committed")))),
                    read_only: None,
                };
                self.parameters.clone().set(name, value)?;
                return self.set_modes(&modes).map_err(SqlError::without_place);
            }
            "transaction_read_only" => {
                let (_, _) = self.parameters.clone().set(name, value)?;
                let on = value.is_some_and(|value| {
                    matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1" | "t")
                });
                return self.set_modes(&Modes { isolation: None, read_only: Some(on) });
            }
            "default_transaction_isolation" if value == Some("serializable") => {
                return Err(no_serializable());
            }
            "session_authorization" | "role" => {
                return Err(SqlError::new("0A000", "the simulated server does not have roles"));
            }
            _ => {}
        }
        let (name, before) = self.parameters.set(name, value)?;
        if let Some(transaction) = &mut self.transaction {
            if local {
                transaction.local.push((name.clone(), before.clone()));
            }
            transaction.level().parameters.push((name.clone(), before));
        }
        self.named(shared, state, &name);
        Ok(())
    }

    /// Isolation and access of the transaction under way.
    pub(crate) fn set_modes(&mut self, modes: &Modes) -> SqlResult<()> {
        let is_standby = self.is_standby;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        if let Some((at, isolation)) = modes.isolation {
            if isolation == Isolation::Serializable {
                return Err(no_serializable().at(at));
            }
            let has_begun = transaction.snapshot.is_some() || transaction.command > 0;
            if has_begun && isolation != transaction.isolation {
                let told = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(SqlError::new("25001", told));
            }
            if transaction.levels.len() > 1 && isolation != transaction.isolation {
                let told = "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction";
                return Err(SqlError::new("25001", told));
            }
            transaction.isolation = isolation;
        }
        if let Some(read_only) = modes.read_only {
            // In the order in which `check_transaction_read_only` asks.
            let has_begun = transaction.snapshot.is_some() || transaction.command > 0;
            let opens = !read_only && (transaction.read_only || is_standby);
            if opens && transaction.levels.len() > 1 {
                let told = "cannot set transaction read-write mode inside a read-only transaction";
                return Err(SqlError::new("25001", told));
            }
            if opens && has_begun {
                let told = "transaction read-write mode must be set before any query";
                return Err(SqlError::new("25001", told));
            }
            if opens && is_standby {
                let told = "cannot set transaction read-write mode during recovery";
                return Err(SqlError::new("0A000", told));
            }
            let before = transaction.read_only;
            transaction.level().read_only_before.get_or_insert(before);
            transaction.read_only = read_only;
        }
        Ok(())
    }

    fn tell_rows_released(&mut self, shared: &Shared, state: &State, xid: Option<u64>) {
        let rows = std::mem::take(&mut self.locked_rows);
        let Some(xid) = xid else { return };
        for (id, tuple) in rows {
            let Some(table) = state.catalogue.table(id) else { continue };
            let Some(tuple) = state.tuple(id, tuple) else { continue };
            let (session, row) = (state.session(self.pid), shown(table, &tuple.row));
            let told = Observation::RowReleased { session, xid, table: &table.name, row: &row };
            shared.observer.observe(&told);
        }
    }

    /// Everything of the transaction is over; its numbers are `committed` or taken back.
    fn leave(&mut self, shared: &Shared, state: &mut State, committed: Option<u64>) {
        let Some(mut transaction) = self.transaction.take() else { return };
        let (xid, session) = (transaction.top_xid(), state.session(self.pid));
        if committed.is_none() {
            while let Some(level) = transaction.levels.pop() {
                undo_level(state, &level);
                self.undo_parameters(shared, state, level);
            }
        }
        self.tell_rows_released(shared, state, xid);
        for level in &transaction.levels {
            level.released.iter().chain(&level.xid).for_each(|xid| state.running.end(*xid));
        }
        for (name, before) in transaction.local.iter().rev() {
            self.parameters.restore(name, before.clone());
            self.named(shared, state, name);
        }
        let advisory: Vec<_> = state
            .locks
            .transaction_holdings(self.pid)
            .into_iter()
            .filter(|(tag, _)| matches!(tag, Tag::AdvisoryBig(_) | Tag::AdvisoryPair(..)))
            .collect();
        // Told before anybody else is: whoever is woken by it acts after it.
        match committed {
            Some(position) => {
                let wall_us = shared.wall();
                let told = Observation::Committed { session, xid, position, wall_us };
                shared.observer.observe(&told);
            }
            None => shared.observer.observe(&Observation::Aborted { session, xid }),
        }
        state.locks.release_from(self.pid, 0);
        let released =
            advisory.into_iter().filter(|(tag, mode)| !state.locks.holds(self.pid, *tag, *mode));
        tell_released(&*shared.observer, session, released.collect::<Vec<_>>());
        if let Some(backend) = state.backends.get_mut(&self.pid) {
            backend.xid = None;
            backend.horizon = None;
            backend.transaction_began = None;
        }
        if committed.is_some() {
            finish_definitions(state, &transaction);
            let tables: BTreeSet<_> = transaction
                .levels
                .iter()
                .flat_map(|level| &level.undo)
                .filter_map(|undo| match undo {
                    Undo::Written { table, .. } => Some(*table),
                    _ => None,
                })
                .collect();
            for table in tables {
                state.clean(table, false);
            }
        }
    }

    fn undo_parameters(&mut self, shared: &Shared, state: &mut State, level: Level) {
        for (name, before) in level.parameters.into_iter().rev() {
            self.parameters.restore(&name, before);
            self.named(shared, state, &name);
        }
    }

    /// A parameter has another value: others see the session's name.
    fn named(&self, shared: &Shared, state: &mut State, parameter: &str) {
        if parameter != "application_name" {
            return;
        }
        let session = state.session(self.pid);
        let Some(backend) = state.backends.get_mut(&self.pid) else { return };
        let name = self.parameters.get(parameter).unwrap_or_default();
        if backend.application_name != name {
            shared.observer.observe(&Observation::Named { session, name: &name });
            backend.application_name = name;
        }
    }

    /// Takes back everything that the transaction did.
    pub(crate) fn abort(&mut self, shared: &Shared, state: &mut State) {
        self.leave(shared, state, None);
        self.block = Block::None;
    }

    /// The level of a savepoint, from the last on.
    fn savepoint(&self, name: &str) -> SqlResult<usize> {
        let levels = self.transaction.as_ref().map_or(&[][..], |one| &one.levels);
        let found = levels.iter().rposition(|level| level.name.as_deref() == Some(name));
        found.ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    pub(crate) fn release_savepoint(&mut self, state: &mut State, name: &str) -> SqlResult<()> {
        let depth = self.savepoint(name)?;
        let pid = self.pid;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        while transaction.levels.len() > depth {
            let at = transaction.levels.len() - 1;
            let Some(level) = transaction.levels.pop() else { break };
            // Whoever waits for the part waits for the whole from now on.
            if let Some(xid) = level.xid {
                state.locks.drop_holding(pid, Tag::Transaction(xid), EXCLUSIVE);
            }
            state.locks.hand_up(pid, at);
            let above = transaction.level();
            above.released.extend(level.xid);
            above.released.extend(level.released);
            above.undo.extend(level.undo);
            above.changes.extend(level.changes);
            above.parameters.extend(level.parameters);
            // A part that is released takes along what it said of that.
            if let Some(before) = level.read_only_before {
                transaction.read_only = before;
            }
        }
        Ok(())
    }

    pub(crate) fn rollback_to(
        &mut self,
        shared: &Shared,
        state: &mut State,
        name: &str,
    ) -> SqlResult<()> {
        let depth = self.savepoint(name)?;
        let pid = self.pid;
        while self.transaction.as_ref().is_some_and(|one| one.levels.len() > depth) {
            let Some(transaction) = &mut self.transaction else { break };
            let Some(level) = transaction.levels.pop() else { break };
            undo_level(state, &level);
            for xid in level.released.iter().chain(&level.xid) {
                transaction.mine.remove(xid);
            }
            if let Some(before) = level.read_only_before {
                transaction.read_only = before;
            }
            self.undo_parameters(shared, state, level);
        }
        state.locks.release_from(pid, depth);
        if let Some(transaction) = &mut self.transaction {
            transaction.levels.push(Level { name: Some(name.to_owned()), ..Level::default() });
        }
        if self.block == Block::Failed {
            self.block = Block::Explicit;
        }
        Ok(())
    }
}

/// Takes back what one level wrote, the last first, and ends its numbers.
fn undo_level(state: &mut State, level: &Level) {
    for undo in level.undo.iter().rev() {
        match undo {
            Undo::Inserted { table, tuple } => state.heap(*table).remove(*tuple),
            Undo::Written { table, tuple, xid } => {
                if let Some(tuple) = state.heap(*table).get_mut(*tuple) {
                    tuple.members.retain(|member| !(member.xid == *xid && member.writes));
                    tuple.next = None;
                }
            }
            Undo::Locked { table, tuple, xid } => {
                if let Some(tuple) = state.heap(*table).get_mut(*tuple) {
                    tuple.members.retain(|member| member.xid != *xid || member.writes);
                }
            }
            Undo::Created(id) => {
                state.heaps.remove(id);
                state.catalogue.remove(*id);
            }
            Undo::Dropped(id) => {
                if let Some(relation) = state.catalogue.get_mut(*id) {
                    relation.dropped_by = None;
                }
            }
            Undo::Indexed { table, index } => {
                state.heap(*table).remove_index(*index);
                state.catalogue.change_table(*table, |table| {
                    table.indexes.retain(|known| known.id != *index);
                });
            }
            Undo::Unindexed { table, index } => {
                state.heap(*table).add_index(index);
                let index = index.clone();
                state.catalogue.change_table(*table, |table| table.indexes.push(index));
            }
        }
    }
    level.released.iter().chain(&level.xid).for_each(|xid| state.running.end(*xid));
}

/// What was created is everybody's now, what was dropped is gone.
fn finish_definitions(state: &mut State, transaction: &Transaction) {
    for undo in transaction.levels.iter().flat_map(|level| &level.undo) {
        match undo {
            Undo::Created(id) => {
                if let Some(relation) = state.catalogue.get_mut(*id) {
                    relation.created_by = None;
                }
            }
            Undo::Dropped(id)
                if state
                    .catalogue
                    .get(*id)
                    .is_some_and(|relation| relation.dropped_by.is_some()) =>
            {
                state.heaps.remove(id);
                state.catalogue.remove(*id);
            }
            _ => {}
        }
    }
}

impl Session {
    /// Begins a transaction, unless there is one.
    pub(crate) fn ensure_transaction(&mut self) {
        if self.core.transaction.is_some() {
            return;
        }
        let isolation = self.core.parameters.get("default_transaction_isolation");
        let isolation = isolation_of(&isolation.unwrap_or_default());
        let read_only = self.core.parameters.is_on("default_transaction_read_only");
        let began = self.core.statement_began;
        self.core.transaction = Some(Transaction::new(isolation, read_only, began));
        self.core.locked_rows.clear();
        if let Some(backend) = self.shared.lock().backends.get_mut(&self.core.pid) {
            backend.transaction_began = Some(began);
        }
    }

    /// Commits: the log is on the disk, and where it must be on standbys, before anybody
    /// sees it and before any lock is released.
    pub(crate) async fn commit(&mut self) -> SqlResult<()> {
        let Some(transaction) = &mut self.core.transaction else {
            self.core.block = Block::None;
            return Ok(());
        };
        let top = transaction.top_xid();
        let changes: Vec<Change> = transaction
            .levels
            .iter_mut()
            .flat_map(|level| std::mem::take(&mut level.changes))
            .collect();
        let notifications = std::mem::take(&mut transaction.notifications);
        let shared = self.shared.clone();
        let mut position = 0;
        if let Some(xid) = top {
            position = shared.lock().wal.append(&Record::Commit { xid, changes });
            if self.core.parameters.is("synchronous_commit", "off") {
                shared.writer.notify_one();
            } else {
                flush(&shared, position).await?;
                self.wait_for_standbys(position).await;
            }
        }
        let mut state = shared.lock();
        self.core.leave(&shared, &mut state, Some(position));
        self.core.block = Block::None;
        deliver(&mut state, self.core.pid, &notifications);
        Ok(())
    }

    /// Waits until the standbys that must have the commit have it.
    async fn wait_for_standbys(&mut self, position: u64) {
        let names = self.shared.settings.synchronous_standby_names.clone();
        if names.is_empty() || self.core.parameters.is("synchronous_commit", "local") {
            return;
        }
        let which = self.core.parameters.get("synchronous_commit").unwrap_or_default();
        let shared = self.shared.clone();
        loop {
            let mut progress = std::pin::pin!(shared.progress.notified());
            progress.as_mut().enable();
            {
                let mut state = shared.lock();
                let has = state.standbys.values().any(|standby| {
                    let is_named = names.iter().any(|name| name == "*" || *name == standby.name);
                    let reached = match which.as_str() {
                        "remote_write" => standby.written,
                        "remote_apply" => standby.applied,
                        _ => standby.flushed,
                    };
                    is_named && reached >= position
                });
                if has {
                    return;
                }
                // The commit is here already: it cannot be taken back any more.
                if let Some(backend) = state.backends.get_mut(&self.core.pid) {
                    let told = if backend.terminated {
                        "canceling the wait for synchronous replication and terminating connection due to administrator command"
                    } else if std::mem::take(&mut backend.cancelled) {
                        "canceling wait for synchronous replication due to user request"
                    } else {
                        ""
                    };
                    if !told.is_empty() {
                        let detail = "The transaction has already committed locally, \
                                      but might not have been replicated to the standby.";
                        self.core.notices.push(SqlError::warning("01000", told).detail(detail));
                        return;
                    }
                }
            }
            let signal = self.signal.clone();
            let mut signalled = std::pin::pin!(signal.notified());
            std::future::poll_fn(|context| {
                if progress.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(());
                }
                signalled.as_mut().poll(context)
            })
            .await;
        }
    }

    /// What a failed statement leaves of its transaction.
    pub(crate) fn fail(&mut self) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if self.core.block == Block::Explicit || self.core.block == Block::Failed {
            // The locks go at once: only the savepoints are kept until ROLLBACK.
            self.abort_innermost(&mut state);
            self.core.block = Block::Failed;
        } else {
            self.core.abort(&shared, &mut state);
        }
    }

    /// The innermost part of the transaction is undone; the others may be rolled back to.
    fn abort_innermost(&mut self, state: &mut State) {
        let pid = self.core.pid;
        let Some(transaction) = &mut self.core.transaction else { return };
        let depth = transaction.levels.len() - 1;
        let Some(level) = transaction.levels.pop() else { return };
        undo_level(state, &level);
        let (name, had_xid) = (level.name.clone(), level.xid);
        for xid in level.released.iter().chain(&level.xid) {
            transaction.mine.remove(xid);
        }
        if let Some(before) = level.read_only_before {
            transaction.read_only = before;
        }
        let shared = self.shared.clone();
        self.core.undo_parameters(&shared, state, level);
        if let Some(transaction) = &mut self.core.transaction {
            transaction.levels.push(Level { name, ..Level::default() });
        }
        if depth == 0 {
            let xid = had_xid;
            let session = state.session(pid);
            self.core.tell_rows_released(&shared, state, xid);
            shared.observer.observe(&Observation::Aborted { session, xid });
        }
        let advisory: Vec<_> = state
            .locks
            .transaction_holdings(pid)
            .into_iter()
            .filter(|(tag, _)| matches!(tag, Tag::AdvisoryBig(_) | Tag::AdvisoryPair(..)))
            .collect();
        state.locks.release_from(pid, depth);
        let gone = advisory.into_iter().filter(|(tag, mode)| !state.locks.holds(pid, *tag, *mode));
        let gone: Vec<_> = gone.collect();
        tell_released(&*self.shared.observer, state.session(pid), gone);
        if let Some(backend) = state.backends.get_mut(&pid) {
            if depth == 0 {
                backend.xid = None;
            }
            backend.horizon = None;
        }
    }
}

/// Puts the log up to `position` on the disk, with what others have added meanwhile.
///
/// # Errors
/// When the disk fails: the server ends.
pub(crate) async fn flush(shared: &Arc<Shared>, position: u64) -> SqlResult<()> {
    let failed = || SqlError::fatal("58030", "could not fsync the write-ahead log");
    loop {
        let mut progress = std::pin::pin!(shared.progress.notified());
        progress.as_mut().enable();
        let turn = {
            let mut state = shared.lock();
            if state.has_failed {
                return Err(failed());
            }
            if state.wal.flushed >= position {
                return Ok(());
            }
            match state.wal.is_busy {
                true => None,
                false => {
                    state.wal.is_busy = true;
                    let end = state.wal.end();
                    let bytes = state.wal.between(state.wal.written, end).to_vec();
                    state.wal.written = end;
                    Some((bytes, end))
                }
            }
        };
        let Some((bytes, end)) = turn else {
            progress.await;
            continue;
        };
        let file = crate::wal::FILE;
        let written = match shared.files.append(file, &bytes) {
            Ok(_) => shared.files.sync(file).await,
            Err(error) => Err(error),
        };
        if written.is_err() {
            shared.panic();
            return Err(failed());
        }
        let mut state = shared.lock();
        state.wal.is_busy = false;
        state.wal.flushed = end;
        drop(state);
        shared.progress.notify_waiters();
    }
}

/// Notifications go to whoever listens, once their transaction has committed.
fn deliver(state: &mut State, from: i32, notifications: &[(String, String)]) {
    for (channel, payload) in notifications {
        for backend in state.backends.values_mut() {
            if backend.channels.contains(channel) {
                backend.mail.push((from, channel.clone(), payload.clone()));
                backend.signal.notify_one();
            }
        }
    }
}

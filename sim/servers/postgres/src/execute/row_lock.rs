//! Row locks, after PostgreSQL's heap_lock_tuple and EvalPlanQual.
//!
//! A lock is a member in the header of the row's version. Whoever meets one that excludes
//! its own takes a place in the row's queue (a heavyweight lock on the version), then
//! waits for the transaction that has it. The first in the queue waits for the
//! transaction, the others behind it; one who comes when the transaction has just ended
//! needs no queue, and may go before all of them.

use std::sync::Arc;

use super::Run;
use crate::catalogue::Table;
use crate::error::{SqlError, SqlResult};
use crate::evaluate::Environment;
use crate::heap::{Member, Row, Tuple, TupleId};
use crate::locks::{
    ACCESS_EXCLUSIVE, ACCESS_SHARE, Acquired, EXCLUSIVE, Mode, ROW_SHARE, SHARE, Scope, Tag,
};
use crate::observe::{Observation, RowLockMode};
use crate::session::Session;
use crate::sql::ast::{Patience, RowLock};
use crate::state::shown;
use crate::transaction::{Undo, Xid};

/// Whether two row locks exclude each other.
fn excludes(one: RowLock, other: RowLock) -> bool {
    match (one.min(other), one.max(other)) {
        (RowLock::KeyShare, strong) => strong == RowLock::Update,
        (RowLock::Share, strong) => strong >= RowLock::NoKeyUpdate,
        _ => true,
    }
}

/// The heavyweight mode in a row's queue.
fn queue_mode(lock: RowLock) -> Mode {
    match lock {
        RowLock::KeyShare => ACCESS_SHARE,
        RowLock::Share => ROW_SHARE,
        RowLock::NoKeyUpdate => EXCLUSIVE,
        RowLock::Update => ACCESS_EXCLUSIVE,
    }
}

fn told_mode(lock: RowLock) -> RowLockMode {
    match lock {
        RowLock::KeyShare => RowLockMode::KeyShare,
        RowLock::Share => RowLockMode::Share,
        RowLock::NoKeyUpdate => RowLockMode::NoKeyUpdate,
        RowLock::Update => RowLockMode::Update,
    }
}

/// What a version of a row is to whoever wants to lock or write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Nothing is in the way.
    Free,
    /// A transaction that holds a lock that excludes ours, or one of several.
    Held(Xid),
    /// It was replaced by this version.
    Replaced(TupleId),
    Deleted,
    /// This command has written it already.
    Own,
    /// Its writer has gone, or it was written after the command began.
    Invisible,
}

impl Environment<'_> {
    /// Looks at a version. `command` is the command's number in the transaction.
    pub(super) fn meet(&self, table: u32, tuple: TupleId, lock: RowLock, command: u32) -> Met {
        let Some(found) = self.state.tuple(table, tuple) else { return Met::Deleted };
        if self.core.is_mine(found.xmin) {
            if found.cmin >= command {
                return Met::Invisible;
            }
        } else if self.state.running.contains(found.xmin) {
            return Met::Invisible;
        }
        if let Some(writer) = found.writer() {
            if self.core.is_mine(writer.xid) {
                return if found.cmax >= command { Met::Own } else { Met::Invisible };
            }
            if !self.state.running.contains(writer.xid) {
                return found.next.map_or(Met::Deleted, Met::Replaced);
            }
        }
        let in_way = found.members.iter().find(|member| {
            !self.core.is_mine(member.xid)
                && self.state.running.contains(member.xid)
                && excludes(member.lock, lock)
        });
        in_way.map_or(Met::Free, |member| Met::Held(member.xid))
    }

    /// Whether the transaction has a lock on the version that is as strong.
    fn has_lock(&self, tuple: &Tuple, lock: RowLock) -> bool {
        tuple
            .members
            .iter()
            .any(|member| !member.writes && member.lock >= lock && self.core.is_mine(member.xid))
    }

    /// As [`meet`](Self::meet), for a lock: FOR KEY SHARE is let through by updates that left
    /// the key alone, committed ones too, if it is by all versions that follow.
    fn meet_to_lock(&self, table: u32, tuple: TupleId, lock: RowLock, command: u32) -> Met {
        let met = self.meet(table, tuple, lock, command);
        let found = self.state.tuple(table, tuple);
        let writer = found.and_then(Tuple::writer);
        let passes = lock == RowLock::KeyShare
            && matches!(met, Met::Free | Met::Replaced(_))
            && writer.is_some_and(|writer| !excludes(writer.lock, lock));
        if !passes {
            return met;
        }
        let mut next = found.and_then(|found| found.next);
        while let Some(found) = next.and_then(|id| self.state.tuple(table, id)) {
            let others = found.members.iter().filter(|member| !self.core.is_mine(member.xid));
            for member in others.filter(|member| excludes(member.lock, lock)) {
                if self.state.running.contains(member.xid) {
                    return Met::Held(member.xid);
                }
                if member.writes {
                    return found.next.map_or(Met::Deleted, Met::Replaced);
                }
            }
            next = found.next;
        }
        Met::Free
    }

    /// Puts the lock into the version's header, and into those that follow it.
    pub(super) fn mark_locked(&mut self, table: &Arc<Table>, tuple: TupleId, lock: RowLock) {
        let xid = self.core.xid(self.shared, self.state);
        let mut next = Some(tuple);
        while let Some(id) = next {
            let running = &self.state.running;
            let Some(found) = self.state.heaps.get_mut(&table.id).and_then(|heap| heap.get_mut(id))
            else {
                break;
            };
            found.members.retain(|member| member.writes || running.contains(member.xid));
            let is_there = found
                .members
                .iter()
                .any(|member| member.xid == xid && !member.writes && member.lock >= lock);
            if !is_there {
                found.members.push(Member { xid, lock, writes: false });
                let undo = Undo::Locked { table: table.id, tuple: id, xid };
                if let Some(transaction) = &mut self.core.transaction {
                    transaction.level().undo.push(undo);
                }
            }
            next = found.next;
        }
        self.tell_locked(table, tuple, lock, xid);
    }

    pub(super) fn tell_locked(&mut self, table: &Table, tuple: TupleId, lock: RowLock, xid: Xid) {
        if !self.shared.is_observed(table) {
            return;
        }
        let Some(found) = self.state.tuple(table.id, tuple) else { return };
        if !self.core.locked_rows.contains(&(table.id, tuple)) {
            self.core.locked_rows.push((table.id, tuple));
        }
        let (session, row) = (self.state.session(self.core.pid), shown(table, &found.row));
        let (table, mode) = (table.name.as_str(), told_mode(lock));
        self.shared.observer.observe(&Observation::RowLocked {
            session,
            xid,
            table,
            mode,
            row: &row,
        });
    }

    fn tell_awaited(&self, table: &Table, tuple: TupleId, holder: Xid) {
        let Some(found) = self.state.tuple(table.id, tuple) else { return };
        let session = self.state.session(self.core.pid);
        self.shared.observe_row(table, &found.row, |row| {
            let table = table.name.as_str();
            self.shared.observer.observe(&Observation::RowAwaited { session, table, row, holder });
        });
    }
}

/// What came of wanting a row.
pub(super) enum Wanted {
    Locked(TupleId, Row),
    Skipped,
    /// Not by this command: it was deleted, or is not to be seen.
    Gone,
    /// Replaced or deleted since the snapshot.
    Changed,
}

impl Session {
    pub(super) fn environment<T>(&mut self, use_it: impl FnOnce(&mut Environment<'_>) -> T) -> T {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let core = &mut self.core;
        use_it(&mut Environment { shared: &shared, state: &mut state, core })
    }

    /// Waits until a transaction is over; of a part of one, the whole.
    pub(super) async fn wait_for_transaction(&mut self, xid: Xid) -> SqlResult<()> {
        let mut xid = xid;
        loop {
            let (tag, scope) = (Tag::Transaction(xid), Scope::Transaction(self.core.depth()));
            self.lock(tag, SHARE, scope).await?;
            let mut state = self.shared.lock();
            state.locks.drop_holding(self.core.pid, tag, SHARE);
            match state.running.top_of(xid) {
                Some(top) if state.running.contains(top) => xid = top,
                _ => return Ok(()),
            }
        }
    }

    /// Takes the place in the row's queue, once. False: it is taken, and nobody waits.
    pub(super) async fn enter_queue(
        &mut self,
        table: &Table,
        tuple: TupleId,
        lock: RowLock,
        patience: Patience,
    ) -> SqlResult<bool> {
        let (tag, mode) = (Tag::Tuple(table.id, tuple), queue_mode(lock));
        let scope = Scope::Transaction(self.core.depth());
        if patience == Patience::Wait {
            self.lock(tag, mode, scope).await?;
            return Ok(true);
        }
        let pid = self.core.pid;
        let acquired = self.shared.lock().locks.acquire(pid, tag, mode, scope, false);
        match acquired {
            Acquired::Granted => Ok(true),
            _ if patience == Patience::Skip => Ok(false),
            _ => Err(not_obtained(table)),
        }
    }

    pub(super) fn leave_queue(&mut self, table: &Table, tuple: TupleId, lock: RowLock) {
        let (tag, mode) = (Tag::Tuple(table.id, tuple), queue_mode(lock));
        self.shared.lock().locks.drop_holding(self.core.pid, tag, mode);
    }

    /// Locks one version, waiting as told.
    async fn lock_version(
        &mut self,
        table: &Arc<Table>,
        tuple: TupleId,
        lock: RowLock,
        patience: Patience,
        command: u32,
    ) -> SqlResult<Wanted> {
        let mut is_queued = false;
        let wanted = loop {
            let met = self.environment(|environment| {
                let met = environment.meet_to_lock(table.id, tuple, lock, command);
                if let Some(found) = environment.state.tuple(table.id, tuple)
                    && matches!(met, Met::Free | Met::Held(_))
                {
                    let row = found.row.clone();
                    if environment.has_lock(found, lock) {
                        return Ok(Wanted::Locked(tuple, row));
                    }
                    if met == Met::Free {
                        environment.mark_locked(table, tuple, lock);
                        return Ok(Wanted::Locked(tuple, row));
                    }
                }
                if let Met::Held(holder) = met {
                    environment.tell_awaited(table, tuple, holder);
                }
                Err(met)
            });
            match met {
                Ok(locked) => break locked,
                Err(Met::Replaced(_)) => break Wanted::Changed,
                Err(Met::Deleted) => break Wanted::Changed,
                Err(Met::Held(xid)) => {
                    // One who is among the holders already does not queue: that could
                    // be a deadlock with one who waits for it.
                    let is_holder = self.environment(|environment| {
                        let found = environment.state.tuple(table.id, tuple);
                        found.is_some_and(|found| {
                            found.members.iter().any(|one| environment.core.is_mine(one.xid))
                        })
                    });
                    if !is_queued && !is_holder {
                        if !self.enter_queue(table, tuple, lock, patience).await? {
                            return Ok(Wanted::Skipped);
                        }
                        is_queued = true;
                    }
                    let is_running = self.shared.lock().running.contains(xid);
                    match patience {
                        Patience::Wait => self.wait_for_transaction(xid).await?,
                        Patience::Skip if is_running => break Wanted::Skipped,
                        Patience::Fail if is_running => {
                            self.leave_queue(table, tuple, lock);
                            return Err(not_obtained(table));
                        }
                        _ => {}
                    }
                }
                Err(_) => break Wanted::Gone,
            }
        };
        if is_queued {
            self.leave_queue(table, tuple, lock);
        }
        Ok(wanted)
    }

    /// Locks a row that the snapshot shows: its newest version, if the isolation allows.
    pub(super) async fn lock_row(
        &mut self,
        run: &Run,
        table: &Arc<Table>,
        tuple: TupleId,
        lock: RowLock,
        patience: Patience,
    ) -> SqlResult<Option<(TupleId, Row)>> {
        let command = run.snapshot.command;
        match self.lock_version(table, tuple, lock, patience, command).await? {
            Wanted::Locked(tuple, row) => Ok(Some((tuple, row))),
            Wanted::Skipped | Wanted::Gone => Ok(None),
            Wanted::Changed if self.is_repeatable() => Err(concurrent("update")),
            Wanted::Changed => self.lock_newest(table, tuple, lock, patience, command).await,
        }
    }

    /// Follows a row that was replaced to its newest version, and locks that. `None`: it was
    /// deleted, or is skipped.
    pub(super) async fn lock_newest(
        &mut self,
        table: &Arc<Table>,
        tuple: TupleId,
        lock: RowLock,
        patience: Patience,
        command: u32,
    ) -> SqlResult<Option<(TupleId, Row)>> {
        let mut tuple = tuple;
        loop {
            // As far as committed transactions have led; a running one that replaces it is
            // waited for outside of the queue.
            let next = self.environment(|environment| {
                let found = environment.state.tuple(table.id, tuple)?;
                let writer = found.writer();
                Some(match writer {
                    Some(writer) if environment.core.is_mine(writer.xid) => Err(None),
                    Some(writer) if environment.state.running.contains(writer.xid) => {
                        Err(Some(writer.xid))
                    }
                    Some(_) => Ok(found.next),
                    None => Ok(Some(tuple)),
                })
            });
            match next {
                None | Some(Ok(None) | Err(None)) => return Ok(None),
                Some(Ok(Some(newer))) if newer != tuple => {
                    tuple = newer;
                    continue;
                }
                Some(Ok(Some(_))) => {}
                Some(Err(Some(xid))) => match patience {
                    Patience::Wait => {
                        self.wait_for_transaction(xid).await?;
                        continue;
                    }
                    Patience::Skip => return Ok(None),
                    Patience::Fail => return Err(not_obtained(table)),
                },
            }
            match self.lock_version(table, tuple, lock, patience, command).await? {
                Wanted::Locked(tuple, row) => return Ok(Some((tuple, row))),
                Wanted::Changed => {}
                Wanted::Skipped | Wanted::Gone => return Ok(None),
            }
        }
    }
}

fn not_obtained(table: &Table) -> SqlError {
    let told = format!("could not obtain lock on row in relation \"{}\"", table.name);
    SqlError::new("55P03", told)
}

pub(super) fn concurrent(what: &str) -> SqlError {
    SqlError::new("40001", format!("could not serialize access due to concurrent {what}"))
}

//! UPDATE and DELETE.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Run;
use super::row_lock::{Met, concurrent};
use super::scan::Joined;
use crate::catalogue::Table;
use crate::error::{SqlError, SqlResult};
use crate::evaluate::{Environment, Stop};
use crate::heap::{Member, Row, Tuple, TupleId};
use crate::observe::Observation;
use crate::plan::{Modify, Node};
use crate::session::Session;
use crate::sql::ast::{Patience, RowLock};
use crate::state::{out_of_memory, row_bytes, shown};
use crate::transaction::{Change, Undo};
use crate::value::Value;

impl Session {
    pub(super) async fn modify(
        &mut self,
        run: &Run,
        modify: &Modify,
    ) -> SqlResult<(Vec<Row>, usize)> {
        let found = self.find(run, &modify.select).await?;
        let (mut rows, mut count, mut done) = (Vec::new(), 0, BTreeSet::new());
        for joined in found {
            let Some(tuple) = joined.tuples.first().copied().flatten() else { continue };
            // A join may find a row more than once: only the first counts.
            if !done.insert(tuple) {
                continue;
            }
            if let Some(joined) = self.modify_row(run, modify, joined, tuple).await? {
                count += 1;
                if let Some(returning) = &modify.returning {
                    let row = self
                        .unit(|environment| environment.values(returning, run.frame(&joined.row)))
                        .await?;
                    rows.push(row);
                }
            }
        }
        self.check_size(&rows)?;
        Ok((rows, count))
    }

    /// The row as it was written, or `None` if it was not.
    async fn modify_row(
        &mut self,
        run: &Run,
        modify: &Modify,
        mut joined: Joined,
        mut tuple: TupleId,
    ) -> SqlResult<Option<Joined>> {
        let (table, columns) = (&modify.table, modify.table.columns.len());
        let mut queued: Option<(TupleId, RowLock)> = None;
        loop {
            let new = match modify.deletes {
                true => None,
                false => Some(self.new_row(run, modify, &joined).await?),
            };
            let lock = match &new {
                Some(new) if !changes_key(table, &joined.row, new) => RowLock::NoKeyUpdate,
                _ => RowLock::Update,
            };
            let command = run.snapshot.command;
            let written = self.environment(|environment| {
                match environment.meet(table.id, tuple, lock, command) {
                    Met::Free => Ok(environment.write(table, tuple, new.as_ref(), lock)),
                    met => Err(met),
                }
            });
            let met = match written {
                Ok(written) => {
                    let written = written?;
                    if let Some((queued, lock)) = queued.take() {
                        self.leave_queue(table, queued, lock);
                    }
                    if let Some((id, is_new_key)) = written
                        && is_new_key
                    {
                        self.add_keys(table, id, true).await?;
                    }
                    if let Some(new) = new {
                        joined.row[..columns].clone_from_slice(&new);
                    }
                    return Ok(Some(joined));
                }
                Err(met) => met,
            };
            if let Met::Held(xid) = met {
                if queued.is_none() {
                    self.enter_queue(table, tuple, lock, Patience::Wait).await?;
                    queued = Some((tuple, lock));
                }
                self.tell_row_awaited(table, tuple, xid);
                self.wait_for_transaction(xid).await?;
                continue;
            }
            if let Some((queued, lock)) = queued.take() {
                self.leave_queue(table, queued, lock);
            }
            let is_deleted = match met {
                Met::Replaced(_) => false,
                Met::Deleted => true,
                Met::Own => return Ok(None),
                _ => return Err(SqlError::new("XX000", "attempted to update invisible tuple")),
            };
            if self.is_repeatable() {
                return Err(concurrent(if is_deleted { "delete" } else { "update" }));
            }
            if is_deleted {
                return Ok(None);
            }
            let newest = self.lock_newest(table, tuple, lock, Patience::Wait, command).await?;
            let Some((newer, row)) = newest else { return Ok(None) };
            tuple = newer;
            joined.row[..columns].clone_from_slice(&row);
            joined.tuples[0] = Some(newer);
            let row = &joined.row;
            let fits = self.unit(|environment| environment.fits(run, &modify.select, row)).await?;
            if !fits {
                return Ok(None);
            }
        }
    }

    fn tell_row_awaited(&mut self, table: &Arc<Table>, tuple: TupleId, holder: u64) {
        self.environment(|environment| {
            let Some(found) = environment.state.tuple(table.id, tuple) else { return };
            let session = environment.state.session(environment.core.pid);
            environment.shared.observe_row(table, &found.row, |row| {
                let table = table.name.as_str();
                let told = Observation::RowAwaited { session, table, row, holder };
                environment.shared.observer.observe(&told);
            });
        });
    }

    async fn new_row(&mut self, run: &Run, modify: &Modify, joined: &Joined) -> SqlResult<Row> {
        let table = &modify.table;
        self.unit(|environment| {
            let mut row = joined.row[..table.columns.len()].to_vec();
            for (column, node) in &modify.set {
                row[*column] = environment.value(node, run.frame(&joined.row))?;
            }
            environment.check_row(table, &row, &modify.checks)?;
            Ok(row.into())
        })
        .await
    }
}

/// Whether a column of a unique index gets another value.
pub(super) fn changes_key(table: &Table, old: &[Value], new: &[Value]) -> bool {
    let unique = table.indexes.iter().filter(|index| index.unique);
    unique.flat_map(|index| &index.columns).any(|column| old[*column] != new[*column])
}

impl Environment<'_> {
    /// Refuses what the table does not take.
    pub(super) fn check_row(
        &mut self,
        table: &Table,
        row: &[Value],
        checks: &[(String, Node)],
    ) -> Result<(), Stop> {
        let failing = || {
            let shown: Vec<String> = row
                .iter()
                .map(|value| match value {
                    Value::Null => "null".to_owned(),
                    value => crate::value::text::write(value),
                })
                .collect();
            format!("Failing row contains ({}).", shown.join(", "))
        };
        for (column, value) in table.columns.iter().zip(row) {
            if column.not_null && value.is_null() {
                let told = format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                );
                let error = SqlError::new("23502", told).detail(failing());
                return Err(error.table(&table.name).column(&column.name).into());
            }
        }
        for (name, node) in checks {
            let frame = crate::evaluate::Frame { row, ..Default::default() };
            if self.value(node, frame)?.bool() == Some(false) {
                let told = format!(
                    "new row for relation \"{}\" violates check constraint \"{name}\"",
                    table.name
                );
                let error = SqlError::new("23514", told).detail(failing());
                return Err(error.table(&table.name).constraint(name).into());
            }
        }
        if self.state.memory > self.shared.settings.memory_bytes {
            // As autovacuum would have: what is deleted makes room.
            let tables: Vec<_> = self.state.heaps.keys().copied().collect();
            tables.into_iter().for_each(|table| self.state.clean(table, true));
            self.state.memory = self.state.heaps.values().map(|heap| heap.bytes()).sum();
            if self.state.memory > self.shared.settings.memory_bytes {
                return Err(out_of_memory().into());
            }
        }
        Ok(())
    }

    /// Replaces or deletes a version that nobody else holds. Gives the new version, and
    /// whether its key is another.
    pub(super) fn write(
        &mut self,
        table: &Arc<Table>,
        tuple: TupleId,
        new: Option<&Row>,
        lock: RowLock,
    ) -> SqlResult<Option<(TupleId, bool)>> {
        let xid = self.core.xid(self.shared, self.state);
        let pid = self.core.pid;
        let Some(transaction) = &mut self.core.transaction else { return Ok(None) };
        let command = transaction.command;
        let running = &self.state.running;
        let heap = self.state.heaps.entry(table.id).or_default();
        let id = heap.draw_id();
        let Some(old) = heap.get_mut(tuple) else { return Ok(None) };
        let old_row = old.row.clone();
        // Those who share the key keep their lock, on the new version too.
        let kept: Vec<Member> = old
            .members
            .iter()
            .copied()
            .filter(|member| !member.writes && running.contains(member.xid))
            .collect();
        old.members.clone_from(&kept);
        // As `compute_new_xmax_infomask` does: a row that its writer had locked FOR UPDATE is, to
        // whoever comes later, one whose key may be another.
        let had = kept.iter().filter(|member| member.xid == xid).map(|member| member.lock);
        let strongest = had.fold(lock, RowLock::max);
        old.members.push(Member { xid, lock: strongest, writes: true });
        old.cmax = command;
        old.next = new.map(|_| id);
        heap.dead += 1;
        let is_new_key = lock == RowLock::Update;
        if let Some(new) = new {
            let written = Tuple {
                row: new.clone(),
                xmin: xid,
                cmin: command,
                members: kept.into_iter().filter(|member| member.xid != xid).collect(),
                cmax: 0,
                next: None,
            };
            match is_new_key {
                true => heap.insert_without_keys(id, written),
                false => heap.insert(id, written),
            }
            self.state.memory += row_bytes(new);
            let row = new.to_vec();
            transaction.level().changes.push(Change::Update {
                table: table.id,
                old: tuple,
                tuple: id,
                row,
            });
            transaction.level().undo.push(Undo::Inserted { table: table.id, tuple: id });
        } else {
            transaction.level().changes.push(Change::Delete { table: table.id, tuple });
        }
        transaction.level().undo.push(Undo::Written { table: table.id, tuple, xid });
        if self.shared.is_observed(table) {
            self.tell_locked(table, tuple, lock, xid);
            let (session, name) = (self.state.session(pid), table.name.as_str());
            let old = shown(table, &old_row);
            match new {
                Some(new) => {
                    let new = shown(table, new);
                    let (old, new) = (old.as_slice(), new.as_slice());
                    let told = Observation::Updated { session, xid, table: name, old, new };
                    self.shared.observer.observe(&told);
                }
                None => {
                    let told = Observation::Deleted { session, xid, table: name, row: &old };
                    self.shared.observer.observe(&told);
                }
            }
        }
        Ok(new.map(|_| (id, is_new_key)))
    }
}

//! INSERT, and the uniqueness that every writer of keys must keep.

use std::sync::Arc;

use super::Run;
use super::modify::changes_key;
use super::row_lock::{Met, concurrent};
use crate::catalogue::{Index, Table};
use crate::error::{SqlError, SqlResult};
use crate::evaluate::Environment;
use crate::heap::{Row, Tuple, TupleId};
use crate::observe::Observation;
use crate::plan::{Conflict, Insert, Rows};
use crate::session::Session;
use crate::sql::ast::{Patience, RowLock};
use crate::state::{row_bytes, shown};
use crate::transaction::{Change, Undo, Xid};
use crate::value::{Value, text};

/// Whether a key is free.
enum Key {
    Free,
    /// This version has it.
    Taken(TupleId),
    /// This transaction decides whether it is.
    Undecided(Xid),
}

/// What became of a row to be inserted.
enum Inserted {
    /// As this version; or the one that was there, updated.
    Row(Row),
    Nothing,
}

fn key_of(index: &Index, row: &[Value]) -> Vec<Value> {
    index.columns.iter().map(|column| row[*column].clone()).collect()
}

/// The refusal of a key that is taken.
pub(super) fn duplicate(table: &Table, index: &Index, row: &[Value]) -> SqlError {
    let names: Vec<&str> =
        index.columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
    let values: Vec<String> = key_of(index, row).iter().map(text::write).collect();
    let (name, names, values) = (&index.name, names.join(", "), values.join(", "));
    let told = format!("duplicate key value violates unique constraint \"{name}\"");
    SqlError::new("23505", told)
        .detail(format!("Key ({names})=({values}) already exists."))
        .table(&table.name)
        .constraint(name)
}

impl Environment<'_> {
    fn look_at_key(
        &self,
        table: &Table,
        index: &Index,
        row: &[Value],
        own: Option<TupleId>,
    ) -> Key {
        let key = key_of(index, row);
        if !index.unique || key.iter().any(Value::is_null) {
            return Key::Free;
        }
        let Some(heap) = self.state.heaps.get(&table.id) else { return Key::Free };
        let is_running = |xid: Xid| !self.core.is_mine(xid) && self.state.running.contains(xid);
        for id in heap.with_key(index.id, &key) {
            if Some(id) == own {
                continue;
            }
            let Some(tuple) = heap.get(id) else { continue };
            if is_running(tuple.xmin) {
                return Key::Undecided(tuple.xmin);
            }
            match tuple.writer() {
                None => return Key::Taken(id),
                Some(writer) if is_running(writer.xid) => return Key::Undecided(writer.xid),
                Some(_) => {}
            }
        }
        Key::Free
    }

    /// Writes a version without its keys.
    fn add_version(&mut self, table: &Arc<Table>, row: &Row) -> TupleId {
        let xid = self.core.xid(self.shared, self.state);
        let Some(transaction) = &mut self.core.transaction else { return 0 };
        let (cmin, members) = (transaction.command, Vec::new());
        let heap = self.state.heaps.entry(table.id).or_default();
        let id = heap.draw_id();
        let tuple = Tuple { row: row.clone(), xmin: xid, cmin, members, cmax: 0, next: None };
        heap.insert_without_keys(id, tuple);
        self.state.memory += row_bytes(row);
        let level = transaction.level();
        let change = Change::Insert { table: table.id, tuple: id, row: row.to_vec() };
        level.changes.push(change);
        level.undo.push(Undo::Inserted { table: table.id, tuple: id });
        id
    }

    fn tell_inserted(&self, table: &Table, row: &Row) {
        if !self.shared.is_observed(table) {
            return;
        }
        let xid = self.core.transaction.as_ref().and_then(|one| one.levels.last()?.xid);
        let (session, name) = (self.state.session(self.core.pid), table.name.as_str());
        let row = shown(table, row);
        let told = Observation::Inserted { session, xid: xid.unwrap_or(0), table: name, row: &row };
        self.shared.observer.observe(&told);
    }
}

impl Session {
    pub(super) async fn insert(
        &mut self,
        run: &Run,
        insert: &Insert,
    ) -> SqlResult<(Vec<Row>, usize)> {
        let table = &insert.table;
        let sources: Vec<Row> = match &insert.rows {
            Rows::Values(rows) => vec![Vec::new().into(); rows.len()],
            Rows::Query(select, _) => Box::pin(self.select(run, select)).await?,
        };
        let (mut given, mut count) = (Vec::new(), 0);
        for (index, source) in sources.iter().enumerate() {
            let nodes = match &insert.rows {
                Rows::Values(rows) => &rows[index],
                Rows::Query(_, nodes) => nodes,
            };
            let row = self
                .unit(|environment| {
                    let row = environment.values(nodes, run.frame(source))?;
                    environment.check_row(table, &row, &insert.checks)?;
                    Ok(row)
                })
                .await?;
            let inserted = match &insert.conflict {
                None => {
                    let id = self.environment(|environment| environment.add_version(table, &row));
                    self.add_keys(table, id, false).await?;
                    Inserted::Row(row)
                }
                Some(conflict) => self.insert_or(run, insert, conflict, row).await?,
            };
            let Inserted::Row(row) = inserted else { continue };
            count += 1;
            if let Some(returning) = &insert.returning {
                let row =
                    self.unit(|environment| environment.values(returning, run.frame(&row))).await?;
                given.push(row);
            }
        }
        self.check_size(&given)?;
        Ok((given, count))
    }

    /// Gives a version its keys, one index after the other, waiting for whoever decides.
    pub(super) async fn add_keys(
        &mut self,
        table: &Arc<Table>,
        id: TupleId,
        is_update: bool,
    ) -> SqlResult<()> {
        for index in &table.indexes {
            loop {
                let undecided = self.environment(|environment| {
                    let Some(tuple) = environment.state.tuple(table.id, id) else {
                        return Ok(None);
                    };
                    let row = tuple.row.clone();
                    match environment.look_at_key(table, index, &row, Some(id)) {
                        Key::Free => {
                            environment.state.heap(table.id).add_key(index.id, id);
                            Ok(None)
                        }
                        Key::Taken(_) => Err(duplicate(table, index, &row)),
                        Key::Undecided(xid) => Ok(Some(xid)),
                    }
                })?;
                match undecided {
                    None => break,
                    Some(xid) => self.wait_for_transaction(xid).await?,
                }
            }
        }
        if !is_update {
            self.environment(|environment| {
                if let Some(tuple) = environment.state.tuple(table.id, id) {
                    let row = tuple.row.clone();
                    environment.tell_inserted(table, &row);
                }
            });
        }
        Ok(())
    }

    /// INSERT … ON CONFLICT.
    async fn insert_or(
        &mut self,
        run: &Run,
        insert: &Insert,
        conflict: &Conflict,
        row: Row,
    ) -> SqlResult<Inserted> {
        let table = &insert.table;
        let arbiters: Vec<&Index> =
            table.indexes.iter().filter(|index| conflict.arbiters.contains(&index.id)).collect();
        loop {
            let found = self.environment(|environment| {
                for index in &arbiters {
                    match environment.look_at_key(table, index, &row, None) {
                        Key::Free => {}
                        other => return other,
                    }
                }
                Key::Free
            });
            match found {
                Key::Undecided(xid) => self.wait_for_transaction(xid).await?,
                Key::Taken(tuple) => {
                    if conflict.update.is_none() {
                        self.must_see(run, table, tuple)?;
                        return Ok(Inserted::Nothing);
                    }
                    if let Some(done) =
                        self.update_instead(run, insert, conflict, tuple, &row).await?
                    {
                        return Ok(done);
                    }
                }
                Key::Free => {
                    let id = self.environment(|environment| {
                        let id = environment.add_version(table, &row);
                        for index in &arbiters {
                            environment.state.heap(table.id).add_key(index.id, id);
                        }
                        id
                    });
                    self.add_keys(table, id, false).await?;
                    return Ok(Inserted::Row(row));
                }
            }
        }
    }

    /// REPEATABLE READ: what is in the way must be there in its snapshot.
    fn must_see(&mut self, run: &Run, table: &Table, tuple: TupleId) -> SqlResult<()> {
        if !self.is_repeatable() {
            return Ok(());
        }
        let is_visible = self.environment(|environment| {
            let none = std::collections::BTreeSet::new();
            let mine = environment.core.transaction.as_ref().map_or(&none, |one| &one.mine);
            let found = environment.state.tuple(table.id, tuple);
            found.is_some_and(|found| {
                run.snapshot.is_visible(found, mine) || mine.contains(&found.xmin)
            })
        });
        if is_visible { Ok(()) } else { Err(concurrent("update")) }
    }

    /// DO UPDATE. `None`: the row in the way has changed, begin again.
    async fn update_instead(
        &mut self,
        run: &Run,
        insert: &Insert,
        conflict: &Conflict,
        tuple: TupleId,
        row: &Row,
    ) -> SqlResult<Option<Inserted>> {
        let (table, Some((set, filter))) = (&insert.table, &conflict.update) else {
            return Ok(Some(Inserted::Nothing));
        };
        let command = run.snapshot.command;
        let columns: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
        let is_key = table
            .indexes
            .iter()
            .filter(|index| index.unique)
            .any(|index| index.columns.iter().any(|column| columns.contains(column)));
        let lock = if is_key { RowLock::Update } else { RowLock::NoKeyUpdate };
        let mut is_queued = false;
        let met = loop {
            let met = self.environment(|environment| {
                let met = environment.meet(table.id, tuple, lock, command);
                if met == Met::Free {
                    environment.mark_locked(table, tuple, lock);
                }
                met
            });
            let Met::Held(xid) = met else { break met };
            if !is_queued {
                self.enter_queue(table, tuple, lock, Patience::Wait).await?;
                is_queued = true;
            }
            self.wait_for_transaction(xid).await?;
        };
        if is_queued {
            self.leave_queue(table, tuple, lock);
        }
        match met {
            Met::Free => {}
            Met::Invisible => {
                let is_own = self.environment(|environment| {
                    let found = environment.state.tuple(table.id, tuple);
                    found.is_some_and(|found| environment.core.is_mine(found.xmin))
                });
                if is_own {
                    let told = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                    let hint = "Ensure that no rows proposed for insertion within the same command \
                                have duplicate constrained values.";
                    return Err(SqlError::new("21000", told).hint(hint));
                }
                return Ok(None);
            }
            _ if self.is_repeatable() => return Err(concurrent("update")),
            _ => return Ok(None),
        }
        self.must_see(run, table, tuple)?;
        let Some(old) = self.environment(|environment| {
            environment.state.tuple(table.id, tuple).map(|found| found.row.clone())
        }) else {
            return Ok(None);
        };
        let both: Vec<Value> = old.iter().chain(row.iter()).cloned().collect();
        let new = self
            .unit(|environment| {
                if let Some(filter) = filter
                    && !environment.is_true(filter, run.frame(&both))?
                {
                    return Ok(None);
                }
                let mut new = old.to_vec();
                for (column, node) in set {
                    new[*column] = environment.value(node, run.frame(&both))?;
                }
                environment.check_row(table, &new, &insert.checks)?;
                Ok(Some(Row::from(new)))
            })
            .await?;
        let Some(new) = new else { return Ok(Some(Inserted::Nothing)) };
        let lock = match changes_key(table, &old, &new) {
            true => RowLock::Update,
            false => RowLock::NoKeyUpdate,
        };
        let written =
            self.environment(|environment| environment.write(table, tuple, Some(&new), lock))?;
        if let Some((id, true)) = written {
            self.add_keys(table, id, true).await?;
        }
        Ok(Some(Inserted::Row(new)))
    }
}

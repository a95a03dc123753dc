//! Running plans.
//!
//! A statement finds its rows at one instant, by its snapshot; then it goes through them
//! one by one, and may wait at each, as PostgreSQL's executor does: what it meets by then
//! is looked at again ([`row_lock`]).

mod define;
mod insert;
mod modify;
mod row_lock;
mod scan;
mod select;
mod view;

use super::error::{SqlError, SqlResult};
use super::evaluate::{Environment, Evaluated, Frame, Stop};
use super::heap::Row;
use super::locks::{Acquired, Scope, Tag};
use super::plan::{Action, Node, Plan};
use super::session::{Outcome, Session};
use super::sql::ast::Isolation;
use super::transaction::Snapshot;
use super::value::Value;

/// A statement under way.
pub(crate) struct Run {
    pub(crate) parameters: Vec<Value>,
    pub(crate) earlier: Vec<Vec<Row>>,
    pub(crate) snapshot: Snapshot,
}

impl Run {
    pub(crate) fn frame<'a>(&'a self, row: &'a [Value]) -> Frame<'a> {
        let (parameters, earlier) = (self.parameters.as_slice(), self.earlier.as_slice());
        Frame { row, parameters, earlier, ..Frame::default() }
    }
}

impl Session {
    /// Evaluates something, waiting for what its functions need.
    pub(crate) async fn unit<T>(
        &mut self,
        mut evaluate: impl FnMut(&mut Environment<'_>) -> Evaluated<T>,
    ) -> SqlResult<T> {
        self.core.memo.clear();
        loop {
            self.core.memo_at = 0;
            let stop = {
                let shared = self.shared.clone();
                let mut state = shared.lock();
                let core = &mut self.core;
                match evaluate(&mut Environment { shared: &shared, state: &mut state, core }) {
                    Ok(value) => return Ok(value),
                    Err(stop) => stop,
                }
            };
            match stop {
                Stop::Error(error) => return Err(error),
                Stop::Wait(need) => {
                    let value = self.satisfy(need).await?;
                    self.core.memo.push(value);
                }
            }
        }
    }

    /// Evaluates something for each of many.
    pub(crate) async fn each<T, U>(
        &mut self,
        all: &[T],
        mut evaluate: impl FnMut(&mut Environment<'_>, &T) -> Evaluated<U>,
    ) -> SqlResult<Vec<U>> {
        let mut results = Vec::with_capacity(all.len());
        self.unit(|environment| {
            while let Some(one) = all.get(results.len()) {
                results.push(evaluate(environment, one)?);
                environment.core.memo.clear();
                environment.core.memo_at = 0;
            }
            Ok(())
        })
        .await?;
        Ok(results)
    }

    /// Locks the tables of a plan. False: it is of another version of the catalogue, and
    /// must be made anew.
    pub(crate) async fn lock_tables(&mut self, plan: &Plan) -> SqlResult<bool> {
        if plan.writes {
            // Before its tables are waited for.
            self.core.may_change(command_name(plan))?;
        }
        let scope = Scope::Transaction(self.core.depth());
        for (table, mode) in &plan.tables {
            self.lock(Tag::Relation(*table), *mode, scope).await?;
        }
        Ok(self.shared.lock().catalogue.version == plan.version)
    }

    /// Runs a plan whose tables are locked.
    pub(crate) async fn execute(
        &mut self,
        plan: &Plan,
        parameters: Vec<Value>,
    ) -> SqlResult<Outcome> {
        if plan.writes {
            self.core.may_write(command_name(plan))?;
        }
        self.core.made_bytes = 0;
        if let Action::LockTables { tables, mode, nowait } = &plan.action {
            // Without a snapshot, so that a transaction sees what was there once it had its lock.
            self.lock_named(tables, *mode, *nowait).await?;
            let (fields, rows, tag) = (None, Vec::new(), plan.tag.to_owned());
            return Ok(Outcome { fields, rows, tag, counts: false });
        }
        let snapshot = self.take_snapshot();
        let mut run = Run { parameters, earlier: Vec::new(), snapshot };
        for earlier in &plan.earlier {
            let rows = self.action(&mut run, &earlier.plan.action).await?.0;
            if earlier.is_scalar && rows.len() > 1 {
                let told = "more than one row returned by a subquery used as an expression";
                return Err(SqlError::new("21000", told));
            }
            run.earlier.push(rows);
        }
        let (rows, count) = self.action(&mut run, &plan.action).await?;
        if let Some(transaction) = &mut self.core.transaction {
            transaction.command += 1;
        }
        self.forget_horizon();
        let is_query = matches!(plan.action, Action::Select(_));
        let counts =
            matches!(plan.action, Action::Select(_) | Action::Insert(_) | Action::Modify(_));
        let tag = match counts {
            true => format!("{} {}", plan.tag, if is_query { rows.len() } else { count }),
            false => plan.tag.to_owned(),
        };
        Ok(Outcome { fields: plan.fields.clone(), rows, tag, counts: is_query })
    }

    /// Rows given and rows changed.
    async fn action(&mut self, run: &mut Run, action: &Action) -> SqlResult<(Vec<Row>, usize)> {
        match action {
            Action::Select(select) => {
                let rows = self.select(run, select).await?;
                let count = rows.len();
                Ok((rows, count))
            }
            Action::Insert(insert) => self.insert(run, insert).await,
            Action::Modify(modify) => self.modify(run, modify).await,
            Action::CreateTable(table) => self.create_table(table).await.map(|()| (Vec::new(), 0)),
            Action::CreateIndex { table, index, if_not_exists } => {
                let made = self.create_index(*table, index, *if_not_exists).await;
                made.map(|()| (Vec::new(), 0))
            }
            Action::Drop { kind, relations } => {
                self.drop_relations(*kind, relations)?;
                Ok((Vec::new(), 0))
            }
            Action::Truncate { tables, restart } => {
                self.truncate(tables, *restart)?;
                Ok((Vec::new(), 0))
            }
            Action::Nothing => Ok((Vec::new(), 0)),
            Action::LockTables { .. } | Action::Utility(_) => {
                Err(SqlError::new("XX000", "not a plan of rows"))
            }
        }
    }

    async fn lock_named(&mut self, tables: &[u32], mode: u8, nowait: bool) -> SqlResult<()> {
        self.core.may_change("LOCK TABLE")?;
        let scope = Scope::Transaction(self.core.depth());
        if mode > super::locks::ROW_EXCLUSIVE {
            let is_standby = self.core.is_standby;
            if is_standby {
                let told = "cannot acquire lock mode higher than RowExclusiveLock during recovery";
                return Err(SqlError::new("55000", told));
            }
        }
        for table in tables {
            let tag = Tag::Relation(*table);
            if !nowait {
                self.lock(tag, mode, scope).await?;
                continue;
            }
            let mut state = self.shared.lock();
            if state.locks.acquire(self.core.pid, tag, mode, scope, false) == Acquired::Busy {
                let name = state.catalogue.table(*table).map_or("", |table| &table.name);
                let told = format!("could not obtain lock on relation \"{name}\"");
                return Err(SqlError::new("55P03", told));
            }
        }
        Ok(())
    }

    /// The snapshot of a statement; of REPEATABLE READ that of its transaction.
    pub(crate) fn take_snapshot(&mut self) -> Snapshot {
        let pid = self.core.pid;
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let fresh = state.running.snapshot();
        let Some(transaction) = &mut self.core.transaction else { return fresh };
        let mut snapshot = match transaction.isolation {
            Isolation::RepeatableRead | Isolation::Serializable => {
                transaction.snapshot.get_or_insert(fresh).clone()
            }
            _ => fresh,
        };
        snapshot.command = transaction.command;
        if let Some(backend) = state.backends.get_mut(&pid) {
            backend.horizon = Some(snapshot.oldest());
        }
        snapshot
    }

    /// The statement looks at nothing any more.
    pub(crate) fn forget_horizon(&mut self) {
        let kept = self.core.transaction.as_ref().and_then(|one| one.snapshot.as_ref());
        let kept = kept.map(Snapshot::oldest);
        if let Some(backend) = self.shared.lock().backends.get_mut(&self.core.pid) {
            backend.horizon = kept;
        }
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        let transaction = self.core.transaction.as_ref();
        transaction.is_some_and(|one| one.isolation == Isolation::RepeatableRead)
    }

    /// A whole number of LIMIT or OFFSET; `None` is no limit.
    pub(crate) async fn count(
        &mut self,
        run: &Run,
        node: Option<&Node>,
        clause: &str,
    ) -> SqlResult<Option<usize>> {
        let Some(node) = node else { return Ok(None) };
        let value = self.unit(|environment| environment.value(node, run.frame(&[]))).await?;
        match value {
            Value::Int(number) if number < 0 => {
                let code = if clause == "LIMIT" { "2201W" } else { "2201X" };
                Err(SqlError::new(code, format!("{clause} must not be negative")))
            }
            Value::Int(number) => Ok(Some(number as usize)),
            _ => Ok(None),
        }
    }
}

fn command_name(plan: &Plan) -> &'static str {
    match plan.tag {
        "INSERT 0" => "INSERT",
        "SELECT" => "SELECT FOR UPDATE",
        tag => tag,
    }
}

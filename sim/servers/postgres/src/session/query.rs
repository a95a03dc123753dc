//! Statements of both protocols: planned, executed, told.

use std::sync::Arc;
use std::time::Duration;

use super::block::flush;
use super::message::{deadline, missing_portal, missing_statement};
use super::{Outcome, Prepared, Session};
use crate::codec;
use crate::error::{SqlError, SqlResult};
use crate::evaluate::Environment;
use crate::plan::{Action, Plan, analyse, constant};
use crate::sql::ast::{Modes, Parsed, SetValue, Statement};
use crate::sql::parse;
use crate::transaction::{Block, Level};
use crate::value::{Type, Value};

/// Savepoints of one transaction.
const MOST_LEVELS: usize = 1_000;

fn failed() -> SqlError {
    let told = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new("25P02", told)
}

impl Session {
    /// A statement begins: its clock, its text in `pg_stat_activity`.
    pub(super) fn begin_statement(&mut self, text: Option<&Arc<str>>) {
        self.core.statement_began = self.shared.wall();
        self.core.is_standby = self.shared.lock().is_standby;
        if self.core.statement_deadline.is_none() {
            let limit = self.core.parameters.time("statement_timeout");
            self.core.statement_deadline = deadline(self.shared.host.monotonic(), limit);
        }
        self.set_state("active", text);
    }

    /// In a failed transaction only its end is taken.
    pub(super) fn check_failed(&self, statement: &Statement) -> SqlResult<()> {
        let ends = matches!(
            statement,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_)
        );
        if self.core.block == Block::Failed && !ends { Err(failed()) } else { Ok(()) }
    }

    /// A transaction for a statement, unless it is one that makes its own.
    pub(super) fn ensure_transaction_for(&mut self, _statement: &Statement) {
        self.ensure_transaction();
    }

    pub(super) async fn simple(&mut self, text: &Arc<str>) -> SqlResult<()> {
        self.core.statement_deadline = None;
        self.begin_statement(Some(text));
        self.prepared.remove("");
        self.portals.remove("");
        let statements = parse(text)?;
        if statements.is_empty() {
            codec::message(&mut self.output, b'I', |_| {});
        }
        let count = statements.len();
        for (index, parsed) in statements.into_iter().enumerate() {
            let is_last = index + 1 == count;
            self.check_failed(&parsed.statement)?;
            self.ensure_transaction_for(&parsed.statement);
            if count > 1 && self.core.block == Block::None {
                self.core.block = Block::Implicit;
            }
            let parsed = Arc::new(parsed);
            let outcome = self.run_parsed(&parsed, &[]).await?;
            if let Some(fields) = &outcome.fields {
                self.tell_fields(Some(fields), &[]);
                for row in &outcome.rows {
                    self.tell_row(fields, row, &[]);
                    self.send_if_much().await?;
                }
            }
            // The last is committed before the client is told that it is done.
            let ends =
                is_last && self.core.block != Block::Explicit && self.core.block != Block::Failed;
            if ends || self.core.block == Block::None {
                self.commit().await?;
            }
            self.tell_notices();
            self.complete(&outcome.tag);
            self.portals.clear();
        }
        if self.core.block == Block::Implicit {
            self.commit().await?;
        }
        self.core.statement_deadline = None;
        self.tell_notices();
        self.ready();
        Ok(())
    }

    /// A plan that is right for the catalogue as it is, its tables locked.
    pub(super) async fn plan(
        &mut self,
        parsed: &Arc<Parsed>,
        given: &[Option<Type>],
    ) -> SqlResult<Arc<Plan>> {
        if self.is_repeatable()
            && matches!(
                parsed.statement,
                Statement::Select(_)
                    | Statement::Insert(_)
                    | Statement::Update(_)
                    | Statement::Delete(_)
            )
        {
            // Before its tables are waited for.
            self.take_snapshot();
        }
        loop {
            let plan = {
                let state = self.shared.lock();
                analyse(&state.catalogue, &|xid| self.core.is_mine(xid), parsed, given)?
            };
            if self.lock_tables(&plan).await? {
                return Ok(Arc::new(plan));
            }
        }
    }

    async fn run_parsed(
        &mut self,
        parsed: &Arc<Parsed>,
        given: &[Option<Type>],
    ) -> SqlResult<Outcome> {
        self.charge(&parsed.statement).await;
        let plan = self.plan(parsed, given).await?;
        self.run_plan(&plan, Vec::new()).await
    }

    async fn run_plan(&mut self, plan: &Plan, parameters: Vec<Value>) -> SqlResult<Outcome> {
        self.core.notices.extend(plan.notices.iter().cloned());
        match &plan.action {
            Action::LockTables { .. } if self.core.block == Block::None => {
                let told = "LOCK TABLE can only be used in transaction blocks";
                Err(SqlError::new("25P01", told))
            }
            Action::Utility(parsed) => Box::pin(self.utility(&parsed.clone(), plan)).await,
            _ => self.execute(plan, parameters).await,
        }
    }

    /// The work of a processor for a statement.
    async fn charge(&mut self, statement: &Statement) {
        let costs = self.shared.settings.costs;
        let cost = match statement {
            Statement::Select(select) if select.locking.is_empty() && !select.from.is_empty() => {
                costs.read
            }
            Statement::Select(select) if select.from.is_empty() => costs.other,
            Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_) => costs.write,
            _ => costs.other,
        };
        if cost.is_zero() || self.core.visits.is_some() {
            return;
        }
        let now = self.shared.host.monotonic();
        let until = {
            let mut state = self.shared.lock();
            state.processors.resize(costs.cores.max(1), Duration::ZERO);
            // The processor that is free first.
            let Some(free) = state.processors.iter_mut().min() else { return };
            *free = (*free).max(now) + cost;
            *free
        };
        self.shared.host.sleep(until.saturating_sub(now)).await;
    }

    pub(super) async fn execute_portal(
        &mut self,
        name: &str,
        most: u32,
        statement: &mut Arc<str>,
    ) -> SqlResult<()> {
        let Some(portal) = self.portals.get(name) else { return Err(missing_portal(name)) };
        let Some(parsed) = portal.parsed.clone() else {
            codec::message(&mut self.output, b'I', |_| {});
            return Ok(());
        };
        *statement = parsed.text.clone();
        if portal.outcome.is_none() {
            let (given, parameters) = (portal.given.clone(), portal.parameters.clone());
            let old = portal.plan.clone();
            self.begin_statement(Some(&parsed.text.clone()));
            self.check_failed(&parsed.statement)?;
            self.ensure_transaction_for(&parsed.statement);
            self.charge(&parsed.statement).await;
            let plan = self.current_plan(&parsed, &given, old).await?;
            let outcome = self.run_plan(&plan, parameters).await?;
            let Some(portal) = self.portals.get_mut(name) else {
                // DEALLOCATE, DISCARD and the like have taken it away.
                self.tell_notices();
                self.complete(&outcome.tag);
                return Ok(());
            };
            portal.outcome = Some(outcome);
        }
        self.tell_notices();
        self.send_portal(name, most).await
    }

    /// The prepared plan, made anew if the catalogue has changed.
    async fn current_plan(
        &mut self,
        parsed: &Arc<Parsed>,
        given: &[Option<Type>],
        old: Option<Arc<Plan>>,
    ) -> SqlResult<Arc<Plan>> {
        if let Some(old) = &old
            && self.shared.lock().catalogue.version == old.version
            && self.lock_tables(old).await?
        {
            return Ok(old.clone());
        }
        let given: Vec<Option<Type>> = match &old {
            Some(old) => old.parameters.iter().copied().map(Some).collect(),
            None => given.to_vec(),
        };
        let plan = self.plan(parsed, &given).await?;
        if let Some(old) = old
            && old
                .fields
                .as_ref()
                .map(|fields| fields.iter().map(|one| one.data_type).collect::<Vec<_>>())
                != plan
                    .fields
                    .as_ref()
                    .map(|fields| fields.iter().map(|one| one.data_type).collect())
        {
            return Err(SqlError::new("0A000", "cached plan must not change result type"));
        }
        Ok(plan)
    }

    async fn send_portal(&mut self, name: &str, most: u32) -> SqlResult<()> {
        let Some(mut portal) = self.portals.remove(name) else { return Err(missing_portal(name)) };
        let Some(outcome) = &portal.outcome else { return Err(missing_portal(name)) };
        let rows = outcome.rows.len();
        let until = match most {
            0 => rows,
            most => rows.min(portal.sent.saturating_add(most as usize)),
        };
        let fields = outcome.fields.clone().unwrap_or_default();
        let sent = until - portal.sent;
        for row in &outcome.rows[portal.sent..until] {
            self.tell_row(&fields, row, &portal.formats);
            self.send_if_much().await?;
        }
        // As many as were asked for: whether there are more is told by the next.
        let is_full = most > 0 && sent == most as usize && outcome.fields.is_some();
        if is_full {
            codec::message(&mut self.output, b's', |_| {});
        } else {
            let tag = match outcome.counts {
                true => format!("SELECT {sent}"),
                false => outcome.tag.clone(),
            };
            self.complete(&tag);
        }
        portal.sent = until;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Statements that are no queries.
    async fn utility(&mut self, parsed: &Arc<Parsed>, plan: &Plan) -> SqlResult<Outcome> {
        let done = |tag: &str| Ok(Outcome { tag: tag.to_owned(), ..Outcome::default() });
        match &parsed.statement {
            Statement::Begin { modes, is_start } => {
                self.begin(modes)?;
                done(if *is_start { "START TRANSACTION" } else { "BEGIN" })
            }
            Statement::Commit { chain } => self.end(true, *chain).await,
            Statement::Rollback { chain } => self.end(false, *chain).await,
            Statement::Savepoint(name) => {
                self.must_be_in_block("SAVEPOINT")?;
                self.savepoint(name)?;
                done("SAVEPOINT")
            }
            Statement::Release(name) => {
                self.must_be_in_block("RELEASE SAVEPOINT")?;
                let shared = self.shared.clone();
                self.core.release_savepoint(&mut shared.lock(), name)?;
                done("RELEASE")
            }
            Statement::RollbackTo(name) => {
                self.must_be_in_block("ROLLBACK TO SAVEPOINT")?;
                let shared = self.shared.clone();
                self.core.rollback_to(&shared, &mut shared.lock(), name)?;
                done("ROLLBACK")
            }
            Statement::CreateSequence { name, if_not_exists, options } => {
                self.create_sequence(name, *if_not_exists, options)?;
                done("CREATE SEQUENCE")
            }
            Statement::Set { local, name, value } => {
                self.set(*local, name, value)?;
                done("SET")
            }
            Statement::SetTransaction { modes, session } => {
                self.set_transaction(modes, *session)?;
                done("SET")
            }
            Statement::Show(name) => self.show(name, plan),
            Statement::Reset(name) => {
                self.reset(name.as_deref())?;
                done("RESET")
            }
            Statement::Prepare { name, types, statement } => {
                self.prepare(name, types, statement).await?;
                done("PREPARE")
            }
            Statement::Execute { name, arguments } => self.execute_prepared(name, arguments).await,
            Statement::Deallocate(None) => {
                self.prepared.clear();
                done("DEALLOCATE ALL")
            }
            Statement::Deallocate(Some(name)) => match self.prepared.remove(name) {
                Some(_) => done("DEALLOCATE"),
                None => Err(missing_statement(name)),
            },
            Statement::DiscardAll => {
                self.discard_all()?;
                done("DISCARD ALL")
            }
            Statement::Maintain(tag) => {
                self.maintain(tag).await?;
                done(tag)
            }
            Statement::Listen(channel) => {
                if let Some(backend) = self.shared.lock().backends.get_mut(&self.core.pid) {
                    backend.channels.insert(channel.clone());
                }
                done("LISTEN")
            }
            Statement::Unlisten(channel) => {
                if let Some(backend) = self.shared.lock().backends.get_mut(&self.core.pid) {
                    backend
                        .channels
                        .retain(|known| channel.as_ref().is_some_and(|one| one != known));
                }
                done("UNLISTEN")
            }
            Statement::Notify { channel, payload } => {
                self.core.notify(channel, payload)?;
                done("NOTIFY")
            }
            _ => Err(SqlError::new("XX000", "a statement without a way to run it")),
        }
    }

    fn must_be_in_block(&self, command: &str) -> SqlResult<()> {
        match self.core.block {
            Block::Explicit | Block::Failed => Ok(()),
            _ => {
                let told = format!("{command} can only be used in transaction blocks");
                Err(SqlError::new("25P01", told))
            }
        }
    }

    fn begin(&mut self, modes: &Modes) -> SqlResult<()> {
        if self.core.block == Block::Explicit {
            let told = "there is already a transaction in progress";
            self.core.notices.push(SqlError::warning("25001", told));
            return self.core.set_modes(modes);
        }
        self.core.set_modes(modes)?;
        self.core.block = Block::Explicit;
        Ok(())
    }

    /// COMMIT and ROLLBACK.
    async fn end(&mut self, commits: bool, chain: bool) -> SqlResult<Outcome> {
        let word = if commits { "COMMIT" } else { "ROLLBACK" };
        let outcome = |tag: &str| Ok(Outcome { tag: tag.to_owned(), ..Outcome::default() });
        if matches!(self.core.block, Block::None | Block::Implicit) {
            if chain {
                let told = format!("{word} AND CHAIN can only be used in transaction blocks");
                return Err(SqlError::new("25P01", told));
            }
            let told = "there is no transaction in progress";
            self.core.notices.push(SqlError::warning("25P01", told));
            if commits {
                self.commit().await?;
            } else {
                let shared = self.shared.clone();
                self.core.abort(&shared, &mut shared.lock());
            }
            return outcome(word);
        }
        let (isolation, read_only) = self
            .core
            .transaction
            .as_ref()
            .map_or((None, None), |one| (Some((0, one.isolation)), Some(one.read_only)));
        let succeeds = commits && self.core.block != Block::Failed;
        if succeeds {
            self.commit().await?;
        } else {
            let shared = self.shared.clone();
            self.core.abort(&shared, &mut shared.lock());
        }
        if chain {
            self.ensure_transaction();
            self.core.set_modes(&Modes { isolation, read_only })?;
            self.core.block = Block::Explicit;
        }
        outcome(if succeeds { "COMMIT" } else { "ROLLBACK" })
    }

    fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        let Some(transaction) = &mut self.core.transaction else { return Ok(()) };
        if transaction.levels.len() >= MOST_LEVELS {
            return Err(SqlError::new("54000", "too many nested savepoints"));
        }
        transaction.levels.push(Level { name: Some(name.to_owned()), ..Level::default() });
        Ok(())
    }

    fn set(&mut self, local: bool, name: &str, value: &SetValue) -> SqlResult<()> {
        if local && self.core.block == Block::None {
            let told = "SET LOCAL can only be used in transaction blocks";
            self.core.notices.push(SqlError::warning("25P01", told));
        }
        let value = match value {
            SetValue::Default => None,
            SetValue::Text(text) => Some(text.as_str()),
        };
        self.set_parameter(name, value, local)
    }

    fn set_parameter(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<()> {
        let shared = self.shared.clone();
        self.core.set_parameter(&shared, &mut shared.lock(), name, value, local)?;
        if name.to_ascii_lowercase().starts_with("tcp_") {
            self.apply_keepalive();
        }
        if name.eq_ignore_ascii_case("statement_timeout") {
            // It is for the statements that follow.
            self.core.statement_deadline = None;
        }
        Ok(())
    }

    fn set_transaction(&mut self, modes: &Modes, session: bool) -> SqlResult<()> {
        if session {
            if let Some((at, isolation)) = modes.isolation {
                use crate::sql::ast::Isolation;
                let name = match isolation {
                    Isolation::Serializable => {
                        return Err(super::block::no_serializable().at(at));
                    }
                    Isolation::RepeatableRead => "repeatable read",
                    Isolation::ReadCommitted => "read committed",
                    Isolation::ReadUncommitted => "read uncommitted",
                };
                self.set_parameter("default_transaction_isolation", Some(name), false)?;
            }
            if let Some(read_only) = modes.read_only {
                let value = if read_only { "on" } else { "off" };
                self.set_parameter("default_transaction_read_only", Some(value), false)?;
            }
            return Ok(());
        }
        if self.core.block == Block::None {
            let told = "SET TRANSACTION can only be used in transaction blocks";
            self.core.notices.push(SqlError::warning("25P01", told));
        }
        self.core.set_modes(modes)
    }

    fn show(&mut self, name: &str, plan: &Plan) -> SqlResult<Outcome> {
        if name == "all" {
            return Err(SqlError::new("0A000", "the simulated server does not have SHOW ALL")
                .hint("Read pg_settings."));
        }
        let value = self.core.show(name)?;
        let rows = vec![[Value::text(value)].into()];
        Ok(Outcome { fields: plan.fields.clone(), rows, tag: "SHOW".to_owned(), counts: false })
    }

    fn reset(&mut self, name: Option<&str>) -> SqlResult<()> {
        match name {
            Some(name) => self.set_parameter(name, None, false),
            None => {
                for name in self.core.parameters.names() {
                    // What cannot be set has nothing to be reset.
                    if !matches!(
                        name.as_str(),
                        "session_authorization" | "in_hot_standby" | "max_connections"
                    ) {
                        self.set_parameter(&name, None, false)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn discard_all(&mut self) -> SqlResult<()> {
        if self.core.block != Block::None {
            return Err(SqlError::new(
                "25001",
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        self.reset(None)?;
        self.prepared.clear();
        self.portals.clear();
        self.core.sequences.clear();
        self.core.last_sequence = None;
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if let Some(backend) = state.backends.get_mut(&self.core.pid) {
            backend.channels.clear();
        }
        let core = &mut self.core;
        Environment { shared: &shared, state: &mut state, core }.advisory_unlock_all();
        Ok(())
    }

    async fn maintain(&mut self, tag: &str) -> SqlResult<()> {
        self.core.may_change(tag)?;
        match tag {
            "CHECKPOINT" => {
                let shared = self.shared.clone();
                let end = shared.lock().wal.end();
                flush(&shared, end).await
            }
            "VACUUM" if self.core.block != Block::None => {
                Err(SqlError::new("25001", "VACUUM cannot run inside a transaction block"))
            }
            "VACUUM" => {
                self.forget_horizon();
                let mut state = self.shared.lock();
                let tables: Vec<_> = state.heaps.keys().copied().collect();
                tables.into_iter().for_each(|table| state.clean(table, true));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn prepare(
        &mut self,
        name: &str,
        types: &[crate::sql::ast::TypeName],
        statement: &Parsed,
    ) -> SqlResult<()> {
        if self.prepared.contains_key(name) {
            let told = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", told));
        }
        let mut given = Vec::new();
        for data_type in types {
            given.push(Some(Type::of_name(data_type)?));
        }
        let parsed = Arc::new(statement.clone());
        let plan = Some(self.plan(&parsed, &given).await?);
        let prepared = Prepared { parsed: Some(parsed), given, plan };
        self.keep_prepared(name.to_owned(), prepared)
    }

    async fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[crate::sql::ast::Expr],
    ) -> SqlResult<Outcome> {
        let Some(prepared) = self.prepared.get(name) else { return Err(missing_statement(name)) };
        let (parsed, given, old) =
            (prepared.parsed.clone(), prepared.given.clone(), prepared.plan.clone());
        let (Some(parsed), Some(old)) = (parsed, old) else { return Ok(Outcome::default()) };
        if arguments.len() != old.parameters.len() {
            let (wanted, given) = (old.parameters.len(), arguments.len());
            let told = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {wanted} parameters but got {given}.");
            return Err(SqlError::new("42601", told).detail(detail));
        }
        let mut nodes = Vec::new();
        for (argument, data_type) in arguments.iter().zip(&old.parameters) {
            nodes.push(constant(&self.shared.lock().catalogue, argument, *data_type)?);
        }
        let parameters =
            self.unit(|environment| environment.values(&nodes, Default::default())).await?.to_vec();
        self.check_failed(&parsed.statement)?;
        let plan = self.current_plan(&parsed, &given, Some(old)).await?;
        self.run_plan(&plan, parameters).await
    }
}

//! INSERT, UPDATE, DELETE.

use std::sync::Arc;

use super::analyse::Analyser;
use super::{Conflict, Field, Insert, Modify, Node, Reads, Rows, Select, Source, Typed};
use crate::catalogue::Table;
use crate::error::{SqlError, SqlResult};
use crate::locks::{ACCESS_SHARE, ROW_EXCLUSIVE};
use crate::sql::ast;
use crate::sql::ast::{Assignment, Expr, ExprKind, Joining, OnConflict, Output};
use crate::sql::parse;
use crate::value::Value;

impl Analyser<'_> {
    /// The expression that a definition keeps as text.
    pub(super) fn kept_expr(text: &str) -> SqlResult<Expr> {
        let statement: Arc<str> = format!("SELECT {text}").into();
        let mut parsed = parse(&statement)?;
        if let Some(ast::Parsed { statement: ast::Statement::Select(select), .. }) = parsed.pop()
            && let Some(Output::Expr { expr, .. }) = select.outputs.into_iter().next()
        {
            return Ok(expr);
        }
        Err(SqlError::new("XX000", format!("a definition cannot be read: {text}")))
    }

    /// What a column is when nothing is said.
    fn default_of(&mut self, table: &Table, column: usize) -> SqlResult<Node> {
        let column = &table.columns[column];
        let Some(text) = &column.default else { return Ok(Node::Constant(Value::Null)) };
        let expr = Self::kept_expr(text)?;
        let scope = std::mem::take(&mut self.scope);
        let node = self.assigned(&expr, column);
        self.scope = scope;
        node
    }

    pub(super) fn checks(&mut self, table: &Table) -> SqlResult<Vec<(String, Node)>> {
        let scope = std::mem::take(&mut self.scope);
        self.show(table, &table.name, &[]);
        let mut checks = Vec::new();
        for check in &table.checks {
            let expr = Self::kept_expr(&check.text)?;
            checks.push((check.name.clone(), self.condition(&expr, "CHECK")?));
        }
        self.scope = scope;
        Ok(checks)
    }

    pub(super) fn insert(
        &mut self,
        insert: &ast::Insert,
    ) -> SqlResult<(Insert, Option<Vec<Field>>)> {
        self.writes = true;
        self.with(&insert.with)?;
        let table = self.table(&insert.table, ROW_EXCLUSIVE)?;
        let columns = self.target_columns(&table, insert)?;
        let mut defaults = Vec::new();
        for column in 0..table.columns.len() {
            let is_given = columns.contains(&column) && insert.source.is_some();
            defaults.push(match is_given {
                true => Node::Constant(Value::Null),
                false => self.default_of(&table, column)?,
            });
        }
        let rows = match &insert.source {
            None => Rows::Values(vec![defaults]),
            Some(source) => match &source.values {
                Some(values) if source.limit.is_none() && source.order.is_empty() => {
                    let rows = self.value_rows(&table, insert, &columns, values, &defaults)?;
                    Rows::Values(rows)
                }
                _ => self.query_rows(&table, insert, &columns, source, defaults)?,
            },
        };
        let name = insert.alias.clone().unwrap_or_else(|| table.name.clone());
        let conflict = match &insert.on_conflict {
            None => None,
            Some(on_conflict) => Some(self.conflict(&table, &name, on_conflict)?),
        };
        self.scope.clear();
        self.show(&table, &name, &[]);
        let (returning, fields) = self.returning(&insert.returning)?;
        let checks = self.checks(&table)?;
        Ok((Insert { table, rows, conflict, checks, returning }, fields))
    }

    fn target_columns(&self, table: &Table, insert: &ast::Insert) -> SqlResult<Vec<usize>> {
        if insert.columns.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut columns = Vec::new();
        for (at, name) in &insert.columns {
            let column = self.column_of(table, name, *at)?;
            if columns.contains(&column) {
                let told = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new("42701", told).at(*at));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    fn count_matches(
        &self,
        insert: &ast::Insert,
        columns: usize,
        given: usize,
        at: usize,
    ) -> SqlResult<()> {
        if given > columns {
            let told = "INSERT has more expressions than target columns";
            return Err(SqlError::new("42601", told).at(at));
        }
        if given < columns && !insert.columns.is_empty() {
            let told = "INSERT has more target columns than expressions";
            let at = insert.columns[given].0;
            return Err(SqlError::new("42601", told).at(at));
        }
        Ok(())
    }

    fn check_generated(
        &self,
        table: &Table,
        insert: &ast::Insert,
        column: usize,
        is_default: bool,
    ) -> SqlResult<()> {
        let column = &table.columns[column];
        if column.always_generated && !is_default && !insert.overriding {
            let name = &column.name;
            let told = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            let detail =
                format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
            return Err(SqlError::new("428C9", told)
                .detail(detail)
                .hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
        Ok(())
    }

    fn value_rows(
        &mut self,
        table: &Table,
        insert: &ast::Insert,
        columns: &[usize],
        values: &[Vec<Expr>],
        defaults: &[Node],
    ) -> SqlResult<Vec<Vec<Node>>> {
        let mut rows = Vec::new();
        let width = values.first().map_or(0, Vec::len);
        for row in values {
            if row.len() != width {
                let told = "VALUES lists must all be the same length";
                return Err(SqlError::new("42601", told).at(row[0].at));
            }
            let at = row.get(columns.len()).or(row.first()).map_or(0, |one| one.at);
            self.count_matches(insert, columns.len(), row.len(), at)?;
            let mut nodes = defaults.to_vec();
            for (column, expr) in columns.iter().zip(row) {
                let is_default = matches!(expr.kind, ExprKind::Default);
                self.check_generated(table, insert, *column, is_default)?;
                nodes[*column] = match is_default {
                    true => self.default_of(table, *column)?,
                    false => self.assigned(expr, &table.columns[*column])?,
                };
            }
            for column in columns.iter().skip(row.len()) {
                nodes[*column] = self.default_of(table, *column)?;
            }
            rows.push(nodes);
        }
        Ok(rows)
    }

    fn query_rows(
        &mut self,
        table: &Table,
        insert: &ast::Insert,
        columns: &[usize],
        source: &ast::Select,
        defaults: Vec<Node>,
    ) -> SqlResult<Rows> {
        let (select, fields) = self.nested(source)?;
        let at = insert.table.at;
        self.count_matches(insert, columns.len(), fields.len(), at)?;
        let mut nodes = defaults;
        for (index, column) in columns.iter().enumerate() {
            nodes[*column] = match fields.get(index) {
                Some(field) => {
                    self.check_generated(table, insert, *column, false)?;
                    let node = Node::Column(index);
                    let typed = Typed { node, data_type: field.data_type, at };
                    self.assign(typed, &table.columns[*column])?
                }
                None => self.default_of(table, *column)?,
            };
        }
        Ok(Rows::Query(Box::new(select), nodes))
    }

    fn conflict(
        &mut self,
        table: &Table,
        name: &str,
        on_conflict: &OnConflict,
    ) -> SqlResult<Conflict> {
        let target = match on_conflict {
            OnConflict::Nothing { target } | OnConflict::Update { target, .. } => target,
        };
        let mut wanted = Vec::new();
        for (at, column) in target {
            let found = table.columns.iter().position(|known| known.name == *column);
            wanted.push(found.ok_or_else(|| {
                SqlError::new("42703", format!("column \"{column}\" does not exist")).at(*at)
            })?);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let unique = table.indexes.iter().filter(|index| index.unique);
        let arbiters: Vec<_> = unique
            .filter(|index| {
                let mut columns = index.columns.clone();
                columns.sort_unstable();
                wanted.is_empty() || columns == wanted
            })
            .map(|index| index.id)
            .collect();
        if arbiters.is_empty() && !wanted.is_empty() {
            let told = "there is no unique or exclusion constraint matching the \
                        ON CONFLICT specification";
            return Err(SqlError::new("42P10", told));
        }
        let OnConflict::Update { set, filter, .. } = on_conflict else {
            return Ok(Conflict { arbiters, update: None });
        };
        self.scope.clear();
        self.show(table, name, &[]);
        self.show(table, "excluded", &[]);
        let set = self.assignments(table, set)?;
        let filter = filter.as_ref().map(|filter| self.condition(filter, "WHERE")).transpose()?;
        Ok(Conflict { arbiters, update: Some((set, filter)) })
    }

    fn assignments(&mut self, table: &Table, set: &[Assignment]) -> SqlResult<Vec<(usize, Node)>> {
        let mut all: Vec<(usize, Node)> = Vec::new();
        for assignment in set {
            let column = self.column_of(table, &assignment.column, assignment.at)?;
            if all.iter().any(|(known, _)| *known == column) {
                let name = &assignment.column;
                let told = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new("42601", told).at(assignment.at));
            }
            let definition = &table.columns[column];
            let is_default = matches!(assignment.value.kind, ExprKind::Default);
            if definition.always_generated && !is_default {
                let name = &definition.name;
                let told = format!("column \"{name}\" can only be updated to DEFAULT");
                let detail =
                    format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
                return Err(SqlError::new("428C9", told).detail(detail));
            }
            let node = match is_default {
                true => self.default_of(table, column)?,
                false => self.assigned(&assignment.value, definition)?,
            };
            all.push((column, node));
        }
        Ok(all)
    }

    fn returning(&mut self, outputs: &[Output]) -> SqlResult<Returning> {
        if outputs.is_empty() {
            return Ok((None, None));
        }
        let (nodes, fields) = self.outputs(outputs)?;
        Ok((Some(nodes.into_iter().map(|typed| typed.node).collect()), Some(fields)))
    }

    /// The table to be changed and what stands beside it.
    fn target(
        &mut self,
        name: &ast::Name,
        alias: Option<&String>,
        beside: &[ast::From],
        filter: Option<&Expr>,
    ) -> SqlResult<(Arc<Table>, Select)> {
        self.writes = true;
        let table = self.table(name, ROW_EXCLUSIVE)?;
        self.show(&table, alias.unwrap_or(&table.name), &[]);
        let mut plan = Select::default();
        plan.sources.push(Source {
            reads: Reads::Table(table.clone()),
            joining: Joining::Inner,
            on: None,
            first_column: 0,
            columns: table.columns.len(),
            lookup: None,
            locking: None,
        });
        for from in beside {
            let source = self.source(from, ACCESS_SHARE)?;
            plan.sources.push(source);
        }
        Ok((table, {
            plan.filter = filter.map(|filter| self.condition(filter, "WHERE")).transpose()?;
            for source in 0..plan.sources.len() {
                self.look_up(&mut plan, source);
            }
            plan
        }))
    }

    pub(super) fn update(
        &mut self,
        update: &ast::Update,
    ) -> SqlResult<(Modify, Option<Vec<Field>>)> {
        self.with(&update.with)?;
        let alias = update.alias.as_ref();
        let (table, select) =
            self.target(&update.table, alias, &update.from, update.filter.as_ref())?;
        let set = self.assignments(&table, &update.set)?;
        let (returning, fields) = self.returning(&update.returning)?;
        let checks = self.checks(&table)?;
        Ok((Modify { table, select, set, deletes: false, checks, returning }, fields))
    }

    pub(super) fn delete(
        &mut self,
        delete: &ast::Delete,
    ) -> SqlResult<(Modify, Option<Vec<Field>>)> {
        self.with(&delete.with)?;
        let alias = delete.alias.as_ref();
        let (table, select) =
            self.target(&delete.table, alias, &delete.using, delete.filter.as_ref())?;
        let (returning, fields) = self.returning(&delete.returning)?;
        let (set, checks) = (Vec::new(), Vec::new());
        Ok((Modify { table, select, set, deletes: true, checks, returning }, fields))
    }
}

/// What RETURNING gives, and how its columns are called.
type Returning = (Option<Vec<Node>>, Option<Vec<Field>>);

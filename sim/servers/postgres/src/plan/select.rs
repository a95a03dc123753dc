//! SELECT: sources, filter, groups, outputs, order.

use super::analyse::{Analyser, Common, Visible};
use super::coerce::{Context, convert};
use super::{Action, Comparison, Field, Node, Reads, Select, Sort, Source, Typed, View};
use crate::catalogue::Table;
use crate::error::{SqlError, SqlResult};
use crate::locks::{ACCESS_SHARE, Mode, ROW_SHARE};
use crate::sql::ast;
use crate::sql::ast::{Alias, Expr, ExprKind, Joining, Locking, Output};
use crate::value::{Type, Value};

/// How an output is called that has no name.
fn default_name(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Column(path) => path.last().cloned().unwrap_or_default(),
        ExprKind::Call { name, .. } => name.last().cloned().unwrap_or_default(),
        ExprKind::Cast { operand, to } => match &operand.kind {
            ExprKind::Column(_) | ExprKind::Call { .. } => default_name(operand),
            _ => to.name.clone(),
        },
        ExprKind::Case { otherwise: Some(otherwise), .. } => match default_name(otherwise) {
            name if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        ExprKind::Case { .. } => "case".to_owned(),
        ExprKind::Exists(_) => "exists".to_owned(),
        ExprKind::Array(_) => "array".to_owned(),
        ExprKind::Bool(_) => "bool".to_owned(),
        ExprKind::Scalar(query) => match query.outputs.as_slice() {
            [Output::Expr { name: Some(name), .. }] => name.clone(),
            [Output::Expr { expr, .. }] => default_name(expr),
            _ => "?column?".to_owned(),
        },
        _ => "?column?".to_owned(),
    }
}

impl Analyser<'_> {
    pub(super) fn with(&mut self, commons: &[ast::Common]) -> SqlResult<()> {
        for common in commons {
            let outer = std::mem::take(&mut self.scope);
            let aggregates = self.aggregates.take();
            let (action, fields, _) = self.query(&common.statement)?;
            self.scope = outer;
            self.aggregates = aggregates;
            let mut fields = fields.unwrap_or_default();
            for (field, name) in fields.iter_mut().zip(&common.columns) {
                field.name.clone_from(name);
            }
            if common.columns.len() > fields.len() {
                let (name, has, given) = (&common.name, fields.len(), common.columns.len());
                let told = format!(
                    "WITH query \"{name}\" has {has} columns available but {given} columns specified"
                );
                return Err(SqlError::new("42P10", told).at(common.at));
            }
            let earlier = self.add_earlier(action, Some(fields.clone()), false);
            self.commons.push(Common { name: common.name.clone(), fields, earlier });
        }
        Ok(())
    }

    pub(super) fn select(&mut self, select: &ast::Select) -> SqlResult<(Select, Vec<Field>)> {
        self.with(&select.with)?;
        if let Some(rows) = &select.values {
            return self.values(select, rows);
        }
        let lock_mode = if select.locking.is_empty() { ACCESS_SHARE } else { ROW_SHARE };
        let mut plan = Select::default();
        for from in &select.from {
            let source = self.source(from, lock_mode)?;
            plan.sources.push(source);
        }
        plan.filter =
            select.filter.as_ref().map(|filter| self.condition(filter, "WHERE")).transpose()?;
        self.aggregates = Some(Vec::new());
        let (outputs, fields) = self.outputs(&select.outputs)?;
        let places: Vec<usize> = outputs.iter().map(|output| output.at).collect();
        plan.outputs = outputs.into_iter().map(|output| output.node).collect();
        plan.having =
            select.having.as_ref().map(|having| self.condition(having, "HAVING")).transpose()?;
        for order in &select.order {
            let node = self.sort_key(&order.expr, select, &plan.outputs, "ORDER BY")?;
            if select.distinct && !plan.outputs.contains(&node) {
                let told = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(SqlError::new("42P10", told).at(order.expr.at));
            }
            let (descending, nulls_first) = (order.descending, order.nulls_first);
            plan.order.push(Sort { node, descending, nulls_first });
        }
        plan.aggregates = self.aggregates.take().unwrap_or_default();
        for expr in &select.group {
            let node = self.sort_key(expr, select, &plan.outputs, "GROUP BY")?;
            plan.group.push(node);
        }
        plan.is_grouped =
            !select.group.is_empty() || !plan.aggregates.is_empty() || plan.having.is_some();
        if plan.is_grouped {
            self.group(&mut plan, &places)?;
        }
        plan.distinct = select.distinct;
        self.limits(select, &mut plan)?;
        self.lock(&select.locking, &mut plan)?;
        for source in 0..plan.sources.len() {
            self.look_up(&mut plan, source);
        }
        Ok((plan, fields))
    }

    fn group(&mut self, plan: &mut Select, places: &[usize]) -> SqlResult<()> {
        let group = plan.group.clone();
        let outputs = std::mem::take(&mut plan.outputs);
        for (node, at) in outputs.into_iter().zip(places) {
            plan.outputs.push(self.group_node(node, &group, *at)?);
        }
        for sort in &mut plan.order {
            let node = std::mem::replace(&mut sort.node, Node::Constant(Value::Null));
            sort.node = self.group_node(node, &group, 0)?;
        }
        if let Some(having) = plan.having.take() {
            plan.having = Some(self.group_node(having, &group, 0)?);
        }
        Ok(())
    }

    /// An expression of ORDER BY or GROUP BY: a position, an output's name, or any.
    fn sort_key(
        &mut self,
        expr: &Expr,
        select: &ast::Select,
        outputs: &[Node],
        clause: &str,
    ) -> SqlResult<Node> {
        if let ExprKind::Integer(digits) = &expr.kind {
            let place = digits.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            return place.and_then(|place| outputs.get(place)).cloned().ok_or_else(|| {
                let told = format!("{clause} position {digits} is not in select list");
                SqlError::new("42P10", told).at(expr.at)
            });
        }
        if let ExprKind::Column(path) = &expr.kind
            && let [name] = path.as_slice()
        {
            let is_column = self.scope.iter().any(|visible| visible.field.name == *name);
            let has_star = select.outputs.iter().any(|one| matches!(one, Output::Star { .. }));
            let named = select.outputs.iter().position(|output| match output {
                Output::Expr { name: Some(given), .. } => given == name,
                _ => false,
            });
            // For GROUP BY a column of the tables goes first, for ORDER BY an output.
            if let Some(place) = named
                && !has_star
                && !(clause == "GROUP BY" && is_column)
            {
                return Ok(outputs[place].clone());
            }
        }
        let typed = self.expr(expr)?;
        Ok(self.settle_one(typed, Type::Text)?.node)
    }

    pub(super) fn outputs(&mut self, outputs: &[Output]) -> SqlResult<(Vec<Typed>, Vec<Field>)> {
        let (mut nodes, mut fields) = (Vec::new(), Vec::new());
        for output in outputs {
            match output {
                Output::Star { at, table } => {
                    let before = nodes.len();
                    for (index, visible) in self.scope.iter().enumerate() {
                        if table.as_ref().is_none_or(|table| *table == visible.table) {
                            let data_type = visible.field.data_type;
                            nodes.push(Typed { node: Node::Column(index), data_type, at: *at });
                            fields.push(visible.field.clone());
                        }
                    }
                    match table {
                        Some(table) if nodes.len() == before => {
                            let told = format!("missing FROM-clause entry for table \"{table}\"");
                            return Err(SqlError::new("42P01", told).at(*at));
                        }
                        None if self.scope.is_empty() => {
                            let told = "SELECT * with no tables specified is not valid";
                            return Err(SqlError::new("42601", told).at(*at));
                        }
                        _ => {}
                    }
                }
                Output::Expr { expr, name } => {
                    let typed = self.expr(expr)?;
                    let typed = self.settle_one(typed, Type::Text)?;
                    let name = name.clone().unwrap_or_else(|| default_name(expr));
                    let known = match typed.node {
                        Node::Column(index) => self.scope.get(index).map(|one| &one.field),
                        _ => None,
                    };
                    let (length, origin) =
                        known.map_or((None, None), |field| (field.length, field.origin));
                    fields.push(Field { name, data_type: typed.data_type, length, origin });
                    nodes.push(typed);
                }
            }
        }
        if nodes.len() > 1664 {
            return Err(SqlError::new("54011", "target lists can have at most 1664 entries"));
        }
        Ok((nodes, fields))
    }

    fn limits(&mut self, select: &ast::Select, plan: &mut Select) -> SqlResult<()> {
        let scope = std::mem::take(&mut self.scope);
        for (expr, slot, clause) in [
            (&select.limit, &mut plan.limit, "LIMIT"),
            (&select.offset, &mut plan.offset, "OFFSET"),
        ] {
            let Some(expr) = expr else { continue };
            let typed = self.expr(expr)?;
            let typed = self.settle_one(typed, Type::Int8)?;
            if typed.data_type.rank().is_none() {
                let found = typed.data_type.name();
                let told = format!("argument of {clause} must be type bigint, not type {found}");
                return Err(SqlError::new("42804", told).at(expr.at));
            }
            *slot = Some(convert(typed, Type::Int8, None, Context::Assignment)?.node);
        }
        self.scope = scope;
        Ok(())
    }

    fn values(
        &mut self,
        select: &ast::Select,
        rows: &[Vec<Expr>],
    ) -> SqlResult<(Select, Vec<Field>)> {
        let width = rows[0].len();
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        for row in rows {
            if row.len() != width {
                let told = "VALUES lists must all be the same length";
                return Err(SqlError::new("42601", told).at(row[0].at));
            }
            for (column, expr) in columns.iter_mut().zip(row) {
                column.push(self.expr(expr)?);
            }
        }
        let mut plan = Select::default();
        let mut fields = Vec::new();
        let mut nodes = vec![Vec::new(); rows.len()];
        for (index, column) in columns.into_iter().enumerate() {
            let (column, data_type) = self.alike(column, "VALUES")?;
            let name = format!("column{}", index + 1);
            fields.push(Field { name: name.clone(), data_type, length: None, origin: None });
            for (row, node) in nodes.iter_mut().zip(column) {
                row.push(node);
            }
            plan.outputs.push(Node::Column(index));
        }
        plan.values = Some(nodes);
        let scope = std::mem::take(&mut self.scope);
        self.scope = fields
            .iter()
            .map(|field| Visible { table: "*VALUES*".to_owned(), field: field.clone() })
            .collect();
        for order in &select.order {
            let outputs = plan.outputs.clone();
            let node = self.sort_key(&order.expr, select, &outputs, "ORDER BY")?;
            let (descending, nulls_first) = (order.descending, order.nulls_first);
            plan.order.push(Sort { node, descending, nulls_first });
        }
        self.limits(select, &mut plan)?;
        self.scope = scope;
        if let Some(locking) = select.locking.first() {
            let told = format!("{} cannot be applied to VALUES", words(locking));
            return Err(SqlError::new("0A000", told).at(locking.at));
        }
        Ok((plan, fields))
    }

    /// Puts a table's columns into the scope, under a name.
    pub(super) fn show(&mut self, table: &Table, name: &str, columns: &[String]) {
        for (index, column) in table.columns.iter().enumerate() {
            let field = Field {
                name: columns.get(index).unwrap_or(&column.name).clone(),
                data_type: column.data_type,
                length: column.length,
                origin: Some((table.id, index as i16 + 1)),
            };
            self.scope.push(Visible { table: name.to_owned(), field });
        }
    }

    fn show_fields(&mut self, fields: Vec<Field>, alias: &Alias) {
        for (index, mut field) in fields.into_iter().enumerate() {
            if let Some(name) = alias.columns.get(index) {
                field.name.clone_from(name);
            }
            self.scope.push(Visible { table: alias.name.clone(), field });
        }
    }

    pub(super) fn source(&mut self, from: &ast::From, mode: Mode) -> SqlResult<Source> {
        let first_column = self.scope.len();
        let name = match &from.source {
            ast::Source::Table { name, alias } => {
                alias.as_ref().map_or(&name.name, |alias| &alias.name).clone()
            }
            ast::Source::Query { alias, .. } => alias.name.clone(),
            ast::Source::Call { call, alias, .. } => match alias {
                Some(alias) => alias.name.clone(),
                None => default_name(call),
            },
        };
        if self.scope.iter().any(|visible| visible.table == name) {
            let told = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new("42712", told));
        }
        let reads = match &from.source {
            ast::Source::Table { name, alias } => self.table_source(name, alias.as_ref(), mode)?,
            ast::Source::Query { query, alias, .. } => {
                let (select, fields) = self.nested(query)?;
                let action = Action::Select(Box::new(select));
                let number = self.add_earlier(action, Some(fields.clone()), false);
                self.show_fields(fields, alias);
                Reads::Query(number)
            }
            ast::Source::Call { at, call, alias } => self.call_source(*at, call, alias.as_ref())?,
        };
        let on = from.on.as_ref().map(|on| self.condition(on, "JOIN/ON")).transpose()?;
        let columns = self.scope.len() - first_column;
        let (joining, lookup, locking) = (from.joining, None, None);
        Ok(Source { reads, joining, on, first_column, columns, lookup, locking })
    }

    fn table_source(
        &mut self,
        name: &ast::Name,
        alias: Option<&Alias>,
        mode: Mode,
    ) -> SqlResult<Reads> {
        let default = Alias { name: name.name.clone(), columns: Vec::new() };
        let alias = alias.unwrap_or(&default);
        if name.schema.is_none()
            && let Some(common) = self.commons.iter().rfind(|common| common.name == name.name)
        {
            let (fields, number) = (common.fields.clone(), common.earlier);
            self.show_fields(fields, alias);
            return Ok(Reads::Query(number));
        }
        let is_catalogue = name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
        if is_catalogue && let Some(view) = View::named(&name.name) {
            self.show_fields(view.fields(), alias);
            return Ok(Reads::View(view));
        }
        if is_catalogue && name.name.starts_with("pg_") {
            return Err(SqlError::unsupported(name.at, format!("the catalogue {}", name.name)));
        }
        if name.schema.as_deref() == Some("information_schema") {
            return Err(SqlError::unsupported(name.at, "information_schema"));
        }
        let table = self.table(name, mode)?;
        self.show(&table, &alias.name, &alias.columns);
        Ok(Reads::Table(table))
    }

    fn call_source(&mut self, at: usize, call: &Expr, alias: Option<&Alias>) -> SqlResult<Reads> {
        let outer = std::mem::take(&mut self.scope);
        let ExprKind::Call { name, arguments, .. } = &call.kind else {
            return Err(SqlError::unsupported(at, "this kind of source"));
        };
        let word = name.last().map_or("", String::as_str);
        let (reads, data_type) = if word == "generate_series" {
            let mut all = Vec::new();
            for argument in arguments {
                let typed = self.expr(argument)?;
                all.push(self.settle_one(typed, Type::Int4)?);
            }
            if all.len() == 2 {
                let node = Node::Constant(Value::Int(1));
                all.push(Typed { node, data_type: Type::Int4, at });
            }
            let (mut nodes, data_type) = self.alike(all, "generate_series")?;
            if nodes.len() != 3 || !data_type.is_integer() {
                return Err(SqlError::unsupported(at, "this form of generate_series"));
            }
            let (step, to) = (nodes.remove(2), nodes.remove(1));
            let from = nodes.remove(0);
            (Reads::Series(Box::new(from), Box::new(to), Box::new(step)), data_type)
        } else {
            let typed = self.expr(call)?;
            (Reads::Call(Box::new(typed.node)), typed.data_type)
        };
        self.scope = outer;
        let default = Alias { name: word.to_owned(), columns: Vec::new() };
        let alias = alias.unwrap_or(&default);
        let field = Field { name: alias.name.clone(), data_type, length: None, origin: None };
        self.show_fields(vec![field], alias);
        Ok(reads)
    }

    fn lock(&mut self, locking: &[Locking], plan: &mut Select) -> SqlResult<()> {
        for clause in locking {
            let refused = if plan.is_grouped && !plan.group.is_empty() {
                Some("GROUP BY clause")
            } else if plan.is_grouped {
                Some("aggregate functions")
            } else if plan.distinct {
                Some("DISTINCT clause")
            } else {
                None
            };
            if let Some(refused) = refused {
                let told = format!("{} is not allowed with {refused}", words(clause));
                return Err(SqlError::new("0A000", told));
            }
            self.writes = true;
            let mut named = Vec::new();
            for (at, name) in &clause.of {
                let found = plan.sources.iter().position(|source| {
                    let shown = self.scope.get(source.first_column);
                    shown.is_some_and(|visible| visible.table == *name)
                });
                named.push(found.ok_or_else(|| {
                    let words = words(clause);
                    let told =
                        format!("relation \"{name}\" in {words} clause not found in FROM clause");
                    SqlError::new("42P01", told).at(*at)
                })?);
            }
            for (index, source) in plan.sources.iter_mut().enumerate() {
                if !named.is_empty() && !named.contains(&index) {
                    continue;
                }
                if !matches!(source.reads, Reads::Table(_)) {
                    if named.is_empty() {
                        if matches!(source.reads, Reads::Query(_)) {
                            return Err(SqlError::unsupported(
                                clause.at,
                                "row locks through queries",
                            ));
                        }
                        continue;
                    }
                    let told = format!("{} cannot be applied to a function", words(clause));
                    return Err(SqlError::new("0A000", told).at(clause.at));
                }
                if source.joining == Joining::Left {
                    let told = format!(
                        "{} cannot be applied to the nullable side of an outer join",
                        words(clause)
                    );
                    return Err(SqlError::new("0A000", told));
                }
                // The stronger lock and the more impatient policy win.
                source.locking = Some(match source.locking {
                    None => (clause.lock, clause.patience),
                    Some((lock, patience)) => {
                        let patience = match patience {
                            ast::Patience::Wait => clause.patience,
                            ast::Patience::Skip if clause.patience == ast::Patience::Fail => {
                                clause.patience
                            }
                            kept => kept,
                        };
                        (lock.max(clause.lock), patience)
                    }
                });
            }
        }
        Ok(())
    }

    /// Finds an index all of whose columns the filter compares with something known.
    pub(super) fn look_up(&self, plan: &mut Select, source: usize) {
        let Some(filter) = &plan.filter else { return };
        let Reads::Table(table) = &plan.sources[source].reads else { return };
        if plan.sources[source].joining == Joining::Left {
            return;
        }
        let first = plan.sources[source].first_column;
        let conditions: Vec<&Node> = match filter {
            Node::And(all) => all.iter().collect(),
            one => vec![one],
        };
        let value_of = |column: usize| {
            conditions.iter().find_map(|condition| {
                let Node::Compare(Comparison::Equal, left, right) = condition else { return None };
                for (one, other) in [(left, right), (right, left)] {
                    if is_column(one, first + column) && is_known(other) {
                        return Some((**other).clone());
                    }
                }
                None
            })
        };
        let found = table.indexes.iter().filter(|index| index.unique).find_map(|index| {
            let values: Option<Vec<Node>> =
                index.columns.iter().map(|column| value_of(*column)).collect();
            Some((index.id, values?))
        });
        plan.sources[source].lookup = found;
    }
}

fn words(locking: &Locking) -> &'static str {
    match locking.lock {
        ast::RowLock::Update => "FOR UPDATE",
        ast::RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
        ast::RowLock::Share => "FOR SHARE",
        ast::RowLock::KeyShare => "FOR KEY SHARE",
    }
}

fn is_column(node: &Node, column: usize) -> bool {
    match node {
        Node::Column(index) => *index == column,
        // Integers of all sizes, and texts, are alike in an index.
        Node::Convert { from, to, operand, .. } => {
            (from.is_integer() && to.is_integer() || from.is_text() && to.is_text())
                && is_column(operand, column)
        }
        _ => false,
    }
}

/// Whether a node is the same for all rows.
fn is_known(node: &Node) -> bool {
    !node.any(&mut |one| match one {
        Node::Column(_) | Node::Aggregate(_) | Node::Group(_) => true,
        Node::Call(function, _) => !function.is_pure(),
        _ => false,
    })
}

impl View {
    fn named(name: &str) -> Option<View> {
        Some(match name {
            "pg_locks" => View::Locks,
            "pg_stat_activity" => View::Activity,
            "pg_stat_replication" => View::Replication,
            "pg_settings" => View::Settings,
            _ => return None,
        })
    }

    fn fields(self) -> Vec<Field> {
        let columns: &[(&str, Type)] = match self {
            View::Locks => &[
                ("locktype", Type::Text),
                ("database", Type::Oid),
                ("relation", Type::Oid),
                ("page", Type::Int4),
                ("tuple", Type::Int2),
                ("virtualxid", Type::Text),
                ("transactionid", Type::Xid),
                ("classid", Type::Oid),
                ("objid", Type::Oid),
                ("objsubid", Type::Int2),
                ("virtualtransaction", Type::Text),
                ("pid", Type::Int4),
                ("mode", Type::Text),
                ("granted", Type::Bool),
                ("fastpath", Type::Bool),
                ("waitstart", Type::Timestamptz),
            ],
            View::Activity => &[
                ("datname", Type::Text),
                ("pid", Type::Int4),
                ("usename", Type::Text),
                ("application_name", Type::Text),
                ("backend_start", Type::Timestamptz),
                ("xact_start", Type::Timestamptz),
                ("query_start", Type::Timestamptz),
                ("state_change", Type::Timestamptz),
                ("wait_event_type", Type::Text),
                ("wait_event", Type::Text),
                ("state", Type::Text),
                ("backend_xid", Type::Xid),
                ("query", Type::Text),
                ("backend_type", Type::Text),
            ],
            View::Replication => &[
                ("pid", Type::Int4),
                ("application_name", Type::Text),
                ("state", Type::Text),
                ("sync_state", Type::Text),
            ],
            View::Settings => &[("name", Type::Text), ("setting", Type::Text)],
        };
        let field = |(name, data_type): &(&str, Type)| Field {
            name: (*name).to_owned(),
            data_type: *data_type,
            length: None,
            origin: None,
        };
        columns.iter().map(field).collect()
    }
}

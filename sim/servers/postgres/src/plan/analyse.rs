//! From a syntax tree to a plan.

use std::sync::Arc;

use super::coerce::{Context, convert};
use super::{Action, Earlier, Field, Node, Plan, Typed};
use crate::catalogue::{Catalogue, Kind, RelationId, Table};
use crate::error::{SqlError, SqlResult};
use crate::locks::{ACCESS_EXCLUSIVE, Mode};
use crate::sql::ast::{DropKind, Expr, Name, Parsed, Statement};
use crate::transaction::Xid;
use crate::value::Type;

/// A column that an expression may name.
#[derive(Clone, Debug)]
pub(super) struct Visible {
    pub(super) table: String,
    pub(super) field: Field,
}

/// A query of WITH.
pub(super) struct Common {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
    pub(super) earlier: usize,
}

/// The state of an analysis.
pub(crate) struct Analyser<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) is_mine: &'a dyn Fn(Xid) -> bool,
    pub(super) parameters: Vec<Option<Type>>,
    pub(super) tables: Vec<(RelationId, Mode)>,
    pub(super) earlier: Vec<Earlier>,
    pub(super) commons: Vec<Common>,
    pub(super) scope: Vec<Visible>,
    /// The scopes of the queries around a subquery.
    pub(super) outer: Vec<Vec<Visible>>,
    /// The aggregates found so far, where they may stand.
    pub(super) aggregates: Option<Vec<(super::Aggregate, Option<Node>)>>,
    pub(super) notices: Vec<SqlError>,
    pub(super) writes: bool,
}

/// Makes a plan of a statement. `parameters` are the types that the client has given.
///
/// # Errors
/// What PostgreSQL tells of wrong names and types; 0A000 for what is not here.
pub(crate) fn analyse(
    catalogue: &Catalogue,
    is_mine: &dyn Fn(Xid) -> bool,
    parsed: &Arc<Parsed>,
    parameters: &[Option<Type>],
) -> SqlResult<Plan> {
    let mut analyser = Analyser::new(catalogue, is_mine);
    analyser.parameters = parameters.to_vec();
    let (action, fields, tag) = analyser.statement(parsed)?;
    analyser.finish(action, fields, tag)
}

/// The node of an expression that names nothing, as one of a type: arguments of EXECUTE.
pub(crate) fn constant(catalogue: &Catalogue, expr: &Expr, to: Type) -> SqlResult<Node> {
    let none = |_| false;
    let mut analyser = Analyser::new(catalogue, &none);
    let typed = analyser.expr(expr)?;
    let typed = analyser.settle_one(typed, to)?;
    if !analyser.earlier.is_empty() {
        return Err(SqlError::new("0A000", "cannot use subquery in EXECUTE parameter").at(expr.at));
    }
    Ok(convert(typed, to, None, Context::Assignment)?.node)
}

impl<'a> Analyser<'a> {
    pub(crate) fn new(catalogue: &'a Catalogue, is_mine: &'a dyn Fn(Xid) -> bool) -> Self {
        Analyser {
            catalogue,
            is_mine,
            parameters: Vec::new(),
            tables: Vec::new(),
            earlier: Vec::new(),
            commons: Vec::new(),
            scope: Vec::new(),
            outer: Vec::new(),
            aggregates: None,
            notices: Vec::new(),
            writes: false,
        }
    }

    fn finish(
        self,
        action: Action,
        fields: Option<Vec<Field>>,
        tag: &'static str,
    ) -> SqlResult<Plan> {
        let mut parameters = Vec::new();
        for (index, known) in self.parameters.iter().enumerate() {
            let number = index + 1;
            parameters.push(known.filter(|known| *known != Type::Unknown).ok_or_else(|| {
                SqlError::new(
                    "42P18",
                    format!("could not determine data type of parameter ${number}"),
                )
            })?);
        }
        Ok(Plan {
            action,
            earlier: self.earlier,
            fields,
            parameters,
            tables: self.tables,
            tag,
            writes: self.writes,
            version: self.catalogue.version,
            notices: self.notices,
        })
    }

    fn statement(
        &mut self,
        parsed: &Arc<Parsed>,
    ) -> SqlResult<(Action, Option<Vec<Field>>, &'static str)> {
        Ok(match &parsed.statement {
            Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_) => self.query(&parsed.statement)?,
            Statement::CreateTable(create) => {
                self.writes = true;
                (self.create_table(create)?, None, "CREATE TABLE")
            }
            Statement::CreateIndex { name, table, columns, unique, if_not_exists } => {
                self.writes = true;
                let action =
                    self.create_index(name.as_deref(), table, columns, *unique, *if_not_exists)?;
                (action, None, "CREATE INDEX")
            }
            Statement::Drop { kind, names, if_exists } => {
                self.writes = true;
                let tag = match kind {
                    DropKind::Table => "DROP TABLE",
                    DropKind::Index => "DROP INDEX",
                    DropKind::Sequence => "DROP SEQUENCE",
                };
                (self.drop(*kind, names, *if_exists)?, None, tag)
            }
            Statement::Truncate { names, restart } => {
                self.writes = true;
                let mut tables = Vec::new();
                for name in names {
                    tables.push(self.table(name, ACCESS_EXCLUSIVE)?.id);
                }
                (Action::Truncate { tables, restart: *restart }, None, "TRUNCATE TABLE")
            }
            Statement::Lock { names, mode, nowait } => {
                let mut tables = Vec::new();
                for name in names {
                    tables.push(self.find_table(name)?.id);
                }
                let (mode, nowait) = (*mode, *nowait);
                (Action::LockTables { tables, mode, nowait }, None, "LOCK TABLE")
            }
            Statement::CreateSequence { .. } => {
                self.writes = true;
                (Action::Utility(parsed.clone()), None, "CREATE SEQUENCE")
            }
            Statement::Show(name) => {
                let field =
                    Field { name: name.clone(), data_type: Type::Text, length: None, origin: None };
                (Action::Utility(parsed.clone()), Some(vec![field]), "SHOW")
            }
            _ => (Action::Utility(parsed.clone()), None, ""),
        })
    }

    /// A query, at the top or in WITH.
    pub(super) fn query(
        &mut self,
        statement: &Statement,
    ) -> SqlResult<(Action, Option<Vec<Field>>, &'static str)> {
        Ok(match statement {
            Statement::Select(select) => {
                let (select, fields) = self.select(select)?;
                (Action::Select(Box::new(select)), Some(fields), "SELECT")
            }
            Statement::Insert(insert) => {
                let (insert, fields) = self.insert(insert)?;
                (Action::Insert(Box::new(insert)), fields, "INSERT 0")
            }
            Statement::Update(update) => {
                let (modify, fields) = self.update(update)?;
                (Action::Modify(Box::new(modify)), fields, "UPDATE")
            }
            Statement::Delete(delete) => {
                let (modify, fields) = self.delete(delete)?;
                (Action::Modify(Box::new(modify)), fields, "DELETE")
            }
            _ => return Err(SqlError::new("XX000", "not a query")),
        })
    }

    /// A plan that runs before the statement; its number.
    pub(super) fn add_earlier(
        &mut self,
        action: Action,
        fields: Option<Vec<Field>>,
        is_scalar: bool,
    ) -> usize {
        let plan = Plan {
            action,
            earlier: Vec::new(),
            fields,
            parameters: Vec::new(),
            tables: Vec::new(),
            tag: "",
            writes: false,
            version: self.catalogue.version,
            notices: Vec::new(),
        };
        self.earlier.push(Earlier { plan, is_scalar });
        self.earlier.len() - 1
    }

    pub(super) fn decide_parameter(&mut self, number: usize, to: Type, at: usize) -> Typed {
        let data_type = match self.parameters.get_mut(number) {
            Some(Some(known)) => *known,
            Some(slot) => {
                *slot = Some(to);
                to
            }
            None => to,
        };
        Typed { node: Node::Parameter(number), data_type, at }
    }

    pub(super) fn check_schema(&self, name: &Name) -> SqlResult<()> {
        match name.schema.as_deref() {
            None | Some("public" | "pg_catalog") => Ok(()),
            Some(schema) => {
                let told = format!("schema \"{schema}\" does not exist");
                Err(SqlError::new("3F000", told).at(name.at))
            }
        }
    }

    pub(super) fn find(&self, name: &Name) -> SqlResult<Option<RelationId>> {
        if name.schema.is_some() && self.check_schema(name).is_err() {
            return Ok(None);
        }
        Ok(self.catalogue.find(&name.name, self.is_mine))
    }

    pub(super) fn find_table(&self, name: &Name) -> SqlResult<Arc<Table>> {
        let shown = match &name.schema {
            Some(schema) => format!("{schema}.{}", name.name),
            None => name.name.clone(),
        };
        let Some(id) = self.find(name)? else {
            let told = format!("relation \"{shown}\" does not exist");
            return Err(SqlError::new("42P01", told).at(name.at));
        };
        match self.catalogue.get(id).map(|relation| &relation.kind) {
            Some(Kind::Table(table)) => Ok(table.clone()),
            Some(Kind::Sequence(_)) => {
                Err(SqlError::unsupported(name.at, "reading a sequence as a table"))
            }
            _ => {
                let told = format!("cannot open relation \"{shown}\"");
                Err(SqlError::new("42809", told)
                    .detail("This operation is not supported for indexes.")
                    .at(name.at))
            }
        }
    }

    /// A table that the statement needs, locked so.
    pub(super) fn table(&mut self, name: &Name, mode: Mode) -> SqlResult<Arc<Table>> {
        let table = self.find_table(name)?;
        if !self.tables.contains(&(table.id, mode)) {
            self.tables.push((table.id, mode));
        }
        Ok(table)
    }

    pub(super) fn column_of(&self, table: &Table, name: &str, at: usize) -> SqlResult<usize> {
        let found = table.columns.iter().position(|column| column.name == name);
        found.ok_or_else(|| {
            let relation = &table.name;
            let told = format!("column \"{name}\" of relation \"{relation}\" does not exist");
            SqlError::new("42703", told).at(at)
        })
    }

    fn drop(&mut self, kind: DropKind, names: &[Name], if_exists: bool) -> SqlResult<Action> {
        let word = match kind {
            DropKind::Table => "table",
            DropKind::Index => "index",
            DropKind::Sequence => "sequence",
        };
        let mut relations = Vec::new();
        for name in names {
            let found = self.find(name)?.and_then(|id| Some((id, self.catalogue.get(id)?)));
            let Some((id, relation)) = found else {
                let told = format!("{word} \"{}\" does not exist", name.name);
                if !if_exists {
                    return Err(SqlError::new("42P01", told));
                }
                self.notices.push(SqlError::notice(format!("{told}, skipping")));
                continue;
            };
            let is_right = matches!(
                (kind, &relation.kind),
                (DropKind::Table, Kind::Table(_))
                    | (DropKind::Index, Kind::Index(_))
                    | (DropKind::Sequence, Kind::Sequence(_))
            );
            if !is_right {
                let told = format!("\"{}\" is not a {word}", name.name);
                return Err(SqlError::new("42809", told));
            }
            if let Kind::Sequence(sequence) = &relation.kind
                && sequence.owner.is_some()
            {
                return Err(SqlError::unsupported(name.at, "dropping sequences of columns"));
            }
            let locked = match &relation.kind {
                Kind::Index(table) => *table,
                _ => id,
            };
            self.tables.push((locked, ACCESS_EXCLUSIVE));
            relations.push(id);
        }
        Ok(match relations.is_empty() {
            true => Action::Nothing,
            false => Action::Drop { kind, relations },
        })
    }
}

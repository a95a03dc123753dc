//! CREATE TABLE and CREATE INDEX.

use super::Action;
use super::analyse::Analyser;
use crate::catalogue::{Check, Column, Table};
use crate::error::{SqlError, SqlResult};
use crate::locks::SHARE;
use crate::sql::ast::{ColumnConstraint, ColumnDefinition, CreateTable, Name, TableConstraint};
use crate::value::Type;

/// A table to be: numbers are given when it is made.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<NewColumn>,
    pub(crate) indexes: Vec<NewIndex>,
    pub(crate) checks: Vec<Check>,
}

#[derive(Clone, Debug)]
pub(crate) struct NewColumn {
    pub(crate) column: Column,
    /// It takes its values from a sequence of its own.
    pub(crate) is_serial: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NewIndex {
    /// `None`: made from the table's and the columns' names.
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
}

impl Analyser<'_> {
    pub(super) fn create_table(&mut self, create: &CreateTable) -> SqlResult<Action> {
        self.check_schema(&create.name)?;
        let name = &create.name.name;
        let mut new = NewTable {
            name: name.clone(),
            if_not_exists: create.if_not_exists,
            columns: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        for definition in &create.columns {
            if new.columns.iter().any(|known| known.column.name == definition.name) {
                let told = format!("column \"{}\" specified more than once", definition.name);
                return Err(SqlError::new("42701", told).at(definition.at));
            }
            let column = self.new_column(definition)?;
            new.columns.push(column);
        }
        for (index, definition) in create.columns.iter().enumerate() {
            self.column_constraints(&mut new, index, definition)?;
        }
        for constraint in &create.constraints {
            match constraint {
                TableConstraint::Key { name, columns, is_primary, at } => {
                    let mut places = Vec::new();
                    for (at, column) in columns {
                        let found = new.columns.iter().position(|one| one.column.name == *column);
                        places.push(found.ok_or_else(|| {
                            let told = format!("column \"{column}\" named in key does not exist");
                            SqlError::new("42703", told).at(*at)
                        })?);
                    }
                    add_key(&mut new, name.clone(), places, *is_primary, *at)?;
                }
                TableConstraint::Check { name: given, text, .. } => {
                    let name = given.clone().unwrap_or_else(|| free_check_name(&new, name, None));
                    new.checks.push(Check { name, text: text.clone() });
                }
            }
        }
        self.try_expressions(&new)?;
        Ok(Action::CreateTable(Box::new(new)))
    }

    fn new_column(&mut self, definition: &ColumnDefinition) -> SqlResult<NewColumn> {
        let (data_type, is_serial) = match definition.data_type.name.as_str() {
            "serial" | "serial4" => (Type::Int4, true),
            "bigserial" | "serial8" => (Type::Int8, true),
            "smallserial" | "serial2" => (Type::Int2, true),
            _ => (Type::of_name(&definition.data_type)?, false),
        };
        if data_type == Type::Void || data_type == Type::Unknown {
            let told =
                format!("column \"{}\" has pseudo-type {}", definition.name, data_type.name());
            return Err(SqlError::new("42P16", told).at(definition.at));
        }
        let column = Column {
            name: definition.name.clone(),
            data_type,
            length: definition.data_type.length,
            not_null: is_serial,
            default: None,
            always_generated: false,
        };
        Ok(NewColumn { column, is_serial })
    }

    fn column_constraints(
        &mut self,
        new: &mut NewTable,
        index: usize,
        definition: &ColumnDefinition,
    ) -> SqlResult<()> {
        for constraint in &definition.constraints {
            match constraint {
                ColumnConstraint::NotNull => new.columns[index].column.not_null = true,
                ColumnConstraint::Null => {}
                ColumnConstraint::Default(text) => {
                    new.columns[index].column.default = Some(text.clone());
                }
                ColumnConstraint::PrimaryKey { name, at } => {
                    add_key(new, name.clone(), vec![index], true, *at)?;
                }
                ColumnConstraint::Unique { name, at } => {
                    add_key(new, name.clone(), vec![index], false, *at)?;
                }
                ColumnConstraint::Check { name, text, .. } => {
                    let table = new.name.clone();
                    let name = name
                        .clone()
                        .unwrap_or_else(|| free_check_name(new, &table, Some(&definition.name)));
                    new.checks.push(Check { name, text: text.clone() });
                }
                ColumnConstraint::Identity { always } => {
                    let column = &mut new.columns[index];
                    if !column.column.data_type.is_integer() {
                        let told = "identity column type must be smallint, integer, or bigint";
                        return Err(SqlError::new("22023", told));
                    }
                    column.is_serial = true;
                    column.column.not_null = true;
                    column.column.always_generated = *always;
                }
            }
        }
        Ok(())
    }

    /// Defaults and checks must be sound before the table is.
    fn try_expressions(&mut self, new: &NewTable) -> SqlResult<()> {
        let table = Table {
            id: 0,
            name: new.name.clone(),
            columns: new.columns.iter().map(|one| one.column.clone()).collect(),
            indexes: Vec::new(),
            checks: new.checks.clone(),
        };
        let earlier = self.earlier.len();
        for column in table.columns.iter().filter(|column| column.default.is_some()) {
            let expr = Self::kept_expr(column.default.as_deref().unwrap_or("NULL"))?;
            self.assigned(&expr, column).map_err(SqlError::without_place)?;
        }
        self.checks(&table).map_err(SqlError::without_place)?;
        if self.earlier.len() > earlier {
            return Err(SqlError::new("0A000", "cannot use subquery in a definition"));
        }
        Ok(())
    }

    pub(super) fn create_index(
        &mut self,
        name: Option<&str>,
        table: &Name,
        columns: &[(usize, String)],
        unique: bool,
        if_not_exists: bool,
    ) -> SqlResult<Action> {
        let table = self.table(table, SHARE)?;
        let mut places = Vec::new();
        for (at, column) in columns {
            let found = table.columns.iter().position(|known| known.name == *column);
            places.push(found.ok_or_else(|| {
                let told = format!("column \"{column}\" does not exist");
                let _ = at;
                SqlError::new("42703", told)
            })?);
        }
        let name = name.map(str::to_owned);
        let index = NewIndex { name, columns: places, unique, primary: false };
        Ok(Action::CreateIndex { table: table.id, index, if_not_exists })
    }
}

fn add_key(
    new: &mut NewTable,
    name: Option<String>,
    columns: Vec<usize>,
    primary: bool,
    at: usize,
) -> SqlResult<()> {
    if primary {
        if new.indexes.iter().any(|index| index.primary) {
            let told = format!("multiple primary keys for table \"{}\" are not allowed", new.name);
            return Err(SqlError::new("42P16", told).at(at));
        }
        for column in &columns {
            new.columns[*column].column.not_null = true;
        }
    }
    new.indexes.push(NewIndex { name, columns, unique: true, primary });
    Ok(())
}

fn free_check_name(new: &NewTable, table: &str, column: Option<&str>) -> String {
    let stem = match column {
        Some(column) => format!("{table}_{column}_check"),
        None => format!("{table}_check"),
    };
    let is_taken = |name: &str| new.checks.iter().any(|check| check.name == name);
    if !is_taken(&stem) {
        return stem;
    }
    (1..).map(|number| format!("{stem}{number}")).find(|name| !is_taken(name)).unwrap_or(stem)
}

//! CREATE, DROP, TRUNCATE: changes of the catalogue, undone like those of rows.

use std::sync::Arc;

use super::insert::duplicate;
use crate::catalogue::{Index, Kind, RelationId, Sequence, Table};
use crate::error::{SqlError, SqlResult};
use crate::evaluate::Environment;
use crate::heap::Heap;
use crate::locks::{ACCESS_EXCLUSIVE, Scope, Tag};
use crate::plan::{NewIndex, NewTable};
use crate::session::Session;
use crate::sql::ast::{DropKind, Name, SequenceOptions};
use crate::transaction::{Change, Undo};
use crate::value::Type;

/// What naming a new relation came to.
enum Naming {
    Free,
    /// IF NOT EXISTS has nothing to do.
    There,
}

impl Environment<'_> {
    fn note(&mut self, undo: Undo, change: Option<Change>) {
        if let Some(transaction) = &mut self.core.transaction {
            transaction.level().undo.push(undo);
            transaction.level().changes.extend(change);
        }
    }

    fn name_is_free(&mut self, name: &str, if_not_exists: bool) -> SqlResult<Naming> {
        let taken = self.state.catalogue.holder_of_name(name, |xid| self.core.is_mine(xid));
        if taken.is_none() {
            return Ok(Naming::Free);
        }
        let told = format!("relation \"{name}\" already exists");
        if if_not_exists {
            self.core.notices.push(SqlError::notice(format!("{told}, skipping")).coded("42P07"));
            return Ok(Naming::There);
        }
        Err(SqlError::new("42P07", told))
    }

    fn free_name(&self, stem: &str, ending: &str) -> String {
        let is_taken = |name: &str| {
            self.state.catalogue.holder_of_name(name, |xid| self.core.is_mine(xid)).is_some()
        };
        let first = format!("{stem}_{ending}");
        if !is_taken(&first) {
            return first;
        }
        let mut numbered = (1..).map(|number| format!("{stem}_{ending}{number}"));
        numbered.find(|name| !is_taken(name)).unwrap_or(first)
    }

    fn new_index(&mut self, table: &str, columns: &[String], new: &NewIndex) -> Index {
        let name = new.name.clone().unwrap_or_else(|| match new.primary {
            true => self.free_name(table, "pkey"),
            false => {
                let stem = format!("{table}_{}", columns.join("_"));
                // What a constraint makes ends otherwise than what CREATE INDEX makes.
                self.free_name(&stem, if new.unique { "key" } else { "idx" })
            }
        });
        let id = self.state.catalogue.draw_id();
        Index { id, name, columns: new.columns.clone(), unique: new.unique, primary: new.primary }
    }

    fn create_table(&mut self, new: &NewTable) -> SqlResult<()> {
        if let Naming::There = self.name_is_free(&new.name, new.if_not_exists)? {
            return Ok(());
        }
        let xid = self.core.xid(self.shared, self.state);
        let id = self.state.catalogue.draw_id();
        let mut columns = Vec::new();
        for new_column in &new.columns {
            let mut column = new_column.column.clone();
            if new_column.is_serial {
                let name = self.free_name(&format!("{}_{}", new.name, column.name), "seq");
                let maximum = match column.data_type {
                    Type::Int2 => i64::from(i16::MAX),
                    Type::Int4 => i64::from(i32::MAX),
                    _ => i64::MAX,
                };
                let options = SequenceOptions { maximum: Some(maximum), ..Default::default() };
                self.add_sequence(&name, &options, Some(id))?;
                column.default = Some(format!("nextval('\"{}\"')", name.replace('\'', "''")));
            }
            columns.push(column);
        }
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut table = Table {
            id,
            name: new.name.clone(),
            columns,
            indexes: Vec::new(),
            checks: new.checks.clone(),
        };
        let mut heap = Heap::default();
        for new_index in &new.indexes {
            let columns: Vec<String> =
                new_index.columns.iter().map(|column| names[*column].clone()).collect();
            if let Some(name) = &new_index.name {
                self.name_is_free(name, false)?;
            }
            let index = self.new_index(&new.name, &columns, new_index);
            heap.add_index(&index);
            self.state.catalogue.add(index.id, &index.name, Kind::Index(id), Some(xid));
            self.note(Undo::Created(index.id), None);
            table.indexes.push(index);
        }
        self.state.heaps.insert(id, heap);
        let change = Change::CreateTable(table.clone());
        self.state.catalogue.add(id, &new.name, Kind::Table(Arc::new(table)), Some(xid));
        self.note(Undo::Created(id), Some(change));
        let scope = Scope::Transaction(self.core.depth());
        let (pid, tag) = (self.core.pid, Tag::Relation(id));
        self.state.locks.acquire(pid, tag, ACCESS_EXCLUSIVE, scope, false);
        Ok(())
    }

    fn add_sequence(
        &mut self,
        name: &str,
        options: &SequenceOptions,
        owner: Option<RelationId>,
    ) -> SqlResult<()> {
        let xid = self.core.xid(self.shared, self.state);
        let increment = options.increment.unwrap_or(1);
        if increment == 0 {
            return Err(SqlError::new("22023", "INCREMENT must not be zero"));
        }
        let minimum = options.minimum.unwrap_or(if increment > 0 { 1 } else { i64::MIN });
        let maximum = options.maximum.unwrap_or(if increment > 0 { i64::MAX } else { -1 });
        if minimum >= maximum {
            let told = format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})");
            return Err(SqlError::new("22023", told));
        }
        let start = options.start.unwrap_or(if increment > 0 { minimum } else { maximum });
        for (is_out, word, limit) in [
            (start < minimum, "less than MINVALUE", minimum),
            (start > maximum, "greater than MAXVALUE", maximum),
        ] {
            if is_out {
                let told = format!("START value ({start}) cannot be {word} ({limit})");
                return Err(SqlError::new("22023", told));
            }
        }
        let id = self.state.catalogue.draw_id();
        let sequence = Sequence {
            id,
            name: name.to_owned(),
            last: start,
            is_called: false,
            start,
            increment,
            minimum,
            maximum,
            cycle: options.cycle,
            owner,
            logged: 0,
        };
        let change = Change::CreateSequence(sequence.clone());
        self.state.catalogue.add(id, name, Kind::Sequence(sequence), Some(xid));
        self.note(Undo::Created(id), Some(change));
        Ok(())
    }

    fn create_index(
        &mut self,
        table: RelationId,
        new: &NewIndex,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        if let Some(name) = &new.name
            && let Naming::There = self.name_is_free(name, if_not_exists)?
        {
            return Ok(());
        }
        let Some(definition) = self.state.catalogue.table(table).cloned() else { return Ok(()) };
        let xid = self.core.xid(self.shared, self.state);
        let columns: Vec<String> =
            new.columns.iter().map(|column| definition.columns[*column].name.clone()).collect();
        let mut unnamed = new.clone();
        if unnamed.name.is_none() {
            let stem = format!("{}_{}", definition.name, columns.join("_"));
            unnamed.name = Some(self.free_name(&stem, "idx"));
        }
        let index = self.new_index(&definition.name, &columns, &unnamed);
        if index.unique {
            self.check_unique(&definition, &index)?;
        }
        self.state.heap(table).add_index(&index);
        self.state.catalogue.add(index.id, &index.name, Kind::Index(table), Some(xid));
        self.state.catalogue.change_table(table, |table| table.indexes.push(index.clone()));
        self.note(Undo::Created(index.id), None);
        let id = index.id;
        self.note(Undo::Indexed { table, index: id }, Some(Change::CreateIndex { table, index }));
        Ok(())
    }

    /// Nobody else writes: the table is locked against it.
    fn check_unique(&self, table: &Table, index: &Index) -> SqlResult<()> {
        let mut keys = std::collections::BTreeSet::new();
        let Some(heap) = self.state.heaps.get(&table.id) else { return Ok(()) };
        for (_, tuple) in heap.iter().filter(|(_, tuple)| tuple.writer().is_none()) {
            let key: Vec<_> =
                index.columns.iter().map(|column| tuple.row[*column].clone()).collect();
            let has_null = key.iter().any(|value| value.is_null());
            if !has_null && !keys.insert(key) {
                let told = format!("could not create unique index \"{}\"", index.name);
                let detail = duplicate(table, index, &tuple.row).fields().detail.clone();
                let detail = detail.unwrap_or_default().replace("already exists", "is duplicated");
                return Err(SqlError::new("23505", told)
                    .detail(detail)
                    .table(&table.name)
                    .constraint(&index.name));
            }
        }
        Ok(())
    }

    fn drop_one(&mut self, id: RelationId) {
        let xid = self.core.xid(self.shared, self.state);
        if let Some(relation) = self.state.catalogue.get_mut(id) {
            relation.dropped_by = Some(xid);
        }
        self.note(Undo::Dropped(id), Some(Change::Drop(id)));
    }

    fn drop_table(&mut self, id: RelationId) {
        let Some(table) = self.state.catalogue.table(id).cloned() else { return };
        let owned: Vec<RelationId> = self
            .state
            .catalogue
            .iter()
            .filter(|(_, relation)| {
                matches!(&relation.kind, Kind::Sequence(sequence) if sequence.owner == Some(id))
            })
            .map(|(id, _)| id)
            .collect();
        for relation in table.indexes.iter().map(|index| index.id).chain(owned) {
            self.drop_one(relation);
        }
        self.drop_one(id);
    }

    fn drop_index(&mut self, id: RelationId) -> SqlResult<()> {
        let table = match self.state.catalogue.get(id).map(|relation| &relation.kind) {
            Some(Kind::Index(table)) => *table,
            _ => return Ok(()),
        };
        let found = self
            .state
            .catalogue
            .table(table)
            .and_then(|table| table.indexes.iter().find(|index| index.id == id).cloned());
        let Some(index) = found else { return Ok(()) };
        if index.primary {
            let table = self.state.catalogue.table(table).map_or("", |table| &table.name);
            let name = &index.name;
            let told = format!(
                "cannot drop index {name} because constraint {name} on table {table} requires it"
            );
            let hint = format!("You can drop constraint {name} on table {table} instead.");
            return Err(SqlError::new("2BP01", told).hint(hint));
        }
        let xid = self.core.xid(self.shared, self.state);
        if let Some(relation) = self.state.catalogue.get_mut(id) {
            relation.dropped_by = Some(xid);
        }
        self.state.heap(table).remove_index(id);
        self.state.catalogue.change_table(table, |table| {
            table.indexes.retain(|known| known.id != id);
        });
        self.note(Undo::Dropped(id), None);
        self.note(Undo::Unindexed { table, index }, Some(Change::DropIndex { table, index: id }));
        Ok(())
    }

    /// All rows that can be seen are deleted: the table is locked against everybody.
    fn truncate(&mut self, id: RelationId, restart: bool) -> SqlResult<()> {
        let Some(table) = self.state.catalogue.table(id).cloned() else { return Ok(()) };
        let rows: Vec<_> = match self.state.heaps.get(&id) {
            Some(heap) => heap
                .iter()
                .filter(|(_, tuple)| tuple.writer().is_none())
                .map(|(id, _)| id)
                .collect(),
            None => Vec::new(),
        };
        for tuple in rows {
            let lock = crate::sql::ast::RowLock::Update;
            self.write(&table, tuple, None, lock)?;
        }
        if restart {
            let owned = |kind: &Kind| match kind {
                Kind::Sequence(sequence) => sequence.owner == Some(id),
                _ => false,
            };
            if self.state.catalogue.iter().any(|(_, relation)| owned(&relation.kind)) {
                let what = "TRUNCATE … RESTART IDENTITY of tables with sequences";
                return Err(SqlError::unsupported(0, what));
            }
        }
        Ok(())
    }
}

impl Session {
    pub(super) async fn create_table(&mut self, new: &NewTable) -> SqlResult<()> {
        self.environment(|environment| environment.create_table(new))
    }

    pub(super) async fn create_index(
        &mut self,
        table: RelationId,
        new: &NewIndex,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        self.environment(|environment| environment.create_index(table, new, if_not_exists))
    }

    pub(crate) fn create_sequence(
        &mut self,
        name: &Name,
        if_not_exists: bool,
        options: &SequenceOptions,
    ) -> SqlResult<()> {
        self.core.may_write("CREATE SEQUENCE")?;
        self.environment(|environment| {
            match environment.name_is_free(&name.name, if_not_exists)? {
                Naming::There => Ok(()),
                Naming::Free => environment.add_sequence(&name.name, options, None),
            }
        })
    }

    pub(super) fn drop_relations(
        &mut self,
        kind: DropKind,
        relations: &[RelationId],
    ) -> SqlResult<()> {
        self.environment(|environment| {
            for id in relations {
                match kind {
                    DropKind::Table => environment.drop_table(*id),
                    DropKind::Index => environment.drop_index(*id)?,
                    DropKind::Sequence => environment.drop_one(*id),
                }
            }
            Ok(())
        })
    }

    pub(super) fn truncate(&mut self, tables: &[RelationId], restart: bool) -> SqlResult<()> {
        self.environment(|environment| {
            tables.iter().try_for_each(|id| environment.truncate(*id, restart))
        })
    }
}

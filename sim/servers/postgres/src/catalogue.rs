//! What there is: tables, indexes, sequences.
//!
//! Definitions are as transactional as rows: what a running transaction created is there
//! for itself alone, and what it dropped is there for all others, who wait for its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::transaction::Xid;
use super::value::Type;

/// Of a table, an index or a sequence: they share the numbers, as object ids do.
pub(crate) type RelationId = u32;

/// The first number that users' relations get.
const FIRST_RELATION: RelationId = 16_384;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) id: RelationId,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) checks: Vec<Check>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: Type,
    /// Of varchar(n), characters.
    pub(crate) length: Option<i32>,
    pub(crate) not_null: bool,
    /// The text of an expression.
    pub(crate) default: Option<String>,
    /// GENERATED ALWAYS AS IDENTITY.
    pub(crate) always_generated: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) id: RelationId,
    pub(crate) name: String,
    /// Positions of columns in the table.
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// The text of an expression.
    pub(crate) text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sequence {
    pub(crate) id: RelationId,
    pub(crate) name: String,
    pub(crate) last: i64,
    pub(crate) is_called: bool,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
    pub(crate) cycle: bool,
    /// The table with which it is dropped.
    pub(crate) owner: Option<RelationId>,
    /// How many more values may be taken before the log must be written again.
    #[serde(skip)]
    pub(crate) logged: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Table(Arc<Table>),
    Sequence(Sequence),
    /// Of this table.
    Index(RelationId),
}

#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The running transaction that created it.
    pub(crate) created_by: Option<Xid>,
    /// The running transaction that dropped it.
    pub(crate) dropped_by: Option<Xid>,
}

#[derive(Debug)]
pub(crate) struct Catalogue {
    relations: BTreeMap<RelationId, Relation>,
    names: BTreeMap<String, Vec<RelationId>>,
    next: RelationId,
    /// Counts changes: plans of an older version are made anew.
    pub(crate) version: u64,
}

impl Default for Catalogue {
    fn default() -> Self {
        Catalogue {
            relations: BTreeMap::new(),
            names: BTreeMap::new(),
            next: FIRST_RELATION,
            version: 1,
        }
    }
}

impl Catalogue {
    pub(crate) fn draw_id(&mut self) -> RelationId {
        let id = self.next;
        self.next += 1;
        id
    }

    pub(crate) fn add(&mut self, id: RelationId, name: &str, kind: Kind, by: Option<Xid>) {
        self.next = self.next.max(id + 1);
        self.version += 1;
        let name = name.to_owned();
        self.names.entry(name.clone()).or_default().push(id);
        self.relations.insert(id, Relation { name, kind, created_by: by, dropped_by: None });
    }

    pub(crate) fn remove(&mut self, id: RelationId) {
        self.version += 1;
        let Some(relation) = self.relations.remove(&id) else { return };
        if let Some(ids) = self.names.get_mut(&relation.name) {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.names.remove(&relation.name);
            }
        }
    }

    /// What a name means to a transaction of these numbers.
    pub(crate) fn find(&self, name: &str, is_mine: impl Fn(Xid) -> bool) -> Option<RelationId> {
        let ids = self.names.get(name)?;
        ids.iter().copied().find(|id| {
            let Some(relation) = self.relations.get(id) else { return false };
            relation.created_by.is_none_or(&is_mine) && !relation.dropped_by.is_some_and(&is_mine)
        })
    }

    /// Anything of that name, somebody's uncommitted one too: names are unique.
    pub(crate) fn holder_of_name(
        &self,
        name: &str,
        is_mine: impl Fn(Xid) -> bool,
    ) -> Option<&Relation> {
        let ids = self.names.get(name)?;
        let mut all = ids.iter().filter_map(|id| self.relations.get(id));
        all.find(|relation| !relation.dropped_by.is_some_and(&is_mine))
    }

    pub(crate) fn get(&self, id: RelationId) -> Option<&Relation> {
        self.relations.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RelationId) -> Option<&mut Relation> {
        self.version += 1;
        self.relations.get_mut(&id)
    }

    pub(crate) fn table(&self, id: RelationId) -> Option<&Arc<Table>> {
        match &self.relations.get(&id)?.kind {
            Kind::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Changes the definition of a table.
    pub(crate) fn change_table(&mut self, id: RelationId, change: impl FnOnce(&mut Table)) {
        self.version += 1;
        if let Some(Relation { kind: Kind::Table(table), .. }) = self.relations.get_mut(&id) {
            change(Arc::make_mut(table));
        }
    }

    /// A sequence, whose value is not a matter of definition.
    pub(crate) fn sequence_mut(&mut self, id: RelationId) -> Option<&mut Sequence> {
        match &mut self.relations.get_mut(&id)?.kind {
            Kind::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RelationId, &Relation)> {
        self.relations.iter().map(|(id, relation)| (*id, relation))
    }
}

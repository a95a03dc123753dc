//! The versions of a table's rows, in the order in which they were written.
//!
//! A version is never changed but for its header: who wrote it, who locks it, who
//! replaced or deleted it, and where its successor is. The number of a version stands for
//! PostgreSQL's place on a page (ctid), so that rows without ORDER BY come in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalogue::{Index, RelationId};
use super::sql::ast::RowLock;
use super::transaction::Xid;
use super::value::Value;

pub(crate) type TupleId = u64;
pub(crate) type Row = Arc<[Value]>;

/// A transaction in a row's header, PostgreSQL's xmax or a member of its MultiXact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) xid: Xid,
    pub(crate) lock: RowLock,
    /// It replaced or deleted the version, rather than only lock it.
    pub(crate) writes: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Tuple {
    pub(crate) row: Row,
    pub(crate) xmin: Xid,
    /// The command of its transaction that wrote it.
    pub(crate) cmin: u32,
    pub(crate) members: Vec<Member>,
    /// The command that replaced or deleted it.
    pub(crate) cmax: u32,
    /// The version that replaced it.
    pub(crate) next: Option<TupleId>,
}

impl Tuple {
    pub(crate) fn writer(&self) -> Option<Member> {
        self.members.iter().copied().find(|member| member.writes)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Heap {
    tuples: BTreeMap<TupleId, Tuple>,
    next: TupleId,
    keys: BTreeMap<RelationId, Keys>,
    /// Versions that were replaced or deleted since the last cleaning, about.
    pub(crate) dead: usize,
}

#[derive(Debug, Default)]
struct Keys {
    columns: Vec<usize>,
    map: BTreeMap<Vec<Value>, BTreeSet<TupleId>>,
}

fn key_of(columns: &[usize], row: &[Value]) -> Vec<Value> {
    columns.iter().map(|column| row[*column].clone()).collect()
}

impl Heap {
    pub(crate) fn draw_id(&mut self) -> TupleId {
        self.next += 1;
        self.next
    }

    pub(crate) fn get(&self, id: TupleId) -> Option<&Tuple> {
        self.tuples.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: TupleId) -> Option<&mut Tuple> {
        self.tuples.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TupleId, &Tuple)> {
        self.tuples.iter().map(|(id, tuple)| (*id, tuple))
    }

    pub(crate) fn len(&self) -> usize {
        self.tuples.len()
    }

    pub(crate) fn insert(&mut self, id: TupleId, tuple: Tuple) {
        self.next = self.next.max(id);
        for keys in self.keys.values_mut() {
            keys.map.entry(key_of(&keys.columns, &tuple.row)).or_default().insert(id);
        }
        self.tuples.insert(id, tuple);
    }

    /// Adds a version that no index leads to until [`add_key`](Heap::add_key).
    pub(crate) fn insert_without_keys(&mut self, id: TupleId, tuple: Tuple) {
        self.next = self.next.max(id);
        self.tuples.insert(id, tuple);
    }

    /// Lets an index lead to a version.
    pub(crate) fn add_key(&mut self, index: RelationId, id: TupleId) {
        let (Some(keys), Some(tuple)) = (self.keys.get_mut(&index), self.tuples.get(&id)) else {
            return;
        };
        keys.map.entry(key_of(&keys.columns, &tuple.row)).or_default().insert(id);
    }

    /// What all versions hold, bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.tuples.values().map(|tuple| super::state::row_bytes(&tuple.row)).sum()
    }

    pub(crate) fn remove(&mut self, id: TupleId) {
        let Some(tuple) = self.tuples.remove(&id) else { return };
        for keys in self.keys.values_mut() {
            let key = key_of(&keys.columns, &tuple.row);
            if let Some(ids) = keys.map.get_mut(&key) {
                ids.remove(&id);
                if ids.is_empty() {
                    keys.map.remove(&key);
                }
            }
        }
    }

    pub(crate) fn add_index(&mut self, index: &Index) {
        let mut keys = Keys { columns: index.columns.clone(), map: BTreeMap::new() };
        for (id, tuple) in &self.tuples {
            keys.map.entry(key_of(&keys.columns, &tuple.row)).or_default().insert(*id);
        }
        self.keys.insert(index.id, keys);
    }

    pub(crate) fn remove_index(&mut self, index: RelationId) {
        self.keys.remove(&index);
    }

    /// All versions with this key, in their order.
    pub(crate) fn with_key(&self, index: RelationId, key: &[Value]) -> Vec<TupleId> {
        let found = self.keys.get(&index).and_then(|keys| keys.map.get(key));
        found.map(|ids| ids.iter().copied().collect()).unwrap_or_default()
    }

    /// Drops the versions that nobody can see any more: replaced or deleted by a
    /// transaction that has ended before every snapshot.
    pub(crate) fn clean(&mut self, horizon: Xid, is_running: impl Fn(Xid) -> bool) {
        let gone: Vec<TupleId> = self
            .tuples
            .iter()
            .filter(|(_, tuple)| {
                tuple.writer().is_some_and(|writer| writer.xid < horizon && !is_running(writer.xid))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.remove(id);
        }
        self.dead = 0;
    }
}

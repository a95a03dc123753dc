//! Transactions: their numbers, what each can see, and what it would undo.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalogue::{Index, RelationId, Sequence, Table};
use super::heap::{Tuple, TupleId};
use super::sql::ast::Isolation;
use super::value::Value;

/// The number of a transaction or of a part of it behind a savepoint.
pub(crate) type Xid = u64;
/// The number of a backend, as a process id.
pub(crate) type Pid = i32;

/// The first number that is given away; smaller ones are PostgreSQL's own.
const FIRST_XID: Xid = 731;

/// Which transactions are under way. One that has a number and is not here has
/// committed: one that aborts takes back what it wrote before it leaves.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) next: Xid,
    /// The transaction that the number is a part of, itself mostly, and whose it is.
    running: BTreeMap<Xid, (Xid, Pid)>,
}

impl Default for Running {
    fn default() -> Self {
        Running { next: FIRST_XID, running: BTreeMap::new() }
    }
}

impl Running {
    pub(crate) fn begin(&mut self, top: Option<Xid>, pid: Pid) -> Xid {
        let xid = self.next;
        self.next += 1;
        self.running.insert(xid, (top.unwrap_or(xid), pid));
        xid
    }

    pub(crate) fn end(&mut self, xid: Xid) {
        self.running.remove(&xid);
    }

    pub(crate) fn contains(&self, xid: Xid) -> bool {
        self.running.contains_key(&xid)
    }

    pub(crate) fn top_of(&self, xid: Xid) -> Option<Xid> {
        self.running.get(&xid).map(|(top, _)| *top)
    }

    pub(crate) fn oldest(&self) -> Xid {
        self.running.keys().next().copied().unwrap_or(self.next)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let running = self.running.keys().copied().collect();
        Snapshot { next: self.next, running: Arc::new(running), command: 0 }
    }
}

/// What a statement can see: all that had committed when it was taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    next: Xid,
    running: Arc<BTreeSet<Xid>>,
    /// Of one's own, what earlier commands wrote.
    pub(crate) command: u32,
}

impl Snapshot {
    /// The oldest transaction that was not over.
    pub(crate) fn oldest(&self) -> Xid {
        self.running.first().copied().unwrap_or(self.next)
    }

    fn sees(&self, xid: Xid) -> bool {
        xid < self.next && !self.running.contains(&xid)
    }

    /// Whether a version is there for a transaction of the numbers `mine`.
    pub(crate) fn is_visible(&self, tuple: &Tuple, mine: &BTreeSet<Xid>) -> bool {
        let is_written = match mine.contains(&tuple.xmin) {
            true => tuple.cmin < self.command,
            false => self.sees(tuple.xmin),
        };
        is_written
            && match tuple.writer() {
                None => true,
                Some(writer) if mine.contains(&writer.xid) => tuple.cmax >= self.command,
                Some(writer) => !self.sees(writer.xid),
            }
    }
}

/// What is taken back when a transaction, or a part of it, aborts.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    Inserted {
        table: RelationId,
        tuple: TupleId,
    },
    /// Replaced or deleted by this number.
    Written {
        table: RelationId,
        tuple: TupleId,
        xid: Xid,
    },
    Locked {
        table: RelationId,
        tuple: TupleId,
        xid: Xid,
    },
    Created(RelationId),
    Dropped(RelationId),
    /// An index was made on this table.
    Indexed {
        table: RelationId,
        index: RelationId,
    },
    Unindexed {
        table: RelationId,
        index: Index,
    },
}

/// What is written to the log at the commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Change {
    Insert { table: RelationId, tuple: TupleId, row: Vec<Value> },
    Update { table: RelationId, old: TupleId, tuple: TupleId, row: Vec<Value> },
    Delete { table: RelationId, tuple: TupleId },
    CreateTable(Table),
    CreateIndex { table: RelationId, index: Index },
    CreateSequence(Sequence),
    Drop(RelationId),
    DropIndex { table: RelationId, index: RelationId },
}

/// A transaction, or its part behind a savepoint.
#[derive(Debug, Default)]
pub(crate) struct Level {
    /// The savepoint; the first level has none.
    pub(crate) name: Option<String>,
    pub(crate) xid: Option<Xid>,
    /// Numbers of released parts.
    pub(crate) released: Vec<Xid>,
    pub(crate) undo: Vec<Undo>,
    pub(crate) changes: Vec<Change>,
    /// Values that SET put in place of others in this level.
    pub(crate) parameters: Vec<(String, Option<String>)>,
    /// Whether the transaction was read-only before this level said otherwise.
    pub(crate) read_only_before: Option<bool>,
}

/// Whether and how a session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Of one statement.
    None,
    /// Of the statements of one message, or up to Sync.
    Implicit,
    /// BEGIN was said.
    Explicit,
    /// It failed; all but its end is refused.
    Failed,
}

/// A session's transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) levels: Vec<Level>,
    /// All numbers of it that have not been taken back.
    pub(crate) mine: BTreeSet<Xid>,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// Of REPEATABLE READ, once it has been taken.
    pub(crate) snapshot: Option<Snapshot>,
    /// Counts commands.
    pub(crate) command: u32,
    /// When it began, µs since 2000 on the wall clock: `now()`.
    pub(crate) began: i64,
    /// Settings for the transaction only: name and value before.
    pub(crate) local: Vec<(String, Option<String>)>,
    pub(crate) notifications: Vec<(String, String)>,
}

impl Transaction {
    pub(crate) fn new(isolation: Isolation, read_only: bool, began: i64) -> Transaction {
        Transaction {
            levels: vec![Level::default()],
            mine: BTreeSet::new(),
            isolation,
            read_only,
            snapshot: None,
            command: 0,
            began,
            local: Vec::new(),
            notifications: Vec::new(),
        }
    }

    pub(crate) fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    pub(crate) fn top_xid(&self) -> Option<Xid> {
        self.levels.first().and_then(|level| level.xid)
    }
}

//! What a server has in memory, and who shares it.
//!
//! One mutex guards all of it and is never held across an await: between two awaits a
//! backend is alone, like a PostgreSQL backend that holds the right latches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;
use tokio::sync::Notify;

use super::catalogue::{Catalogue, Kind, RelationId, Table};
use super::error::SqlError;
use super::heap::{Heap, Tuple, TupleId};
use super::locks::{Locks, Tag};
use super::observe::{AdvisoryKey, Kept, Observation, Observer, Session};
use super::settings::Settings;
use super::transaction::{Change, Pid, Running, Xid};
use super::value::{EPOCH_US, Value, text};
use super::wal::{Record, Wal};
use lockstorm_machine::disk::Files;

/// What every task of a server shares.
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) settings: Settings,
    pub(crate) files: Files,
    pub(crate) observer: Arc<dyn Observer>,
    state: Mutex<State>,
    /// Told whenever more of the log is on the disk, here or on a standby, and when the
    /// role changes.
    pub(crate) progress: Notify,
    /// Told when there is something for the log's writer.
    pub(crate) writer: Notify,
    tasks: Mutex<Option<BTreeMap<u64, Task>>>,
    /// As in the state; for who must not wait for it.
    standby: AtomicBool,
    /// Of a standby: it is to become a primary.
    promoting: AtomicBool,
    /// Where its world stands still, as a clause for people, once it does.
    pub(crate) frozen: OnceLock<Arc<str>>,
}

impl Shared {
    pub(crate) fn new(
        host: Host,
        settings: Settings,
        files: Files,
        observer: Arc<dyn Observer>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            host,
            settings,
            files,
            observer,
            state: Mutex::new(State::default()),
            progress: Notify::new(),
            writer: Notify::new(),
            tasks: Mutex::new(Some(BTreeMap::new())),
            standby: AtomicBool::new(false),
            promoting: AtomicBool::new(false),
            frozen: OnceLock::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It follows a primary, or follows none.
    pub(crate) fn set_standby(&self, state: &mut State, is_standby: bool) {
        state.is_standby = is_standby;
        self.standby.store(is_standby, Ordering::Relaxed);
        self.promoting.store(false, Ordering::Relaxed);
    }

    /// Whether it follows a primary. Nothing is locked.
    pub(crate) fn is_standby(&self) -> bool {
        self.standby.load(Ordering::Relaxed)
    }

    /// A standby is to become a primary; false: it is none. Nothing is locked: whoever is told
    /// of something inside of the server may ask for it.
    pub(crate) fn ask_for_promotion(&self) -> bool {
        let is_standby = self.is_standby();
        self.promoting.store(is_standby, Ordering::Relaxed);
        self.progress.notify_waiters();
        is_standby
    }

    /// Whether it is to become a primary.
    pub(crate) fn is_promoting(&self) -> bool {
        self.promoting.load(Ordering::Relaxed)
    }

    /// The wall clock, µs since 2000.
    pub(crate) fn wall(&self) -> i64 {
        i64::try_from(self.host.wall().as_micros()).unwrap_or(i64::MAX) - EPOCH_US
    }

    /// Spawns a task that ends with the server.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        group: &'static str,
        id: u64,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = tasks.as_mut() else { return };
        let shared = self.clone();
        let task = self.host.spawn(group, async move {
            future.await;
            let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(tasks) = tasks.as_mut() {
                tasks.remove(&id);
            }
        });
        tasks.insert(id, task);
    }

    /// Whether the server has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends every task of this server.
    pub(crate) fn end(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        for task in tasks.into_iter().flatten() {
            task.1.abort();
        }
    }

    /// The disk has failed: a server that goes on would promise what it cannot keep.
    pub(crate) fn panic(&self) {
        self.lock().has_failed = true;
        self.progress.notify_waiters();
        self.end();
    }

    pub(crate) fn is_observed(&self, table: &Table) -> bool {
        self.settings.observed_tables.contains(&table.name)
    }

    /// Gives `told` the row as observers see it, if they see that table.
    pub(crate) fn observe_row(
        &self,
        table: &Table,
        row: &[Value],
        told: impl FnOnce(&[(&str, Option<String>)]),
    ) {
        if self.is_observed(table) {
            told(&shown(table, row));
        }
    }
}

/// A row as observers see it.
pub(crate) fn shown<'a>(table: &'a Table, row: &[Value]) -> Vec<(&'a str, Option<String>)> {
    let columns = table.columns.iter().zip(row);
    columns
        .map(|(column, value)| {
            (column.name.as_str(), (!value.is_null()).then(|| text::write(value)))
        })
        .collect()
}

/// The rows of the observed tables, as a transaction that begins now sees them.
pub(crate) fn kept_rows(settings: &Settings, state: &State) -> Vec<Kept> {
    let tables = settings.observed_tables.iter();
    tables
        .flat_map(|name| rows_of(state, name).into_iter().map(|row| (name.clone(), row)))
        .collect()
}

/// The rows of a table, as a transaction that begins now sees them; none if there is no such
/// table.
pub(crate) fn rows_of(state: &State, name: &str) -> Vec<Vec<(String, Option<String>)>> {
    let table = state.catalogue.find(name, |_| false).and_then(|id| state.catalogue.table(id));
    let Some(table) = table else { return Vec::new() };
    let Some(heap) = state.heaps.get(&table.id) else { return Vec::new() };
    let (snapshot, mine) = (state.running.snapshot(), BTreeSet::new());
    let visible = heap.iter().filter(|(_, tuple)| snapshot.is_visible(tuple, &mine));
    let owned = |(column, value): (&str, Option<String>)| (column.to_owned(), value);
    visible.map(|(_, tuple)| shown(table, &tuple.row).into_iter().map(owned).collect()).collect()
}

pub(crate) fn advisory_key(tag: Tag) -> Option<AdvisoryKey> {
    match tag {
        Tag::AdvisoryBig(key) => Some(AdvisoryKey::Big(key)),
        Tag::AdvisoryPair(one, other) => Some(AdvisoryKey::Pair(one, other)),
        _ => None,
    }
}

/// What others may know of a session.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) peer: SocketAddr,
    pub(crate) secret: i32,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) application_name: String,
    pub(crate) state: &'static str,
    pub(crate) query: Arc<str>,
    /// µs since 2000 on the wall clock.
    pub(crate) started: i64,
    pub(crate) query_started: i64,
    pub(crate) state_changed: i64,
    pub(crate) transaction_began: Option<i64>,
    pub(crate) xid: Option<Xid>,
    /// The oldest transaction that it may still see as running.
    pub(crate) horizon: Option<Xid>,
    pub(crate) wait: Option<(&'static str, &'static str)>,
    pub(crate) signal: Arc<Notify>,
    pub(crate) cancelled: bool,
    pub(crate) terminated: bool,
    pub(crate) channels: BTreeSet<String>,
    /// Who notified, where, what.
    pub(crate) mail: Vec<(Pid, String, String)>,
}

/// A standby as its primary knows it.
#[derive(Clone, Debug)]
pub(crate) struct Standby {
    pub(crate) name: String,
    pub(crate) pid: Pid,
    pub(crate) written: u64,
    pub(crate) flushed: u64,
    pub(crate) applied: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) catalogue: Catalogue,
    pub(crate) heaps: BTreeMap<RelationId, Heap>,
    pub(crate) locks: Locks,
    pub(crate) running: Running,
    pub(crate) backends: BTreeMap<Pid, Backend>,
    pub(crate) wal: Wal,
    /// It has read its log.
    pub(crate) is_ready: bool,
    pub(crate) has_failed: bool,
    pub(crate) is_standby: bool,
    /// How much of the log a standby has replayed.
    pub(crate) replayed: u64,
    pub(crate) standbys: BTreeMap<u64, Standby>,
    pub(crate) next_pid: Pid,
    pub(crate) next_task: u64,
    /// Connections that have not said who they are.
    pub(crate) entering: usize,
    /// All rows together, bytes, about.
    pub(crate) memory: usize,
    /// When each processor is free, on the monotonic clock.
    pub(crate) processors: Vec<Duration>,
}

/// The first process id that a backend gets.
const FIRST_PID: Pid = 1_000;

pub(crate) fn row_bytes(row: &[Value]) -> usize {
    row.iter().map(|value| 16 + value.str().len()).sum::<usize>() + 64
}

impl State {
    pub(crate) fn draw_pid(&mut self) -> Pid {
        self.next_pid = self.next_pid.max(FIRST_PID) + 1;
        self.next_pid
    }

    pub(crate) fn draw_task(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }

    pub(crate) fn session(&self, pid: Pid) -> Session {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        Session { pid, peer: self.backends.get(&pid).map_or(unknown, |backend| backend.peer) }
    }

    /// The oldest transaction that anybody may still see as running.
    pub(crate) fn horizon(&self) -> Xid {
        let seen = self.backends.values().filter_map(|backend| backend.horizon).min();
        seen.unwrap_or(self.running.next).min(self.running.oldest())
    }

    pub(crate) fn heap(&mut self, table: RelationId) -> &mut Heap {
        self.heaps.entry(table).or_default()
    }

    pub(crate) fn tuple(&self, table: RelationId, tuple: TupleId) -> Option<&Tuple> {
        self.heaps.get(&table)?.get(tuple)
    }

    /// Drops dead versions of a table that has many.
    pub(crate) fn clean(&mut self, table: RelationId, is_asked: bool) {
        let horizon = self.horizon();
        let Some(heap) = self.heaps.get_mut(&table) else { return };
        if is_asked || heap.dead > 50 + heap.len() / 4 {
            let running = &self.running;
            heap.clean(horizon, |xid| running.contains(xid));
        }
    }

    /// Does what a record says: at recovery, and on a standby.
    pub(crate) fn replay(&mut self, record: Record) {
        match record {
            Record::Commit { xid, changes } => {
                self.running.next = self.running.next.max(xid + 1);
                for change in changes {
                    self.apply(xid, change);
                }
            }
            Record::Sequence { id, last, is_called } => {
                if let Some(sequence) = self.catalogue.sequence_mut(id) {
                    sequence.last = last;
                    sequence.is_called = is_called;
                }
            }
            Record::Promotion { timeline } => self.wal.timeline = timeline,
        }
    }

    fn apply(&mut self, xid: Xid, change: Change) {
        let write = |row: Vec<Value>| Tuple {
            row: row.into(),
            xmin: xid,
            cmin: 0,
            members: Vec::new(),
            cmax: 0,
            next: None,
        };
        match change {
            Change::Insert { table, tuple, row } => self.heap(table).insert(tuple, write(row)),
            Change::Update { table, old, tuple, row } => {
                let heap = self.heap(table);
                heap.insert(tuple, write(row));
                self.overwrite(table, old, xid, Some(tuple));
            }
            Change::Delete { table, tuple } => self.overwrite(table, tuple, xid, None),
            Change::CreateTable(table) => {
                let mut heap = Heap::default();
                table.indexes.iter().for_each(|index| heap.add_index(index));
                self.heaps.insert(table.id, heap);
                let (id, name) = (table.id, table.name.clone());
                for index in &table.indexes {
                    self.catalogue.add(index.id, &index.name, Kind::Index(id), None);
                }
                self.catalogue.add(id, &name, Kind::Table(Arc::new(table)), None);
            }
            Change::CreateIndex { table, index } => {
                self.heap(table).add_index(&index);
                self.catalogue.add(index.id, &index.name, Kind::Index(table), None);
                self.catalogue.change_table(table, |table| table.indexes.push(index));
            }
            Change::CreateSequence(sequence) => {
                let (id, name) = (sequence.id, sequence.name.clone());
                self.catalogue.add(id, &name, Kind::Sequence(sequence), None);
            }
            Change::Drop(id) => {
                self.heaps.remove(&id);
                self.catalogue.remove(id);
            }
            Change::DropIndex { table, index } => {
                self.heap(table).remove_index(index);
                self.catalogue.remove(index);
                self.catalogue.change_table(table, |table| {
                    table.indexes.retain(|known| known.id != index);
                });
            }
        }
    }

    fn overwrite(&mut self, table: RelationId, tuple: TupleId, xid: Xid, next: Option<TupleId>) {
        let heap = self.heap(table);
        heap.dead += 1;
        if let Some(tuple) = heap.get_mut(tuple) {
            let lock = super::sql::ast::RowLock::Update;
            tuple.members = vec![super::heap::Member { xid, lock, writes: true }];
            tuple.next = next;
        }
        self.clean(table, false);
    }
}

/// Tells of advisory locks that a session loses.
pub(crate) fn tell_released(
    observer: &dyn Observer,
    session: Session,
    released: impl IntoIterator<Item = (Tag, u8)>,
) {
    for (tag, mode) in released {
        if let Some(key) = advisory_key(tag) {
            let shared = mode == super::locks::SHARE;
            let told = Observation::AdvisoryReleased { session, key, shared, left: 0 };
            observer.observe(&told);
        }
    }
}

pub(crate) fn out_of_memory() -> SqlError {
    SqlError::new("53200", "out of memory")
        .detail("The simulated server has a limit on what all rows hold together.")
}

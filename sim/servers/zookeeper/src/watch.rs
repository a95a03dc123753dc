//! Watches: who hears of changes to which znode (`WatchManager`, `DataTree.setWatches`).
//!
//! There are two tables, one for a znode and its data, one for its children. A watch fires
//! once unless it is persistent; a recursive one hears of everything below its path too. The
//! watches of a connection end with it. A watch on the data and one on the children of a
//! znode that is deleted give one event, not two.
//!
//! As in ZooKeeper 3.8 a connection has one watch of one path in one table: a later one of
//! another mode takes its place, and [`Watches::contains`] asks whether anybody watches a path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::path;
use super::records::Access;
use super::tree::{Effect, Tree};

/// A path counts for another watch with each so many bytes.
const WEIGHT_BYTES: usize = 256;

/// What happened to a znode, as the number on the wire (`EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// It came.
    Created = 1,
    /// It went.
    Deleted = 2,
    /// Its data was written.
    DataChanged = 3,
    /// Children came or went.
    ChildrenChanged = 4,
}

/// For how long a watch watches what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Once,
    Persistent,
    Recursive,
}

/// Which tables are meant (`WatcherType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Children,
    Data,
    Any,
}

impl Tables {
    pub(super) fn from_number(number: i32) -> Option<Tables> {
        match number {
            1 => Some(Tables::Children),
            2 => Some(Tables::Data),
            3 => Some(Tables::Any),
            _ => None,
        }
    }
}

/// Something to tell a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) connection: u64,
    pub(super) kind: EventKind,
    pub(super) path: String,
    /// Who may hear of it; `None`: whoever asked.
    pub(super) readers: Option<Arc<[Access]>>,
}

/// How many watches one of this path counts for.
fn weight(path: &str) -> usize {
    1 + path.len() / WEIGHT_BYTES
}

#[derive(Debug, Default)]
struct Table {
    by_path: BTreeMap<String, BTreeMap<u64, Mode>>,
    by_connection: BTreeMap<u64, BTreeSet<String>>,
    /// What the watches of a connection count for.
    weights: BTreeMap<u64, usize>,
    /// How many of them are recursive.
    recursive: usize,
}

impl Table {
    fn add(&mut self, path: &str, connection: u64, mode: Mode) {
        let watchers = self.by_path.entry(path.to_owned()).or_default();
        let before = watchers.insert(connection, mode);
        self.recursive += usize::from(mode == Mode::Recursive);
        self.recursive -= usize::from(before == Some(Mode::Recursive));
        if self.by_connection.entry(connection).or_default().insert(path.to_owned()) {
            *self.weights.entry(connection).or_insert(0) += weight(path);
        }
    }

    fn remove(&mut self, path: &str, connection: u64) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Some(mode) = watchers.remove(&connection) else { return false };
        self.recursive -= usize::from(mode == Mode::Recursive);
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        if let Some(paths) = self.by_connection.get_mut(&connection) {
            paths.remove(path);
            let is_empty = paths.is_empty();
            if let Some(total) = self.weights.get_mut(&connection) {
                *total = total.saturating_sub(weight(path));
            }
            if is_empty {
                self.by_connection.remove(&connection);
                self.weights.remove(&connection);
            }
        }
        true
    }

    fn leave(&mut self, connection: u64) {
        for path in self.by_connection.get(&connection).cloned().unwrap_or_default() {
            self.remove(&path, connection);
        }
    }

    /// Whoever is to hear of it; whoever wanted to hear once is forgotten.
    fn trigger(&mut self, path: &str, kind: EventKind) -> BTreeSet<u64> {
        let mut hearers = BTreeSet::new();
        let mut once = Vec::new();
        for (connection, mode) in self.by_path.get(path).into_iter().flatten() {
            match mode {
                Mode::Recursive if kind == EventKind::ChildrenChanged => continue,
                Mode::Once => once.push(*connection),
                Mode::Recursive | Mode::Persistent => {}
            }
            hearers.insert(*connection);
        }
        for connection in once {
            self.remove(path, connection);
        }
        if self.recursive > 0 && kind != EventKind::ChildrenChanged {
            let mut at = path;
            while at != "/" {
                let Some(above) = path::parent(at) else { break };
                let watchers = self.by_path.get(above).into_iter().flatten();
                let recursive = watchers.filter(|(_, mode)| **mode == Mode::Recursive);
                hearers.extend(recursive.map(|(connection, _)| *connection));
                at = above;
            }
        }
        hearers
    }
}

/// The watches of one server.
#[derive(Debug, Default)]
pub(super) struct Watches {
    data: Table,
    children: Table,
}

impl Watches {
    pub(super) fn watch_data(&mut self, path: &str, connection: u64) {
        self.data.add(path, connection, Mode::Once);
    }

    pub(super) fn watch_children(&mut self, path: &str, connection: u64) {
        self.children.add(path, connection, Mode::Once);
    }

    /// `addWatch`.
    pub(super) fn add(&mut self, path: &str, connection: u64, mode: Mode) {
        self.data.add(path, connection, mode);
        self.children.add(path, connection, mode);
    }

    /// `checkWatches`.
    pub(super) fn contains(&self, path: &str, tables: Tables) -> bool {
        let in_children = || self.children.by_path.contains_key(path);
        let in_data = || self.data.by_path.contains_key(path);
        match tables {
            Tables::Children => in_children(),
            Tables::Data => in_data(),
            Tables::Any => in_children() || in_data(),
        }
    }

    /// `removeWatches`: false if there was none.
    pub(super) fn remove(&mut self, path: &str, tables: Tables, connection: u64) -> bool {
        match tables {
            Tables::Children => self.children.remove(path, connection),
            Tables::Data => self.data.remove(path, connection),
            Tables::Any => {
                // Both, whatever the first says.
                self.children.remove(path, connection) | self.data.remove(path, connection)
            }
        }
    }

    /// A connection has ended.
    pub(super) fn leave(&mut self, connection: u64) {
        self.data.leave(connection);
        self.children.leave(connection);
    }

    /// How many connections watch how many paths with how many watches on data: what `wchs`
    /// tells.
    pub(super) fn summary(&self) -> (usize, usize, usize) {
        let table = &self.data;
        let total = table.by_connection.values().map(BTreeSet::len).sum();
        (table.by_connection.len(), table.by_path.len(), total)
    }

    /// The paths whose data is watched, and by which connections: what `wchp` tells.
    pub(super) fn by_path(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = u64>)> {
        let paths = self.data.by_path.iter();
        paths.map(|(path, watchers)| (path.as_str(), watchers.keys().copied()))
    }

    /// The connections that watch data, and which paths: what `wchc` tells.
    pub(super) fn by_connection(&self) -> impl Iterator<Item = (u64, &BTreeSet<String>)> {
        self.data.by_connection.iter().map(|(connection, paths)| (*connection, paths))
    }

    /// How many watches a connection has; one of a long path counts for more than one.
    pub(super) fn count(&self, connection: u64) -> usize {
        let count = |table: &Table| table.weights.get(&connection).copied().unwrap_or(0);
        count(&self.data) + count(&self.children)
    }

    /// Who is to hear what of an effect, in order.
    pub(super) fn trigger(&mut self, effect: &Effect, events: &mut Vec<Event>) {
        let mut tell =
            |hearers: BTreeSet<u64>, kind: EventKind, path: &str, readers: &Arc<[Access]>| {
                events.extend(hearers.into_iter().map(|connection| {
                    let readers = Some(readers.clone());
                    Event { connection, kind, path: path.to_owned(), readers }
                }));
            };
        match effect {
            Effect::Created { path, readers, .. } => {
                let kind = EventKind::Created;
                tell(self.data.trigger(path, kind), kind, path, &readers.of_it);
                self.trigger_parent(path, &readers.of_parent, tell);
            }
            Effect::Deleted { path, readers, .. } => {
                let kind = EventKind::Deleted;
                let of_data = self.data.trigger(path, kind);
                let of_children = &self.children.trigger(path, kind) - &of_data;
                tell(of_data, kind, path, &readers.of_it);
                tell(of_children, kind, path, &readers.of_it);
                self.trigger_parent(path, &readers.of_parent, tell);
            }
            Effect::Changed { path, readers, .. } => {
                let kind = EventKind::DataChanged;
                tell(self.data.trigger(path, kind), kind, path, readers);
            }
        }
    }

    fn trigger_parent(
        &mut self,
        path: &str,
        readers: &Arc<[Access]>,
        mut tell: impl FnMut(BTreeSet<u64>, EventKind, &str, &Arc<[Access]>),
    ) {
        let Some(parent) = path::parent(path) else { return };
        let kind = EventKind::ChildrenChanged;
        tell(self.children.trigger(parent, kind), kind, parent, readers);
    }

    /// A client that was elsewhere says what it watches and which transaction it has seen:
    /// what it has missed is told at once, the rest is watched. What happened and was undone
    /// meanwhile is not noticed.
    pub(super) fn set(
        &mut self,
        tree: &Tree,
        connection: u64,
        wanted: &Wanted,
        events: &mut Vec<Event>,
    ) {
        let since = wanted.relative_zxid;
        let mut tell = |kind, path: &String| {
            // Whoever asks is told, as by ZooKeeper, whatever the access list says.
            events.push(Event { connection, kind, path: path.clone(), readers: None });
        };
        for path in &wanted.data {
            match tree.get(path) {
                None => tell(EventKind::Deleted, path),
                Some(node) if node.stat.mzxid > since => tell(EventKind::DataChanged, path),
                Some(_) => self.watch_data(path, connection),
            }
        }
        for path in &wanted.exist {
            match tree.get(path) {
                Some(_) => tell(EventKind::Created, path),
                None => self.watch_data(path, connection),
            }
        }
        for path in &wanted.child {
            match tree.get(path) {
                None => tell(EventKind::Deleted, path),
                Some(node) if node.stat.pzxid > since => tell(EventKind::ChildrenChanged, path),
                Some(_) => self.watch_children(path, connection),
            }
        }
        for path in &wanted.persistent {
            self.add(path, connection, Mode::Persistent);
        }
        for path in &wanted.recursive {
            self.add(path, connection, Mode::Recursive);
        }
    }
}

/// `SetWatches` and `SetWatches2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) relative_zxid: i64,
    pub(super) data: Vec<String>,
    pub(super) exist: Vec<String>,
    pub(super) child: Vec<String>,
    pub(super) persistent: Vec<String>,
    pub(super) recursive: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::super::records::permission;
    use super::super::tree::Readers;
    use super::*;

    fn readers() -> Readers {
        let of_parent = Arc::from([Access { permissions: permission::READ, ..Access::open() }]);
        Readers { of_it: Arc::from([Access::open()]), of_parent }
    }

    fn created(path: &str) -> Effect {
        Effect::Created { path: path.to_owned(), data: None, owner: 0, readers: readers() }
    }

    fn deleted(path: &str) -> Effect {
        Effect::Deleted { path: path.to_owned(), czxid: 1, owner: 0, readers: readers() }
    }

    fn told(watches: &mut Watches, effect: &Effect) -> Vec<(u64, EventKind, String)> {
        let mut events = Vec::new();
        watches.trigger(effect, &mut events);
        events.into_iter().map(|event| (event.connection, event.kind, event.path)).collect()
    }

    #[test]
    fn a_watch_fires_once_and_both_watches_of_a_deleted_znode_tell_once() {
        let mut watches = Watches::default();
        watches.watch_data("/a", 1);
        watches.watch_children("/a", 1);
        watches.watch_children("/a", 2);
        watches.watch_children("/", 3);
        let of = |number, kind, path: &str| (number, kind, path.to_owned());
        let expected = [
            of(1, EventKind::Deleted, "/a"),
            of(2, EventKind::Deleted, "/a"),
            of(3, EventKind::ChildrenChanged, "/"),
        ];
        assert_eq!(told(&mut watches, &deleted("/a")), expected);
        assert_eq!(told(&mut watches, &created("/a")), []);
        assert_eq!(watches.summary(), (0, 0, 0));
    }

    #[test]
    fn each_event_says_whose_list_decides_who_hears_of_it() {
        let mut watches = Watches::default();
        watches.watch_data("/a", 1);
        watches.watch_children("/", 2);
        let mut events = Vec::new();
        watches.trigger(&created("/a"), &mut events);
        let lists: Vec<_> = events.into_iter().map(|event| event.readers).collect();
        assert_eq!(lists, [Some(readers().of_it), Some(readers().of_parent)]);
        let wanted = Wanted { data: vec!["/a".to_owned()], ..Wanted::default() };
        let mut events = Vec::new();
        watches.set(&Tree::new(), 1, &wanted, &mut events);
        assert_eq!(events[0].readers, None);
    }

    #[test]
    fn persistent_watches_stay_and_recursive_ones_hear_of_everything_below() {
        let mut watches = Watches::default();
        watches.add("/a", 1, Mode::Persistent);
        watches.add("/a", 2, Mode::Recursive);
        let of = |number, kind, path: &str| (number, kind, path.to_owned());
        for _ in 0..2 {
            let expected =
                [of(2, EventKind::Created, "/a/b"), of(1, EventKind::ChildrenChanged, "/a")];
            assert_eq!(told(&mut watches, &created("/a/b")), expected);
        }
        assert!(watches.remove("/a", Tables::Any, 2));
        assert!(!watches.remove("/a", Tables::Any, 2));
        assert!(watches.contains("/a", Tables::Children));
        watches.leave(1);
        assert!(!watches.contains("/a", Tables::Any));
        assert_eq!(told(&mut watches, &created("/a/b")), []);
    }
}

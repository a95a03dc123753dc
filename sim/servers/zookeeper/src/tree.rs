//! The data tree: znodes, whose they are, which sessions live, and up to which transaction.
//!
//! Applying a transaction is deterministic: servers that applied the same transactions have
//! the same tree, byte for byte. What happened is told back as [`Effect`]s, in order, for
//! watches and observers. The arithmetic of [`Stat`] follows `DataTree` and `DataNode`.
//!
//! It decides nothing: what a transaction may do was decided when it was prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::access;
use super::code::{Code, kind};
use super::path;
use super::records::{Access, Stat, permission};
use super::transaction::{Change, Header, Transaction};

/// The owner of containers (`EphemeralType.CONTAINER_EPHEMERAL_OWNER`).
pub(super) const CONTAINER_OWNER: i64 = i64::MIN;

/// What a znode counts for beside its path and data, bytes.
const NODE_BYTES: usize = 128;

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) data: Option<Arc<[u8]>>,
    pub(super) access: Arc<[Access]>,
    /// As they are kept: `cversion` counts creations, the lengths are not filled in.
    pub(super) stat: Stat,
    pub(super) children: BTreeSet<Box<str>>,
}

impl Node {
    pub(super) fn new(data: Option<Arc<[u8]>>, access: Arc<[Access]>, stat: Stat) -> Self {
        Node { data, access, stat, children: BTreeSet::new() }
    }

    /// As clients see it (`DataNode.copyStat`).
    pub(super) fn stat(&self) -> Stat {
        let child_count = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        let length = self.data.as_ref().map_or(0, |data| data.len());
        let owner = self.stat.ephemeral_owner;
        Stat {
            cversion: self.stat.cversion.wrapping_mul(2).wrapping_sub(child_count),
            ephemeral_owner: if owner == CONTAINER_OWNER { 0 } else { owner },
            data_length: i32::try_from(length).unwrap_or(i32::MAX),
            child_count,
            ..self.stat
        }
    }

    fn bytes(&self, path: &str) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len());
        path.len() + data + access::size_bytes(&self.access) + NODE_BYTES
    }
}

/// One thing that a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A znode came.
    Created { path: String, data: Option<Arc<[u8]>>, owner: i64, readers: Readers },
    /// A znode went.
    Deleted { path: String, czxid: i64, owner: i64, readers: Readers },
    /// A znode has other data.
    Changed { path: String, data: Option<Arc<[u8]>>, version: i32, readers: Arc<[Access]> },
}

/// The access lists that say who may hear of a znode that came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Readers {
    pub(super) of_it: Arc<[Access]>,
    /// That its parent's children changed.
    pub(super) of_parent: Arc<[Access]>,
}

/// What became of a transaction, or of a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) kind: i32,
    pub(super) code: i32,
    pub(super) path: Option<String>,
    pub(super) stat: Option<Stat>,
    /// Of a `multi`.
    pub(super) parts: Vec<Outcome>,
}

/// All znodes and sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<String, Node>,
    /// The znodes that die with a session.
    pub(super) ephemerals: BTreeMap<i64, BTreeSet<String>>,
    pub(super) containers: BTreeSet<String>,
    /// The timeouts of the sessions that live, ms.
    pub(super) sessions: BTreeMap<i64, i32>,
    /// The newest transaction that was applied.
    pub(super) last_zxid: i64,
    bytes: usize,
}

impl Tree {
    /// The tree of a server that has never run: the root and ZooKeeper's own znodes.
    pub(super) fn new() -> Tree {
        let open: Arc<[Access]> = Arc::from([Access::open()]);
        let mut read = Access::open();
        read.permissions = permission::READ;
        let empty = Node::new(Some(Arc::from([])), open, Stat::default());
        let config_stat = Stat { aversion: -1, ..Stat::default() };
        let config = Node::new(Some(Arc::from([])), Arc::from([read]), config_stat);
        let mut tree = Tree {
            nodes: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
            sessions: BTreeMap::new(),
            last_zxid: 0,
            bytes: 0,
        };
        for (path, node) in [
            ("/", &empty),
            ("/zookeeper", &empty),
            ("/zookeeper/quota", &empty),
            ("/zookeeper/config", &config),
        ] {
            tree.put(path.to_owned(), node.clone());
        }
        tree
    }

    /// A tree without a single znode, to be filled by [`put`](Tree::put).
    pub(super) fn bare() -> Tree {
        let mut tree = Tree::new();
        tree.nodes.clear();
        tree.bytes = 0;
        tree
    }

    /// The znode at `path`; the empty path is the root, as in ZooKeeper.
    pub(super) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    /// How large it is, bytes, as this server counts them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a znode where there is none, and its name into its parent.
    pub(super) fn put(&mut self, path: String, node: Node) {
        if path != "/"
            && let Some(parent) = path::parent(&path).and_then(|parent| self.nodes.get_mut(parent))
        {
            parent.children.insert(path::name(&path).into());
        }
        match node.stat.ephemeral_owner {
            0 => {}
            CONTAINER_OWNER => {
                self.containers.insert(path.clone());
            }
            owner => {
                self.ephemerals.entry(owner).or_default().insert(path.clone());
            }
        }
        self.bytes += node.bytes(&path);
        self.nodes.insert(path, node);
    }

    /// The data of `/zookeeper/config`, which every member of an ensemble fills in itself.
    pub(super) fn set_config(&mut self, text: &str, version: i64) {
        if let Some(node) = self.nodes.get_mut("/zookeeper/config") {
            node.data = Some(Arc::from(text.as_bytes()));
            node.stat.version = -1;
            node.stat.mzxid = version;
        }
    }

    /// Applies a transaction, which must be newer than all before.
    pub(super) fn apply(
        &mut self,
        transaction: &Transaction,
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        let header = &transaction.header;
        let outcome = match &transaction.change {
            Change::Multi(parts) => self.apply_multi(header, parts, effects),
            change => self.apply_single(header, header.kind, change, effects),
        };
        self.last_zxid = self.last_zxid.max(header.zxid);
        outcome
    }

    fn apply_multi(
        &mut self,
        header: &Header,
        parts: &[(i32, Change)],
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        let failed = parts.iter().position(|(kind, _)| *kind == kind::ERROR);
        let mut outcome = Outcome { kind: kind::MULTI, ..Outcome::default() };
        for (index, (kind, change)) in parts.iter().enumerate() {
            let part = match (failed, change) {
                (Some(_), Change::Error { code }) => {
                    Outcome { kind: kind::ERROR, code: *code, ..Outcome::default() }
                }
                // What stands before the refused one says nothing, what stands behind it
                // that the whole is inconsistent.
                (Some(failed), _) => {
                    let code = if index > failed { Code::RUNTIME_INCONSISTENCY } else { Code::OK };
                    Outcome { kind: kind::ERROR, code: code.0, ..Outcome::default() }
                }
                (None, change) => self.apply_single(header, *kind, change, effects),
            };
            if outcome.code == 0 {
                outcome.code = part.code;
            }
            outcome.parts.push(part);
        }
        outcome
    }

    fn apply_single(
        &mut self,
        header: &Header,
        kind: i32,
        change: &Change,
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        let mut outcome = Outcome { kind, ..Outcome::default() };
        match change {
            Change::Create { path, data, access, ephemeral, parent_cversion } => {
                let owner = if *ephemeral { header.session } else { 0 };
                let new = New { path, data, access, owner, parent_cversion: *parent_cversion };
                outcome.stat = self.create(header, new, &mut outcome.code, effects);
                outcome.path = Some(path.clone());
                if kind == kind::CREATE {
                    outcome.stat = None;
                }
            }
            Change::CreateContainer { path, data, access, parent_cversion } => {
                let owner = CONTAINER_OWNER;
                let new = New { path, data, access, owner, parent_cversion: *parent_cversion };
                outcome.stat = self.create(header, new, &mut outcome.code, effects);
                outcome.path = Some(path.clone());
            }
            Change::Delete { path } => {
                outcome.code = self.delete(header.zxid, path, effects);
                outcome.path = Some(path.clone());
            }
            Change::SetData { path, data, version } => {
                outcome.stat = self.set_data(header, path, data.as_deref(), *version, effects);
                outcome.path = Some(path.clone());
            }
            Change::SetAccess { path, access, version } => {
                outcome.stat = self.set_access(path, access, *version);
                outcome.path = Some(path.clone());
            }
            Change::Check { path, .. } => outcome.path = Some(path.clone()),
            Change::CreateSession { timeout_ms } => {
                self.sessions.insert(header.session, *timeout_ms);
            }
            Change::CloseSession { paths } => {
                self.close_session(header.zxid, header.session, paths, effects);
            }
            Change::Error { code } => outcome.code = *code,
            // Does not nest.
            Change::Multi(_) => outcome.code = Code::MARSHALLING.0,
        }
        let lacks_stat = matches!(change, Change::SetData { .. } | Change::SetAccess { .. });
        if lacks_stat && outcome.stat.is_none() {
            outcome.code = Code::NO_NODE.0;
        }
        outcome
    }

    fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(if path.is_empty() { "/" } else { path })
    }

    fn create(
        &mut self,
        header: &Header,
        new: New<'_>,
        code: &mut i32,
        effects: &mut Vec<Effect>,
    ) -> Option<Stat> {
        let parent = path::parent(new.path).and_then(|parent| self.nodes.get_mut(parent));
        let Some(parent) = parent else {
            *code = Code::NO_NODE.0;
            return None;
        };
        if new.path == "/" || parent.children.contains(path::name(new.path)) {
            *code = Code::NODE_EXISTS.0;
            return None;
        }
        let cversion = match new.parent_cversion {
            -1 => parent.stat.cversion.wrapping_add(1),
            given => given,
        };
        if cversion > parent.stat.cversion {
            parent.stat.cversion = cversion;
            parent.stat.pzxid = header.zxid;
        }
        let readers = Readers { of_it: Arc::from(new.access), of_parent: parent.access.clone() };
        let stat = Stat {
            czxid: header.zxid,
            mzxid: header.zxid,
            pzxid: header.zxid,
            ctime_ms: header.time_ms,
            mtime_ms: header.time_ms,
            ephemeral_owner: new.owner,
            ..Stat::default()
        };
        let data: Option<Arc<[u8]>> = new.data.as_deref().map(Arc::from);
        let node = Node::new(data.clone(), readers.of_it.clone(), stat);
        let stat = node.stat();
        let path = new.path.to_owned();
        self.put(path.clone(), node);
        effects.push(Effect::Created { path, data, owner: new.owner, readers });
        Some(stat)
    }

    fn delete(&mut self, zxid: i64, path: &str, effects: &mut Vec<Effect>) -> i32 {
        // Whoever prepared the transaction has seen to it; a leader that has not must not
        // leave znodes without a parent here.
        match self.get(path) {
            None => return Code::NO_NODE.0,
            Some(node) if path == "/" || !node.children.is_empty() => return Code::NOT_EMPTY.0,
            Some(_) => {}
        }
        let parent = path::parent(path).and_then(|parent| self.nodes.get_mut(parent));
        let Some(parent) = parent else { return Code::NO_NODE.0 };
        parent.children.remove(path::name(path));
        parent.stat.pzxid = parent.stat.pzxid.max(zxid);
        let of_parent = parent.access.clone();
        let Some(node) = self.nodes.remove(path) else { return Code::NO_NODE.0 };
        self.bytes = self.bytes.saturating_sub(node.bytes(path));
        let owner = node.stat.ephemeral_owner;
        match owner {
            0 => {}
            CONTAINER_OWNER => {
                self.containers.remove(path);
            }
            owner => {
                if let Some(paths) = self.ephemerals.get_mut(&owner) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&owner);
                    }
                }
            }
        }
        let (path, czxid) = (path.to_owned(), node.stat.czxid);
        let readers = Readers { of_it: node.access, of_parent };
        effects.push(Effect::Deleted { path, czxid, owner, readers });
        0
    }

    fn set_data(
        &mut self,
        header: &Header,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        effects: &mut Vec<Effect>,
    ) -> Option<Stat> {
        let node = self.node_mut(path)?;
        let before = node.bytes(path);
        node.data = data.map(Arc::from);
        node.stat.mtime_ms = header.time_ms;
        node.stat.mzxid = header.zxid;
        node.stat.version = version;
        let (stat, after, data) = (node.stat(), node.bytes(path), node.data.clone());
        let (path, readers) = (path.to_owned(), node.access.clone());
        self.bytes = self.bytes.saturating_sub(before) + after;
        effects.push(Effect::Changed { path, data, version, readers });
        Some(stat)
    }

    fn set_access(&mut self, path: &str, list: &[Access], version: i32) -> Option<Stat> {
        let node = self.node_mut(path)?;
        let before = node.bytes(path);
        node.access = Arc::from(list);
        node.stat.aversion = version;
        let (stat, after) = (node.stat(), node.bytes(path));
        self.bytes = self.bytes.saturating_sub(before) + after;
        Some(stat)
    }

    /// The znodes that the transaction names, then any that it should have named.
    fn close_session(
        &mut self,
        zxid: i64,
        session: i64,
        paths: &[String],
        effects: &mut Vec<Effect>,
    ) {
        for path in paths {
            self.delete(zxid, path, effects);
        }
        // Those that the transaction does not name (a leader before 3.8 names none). One that
        // cannot go, since a foreign log put children below it, stays in the list.
        for path in self.ephemerals.get(&session).cloned().unwrap_or_default() {
            self.delete(zxid, &path, effects);
        }
        self.sessions.remove(&session);
    }

    /// How many znodes there are below `path` (`DataTree.getAllChildrenNumber`).
    pub(super) fn descendants(&self, path: &str) -> usize {
        if path == "/" {
            return self.nodes.len() - 1;
        }
        let prefix = format!("{path}/");
        let from = self.nodes.range::<str, _>((
            std::ops::Bound::Included(prefix.as_str()),
            std::ops::Bound::Unbounded,
        ));
        from.take_while(|(path, _)| path.starts_with(&prefix)).count()
    }
}

/// What is to be created.
struct New<'a> {
    path: &'a str,
    data: &'a Option<Vec<u8>>,
    access: &'a [Access],
    owner: i64,
    parent_cversion: i32,
}

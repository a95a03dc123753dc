//! Preparing: from a request to the transaction that it becomes
//! (`PrepRequestProcessor`).
//!
//! The leader prepares requests in the order in which they come, long before the first of
//! them is applied: what is decided and not yet applied is in [`Outstanding`], and a request
//! is judged by the tree as it will be then. A refused request becomes a transaction as
//! well, one that changes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::access;
use super::code::{Code, kind};
use super::codec::Reader;
use super::path;
use super::records::{Access, Create, Identity, Mode, Operation, permission};
use super::session::{Owner, Tracker};
use super::transaction::Change;
use super::tree::{CONTAINER_OWNER, Node, Tree};

/// What preparing must know of a znode.
#[derive(Clone, Debug)]
struct Facts {
    version: i32,
    cversion: i32,
    aversion: i32,
    owner: i64,
    child_count: i64,
    access: Arc<[Access]>,
}

impl Facts {
    fn of(node: &Node) -> Facts {
        Facts {
            version: node.stat.version,
            cversion: node.stat.cversion,
            aversion: node.stat.aversion,
            owner: node.stat.ephemeral_owner,
            child_count: node.children.len() as i64,
            access: node.access.clone(),
        }
    }
}

/// Znodes as they will be; `None`: gone.
type Changes = BTreeMap<String, Option<Facts>>;

/// What is decided and not yet applied.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    by_path: BTreeMap<String, (i64, Option<Facts>)>,
    order: VecDeque<(i64, String)>,
    /// How much it adds to the tree, bytes.
    bytes: VecDeque<(i64, usize)>,
}

impl Outstanding {
    /// All up to this transaction is applied.
    pub(super) fn applied(&mut self, zxid: i64) {
        while let Some((of, _)) = self.order.front() {
            if *of > zxid {
                break;
            }
            let Some((of, path)) = self.order.pop_front() else { break };
            if self.by_path.get(&path).is_some_and(|(newest, _)| *newest == of) {
                self.by_path.remove(&path);
            }
        }
        while self.bytes.front().is_some_and(|(of, _)| *of <= zxid) {
            self.bytes.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.iter().map(|(_, bytes)| bytes).sum()
    }

    fn add(&mut self, zxid: i64, changes: Changes, bytes: usize) {
        for (path, facts) in changes {
            self.order.push_back((zxid, path.clone()));
            self.by_path.insert(path, (zxid, facts));
        }
        if bytes > 0 {
            self.bytes.push_back((zxid, bytes));
        }
    }
}

/// A request to be prepared.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) session: i64,
    pub(super) kind: i32,
    pub(super) body: &'a [u8],
    pub(super) identities: &'a [Identity],
    pub(super) owner: Option<Owner>,
}

/// Where requests are prepared.
pub(super) struct Preparer<'a> {
    pub(super) tree: &'a Tree,
    pub(super) outstanding: &'a mut Outstanding,
    pub(super) tracker: &'a mut Tracker,
    pub(super) now: std::time::Duration,
    pub(super) tree_limit_bytes: usize,
}

/// One request being prepared.
struct Draft<'a, 'b> {
    base: &'b mut Preparer<'a>,
    asked: &'b Asked<'b>,
    changes: Changes,
    bytes: usize,
}

impl Preparer<'_> {
    /// The kind of the transaction with this number, and what it changes.
    pub(super) fn prepare(&mut self, zxid: i64, asked: &Asked<'_>) -> (i32, Change) {
        let mut draft = Draft { base: self, asked, changes: Changes::new(), bytes: 0 };
        let prepared = match asked.kind {
            kind::MULTI => draft.multi(),
            kind::CREATE_SESSION => draft.create_session(),
            kind::CLOSE_SESSION => Ok(draft.close_session()),
            kind::DELETE_CONTAINER => draft.delete_container(),
            kind::RECONFIG => Err(Code::RECONFIG_DISABLED),
            kind => Operation::read(kind, &mut Reader::new(asked.body))
                .map_err(|_| Code::MARSHALLING)
                .and_then(|operation| draft.operation(&operation)),
        };
        let (changes, bytes) = (draft.changes, draft.bytes);
        match prepared {
            Ok(change) => {
                self.outstanding.add(zxid, changes, bytes);
                (asked.kind, change)
            }
            Err(code) => {
                // A multi that ZooKeeper gave up half-way is not rolled back: what comes before
                // this transaction is applied is prepared as if those parts were done.
                self.outstanding.add(zxid, changes, 0);
                (kind::ERROR, Change::Error { code: code.0 })
            }
        }
    }
}

impl Draft<'_, '_> {
    fn facts(&self, path: &str) -> Result<Facts, Code> {
        let path = if path.is_empty() { "/" } else { path };
        let changed = self
            .changes
            .get(path)
            .or_else(|| self.base.outstanding.by_path.get(path).map(|(_, facts)| facts));
        let facts = match changed {
            Some(facts) => facts.clone(),
            None => self.base.tree.get(path).map(Facts::of),
        };
        facts.ok_or(Code::NO_NODE)
    }

    fn check_session(&mut self) -> Result<(), Code> {
        self.base.tracker.check(self.asked.session, self.asked.owner)
    }

    fn check_access(&self, facts: &Facts, wanted: i32) -> Result<(), Code> {
        access::check(&facts.access, wanted, self.asked.identities)
    }

    /// The operations before a refused one say nothing then, those behind it that the whole
    /// is inconsistent.
    fn multi(&mut self) -> Result<Change, Code> {
        let operations = Operation::read_multi(&mut Reader::new(self.asked.body));
        let operations = operations.map_err(|_| Code::MARSHALLING)?;
        let mut failed = false;
        let mut parts = Vec::with_capacity(operations.len());
        for (called, operation) in &operations {
            if !failed && operation.kind() == kind::CREATE_TTL && *called != kind::CREATE_TTL {
                // The flags want a time to live and the record has none: ZooKeeper takes it for
                // a record of another class, and gives up.
                return Err(Code::MARSHALLING);
            }
            let code = match failed {
                true => Code::RUNTIME_INCONSISTENCY,
                false => match self.operation(operation) {
                    Ok(change) => {
                        parts.push((operation.kind(), change));
                        continue;
                    }
                    Err(code) => code,
                },
            };
            failed = true;
            parts.push((kind::ERROR, Change::Error { code: code.0 }));
        }
        if failed {
            self.changes.clear();
            self.bytes = 0;
        }
        Ok(Change::Multi(parts))
    }

    fn operation(&mut self, operation: &Operation) -> Result<Change, Code> {
        match operation {
            Operation::Create { kind, create } => self.create(*kind, create),
            Operation::Delete { path, version } => self.delete(path, *version),
            Operation::SetData { path, data, version } => {
                self.set_data(path, data.as_deref(), *version)
            }
            Operation::SetAccess { path, access, version } => {
                self.set_access(path, access, *version)
            }
            Operation::Check { path, version } => {
                self.check_session()?;
                valid(path)?;
                let facts = self.facts(path)?;
                self.check_access(&facts, permission::READ)?;
                let version = next_version(facts.version, *version)?;
                Ok(Change::Check { path: path.clone(), version })
            }
        }
    }

    fn create(&mut self, kind: i32, create: &Create) -> Result<Change, Code> {
        let mode = Mode::from_flags(create.flags).ok_or(Code::BAD_ARGUMENTS)?;
        if mode.expiring {
            // As without `zookeeper.extendedTypesEnabled`.
            return Err(Code::UNIMPLEMENTED);
        }
        if kind == kind::CREATE_TTL {
            // A time to live for what does not expire (`EphemeralType.validateTTL`).
            return Err(Code::BAD_ARGUMENTS);
        }
        self.check_session().map_err(|code| match code {
            Code::UNKNOWN_SESSION if mode.ephemeral => Code::SESSION_EXPIRED,
            code => code,
        })?;
        if create.path.contains('\0') {
            return Err(Code::BAD_ARGUMENTS);
        }
        let parent_path = path::parent(&create.path).ok_or(Code::BAD_ARGUMENTS)?;
        let list = access::settle(&create.access, self.asked.identities)?;
        let mut parent = self.facts(parent_path)?;
        self.check_access(&parent, permission::CREATE)?;
        let mut path = create.path.clone();
        if mode.sequential {
            path = format!("{path}{:010}", parent.cversion);
        }
        valid(&path)?;
        if self.facts(&path).is_ok() {
            return Err(Code::NODE_EXISTS);
        }
        if !matches!(parent.owner, 0 | CONTAINER_OWNER) {
            return Err(Code::NO_CHILDREN_FOR_EPHEMERALS);
        }
        let data = create.data.as_ref().map_or(0, Vec::len);
        self.room_for(path.len() + data + access::size_bytes(&list))?;
        parent.cversion = parent.cversion.wrapping_add(1);
        parent.child_count += 1;
        let parent_cversion = parent.cversion;
        let owner = match mode {
            Mode { container: true, .. } => CONTAINER_OWNER,
            Mode { ephemeral: true, .. } => self.asked.session,
            _ => 0,
        };
        let facts = Facts {
            version: 0,
            cversion: 0,
            aversion: 0,
            owner,
            child_count: 0,
            access: Arc::from(list.as_slice()),
        };
        self.changes.insert(parent_path.to_owned(), Some(parent));
        self.changes.insert(path.clone(), Some(facts));
        let data = create.data.clone();
        Ok(match kind {
            kind::CREATE_CONTAINER => {
                Change::CreateContainer { path, data, access: list, parent_cversion }
            }
            _ => {
                let ephemeral = mode.ephemeral;
                Change::Create { path, data, access: list, ephemeral, parent_cversion }
            }
        })
    }

    /// Refuses what would make the tree larger than this server holds.
    fn room_for(&mut self, bytes: usize) -> Result<(), Code> {
        let used = self.base.tree.bytes() + self.base.outstanding.bytes() + self.bytes;
        if used.saturating_add(bytes) > self.base.tree_limit_bytes {
            return Err(Code::QUOTA_EXCEEDED);
        }
        self.bytes += bytes;
        Ok(())
    }

    fn delete(&mut self, path: &str, version: i32) -> Result<Change, Code> {
        self.check_session()?;
        let parent_path = deletable(path)?;
        let mut parent = self.facts(parent_path)?;
        self.check_access(&parent, permission::DELETE)?;
        let facts = self.facts(path)?;
        next_version(facts.version, version)?;
        if facts.child_count > 0 {
            return Err(Code::NOT_EMPTY);
        }
        parent.child_count -= 1;
        self.changes.insert(parent_path.to_owned(), Some(parent));
        self.changes.insert(path.to_owned(), None);
        Ok(Change::Delete { path: path.to_owned() })
    }

    fn set_data(&mut self, path: &str, data: Option<&[u8]>, version: i32) -> Result<Change, Code> {
        self.check_session()?;
        valid(path)?;
        let mut facts = self.facts(path)?;
        self.check_access(&facts, permission::WRITE)?;
        let version = next_version(facts.version, version)?;
        self.room_for(data.map_or(0, <[u8]>::len))?;
        facts.version = version;
        self.changes.insert(path.to_owned(), Some(facts));
        Ok(Change::SetData { path: path.to_owned(), data: data.map(<[u8]>::to_vec), version })
    }

    fn set_access(&mut self, path: &str, wanted: &[Access], version: i32) -> Result<Change, Code> {
        self.check_session()?;
        valid(path)?;
        let list = access::settle(wanted, self.asked.identities)?;
        let mut facts = self.facts(path)?;
        self.check_access(&facts, permission::ADMIN)?;
        let version = next_version(facts.aversion, version)?;
        self.room_for(access::size_bytes(&list))?;
        facts.aversion = version;
        facts.access = Arc::from(list.as_slice());
        self.changes.insert(path.to_owned(), Some(facts));
        Ok(Change::SetAccess { path: path.to_owned(), access: list, version })
    }

    fn delete_container(&mut self) -> Result<Change, Code> {
        let path = String::from_utf8_lossy(self.asked.body).into_owned();
        let parent_path = deletable(&path)?;
        let facts = self.facts(&path)?;
        if facts.child_count > 0 {
            return Err(Code::NOT_EMPTY);
        }
        if facts.owner != CONTAINER_OWNER {
            return Err(Code::BAD_VERSION);
        }
        let mut parent = self.facts(parent_path)?;
        parent.child_count -= 1;
        self.changes.insert(parent_path.to_owned(), Some(parent));
        self.changes.insert(path.clone(), None);
        Ok(Change::Delete { path })
    }

    fn create_session(&mut self) -> Result<Change, Code> {
        let timeout_ms = Reader::new(self.asked.body).int().map_err(|_| Code::MARSHALLING)?;
        let (session, owner) = (self.asked.session, self.asked.owner);
        self.base.tracker.track(session, timeout_ms, self.base.now);
        self.base.tracker.set_owner(session, owner);
        Ok(Change::CreateSession { timeout_ms })
    }

    /// Names all znodes that die with the session: those that are there and those to come.
    /// Their parents do not count them out until it is applied, as in ZooKeeper.
    fn close_session(&mut self) -> Change {
        let session = self.asked.session;
        let mut paths = self.base.tree.ephemerals.get(&session).cloned().unwrap_or_default();
        for (path, (_, facts)) in &self.base.outstanding.by_path {
            match facts {
                None => {
                    paths.remove(path);
                }
                Some(facts) if facts.owner == session => {
                    paths.insert(path.clone());
                }
                Some(_) => {}
            }
        }
        for path in &paths {
            self.changes.insert(path.clone(), None);
        }
        self.base.tracker.set_closing(session);
        Change::CloseSession { paths: paths.into_iter().collect() }
    }
}

fn valid(path: &str) -> Result<(), Code> {
    if path::is_valid(path) { Ok(()) } else { Err(Code::BAD_ARGUMENTS) }
}

/// The parent of a path that may be deleted.
fn deletable(path: &str) -> Result<&str, Code> {
    if path.contains('\0') || path::is_special(path) {
        return Err(Code::BAD_ARGUMENTS);
    }
    path::parent(path).ok_or(Code::BAD_ARGUMENTS)
}

fn next_version(current: i32, wanted: i32) -> Result<i32, Code> {
    match wanted == -1 || wanted == current {
        true => Ok(current.wrapping_add(1)),
        false => Err(Code::BAD_VERSION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;
    use crate::records::write_multi_header;
    use crate::transaction::{Header, Transaction};
    use std::time::Duration;

    fn create(writer: &mut Writer, path: &str, flags: i32) {
        writer.text(path).buffer(Some(b""));
        Access::write_list(&[Access::open()], writer);
        writer.int(flags);
    }

    fn multi(creations: &[(&str, i32)]) -> Vec<u8> {
        let mut writer = Writer::new();
        for (path, flags) in creations {
            write_multi_header(&mut writer, kind::CREATE2, false, -1);
            create(&mut writer, path, *flags);
        }
        write_multi_header(&mut writer, -1, true, -1);
        writer.into_bytes()
    }

    /// What the parent of `/a` has as its child version when the multi of `creations` was
    /// prepared before it, and not yet applied, or applied.
    fn cversion_behind(creations: &[(&str, i32)], applied: bool) -> i32 {
        let mut tree = Tree::new();
        let mut outstanding = Outstanding::default();
        let sessions = BTreeMap::from([(1, 10_000)]);
        let mut tracker = Tracker::new(Duration::from_secs(2), Duration::ZERO, &sessions);
        let mut one = Writer::new();
        create(&mut one, "/a", 0);
        let (several, one) = (multi(creations), one.into_bytes());
        for (zxid, (kind, body)) in
            (1..).zip([(kind::MULTI, several.as_slice()), (kind::CREATE, &one)])
        {
            let asked = Asked { session: 1, kind, body, identities: &[], owner: None };
            let mut preparer = Preparer {
                tree: &tree,
                outstanding: &mut outstanding,
                tracker: &mut tracker,
                now: Duration::ZERO,
                tree_limit_bytes: 1 << 20,
            };
            let (kind, change) = preparer.prepare(zxid, &asked);
            if let Change::Create { parent_cversion, .. } = change {
                return parent_cversion;
            }
            if applied {
                let header = Header { session: 1, xid: 0, zxid, time_ms: 0, kind };
                tree.apply(&Transaction::new(header, change), &mut Vec::new());
                outstanding.applied(zxid);
            }
        }
        panic!("`/a` is created");
    }

    /// Measured with a real server (seed 844 of the drawn sequences).
    #[test]
    fn of_a_multi_given_up_half_way_the_first_parts_count_until_it_is_applied() {
        const SEQUENTIAL: i32 = 2;
        const EXPIRING: i32 = 6;
        let given_up = [("/c", SEQUENTIAL), ("/b", EXPIRING)];
        assert_eq!(cversion_behind(&given_up, false), 2);
        assert_eq!(cversion_behind(&given_up, true), 1);
        // One that is refused is taken back.
        let refused = [("/c", SEQUENTIAL), ("no path", 0)];
        assert_eq!(cversion_behind(&refused, false), 1);
        assert_eq!(cversion_behind(&[("/c", SEQUENTIAL)], false), 2);
    }
}

//! Requests as a generator draws them, and as they go over the wire.

use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::codec::Writer;
use lockstorm_sim::server::zookeeper::records::{Access, Identity, write_multi_header};

use super::draw::Draw;
use super::wire;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Create {
        kind: i32,
        path: String,
        data: Option<Vec<u8>>,
        access: Vec<Access>,
        flags: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
    /// `exists`, `getData`, `getChildren`, `getChildren2`.
    Look {
        kind: i32,
        path: String,
        watch: bool,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    GetAccess {
        path: String,
    },
    SetAccess {
        path: String,
        access: Vec<Access>,
        version: i32,
    },
    Sync {
        path: String,
    },
    Check {
        path: String,
        version: i32,
    },
    Multi(Vec<Ask>),
    MultiRead(Vec<Ask>),
    /// `setWatches`, `setWatches2`, as of so many transactions after the beginning.
    SetWatches {
        kind: i32,
        since: i64,
        lists: Vec<Vec<String>>,
    },
    AddWatch {
        path: String,
        mode: i32,
    },
    /// `checkWatches`, `removeWatches`.
    Watches {
        kind: i32,
        path: String,
        tables: i32,
    },
    GetEphemerals {
        prefix: String,
    },
    /// `getAllChildrenNumber`.
    Count {
        path: String,
    },
    WhoAmI,
    Authenticate {
        scheme: String,
        secret: Vec<u8>,
    },
    CloseSession,
    Ping,
    /// Whatever these bytes are.
    Raw {
        kind: i32,
        body: Vec<u8>,
    },
}

impl Ask {
    /// A multi that ZooKeeper gives up at a later part than its first, and does not take back:
    /// a creation whose flags want a time to live in a record that has none. What is sent
    /// behind it at once meets the first parts, or does not: a matter of its threads.
    pub fn is_given_up_half_way(&self) -> bool {
        let expires = |part: &Ask| match part {
            Ask::Create { kind, flags, .. } => *flags >= 5 && *kind != kind::CREATE_TTL,
            _ => false,
        };
        matches!(self, Ask::Multi(parts) if parts.iter().skip(1).any(expires))
    }

    pub fn kind(&self) -> i32 {
        match self {
            Ask::Create { kind, .. }
            | Ask::Look { kind, .. }
            | Ask::SetWatches { kind, .. }
            | Ask::Watches { kind, .. }
            | Ask::Raw { kind, .. } => *kind,
            Ask::Delete { .. } => kind::DELETE,
            Ask::SetData { .. } => kind::SET_DATA,
            Ask::GetAccess { .. } => kind::GET_ACL,
            Ask::SetAccess { .. } => kind::SET_ACL,
            Ask::Sync { .. } => kind::SYNC,
            Ask::Check { .. } => kind::CHECK,
            Ask::Multi(_) => kind::MULTI,
            Ask::MultiRead(_) => kind::MULTI_READ,
            Ask::AddWatch { .. } => kind::ADD_WATCH,
            Ask::GetEphemerals { .. } => kind::GET_EPHEMERALS,
            Ask::Count { .. } => kind::GET_ALL_CHILDREN_NUMBER,
            Ask::WhoAmI => kind::WHO_AM_I,
            Ask::Authenticate { .. } => kind::AUTH,
            Ask::CloseSession => kind::CLOSE_SESSION,
            Ask::Ping => kind::PING,
        }
    }

    /// The number that its kind always has.
    pub fn fixed_xid(&self) -> Option<i32> {
        match self {
            Ask::Ping => Some(-2),
            Ask::Authenticate { .. } => Some(-4),
            Ask::SetWatches { .. } => Some(-8),
            _ => None,
        }
    }

    /// Its bytes; `base` is the transaction at the beginning of the sequence.
    pub fn body(&self, base: i64) -> Vec<u8> {
        let mut body = Writer::new();
        self.write(base, &mut body);
        body.into_bytes()
    }

    fn write(&self, base: i64, body: &mut Writer) {
        match self {
            Ask::Create { kind, path, data, access, flags } => {
                body.raw(&wire::create(path, data.as_deref(), access, *flags));
                if *kind == kind::CREATE_TTL {
                    body.long(1_000_000);
                }
            }
            Ask::Delete { path, version } | Ask::Check { path, version } => {
                body.text(path).int(*version);
            }
            Ask::Look { path, watch, .. } => {
                body.text(path).boolean(*watch);
            }
            Ask::SetData { path, data, version } => {
                body.text(path).buffer(data.as_deref()).int(*version);
            }
            Ask::GetAccess { path } | Ask::Sync { path } | Ask::Count { path } => {
                body.text(path);
            }
            Ask::SetAccess { path, access, version } => {
                body.text(path);
                Access::write_list(access, body);
                body.int(*version);
            }
            Ask::Multi(parts) | Ask::MultiRead(parts) => {
                for part in parts {
                    write_multi_header(body, part.kind(), false, -1);
                    part.write(base, body);
                }
                write_multi_header(body, -1, true, -1);
            }
            Ask::SetWatches { since, lists, .. } => {
                body.long(base + since);
                for list in lists {
                    body.texts(list.iter().map(String::as_str));
                }
            }
            Ask::AddWatch { path, mode: number } | Ask::Watches { path, tables: number, .. } => {
                body.text(path).int(*number);
            }
            Ask::GetEphemerals { prefix } => {
                body.text(prefix);
            }
            Ask::Authenticate { scheme, secret } => {
                body.int(0).text(scheme).buffer(Some(secret));
            }
            Ask::WhoAmI | Ask::CloseSession | Ask::Ping => {}
            Ask::Raw { body: bytes, .. } => {
                body.raw(bytes);
            }
        }
    }

    /// Whether it may stand among others that are sent at once: what is answered out of
    /// turn may not.
    pub fn is_in_turn(&self) -> bool {
        !matches!(self, Ask::Authenticate { .. } | Ask::Raw { .. } | Ask::CloseSession)
    }
}

/// Draws requests about the znodes below `root`.
pub struct Drawer<'a> {
    pub draw: &'a mut Draw,
    pub root: &'a str,
    /// Whether some of the servers follow another.
    pub is_ensemble: bool,
}

const NAMES: &[&str] =
    &["", "/a", "/a", "/b", "/a/x", "/a/y", "/b/x", "/c", "/c/x", "/a/x/z", "/a0000000000"];
/// What comes of sequential znodes, and names at the edge.
const RARE_NAMES: &[&str] = &[
    "/a0000000001",
    "/a/x0000000000",
    "/a/0000000000",
    "/s0000000002",
    "/ä",
    "/a b",
    "/none/x",
    "/a/",
    "//a",
    "/.",
    "/a/..",
    "/\u{1}",
    "/\u{1f600}",
    "/a\0b",
    "/...",
    "/a/./x",
];
const STRANGE_PATHS: &[&str] =
    &["", "/", "relative", "/zookeeper", "/zookeeper/quota", "/zookeeper/none", "//", "/."];
const DATA: &[&[u8]] = &[b"", b"1", b"two", b"\0\xff", b"a longer value of some thirty bytes"];
const VERSIONS: &[i32] = &[-1, -1, -1, 0, 0, 1, 2, 3, 7, -2, i32::MAX, i32::MIN];
/// No znode is ever of these.
const NO_VERSIONS: &[i32] = &[-2, 7_777, i32::MAX, i32::MIN];

impl Drawer<'_> {
    fn path(&mut self) -> String {
        match self.draw.below(40) {
            0 => self.draw.of(STRANGE_PATHS).to_owned(),
            1..=4 => format!("{}{}", self.root, self.draw.of(RARE_NAMES)),
            _ => format!("{}{}", self.root, self.draw.of(NAMES)),
        }
    }

    /// A path of which a server takes note without a look at it: a real one's notes break
    /// off at what is no text.
    fn watched_path(&mut self) -> String {
        loop {
            let path = self.path();
            if !path.contains(['\0', '\u{1}']) {
                return path;
            }
        }
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        if self.draw.one_in(12) { None } else { Some(self.draw.of(DATA).to_vec()) }
    }

    fn access(&mut self) -> Vec<Access> {
        let entry = |permissions, scheme: &str, id: &str| Access {
            permissions,
            who: Identity::new(scheme, id),
        };
        match self.draw.below(24) {
            0 => vec![entry(1, "world", "anyone")],
            1 => vec![entry(31, "auth", "")],
            2 => vec![entry(31, "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")],
            3 => vec![entry(31, "ip", "127.0.0.1")],
            4 => vec![entry(31, "ip", "10.0.0.0/8"), entry(1, "world", "anyone")],
            5 => vec![entry(31, "nosuch", "x")],
            6 => vec![],
            7 => vec![Access::open(), Access::open(), entry(3, "world", "anyone")],
            8 => vec![entry(self.draw.of(&[0, 2, 4, 8, 16, 19, 64, -1]), "world", "anyone")],
            9 => vec![entry(31, "world", "someone")],
            _ => vec![Access::open()],
        }
    }

    fn create(&mut self) -> Ask {
        let kind = match self.draw.below(12) {
            0 => kind::CREATE_CONTAINER,
            1 => kind::CREATE_TTL,
            2..=5 => kind::CREATE2,
            _ => kind::CREATE,
        };
        let flags = match (kind, self.draw.below(16)) {
            (_, 0) => self.draw.of(&[5, 6, 7, -1, 4, i32::MAX]),
            (kind::CREATE_CONTAINER, _) => 4,
            (kind::CREATE_TTL, _) => self.draw.of(&[5, 6]),
            (_, 1..=3) => 1,
            (_, 4..=5) => 3,
            (_, 6..=8) => 2,
            _ => 0,
        };
        let path = self.path();
        // A name that is all number.
        let path = if flags == 2 && self.draw.one_in(6) { path + "/" } else { path };
        Ask::Create { kind, path, data: self.data(), access: self.access(), flags }
    }

    /// One that may stand in a `multi`.
    fn change(&mut self) -> Ask {
        match self.draw.below(10) {
            0..=4 => self.create(),
            5..=6 => Ask::Delete { path: self.path(), version: self.draw.of(VERSIONS) },
            7..=8 => Ask::SetData {
                path: self.path(),
                data: self.data(),
                version: self.draw.of(VERSIONS),
            },
            _ => Ask::Check { path: self.path(), version: self.draw.of(VERSIONS) },
        }
    }

    /// One that may stand alone. A check that holds may not: a real server fails when it writes
    /// the answer, and its followers when they read the transaction. No client sends it.
    fn change_alone(&mut self) -> Ask {
        match self.change() {
            Ask::Check { path, .. } => Ask::Check { path, version: self.draw.of(NO_VERSIONS) },
            other => other,
        }
    }

    fn look(&mut self, of_many: bool) -> Ask {
        let kinds: &[i32] = match of_many {
            true => &[kind::GET_DATA, kind::GET_CHILDREN],
            false => &[kind::EXISTS, kind::GET_DATA, kind::GET_CHILDREN, kind::GET_CHILDREN2],
        };
        let watch = !of_many && !self.draw.one_in(3);
        let path = if watch { self.watched_path() } else { self.path() };
        Ask::Look { kind: self.draw.of(kinds), path, watch }
    }

    fn watches(&mut self) -> Ask {
        let path = self.watched_path();
        match self.draw.below(8) {
            0..=2 => Ask::AddWatch { path, mode: self.draw.of(&[0, 1, 0, 1, 1, 0, 2, -1]) },
            3..=4 => {
                let kind = self.draw.of(&[kind::CHECK_WATCHES, kind::REMOVE_WATCHES]);
                Ask::Watches { kind, path, tables: self.draw.of(&[1, 2, 3, 3, 0, 4]) }
            }
            _ => {
                let kind = self.draw.of(&[kind::SET_WATCHES, kind::SET_WATCHES2]);
                let count = if kind == kind::SET_WATCHES { 3 } else { 5 };
                let lists = (0..count)
                    .map(|_| (0..self.draw.below(3)).map(|_| self.watched_path()).collect());
                let lists = lists.collect();
                Ask::SetWatches { kind, since: self.draw.of(&[0, 3, 8, 20, 1_000]), lists }
            }
        }
    }

    /// One that may stand among others.
    pub fn in_turn(&mut self) -> Ask {
        match self.draw.below(30) {
            0..=7 => self.create(),
            8..=12 => self.change_alone(),
            13..=19 => self.look(false),
            20..=21 => Ask::Multi((0..1 + self.draw.below(4)).map(|_| self.change()).collect()),
            22 => Ask::MultiRead((0..self.draw.below(4)).map(|_| self.look(true)).collect()),
            23..=25 => self.watches(),
            26 => match self.draw.below(6) {
                0 => Ask::WhoAmI,
                1 => Ask::Ping,
                2 => Ask::Sync { path: self.path() },
                3 => Ask::Count { path: self.path() },
                _ => {
                    let prefix = self.draw.of(&["", "/", "/q", self.root, "/none"]).to_owned();
                    Ask::GetEphemerals { prefix }
                }
            },
            27 => Ask::GetAccess { path: self.path() },
            28 => Ask::SetAccess {
                path: self.path(),
                access: self.access(),
                version: self.draw.of(VERSIONS),
            },
            _ => Ask::Multi(vec![]),
        }
    }

    /// One that stands alone.
    pub fn out_of_turn(&mut self) -> Ask {
        match self.draw.below(8) {
            0..=2 => Ask::CloseSession,
            3..=4 => Ask::Authenticate {
                scheme: "digest".to_owned(),
                secret: self.draw.of(&[&b"super:test"[..], b"a:b", b"nocolon", b""]).to_vec(),
            },
            5 => Ask::Authenticate {
                scheme: self.draw.of(&["ip", "world", "nosuch", "auth"]).to_owned(),
                secret: b"127.0.0.1".to_vec(),
            },
            _ => self.malformed(),
        }
    }

    /// A request whose body is cut off, or of a kind that is none.
    fn malformed(&mut self) -> Ask {
        if self.draw.one_in(4) {
            // A follower never hears from a real leader of a reconfiguration that is none, and
            // lets its client wait.
            let last = if self.is_ensemble { i32::MAX } else { kind::RECONFIG };
            let kind = self.draw.of(&[10, 23, 50, 108, -2, 0, i32::MAX, last]);
            return Ask::Raw { kind, body: Vec::new() };
        }
        let whole = self.in_turn();
        let mut body = whole.body(0);
        body.truncate(self.draw.below(body.len().max(1)));
        Ask::Raw { kind: whole.kind(), body }
    }
}

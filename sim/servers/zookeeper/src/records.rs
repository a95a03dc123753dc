//! What clients and servers tell each other about znodes, as records (`zookeeper.jute`).

use super::codec::{Malformed, Reader, Writer};

/// What a client may hear of a znode beside its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that last wrote its data.
    pub mzxid: i64,
    /// When it was created, Unix milliseconds on the leader's wall clock.
    pub ctime_ms: i64,
    /// When its data was last written, likewise.
    pub mtime_ms: i64,
    /// How often its data was written.
    pub version: i32,
    /// How often children came or went: twice the creations less the children there are.
    pub cversion: i32,
    /// How often its access list was written.
    pub aversion: i32,
    /// The session that it dies with; 0 if it is not ephemeral.
    pub ephemeral_owner: i64,
    /// The length of its data, bytes.
    pub data_length: i32,
    /// How many children it has.
    pub child_count: i32,
    /// The transaction that last changed its children.
    pub pzxid: i64,
}

impl Stat {
    /// How many bytes it takes.
    pub const BYTES: usize = 68;

    /// Writes it.
    pub fn write(&self, writer: &mut Writer) {
        writer.long(self.czxid).long(self.mzxid).long(self.ctime_ms).long(self.mtime_ms);
        writer.int(self.version).int(self.cversion).int(self.aversion);
        writer.long(self.ephemeral_owner).int(self.data_length).int(self.child_count);
        writer.long(self.pzxid);
    }

    /// Reads one.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Stat, Malformed> {
        Ok(Stat {
            czxid: reader.long()?,
            mzxid: reader.long()?,
            ctime_ms: reader.long()?,
            mtime_ms: reader.long()?,
            version: reader.int()?,
            cversion: reader.int()?,
            aversion: reader.int()?,
            ephemeral_owner: reader.long()?,
            data_length: reader.int()?,
            child_count: reader.int()?,
            pzxid: reader.long()?,
        })
    }
}

/// Who somebody is, in the words of an authentication scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// `world`, `ip`, `digest` or `auth`.
    pub scheme: String,
    /// Who in that scheme.
    pub id: String,
}

impl Identity {
    /// One of a scheme.
    pub fn new(scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Identity { scheme: scheme.into(), id: id.into() }
    }

    /// Writes it.
    pub fn write(&self, writer: &mut Writer) {
        writer.text(&self.scheme).text(&self.id);
    }

    /// Reads one; nulls are empty, which no scheme knows.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(reader: &mut Reader<'_>) -> Result<Identity, Malformed> {
        let scheme = reader.text_or_null()?.unwrap_or_default();
        Ok(Identity { scheme, id: reader.text_or_null()?.unwrap_or_default() })
    }
}

/// An entry of an access list: who may do what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The sum of the [`permission`]s.
    pub permissions: i32,
    /// Who.
    pub who: Identity,
}

/// What may be permitted (`ZooDefs.Perms`).
pub mod permission {
    #![allow(missing_docs, reason = "they are ZooKeeper's names")]

    pub const READ: i32 = 1;
    pub const WRITE: i32 = 2;
    pub const CREATE: i32 = 4;
    pub const DELETE: i32 = 8;
    pub const ADMIN: i32 = 16;
    pub const ALL: i32 = 31;
}

impl Access {
    /// Everybody may do everything (`OPEN_ACL_UNSAFE`).
    pub fn open() -> Self {
        Access { permissions: permission::ALL, who: Identity::new("world", "anyone") }
    }

    /// Writes a list.
    pub fn write_list(list: &[Access], writer: &mut Writer) {
        writer.count(list.len());
        for access in list {
            writer.int(access.permissions);
            access.who.write(writer);
        }
    }

    /// Reads a list; null is empty.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Access>, Malformed> {
        let count = reader.count(12)?.unwrap_or(0);
        let access = |reader: &mut Reader<'_>| {
            Ok(Access { permissions: reader.int()?, who: Identity::read(reader)? })
        };
        (0..count).map(|_| access(reader)).collect()
    }
}

/// `ConnectRequest`, the first frame of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The newest transaction that the client has seen the result of.
    pub last_zxid_seen: i64,
    /// The session timeout that it would like, ms.
    pub timeout_ms: i32,
    /// The session that it goes on with; 0 for a new one.
    pub session: i64,
    /// That session's password.
    pub password: Vec<u8>,
    /// Whether it would take a server that only reads; old clients do not say.
    pub read_only: Option<bool>,
}

impl Connect {
    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(reader: &mut Reader<'_>) -> Result<Connect, Malformed> {
        let _protocol = reader.int()?;
        Ok(Connect {
            last_zxid_seen: reader.long()?,
            timeout_ms: reader.int()?,
            session: reader.long()?,
            password: reader.buffer()?.unwrap_or_default().to_vec(),
            read_only: reader.boolean().ok(),
        })
    }
}

/// `CreateRequest` and `CreateTTLRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The path, or its beginning for a sequential znode.
    pub path: String,
    /// The data; `None` for null.
    pub data: Option<Vec<u8>>,
    /// Who may do what with it.
    pub access: Vec<Access>,
    /// The mode, as the number that the wire has.
    pub flags: i32,
}

impl Create {
    /// Reads one; with `ttl`, a time to live follows, which is left out.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(reader: &mut Reader<'_>, ttl: bool) -> Result<Create, Malformed> {
        let create = Create {
            path: reader.text()?,
            data: reader.buffer()?.map(<[u8]>::to_vec),
            access: Access::read_list(reader)?,
            flags: reader.int()?,
        };
        if ttl {
            reader.long()?;
        }
        Ok(create)
    }
}

/// How a znode is to be, from the flags of a creation (`CreateMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// It dies with its session.
    pub ephemeral: bool,
    /// A number is appended to its name.
    pub sequential: bool,
    /// It is deleted once it is empty again.
    pub container: bool,
    /// It is deleted when nobody has touched it for long.
    pub expiring: bool,
}

impl Mode {
    /// From flags; `None` of those that are none.
    pub fn from_flags(flags: i32) -> Option<Mode> {
        if !(0..=6).contains(&flags) {
            return None;
        }
        Some(Mode {
            ephemeral: matches!(flags, 1 | 3),
            sequential: matches!(flags, 2 | 3 | 6),
            container: flags == 4,
            expiring: flags >= 5,
        })
    }
}

/// One operation that changes something, alone or within a `multi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `create`, `create2`, `createContainer`, `createTTL`.
    Create {
        /// Which of them.
        kind: i32,
        /// What is to be created.
        create: Create,
    },
    /// `delete`.
    Delete {
        /// What.
        path: String,
        /// At which version; −1 for any.
        version: i32,
    },
    /// `setData`.
    SetData {
        /// Where.
        path: String,
        /// The new data; `None` for null.
        data: Option<Vec<u8>>,
        /// At which version; −1 for any.
        version: i32,
    },
    /// `setACL`.
    SetAccess {
        /// Where.
        path: String,
        /// The new list.
        access: Vec<Access>,
        /// At which version of the list; −1 for any.
        version: i32,
    },
    /// `check`.
    Check {
        /// Where.
        path: String,
        /// Which version it must have; −1 for any.
        version: i32,
    },
}

impl Operation {
    /// Reads one of this kind.
    ///
    /// # Errors
    /// When the bytes are none, or no operation is of this kind.
    pub fn read(kind: i32, reader: &mut Reader<'_>) -> Result<Operation, Malformed> {
        use super::code::kind::*;
        Ok(match kind {
            CREATE | CREATE2 | CREATE_CONTAINER | CREATE_TTL => {
                Operation::Create { kind, create: Create::read(reader, kind == CREATE_TTL)? }
            }
            DELETE => Operation::Delete { path: reader.text()?, version: reader.int()? },
            SET_DATA => Operation::SetData {
                path: reader.text()?,
                data: reader.buffer()?.map(<[u8]>::to_vec),
                version: reader.int()?,
            },
            SET_ACL => Operation::SetAccess {
                path: reader.text()?,
                access: Access::read_list(reader)?,
                version: reader.int()?,
            },
            CHECK => Operation::Check { path: reader.text()?, version: reader.int()? },
            other => return Err(Malformed::Kind(other)),
        })
    }

    /// Its [`kind`](super::code::kind).
    pub fn kind(&self) -> i32 {
        use super::code::kind::*;
        match self {
            Operation::Create { kind, .. } => *kind,
            Operation::Delete { .. } => DELETE,
            Operation::SetData { .. } => SET_DATA,
            Operation::SetAccess { .. } => SET_ACL,
            Operation::Check { .. } => CHECK,
        }
    }

    /// The operations of a `multi`, each with the kind that the client called it. Creations are
    /// `create` or, if the flags say so, `createContainer` or `createTTL`, whatever they were
    /// called (`Op.create`).
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read_multi(reader: &mut Reader<'_>) -> Result<Vec<(i32, Operation)>, Malformed> {
        use super::code::kind::*;
        let mut operations = Vec::new();
        while let Some(called) = multi_header(reader)? {
            if called == SET_ACL {
                return Err(Malformed::Kind(called));
            }
            let mut operation = Operation::read(called, reader)?;
            if let Operation::Create { kind, create } = &mut operation {
                *kind = match Mode::from_flags(create.flags) {
                    Some(mode) if mode.container => CREATE_CONTAINER,
                    Some(mode) if mode.expiring => CREATE_TTL,
                    _ => CREATE,
                };
            }
            operations.push((called, operation));
        }
        Ok(operations)
    }
}

/// The header before each part of a `multi`: the kind of what follows, or `None` at the end.
///
/// # Errors
/// At the end of the bytes.
pub fn multi_header(reader: &mut Reader<'_>) -> Result<Option<i32>, Malformed> {
    let (kind, done, _error) = (reader.int()?, reader.boolean()?, reader.int()?);
    Ok((!done).then_some(kind))
}

/// Writes such a header.
pub fn write_multi_header(writer: &mut Writer, kind: i32, done: bool, error: i32) {
    writer.int(kind).boolean(done).int(error);
}

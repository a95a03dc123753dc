//! Transactions: what the leader decided, as it is broadcast, logged and applied.
//!
//! The bytes are those of ZooKeeper 3.8 (`TxnHeader`, then the record of its kind) without
//! the digest of the tree that may follow there; when read, whatever follows is left alone.

use std::sync::Arc;

use super::code::kind;
use super::codec::{Malformed, Reader, Writer};
use super::records::Access;

/// Whose transaction it is, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session that asked for it.
    pub session: i64,
    /// The number that its client gave the request.
    pub xid: i32,
    /// The epoch in the upper half, in the lower the how-manieth of the epoch.
    pub zxid: i64,
    /// When the leader decided it, Unix milliseconds on its wall clock.
    pub time_ms: i64,
    /// Its [`kind`].
    pub kind: i32,
}

/// What a transaction changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A znode comes: `create` and `create2`.
    Create {
        /// Its path, with the number if it is sequential.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// Who may do what with it.
        access: Vec<Access>,
        /// It dies with the session.
        ephemeral: bool,
        /// How many children its parent has then ever had.
        parent_cversion: i32,
    },
    /// A container comes.
    CreateContainer {
        /// Its path, with the number if it is sequential.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// Who may do what with it.
        access: Vec<Access>,
        /// How many children its parent has then ever had.
        parent_cversion: i32,
    },
    /// A znode goes.
    Delete {
        /// Its path.
        path: String,
    },
    /// A znode has other data.
    SetData {
        /// Its path.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// The version that it has then.
        version: i32,
    },
    /// A znode has another access list.
    SetAccess {
        /// Its path.
        path: String,
        /// The list.
        access: Vec<Access>,
        /// The version that the list has then.
        version: i32,
    },
    /// A version was as it should be.
    Check {
        /// The path.
        path: String,
        /// The version, one up.
        version: i32,
    },
    /// A session begins.
    CreateSession {
        /// Its timeout, ms.
        timeout_ms: i32,
    },
    /// A session ends.
    CloseSession {
        /// Its znodes, which go with it.
        paths: Vec<String>,
    },
    /// Nothing: the request was refused.
    Error {
        /// Why.
        code: i32,
    },
    /// All of these, or, if one is an error, nothing.
    Multi(Vec<(i32, Change)>),
}

/// A transaction with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Whose it is, and which.
    pub header: Header,
    /// What it changes.
    pub change: Change,
    /// Both, as they are broadcast and logged.
    pub bytes: Arc<[u8]>,
}

impl Transaction {
    /// Of these.
    pub fn new(header: Header, change: Change) -> Arc<Transaction> {
        let mut writer = Writer::new();
        let Header { session, xid, zxid, time_ms, kind } = header;
        writer.long(session).int(xid).long(zxid).long(time_ms).int(kind);
        change.write(&mut writer);
        Arc::new(Transaction { header, change, bytes: writer.into_bytes().into() })
    }

    /// From bytes.
    ///
    /// # Errors
    /// When they are none.
    pub fn read(bytes: &[u8]) -> Result<Arc<Transaction>, Malformed> {
        let mut reader = Reader::new(bytes);
        let header = Header {
            session: reader.long()?,
            xid: reader.int()?,
            zxid: reader.long()?,
            time_ms: reader.long()?,
            kind: reader.int()?,
        };
        let change = Change::read(header.kind, &mut reader)?;
        Ok(Arc::new(Transaction { header, change, bytes: bytes.into() }))
    }

    /// Which it is.
    pub fn zxid(&self) -> i64 {
        self.header.zxid
    }
}

impl Change {
    fn write(&self, writer: &mut Writer) {
        match self {
            Change::Create { path, data, access, ephemeral, parent_cversion } => {
                writer.text(path).buffer(data.as_deref());
                Access::write_list(access, writer);
                writer.boolean(*ephemeral).int(*parent_cversion);
            }
            Change::CreateContainer { path, data, access, parent_cversion } => {
                writer.text(path).buffer(data.as_deref());
                Access::write_list(access, writer);
                writer.int(*parent_cversion);
            }
            Change::Delete { path } => {
                writer.text(path);
            }
            Change::SetData { path, data, version } => {
                writer.text(path).buffer(data.as_deref()).int(*version);
            }
            Change::SetAccess { path, access, version } => {
                writer.text(path);
                Access::write_list(access, writer);
                writer.int(*version);
            }
            Change::Check { path, version } => {
                writer.text(path).int(*version);
            }
            Change::CreateSession { timeout_ms } => {
                writer.int(*timeout_ms);
            }
            Change::CloseSession { paths } => {
                writer.texts(paths.iter().map(String::as_str));
            }
            Change::Error { code } => {
                writer.int(*code);
            }
            Change::Multi(parts) => {
                writer.count(parts.len());
                for (kind, change) in parts {
                    let mut part = Writer::new();
                    change.write(&mut part);
                    writer.int(*kind).buffer(Some(part.bytes()));
                }
            }
        }
    }

    fn read(kind: i32, reader: &mut Reader<'_>) -> Result<Change, Malformed> {
        Ok(match kind {
            kind::CREATE_SESSION => Change::CreateSession { timeout_ms: reader.int()? },
            kind::CLOSE_SESSION => Change::CloseSession {
                paths: if reader.rest().is_empty() { Vec::new() } else { reader.texts()? },
            },
            kind::SET_ACL => Change::SetAccess {
                path: reader.text()?,
                access: Access::read_list(reader)?,
                version: reader.int()?,
            },
            kind::MULTI => {
                let count = reader.count(8)?.ok_or(Malformed::Null)?;
                let part = |reader: &mut Reader<'_>| {
                    let kind = reader.int()?;
                    let mut inner = Reader::new(reader.buffer()?.ok_or(Malformed::Null)?);
                    Ok((kind, Change::read_single(kind, &mut inner)?))
                };
                Change::Multi((0..count).map(|_| part(reader)).collect::<Result<_, _>>()?)
            }
            kind => Change::read_single(kind, reader)?,
        })
    }

    /// One that may be a part of a `multi`: these do not nest.
    fn read_single(kind: i32, reader: &mut Reader<'_>) -> Result<Change, Malformed> {
        Ok(match kind {
            kind::CREATE | kind::CREATE2 => Change::Create {
                path: reader.text()?,
                data: reader.buffer()?.map(<[u8]>::to_vec),
                access: Access::read_list(reader)?,
                ephemeral: reader.boolean()?,
                parent_cversion: reader.int()?,
            },
            kind::CREATE_CONTAINER => Change::CreateContainer {
                path: reader.text()?,
                data: reader.buffer()?.map(<[u8]>::to_vec),
                access: Access::read_list(reader)?,
                parent_cversion: reader.int()?,
            },
            kind::DELETE | kind::DELETE_CONTAINER => Change::Delete { path: reader.text()? },
            kind::SET_DATA => Change::SetData {
                path: reader.text()?,
                data: reader.buffer()?.map(<[u8]>::to_vec),
                version: reader.int()?,
            },
            kind::CHECK => Change::Check { path: reader.text()?, version: reader.int()? },
            kind::ERROR => Change::Error { code: reader.int()? },
            other => return Err(Malformed::Kind(other)),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::records::Identity;

    fn access() -> impl Strategy<Value = Vec<Access>> {
        let one = (any::<i32>(), "[a-z]{1,6}", "[a-z:]{0,6}");
        let one = one.prop_map(|(permissions, scheme, id)| Access {
            permissions,
            who: Identity::new(scheme, id),
        });
        prop::collection::vec(one, 0..3)
    }

    fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20))
    }

    fn single() -> impl Strategy<Value = (i32, Change)> {
        let path = || "/[a-z/]{0,9}";
        prop_oneof![
            (path(), data(), access(), any::<bool>(), any::<i32>(), any::<bool>()).prop_map(
                |(path, data, access, ephemeral, parent_cversion, second)| {
                    let kind = if second { kind::CREATE2 } else { kind::CREATE };
                    (kind, Change::Create { path, data, access, ephemeral, parent_cversion })
                }
            ),
            (path(), data(), access(), any::<i32>()).prop_map(
                |(path, data, access, parent_cversion)| {
                    let change = Change::CreateContainer { path, data, access, parent_cversion };
                    (kind::CREATE_CONTAINER, change)
                }
            ),
            path().prop_map(|path| (kind::DELETE, Change::Delete { path })),
            (path(), data(), any::<i32>()).prop_map(|(path, data, version)| {
                (kind::SET_DATA, Change::SetData { path, data, version })
            }),
            (path(), any::<i32>())
                .prop_map(|(path, version)| (kind::CHECK, Change::Check { path, version })),
            any::<i32>().prop_map(|code| (kind::ERROR, Change::Error { code })),
        ]
    }

    pub(in super::super) fn change() -> impl Strategy<Value = (i32, Change)> {
        prop_oneof![
            4 => single(),
            1 => any::<i32>().prop_map(|timeout_ms| {
                (kind::CREATE_SESSION, Change::CreateSession { timeout_ms })
            }),
            1 => prop::collection::vec("/[a-z]{0,9}", 0..4)
                .prop_map(|paths| (kind::CLOSE_SESSION, Change::CloseSession { paths })),
            1 => ("/[a-z]{0,9}", access(), any::<i32>()).prop_map(|(path, access, version)| {
                (kind::SET_ACL, Change::SetAccess { path, access, version })
            }),
            1 => prop::collection::vec(single(), 0..4)
                .prop_map(|parts| (kind::MULTI, Change::Multi(parts))),
        ]
    }

    proptest! {
        #[test]
        fn transactions_come_back(
            (kind, change) in change(),
            session: i64,
            xid: i32,
            zxid: i64,
            time_ms: i64,
        ) {
            let header = Header { session, xid, zxid, time_ms, kind };
            let written = Transaction::new(header, change);
            prop_assert_eq!(&Transaction::read(&written.bytes).unwrap(), &written);
            for cut in 0..written.bytes.len() {
                // The end of a session may lack its paths (before 3.8).
                let cut = Transaction::read(&written.bytes[..cut]);
                prop_assert!(cut.is_err() || kind == kind::CLOSE_SESSION);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 32..96)) {
            let _ = Transaction::read(&bytes);
        }
    }
}

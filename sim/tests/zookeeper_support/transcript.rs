//! Replies as text that two servers can agree on.
//!
//! Rules: a transaction is told by how many there were since the sequence began (`+3`; `old`
//! before it), a session by its name, a time only by whether it is what it must be (the time
//! of the last write is that of the creation as long as there was none), and what comes from
//! a hash table on a real server is sorted: children, ephemerals, identities, access lists.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::codec::{Malformed, Reader};
use lockstorm_sim::server::zookeeper::records::{Access, Stat, multi_header};

use super::ask::Ask;
use super::wire::{Event, Reply};

/// What numbers are called.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The transaction at the beginning of the sequence.
    pub base: i64,
    pub sessions: BTreeMap<i64, String>,
}

impl Names {
    pub fn zxid(&self, zxid: i64) -> String {
        match zxid {
            ..=0 => zxid.to_string(),
            zxid if zxid < self.base => "old".to_owned(),
            zxid => format!("+{}", zxid - self.base),
        }
    }

    pub fn session(&self, session: i64) -> String {
        match (session, self.sessions.get(&session)) {
            (0, _) => "nobody".to_owned(),
            (_, Some(name)) => name.clone(),
            _ => "a stranger".to_owned(),
        }
    }

    fn stat(&self, stat: &Stat) -> String {
        let times = match (stat.ctime_ms, stat.mzxid == stat.czxid) {
            (0, _) if stat.czxid == 0 => "at the beginning",
            (_, true) if stat.ctime_ms != stat.mtime_ms => "CREATED AND WRITTEN AT OTHER TIMES",
            _ if stat.mtime_ms < stat.ctime_ms => "WRITTEN BEFORE IT WAS CREATED",
            _ => "in time",
        };
        format!(
            "(c {} m {} p {} v {} cv {} av {} of {} {} bytes {} children {times})",
            self.zxid(stat.czxid),
            self.zxid(stat.mzxid),
            self.zxid(stat.pzxid),
            stat.version,
            stat.cversion,
            stat.aversion,
            self.session(stat.ephemeral_owner),
            stat.data_length,
            stat.child_count,
        )
    }

    /// A reply to `ask`.
    pub fn reply(&self, ask: &Ask, reply: &Reply) -> String {
        let mut text = format!("{} {} {}", reply.xid, self.zxid(reply.zxid), reply.code);
        let mut reader = Reader::new(&reply.body);
        if reply.code == 0 && self.body(ask, &mut reader, &mut text).is_err() {
            text.push_str(" MALFORMED");
        }
        if !reader.rest().is_empty() {
            let _ = write!(text, " rest {}", reader.rest().escape_ascii());
        }
        text
    }

    fn body(&self, ask: &Ask, reader: &mut Reader<'_>, text: &mut String) -> Result<(), Malformed> {
        match ask.kind() {
            kind::MULTI | kind::MULTI_READ => {
                let mut parts: &[Ask] = match ask {
                    Ask::Multi(parts) | Ask::MultiRead(parts) => parts,
                    _ => return Ok(()),
                };
                while let Some(kind) = multi_header(reader)? {
                    let _ = write!(text, " [{kind}");
                    match (kind, parts.first()) {
                        (kind::ERROR, _) | (_, None) => {
                            let _ = write!(text, " {}", reader.int()?);
                        }
                        (_, Some(part)) => self.result(kind, part, reader, text)?,
                    }
                    text.push(']');
                    parts = parts.get(1..).unwrap_or_default();
                }
                Ok(())
            }
            kind => self.result(kind, ask, reader, text),
        }
    }

    fn result(
        &self,
        kind: i32,
        ask: &Ask,
        reader: &mut Reader<'_>,
        text: &mut String,
    ) -> Result<(), Malformed> {
        let sorted = |reader: &mut Reader<'_>| -> Result<String, Malformed> {
            let mut names = reader.texts()?;
            names.sort();
            Ok(format!(" {names:?}"))
        };
        match kind {
            // Whatever was asked there is not known.
            _ if matches!(ask, Ask::Raw { .. }) => {}
            kind::CREATE | kind::SYNC => {
                let _ = write!(text, " {:?}", reader.text()?);
            }
            kind::CREATE2 | kind::CREATE_CONTAINER => {
                let _ = write!(text, " {:?}", reader.text()?);
                text.push_str(&self.stat(&Stat::read(reader)?));
            }
            kind::EXISTS | kind::SET_DATA | kind::SET_ACL => {
                text.push_str(&self.stat(&Stat::read(reader)?));
            }
            kind::GET_DATA => {
                let data = reader.buffer()?.map(|data| data.escape_ascii().to_string());
                let _ = write!(text, " {data:?}");
                text.push_str(&self.stat(&Stat::read(reader)?));
            }
            kind::GET_CHILDREN | kind::GET_EPHEMERALS => text.push_str(&sorted(reader)?),
            kind::GET_CHILDREN2 => {
                text.push_str(&sorted(reader)?);
                text.push_str(&self.stat(&Stat::read(reader)?));
            }
            kind::GET_ACL => {
                let mut list = Access::read_list(reader)?;
                list.sort();
                for Access { permissions, who } in list {
                    let _ = write!(text, " {permissions}:{}:{}", who.scheme, who.id);
                }
                text.push_str(&self.stat(&Stat::read(reader)?));
            }
            kind::GET_ALL_CHILDREN_NUMBER | kind::ADD_WATCH => {
                let _ = write!(text, " {}", reader.int()?);
            }
            kind::WHO_AM_I => {
                let mut who = Vec::new();
                for _ in 0..reader.count(8)?.unwrap_or(0) {
                    who.push((reader.text_or_null()?, reader.text_or_null()?));
                }
                who.sort();
                let _ = write!(text, " {who:?}");
            }
            _ => {}
        }
        Ok(())
    }
}

/// An event as text.
pub fn event(event: &Event) -> String {
    let what = match event.kind {
        1 => "created",
        2 => "deleted",
        3 => "changed",
        4 => "children of",
        _ => "UNKNOWN",
    };
    format!("{what} {:?}", event.path)
}

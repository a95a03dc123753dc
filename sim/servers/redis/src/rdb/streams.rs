//! Streams in an RDB file: entries in listpacks, then what the stream and its groups remember.
//!
//! Written with one entry in each listpack, read with as many as there are.

use bytes::Bytes;

use super::super::codec::number::parse_integer;
use super::super::keyspace::stream::{Group, Id, Pending, Stream};
use super::super::keyspace::{Kind, Value};
use super::{RdbError, Reader, listpack, write_length, write_string};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A group that does not know how many entries it has read.
const UNKNOWN: u64 = u64::MAX;

fn write_id(bytes: &mut Vec<u8>, id: Id) {
    write_length(bytes, id.ms);
    write_length(bytes, id.seq);
}

fn raw_id(id: Id) -> [u8; 16] {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&id.ms.to_be_bytes());
    raw[8..].copy_from_slice(&id.seq.to_be_bytes());
    raw
}

/// Writes a stream behind its type and key.
pub(super) fn write(bytes: &mut Vec<u8>, stream: &Stream) {
    write_length(bytes, stream.len() as u64);
    for (id, entry) in stream.range(Id::LEAST, Id::MOST) {
        write_string(bytes, &raw_id(id));
        let fields = entry.fields.len() / 2;
        let mut pack = listpack::Writer::default();
        // The master entry: how many entries, how many deleted, and the names of the fields.
        pack.integer(1);
        pack.integer(0);
        pack.integer(fields as i64);
        entry.fields.iter().step_by(2).for_each(|name| pack.string(name));
        pack.integer(0);
        // The entry: its flags, its distance from the node's id, its values, its length.
        pack.integer(SAME_FIELDS);
        pack.integer(0);
        pack.integer(0);
        entry.fields.iter().skip(1).step_by(2).for_each(|value| pack.string(value));
        pack.integer(fields as i64 + 3);
        write_string(bytes, &pack.finish());
    }
    write_length(bytes, stream.len() as u64);
    for id in [stream.last_id, stream.first_id(), stream.max_deleted] {
        write_id(bytes, id);
    }
    write_length(bytes, stream.added);
    write_length(bytes, stream.groups.len() as u64);
    for (name, group) in &stream.groups {
        write_string(bytes, name);
        write_group(bytes, group);
    }
}

fn write_group(bytes: &mut Vec<u8>, group: &Group) {
    write_id(bytes, group.last_id);
    write_length(bytes, group.entries_read.map_or(UNKNOWN, |read| read as u64));
    write_length(bytes, group.pending.len() as u64);
    for (id, pending) in &group.pending {
        bytes.extend_from_slice(&raw_id(*id));
        bytes.extend_from_slice(&pending.delivered_at_ms.to_le_bytes());
        write_length(bytes, pending.deliveries as u64);
    }
    write_length(bytes, group.consumers.len() as u64);
    for (consumer, heard_ms) in &group.consumers {
        write_string(bytes, consumer);
        bytes.extend_from_slice(&heard_ms.to_le_bytes());
        write_length(bytes, group.pending_of(consumer).count() as u64);
        for (id, _) in group.pending_of(consumer) {
            bytes.extend_from_slice(&raw_id(id));
        }
    }
}

const DAMAGED: RdbError = RdbError::Malformed("a stream is damaged");

impl Reader<'_> {
    fn id(&mut self) -> Result<Id, RdbError> {
        Ok(Id { ms: self.length()?, seq: self.length()? })
    }

    fn raw_id(&mut self) -> Result<Id, RdbError> {
        Ok(Id { ms: u64::from_be_bytes(self.array()?), seq: u64::from_be_bytes(self.array()?) })
    }

    /// A stream behind its type and key.
    pub(super) fn stream(&mut self) -> Result<Value, RdbError> {
        let mut stream = Stream::default();
        for _ in 0..self.length()? {
            let start: [u8; 16] = self.string()?.as_ref().try_into().map_err(|_| DAMAGED)?;
            let (ms, seq) = start.split_at(8);
            let start = Id {
                ms: u64::from_be_bytes(ms.try_into().map_err(|_| DAMAGED)?),
                seq: u64::from_be_bytes(seq.try_into().map_err(|_| DAMAGED)?),
            };
            let packed = self.string()?;
            let elements = listpack::elements(&packed).ok_or(DAMAGED)?;
            append_node(&mut stream, start, &elements)?;
            self.check_size(&stream)?;
        }
        // How many there are is known.
        self.length()?;
        stream.last_id = self.id()?;
        let _first = self.id()?;
        stream.max_deleted = self.id()?;
        stream.added = self.length()?;
        for _ in 0..self.length()? {
            let name = self.string()?;
            let group = self.group()?;
            stream.groups.insert(name.as_ref().into(), group);
            self.check_size(&stream)?;
        }
        Ok(stream.wrap())
    }

    fn check_size(&self, stream: &Stream) -> Result<(), RdbError> {
        if stream.memory_bytes() > self.limit_bytes { Err(RdbError::TooLarge) } else { Ok(()) }
    }

    fn group(&mut self) -> Result<Group, RdbError> {
        let mut group = Group { last_id: self.id()?, ..Group::default() };
        group.entries_read =
            Some(self.length()?).filter(|read| *read != UNKNOWN).map(|read| read as i64);
        let mut pending = std::collections::BTreeMap::new();
        for _ in 0..self.length()? {
            let id = self.raw_id()?;
            let at_ms = i64::from_le_bytes(self.array()?);
            pending.insert(id, (at_ms, self.length()? as i64));
        }
        for _ in 0..self.length()? {
            let consumer: std::sync::Arc<[u8]> = self.string()?.as_ref().into();
            group.consumers.insert(consumer.clone(), i64::from_le_bytes(self.array()?));
            for _ in 0..self.length()? {
                let id = self.raw_id()?;
                let (delivered_at_ms, deliveries) = pending.remove(&id).ok_or(DAMAGED)?;
                let consumer = consumer.clone();
                group.pending.insert(id, Pending { consumer, delivered_at_ms, deliveries });
            }
        }
        if pending.is_empty() { Ok(group) } else { Err(DAMAGED) }
    }
}

/// Appends the entries of one listpack, whose ids are told by their distance from `start`.
fn append_node(stream: &mut Stream, start: Id, elements: &[Bytes]) -> Result<(), RdbError> {
    let mut rest = elements.iter();
    let mut next = || rest.next().ok_or(DAMAGED);
    let integer = |text: &Bytes| parse_integer(text).ok_or(DAMAGED);
    let size = |text: &Bytes| {
        usize::try_from(integer(text)?).ok().filter(|size| *size <= elements.len()).ok_or(DAMAGED)
    };
    let (living, deleted) = (size(next()?)?, size(next()?)?);
    let names = (0..size(next()?)?).map(|_| next().cloned()).collect::<Result<Vec<_>, _>>()?;
    next()?;
    for _ in 0..living + deleted {
        let flags = integer(next()?)?;
        let ms = start.ms.wrapping_add(integer(next()?)? as u64);
        let seq = start.seq.wrapping_add(integer(next()?)? as u64);
        let mut fields = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                fields.extend([name.clone(), next()?.clone()]);
            }
        } else {
            for _ in 0..size(next()?)? {
                fields.extend([next()?.clone(), next()?.clone()]);
            }
        }
        next()?;
        let id = Id { ms, seq };
        if flags & DELETED == 0 {
            if id <= stream.last_id && !stream.is_empty() {
                return Err(DAMAGED);
            }
            stream.append(id, fields);
        }
    }
    Ok(())
}

//! RDB, the file format in which a master sends its whole data set to a replica.
//!
//! Version 10 (Redis 7.0): written plainly, read in every encoding that Redis 7.0 writes
//! (plain, integers, LZF, listpacks, sets of integers). What each type of key is as bytes is
//! in [`values`]. Anything else in a file is refused with an error that names it.

mod checksum;
mod listpack;
mod lzf;
mod streams;
mod values;

use bytes::Bytes;

use super::codec::number::{parse_double, parse_integer};
use super::keyspace::{Database, Value};
use super::replication::Replication;
use super::state::State;
pub(super) use checksum::crc64;

const MAGIC: &[u8] = b"REDIS";
const VERSION: &[u8] = b"0010";

/// A library of functions, as its source.
const LIBRARY: u8 = 0xf5;
const FREQUENCY: u8 = 0xf9;
const IDLE: u8 = 0xf8;
const AUXILIARY: u8 = 0xfa;
const RESIZE: u8 = 0xfb;
const EXPIRES_MS: u8 = 0xfc;
const EXPIRES_S: u8 = 0xfd;
const SELECT: u8 = 0xfe;
const END: u8 = 0xff;

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RdbError {
    #[error("not an RDB file")]
    Magic,
    #[error("RDB version {0} is not supported")]
    Version(String),
    #[error("the RDB file ends too early")]
    Truncated,
    #[error("malformed RDB file: {0}")]
    Malformed(&'static str),
    #[error("the RDB file holds {0} (type {1}), which is not supported")]
    Type(&'static str, u8),
    #[error("the RDB file's data set is larger than this server accepts")]
    TooLarge,
    #[error("the RDB file's checksum is wrong")]
    Checksum,
}

/// Writes the data set for a replica. `repl` is the replication id and offset that go with it.
pub(super) fn write(state: &State) -> Vec<u8> {
    let Replication { id: repl_id, offset: repl_offset, .. } = &state.replication;
    let offset = repl_offset.to_string();
    let place = [("repl-stream-db", "0"), ("repl-id", &**repl_id), ("repl-offset", &*offset)];
    write_with(&state.databases, &state.libraries(), &place)
}

/// Writes the data set as a snapshot, with the history that it is of, if it is of one.
pub(super) fn write_file(state: &State) -> Vec<u8> {
    match state.replication.is_fed() || state.is_replica() {
        true => write(state),
        false => write_with(&state.databases, &state.libraries(), &[("aof-base", "0")]),
    }
}

/// Writes the data set as the base of an append-only file.
pub(super) fn write_base(databases: &[Database], libraries: &[Bytes]) -> Vec<u8> {
    write_with(databases, libraries, &[("aof-base", "1")])
}

fn write_with(databases: &[Database], libraries: &[Bytes], more: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(VERSION);
    let always = [("redis-ver", super::VERSION), ("redis-bits", "64")];
    for (name, value) in always.iter().chain(more) {
        bytes.push(AUXILIARY);
        write_string(&mut bytes, name.as_bytes());
        write_string(&mut bytes, value.as_bytes());
    }
    for source in libraries {
        bytes.push(LIBRARY);
        write_string(&mut bytes, source);
    }
    for (number, database) in databases.iter().enumerate() {
        if database.is_empty() {
            continue;
        }
        bytes.push(SELECT);
        write_length(&mut bytes, number as u64);
        bytes.push(RESIZE);
        write_length(&mut bytes, database.len() as u64);
        write_length(&mut bytes, database.expiring_len() as u64);
        for (key, entry) in database.iter() {
            if let Some(at_ms) = entry.expires_at_ms {
                bytes.push(EXPIRES_MS);
                bytes.extend_from_slice(&at_ms.to_le_bytes());
            }
            values::write(&mut bytes, Some(key), &entry.value);
        }
    }
    bytes.push(END);
    let checksum = crc64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn write_length(bytes: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        bytes.push(length as u8);
    } else if length < 1 << 14 {
        bytes.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        bytes.push(0x80);
        bytes.extend_from_slice(&length.to_be_bytes());
    } else {
        bytes.push(0x81);
        bytes.extend_from_slice(&length.to_be_bytes());
    }
}

fn write_string(bytes: &mut Vec<u8>, string: &[u8]) {
    write_length(bytes, string.len() as u64);
    bytes.extend_from_slice(string);
}

/// How many bytes stand behind a value alone: a version and a checksum.
const FOOTER_BYTES: usize = 10;
/// The version that files of this form have.
const VERSION_NUMBER: u16 = 10;

/// One value, as `DUMP` tells it.
pub(super) fn dump(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    values::write(&mut bytes, None, value);
    bytes.extend_from_slice(&VERSION_NUMBER.to_le_bytes());
    let checksum = crc64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Whether these are bytes of a dump that nobody has changed, in a version that is known.
pub(super) fn is_whole_dump(bytes: &[u8]) -> bool {
    let Some((checked, checksum)) = bytes.split_last_chunk::<8>() else { return false };
    let Some((_, version)) = checked.split_last_chunk::<2>() else { return false };
    u16::from_le_bytes(*version) <= VERSION_NUMBER
        && u64::from_le_bytes(*checksum) == crc64(checked)
}

/// The value of a whole dump, of at most `limit_bytes`.
pub(super) fn restored(bytes: &[u8], limit_bytes: usize) -> Result<Value, RdbError> {
    let end = bytes.len().checked_sub(FOOTER_BYTES).ok_or(RdbError::Truncated)?;
    let mut reader = Reader { rest: &bytes[..end], limit_bytes };
    match reader.byte()? {
        kind if values::is_known(kind) => reader.value(kind),
        other => Err(RdbError::Type(type_name(other), other)),
    }
}

/// What a file holds.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) databases: Vec<Database>,
    /// The id of the replication history that it is of, and the offset.
    pub(super) history: Option<(String, u64)>,
    /// The sources of libraries of functions.
    pub(super) libraries: Vec<Bytes>,
}

/// Reads a data set of at most `limit_bytes` into `count` databases.
pub(super) fn read(file: &[u8], count: usize, limit_bytes: usize) -> Result<Contents, RdbError> {
    let rest = file.strip_prefix(MAGIC).ok_or(RdbError::Magic)?;
    let (version, rest) = rest.split_at_checked(4).ok_or(RdbError::Truncated)?;
    let version_text = || String::from_utf8_lossy(version).into_owned();
    let version: u32 = std::str::from_utf8(version)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(RdbError::Magic)?;
    if !(5..=10).contains(&version) {
        return Err(RdbError::Version(version_text()));
    }
    let mut databases = vec![Database::default(); count];
    let mut reader = Reader { rest, limit_bytes };
    let mut selected = 0;
    let (mut id, mut offset) = (None, None);
    let mut libraries = Vec::new();
    let mut expires_at_ms = None;
    loop {
        match reader.byte()? {
            AUXILIARY => {
                let (name, value) = (reader.string()?, reader.string()?);
                match &*name {
                    b"repl-id" => id = Some(String::from_utf8_lossy(&value).into_owned()),
                    b"repl-offset" => offset = parse_integer(&value),
                    _ => {}
                }
            }
            RESIZE => {
                reader.length()?;
                reader.length()?;
            }
            SELECT => {
                let number = reader.length()?;
                selected = usize::try_from(number).unwrap_or(usize::MAX);
                if selected >= count {
                    return Err(RdbError::Malformed("a database number is out of range"));
                }
            }
            EXPIRES_MS => expires_at_ms = Some(i64::from_le_bytes(reader.array()?)),
            EXPIRES_S => {
                expires_at_ms = Some(i64::from(i32::from_le_bytes(reader.array()?)) * 1_000);
            }
            IDLE => {
                reader.length()?;
            }
            LIBRARY => {
                libraries.push(reader.string()?);
                if libraries.iter().map(Bytes::len).sum::<usize>() > limit_bytes {
                    return Err(RdbError::TooLarge);
                }
            }
            FREQUENCY => {
                reader.byte()?;
            }
            kind if values::is_known(kind) => {
                let key = reader.string()?;
                let value = reader.value(kind)?;
                databases[selected].insert(&key, value, expires_at_ms.take());
                if databases.iter().map(Database::used_bytes).sum::<usize>() > limit_bytes {
                    return Err(RdbError::TooLarge);
                }
            }
            END => break,
            other => return Err(RdbError::Type(type_name(other), other)),
        }
    }
    let body = file.len() - reader.rest.len();
    let checksum = u64::from_le_bytes(reader.array()?);
    // Zero: the writer was told not to compute one.
    if checksum != 0 && checksum != crc64(&file[..body]) {
        return Err(RdbError::Checksum);
    }
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    Ok(Contents { databases, history: id.zip(offset), libraries })
}

fn type_name(kind: u8) -> &'static str {
    match kind {
        10 | 14 => "a list of an older Redis",
        3 | 12 => "a sorted set of an older Redis",
        9 | 13 => "a hash of an older Redis",
        6 | 7 | 0xf7 => "a module's data",
        15 => "a stream of an older Redis",
        0xf6 => "a function of a release candidate",
        _ => "something unknown",
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// How long one string may become.
    limit_bytes: usize,
}

enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RdbError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(RdbError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        self.take(N)?.try_into().map_err(|_| RdbError::Truncated)
    }

    fn any_length(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => return Err(RdbError::Malformed("an unknown length")),
            _ => Length::Encoded(first & 0x3f),
        })
    }

    fn length(&mut self) -> Result<u64, RdbError> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(RdbError::Malformed("an encoding where a length must be")),
        }
    }

    fn size(&mut self) -> Result<usize, RdbError> {
        usize::try_from(self.length()?).map_err(|_| RdbError::Truncated)
    }

    fn string(&mut self) -> Result<Bytes, RdbError> {
        let integer = match self.any_length()? {
            Length::Plain(length) => {
                let length = usize::try_from(length).map_err(|_| RdbError::Truncated)?;
                return Ok(Bytes::copy_from_slice(self.take(length)?));
            }
            Length::Encoded(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Encoded(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Encoded(3) => {
                let packed = self.size()?;
                let length = self.size()?;
                let packed = self.take(packed)?;
                if length > self.limit_bytes {
                    return Err(RdbError::TooLarge);
                }
                return lzf::unpack(packed, length)
                    .map(Bytes::from)
                    .ok_or(RdbError::Malformed("a compressed string is damaged"));
            }
            Length::Encoded(_) => return Err(RdbError::Malformed("an unknown string encoding")),
        };
        let text = itoa::Buffer::new().format(integer).to_owned();
        debug_assert_eq!(parse_integer(text.as_bytes()), Some(integer));
        Ok(Bytes::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::keyspace::{End, Hash, List, Set, SortedSet};
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1 << 20;

    fn sample() -> Vec<Database> {
        let mut databases = vec![Database::default(); 16];
        databases[0].insert(b"lock", Value::String(Bytes::from_static(b"owner")), Some(17));
        databases[0].insert(b"", Value::String(Bytes::from(vec![7; 20_000])), None);
        let mut hash = Hash::default();
        hash.insert(b"field", Bytes::from_static(b"value"));
        hash.insert(b"another", Bytes::new());
        databases[3].insert(b"hash", Value::Hash(hash), Some(99));
        let mut list = List::default();
        let mut set = Set::default();
        let mut sorted = SortedSet::default();
        for (number, text) in ["x", "10", "", "-3"].into_iter().enumerate() {
            list.push(End::Right, Bytes::from_static(text.as_bytes()));
            set.insert(text.as_bytes());
            sorted.insert(text.as_bytes(), number as f64 / 3.0 - 1.0);
        }
        databases[4].insert(b"list", Value::List(list), None);
        databases[4].insert(b"set", Value::Set(set), Some(5));
        databases[4].insert(b"sorted", Value::SortedSet(sorted), None);
        databases[9].insert(&[b'k'; 70], Value::String(Bytes::from_static(b"12")), Some(-1));
        databases
    }

    fn same(left: &[Database], right: &[Database]) -> bool {
        left.iter().zip(right).all(|(left, right)| left.iter().eq(right.iter()))
    }

    #[test]
    fn what_is_written_is_read() {
        let file = write_base(&sample(), &[]);
        assert!(same(&read(&file, 16, LIMIT).unwrap().databases, &sample()));
    }

    #[test]
    fn encodings_of_strings() {
        let mut file = b"REDIS0010\xfe\x00".to_vec();
        file.extend_from_slice(b"\x00\x01a\xc0\xfe");
        file.extend_from_slice(b"\x00\x01b\xc1\x00\x01");
        file.extend_from_slice(b"\xfd\x02\x00\x00\x00\x00\x01c\xc2\x00\x00\x01\x00");
        // LZF: literal "a", then 9 bytes back-referenced at distance 1.
        file.extend_from_slice(b"\x00\x01d\xc3\x05\x0a\x00a\xe0\x00\x00");
        file.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
        let databases = read(&file, 1, LIMIT).unwrap().databases;
        let read: Vec<_> =
            databases[0].iter().map(|(_, entry)| entry.value.string().unwrap().as_ref()).collect();
        assert_eq!(read, [&b"-2"[..], b"256", b"65536", b"aaaaaaaaaa"]);
        assert_eq!(databases[0].get(b"c").unwrap().expires_at_ms, Some(2_000));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let file = write_base(&sample(), &[]);
        assert_eq!(read(&file, 16, 10_000).unwrap_err(), RdbError::TooLarge);
        // A short file may unpack to a long string.
        let mut file = b"REDIS0010\xfe\x00\x00\x01k\xc3\x08\x41\x0a\x00a".to_vec();
        file.extend_from_slice(b"\xe0\xff\x00\xe0\xff\x00");
        assert_eq!(read(&file, 1, 100).unwrap_err(), RdbError::TooLarge);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        assert_eq!(read(b"SQLite", 1, LIMIT).unwrap_err(), RdbError::Magic);
        assert_eq!(read(b"REDIS0099", 1, LIMIT).unwrap_err(), RdbError::Version("0099".to_owned()));
        assert_eq!(
            read(b"REDIS0010\x0e", 1, LIMIT).unwrap_err().to_string(),
            "the RDB file holds a list of an older Redis (type 14), which is not supported"
        );
        let mut file = write_base(&sample(), &[]);
        let end = file.len() - 20;
        file[end] ^= 1;
        assert!(read(&file, 16, LIMIT).is_err());
    }

    proptest! {
        #[test]
        fn damaged_files_do_not_panic(
            index: prop::sample::Index, byte: u8, cut in 0usize..300,
        ) {
            let mut databases = sample();
            databases[0].remove(b"");
            let mut file = write_base(&databases, &[]);
            let length = file.len();
            file[index.index(length)] = byte;
            let _ = read(&file, 16, LIMIT);
            let _ = read(&file[..cut.min(length)], 16, LIMIT);
        }
    }
}

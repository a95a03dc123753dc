//! The types of keys in an RDB file.
//!
//! Order of things: the numbers of the types, writing, reading.

use bytes::Bytes;

use super::super::keyspace::{End, Hash, Kind, List, Set, SortedSet, Value};
use super::{RdbError, Reader, listpack, streams, write_length, write_string};

const STRING: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const HASH: u8 = 4;
/// Scores are binary doubles.
const SORTED_SET: u8 = 5;
const SET_OF_INTEGERS: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const LIST_OF_LISTPACKS: u8 = 18;
const STREAM: u8 = 19;

/// One node of a list holds one long element, or a listpack of them.
const NODE_PLAIN: u64 = 1;
const NODE_LISTPACK: u64 = 2;

/// Whether this type can be read.
pub(super) fn is_known(kind: u8) -> bool {
    matches!(
        kind,
        STRING
            | LIST
            | SET
            | HASH
            | SORTED_SET
            | SET_OF_INTEGERS
            | HASH_LISTPACK
            | SORTED_SET_LISTPACK
            | LIST_OF_LISTPACKS
            | STREAM
    )
}

/// Writes the type, the key, if there is one, and the value.
pub(super) fn write(bytes: &mut Vec<u8>, key: Option<&[u8]>, value: &Value) {
    let mut head = |kind| {
        bytes.push(kind);
        if let Some(key) = key {
            write_string(bytes, key);
        }
    };
    match value {
        Value::String(string) => {
            head(STRING);
            write_string(bytes, string);
        }
        Value::Hash(hash) => {
            head(HASH);
            write_length(bytes, hash.len() as u64);
            for (field, value) in hash.iter() {
                write_string(bytes, field);
                write_string(bytes, value);
            }
        }
        Value::List(list) => {
            head(LIST);
            write_length(bytes, list.len() as u64);
            list.iter().for_each(|element| write_string(bytes, element));
        }
        Value::Set(set) => {
            head(SET);
            write_length(bytes, set.len() as u64);
            set.iter().for_each(|member| write_string(bytes, member));
        }
        Value::SortedSet(set) => {
            head(SORTED_SET);
            write_length(bytes, set.len() as u64);
            for (member, score) in set.iter() {
                write_string(bytes, member);
                bytes.extend_from_slice(&score.to_le_bytes());
            }
        }
        Value::Stream(stream) => {
            head(STREAM);
            streams::write(bytes, stream);
        }
    }
}

/// A value that is being read: it may be no larger than the reader's limit.
struct Growing<T> {
    value: T,
    limit_bytes: usize,
}

impl<T: Kind> Growing<T> {
    fn new(reader: &Reader<'_>) -> Self {
        Growing { value: T::default(), limit_bytes: reader.limit_bytes }
    }

    fn add(&mut self, add: impl FnOnce(&mut T)) -> Result<(), RdbError> {
        add(&mut self.value);
        if self.value.memory_bytes() > self.limit_bytes {
            return Err(RdbError::TooLarge);
        }
        Ok(())
    }

    fn finish(self) -> Result<Value, RdbError> {
        if self.value.is_spent() {
            return Err(RdbError::Malformed("a collection is empty"));
        }
        Ok(self.value.wrap())
    }
}

impl Reader<'_> {
    /// The value of a known type.
    pub(super) fn value(&mut self, kind: u8) -> Result<Value, RdbError> {
        match kind {
            LIST | LIST_OF_LISTPACKS => self.list(kind),
            SET | SET_OF_INTEGERS => self.set(kind),
            HASH | HASH_LISTPACK => self.hash(kind),
            SORTED_SET | SORTED_SET_LISTPACK => self.sorted_set(kind),
            STREAM => self.stream(),
            _ => Ok(Value::String(self.string()?)),
        }
    }

    fn listpack(&mut self) -> Result<Vec<Bytes>, RdbError> {
        let packed = self.string()?;
        listpack::elements(&packed).ok_or(RdbError::Malformed("a listpack is damaged"))
    }

    fn list(&mut self, kind: u8) -> Result<Value, RdbError> {
        let mut list = Growing::<List>::new(self);
        for _ in 0..self.length()? {
            let elements = match kind {
                LIST => vec![self.string()?],
                _ => match self.length()? {
                    NODE_PLAIN => vec![self.string()?],
                    NODE_LISTPACK => self.listpack()?,
                    _ => return Err(RdbError::Malformed("an unknown kind of node in a list")),
                },
            };
            for element in elements {
                list.add(|list| list.push(End::Right, element))?;
            }
        }
        list.finish()
    }

    fn set(&mut self, kind: u8) -> Result<Value, RdbError> {
        let mut set = Growing::<Set>::new(self);
        if kind == SET {
            for _ in 0..self.length()? {
                let member = self.string()?;
                set.add(|set| {
                    set.insert(&member);
                })?;
            }
            return set.finish();
        }
        for integer in integers(&self.string()?)? {
            let mut number = itoa::Buffer::new();
            let member = number.format(integer).as_bytes();
            set.add(|set| {
                set.insert(member);
            })?;
        }
        set.finish()
    }

    fn hash(&mut self, kind: u8) -> Result<Value, RdbError> {
        let mut hash = Growing::<Hash>::new(self);
        if kind == HASH {
            for _ in 0..self.length()? {
                let field = self.string()?;
                let value = self.string()?;
                hash.add(|hash| {
                    hash.insert(&field, value);
                })?;
            }
            return hash.finish();
        }
        for pair in self.listpack()?.chunks(2) {
            let [field, value] = pair else {
                return Err(RdbError::Malformed("a field of a hash has no value"));
            };
            hash.add(|hash| {
                hash.insert(field, value.clone());
            })?;
        }
        hash.finish()
    }

    fn sorted_set(&mut self, kind: u8) -> Result<Value, RdbError> {
        const NO_SCORE: RdbError = RdbError::Malformed("a member of a sorted set has no score");
        let mut set = Growing::<SortedSet>::new(self);
        if kind == SORTED_SET {
            for _ in 0..self.length()? {
                let member = self.string()?;
                let score = f64::from_le_bytes(self.array()?);
                if score.is_nan() {
                    return Err(NO_SCORE);
                }
                set.add(|set| {
                    set.insert(&member, score);
                })?;
            }
            return set.finish();
        }
        for pair in self.listpack()?.chunks(2) {
            let [member, score] = pair else { return Err(NO_SCORE) };
            let score = super::parse_double(score).ok_or(NO_SCORE)?;
            set.add(|set| {
                set.insert(member, score);
            })?;
        }
        set.finish()
    }
}

/// The integers of an intset: their width in bytes, how many there are, and they.
fn integers(packed: &[u8]) -> Result<Vec<i64>, RdbError> {
    const DAMAGED: RdbError = RdbError::Malformed("a set of integers is damaged");
    let (width, rest) = packed.split_first_chunk::<4>().ok_or(DAMAGED)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(DAMAGED)?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    if !matches!(width, 2 | 4 | 8) || rest.len() != count.saturating_mul(width) {
        return Err(DAMAGED);
    }
    let integer = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(bytes);
        i64::from_le_bytes(wide) >> (64 - 8 * width)
    };
    Ok(rest.chunks(width).map(integer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_integers() {
        let packed = [&[2, 0, 0, 0, 2, 0, 0, 0][..], &[0xff, 0xff, 5, 0]].concat();
        assert_eq!(integers(&packed), Ok(vec![-1, 5]));
        assert!(integers(&packed[..11]).is_err() && integers(&packed[..3]).is_err());
    }
}

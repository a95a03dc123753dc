//! The keys of one database, their values, and when they expire.
//!
//! It knows no clock and removes nothing by itself: when a key is looked at, and
//! what happens to one whose time has come, is the commands' business.

mod hash;
mod list;
mod set;
mod sorted_set;
pub(super) mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

pub(super) use hash::Hash;
pub(super) use list::{End, List};
pub(super) use set::Set;
pub(super) use sorted_set::{Limit, Name, SortedSet};
use stream::Stream;

/// A key, shared between the keyspace and the index of expiries.
pub(super) type Key = Arc<[u8]>;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Bytes, also integers as text.
    String(Bytes),
    /// Fields and their values.
    Hash(Hash),
    /// Elements from left to right.
    List(List),
    /// Members.
    Set(Set),
    /// Members with scores.
    SortedSet(SortedSet),
    /// Entries by their ids, and the groups that read them.
    Stream(Box<Stream>),
}

impl Value {
    /// What a watcher is told of it; see [`observe`](super::observe).
    pub(super) fn told(&self) -> Option<&[u8]> {
        match self {
            Value::String(bytes) => Some(bytes),
            Value::Hash(hash) => hash.iter().next().map(|(field, _)| field),
            Value::List(list) => list.get(0).map(|element| &**element),
            Value::Set(set) => set.iter().next().map(|member| &**member),
            Value::SortedSet(set) => set.iter().next().map(|(member, _)| &**member),
            Value::Stream(_) => None,
        }
    }

    /// The same, of types whose changes are told by what is first in them.
    pub(super) fn first(&self) -> Option<&[u8]> {
        match self {
            Value::List(_) | Value::Set(_) | Value::SortedSet(_) => self.told(),
            Value::String(_) | Value::Hash(_) | Value::Stream(_) => None,
        }
    }
}

/// A type of values other than strings.
pub(super) trait Kind: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn wrap(self) -> Value;
    /// What it costs, bytes.
    fn memory_bytes(&self) -> usize;
    /// Whether a key under which it is goes.
    fn is_spent(&self) -> bool;
}

macro_rules! kinds {
    ($($kind:ident $name:literal;)*) => {
        $(impl Kind for $kind {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }

            fn wrap(self) -> Value {
                Value::$kind(self)
            }

            fn memory_bytes(&self) -> usize {
                self.used_bytes()
            }

            fn is_spent(&self) -> bool {
                self.is_empty()
            }
        })*

        impl Value {
            /// The bytes of a string.
            pub(super) fn string(&self) -> Option<&Bytes> {
                match self {
                    Value::String(bytes) => Some(bytes),
                    _ => None,
                }
            }

            /// What it costs, bytes.
            pub(super) fn memory_bytes(&self) -> usize {
                match self {
                    Value::String(bytes) => bytes.len(),
                    $(Value::$kind(inner) => inner.memory_bytes(),)*
                    Value::Stream(stream) => stream.memory_bytes(),
                }
            }

            /// As `TYPE` tells it.
            pub(super) fn type_name(&self) -> &'static str {
                match self {
                    Value::String(_) => "string",
                    $(Value::$kind(_) => $name,)*
                    Value::Stream(_) => "stream",
                }
            }
        }
    };
}

kinds! {
    Hash "hash";
    List "list";
    Set "set";
    SortedSet "zset";
}

impl Kind for Stream {
    fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn wrap(self) -> Value {
        Value::Stream(Box::new(self))
    }

    fn memory_bytes(&self) -> usize {
        self.used_bytes()
    }

    /// A stream stays, with its last id and its groups, when its entries are gone.
    fn is_spent(&self) -> bool {
        false
    }
}

/// What is kept under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// Unix milliseconds on the server's wall clock.
    pub(super) expires_at_ms: Option<i64>,
}

impl Entry {
    /// Whether its time has come.
    pub(super) fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at_ms| now_ms > at_ms)
    }

    fn memory_bytes(&self, key: &[u8]) -> usize {
        ENTRY_BYTES + key.len() + self.value.memory_bytes()
    }
}

/// What a key costs besides its bytes and its value's.
const ENTRY_BYTES: usize = 64;

/// One database.
#[derive(Clone, Debug, Default)]
pub(super) struct Database {
    keys: BTreeMap<Key, Entry>,
    expiries: BTreeSet<(i64, Key)>,
    used_bytes: usize,
}

impl Database {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How large all keys and values are, bytes.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// How many keys have an expiry.
    pub(super) fn expiring_len(&self) -> usize {
        self.expiries.len()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key)
    }

    /// The keys in byte order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.keys.iter()
    }

    /// Puts a value under a key, in place of whatever was there. True if nothing was.
    pub(super) fn insert(&mut self, key: &[u8], value: Value, expires_at_ms: Option<i64>) -> bool {
        match self.keys.get_mut(key) {
            Some(entry) => {
                self.used_bytes -= entry.value.memory_bytes();
                self.used_bytes += value.memory_bytes();
                entry.value = value;
                if entry.expires_at_ms != expires_at_ms {
                    self.set_expiry(key, expires_at_ms);
                }
                false
            }
            None => {
                let key: Key = key.into();
                if let Some(at_ms) = expires_at_ms {
                    self.expiries.insert((at_ms, key.clone()));
                }
                let entry = Entry { value, expires_at_ms };
                self.used_bytes += entry.memory_bytes(&key);
                self.keys.insert(key, entry);
                true
            }
        }
    }

    /// Changes the value under a key in place; nothing if it is not there.
    pub(super) fn modify<T>(
        &mut self,
        key: &[u8],
        work: impl FnOnce(&mut Value) -> T,
    ) -> Option<T> {
        let entry = self.keys.get_mut(key)?;
        self.used_bytes -= entry.value.memory_bytes();
        let result = work(&mut entry.value);
        self.used_bytes += entry.value.memory_bytes();
        Some(result)
    }

    /// Changes the value under a key in place; nothing if it is not there or of another type.
    pub(super) fn modify_as<T: Kind, R>(
        &mut self,
        key: &[u8],
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        self.modify(key, |value| T::of_mut(value).map(work)).flatten()
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let (key, entry) = self.keys.remove_entry(key)?;
        self.used_bytes -= entry.memory_bytes(&key);
        if let Some(at_ms) = entry.expires_at_ms {
            self.expiries.remove(&(at_ms, key));
        }
        Some(entry)
    }

    /// Changes when a key expires; nothing if it is not there.
    pub(super) fn set_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        let range = (Bound::Included(key), Bound::Included(key));
        let Some((key, entry)) = self.keys.range_mut::<[u8], _>(range).next() else {
            return;
        };
        if let Some(at_ms) = entry.expires_at_ms {
            self.expiries.remove(&(at_ms, key.clone()));
        }
        entry.expires_at_ms = expires_at_ms;
        if let Some(at_ms) = expires_at_ms {
            self.expiries.insert((at_ms, key.clone()));
        }
    }

    /// The key that expires first, and when.
    pub(super) fn first_expiring(&self) -> Option<(i64, Key)> {
        self.expiries.first().cloned()
    }

    /// The key that expires first, if its time was before `now_ms`.
    pub(super) fn first_expired(&self, now_ms: i64) -> Option<Key> {
        let (at_ms, key) = self.expiries.first()?;
        (now_ms > *at_ms).then(|| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &'static str) -> Value {
        Value::String(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn the_index_follows_the_keys() {
        let mut database = Database::default();
        database.insert(b"a", string("1"), Some(10));
        database.insert(b"b", string("2"), Some(5));
        assert_eq!(database.first_expired(5), None, "expired means later than");
        assert_eq!(database.first_expired(6).as_deref(), Some(&b"b"[..]));
        database.set_expiry(b"b", Some(20));
        assert_eq!(database.first_expired(11).as_deref(), Some(&b"a"[..]));
        database.insert(b"a", string("3"), None);
        assert_eq!(database.first_expired(11), None);
        assert_eq!(database.used_bytes(), 2 * (ENTRY_BYTES + 2));
        database.remove(b"b");
        assert_eq!((database.len(), database.expiring_len()), (1, 0));
        database.set_expiry(b"nobody", Some(1));
        assert_eq!(database.expiring_len(), 0);
    }
}

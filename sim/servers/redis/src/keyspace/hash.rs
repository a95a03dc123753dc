//! A hash: fields and their values, in the order in which the fields came.
//!
//! Redis keeps that order for small hashes (up to 512 fields of up to 64 bytes); for
//! larger ones its order is that of a hash table, and here it stays the order of arrival.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

/// What a field costs besides its bytes and its value's.
const FIELD_BYTES: usize = 32;

/// Up to so many fields of so many bytes Redis keeps a listpack.
const SMALL_FIELDS: usize = 512;
const SMALL_BYTES: usize = 64;

/// A hash. Never empty where commands can see it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Hash {
    fields: BTreeMap<Arc<[u8]>, (u64, Bytes)>,
    order: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    used_bytes: usize,
    /// It was once larger than a listpack may be.
    is_large: bool,
}

/// Equal if the fields, their values and their order are.
impl PartialEq for Hash {
    fn eq(&self, other: &Hash) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Hash {}

impl Hash {
    pub(in super::super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// What it costs, bytes.
    pub(in super::super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(in super::super) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field).map(|(_, value)| value)
    }

    /// Fields and values in their order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.order.values().filter_map(|field| Some((&**field, self.get(field)?)))
    }

    /// As `OBJECT ENCODING` tells it.
    pub(in super::super) fn encoding(&self) -> &'static str {
        if self.is_large { "hashtable" } else { "listpack" }
    }

    /// Sets a field. True if it was not there.
    pub(in super::super) fn insert(&mut self, field: &[u8], value: Bytes) -> bool {
        self.is_large |= value.len() > SMALL_BYTES;
        if let Some((_, present)) = self.fields.get_mut(field) {
            self.used_bytes -= present.len();
            self.used_bytes += value.len();
            *present = value;
            return false;
        }
        let field: Arc<[u8]> = field.into();
        self.used_bytes += FIELD_BYTES + field.len() + value.len();
        self.is_large |= field.len() > SMALL_BYTES || self.fields.len() >= SMALL_FIELDS;
        self.order.insert(self.next, field.clone());
        self.fields.insert(field, (self.next, value));
        self.next += 1;
        true
    }

    /// Removes a field. False if it was not there.
    pub(in super::super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((position, value)) = self.fields.remove(field) else { return false };
        self.order.remove(&position);
        self.used_bytes -= FIELD_BYTES + field.len() + value.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_arrival() {
        let mut hash = Hash::default();
        assert!(hash.insert(b"b", Bytes::from_static(b"1")));
        assert!(hash.insert(b"a", Bytes::from_static(b"2")));
        assert!(!hash.insert(b"b", Bytes::from_static(b"three")));
        assert_eq!(hash.used_bytes(), 2 * FIELD_BYTES + 2 + 6);
        let fields: Vec<_> = hash.iter().map(|(field, _)| field.to_vec()).collect();
        assert_eq!(fields, [b"b", b"a"]);
        assert!(hash.remove(b"b") && !hash.remove(b"b"));
        assert!(hash.insert(b"b", Bytes::new()));
        assert_eq!(hash.iter().next().map(|(field, _)| field), Some(&b"a"[..]));
        assert!(hash.remove(b"a") && hash.remove(b"b"));
        assert_eq!((hash.used_bytes(), hash.is_empty()), (0, true));
    }
}

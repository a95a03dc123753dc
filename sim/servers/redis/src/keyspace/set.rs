//! A set of members.
//!
//! Redis keeps a set of integers in the order of the numbers, up to 512 of them; any other
//! set is a hash table, whose order here is the members' byte order.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::codec::number::parse_integer;

/// What a member costs besides its bytes.
const MEMBER_BYTES: usize = 40;

/// Up to so many integers are kept in their order.
const SMALL_MEMBERS: usize = 512;

/// A set. Never empty where commands can see it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Set {
    members: BTreeSet<Arc<[u8]>>,
    used_bytes: usize,
    /// It once held something other than few integers.
    is_table: bool,
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Eq for Set {}

impl Set {
    pub(in super::super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(in super::super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// As `OBJECT ENCODING` tells it.
    pub(in super::super) fn encoding(&self) -> &'static str {
        if self.is_table { "hashtable" } else { "intset" }
    }

    pub(in super::super) fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    /// The members in their order.
    pub(in super::super) fn members(&self) -> Vec<Arc<[u8]>> {
        let mut members: Vec<Arc<[u8]>> = self.members.iter().cloned().collect();
        if !self.is_table {
            members.sort_by_key(|member| parse_integer(member));
        }
        members
    }

    /// The members in byte order.
    pub(in super::super) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<[u8]>> {
        self.members.iter()
    }

    /// Adds a member. False if it was there.
    pub(in super::super) fn insert(&mut self, member: &[u8]) -> bool {
        if self.members.contains(member) {
            return false;
        }
        self.used_bytes += MEMBER_BYTES + member.len();
        self.members.insert(member.into());
        self.is_table |= self.members.len() > SMALL_MEMBERS || parse_integer(member).is_none();
        true
    }

    /// Removes a member. False if it was not there.
    pub(in super::super) fn remove(&mut self, member: &[u8]) -> bool {
        let is_there = self.members.remove(member);
        if is_there {
            self.used_bytes -= MEMBER_BYTES + member.len();
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_in_their_order() {
        let mut set = Set::default();
        for member in ["10", "9", "-1"] {
            assert!(set.insert(member.as_bytes()) && !set.insert(member.as_bytes()));
        }
        let members = |set: &Set| -> Vec<String> {
            set.members().iter().map(|member| String::from_utf8_lossy(member).into()).collect()
        };
        assert_eq!(
            (members(&set), set.encoding()),
            (vec!["-1".into(), "9".into(), "10".into()], "intset")
        );
        set.insert(b"x");
        assert_eq!(set.encoding(), "hashtable");
        assert!(set.remove(b"x") && !set.remove(b"x"));
        assert_eq!(members(&set), ["-1", "10", "9"]);
        assert_eq!(set.used_bytes(), 3 * MEMBER_BYTES + 5);
    }
}

//! A stream: entries in the order of their ids, and the groups of consumers that share them.
//!
//! Order of things: [`Id`], entries and [`Stream`], [`Group`].
//!
//! Redis keeps the entries in nodes of up to 100 entries or 4 KiB; only whole nodes go when a
//! stream is trimmed "about" (`~`), so the nodes are known here too.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

/// What an entry, and a field of it, cost besides their bytes.
const ENTRY_BYTES: usize = 64;
const FIELD_BYTES: usize = 32;

/// What a group, a consumer and a pending entry cost besides their names.
const GROUP_BYTES: usize = 128;
const PENDING_BYTES: usize = 96;

/// How large a node grows (`stream-node-max-entries`, `stream-node-max-bytes`).
const NODE_ENTRIES: usize = 100;
const NODE_BYTES: usize = 4096;

/// The id of an entry: milliseconds and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Id {
    pub(in super::super) ms: u64,
    pub(in super::super) seq: u64,
}

impl Id {
    pub(in super::super) const LEAST: Id = Id { ms: 0, seq: 0 };
    pub(in super::super) const MOST: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The id behind this one.
    pub(in super::super) fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before this one.
    pub(in super::super) fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}

/// What is under an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Entry {
    /// Fields and values in turn.
    pub(in super::super) fields: Vec<Bytes>,
    /// The number of its node.
    node: u64,
}

impl Entry {
    fn memory_bytes(&self) -> usize {
        ENTRY_BYTES + self.fields.iter().map(|field| FIELD_BYTES + field.len()).sum::<usize>()
    }
}

/// How a stream is made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Trim {
    pub(in super::super) to: Bound,
    /// Only whole nodes go.
    pub(in super::super) about: bool,
    /// How many go at most; 0: all that are to go.
    pub(in super::super) limit: usize,
}

/// What stays of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Bound {
    /// So many entries, the last.
    Length(usize),
    /// The entries from an id on.
    Least(Id),
}

/// A stream. It may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stream {
    entries: BTreeMap<Id, Entry>,
    pub(in super::super) groups: BTreeMap<Arc<[u8]>, Group>,
    pub(in super::super) last_id: Id,
    /// The largest id that was deleted.
    pub(in super::super) max_deleted: Id,
    /// How many entries there ever were.
    pub(in super::super) added: u64,
    /// The last node, how many entries it ever had, and how large they are.
    node: (u64, usize, usize),
    entry_bytes: usize,
}

impl Stream {
    pub(in super::super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What it costs, bytes.
    pub(in super::super) fn used_bytes(&self) -> usize {
        self.entry_bytes + self.groups.values().map(Group::memory_bytes).sum::<usize>()
    }

    /// The first entry's id; 0-0 without entries.
    pub(in super::super) fn first_id(&self) -> Id {
        self.entries.keys().next().copied().unwrap_or(Id::LEAST)
    }

    /// The last entry's id; 0-0 without entries.
    pub(in super::super) fn last_entry_id(&self) -> Id {
        self.entries.keys().next_back().copied().unwrap_or(Id::LEAST)
    }

    /// How many nodes Redis would keep.
    pub(in super::super) fn nodes(&self) -> usize {
        let mut nodes: Vec<u64> = self.entries.values().map(|entry| entry.node).collect();
        nodes.dedup();
        nodes.len()
    }

    pub(in super::super) fn get(&self, id: Id) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// The entries of a range of ids, both of which count.
    pub(in super::super) fn range(
        &self,
        from: Id,
        to: Id,
    ) -> impl DoubleEndedIterator<Item = (Id, &Entry)> {
        let range = (from <= to).then(|| self.entries.range(from..=to));
        range.into_iter().flatten().map(|(id, entry)| (*id, entry))
    }

    /// Appends an entry; its id is larger than [`last_id`](Self::last_id).
    pub(in super::super) fn append(&mut self, id: Id, fields: Vec<Bytes>) {
        let size: usize = fields.iter().map(|field| field.len() + 2).sum::<usize>() + 8;
        let (node, count, bytes) = self.node;
        let is_full = count >= NODE_ENTRIES || bytes + size > NODE_BYTES;
        self.node = if is_full && count > 0 {
            (node + 1, 1, size)
        } else {
            (node, count + 1, bytes + size)
        };
        let entry = Entry { fields, node: self.node.0 };
        self.entry_bytes += entry.memory_bytes();
        self.entries.insert(id, entry);
        self.last_id = id;
        self.added += 1;
    }

    fn take(&mut self, id: Id) -> bool {
        let Some(entry) = self.entries.remove(&id) else { return false };
        self.entry_bytes -= entry.memory_bytes();
        true
    }

    /// Deletes an entry. False if it was not there.
    pub(in super::super) fn delete(&mut self, id: Id) -> bool {
        let is_there = self.take(id);
        if is_there {
            self.max_deleted = self.max_deleted.max(id);
        }
        is_there
    }

    /// Makes the stream shorter; how many entries went.
    pub(in super::super) fn trim(&mut self, trim: Trim) -> usize {
        let mut deleted = 0;
        while let Some((_, first)) = self.entries.first_key_value() {
            let node = first.node;
            let ids: Vec<Id> = self
                .entries
                .iter()
                .take_while(|(_, entry)| entry.node == node)
                .map(|(id, _)| *id)
                .collect();
            if trim.limit > 0 && deleted + ids.len() > trim.limit {
                break;
            }
            let goes = |stream: &Stream, id: Id| match trim.to {
                Bound::Length(most) => stream.len() > most,
                Bound::Least(least) => id < least,
            };
            let whole = match trim.to {
                Bound::Length(most) => self.len() - ids.len() >= most,
                Bound::Least(least) => ids.last().is_some_and(|last| *last < least),
            };
            if !goes(self, ids[0]) || !whole && trim.about {
                break;
            }
            for id in ids {
                if goes(self, id) {
                    self.take(id);
                    deleted += 1;
                }
            }
            if !whole {
                break;
            }
        }
        deleted
    }

    /// Whether something was deleted behind an id.
    fn has_gap_behind(&self, id: Id) -> bool {
        !self.is_empty() && self.max_deleted != Id::LEAST && id <= self.max_deleted
    }

    /// How many entries there were up to an id, if that can be known.
    fn distance(&self, id: Id) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id || id == self.last_id {
            return Some(self.added);
        }
        if id > self.last_id {
            return None;
        }
        let first = self.first_id();
        if self.max_deleted != Id::LEAST && self.max_deleted >= first {
            return None;
        }
        match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(self.added - self.len() as u64),
            std::cmp::Ordering::Equal => Some(self.added - self.len() as u64 + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// How many entries a group has not read, if that can be known.
    pub(in super::super) fn lag(&self, group: &Group) -> Option<i64> {
        if self.added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gap_behind(group.last_id) => read,
            _ => i64::try_from(self.distance(group.last_id)?).ok()?,
        };
        Some((self.added as i64).wrapping_sub(read))
    }

    /// Takes note that a group was given an entry.
    pub(in super::super) fn note_read(&mut self, group: &[u8], id: Id) {
        let Some(mut found) = self.groups.remove_entry(group) else { return };
        let group = &mut found.1;
        if id > group.last_id {
            match &mut group.entries_read {
                Some(read) if !self.has_gap_behind(id) => *read = read.wrapping_add(1),
                read if self.added > 0 => *read = self.distance(id).map(|read| read as i64),
                _ => {}
            }
            group.last_id = id;
        }
        self.groups.insert(found.0, found.1);
    }
}

/// An entry that a consumer has been given and has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Pending {
    pub(in super::super) consumer: Arc<[u8]>,
    /// Unix milliseconds on the server's wall clock.
    pub(in super::super) delivered_at_ms: i64,
    pub(in super::super) deliveries: i64,
}

/// A group of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Group {
    /// The last entry that any of them was given.
    pub(in super::super) last_id: Id,
    /// How many entries they were given, if that is known.
    pub(in super::super) entries_read: Option<i64>,
    pub(in super::super) pending: BTreeMap<Id, Pending>,
    /// When each was last heard of, Unix milliseconds on the server's wall clock.
    pub(in super::super) consumers: BTreeMap<Arc<[u8]>, i64>,
}

impl Group {
    fn memory_bytes(&self) -> usize {
        GROUP_BYTES
            + self.pending.len() * PENDING_BYTES
            + self.consumers.keys().map(|name| GROUP_BYTES + name.len()).sum::<usize>()
    }

    /// The entries that wait for one consumer's acknowledgement.
    pub(in super::super) fn pending_of<'a>(
        &'a self,
        consumer: &'a [u8],
    ) -> impl Iterator<Item = (Id, &'a Pending)> {
        self.pending
            .iter()
            .filter(move |(_, pending)| *pending.consumer == *consumer)
            .map(|(id, pending)| (*id, pending))
    }

    /// Enters a consumer, or takes note that it was heard of. True if it is new.
    pub(in super::super) fn hear(&mut self, consumer: &[u8], now_ms: i64) -> bool {
        if let Some(heard) = self.consumers.get_mut(consumer) {
            *heard = now_ms;
            return false;
        }
        self.consumers.insert(consumer.into(), now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> Id {
        Id { ms, seq: 0 }
    }

    fn stream(count: u64) -> Stream {
        let mut stream = Stream::default();
        for ms in 1..=count {
            stream.append(id(ms), vec![Bytes::from_static(b"f"), Bytes::from_static(b"v")]);
        }
        stream
    }

    #[test]
    fn about_means_whole_nodes() {
        let mut numbers = stream(250);
        let about = |to, limit| Trim { to, about: true, limit };
        assert_eq!(numbers.nodes(), 3);
        assert_eq!(numbers.trim(about(Bound::Length(151), 0)), 0);
        assert_eq!(numbers.trim(about(Bound::Length(120), 50)), 0);
        assert_eq!(numbers.trim(about(Bound::Length(120), 0)), 100);
        assert_eq!(numbers.trim(about(Bound::Least(id(220)), 0)), 100);
        let exact = Trim { to: Bound::Length(3), about: false, limit: 0 };
        assert_eq!((numbers.trim(exact), numbers.len()), (47, 3));
        assert_eq!(numbers.first_id(), id(248));
        let all = Trim { to: Bound::Least(Id::MOST), about: false, limit: 0 };
        assert_eq!((numbers.trim(all), numbers.used_bytes()), (3, 0));
    }

    #[test]
    fn ids_go_on() {
        assert_eq!(Id { ms: 1, seq: u64::MAX }.next(), Some(id(2)));
        assert_eq!(id(2).previous(), Some(Id { ms: 1, seq: u64::MAX }));
        assert_eq!((Id::MOST.next(), Id::LEAST.previous()), (None, None));
    }
}

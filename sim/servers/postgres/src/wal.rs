//! The log: what makes a commit last.
//!
//! A record is its length, a checksum, and what changed. Records are made in memory,
//! written to the file `wal` and synchronised by whoever commits first, for all who wait
//! (group commit). After a crash the file is read up to the first record that is not
//! whole, and the rest is cut off.
//!
//! What a transaction changed is written with its commit: PostgreSQL writes it as it
//! happens, and ignores after a crash what has no commit behind it, which is the same to
//! whoever looks from outside.

use serde::{Deserialize, Serialize};

use super::catalogue::RelationId;
use super::transaction::{Change, Xid};

pub(crate) const FILE: &str = "wal";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    Commit {
        xid: Xid,
        changes: Vec<Change>,
    },
    /// A sequence has been taken so far.
    Sequence {
        id: RelationId,
        last: i64,
        is_called: bool,
    },
    /// A standby became a primary.
    Promotion {
        timeline: u64,
    },
}

/// Bytes before what changed.
const HEAD: usize = 8;

fn checksum(payload: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(payload);
    let bytes = hash.as_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

/// A record as bytes.
pub(crate) fn encode(record: &Record) -> Vec<u8> {
    // Serialising these types cannot fail: they have no maps with keys of other types.
    let payload = serde_json::to_vec(record).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&checksum(&payload));
    bytes.extend_from_slice(&payload);
    bytes
}

/// The first record of `bytes` and its length; `None` if there is no whole one.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    let payload = rest.get(..length)?;
    if checksum(payload) != *sum {
        return None;
    }
    let record = serde_json::from_slice(payload).ok()?;
    Some((record, HEAD + length))
}

/// The log as the running server has it.
#[derive(Debug, Default)]
pub(crate) struct Wal {
    /// All of it, from the beginning: standbys may ask for any part.
    bytes: Vec<u8>,
    /// How much the kernel has.
    pub(crate) written: u64,
    /// How much is on the disk.
    pub(crate) flushed: u64,
    /// Somebody writes or synchronises.
    pub(crate) is_busy: bool,
    pub(crate) timeline: u64,
}

impl Wal {
    /// Appends a record; its end.
    pub(crate) fn append(&mut self, record: &Record) -> u64 {
        self.bytes.extend_from_slice(&encode(record));
        self.end()
    }

    /// What a primary sent, or a file held.
    pub(crate) fn append_bytes(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.extend_from_slice(bytes);
        self.end()
    }

    pub(crate) fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn between(&self, from: u64, to: u64) -> &[u8] {
        let to = (to as usize).min(self.bytes.len());
        let from = (from as usize).min(to);
        &self.bytes[from..to]
    }

    pub(crate) fn read(&self, at: u64) -> Option<(Record, usize)> {
        decode(self.bytes.get(at as usize..)?)
    }

    /// Forgets a torn end.
    pub(crate) fn cut(&mut self, at: u64) {
        self.bytes.truncate(at as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, decode, encode};

    #[test]
    fn a_torn_record_is_none() {
        let bytes = encode(&Record::Sequence { id: 1, last: 5, is_called: true });
        assert!(
            matches!(decode(&bytes), Some((Record::Sequence { last: 5, .. }, length)) if length == bytes.len())
        );
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none());
        }
        let mut wrong = bytes.clone();
        wrong[10] ^= 1;
        assert!(decode(&wrong).is_none());
    }
}

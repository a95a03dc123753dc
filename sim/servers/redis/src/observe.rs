//! What a Redis server tells whoever watches it: the storm's recorder, or nobody.
//!
//! Observations are made synchronously, at the instant at which the thing happens
//! inside the server (a write is applied before it is appended to the replication
//! stream, before its reply is queued), so that a fault anchored to an observation
//! strikes exactly there. An observer must therefore not call back into the server.
//!
//! Where a value is told that a key has or had, it is a string itself, of a hash its first
//! field, of a list its leftmost element, of a sorted set the member with the least score, of a
//! set the first in byte order: what a lock's record names its owner by. Lists, sets and sorted
//! sets are told as strings are, when something else comes first in them. Streams are not told,
//! and neither is `SWAPDB`: observers know nothing of databases.

use std::net::SocketAddr;

/// Who made a change to the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client on this connection (directly, in MULTI or from a script).
    Client(SocketAddr),
    /// The replication stream of this server's master.
    Master,
}

/// Something that happened inside a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<'a> {
    /// A string key was written, or something else came first in a list or a set: the new
    /// value and, if the key expires, when.
    Set {
        /// By whom.
        origin: Origin,
        /// The key.
        key: &'a [u8],
        /// The value that it had, when that was another live value.
        previous: Option<&'a [u8]>,
        /// The value that it has.
        value: &'a [u8],
        /// The expiry, Unix milliseconds on the server's wall clock.
        expires_at_ms: Option<i64>,
        /// The server's wall clock now, Unix milliseconds.
        now_ms: i64,
    },
    /// A `SET … NX` found the key in place.
    SetRefused {
        /// By whom.
        origin: Origin,
        /// The key.
        key: &'a [u8],
        /// The value that was asked for.
        value: &'a [u8],
        /// The value that is there.
        present: &'a [u8],
    },
    /// A key's expiry was changed.
    Expiry {
        /// By whom.
        origin: Origin,
        /// The key.
        key: &'a [u8],
        /// The value, where it is told.
        value: Option<&'a [u8]>,
        /// The new expiry, Unix milliseconds on the server's wall clock.
        expires_at_ms: Option<i64>,
        /// The server's wall clock now, Unix milliseconds.
        now_ms: i64,
    },
    /// A field of a hash was set or removed. The removal of the last is told before the
    /// key's deletion.
    Field {
        /// By whom.
        origin: Origin,
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// The value that it has; `None` if it was removed.
        value: Option<&'a [u8]>,
    },
    /// A key was deleted by a command.
    Deleted {
        /// By whom.
        origin: Origin,
        /// The key.
        key: &'a [u8],
        /// The value, where it is told.
        value: Option<&'a [u8]>,
    },
    /// A key was removed because its time had come on this server's clock.
    Expired {
        /// The key.
        key: &'a [u8],
        /// The value, where it is told.
        value: Option<&'a [u8]>,
    },
    /// A key was removed to make room for others (`maxmemory-policy`).
    Evicted {
        /// The key.
        key: &'a [u8],
        /// The value, where it is told.
        value: Option<&'a [u8]>,
    },
    /// This server became master (`REPLICAOF NO ONE`).
    Promoted {
        /// Its replication offset, bytes.
        offset: u64,
        /// Its live keys and their values, as far as those are told.
        strings: Vec<(&'a [u8], &'a [u8])>,
    },
    /// This server was told to follow another.
    Demoted {
        /// Whom, `name:port`.
        master: &'a str,
    },
    /// This server's data set was replaced by its master's.
    Resynchronised {
        /// Its master, `name:port`.
        master: &'a str,
        /// The offset from which it follows, bytes.
        offset: u64,
        /// The keys that it had and its master has not (or with another value).
        lost: Vec<(&'a [u8], &'a [u8])>,
        /// The keys that it has now.
        strings: Vec<(&'a [u8], &'a [u8])>,
        /// The fields of the hashes that it has now: key, field, value.
        fields: Vec<(&'a [u8], &'a [u8], &'a [u8])>,
    },
    /// This server has read its data set from its disk, before it serves.
    Loaded {
        /// The keys that it has now, as far as their values are told.
        strings: Vec<(&'a [u8], &'a [u8])>,
        /// The fields of the hashes that it has now: key, field, value.
        fields: Vec<(&'a [u8], &'a [u8], &'a [u8])>,
    },
    /// The server's replication stream has grown: it wrote, or followed.
    Fed {
        /// Its replication offset now, bytes.
        offset: u64,
    },
    /// Replication output was held back because draining is stalled.
    OutputHeld {
        /// How much is held for the slowest replica, bytes.
        held_bytes: u64,
    },
}

/// Whoever watches a server.
pub trait Observer: Send + Sync {
    /// Called at the instant at which `observation` happens.
    fn observe(&self, observation: &Observation<'_>);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _observation: &Observation<'_>) {}
}

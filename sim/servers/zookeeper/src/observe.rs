//! What a server tells whoever watches it: the storm's recorder, or nobody.
//!
//! Observations are made synchronously, at the instant at which the thing happens inside the
//! server and before any reply or message about it leaves, so that a fault anchored to an
//! observation strikes exactly there. An observer must therefore not call back into the
//! server.
//!
//! What a server does for a client of its own (it lets it in, notifies it) only that server tells.
//! What happens to znodes and sessions is told once in an ensemble: by the server that
//! decides it, the leader, at the instant at which a quorum has the transaction and the
//! leader applies it. What an election decided, a new leader tells by what it begins with
//! ([`Observation::Inherited`]). What becomes of a transaction is told by every server; the bytes of a
//! transaction are the same everywhere, so whoever compares them by number proves the
//! broadcast's first promise.

use std::net::SocketAddr;

use super::EventKind;
use super::settings::ServerId;

/// How a follower was brought to where its leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It was sent the transactions that it lacked.
    Difference,
    /// It had to cut off the end of its log.
    Truncation,
    /// It was sent the whole tree.
    Snapshot,
}

/// A znode that a server begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Znode<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its data; empty for null.
    pub data: &'a [u8],
    /// The transaction that created it.
    pub czxid: i64,
    /// The session that it belongs to; 0 if none.
    pub owner: i64,
}

/// Something that happened inside a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<'a> {
    /// The server has read its disk and has everything up to this transaction.
    Recovered {
        /// The newest transaction of its log or snapshot.
        zxid: i64,
        /// The epoch of the leader that it last synchronised with.
        epoch: i64,
        /// The newest transactions of its log, in order, decided or not.
        log: &'a [i64],
    },
    /// The leader made a transaction of a request and sent it out.
    Proposed {
        /// Its number.
        zxid: i64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// This server's disk has a transaction, for good, and it may acknowledge it.
    Logged {
        /// Its number.
        zxid: i64,
    },
    /// The leader knows a transaction on a quorum of disks: it is decided.
    Committed {
        /// Its number.
        zxid: i64,
    },
    /// The server applied a transaction to its tree.
    Applied {
        /// Its number.
        zxid: i64,
        /// Its bytes.
        bytes: &'a [u8],
        /// False if it was in the log and it is not yet known whether it is decided: before
        /// an election.
        committed: bool,
    },
    /// The reply to a request that wrote is on its way to the client.
    Acknowledged {
        /// The transaction.
        zxid: i64,
        /// The client's session.
        session: i64,
        /// The client's number for the request.
        xid: i32,
        /// 0, or why it was refused.
        code: i32,
    },
    /// A znode came.
    Created {
        /// The transaction: a fencing token, for it grows with every creation.
        zxid: i64,
        /// Who created it.
        session: i64,
        /// Its path.
        path: &'a str,
        /// Its data; empty for null.
        data: &'a [u8],
        /// Whether it dies with the session.
        is_ephemeral: bool,
    },
    /// A znode has other data.
    Changed {
        /// The transaction.
        zxid: i64,
        /// Who wrote it.
        session: i64,
        /// Its path.
        path: &'a str,
        /// Its data; empty for null.
        data: &'a [u8],
        /// How often it was written.
        version: i32,
    },
    /// A znode went.
    Deleted {
        /// The transaction.
        zxid: i64,
        /// Who deleted it, or whose end it did not outlive.
        session: i64,
        /// Its path.
        path: &'a str,
        /// The transaction that created it.
        czxid: i64,
        /// The session that it belonged to; 0 if none.
        owner: i64,
    },
    /// A session began.
    SessionCreated {
        /// Its number.
        session: i64,
        /// Its timeout, ms.
        timeout_ms: i32,
    },
    /// The leader heard nothing of a session for its timeout and asks for its end.
    SessionExpired {
        /// Its number.
        session: i64,
    },
    /// A session ended: its client closed it or it expired.
    SessionClosed {
        /// Its number.
        session: i64,
        /// The transaction.
        zxid: i64,
    },
    /// A session is now served by another server than before.
    SessionMoved {
        /// Its number.
        session: i64,
    },
    /// A client was let in to this server with its session.
    Attached {
        /// The session.
        session: i64,
        /// From where.
        peer: SocketAddr,
    },
    /// A client that wanted to go on with a session was told that there is none.
    Refused {
        /// The session that it asked for.
        session: i64,
        /// From where.
        peer: SocketAddr,
    },
    /// A client's connection ended; its session may go on.
    Detached {
        /// The session.
        session: i64,
        /// From where.
        peer: SocketAddr,
    },
    /// From here on changes are decided by this server, a leader or one that stands alone, and
    /// this is what it begins with. All of it is decided by that; some of it may have been
    /// decided by nothing else, for whoever led before was gone before it knew.
    Inherited {
        /// Its whole tree, in order of paths.
        znodes: &'a [Znode<'a>],
        /// The sessions that live, in order.
        sessions: &'a [i64],
    },
    /// The server looks for a leader.
    Looking,
    /// A quorum follows this server: it leads.
    Leading {
        /// Its epoch.
        epoch: i64,
    },
    /// This server leads no more.
    SteppedDown {
        /// Its epoch.
        epoch: i64,
        /// Why, in words.
        why: &'a str,
    },
    /// This server follows a leader and serves.
    Following {
        /// Whom.
        leader: ServerId,
        /// Its epoch.
        epoch: i64,
    },
    /// This follower follows no more, or never got so far.
    Left {
        /// Whom.
        leader: ServerId,
        /// Why, in words.
        why: &'a str,
    },
    /// This follower was brought to where its leader is.
    Synchronised {
        /// Its leader.
        leader: ServerId,
        /// How.
        means: Means,
        /// The newest transaction that it has now.
        zxid: i64,
        /// The transactions that it had in its log and has no more.
        lost: &'a [i64],
    },
    /// A snapshot of the tree is on the disk.
    Snapshot {
        /// The newest transaction in it.
        zxid: i64,
    },
    /// A client is told of something that it watched for.
    Notified {
        /// The client's session.
        session: i64,
        /// What happened.
        kind: EventKind,
        /// To which znode.
        path: &'a str,
    },
    /// The server stopped reading from a client, because too many requests are unanswered.
    Throttled {
        /// The client's session.
        session: i64,
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

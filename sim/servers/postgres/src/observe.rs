//! What a PostgreSQL server tells whoever watches it: the storm's recorder, or nobody.
//!
//! Observations are made synchronously, at the instant at which the thing happens inside
//! the server, while its state is locked: an observer must not call back into the server.
//! Rows are told of the tables in
//! [`observed_tables`](super::Settings::observed_tables), their columns as text.

use std::net::SocketAddr;
use std::time::Duration;

use super::value::{Type, text};

/// A session: its process id and where its client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// As `pg_backend_pid()` tells it.
    pub pid: i32,
    /// The client's address.
    pub peer: SocketAddr,
}

/// An advisory lock's key: the two spaces are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdvisoryKey {
    /// `pg_advisory_lock(bigint)`.
    Big(i64),
    /// `pg_advisory_lock(int, int)`.
    Pair(i32, i32),
}

/// A row: the names of its columns and their values as text, `None` for NULL.
pub type Row<'a> = &'a [(&'a str, Option<String>)];

/// A row, with its table's name.
pub type Kept = (String, Vec<(String, Option<String>)>);

/// The modes of row locks, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLockMode {
    /// FOR KEY SHARE.
    KeyShare,
    /// FOR SHARE.
    Share,
    /// FOR NO KEY UPDATE, and what an UPDATE takes that leaves the key alone.
    NoKeyUpdate,
    /// FOR UPDATE, and what a DELETE takes.
    Update,
}

/// Something that happened inside a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<'a> {
    /// A session has, from now on, this `application_name`.
    Named {
        /// Which.
        session: Session,
        /// Its name.
        name: &'a str,
    },
    /// A client was not let in: there are as many sessions as there may be (53300).
    TooManyConnections {
        /// Where it is.
        peer: SocketAddr,
    },
    /// A session has answered and hears nothing: the server ends it unless its client says
    /// something in time. Not told where nothing limits the silence.
    Idle {
        /// Which.
        session: Session,
        /// How long it may be silent from now on.
        limit: Duration,
    },
    /// A session is about to end, whatever it has in hand: its transaction and its locks
    /// follow.
    SessionEnding {
        /// Which.
        session: Session,
        /// PostgreSQL's code, where the server ends it; `None` where its client has gone.
        code: Option<&'static str>,
    },
    /// A transaction got its number: it is about to write or to lock rows.
    Began {
        /// Whose.
        session: Session,
        /// Its number.
        xid: u64,
    },
    /// A transaction committed: what it wrote can be seen, its locks are free. Its log is
    /// on the disk by then, unless `synchronous_commit` is off.
    Committed {
        /// Whose.
        session: Session,
        /// Its number; `None` if it wrote and locked nothing.
        xid: Option<u64>,
        /// The end of its record in the log, bytes.
        position: u64,
        /// The server's wall clock, µs since 2000.
        wall_us: i64,
    },
    /// A transaction was rolled back.
    Aborted {
        /// Whose.
        session: Session,
        /// Its number.
        xid: Option<u64>,
    },
    /// A row was locked, or written, which locks it until the transaction ends.
    RowLocked {
        /// By whom.
        session: Session,
        /// The transaction.
        xid: u64,
        /// The table.
        table: &'a str,
        /// How.
        mode: RowLockMode,
        /// The row as it was locked.
        row: Row<'a>,
    },
    /// A session waits for a row that another has locked.
    RowAwaited {
        /// Who waits.
        session: Session,
        /// The table.
        table: &'a str,
        /// The row.
        row: Row<'a>,
        /// The transaction that is waited for.
        holder: u64,
    },
    /// A row lock ended with its transaction.
    RowReleased {
        /// Whose it was.
        session: Session,
        /// The transaction.
        xid: u64,
        /// The table.
        table: &'a str,
        /// The row as it was locked.
        row: Row<'a>,
    },
    /// A row was inserted; others see it at the commit.
    Inserted {
        /// By whom.
        session: Session,
        /// The transaction.
        xid: u64,
        /// The table.
        table: &'a str,
        /// The row.
        row: Row<'a>,
    },
    /// A row was updated; others see it at the commit.
    Updated {
        /// By whom.
        session: Session,
        /// The transaction.
        xid: u64,
        /// The table.
        table: &'a str,
        /// As it was.
        old: Row<'a>,
        /// As it is.
        new: Row<'a>,
    },
    /// A row was deleted; others see it at the commit.
    Deleted {
        /// By whom.
        session: Session,
        /// The transaction.
        xid: u64,
        /// The table.
        table: &'a str,
        /// As it was.
        row: Row<'a>,
    },
    /// An advisory lock was taken.
    AdvisoryLocked {
        /// By whom.
        session: Session,
        /// Which.
        key: AdvisoryKey,
        /// Others may share it.
        shared: bool,
        /// It ends with the transaction.
        of_transaction: bool,
    },
    /// A session waits for an advisory lock.
    AdvisoryAwaited {
        /// Who waits.
        session: Session,
        /// Which.
        key: AdvisoryKey,
    },
    /// The session has given back one of its holds of an advisory lock, or all that were left.
    AdvisoryReleased {
        /// Whose it was.
        session: Session,
        /// Which.
        key: AdvisoryKey,
        /// Others could share it.
        shared: bool,
        /// How many it has left; the lock is free of it at 0.
        left: u32,
    },
    /// A session ended; its transaction and its locks with it.
    SessionEnded {
        /// Which.
        session: Session,
    },
    /// The server has recovered from its log and serves.
    Recovered {
        /// The end of the log that was read, bytes.
        position: u64,
        /// How many transactions it held.
        transactions: u64,
        /// How many bytes of a torn record were cut off behind it.
        torn_bytes: u64,
        /// Whether it is a standby.
        standby: bool,
        /// The rows of the observed tables.
        rows: &'a [Kept],
    },
    /// A standby became a primary. Commits of its old primary behind this position are
    /// not here.
    Promoted {
        /// The end of its log, bytes.
        position: u64,
        /// Its timeline from now on.
        timeline: u64,
        /// The rows of the observed tables.
        rows: &'a [Kept],
    },
    /// A standby replayed a commit of its primary.
    Replayed {
        /// The end of its record in the log, bytes.
        position: u64,
        /// The transaction's number at the primary.
        xid: u64,
    },
}

/// A moment as a row of an observed table shows it (a `timestamptz`), µs since 2000; `None`
/// if it is none.
pub fn moment_us(shown: &str) -> Option<i64> {
    text::read(Type::Timestamptz, shown).ok().map(|value| value.int())
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

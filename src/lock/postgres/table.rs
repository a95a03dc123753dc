//! The lock `pg-lock-table`: a row in a table with a unique key says who holds the lock, and
//! until when.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::postgres::table::{Expiry, TableLock};
//! use lockstorm::lock::postgres::{Endpoint, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let (endpoint, options) = (Endpoint::at("pg-1:5432"), Options::new(Duration::from_secs(10)));
//! let lock = TableLock::new(host.clone(), endpoint, options, Expiry::Lease)?;
//!
//! let owner = Owner::unique(&host);
//! // A patience of zero asks once; more than that waits.
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! guard.check()?;
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! As long as the primary does not lose a committed row, and its clock does not step or run
//! faster than the margin allows, no two owners hold a key at the same time, where *hold*
//! means: from the grant until [`Guard::check`] says that the lease is over. Each statement
//! is a transaction of its own and committed before its reply, so a row is as durable as
//! the database. Expiry is judged by the server's `clock_timestamp()` alone: `now()` is the
//! time when a transaction began, which may be long ago.
//!
//! One statement takes a free key and takes over an expired one: the unique index keeps two
//! takers apart, and the one that comes second looks at the row again when the first has
//! committed. A release deletes the owner's own row only, and says `NotHeld` if that was
//! over already.
//!
//! A reply that is lost is asked for again, once, on a new connection: the owner's name is
//! unique to its attempt, so the same statement finds its own row, or makes it.
//!
//! # Takeover
//! A dead holder's row keeps others out until its lease ends; a waiter that polls then gets
//! in within [`Lock::takeover_bound`]: the lease, one retry, and for the server (for each
//! that may be tried) and the statement a command timeout each, twice.
//!
//! # How it is known to fail
//! - **A failover** to a standby that has not received the row forgets the grant.
//! - **A pause beyond the lease**, between the check and the write; a fence stops that.
//! - **Clocks.** A server's clock that steps forward, or a new primary's that is ahead, ends
//!   leases early.
//! - **A statement that arrives late**, after its caller had given up and everything sent
//!   to take it back: a row that nobody holds, for one lease.
//! - **[`Expiry::Never`]**, what is often recommended (insert to lock, delete to unlock): a
//!   holder that dies locks the key for good. The bound that is declared is then that of a
//!   world in which no holder dies.
//! - **Waiting.** An INSERT of a key waits, without a limit but `lock_timeout`, for another
//!   transaction that has inserted the same key and not committed. Here no transaction stays
//!   open, so the wait is one commit long.
//! - **Tokens** go back with the sequence when a standby is promoted that had not received
//!   the latest commits.

pub mod reentrant;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use self::rows::{Row, Rows};
use super::endpoint::Endpoint;
use super::options::{Fencing, InvalidOptions, Options};
use super::pool::Usage;
use super::waiting::until_granted;
use crate::host::{BoxFuture, Host};
use crate::lock::{FencingToken, Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

/// When a row is over of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// When its lease is over.
    Lease,
    /// Never: plain INSERT and DELETE. Whoever dies holding it holds it for good. The lease
    /// is then only what the guard counts by.
    Never,
}

/// The lock `pg-lock-table`; see the module's text.
#[derive(Debug)]
pub struct TableLock {
    rows: Arc<Rows>,
    expiry: Expiry,
}

impl TableLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: Options,
        expiry: Expiry,
    ) -> Result<Self, InvalidOptions> {
        Ok(TableLock { rows: Rows::new(host, endpoint, options)?, expiry })
    }

    /// The options in use: as given, the lease in whole milliseconds.
    pub fn options(&self) -> &Options {
        self.rows.options()
    }

    /// How the connections have been used.
    pub fn usage(&self) -> Usage {
        self.rows.usage()
    }
}

impl Lock for TableLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let (host, options) = (self.rows.host(), self.rows.options());
            let (rows, expiry) = (&self.rows, self.expiry);
            let row = until_granted(host, options.retry, patience, |_| async move {
                match expiry {
                    Expiry::Lease => rows.take(key, owner, 1).await,
                    Expiry::Never => rows.insert(key, owner).await,
                }
            });
            let row = row.await?;
            let grant = grant(key, owner, options, &row);
            let held = HeldRow { rows: rows.clone(), key: key.to_owned(), owner: owner.clone() };
            Ok(Guard::new(host.clone(), grant, held))
        })
    }

    fn takeover_bound(&self) -> Duration {
        match self.expiry {
            Expiry::Lease => self.rows.takeover_bound(),
            // Of a holder that leaves, not of one that dies: of that there is no bound.
            Expiry::Never => self.rows.takeover_bound() - self.rows.options().lease,
        }
    }
}

/// The facts of a grant that stands on a row.
fn grant(key: &str, owner: &Owner, options: &Options, row: &Row) -> Grant {
    let shown = options.fencing == Fencing::Sequence;
    Grant {
        key: key.to_owned(),
        owner: owner.clone(),
        token: shown.then_some(FencingToken(row.token)),
        lease: options.lease,
        margin: options.margin,
        asked_at: row.asked_at,
    }
}

/// The row behind a guard.
struct HeldRow {
    rows: Arc<Rows>,
    key: String,
    owner: Owner,
}

impl GuardBackend for HeldRow {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (rows, key, owner) = (self.rows.clone(), self.key.clone(), self.owner.clone());
        Box::pin(async move { rows.release(&key, &owner).await })
    }
}

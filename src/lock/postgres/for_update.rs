//! The locks `pg-for-update` and `pg-nowait`: a transaction that has locked the key's row,
//! `SELECT … FOR UPDATE`, and stays open while the lock is held.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::postgres::for_update::RowLock;
//! use lockstorm::lock::postgres::{Endpoint, Options, schema};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::at("pg-1:5432");
//! schema::install(&host, &endpoint, Duration::from_secs(5)).await?;
//! let options = Options::new(Duration::from_secs(10));
//! let lock = RowLock::waiting(host.clone(), endpoint, options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! guard.check()?; // the session has not ended, as far as we can know
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! On one primary no two owners hold a key at the same time, where *hold* means: from the
//! grant until [`Guard::check`] says otherwise. The server keeps the row locked as long as
//! the transaction is open, and ends a session that says nothing for a lease
//! (`idle_in_transaction_session_timeout`); the holder counts the same time from its last
//! answered word, less the margin. When the session ends, the transaction is rolled back
//! and the lock with it: [`Guard::lost`] tells at once.
//!
//! `pg-for-update` waits at the server (`lock_timeout` and `statement_timeout` are the patience that is left): in
//! order of arrival, nearly, and each waiter occupies a connection. `pg-nowait` asks with
//! NOWAIT and asks again after a retry: no order, but a waiter occupies nothing.
//!
//! Giving back rolls the transaction back: it has changed nothing, and a rollback waits for
//! no disk, which a commit does.
//!
//! # Takeover
//! A holder whose process dies is rid of at once, when the server sees the end of its
//! stream; one that falls silent (a machine that is gone, a cut, a pause) after a lease.
//! [`Lock::takeover_bound`] is the lease, one retry, and a command timeout for each server
//! and three more.
//!
//! # How it is known to fail
//! - **A failover.** Row locks are in the primary's memory and its pages, never on a
//!   standby that is promoted. The old primary's holders go on while it serves them.
//! - **A pause beyond the lease**, between the check and the write: the server has ended
//!   the session, and the holder acts before it hears of it.
//! - **Connections.** Every holder and every queued waiter has one. When they are used up
//!   nobody gets in, and whoever needs the database for other work waits too:
//!   [`RowLock::usage`] measures it.
//! - **Deadlocks** of transactions that lock several keys in different orders: the server
//!   ends one of them after `deadlock_timeout` (code 40P01), unless its `lock_timeout` is
//!   shorter and hides it. Here each acquire has a transaction of its own, so two keys are
//!   two connections and the server sees no circle: the patience ends it.
//! - **Tokens** go back with the sequence when a standby is promoted that had not received
//!   the latest commits.
//! - **A pooler in transaction mode** works for these, as the transaction pins a server
//!   connection; it does not for what sessions hold ([`advisory`](super::advisory)).

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::held::{Claim, Sessions, Wait, Waiters};
use super::options::{InvalidOptions, Options};
use super::pool::Usage;
use super::schema::literal;
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, Lock, LockError, Owner, Promises};

/// The locks `pg-for-update` and `pg-nowait`; see the module's text.
#[derive(Debug)]
pub struct RowLock {
    sessions: Arc<Sessions>,
    waiters: Waiters,
}

impl RowLock {
    /// The lock `pg-for-update`: waiters queue at the server. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn waiting(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, endpoint, options)?;
        Ok(RowLock { sessions, waiters: Waiters::Queue })
    }

    /// The lock `pg-nowait`: waiters ask again. Nothing is connected yet.
    ///
    /// # Errors
    /// As [`waiting`](RowLock::waiting).
    pub fn nowait(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, endpoint, options)?;
        Ok(RowLock { sessions, waiters: Waiters::Poll })
    }

    /// The options in use: as given, the lease in whole milliseconds.
    pub fn options(&self) -> &Options {
        self.sessions.options()
    }

    /// How the connections have been used.
    pub fn usage(&self) -> Usage {
        self.sessions.usage()
    }
}

impl Lock for RowLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        let lease_ms = self.sessions.options().lease_ms();
        let claim = move |wait| claim(key, owner, lease_ms, wait);
        Box::pin(self.sessions.acquire(key, owner, patience, self.waiters, claim))
    }

    fn takeover_bound(&self) -> Duration {
        self.sessions.takeover_bound()
    }

    fn promises(&self) -> Promises {
        let loss_notice_bound = Some(self.sessions.loss_notice_bound());
        Promises { loss_notice_bound, ..Promises::default() }
    }
}

fn claim(key: &str, owner: &Owner, lease_ms: u64, wait: Wait) -> Claim {
    let begin = begin(owner, lease_ms, wait);
    let key = literal(key);
    let nowait = if wait.is_none() { " NOWAIT" } else { "" };
    Claim {
        take: format!(
            "{begin}SELECT key FROM lockstorm_row WHERE key = {key} FOR UPDATE{nowait}{}",
            settled("SET LOCAL", wait)
        ),
        granted_by: None,
        after_refusal: "ROLLBACK",
        after_error: Some("ROLLBACK"),
        give_back: "ROLLBACK".to_owned(),
        given_back_by: None,
        make: Some(format!(
            "INSERT INTO lockstorm_row (key) VALUES ({key}) ON CONFLICT DO NOTHING"
        )),
    }
}

/// Begins a transaction that holds a lock: its name for those who look at
/// `pg_stat_activity`, how long it may be silent, how long it waits. All is over with the
/// transaction.
pub(super) fn begin(owner: &Owner, lease_ms: u64, wait: Wait) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; \
         SET LOCAL application_name = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {lease_ms}; {}",
        literal(owner.as_str()),
        patient("SET LOCAL", wait)
    )
}

/// How long the taking waits. Of `lock_timeout` each place in a row's queue has the whole
/// again (first the tuple's lock, then the holder's transaction, and the next holder's), so
/// the statement is limited as well.
pub(super) fn patient(set: &str, wait: Wait) -> String {
    let Some(wait) = wait else { return String::new() };
    let wait_ms = wait.as_millis();
    format!("{set} lock_timeout = {wait_ms}; {set} statement_timeout = {wait_ms}; ")
}

/// After the taking no statement is to be limited.
pub(super) fn settled(set: &str, wait: Wait) -> String {
    wait.map_or_else(String::new, |_| format!("; {set} statement_timeout = 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_the_server() {
        let owner = Owner::named("app-1/3");
        let queued = claim("k'1", &owner, 5_000, Some(Duration::from_millis(250)));
        insta::assert_snapshot!(queued.take.replace("; ", ";\n"), @r"
        BEGIN ISOLATION LEVEL READ COMMITTED;
        SET LOCAL application_name = 'app-1/3';
        SET LOCAL idle_in_transaction_session_timeout = 5000;
        SET LOCAL lock_timeout = 250;
        SET LOCAL statement_timeout = 250;
        SELECT key FROM lockstorm_row WHERE key = 'k''1' FOR UPDATE;
        SET LOCAL statement_timeout = 0
        ");
        assert!(claim("k", &owner, 5_000, None).take.ends_with("'k' FOR UPDATE NOWAIT"));
    }
}

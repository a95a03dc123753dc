//! The locks `pg-advisory` and `pg-advisory-xact`: the server's own locks on numbers, held
//! by a session or by a transaction.
//!
//! A key is the 64-bit FNV-1a hash of the lock's name. Two names with one hash exclude each
//! other for no reason: harmless, and at a million names one chance in ten million.
//!
//! # What it guarantees
//! What [`for_update`](super::for_update) guarantees, without a table: nothing is written, so
//! neither taking nor giving back waits for a disk. The server ends a session that says
//! nothing for a lease: `idle_session_timeout` for `pg-advisory`, and within a transaction,
//! for `pg-advisory-xact`, `idle_in_transaction_session_timeout`.
//!
//! # Takeover
//! As [`for_update`](super::for_update).
//!
//! # How it is known to fail
//! - In all the ways of [`for_update`](super::for_update): a failover forgets every advisory
//!   lock.
//! - **A pooler in transaction mode** between `pg-advisory` and its server: the lock is the
//!   server session's, and the next statement may run in another. `pg-advisory-xact` is made
//!   for it.
//! - **A session lock that is not given back** (an error between, a pool that hands the
//!   session to the next) stays with the session. Here a session whose release was not
//!   answered is closed, never pooled.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::for_update::{begin, patient, settled};
use super::held::{Claim, Sessions, Wait, Waiters};
use super::options::{InvalidOptions, Options};
use super::pool::Usage;
use super::schema::literal;
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, Lock, LockError, Owner, Promises};

/// The locks `pg-advisory` and `pg-advisory-xact`; see the module's text.
#[derive(Debug)]
pub struct AdvisoryLock {
    sessions: Arc<Sessions>,
    scope: Scope,
}

/// What holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Session,
    Transaction,
}

impl AdvisoryLock {
    /// The lock `pg-advisory`: the session holds it. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn of_session(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, endpoint, options)?;
        Ok(AdvisoryLock { sessions, scope: Scope::Session })
    }

    /// The lock `pg-advisory-xact`: a transaction holds it. Nothing is connected yet.
    ///
    /// # Errors
    /// As [`of_session`](AdvisoryLock::of_session).
    pub fn of_transaction(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, endpoint, options)?;
        Ok(AdvisoryLock { sessions, scope: Scope::Transaction })
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

impl Lock for AdvisoryLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        let (lease_ms, scope) = (self.sessions.options().lease_ms(), self.scope);
        let claim = move |wait| match scope {
            Scope::Session => of_session(key, owner, lease_ms, wait),
            Scope::Transaction => of_transaction(key, owner, lease_ms, wait),
        };
        Box::pin(self.sessions.acquire(key, owner, patience, Waiters::Queue, claim))
    }

    fn takeover_bound(&self) -> Duration {
        self.sessions.takeover_bound()
    }

    fn promises(&self) -> Promises {
        let loss_notice_bound = Some(self.sessions.loss_notice_bound());
        Promises { loss_notice_bound, ..Promises::default() }
    }
}

/// The number that stands for a name: FNV-1a, 64 bits, as the signed number that
/// PostgreSQL takes.
pub fn number_of(key: &str) -> i64 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}

/// A function that waits answers nothing (an empty text); one that tries answers a boolean.
fn call(function: &str, key: &str, wait: Wait) -> (String, Option<&'static str>) {
    let number = number_of(key);
    match wait {
        Some(_) => (format!("SELECT pg_{function}({number})"), None),
        None => (format!("SELECT pg_try_{function}({number})"), Some("t")),
    }
}

fn of_session(key: &str, owner: &Owner, lease_ms: u64, wait: Wait) -> Claim {
    let (taking, granted_by) = call("advisory_lock", key, wait);
    let name = literal(owner.as_str());
    Claim {
        // One batch is one transaction: if the taking fails, the settings are undone.
        take: format!(
            "SET application_name = {name}; SET idle_session_timeout = {lease_ms}; \
             {}{taking}{}",
            patient("SET", wait),
            settled("SET", wait)
        ),
        granted_by,
        after_refusal: "RESET ALL",
        after_error: None,
        give_back: format!("SELECT pg_advisory_unlock({}); RESET ALL", number_of(key)),
        given_back_by: Some("t"),
        make: None,
    }
}

fn of_transaction(key: &str, owner: &Owner, lease_ms: u64, wait: Wait) -> Claim {
    let (taking, granted_by) = call("advisory_xact_lock", key, wait);
    Claim {
        take: format!("{}{taking}{}", begin(owner, lease_ms, wait), settled("SET LOCAL", wait)),
        granted_by,
        after_refusal: "ROLLBACK",
        after_error: Some("ROLLBACK"),
        give_back: "ROLLBACK".to_owned(),
        given_back_by: None,
        make: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers_as_published() {
        // The test vectors of the FNV draft.
        assert_eq!(number_of("").cast_unsigned(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(number_of("a").cast_unsigned(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(number_of("foobar").cast_unsigned(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_lock_that_waits_and_one_that_tries_are_told_apart_by_their_answers() {
        let owner = Owner::named("o");
        let waits = of_session("k", &owner, 9, Some(Duration::from_millis(5)));
        assert!(waits.take.contains("statement_timeout = 5; SELECT pg_advisory_lock("));
        assert_eq!(waits.granted_by, None);
        let tries = of_transaction("k", &owner, 9, None);
        assert!(tries.take.contains("SELECT pg_try_advisory_xact_lock("));
        assert_eq!(tries.granted_by, Some("t"));
    }
}

//! The tables of the locks, and how text is written into statements.
//!
//! | relation | what |
//! |---|---|
//! | `lockstorm_row` | one row a key, for transactions to lock; never changed |
//! | `lockstorm_lock` | the lock table: who has a key, with which token, how often, until when |
//! | `lockstorm_token` | the sequence of fencing tokens |
//!
//! They belong to a migration, as every table of a service does: [`install`] runs
//! [`STATEMENTS`], which may be run again.

use std::time::Duration;

use super::connection::Dialer;
use super::endpoint::Endpoint;
use super::failure::Failure;
use crate::host::Host;
use crate::lock::LockError;

/// What makes the tables, one statement each. Each may be run again.
pub const STATEMENTS: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS lockstorm_row (key text PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS lockstorm_lock (\
     key text PRIMARY KEY, \
     owner text NOT NULL, \
     token bigint NOT NULL, \
     holds integer NOT NULL, \
     expires_at timestamptz)",
    "CREATE SEQUENCE IF NOT EXISTS lockstorm_token",
];

/// Makes the tables at `endpoint`, each statement within `limit`.
///
/// # Errors
/// [`LockError::Backend`] or [`LockError::Indeterminate`]; it may be called again.
pub async fn install(host: &Host, endpoint: &Endpoint, limit: Duration) -> Result<(), LockError> {
    run_all(host, endpoint, limit, &STATEMENTS).await
}

/// Runs statements that may be run again, each in a transaction of its own.
pub(crate) async fn run_all(
    host: &Host,
    endpoint: &Endpoint,
    limit: Duration,
    statements: &[&str],
) -> Result<(), LockError> {
    let live = Dialer::new(host.clone(), endpoint.clone(), limit).dial().await?;
    for statement in statements {
        match live.tell(limit, statement).await {
            Ok(_) => {}
            // IF NOT EXISTS looks before it makes: of two that make the same at once, one
            // is told so by the catalogue. It is there, then.
            Err(failure) if is_made_already(&failure) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(())
}

fn is_made_already(failure: &Failure) -> bool {
    use tokio_postgres::error::SqlState;
    let made = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    failure.code().is_some_and(|code| made.contains(&code))
}

/// Text as a literal of SQL, with `standard_conforming_strings` on, as it is by default. A
/// byte 0 cannot be written into SQL at all, and the server would refuse the statement:
/// it is written as U+FFFD.
pub(super) fn literal(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('\'');
    for character in text.chars() {
        match character {
            '\'' => written.push_str("''"),
            '\0' => written.push(char::REPLACEMENT_CHARACTER),
            other => written.push(other),
        }
    }
    written.push('\'');
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_literal() {
        assert_eq!(literal("stock:42"), "'stock:42'");
        assert_eq!(literal("o'; DROP TABLE stock; --"), "'o''; DROP TABLE stock; --'");
        assert_eq!(literal("a\0b\\"), "'a\u{FFFD}b\\'");
    }
}

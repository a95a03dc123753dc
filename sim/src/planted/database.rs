//! Statements at the primary of PostgreSQL, of planted locks: one connection at a time, each
//! statement awaited for a command timeout, a connection without an answer never used again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::LockError;
use tokio_postgres::SimpleQueryMessage;

use crate::plan::Plan;
use crate::storm::postgres::dialling::{Dialer, Dialled, is_undone};

/// Where a lock's rows are.
pub(super) struct Database {
    pub host: Host,
    pub command_timeout: Duration,
    dialer: Dialer,
    current: Mutex<Option<Arc<Session>>>,
}

/// A connection, which is a session at the server.
pub(super) struct Session {
    dialled: Dialled,
    is_spoilt: AtomicBool,
}

/// What a statement answers: its rows, as text.
pub(super) type Rows = Vec<Vec<Option<String>>>;

impl Database {
    pub fn new(host: &Host, plan: &Plan) -> Database {
        Database::by(Dialer::new(host, plan))
    }

    fn by(dialer: Dialer) -> Database {
        let (host, command_timeout) = (dialer.host.clone(), dialer.limit);
        Database { host, command_timeout, dialer, current: Mutex::default() }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that is open, or a new one.
    pub async fn session(&self) -> Result<Arc<Session>, LockError> {
        if let Some(session) = self.slot().clone().filter(|session| session.is_open()) {
            return Ok(session);
        }
        let session = self.dial().await?;
        *self.slot() = Some(session.clone());
        Ok(session)
    }

    /// A new session at the first server that takes writes.
    pub async fn dial(&self) -> Result<Arc<Session>, LockError> {
        match self.dialer.dial_primary().await {
            Ok(dialled) => Ok(Arc::new(Session { dialled, is_spoilt: AtomicBool::new(false) })),
            Err(error) => Err(LockError::Backend { reason: error.to_string() }),
        }
    }

    /// Runs statements in the current session.
    pub async fn ask(&self, sql: &str) -> Result<Rows, LockError> {
        let session = self.session().await?;
        self.ask_in(&session, sql).await
    }

    /// Runs statements in this session.
    pub async fn ask_in(&self, session: &Session, sql: &str) -> Result<Rows, LockError> {
        // Given up on the way, nobody knows what is still to come on it.
        session.is_spoilt.store(true, Ordering::Relaxed);
        let request = session.dialled.client.simple_query(sql);
        match self.host.timeout(self.command_timeout, request).await {
            Ok(Ok(messages)) => {
                session.is_spoilt.store(false, Ordering::Relaxed);
                Ok(rows(messages))
            }
            Ok(Err(error)) if is_undone(&error) => {
                session.is_spoilt.store(false, Ordering::Relaxed);
                Err(LockError::Backend { reason: error.to_string() })
            }
            Ok(Err(error)) => Err(LockError::Indeterminate { reason: error.to_string() }),
            Err(_) => Err(LockError::Indeterminate { reason: "no reply in time".to_owned() }),
        }
    }

    /// For how long two statements may take, each with a new connection.
    pub fn two_statements(&self) -> Duration {
        2 * (self.dialer.servers.len() as u32 + 1) * self.command_timeout
    }
}

impl Session {
    pub fn is_open(&self) -> bool {
        !self.dialled.client.is_closed() && !self.is_spoilt.load(Ordering::Relaxed)
    }
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Rows {
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storm::pooled::answering::{self, Severe};

    #[test]
    fn a_session_that_is_ended_while_it_commits_may_have_committed() {
        for (severity, is_certain) in [(Severe::Error, true), (Severe::Fatal, false)] {
            answering::served("COMMIT", severity, async |host, address| {
                let (servers, limit) = (vec![address], Duration::from_secs(5));
                let database = Database::by(Dialer { host, servers, limit });
                let session = database.session().await.unwrap();
                let error = database.ask_in(&session, "COMMIT").await.unwrap_err();
                assert_eq!(matches!(error, LockError::Backend { .. }), is_certain, "{error}");
                assert_eq!(session.is_open(), is_certain);
            });
        }
    }
}

//! Statements at the primary of PostgreSQL, of planted locks: one connection at a time, each
//! statement awaited for a command timeout, a connection without an answer never used again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;
use lockstorm::lock::LockError;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::plan::Plan;
use crate::storm::postgres;

/// Where a lock's rows are.
pub(super) struct Database {
    pub host: Host,
    pub command_timeout: Duration,
    /// In the order in which they are tried.
    servers: Vec<String>,
    current: Mutex<Option<Arc<Session>>>,
}

/// A connection, which is a session at the server.
pub(super) struct Session {
    client: Client,
    is_spoilt: AtomicBool,
    driver: Task,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What a statement answers: its rows, as text.
pub(super) type Rows = Vec<Vec<Option<String>>>;

impl Database {
    pub fn new(host: &Host, plan: &Plan) -> Database {
        Database {
            host: host.clone(),
            command_timeout: plan.lock.command_timeout.to_duration(),
            servers: postgres::endpoint(plan).servers,
            current: Mutex::default(),
        }
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
        let mut reason = "there is no server".to_owned();
        for server in &self.servers {
            match self.host.timeout(self.command_timeout, self.dial_at(server)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(refused)) => reason = refused,
                Err(_) => reason = format!("no connection to {server} in time"),
            }
        }
        Err(LockError::Backend { reason })
    }

    async fn dial_at(&self, server: &str) -> Result<Arc<Session>, String> {
        let stream = self.host.connect(server).await.map_err(|error| error.to_string())?;
        let mut config = Config::new();
        config.user("postgres").dbname("postgres").application_name(self.host.name());
        let connected = config.connect_raw(stream, NoTls).await;
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        let driver = self.host.spawn("postgres-driver", async move {
            // How it ends is seen by whoever asks.
            let _ = connection.await;
        });
        let session = Session { client, is_spoilt: AtomicBool::new(false), driver };
        let state = session.client.simple_query("SHOW transaction_read_only").await;
        match rows(state.map_err(|error| error.to_string())?).first() {
            Some(row) if row[..] == [Some("off".to_owned())] => Ok(Arc::new(session)),
            _ => Err(format!("{server} takes no writes")),
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
        match self.host.timeout(self.command_timeout, session.client.simple_query(sql)).await {
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
        2 * (self.servers.len() as u32 + 1) * self.command_timeout
    }
}

impl Session {
    pub fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.is_spoilt.load(Ordering::Relaxed)
    }
}

/// Whether the server says that the statement did nothing. Of a session that it has ended at
/// the same time that is not certain: it may have been in its commit.
fn is_undone(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().map(|told| told.parsed_severity());
    severity.is_some_and(|level| !matches!(level, Some(Severity::Fatal | Severity::Panic)))
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
                let (servers, current) = (vec![address], Mutex::default());
                let command_timeout = Duration::from_secs(5);
                let database = Database { host, command_timeout, servers, current };
                let session = database.session().await.unwrap();
                let error = database.ask_in(&session, "COMMIT").await.unwrap_err();
                assert_eq!(matches!(error, LockError::Backend { .. }), is_certain, "{error}");
                assert_eq!(session.is_open(), is_certain);
            });
        }
    }
}

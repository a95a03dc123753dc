//! A connection of a node's pool: dialled over the node's network, its driver a task of the
//! node, so that a pause or a crash strikes it with all else there.
//!
//! `deadpool-postgres` spawns its drivers past any host; what is here is its manager again, on
//! the pool that it is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use lockstorm::Host;
use lockstorm::host::Task;
use lockstorm::stock::sql::SellError;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

/// Opens sessions.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) host: Host,
    /// In the order in which they are tried.
    pub(super) servers: Vec<String>,
    /// For each server.
    pub(super) command_timeout: Duration,
}

/// A session at the server. Its driver ends with it.
pub(super) struct Session {
    pub(super) client: Client,
    driver: Task,
    /// By their texts, each prepared once.
    statements: Mutex<BTreeMap<&'static str, Statement>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    /// The statement, prepared now if it has not been.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, Error> {
        let known =
            self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl Dialer {
    async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, SellError>>,
    ) -> Result<T, SellError> {
        let late = || SellError::Unreachable {
            reason: format!("no connection within {:?}", self.command_timeout),
        };
        self.host.timeout(self.command_timeout, step).await.unwrap_or_else(|_| Err(late()))
    }

    async fn dial(&self, address: &str) -> Result<Session, SellError> {
        let stream = self.host.connect(address).await;
        let stream =
            stream.map_err(|error| SellError::Unreachable { reason: error.to_string() })?;
        let mut config = Config::new();
        config.user("postgres").dbname("postgres").application_name(self.host.name());
        let connected = config.connect_raw(stream, NoTls).await;
        let (client, connection) = connected.map_err(|error| told(&error))?;
        let driver = self.host.spawn("postgres-driver", async move {
            // How it ends is seen by whoever asks.
            let _ = connection.await;
        });
        Ok(Session { client, driver, statements: Mutex::default() })
    }

    /// Whether the server takes writes.
    async fn is_primary(&self, session: &Session) -> Result<bool, SellError> {
        let asked = session.client.query_one("SHOW transaction_read_only", &[]).await;
        let row = asked.map_err(|error| told(&error))?;
        Ok(row.try_get::<_, &str>(0).is_ok_and(|state| state == "off"))
    }
}

impl Manager for Dialer {
    type Type = Session;
    type Error = SellError;

    /// At the first server that takes writes; at the only one whatever it is.
    async fn create(&self) -> Result<Session, SellError> {
        let mut refused = SellError::Unreachable { reason: "there is no server".to_owned() };
        for address in &self.servers {
            let dialled = async {
                let session = self.dial(address).await?;
                let takes_writes = self.servers.len() == 1 || self.is_primary(&session).await?;
                let reason = format!("{address} takes no writes");
                takes_writes.then_some(session).ok_or(SellError::Unreachable { reason })
            };
            match self.within(dialled).await {
                Ok(session) => return Ok(session),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<SellError> {
        match session.client.is_closed() {
            false => Ok(()),
            true => Err(RecycleError::message("the connection was closed")),
        }
    }
}

/// What the failure of a statement before the commit means: nothing was committed.
pub(super) fn told(error: &Error) -> SellError {
    match error.as_db_error() {
        Some(told) => SellError::RolledBack {
            code: told.code().code().to_owned(),
            message: told.message().to_owned(),
        },
        None => SellError::Unreachable { reason: error.to_string() },
    }
}

/// What that of a COMMIT means. It was sent, and a session that is ended while it commits may
/// have committed before it was.
pub(super) fn told_of_commit(error: &Error) -> SellError {
    let severity = error.as_db_error().and_then(|told| told.parsed_severity());
    let is_fatal = matches!(severity, Some(Severity::Fatal | Severity::Panic));
    match told(error) {
        SellError::RolledBack { code, message } if is_fatal => {
            SellError::Indeterminate { reason: format!("{code} {message}") }
        }
        SellError::Unreachable { reason } => SellError::Indeterminate { reason },
        rolled_back => rolled_back,
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("client", &self.client).finish_non_exhaustive()
    }
}

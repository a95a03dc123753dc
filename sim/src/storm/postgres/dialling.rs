//! Sessions at a storm's PostgreSQL servers, for clients that are not the library's: dialled
//! over the node's network, the driver a task of the node, so that a pause or a crash strikes
//! it with all else there.

use std::fmt;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use super::endpoint;
use crate::plan::Plan;

/// Opens sessions.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The machine that dials.
    pub host: Host,
    /// In the order in which they are tried.
    pub servers: Vec<String>,
    /// How long each of them may take.
    pub limit: Duration,
}

/// A session at a server. Its driver ends with it.
pub struct Dialled {
    /// What statements are sent through.
    pub client: Client,
    driver: Task,
}

/// Why there is no session: what was wrong with the last server that was tried.
#[derive(Debug)]
pub enum NoSession {
    /// It refused, or the connection broke.
    Failed(Error),
    /// It was not reached, or is not what is looked for.
    Unreachable(String),
}

impl Drop for Dialled {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Dialer {
    /// For the servers of this plan.
    pub fn new(host: &Host, plan: &Plan) -> Dialer {
        let servers = endpoint(plan).servers;
        Dialer { host: host.clone(), servers, limit: plan.lock.command_timeout.to_duration() }
    }

    /// A session at the first server that takes writes; at the only one whatever it is.
    ///
    /// # Errors
    /// When there is none.
    pub async fn dial(&self) -> Result<Dialled, NoSession> {
        self.dial_any(self.servers.len() > 1).await
    }

    /// A session at the first server that says that it takes writes.
    ///
    /// # Errors
    /// When there is none.
    pub async fn dial_primary(&self) -> Result<Dialled, NoSession> {
        self.dial_any(true).await
    }

    async fn dial_any(&self, asks: bool) -> Result<Dialled, NoSession> {
        let mut refused = NoSession::Unreachable("there is no server".to_owned());
        for server in &self.servers {
            let dialled = self.host.timeout(self.limit, self.dial_at(server, asks)).await;
            match dialled {
                Ok(Ok(dialled)) => return Ok(dialled),
                Ok(Err(error)) => refused = error,
                Err(_) => {
                    let reason = format!("no connection to {server} within {:?}", self.limit);
                    refused = NoSession::Unreachable(reason);
                }
            }
        }
        Err(refused)
    }

    async fn dial_at(&self, server: &str, asks: bool) -> Result<Dialled, NoSession> {
        let stream = self.host.connect(server).await;
        let stream = stream.map_err(|error| NoSession::Unreachable(error.to_string()))?;
        let mut config = Config::new();
        config.user("postgres").dbname("postgres").application_name(self.host.name());
        let connected = config.connect_raw(stream, NoTls).await;
        let (client, connection) = connected.map_err(NoSession::Failed)?;
        let driver = self.host.spawn("postgres-driver", async move {
            // How it ends is seen by whoever asks.
            let _ = connection.await;
        });
        let dialled = Dialled { client, driver };
        if asks && !dialled.takes_writes().await.map_err(NoSession::Failed)? {
            return Err(NoSession::Unreachable(format!("{server} takes no writes")));
        }
        Ok(dialled)
    }
}

impl Dialled {
    async fn takes_writes(&self) -> Result<bool, Error> {
        let answer = self.client.simple_query("SHOW transaction_read_only").await?;
        let is_off = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0) == Some("off"),
            _ => false,
        };
        Ok(answer.iter().any(is_off))
    }
}

/// Whether the server says that the statement, which may have been COMMIT, did nothing. Of a
/// session that it has ended at the same time that is not certain: one that is ended while it
/// commits may have committed before it was.
pub fn is_undone(error: &Error) -> bool {
    let severity = error.as_db_error().map(|told| told.parsed_severity());
    severity.is_some_and(|level| !matches!(level, Some(Severity::Fatal | Severity::Panic)))
}

impl fmt::Debug for Dialled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Dialled").field("client", &self.client).finish_non_exhaustive()
    }
}

impl fmt::Display for NoSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSession::Failed(error) => error.fmt(formatter),
            NoSession::Unreachable(reason) => formatter.write_str(reason),
        }
    }
}

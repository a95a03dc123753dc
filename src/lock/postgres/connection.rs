//! Connections to the primary over the host's network: dialled, run on, told of when they
//! end.
//!
//! All times are the host's: the client library has none, and nothing here reads tokio's
//! clock. A connection on which a reply did not come in time is closed, never used again:
//! what was sent on it may still be at work at the server, and closing ends that session.
//!
//! It knows no lock and no pool: statements come from above, failures go back told apart.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use super::endpoint::Endpoint;
use super::failure::{Failure, whole};
use crate::host::{Host, Task};

/// Dials the primary.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    host: Host,
    endpoint: Endpoint,
    /// For each step.
    limit: Duration,
}

/// An open connection, which is a session at the server. The driver that moves its bytes
/// ends with it.
pub(crate) struct Live {
    host: Host,
    client: Client,
    /// Of the server.
    address: String,
    /// For connecting.
    limit: Duration,
    driver: Task,
    ending: Arc<Ending>,
}

/// How a connection ended, once it has.
#[derive(Debug, Default)]
struct Ending {
    why: Mutex<Option<String>>,
    told: Notify,
}

impl Dialer {
    /// A dialer that gives each step, at each server, so long.
    pub(crate) fn new(host: Host, endpoint: Endpoint, limit: Duration) -> Self {
        Dialer { host, endpoint, limit }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// How many servers may be tried.
    pub(crate) fn servers(&self) -> u32 {
        u32::try_from(self.endpoint.servers.len()).unwrap_or(u32::MAX)
    }

    /// Opens a connection to the first server that takes writes; to the only one whatever
    /// it is.
    pub(crate) async fn dial(&self) -> Result<Arc<Live>, Failure> {
        let is_only = self.endpoint.servers.len() == 1;
        let mut reasons = Vec::new();
        for address in &self.endpoint.servers {
            let dialled = async {
                let live = self.dial_at(address).await?;
                if !is_only {
                    live.verify_primary().await?;
                }
                Ok(live)
            };
            match self.host.timeout(self.limit, dialled).await {
                Ok(Ok(live)) => return Ok(live),
                // The only server's own word, with its code.
                Ok(Err(refused @ Failure::Refused { .. })) if is_only => return Err(refused),
                Ok(Err(failure)) => reasons.push(format!("{address}: {failure}")),
                Err(_) => {
                    reasons.push(format!("cannot connect to {address} within {:?}", self.limit));
                }
            }
        }
        let reason = reasons.join("; ");
        Err(Failure::NotSent {
            reason: if is_only { reason } else { format!("no server takes writes: {reason}") },
        })
    }

    async fn dial_at(&self, address: &str) -> Result<Arc<Live>, Failure> {
        let stream = self
            .host
            .connect(address)
            .await
            .map_err(|error| Failure::NotSent { reason: format!("cannot connect: {error}") })?;
        let mut config = Config::new();
        config.user(&self.endpoint.user).dbname(&self.endpoint.database);
        config.application_name(self.host.name());
        if let Some(password) = &self.endpoint.password {
            config.password(password);
        }
        let (client, connection) =
            config.connect_raw(stream, NoTls).await.map_err(|error| not_sent(&error))?;
        let ending = Arc::new(Ending::default());
        let driver = self.host.spawn("postgres-driver", {
            let ending = ending.clone();
            async move {
                ending.tell(match connection.await {
                    Ok(()) => "the connection was closed".to_owned(),
                    Err(error) => whole(&error),
                });
            }
        });
        let (host, address, limit) = (self.host.clone(), address.to_owned(), self.limit);
        Ok(Arc::new(Live { host, client, address, limit, driver, ending }))
    }
}

impl Live {
    /// What statements are sent through.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Awaits a reply for at most `limit`. The connection is closed where it must not be
    /// used again.
    pub(crate) async fn run<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let failure = match self.host.timeout(limit, request).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => match (Failure::of_statement(&error), self.ended()) {
                // Why it was closed says more than that it was.
                (Failure::NoReply { .. }, Some(reason)) => Failure::NoReply { reason },
                (failure, _) => failure,
            },
            Err(_) => Failure::NoReply { reason: format!("no reply within {limit:?}") },
        };
        if failure.spoils_connection() {
            self.close();
        }
        Err(failure)
    }

    /// Sends statements as one simple query, whose rows come back as text.
    pub(crate) async fn tell(
        &self,
        limit: Duration,
        statements: &str,
    ) -> Result<Vec<SimpleQueryMessage>, Failure> {
        self.run(limit, self.client.simple_query(statements)).await
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<String> {
        self.ending.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has not ended, as far as is known here.
    pub(crate) fn is_open(&self) -> bool {
        self.ended().is_none() && !self.client.is_closed()
    }

    /// Completes, with why, once it has ended.
    pub(crate) async fn end(&self) -> String {
        loop {
            let told = self.ending.told.notified();
            if let Some(why) = self.ended() {
                return why;
            }
            told.await;
        }
    }

    /// Closes it now, whoever else has it. The server rolls back what was open when it
    /// sees the end of the stream, which it does not while a statement waits or runs:
    /// [`cancel`](Live::cancel) that.
    pub(crate) fn close(&self) {
        self.driver.abort();
        self.ending.tell("we have closed the connection".to_owned());
    }

    /// Asks the server, as a best effort and on a connection of its own, to end the
    /// statement that is at work here.
    pub(crate) fn cancel(&self) {
        let (host, address, limit) = (self.host.clone(), self.address.clone(), self.limit);
        let cancellation = self.client.cancel_token();
        self.host.clone().spawn("release", async move {
            let asking = async {
                let stream = host.connect(&address).await.ok()?;
                cancellation.cancel_query_raw(stream, NoTls).await.ok()
            };
            let _ = host.timeout(limit, asking).await;
        });
    }

    /// A server that takes no writes is a standby, or was told to be careful.
    async fn verify_primary(&self) -> Result<(), Failure> {
        let answer = self.client.simple_query("SHOW transaction_read_only").await;
        let answer = answer.map_err(|error| not_sent(&error))?;
        match first_text(&answer) {
            Some("off") => Ok(()),
            other => Err(Failure::NotSent {
                reason: format!("it is no primary: transaction_read_only is {other:?}"),
            }),
        }
    }
}

impl Ending {
    fn tell(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.told.notify_waiters();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Live")
            .field("address", &self.address)
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// The first column of the first row.
pub(crate) fn first_text(messages: &[SimpleQueryMessage]) -> Option<&str> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

/// Before a connection is in use, nothing of the lock's has been sent on it.
fn not_sent(error: &Error) -> Failure {
    match Failure::of_statement(error) {
        Failure::NoReply { reason } => Failure::NotSent { reason },
        other => other,
    }
}

/// One connection that many share: statements that are over at once and leave nothing
/// behind.
#[derive(Debug)]
pub(crate) struct Shared {
    dialer: Dialer,
    current: Mutex<Option<Arc<Live>>>,
    /// Held while connecting, so that many statements open one connection.
    connecting: tokio::sync::Mutex<Option<Failure>>,
    /// How many times connecting has failed.
    failures: AtomicU64,
}

impl Shared {
    pub(crate) fn new(dialer: Dialer) -> Self {
        let connecting = tokio::sync::Mutex::new(None);
        Shared { dialer, current: Mutex::default(), connecting, failures: AtomicU64::new(0) }
    }

    /// The open connection; opens one if there is none.
    pub(crate) async fn ready(&self) -> Result<Arc<Live>, Failure> {
        if let Some(live) = self.open() {
            return Ok(live);
        }
        let failures_seen = self.failures.load(Ordering::Relaxed);
        let mut connecting = self.connecting.lock().await;
        if let Some(live) = self.open() {
            return Ok(live);
        }
        // Whoever waited for a try that failed has been answered by it: otherwise many
        // would each sit out a timeout, one after the other.
        if self.failures.load(Ordering::Relaxed) != failures_seen
            && let Some(failure) = connecting.as_ref()
        {
            return Err(failure.clone());
        }
        match self.dialer.dial().await {
            Ok(live) => {
                *connecting = None;
                *self.slot() = Some(live.clone());
                Ok(live)
            }
            Err(failure) => {
                *connecting = Some(failure.clone());
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(failure)
            }
        }
    }

    /// The current connection, unless it has closed meanwhile.
    fn open(&self) -> Option<Arc<Live>> {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|live| !live.is_open()) {
            *slot = None;
        }
        slot.clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Live>>> {
        // Nothing that can panic runs while it is held.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

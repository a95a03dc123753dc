//! The lock's connection: opened when first needed, shared by all commands, thrown
//! away when it is suspect, and opened again by the next command.
//!
//! Suspect is a connection that broke, on which a reply did not come in time (it may
//! come later and be taken for another's), or whose server turned out not to be a
//! master. All times are the host's: the client library's own timeouts are off, so
//! nothing here reads tokio's clock.
//!
//! It knows no lock: commands come from above, failures go back told apart.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisResult, Value};
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::Credentials;
use crate::host::{Host, Task};

/// The lock's one connection, whether it is open or not.
#[derive(Debug)]
pub(crate) struct Connection {
    host: Host,
    endpoint: Endpoint,
    /// Login at the master; sentinels are asked without.
    login: RedisConnectionInfo,
    limit: Duration,
    current: Mutex<Option<Arc<Live>>>,
    /// Held while connecting, so that many commands open one connection.
    connecting: tokio::sync::Mutex<Option<Failure>>,
    /// How many times connecting has failed.
    failures: AtomicU64,
}

/// An open connection. The driver that moves its bytes ends with it.
pub(crate) struct Live {
    multiplexed: MultiplexedConnection,
    /// Of the server.
    address: String,
    driver: Task,
    /// The driver has ended: the connection is closed.
    ended: Arc<AtomicBool>,
}

/// Where a request went out that is not answered.
#[derive(Clone, Default)]
pub(super) struct Unanswered(Arc<Mutex<Option<Arc<Live>>>>);

impl Unanswered {
    /// `None` once it is answered.
    pub(super) fn set(&self, live: Option<Arc<Live>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }

    /// If it is open still.
    pub(super) fn take(&self) -> Option<Arc<Live>> {
        let live = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        live.filter(|live| live.is_open())
    }
}

/// A channel that is listened to, until this is dropped.
pub(super) struct Listening {
    /// Woken by whatever is heard, and when the connection ends.
    pub(super) heard: Arc<Notify>,
    _live: Arc<Live>,
}

impl Connection {
    pub(crate) fn new(
        host: Host,
        endpoint: Endpoint,
        credentials: Option<&Credentials>,
        limit: Duration,
    ) -> Self {
        let mut login = plain();
        if let Some(credentials) = credentials {
            if let Some(username) = &credentials.username {
                login = login.set_username(username);
            }
            login = login.set_password(&credentials.password);
        }
        Connection {
            host,
            endpoint,
            login,
            limit,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(None),
            failures: AtomicU64::new(0),
        }
    }

    /// How many sentinels are asked for the master; 0 where there are none.
    pub(super) fn sentinels(&self) -> u32 {
        match &self.endpoint {
            Endpoint::Direct(_) => 0,
            Endpoint::Sentinel { sentinels, .. } => {
                u32::try_from(sentinels.len()).unwrap_or(u32::MAX - 4)
            }
        }
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
        // Whoever waited for a try that failed has been answered by it: otherwise
        // many waiters would each sit out a timeout, one after the other.
        if self.failures.load(Ordering::Relaxed) != failures_seen
            && let Some(failure) = connecting.as_ref()
        {
            return Err(failure.clone());
        }
        match self.connect().await {
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

    /// Awaits a command's reply on `live`, within the command timeout.
    pub(crate) async fn run<T>(
        &self,
        live: &Arc<Live>,
        command: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, Failure> {
        let failure = match self.host.timeout(self.limit, command).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => Failure::of_command(&error),
            Err(_) => Failure::NoReply { reason: format!("no reply within {:?}", self.limit) },
        };
        if failure.spoils_connection() {
            self.discard(live);
        }
        Err(failure)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Live>>> {
        // Nothing that can panic runs while it is held.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current connection, unless it has closed meanwhile.
    fn open(&self) -> Option<Arc<Live>> {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|live| !live.is_open()) {
            *slot = None;
        }
        slot.clone()
    }

    /// Stops new commands from using `live`; it closes when those under way are done.
    pub(super) fn discard(&self, live: &Arc<Live>) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            *slot = None;
        }
    }

    /// Opens a connection of its own to the master, on which `channel` is listened to.
    pub(super) async fn listen(&self, channel: &str) -> Result<Listening, Failure> {
        let address = match &self.endpoint {
            Endpoint::Direct(address) => address.clone(),
            Endpoint::Sentinel { sentinels, master_name } => {
                self.find_master(sentinels, master_name).await?
            }
        };
        let heard = Arc::new(Notify::new());
        let pushed = heard.clone();
        // What it is does not matter: a message, the subscription itself, the end.
        let config = AsyncConnectionConfig::new().set_push_sender(move |_| {
            pushed.notify_one();
            Ok::<(), redis::aio::SendError>(())
        });
        let login = self.login.clone().set_protocol(ProtocolVersion::RESP3);
        let live = self.dial_with(&address, &login, config).await?;
        let mut multiplexed = live.multiplexed();
        match self.host.timeout(self.limit, multiplexed.subscribe(channel)).await {
            Ok(Ok(())) => Ok(Listening { heard, _live: live }),
            Ok(Err(error)) => Err(not_sent(&error)),
            Err(_) => Err(Failure::NotSent {
                reason: format!("{address} took no subscription within {:?}", self.limit),
            }),
        }
    }

    /// Whether the server behind `live` is the master still: it says so itself, and where
    /// sentinels are asked, so do more than half of them.
    pub(super) async fn confirm(&self, live: &Arc<Live>) -> Result<(), Failure> {
        self.verify_master(live, &live.address).await?;
        let Endpoint::Sentinel { sentinels, master_name } = &self.endpoint else {
            return Ok(());
        };
        let mut agree = 0;
        for sentinel in sentinels {
            let named = self.find_master(std::slice::from_ref(sentinel), master_name).await;
            agree += usize::from(named.is_ok_and(|address| address == live.address));
        }
        if agree > sentinels.len() / 2 {
            return Ok(());
        }
        let reason =
            format!("{agree} of {} sentinels call {} the master", sentinels.len(), live.address);
        Err(Failure::NotSent { reason })
    }

    async fn connect(&self) -> Result<Arc<Live>, Failure> {
        match &self.endpoint {
            Endpoint::Direct(address) => self.dial(address, &self.login).await,
            Endpoint::Sentinel { sentinels, master_name } => {
                let address = self.find_master(sentinels, master_name).await?;
                let live = self.dial(&address, &self.login).await?;
                self.verify_master(&live, &address).await?;
                Ok(live)
            }
        }
    }

    /// Asks the sentinels in turn, each within the command timeout.
    async fn find_master(&self, sentinels: &[String], name: &str) -> Result<String, Failure> {
        let mut reasons = Vec::new();
        for sentinel in sentinels {
            let asked = async {
                let live = self.dial(sentinel, &plain()).await?;
                let mut multiplexed = live.multiplexed();
                redis::cmd("SENTINEL")
                    .arg("GET-MASTER-ADDR-BY-NAME")
                    .arg(name)
                    .query_async::<Option<(String, u16)>>(&mut multiplexed)
                    .await
                    .map_err(|error| not_sent(&error))
            };
            match self.host.timeout(self.limit, asked).await {
                // An IPv6 address needs brackets before a port can follow.
                Ok(Ok(Some((host, port)))) if host.contains(':') => {
                    return Ok(format!("[{host}]:{port}"));
                }
                Ok(Ok(Some((host, port)))) => return Ok(format!("{host}:{port}")),
                Ok(Ok(None)) => reasons.push(format!("{sentinel} knows no master `{name}`")),
                Ok(Err(failure)) => reasons.push(format!("{sentinel}: {failure}")),
                Err(_) => {
                    reasons.push(format!("{sentinel} did not answer within {:?}", self.limit))
                }
            }
        }
        Err(Failure::NotSent {
            reason: format!("no sentinel named the master: {}", reasons.join("; ")),
        })
    }

    /// A sentinel's word can be old: what it names may have been demoted.
    async fn verify_master(&self, live: &Live, address: &str) -> Result<(), Failure> {
        let mut multiplexed = live.multiplexed();
        let role = redis::cmd("ROLE");
        let role = role.query_async::<Value>(&mut multiplexed);
        let reason = match self.host.timeout(self.limit, role).await {
            Ok(Ok(role)) if role_name(&role) == Some("master") => return Ok(()),
            Ok(Ok(role)) => {
                format!("{address} is no master but a {}", role_name(&role).unwrap_or("stranger"))
            }
            Ok(Err(error)) => format!("{address} did not tell its role: {error}"),
            Err(_) => format!("{address} did not tell its role within {:?}", self.limit),
        };
        Err(Failure::NotSent { reason })
    }

    /// Opens a connection and starts its driver, within the command timeout.
    async fn dial(&self, address: &str, login: &RedisConnectionInfo) -> Result<Arc<Live>, Failure> {
        self.dial_with(address, login, AsyncConnectionConfig::new()).await
    }

    async fn dial_with(
        &self,
        address: &str,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Arc<Live>, Failure> {
        let opening = async {
            let stream = self.host.connect(address).await.map_err(|error| Failure::NotSent {
                reason: format!("cannot connect to {address}: {error}"),
            })?;
            let config = config.set_response_timeout(None).set_connection_timeout(None);
            MultiplexedConnection::new_with_config(login, stream, config)
                .await
                .map_err(|error| not_sent(&error))
        };
        let (multiplexed, driver) = match self.host.timeout(self.limit, opening).await {
            Ok(opened) => opened?,
            Err(_) => {
                return Err(Failure::NotSent {
                    reason: format!("cannot connect to {address} within {:?}", self.limit),
                });
            }
        };
        let ended = Arc::new(AtomicBool::new(false));
        let driver = self.host.spawn("redis-driver", {
            let ended = ended.clone();
            async move {
                driver.await;
                ended.store(true, Ordering::Relaxed);
            }
        });
        Ok(Arc::new(Live { multiplexed, address: address.to_owned(), driver, ended }))
    }
}

impl Live {
    /// A handle to send commands through.
    pub(crate) fn multiplexed(&self) -> MultiplexedConnection {
        self.multiplexed.clone()
    }

    /// Whether it has not closed, as far as is known here.
    pub(super) fn is_open(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Live").field("open", &self.is_open()).finish_non_exhaustive()
    }
}

/// RESP2 and no names of libraries: the first round trip is the first command.
fn plain() -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_skip_set_lib_name()
}

/// Before a connection is in use, nothing of the lock's has been sent on it.
fn not_sent(error: &redis::RedisError) -> Failure {
    Failure::NotSent { reason: error.to_string() }
}

/// The first element of what ROLE answers.
fn role_name(role: &Value) -> Option<&str> {
    match role {
        Value::Array(parts) => match parts.first()? {
            Value::BulkString(name) => std::str::from_utf8(name).ok(),
            Value::SimpleString(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

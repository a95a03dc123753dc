//! A session with ZooKeeper, and a place in a queue there, of planted locks.
//!
//! The steps are those of the product's lock `zookeeper`: a session that is confirmed by the
//! leader every twelfth of its timeout, a place that is found again by its mark when the reply
//! was lost, and one that is deleted as often as it takes when it is given up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Task};
use lockstorm::lock::{LockError, Release};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use crate::plan::Plan;
use crate::server::zookeeper::CLIENT_PORT;

/// The folder of all locks, as the product has it.
const LOCKS: &str = "/lockstorm/locks";

/// What stands between the mark of a place and its sequence.
const INFIX: &str = "-lock-";

fn options(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// Whether the connection went before the answer: nobody knows whether the request was
/// applied. The client says so as such, or with the error of its stream as it came.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::ConnectionLoss | Error::Custom(_))
}

/// The ensemble as a client knows it. One session at a time.
pub(super) struct Ensemble {
    pub host: Host,
    servers: String,
    pub command_timeout: Duration,
    session_timeout: Duration,
    retry: Duration,
    tick: Duration,
    /// What of the timeout a holder leaves unused, parts per million.
    margin_ppm: u32,
    current: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Ensemble {
    pub fn new(host: &Host, plan: &Plan) -> Ensemble {
        let nodes = plan.topology.zookeeper_nodes().into_iter();
        let servers: Vec<String> = nodes.map(|node| format!("{node}:{CLIENT_PORT}")).collect();
        Ensemble {
            host: host.clone(),
            servers: servers.join(","),
            command_timeout: plan.lock.command_timeout.to_duration(),
            session_timeout: plan.lock.lease.to_duration(),
            retry: plan.lock.retry.to_duration(),
            tick: plan.topology.tick.to_duration(),
            margin_ppm: plan.lock.margin_ppm,
            current: tokio::sync::Mutex::new(None),
        }
    }

    /// For how long a dead holder's lock may stay closed, as the product's lock says it.
    pub fn takeover_bound(&self) -> Duration {
        let session = self.session_timeout.clamp(2 * self.tick, 20 * self.tick);
        session + self.tick * 3 / 2 + session * 2 / 5 + 2 * self.command_timeout + self.retry
    }

    /// A session that is not known to be over.
    pub async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut current = self.current.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.is_over()) {
            return Ok(session.clone());
        }
        let confirmed = self.host.monotonic();
        let connector = Client::connector().with_session_timeout(self.session_timeout);
        let client = connector.connect(&self.servers).await?;
        let whole = client.session_timeout();
        let margin_us = whole.as_micros() * u128::from(self.margin_ppm) / 1_000_000;
        let usable = whole.saturating_sub(Duration::from_micros(margin_us as u64));
        let confirmed = Arc::new(Mutex::new(confirmed));
        let heart = beat(self.host.clone(), client.clone(), confirmed.clone(), whole / 12);
        let heart = self.host.spawn("session", heart);
        let session = Session { host: self.host.clone(), client, confirmed, usable, heart };
        Ok(current.insert(Arc::new(session)).clone())
    }
}

/// Asks the leader to confirm the session until it is over.
async fn beat(host: Host, client: Client, confirmed: Arc<Mutex<Duration>>, period: Duration) {
    while !client.state().is_terminated() {
        let sent = host.monotonic();
        if client.sync("/").await.is_ok() {
            *locked(&confirmed) = sent;
        }
        host.sleep((sent + period).saturating_sub(host.monotonic())).await;
    }
}

/// A session.
pub(super) struct Session {
    host: Host,
    pub client: Client,
    /// When the latest question was sent that the leader has answered.
    confirmed: Arc<Mutex<Duration>>,
    /// For how long after that a holder may rely on it.
    usable: Duration,
    heart: Task,
}

impl Session {
    fn is_over(&self) -> bool {
        self.client.state().is_terminated()
    }

    /// Until when a holder may rely on it.
    pub fn deadline(&self) -> Duration {
        *locked(&self.confirmed) + self.usable
    }

    /// Why a holder must stop, if it must.
    pub fn lost(&self) -> Option<&'static str> {
        if self.is_over() {
            return Some("the session is over");
        }
        (self.deadline() <= self.host.monotonic()).then_some("nobody confirms the session")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.heart.abort();
    }
}

fn locked<T>(place: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a place is.
#[derive(Clone)]
struct Address {
    session: Arc<Session>,
    folder: String,
    mark: String,
}

/// A place in a queue, or a request for one. Dropped, it is given up, unless it is kept.
pub(super) struct Place {
    at: Address,
    /// The name of its node, once it is known.
    node: Mutex<Option<String>>,
    is_kept: bool,
}

impl Place {
    /// A request for a place in the queue of `key` that is about to be sent.
    pub fn new(session: Arc<Session>, key: &str) -> Place {
        let mark = format!("{:016x}{INFIX}", session.host.random("place"));
        let at = Address { session, folder: format!("{LOCKS}/{key}"), mark };
        Place { at, node: Mutex::new(None), is_kept: false }
    }

    pub fn session(&self) -> &Arc<Session> {
        &self.at.session
    }

    pub fn folder(&self) -> &str {
        &self.at.folder
    }

    /// Nobody deletes it when it is given up.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Asks for the place in `owner`'s name until there is one: its name. A request whose reply
    /// was lost is looked for, or is simply sent again.
    pub async fn take(&self, owner: &str, looks_for_it: bool) -> Result<String, Error> {
        let Address { session, folder, mark } = &self.at;
        let (client, path) = (&session.client, format!("{folder}/{mark}"));
        let ephemeral = options(CreateMode::EphemeralSequential);
        loop {
            let name = match client.create(&path, owner.as_bytes(), &ephemeral).await {
                Ok((_, sequence)) => Some(format!("{mark}{sequence}")),
                Err(error) if is_lost(&error) && looks_for_it => self.at.find().await?,
                Err(error) if is_lost(&error) => None,
                Err(Error::NoNode) => {
                    let made = client.mkdir(folder, &options(CreateMode::Persistent)).await;
                    match made {
                        Ok(()) | Err(Error::NodeExists) => None,
                        Err(error) if is_lost(&error) => None,
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            };
            if let Some(name) = name {
                *locked(&self.node) = Some(name.clone());
                return Ok(name);
            }
        }
    }

    /// Gives it back and tells how that went, within `patience`; it goes on after that.
    pub fn leave(mut self, patience: Duration) -> BoxFuture<'static, Release> {
        self.keep();
        let host = self.at.session.host.clone();
        let deleting = self.at.clone().delete(locked(&self.node).clone());
        let (told, hears) = tokio::sync::oneshot::channel();
        host.spawn("release", async move {
            // Nobody may be waiting any more.
            let _ = told.send(deleting.await);
        });
        Box::pin(async move {
            match host.timeout(patience, hears).await {
                Ok(Ok(release)) => release,
                _ => Release::Indeterminate { reason: "no reply".to_owned() },
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let deleting = self.at.clone().delete(locked(&self.node).clone());
        self.at.session.host.spawn("release", async move {
            // Best effort: the end of the session ends what this cannot.
            let _ = deleting.await;
        });
    }
}

impl Address {
    /// The name of the node, if the request that was not answered made it.
    async fn find(&self) -> Result<Option<String>, Error> {
        let client = &self.session.client;
        loop {
            let listed = async {
                client.sync(&self.folder).await?;
                client.list_children(&self.folder).await
            };
            return match listed.await {
                Ok(names) => Ok(names.into_iter().find(|name| name.starts_with(&self.mark))),
                Err(Error::NoNode) => Ok(None),
                Err(error) if is_lost(&error) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Deletes the node until that is answered or the session is over.
    async fn delete(self, mut node: Option<String>) -> Release {
        let mut was_asked = false;
        loop {
            let name = match node.take() {
                Some(name) => name,
                None => match self.find().await {
                    Ok(Some(name)) => name,
                    Ok(None) => return Release::NotHeld,
                    Err(error) => return self.ended(&error),
                },
            };
            let path = format!("{}/{name}", self.folder);
            match self.session.client.delete(&path, None).await {
                Ok(()) => return Release::Released,
                Err(Error::NoNode) if was_asked => return Release::Released,
                Err(Error::NoNode) => return Release::NotHeld,
                Err(error) if is_lost(&error) => (was_asked, node) = (true, Some(name)),
                Err(error) => return self.ended(&error),
            }
        }
    }

    fn ended(&self, error: &Error) -> Release {
        match self.session.is_over() {
            true => Release::NotHeld,
            false => Release::Indeterminate { reason: error.to_string() },
        }
    }
}

/// The counter that the leader appended to a name; names of others are first.
pub(super) fn sequence(name: &str) -> i64 {
    let (_, sequence) = name.rsplit_once(INFIX).unwrap_or_default();
    sequence.parse().unwrap_or(i64::MIN)
}

/// What an acquire that failed so comes to.
pub(super) fn refused(error: &Error) -> LockError {
    let reason = error.to_string();
    // What was sent last may have been applied.
    match is_lost(error) {
        true => LockError::Indeterminate { reason },
        false => LockError::Backend { reason },
    }
}

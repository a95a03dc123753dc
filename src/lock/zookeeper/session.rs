//! A session with the ensemble, and until when its holder may rely on it.
//!
//! A server that answers proves little: it may be cut off from the leader, who ends
//! sessions. So while somebody has, or wants, a lock in it, the session asks the *leader*
//! (`sync`) every twelfth of its timeout. From when such a question was sent, the session
//! lasts at least its timeout, less what the leader may not have heard of yet; the
//! [margin](super::Options::margin) is taken off for that. After a pause the clock has
//! passed the deadline before anything else is known.
//!
//! Order of things: [`Sessions`] opens one when it is needed and another when that is over,
//! [`Session`] is one, [`Interest`] says that it is needed, then its two tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use zookeeper_client::{Client, SessionState};

use super::failure::Failure;
use super::options::{InvalidOptions, Options, cluster};
use crate::host::{Host, Task};

/// The group of the tasks that look after a session.
const GROUP: &str = "session";

/// What became of opening a session; `None` while it is under way.
type Opened = Option<Result<Arc<Session>, Failure>>;

/// One session at a time.
pub(super) struct Sessions {
    host: Host,
    servers: String,
    options: Options,
    opened: Mutex<Option<watch::Receiver<Opened>>>,
}

impl Sessions {
    /// Nothing is connected yet.
    pub(super) fn new(
        host: Host,
        servers: &[String],
        options: Options,
    ) -> Result<Arc<Self>, InvalidOptions> {
        let (servers, options) = (cluster(servers)?, options.checked()?);
        Ok(Arc::new(Sessions { host, servers, options, opened: Mutex::default() }))
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// A session that is not known to be over: the one that there is, or a new one. Opening
    /// goes on when the caller loses interest, and serves the next.
    pub(super) async fn ready(&self) -> Result<Arc<Session>, Failure> {
        loop {
            let mut opened = self.opening();
            let known = opened.wait_for(Option::is_some).await.map(|known| known.clone());
            match known {
                Ok(Some(result)) => return result,
                // The task that opened it is gone: somebody must begin again.
                Ok(None) | Err(_) => continue,
            }
        }
    }

    /// The opening that is under way or has led to a session that still is one; else a new
    /// one.
    fn opening(&self) -> watch::Receiver<Opened> {
        let mut place = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*place {
            let is_good = match &*opened.borrow() {
                None => opened.has_changed().is_ok(),
                Some(Ok(session)) => session.over().is_none(),
                Some(Err(_)) => false,
            };
            if is_good {
                return opened.clone();
            }
        }
        let (told, opened) = watch::channel(None);
        let (host, servers, options) =
            (self.host.clone(), self.servers.clone(), self.options.clone());
        self.host.spawn(GROUP, async move {
            let session = Session::open(host, &servers, options).await;
            // Nobody waits any more: the session is closed.
            let _ = told.send(Some(session));
        });
        *place = Some(opened.clone());
        opened
    }
}

/// What is known of a session.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The host's monotonic clock when the latest question was sent that the leader has
    /// answered.
    confirmed: Duration,
    /// Whether a server has it, as far as the client knows.
    connected: bool,
}

/// A session.
pub(super) struct Session {
    host: Host,
    client: Client,
    options: Options,
    known: Mutex<Known>,
    /// Why it is over.
    over: OnceLock<String>,
    /// Woken when something of this changes.
    changed: Notify,
    /// How many have, or want, a lock in it.
    interests: AtomicUsize,
    /// Woken by the first of them.
    wanted: Arc<Notify>,
    tasks: OnceLock<[Task; 2]>,
}

impl Session {
    async fn open(host: Host, servers: &str, options: Options) -> Result<Arc<Self>, Failure> {
        let confirmed = host.monotonic();
        let connector = Client::connector().with_session_timeout(options.session_timeout);
        let client = connector
            .connect(servers)
            .await
            .map_err(|error| Failure::Unreachable { reason: error.to_string() })?;
        let session = Arc::new(Session {
            host,
            client,
            options,
            known: Mutex::new(Known { confirmed, connected: true }),
            over: OnceLock::new(),
            changed: Notify::new(),
            interests: AtomicUsize::new(0),
            wanted: Arc::default(),
            tasks: OnceLock::new(),
        });
        let states = session.host.spawn(GROUP, follow_states(Arc::downgrade(&session)));
        let heart = session.host.spawn(GROUP, beat(Arc::downgrade(&session)));
        // Set once, here.
        let _ = session.tasks.set([states, heart]);
        Ok(session)
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// How long the ensemble keeps it when it says nothing.
    pub(super) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// What a holder leaves unused of it: the margin, in the same share if the servers have
    /// changed the timeout.
    pub(super) fn margin(&self) -> Duration {
        let Options { session_timeout, margin, .. } = self.options;
        let micros = |duration: Duration| duration.as_micros();
        let share = micros(self.timeout()) * micros(margin) / micros(session_timeout).max(1);
        Duration::from_micros(u64::try_from(share).unwrap_or(u64::MAX)).min(self.timeout())
    }

    /// The host's monotonic clock when the latest question was sent that the leader has
    /// answered.
    pub(super) fn confirmed(&self) -> Duration {
        self.known().confirmed
    }

    /// Until when a holder may rely on it, on the host's monotonic clock.
    pub(super) fn deadline(&self) -> Duration {
        self.known().confirmed + self.timeout().saturating_sub(self.margin())
    }

    /// Why it is over, if it is known to be.
    pub(super) fn over(&self) -> Option<&str> {
        self.over.get().map(String::as_str)
    }

    /// Whether a server has it, as far as the client knows.
    pub(super) fn is_connected(&self) -> bool {
        self.known().connected
    }

    /// Woken when it is over, confirmed, connected or disconnected.
    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// The leader has answered what was sent at `sent`, on the host's monotonic clock.
    pub(super) fn confirm(&self, sent: Duration) {
        self.change(|known| known.confirmed = known.confirmed.max(sent));
    }

    /// It is needed until the result is dropped.
    pub(super) fn interest(self: &Arc<Self>) -> Interest {
        if self.interests.fetch_add(1, Ordering::SeqCst) == 0 {
            self.wanted.notify_one();
        }
        Interest(self.clone())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.changed.notify_waiters();
    }

    fn enter_state(&self, state: SessionState) {
        let over = match state {
            SessionState::Expired => "the session expired",
            SessionState::AuthFailed => "the ensemble refused our login",
            SessionState::Closed => "the session was closed",
            SessionState::Disconnected => return self.change(|known| known.connected = false),
            _ => return self.change(|known| known.connected = true),
        };
        // Only the first end of a session is one.
        let _ = self.over.set(over.to_owned());
        self.change(|known| known.connected = false);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for task in self.tasks.get().into_iter().flatten() {
            task.abort();
        }
    }
}

/// Says that a session is needed.
pub(super) struct Interest(Arc<Session>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.interests.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Follows the client's states until the session is over.
async fn follow_states(session: Weak<Session>) {
    let Some((mut watcher, mut state)) =
        session.upgrade().map(|session| (session.client.state_watcher(), session.client.state()))
    else {
        return;
    };
    loop {
        let Some(session) = session.upgrade() else { return };
        session.enter_state(state);
        drop(session);
        if state.is_terminated() {
            return;
        }
        state = watcher.changed().await;
    }
}

/// Asks the leader for as long as somebody needs the session.
async fn beat(session: Weak<Session>) {
    loop {
        let Some(strong) = session.upgrade() else { return };
        if strong.interests.load(Ordering::SeqCst) == 0 {
            let wanted = strong.wanted.clone();
            drop(strong);
            wanted.notified().await;
            continue;
        }
        let (host, period) = (strong.host.clone(), strong.options.heartbeat());
        let client = strong.client.clone();
        drop(strong);
        let sent = host.monotonic();
        match client.sync("/").await {
            Ok(()) => {
                let Some(strong) = session.upgrade() else { return };
                strong.confirm(sent);
            }
            Err(_) if client.state().is_terminated() => return,
            Err(_) => {}
        }
        drop(client);
        host.sleep((sent + period).saturating_sub(host.monotonic())).await;
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sessions")
            .field("servers", &self.servers)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("id", &self.client.session_id())
            .field("over", &self.over())
            .finish_non_exhaustive()
    }
}

//! A switch: one value that an operator sets and every process of a service follows, such
//! as "refuse new orders".
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! use lockstorm::lock::zookeeper::Options;
//! use lockstorm::lock::zookeeper::switch::Switch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers = ["zk-1:2181", "zk-2:2181", "zk-3:2181"].map(str::to_owned);
//! let options = Options::new(Duration::from_secs(6));
//! let switch = Switch::new(host, &servers, options, "degradation")?;
//!
//! let reading = switch.reading();
//! let degraded = match reading.value {
//!     // Nobody could be asked for long: decide for what harms least.
//!     _ if reading.is_stale() => true,
//!     Some(value) => value == b"on",
//!     None => false,
//! };
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! [`Switch::reading`] asks nobody: it is the value as this process last learnt it, and how
//! long ago that was confirmed by the leader. A change reaches a process that is connected
//! within a round trip to the leader and one to its server of that server's applying it; one
//! that is not learns it when it is connected again. What [`Switch::changed`] tells is no older
//! than the moment at which the leader was asked for it, just before it was read. Changes that
//! follow each other quickly may be seen as one.
//! [`Switch::set`] replaces the value, if wanted only while it is still the version that the
//! caller saw.
//!
//! # What it does not
//! Two processes may see different values at one moment: it is no lock. What must not be
//! done by two at once needs one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client::{Acls, CreateMode, Error, OneshotWatcher};

use super::failure::{Failure, is_lost};
use super::options::{InvalidOptions, Options};
use super::place::Folder;
use super::session::{Session, Sessions};
use crate::host::{Host, Task};
use crate::lock::LockError;

/// The folder of all switches under the options' root.
const SWITCHES: &str = "switches";

/// What a process knows of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The value; `None` where it was never set, or nothing is known yet.
    pub value: Option<Vec<u8>>,
    /// How often it was changed since it was first set; `None` where it was not.
    pub version: Option<i32>,
    /// How long ago it was last known to be so; `None` if nobody has answered yet.
    pub age: Option<Duration>,
    /// From this age on it is stale.
    stale_after: Duration,
}

impl Reading {
    /// Whether it has not been confirmed for as long as a session lasts: it may have changed
    /// without our knowing. So is a reading before the first answer.
    pub fn is_stale(&self) -> bool {
        self.age.is_none_or(|age| age >= self.stale_after)
    }
}

/// What was read, and in which session.
#[derive(Clone, Default)]
struct Known {
    value: Option<Vec<u8>>,
    version: Option<i32>,
    session: Option<Arc<Session>>,
    /// The host's monotonic clock when a question was sent that the leader has answered, and
    /// before whose answer this was still the value.
    confirmed: Duration,
}

/// A switch; see the module's text.
pub struct Switch {
    sessions: Arc<Sessions>,
    folder: Folder,
    known: watch::Receiver<Known>,
    follower: Task,
}

impl Switch {
    /// The switch `name` at the ensemble of `servers`, each as name:port. It begins to
    /// follow it at once, in a task of its own.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(
        host: Host,
        servers: &[String],
        options: Options,
        name: &str,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, servers, options)?;
        let folder = Folder::new(format!("{}/{SWITCHES}", sessions.options().root), name);
        let (tell, known) = watch::channel(Known::default());
        let following = follow(sessions.clone(), folder.clone(), tell);
        let follower = sessions.host().spawn("switch", following);
        Ok(Switch { sessions, folder, known, follower })
    }

    /// What this process knows now.
    pub fn reading(&self) -> Reading {
        self.read(&self.known.borrow())
    }

    /// Waits until the value is another than it was, or is known for the first time.
    pub async fn changed(&mut self) -> Reading {
        if self.known.changed().await.is_err() {
            // Its task ends with the machine's program alone.
            std::future::pending::<()>().await;
        }
        let known = self.known.borrow_and_update().clone();
        self.read(&known)
    }

    fn read(&self, known: &Known) -> Reading {
        let now = self.sessions.host().monotonic();
        let is_known = known.session.is_some();
        Reading {
            value: known.value.clone(),
            version: known.version,
            age: is_known.then(|| now.saturating_sub(known.confirmed)),
            stale_after: self.sessions.options().session_timeout,
        }
    }

    /// Sets the value, and tells its new version; with `expected`, only while it is of that
    /// version.
    ///
    /// # Errors
    /// [`LockError::Busy`] when it is of another version; [`LockError::Indeterminate`] when
    /// no reply came within the command timeout; [`LockError::Backend`] when the ensemble
    /// refused or could not be asked.
    pub async fn set(&self, value: &[u8], expected: Option<i32>) -> Result<i32, LockError> {
        let limit = self.sessions.options().command_timeout;
        match self.sessions.host().timeout(limit, self.write(value, expected)).await {
            Ok(result) => result,
            Err(_) => Err(LockError::Indeterminate { reason: "no reply in time".to_owned() }),
        }
    }

    async fn write(&self, value: &[u8], expected: Option<i32>) -> Result<i32, LockError> {
        let session = self.sessions.ready().await?;
        let (client, path) = (session.client(), self.folder.path());
        loop {
            match client.set_data(path, value, expected).await {
                Ok(stat) => return Ok(stat.version),
                Err(Error::BadVersion) => return Err(LockError::Busy),
                Err(Error::NoNode) if expected.is_some() => return Err(LockError::Busy),
                Err(Error::NoNode) => {}
                Err(error) if is_lost(&error) => return Err(unknown()),
                Err(error) => return Err(Failure::of(&error).into()),
            }
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let made = async {
                client.mkdir(self.folder.root(), &options).await?;
                client.create(path, value, &options).await
            };
            match made.await {
                Ok((stat, _)) => return Ok(stat.version),
                // Somebody else was first: theirs is replaced.
                Err(Error::NodeExists) => {}
                Err(error) if is_lost(&error) => return Err(unknown()),
                Err(error) => return Err(Failure::of(&error).into()),
            }
        }
    }
}

fn unknown() -> LockError {
    LockError::Indeterminate { reason: "the connection was lost before the reply".to_owned() }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Reads it and waits for its next change, for ever.
async fn follow(sessions: Arc<Sessions>, folder: Folder, tell: watch::Sender<Known>) {
    loop {
        if let Ok(session) = sessions.ready().await {
            let interest = session.interest();
            let _ = follow_in(&session, &folder, &tell).await;
            drop(interest);
        }
        sessions.host().sleep(sessions.options().retry).await;
    }
}

/// Likewise in one session, until it is over.
async fn follow_in(
    session: &Arc<Session>,
    folder: &Folder,
    tell: &watch::Sender<Known>,
) -> Result<(), Error> {
    let client = session.client();
    let known = tell;
    let tell = |confirmed: Duration, read: Option<(Vec<u8>, i32)>| {
        let (value, version) = read.unzip();
        known.send_if_modified(|known| {
            let is_news =
                known.session.is_none() || (&known.value, known.version) != (&value, version);
            let session = Some(session.clone());
            *known = Known { value, version, session, confirmed };
            is_news
        });
    };
    loop {
        // A server answers reads by itself, whatever the leader has decided since: it catches
        // up first, so that what is told here was the value when the leader was asked.
        let sent = session.host().monotonic();
        match client.sync(folder.path()).await {
            Ok(()) => session.confirm(sent),
            Err(error) if is_lost(&error) => continue,
            Err(error) => return Err(error),
        }
        let watcher = match client.get_and_watch_data(folder.path()).await {
            Ok((value, stat, watcher)) => {
                tell(sent, Some((value, stat.version)));
                watcher
            }
            Err(Error::NoNode) => match client.check_and_watch_stat(folder.path()).await {
                Ok((None, watcher)) => {
                    tell(sent, None);
                    watcher
                }
                // Made in between.
                Ok((Some(_), _)) => continue,
                Err(error) if is_lost(&error) => continue,
                Err(error) => return Err(error),
            },
            Err(error) if is_lost(&error) => continue,
            Err(error) => return Err(error),
        };
        watch(session, known, watcher).await;
    }
}

/// Waits for the change. What the leader answers meanwhile confirms the value only if the watch
/// still stands: a server tells of a change before it answers what was asked later.
async fn watch(session: &Arc<Session>, known: &watch::Sender<Known>, watcher: OneshotWatcher) {
    let mut changed = pin!(watcher.changed());
    let mut is_over = false;
    while !is_over {
        let mut news = pin!(session.changed().notified());
        news.as_mut().enable();
        let confirmed = session.confirmed();
        let mut is_told = false;
        is_over = poll_fn(|context| {
            if changed.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            if !std::mem::replace(&mut is_told, true) {
                known.send_if_modified(|known| {
                    known.confirmed = confirmed;
                    false
                });
            }
            news.as_mut().poll(context).map(|()| false)
        })
        .await;
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Switch")
            .field("path", &self.folder.path())
            .field("reading", &self.reading())
            .finish_non_exhaustive()
    }
}

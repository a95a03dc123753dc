//! The lock `zookeeper-election`: one leader among candidates, and everybody may ask who.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::zookeeper::Options;
//! use lockstorm::lock::zookeeper::election::Election;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers = ["zk-1:2181", "zk-2:2181", "zk-3:2181"].map(str::to_owned);
//! let election = Election::new(host.clone(), &servers, Options::new(Duration::from_secs(6)))?;
//!
//! let candidate = Owner::unique(&host);
//! let office = election.acquire("order-writer", &candidate, Duration::from_secs(60)).await?;
//! let reason = office.lost().await; // until somebody says that it is over
//! println!("no longer the leader: {reason}");
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`zookeeper`](super) guarantees: to stand for election is to acquire, to lead is to
//! hold the guard, to resign is to release it. Candidates lead in the order in which they
//! stood. The guard's token is the leader's *epoch*: larger than that of all leaders before,
//! so whoever takes orders can refuse those of a leader that does not know yet that it was
//! replaced. Elections and locks of one name have nothing to do with each other.
//!
//! [`Election::leader`] says who leads, as a server knows it that has first caught up with
//! the leader of the ensemble. By the time that it is read it may be another.
//!
//! # Takeover
//! As [`zookeeper`](super).
//!
//! # How it is known to fail
//! In all the ways of [`zookeeper`](super): for as long as a replaced leader has not looked,
//! there are two that act.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::Error;

use super::failure::{Failure, is_lost};
use super::names::{self, Kind};
use super::options::{InvalidOptions, Options};
use super::queue::Queues;
use crate::host::{BoxFuture, Host};
use crate::lock::{FencingToken, Guard, Lock, LockError, Owner, Promises};

/// The folder of all elections under the options' root.
const ELECTIONS: &str = "elections";

/// An election; see the module's text.
#[derive(Clone, Debug)]
pub struct Election {
    queues: Arc<Queues>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The candidate, by the name in which it stood.
    pub owner: Owner,
    /// Its epoch, as its guard has it.
    pub epoch: FencingToken,
}

impl Election {
    /// Elections held at the ensemble of `servers`, each as name:port. Nothing is connected
    /// yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(host: Host, servers: &[String], options: Options) -> Result<Self, InvalidOptions> {
        Ok(Election { queues: Arc::new(Queues::new(host, servers, options, ELECTIONS)?) })
    }

    /// Who leads in the election `key`; `None` while nobody stands.
    ///
    /// # Errors
    /// [`LockError::Backend`] when no server answered within the command timeout, or the
    /// ensemble refused.
    pub async fn leader(&self, key: &str) -> Result<Option<Leader>, LockError> {
        let limit = self.queues.options().command_timeout;
        match self.queues.host().timeout(limit, self.first(key)).await {
            Ok(found) => Ok(found?),
            Err(_) => Err(LockError::Backend { reason: "no reply in time".to_owned() }),
        }
    }

    async fn first(&self, key: &str) -> Result<Option<Leader>, Failure> {
        let (session, folder) = (self.queues.sessions().ready().await?, self.queues.folder(key));
        let client = session.client();
        loop {
            let found = async {
                client.sync(folder.path()).await?;
                let children = client.list_children(folder.path()).await?;
                let Some(name) = names::first(&children) else { return Ok(None) };
                client.get_data(&folder.path_of(name)).await.map(Some)
            };
            return match found.await {
                Ok(Some((data, stat))) => Ok(Some(Leader {
                    owner: Owner::named(String::from_utf8_lossy(&data)),
                    epoch: FencingToken(u64::try_from(stat.czxid).unwrap_or(0)),
                })),
                Ok(None) => Ok(None),
                // The folder, or whoever was first: only the folder stays away.
                Err(Error::NoNode) if client.check_stat(folder.path()).await == Ok(None) => {
                    Ok(None)
                }
                Err(Error::NoNode) => continue,
                Err(error) if is_lost(&error) => continue,
                Err(error) => Err(Failure::of(&error)),
            };
        }
    }
}

impl Lock for Election {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.queues.acquire(key, owner, Kind::Alone, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.queues.options().takeover_bound()
    }

    fn promises(&self) -> Promises {
        self.queues.promises()
    }
}

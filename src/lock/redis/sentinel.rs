//! The lock `redis-sentinel`: the record of [`redis`](super) at the master that sentinels
//! name, granted only if they still name it afterwards.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::Options;
//! use lockstorm::lock::redis::sentinel::SentinelLock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let sentinels: Vec<String> = (1..=3).map(|n| format!("sentinel-{n}:26379")).collect();
//! let options = Options::new(Duration::from_secs(10));
//! let lock = SentinelLock::new(host.clone(), sentinels, "mymaster", options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`redis`](super) guarantees with
//! [`Endpoint::Sentinel`]. That lock asks the sentinels for each
//! new *connection*, and stays with a connection for as long as it lasts: with a master that
//! is cut off together with some clients it goes on granting. This one asks for each *grant*: after the
//! record is written, and before the acquire comes back, the server must still call
//! itself a master and more than half of the sentinels must name it. Otherwise the record
//! is taken back, and it is tried again while patience lasts. It asks and does not listen
//! for `+switch-master`: a message can be lost, silence can not be told from peace.
//!
//! # Takeover
//! As [`redis`](super), and one command timeout for the server and each sentinel. A client
//! that cannot reach most sentinels is granted nothing.
//!
//! # How it is known to fail
//! - In the ways of [`redis`](super): replication lag above all. That a server was the
//!   master when it granted does not make its grant known to the next one.
//! - **Sentinels that have not noticed.** Until they agree that the master is gone
//!   (`down-after`), they confirm it. And a grant that was confirmed is not asked about
//!   again: a failover a moment later is not seen.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::guarded;
use super::options::{InvalidOptions, Options};
use super::records::{Records, Taken};
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, Lock, LockError, Owner};

/// The lock `redis-sentinel`; see the module's text.
#[derive(Debug)]
pub struct SentinelLock {
    records: Arc<Records>,
    sentinels: u32,
}

impl SentinelLock {
    /// A lock kept at the master that these sentinels, `name:port`, monitor under this
    /// name. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(
        host: Host,
        sentinels: Vec<String>,
        master_name: impl Into<String>,
        options: Options,
    ) -> Result<Self, InvalidOptions> {
        let number = u32::try_from(sentinels.len()).unwrap_or(u32::MAX);
        let endpoint = Endpoint::Sentinel { sentinels, master_name: master_name.into() };
        Ok(SentinelLock { records: Records::new(host, endpoint, options)?, sentinels: number })
    }

    async fn take(&self, key: &str, owner: &Owner) -> Result<Option<Taken>, Failure> {
        let connection = self.records.connection();
        let confirmed = |live| async move {
            let confirmed = connection.confirm(&live).await;
            if confirmed.is_err() {
                connection.discard(&live);
            }
            confirmed
        };
        self.records.take_and(key, owner, confirmed).await
    }
}

impl Lock for SentinelLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(guarded(&self.records, key, owner, patience, || self.take(key, owner)))
    }

    fn takeover_bound(&self) -> Duration {
        let confirming = self.records.options().command_timeout * (1 + self.sentinels);
        self.records.takeover_bound() + confirming
    }
}

//! The lock `redis-wait`: the record of [`redis`](super), granted only when replicas have
//! it too.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::wait::{WaitLock, WaitOptions};
//! use lockstorm::lock::redis::{Endpoint, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::Sentinel {
//!     sentinels: vec!["sentinel-1:26379".to_owned()],
//!     master_name: "mymaster".to_owned(),
//! };
//! let options =
//!     WaitOptions { replicas: 2, ..WaitOptions::new(Options::new(Duration::from_secs(10))) };
//! let lock = WaitLock::new(host.clone(), endpoint, options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`redis`](super) guarantees, and that a granted record was in the memory of
//! [`WaitOptions::replicas`] replicas before the acquire came back. After `SET` it sends
//! `WAIT`; with too few acknowledgements within [`WaitOptions::timeout`] it takes the
//! record back and refuses, and tries again while patience lasts.
//!
//! # Takeover
//! As [`redis`](super), and one timeout of the wait. While replicas lag or are cut off
//! nobody is granted: it trades availability for a smaller window.
//!
//! # How it is known to fail
//! - In the ways of [`redis`](super) that have nothing to do with replication.
//! - **It narrows the window and does not close it.** WAIT counts replicas, the failover
//!   chooses one: with fewer than all of them acknowledged, the one that lags may be
//!   promoted. With all, a replica that restarts empty after its acknowledgement, or one
//!   added later, may be.
//! - **WAIT undoes nothing.** A refused record lives on the master, and perhaps on
//!   replicas, until the best-effort release arrives or its lease ends.
//! - **Two masters.** A master that is cut off together with a replica and some clients
//!   goes on granting, acknowledged by that replica, while the others have a new master.
//! - **One connection.** WAIT stops all commands behind it on the lock's connection: a
//!   release of the same program may be late by the timeout.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::guarded;
use super::options::{InvalidOptions, Options};
use super::records::{Records, Taken};
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, Lock, LockError, Owner};

/// Options of the lock `redis-wait`. Make them with [`WaitOptions::new`] and change
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitOptions {
    /// Those that all locks on Redis have.
    pub redis: Options,
    /// How many replicas must have the record. At least one.
    pub replicas: u16,
    /// How long they may take. At least 1 ms (WAIT takes zero for "for ever"), and less
    /// than the command timeout.
    pub timeout: Duration,
}

impl WaitOptions {
    /// The defaults: one replica, within half a command timeout.
    pub fn new(redis: Options) -> Self {
        let timeout = redis.command_timeout / 2;
        WaitOptions { redis, replicas: 1, timeout }
    }
}

/// The lock `redis-wait`; see the module's text.
#[derive(Debug)]
pub struct WaitLock {
    records: Arc<Records>,
    replicas: u16,
    timeout: Duration,
}

impl WaitLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: WaitOptions,
    ) -> Result<Self, InvalidOptions> {
        let WaitOptions { redis, replicas, timeout } = options;
        let records = Records::new(host, endpoint, redis)?;
        let limit = records.options().command_timeout;
        if replicas == 0 {
            return Err(InvalidOptions::NoReplicas);
        }
        if timeout < Duration::from_millis(1) || timeout >= limit {
            return Err(InvalidOptions::WaitTimeout { timeout, limit });
        }
        Ok(WaitLock { records, replicas, timeout })
    }

    async fn take(&self, key: &str, owner: &Owner) -> Result<Option<Taken>, Failure> {
        let (records, wanted) = (&self.records, self.replicas);
        let replicated = |live| async move {
            let acknowledged = records.wait_for_replicas(&live, wanted, self.timeout).await?;
            if acknowledged >= u64::from(wanted) {
                return Ok(());
            }
            Err(Failure::TooFewReplicas { acknowledged, wanted })
        };
        records.take_and(key, owner, replicated).await
    }
}

impl Lock for WaitLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(guarded(&self.records, key, owner, patience, || self.take(key, owner)))
    }

    fn takeover_bound(&self) -> Duration {
        self.records.takeover_bound() + self.timeout
    }
}

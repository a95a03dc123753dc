//! The lock `redis-watchdog`: the record of [`redis`](super), and a task that renews it
//! for as long as its holder lives.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::watchdog::{WatchdogLock, WatchdogOptions};
//! use lockstorm::lock::redis::{Endpoint, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let endpoint = Endpoint::Direct("redis-1:6379".to_owned());
//! let options = WatchdogOptions {
//!     max_hold: Some(Duration::from_secs(120)),
//!     ..WatchdogOptions::new(Options::new(Duration::from_secs(10)))
//! };
//! let lock = WatchdogLock::new(host.clone(), endpoint, options)?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! tokio::select! {
//!     reason = guard.lost() => println!("stop: {reason}"),
//!     () = host.sleep(Duration::from_secs(60)) => println!("{:?}", guard.release().await),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! What [`redis`](super) guarantees, and that a holder whose work takes longer than the
//! lease keeps the lock, as long as its machine runs and reaches Redis. The record is
//! renewed after each third of the lease. When a renewal finds that the record is no
//! longer ours, or none succeeds before the lease has run out, [`Guard::lost`] says so at
//! once and [`Guard::check`] from then on. The renewal stops with the guard: a
//! release, a drop, a cancelled task or a dead program leave nothing that renews.
//!
//! # Takeover
//! A holder that dies keeps others out until its last renewal's lease ends: the bound is
//! that of [`redis`](super), the lease, one retry and the command timeouts. A holder
//! that lives and does nothing (a hung thread, a wait without end) is renewed *for ever*,
//! unless [`WatchdogOptions::max_hold`] ends it.
//!
//! # How it is known to fail
//! - In all the ways of [`redis`](super): replication lag, clocks, late requests.
//! - **A renewer that stands still** while the holder works (a runtime whose threads are
//!   busy, a process stopped): nothing is renewed and nothing is told. The holder's own
//!   clock still knows; a holder that does not [`check`](Guard::check) acts after its
//!   lease.
//! - **A pause of both** beyond the lease: as with every lease, the holder wakes and acts
//!   until it looks.
//! - **A hung holder**, see above.
//! - **The longest hold** ends a holder that is only slow.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::options::{InvalidOptions, Options};
use super::patience::until_granted;
use super::records::Records;
use super::renewal::Renewal;
use crate::host::{BoxFuture, Host};
use crate::lock::{Guard, GuardBackend, Lock, LockError, Owner, Promises, Release};

/// Options of the lock `redis-watchdog`. Make them with [`WatchdogOptions::new`] and
/// change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchdogOptions {
    /// Those that all locks on Redis have. The lease is what a dead holder keeps others
    /// out for; it is renewed after each third of it.
    pub redis: Options,
    /// For how long at most a grant is renewed: no lease that is asked for reaches beyond so
    /// long after the request that took the lock, but for the time that the request for it is
    /// under way: Redis counts from its arrival. At least the lease. `None`: for as long as the
    /// guard is held.
    pub max_hold: Option<Duration>,
}

impl WatchdogOptions {
    /// The defaults: renewed for as long as the guard is held.
    pub fn new(redis: Options) -> Self {
        WatchdogOptions { redis, max_hold: None }
    }
}

/// The lock `redis-watchdog`; see the module's text.
#[derive(Debug)]
pub struct WatchdogLock {
    records: Arc<Records>,
    max_hold: Option<Duration>,
}

impl WatchdogLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: WatchdogOptions,
    ) -> Result<Self, InvalidOptions> {
        let records = Records::new(host, endpoint, options.redis)?;
        let lease = records.options().lease;
        match options.max_hold {
            Some(max_hold) if max_hold < lease => {
                Err(InvalidOptions::ShortHold { max_hold, lease })
            }
            max_hold => Ok(WatchdogLock { records, max_hold }),
        }
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let records = &self.records;
        let retry = records.options().retry;
        let taken =
            until_granted(records.host(), retry, patience, || records.take(key, owner)).await?;
        let renewal = Renewal::start(records, key, owner, taken.asked_at, self.max_hold);
        let renewed = Renewed {
            records: records.clone(),
            key: key.to_owned(),
            owner: owner.clone(),
            renewal,
        };
        Ok(Guard::new(records.host().clone(), records.grant(key, owner, taken), renewed))
    }
}

impl Lock for WatchdogLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.records.takeover_bound()
    }

    /// A lease: a renewal has found out, or the lease has run out, by then.
    fn promises(&self) -> Promises {
        Promises { loss_notice_bound: Some(self.records.options().lease), ..Promises::default() }
    }
}

/// The record behind a guard, and who renews it.
struct Renewed {
    records: Arc<Records>,
    key: String,
    owner: Owner,
    renewal: Renewal,
}

impl GuardBackend for Renewed {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        Records::releasing(&self.records, &self.key, &self.owner)
    }

    fn lost(&self) -> Option<String> {
        self.renewal.lost()
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        self.renewal.told()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.renewal.deadline())
    }
}

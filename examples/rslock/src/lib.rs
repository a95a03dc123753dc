//! `rslock` 0.10, the Redlock of crates.io, behind the trait of lockstorm's locks: what a
//! storm needs to put it through what it puts its own locks through.
//!
//! Nothing is mended on the way. The deadline is what `rslock` says is left
//! ([`rslock::Lock::validity_time`]) from the moment at which it says so; waiting for longer
//! than its three tries is done as its own `acquire` does it, by asking again.
//!
//! `rslock` draws what it writes into its records, and takes no name from whoever asks. So
//! that a judge knows whose record is whose, what was drawn for a grant is noted ([`Drawn`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};
use rslock::LockManager;

/// What `rslock` drew for each grant, as text, and for whom.
pub type Drawn = Arc<Mutex<BTreeMap<String, Owner>>>;

/// A lock of `rslock`'s at several servers.
#[derive(Debug)]
pub struct Rslock {
    host: Host,
    manager: LockManager,
    lease: Duration,
    drawn: Drawn,
}

impl Rslock {
    /// A lock at these servers, `name:port`, for so long at a time. What it draws is noted in
    /// `drawn`.
    ///
    /// # Errors
    /// When an address is none.
    pub fn new(
        host: Host,
        servers: &[String],
        lease: Duration,
        drawn: Drawn,
    ) -> Result<Rslock, String> {
        let clients = servers
            .iter()
            .map(|server| redis::Client::open(format!("redis://{server}")))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        Ok(Rslock { host, manager: LockManager::from_clients(clients), lease, drawn })
    }

    fn guard(&self, key: &str, owner: &Owner, lock: rslock::Lock) -> Guard {
        let text = String::from_utf8_lossy(&lock.val).into_owned();
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).insert(text, owner.clone());
        let left = Duration::from_millis(u64::try_from(lock.validity_time).unwrap_or(0));
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: None,
            lease: left,
            margin: Duration::ZERO,
            asked_at: self.host.monotonic(),
        };
        Guard::new(self.host.clone(), grant, Held { lock: Some(lock) })
    }
}

impl Lock for Rslock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let until = self.host.monotonic() + patience;
            loop {
                match self.manager.lock(key.as_bytes(), self.lease).await {
                    Ok(lock) => return Ok(self.guard(key, owner, lock)),
                    Err(rslock::LockError::TtlTooLarge) => {
                        return Err(LockError::Backend { reason: "the lease is too long".into() });
                    }
                    Err(_) if self.host.monotonic() < until => {}
                    Err(_) if patience.is_zero() => return Err(LockError::Busy),
                    Err(_) => return Err(LockError::TimedOut),
                }
            }
        })
    }

    /// A lease, and a round of tries: each may wait for a connection and for an answer.
    fn takeover_bound(&self) -> Duration {
        self.lease + Duration::from_secs(6)
    }
}

#[derive(Debug)]
struct Held {
    lock: Option<rslock::Lock>,
}

impl GuardBackend for Held {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let lock = self.lock.take();
        Box::pin(async move {
            if let Some(lock) = lock {
                lock.release().await;
            }
            // It does not say whether anybody heard.
            Release::Indeterminate { reason: "rslock does not tell".into() }
        })
    }
}

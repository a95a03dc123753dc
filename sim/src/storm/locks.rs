//! The locks that a plan can name, and how each is built on a node.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::redis::{Endpoint, Fencing, Options, RedisLock};
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

use crate::plan::{Fence, Plan};
use crate::planted;

/// Builds the lock under test on a node.
pub type LockFactory = Arc<dyn Fn(&Host, &Plan) -> Result<Arc<dyn Lock>, String> + Send + Sync>;

/// The lock that `plan` names.
///
/// # Errors
/// When no lock has this name, or its options contradict each other.
pub fn build(host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
    if let Some(lock) = planted::build(host, plan) {
        return Ok(lock);
    }
    match plan.lock.name.as_str() {
        "none" => Ok(Arc::new(NoLock { host: host.clone() })),
        "redis" => redis(host, plan),
        other => Err(format!("no lock is called `{other}`; there are: none, redis")),
    }
}

/// Whether the lock of this name keeps a record at a server. One that does not makes
/// no promises.
pub fn has_records(name: &str) -> bool {
    name != "none"
}

/// Whether the lock of this name promises that tokens grow from grant to grant.
pub fn promises_ordered_tokens(name: &str) -> bool {
    planted::find(name).is_some_and(|(bug, _)| bug.ordered_tokens)
}

fn redis(host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
    let lock = &plan.lock;
    let mut options = Options::new(Duration::from_micros(lock.lease.0));
    options.margin = Duration::from_micros(
        (u128::from(lock.lease.0) * u128::from(lock.margin_ppm) / 1_000_000) as u64,
    );
    options.command_timeout = Duration::from_micros(lock.command_timeout.0);
    options.retry = Duration::from_micros(lock.retry.0);
    options.fencing = if plan.fence == Fence::Off { Fencing::None } else { Fencing::Counter };
    let endpoint = match plan.topology.sentinel {
        true => Endpoint::Sentinel {
            sentinels: vec!["sentinel-1:26379".to_owned()],
            master_name: "mymaster".to_owned(),
        },
        false => Endpoint::Direct("redis-1:6379".to_owned()),
    };
    let lock =
        RedisLock::new(host.clone(), endpoint, options).map_err(|error| error.to_string())?;
    Ok(Arc::new(lock))
}

/// No lock at all: everybody is let in. What a sale without a lock looks like, and
/// the canary that every harness must catch.
struct NoLock {
    host: Host,
}

/// Longer than any storm: the guard's own deadline never passes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

impl Lock for NoLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        _patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: None,
            lease: FOR_EVER,
            margin: Duration::ZERO,
            asked_at: self.host.monotonic(),
        };
        Box::pin(std::future::ready(Ok(Guard::new(self.host.clone(), grant, NothingHeld))))
    }

    fn takeover_bound(&self) -> Duration {
        Duration::ZERO
    }
}

struct NothingHeld;

impl GuardBackend for NothingHeld {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        Box::pin(std::future::ready(Release::Released))
    }
}

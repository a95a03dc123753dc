//! The locks that a plan can name, and how each is built on a node.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::redis::fair::{FairLock, FairOptions};
use lockstorm::lock::redis::redlock::{Ask, Redlock, RedlockOptions};
use lockstorm::lock::redis::reentrant::ReentrantLock;
use lockstorm::lock::redis::sentinel::SentinelLock;
use lockstorm::lock::redis::wait::{WaitLock, WaitOptions};
use lockstorm::lock::redis::watchdog::{WatchdogLock, WatchdogOptions};
use lockstorm::lock::redis::{Endpoint, Fencing, InvalidOptions, Options, RedisLock};
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::scene::REDIS_PORT;
use crate::plan::scenario::LOCKS;
/// The name under which sentinels monitor the master.
const MASTER_NAME: &str = "mymaster";

fn sentinels(plan: &Plan) -> Vec<String> {
    let nodes = plan.topology.sentinel_nodes().into_iter();
    nodes.map(|node| format!("{node}:26379")).collect()
}

/// Where the master is.
fn endpoint(plan: &Plan) -> Endpoint {
    let sentinels = sentinels(plan);
    match sentinels.is_empty() {
        false => Endpoint::Sentinel { sentinels, master_name: MASTER_NAME.to_owned() },
        true => Endpoint::Direct(format!("redis-1:{REDIS_PORT}")),
    }
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

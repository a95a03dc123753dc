//! The locks that a plan can name, and how each is built on a node.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::postgres;
use lockstorm::lock::postgres::advisory::AdvisoryLock;
use lockstorm::lock::postgres::for_update::RowLock;
use lockstorm::lock::postgres::table::reentrant::ReentrantTableLock;
use lockstorm::lock::postgres::table::{Expiry, TableLock};
use lockstorm::lock::redis::fair::{FairLock, FairOptions};
use lockstorm::lock::redis::redlock::{Ask, Redlock, RedlockOptions};
use lockstorm::lock::redis::reentrant::ReentrantLock;
use lockstorm::lock::redis::sentinel::SentinelLock;
use lockstorm::lock::redis::wait::{WaitLock, WaitOptions};
use lockstorm::lock::redis::watchdog::{WatchdogLock, WatchdogOptions};
use lockstorm::lock::redis::{Endpoint, Fencing, Options, RedisLock};
use lockstorm::lock::zookeeper::election::Election;
use lockstorm::lock::zookeeper::read_write::ReadWriteLock;
use lockstorm::lock::zookeeper::{self, ZooKeeperLock};
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::postgres as database;
use super::scene::REDIS_PORT;
use crate::engine::Engine;
use crate::engine::shims::{self, Refusal};
use crate::own::section::Section;
use crate::plan::scenario::{LOCKS, Needs, OWN_LOCK, READ_LOCK, find_lock};
use crate::plan::{self, Fence, Micros, Plan};
use crate::planted;
use crate::server::redis::sentinel;
use crate::server::zookeeper::CLIENT_PORT;

/// What is put through a storm.
pub trait UnderTest: Send + Sync {
    /// Builds the lock under test on a node.
    ///
    /// # Errors
    /// When it cannot be built, with why.
    fn lock(&self, host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String>;

    /// What clients do inside, where that is not to sell a unit.
    fn section(&self) -> Option<Section> {
        None
    }
}

impl<F> UnderTest for F
where
    F: Fn(&Host, &Plan) -> Result<Arc<dyn Lock>, String> + Send + Sync,
{
    fn lock(&self, host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
        self(host, plan)
    }
}

/// Builds what is under test: a function of a node and the plan, or a test's own lock
/// ([`own`](crate::own)).
pub type LockFactory = Arc<dyn UnderTest>;

/// What this function builds; the types of its arguments and of what it gives need not be named.
pub fn made_by<F>(build: F) -> LockFactory
where
    F: Fn(&Host, &Plan) -> Result<Arc<dyn Lock>, String> + Send + Sync + 'static,
{
    Arc::new(build)
}

/// The lock that `plan` names.
///
/// # Errors
/// When no lock has this name, or its options contradict each other.
pub fn build(host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
    planted::build(host, plan).unwrap_or_else(|| build_named(host, plan, &plan.lock.name))
}

/// The lock of this name, with the options of `plan`.
///
/// # Errors
/// As [`build`].
pub fn build_named(host: &Host, plan: &Plan, name: &str) -> Result<Arc<dyn Lock>, String> {
    let (own, options) = (&plan.lock.own, options(plan));
    match name {
        "none" => Ok(Arc::new(NoLock { host: host.clone() })),
        "redis" => made(RedisLock::new(host.clone(), endpoint(plan), options)),
        "redis-watchdog" => {
            let max_hold = own.max_hold.map(Micros::to_duration);
            let options = WatchdogOptions { redis: options, max_hold };
            made(WatchdogLock::new(host.clone(), endpoint(plan), options))
        }
        "redis-wait" => {
            let (replicas, timeout) = (own.wait_replicas, own.wait_timeout.to_duration());
            let options = WaitOptions { redis: options, replicas, timeout };
            made(WaitLock::new(host.clone(), endpoint(plan), options))
        }
        "redis-sentinel" => {
            made(SentinelLock::new(host.clone(), sentinels(plan), MASTER_NAME, options))
        }
        "redis-reentrant" => made(ReentrantLock::new(host.clone(), endpoint(plan), options)),
        "redis-fair" => {
            let waiter_timeout = own.waiter_timeout.to_duration();
            let options = FairOptions { redis: options, waiter_timeout };
            made(FairLock::new(host.clone(), endpoint(plan), options))
        }
        "redlock" => {
            let nodes = plan.topology.redis_nodes().into_iter();
            let servers: Vec<String> = nodes.map(|node| format!("{node}:{REDIS_PORT}")).collect();
            let ask = match own.ask {
                plan::Ask::OneAfterAnother => Ask::OneAfterAnother,
                plan::Ask::Parallel => Ask::Parallel,
            };
            made(Redlock::new(host.clone(), &servers, RedlockOptions { redis: options, ask }))
        }
        "zookeeper" => made(ZooKeeperLock::new(host.clone(), &ensemble(plan), sessions(plan))),
        "zookeeper-reentrant" => made(zookeeper::reentrant::ReentrantLock::new(
            host.clone(),
            &ensemble(plan),
            sessions(plan),
        )),
        READ_LOCK => {
            let locks = ReadWriteLock::new(host.clone(), &ensemble(plan), sessions(plan));
            let is_reader = plan.reads(host.name());
            made(locks.map(|locks| if is_reader { locks.read() } else { locks.write() }))
        }
        "zookeeper-write" => {
            let locks = ReadWriteLock::new(host.clone(), &ensemble(plan), sessions(plan));
            made(locks.map(|locks| locks.write()))
        }
        "zookeeper-election" => made(Election::new(host.clone(), &ensemble(plan), sessions(plan))),
        name if name == OWN_LOCK.name => Err(format!(
            "the lock `{name}` is one of a test's own: run that test, with LOCKSTORM_PLAN for this \
             plan"
        )),
        other if other.starts_with("pg-") => on_postgres(host, plan, other),
        other => Err(unknown(other)),
    }
}

fn unknown(name: &str) -> String {
    let known = LOCKS.iter().map(|lock| lock.name).collect::<Vec<_>>().join(", ");
    format!("no lock is called `{name}`; there are: {known}")
}

/// The locks that PostgreSQL keeps, and the ways to sell without one.
fn on_postgres(host: &Host, plan: &Plan, name: &str) -> Result<Arc<dyn Lock>, String> {
    let endpoint = database::endpoint(plan);
    let mut options = postgres::Options::new(plan.lock.lease.to_duration());
    options.margin = margin(plan);
    options.command_timeout = plan.lock.command_timeout.to_duration();
    options.retry = plan.lock.retry.to_duration();
    options.connections = usize::from(plan.lock.own.connections);
    if plan.fence != Fence::Off {
        options.fencing = postgres::Fencing::Sequence;
    }
    let host = host.clone();
    match name {
        "pg-for-update" => made(RowLock::waiting(host, endpoint, options)),
        "pg-nowait" => made(RowLock::nowait(host, endpoint, options)),
        "pg-advisory" => made(AdvisoryLock::of_session(host, endpoint, options)),
        "pg-advisory-xact" => made(AdvisoryLock::of_transaction(host, endpoint, options)),
        "pg-lock-table" => {
            let expiry = match plan.lock.own.expiry {
                plan::Expiry::Lease => Expiry::Lease,
                plan::Expiry::Never => Expiry::Never,
            };
            made(TableLock::new(host, endpoint, options, expiry))
        }
        "pg-lock-table-reentrant" => made(ReentrantTableLock::new(host, endpoint, options)),
        "pg-optimistic" | "pg-conditional" => Ok(Arc::new(NoLock { host })),
        other => Err(unknown(other)),
    }
}

/// Whether the lock of this name keeps a record at a server. One that does not makes
/// no promises.
pub fn has_records(name: &str) -> bool {
    find_lock(name).map_or(name != "none", |lock| lock.records)
}

/// At how many servers, each for itself, the plan's lock must have its record to be held.
pub fn quorum(plan: &Plan) -> u16 {
    let needs = find_lock(&plan.lock.name).map(|lock| lock.needs);
    // Of servers that know nothing of each other no lock can hold by one alone.
    let is_own = plan.lock.name == OWN_LOCK.name && plan.topology.independent;
    if needs == Ok(Needs::Independent) || is_own { plan.topology.redis / 2 + 1 } else { 1 }
}

/// Why the plan's lock cannot be put through a storm by this program on `engine`; `None` if it
/// can.
pub fn refusal(plan: &Plan, engine: &dyn Engine) -> Option<Refusal> {
    let lock = find_lock(&plan.lock.name).ok()?;
    let are_answered = engine.answers_libraries();
    (lock.needs == Needs::Ensemble).then(|| shims::refusal(are_answered))?
}

fn made(
    lock: Result<impl Lock + 'static, impl std::fmt::Display>,
) -> Result<Arc<dyn Lock>, String> {
    match lock {
        Ok(lock) => Ok(Arc::new(lock)),
        Err(error) => Err(error.to_string()),
    }
}

/// What all locks on Redis have.
fn options(plan: &Plan) -> Options {
    let lock = &plan.lock;
    let mut options = Options::new(lock.lease.to_duration());
    options.margin = margin(plan);
    options.command_timeout = lock.command_timeout.to_duration();
    options.retry = lock.retry.to_duration();
    options.fencing = if plan.fence == Fence::Off { Fencing::None } else { Fencing::Counter };
    options
}

/// What all locks on ZooKeeper have: the lease is the session's timeout.
pub(crate) fn sessions(plan: &Plan) -> zookeeper::Options {
    let lock = &plan.lock;
    let mut options = zookeeper::Options::new(lock.lease.to_duration());
    options.margin = margin(plan);
    options.command_timeout = lock.command_timeout.to_duration();
    options.retry = lock.retry.to_duration();
    options.tick = plan.topology.tick.to_duration();
    options
}

/// The ZooKeeper servers.
pub(crate) fn ensemble(plan: &Plan) -> Vec<String> {
    let nodes = plan.topology.zookeeper_nodes().into_iter();
    nodes.map(|node| format!("{node}:{CLIENT_PORT}")).collect()
}

/// What of the lease its holder leaves unused.
fn margin(plan: &Plan) -> Duration {
    let (lease, ppm) = (u128::from(plan.lock.lease.0), u128::from(plan.lock.margin_ppm));
    Duration::from_micros((lease * ppm / 1_000_000) as u64)
}

/// The name under which sentinels monitor the master.
pub const MASTER_NAME: &str = "mymaster";

fn sentinels(plan: &Plan) -> Vec<String> {
    let nodes = plan.topology.sentinel_nodes().into_iter();
    nodes.map(|node| format!("{node}:{}", sentinel::PORT)).collect()
}

/// Where the master of Redis is.
pub(crate) fn endpoint(plan: &Plan) -> Endpoint {
    match plan.topology.sentinels {
        0 => Endpoint::Direct(format!("redis-1:{REDIS_PORT}")),
        _ => Endpoint::Sentinel { sentinels: sentinels(plan), master_name: MASTER_NAME.to_owned() },
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

//! What each scenario begins with: its clients, servers and times.

use std::collections::BTreeSet;

use crate::plan::{
    CONNECTIONS, LockPlan, MAX_CONNECTIONS, Micros, OwnOptions, RedisPersistence, StockPlace,
    Topology, Workload,
};

/// The tick of ZooKeeper's sample configuration.
const TICK: Micros = Micros::from_secs(2);

pub(super) fn redis_failover() -> (Micros, LockPlan, Topology, Workload) {
    let lock = LockPlan {
        name: String::new(),
        lease: Micros::from_secs(5),
        margin_ppm: 10_000,
        command_timeout: Micros::from_millis(500),
        retry: Micros::from_millis(40),
        own: OwnOptions::default(),
    };
    let topology = Topology {
        redis: 3,
        independent: false,
        persistence: RedisPersistence::None,
        sentinels: 3,
        zookeeper: 0,
        tick: TICK,
        postgres: 0,
        max_connections: MAX_CONNECTIONS,
        pooler: 0,
        apps: 3,
        absent: BTreeSet::new(),
        latency: Micros(500),
        latency_sigma_milli: 400,
        down_after: Micros::from_secs(1),
    };
    // About a dozen lock cycles a second. Slow work is rare enough not to close the
    // lock for most of the storm and longer than a failover takes.
    let workload = Workload {
        units: 400,
        think: Micros::from_millis(120),
        work: Micros::from_millis(30),
        slow_per_mille: 15,
        slow_work: Micros::from_millis(1_800),
        patience: Micros::from_secs(4),
        deadline_check: true,
        reentries: 0,
        locks: 1,
        stock: StockPlace::Memory,
        buyers: 1,
        pool: CONNECTIONS,
        readers: 0,
    };
    (Micros::from_secs(10), lock, topology, workload)
}

pub(super) fn redis_single() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = redis_failover();
    (duration, lock, Topology { redis: 1, sentinels: 0, ..topology }, workload)
}

pub(super) fn redlock_five() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = redis_failover();
    // A server that does not answer must cost little of the lease.
    let lock = LockPlan { command_timeout: Micros::from_millis(50), ..lock };
    let topology = Topology { redis: 5, independent: true, sentinels: 0, ..topology };
    (duration, lock, topology, workload)
}

pub(super) fn zookeeper_three() -> (Micros, LockPlan, Topology, Workload) {
    let (_, lock, topology, workload) = redis_failover();
    // Four ticks: the leader ends a session of a dead holder 2 s to 2.75 s after it last
    // heard of it. The margin is what it may not have heard of yet.
    let lock = LockPlan { lease: Micros::from_secs(2), margin_ppm: 333_333, ..lock };
    let topology = Topology {
        redis: 0,
        sentinels: 0,
        zookeeper: 3,
        tick: Micros::from_millis(500),
        ..topology
    };
    // A commit takes a disk's time; a session is lost by whoever stands still for two
    // seconds, which slow work does not.
    let workload = Workload { slow_work: Micros::from_millis(900), ..workload };
    (Micros::from_secs(15), lock, topology, workload)
}

pub(super) fn zookeeper_single() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = zookeeper_three();
    (duration, lock, Topology { zookeeper: 1, ..topology }, workload)
}

pub(super) fn postgres_failover() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = redis_failover();
    // The lease is how long a session that holds a lock may be silent.
    let lock = LockPlan { lease: Micros::from_secs(3), ..lock };
    let topology = Topology { redis: 0, sentinels: 0, postgres: 2, ..topology };
    (duration, lock, topology, workload)
}

pub(super) fn postgres_single() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = postgres_failover();
    (duration, lock, Topology { postgres: 1, ..topology }, workload)
}

/// The whole of a sale: a master of Redis that fails over, an ensemble of ZooKeeper, one
/// PostgreSQL server whose disk keeps what it has acknowledged.
pub fn sale() -> (Micros, LockPlan, Topology, Workload) {
    let (_, lock, topology, workload) = redis_failover();
    // The lease is the session's timeout: how long a leader that died is one.
    let lock = LockPlan {
        name: "none".to_owned(),
        lease: Micros::from_secs(2),
        margin_ppm: 333_333,
        command_timeout: Micros::from_millis(300),
        ..lock
    };
    let topology =
        Topology { zookeeper: 3, tick: Micros::from_millis(500), postgres: 1, ..topology };
    (Micros::from_secs(6), lock, topology, workload)
}

/// Whoever waits for the row of the stock waits with a connection of its pool.
pub(super) fn postgres_pool() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = postgres_single();
    let (stock, buyers, pool) = (StockPlace::SqlPooled, 8, 4);
    (duration, lock, topology, Workload { stock, buyers, pool, ..workload })
}

/// There is a session for each client and one more: nobody waits for one.
pub(super) fn postgres_pooler() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = postgres_single();
    let pooler = topology.apps + 1;
    (duration, lock, Topology { pooler, ..topology }, workload)
}

pub(super) fn redis_long_lease() -> (Micros, LockPlan, Topology, Workload) {
    let minutes = |minutes: u64| Micros::from_secs(60 * minutes);
    let (_, lock, topology, workload) = redis_single();
    let lock = LockPlan {
        lease: minutes(60),
        command_timeout: Micros::from_secs(2),
        retry: Micros::from_secs(10),
        own: OwnOptions { waiter_timeout: minutes(1), ..lock.own },
        ..lock
    };
    let topology = Topology { apps: 2, ..topology };
    // Every second section lasts around as long as the lease.
    let workload = Workload {
        think: minutes(5),
        work: minutes(10),
        slow_per_mille: 500,
        slow_work: minutes(55),
        patience: minutes(120),
        ..workload
    };
    (minutes(240), lock, topology, workload)
}

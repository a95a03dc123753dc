//! The named starting points, and the locks that can be put through them.
//!
//! A scenario is a plan without faults; [`draw`](super::draw) adds what goes wrong.

mod planted;

pub use planted::PLANTED;

use super::complaint::Complaint;
use super::{Fence, LockPlan, Micros, Plan, PlanError, Seed, Topology, Workload};

/// A named starting point.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name after `--scenario`.
    pub name: &'static str,
    /// One line about it.
    pub english: &'static str,
    /// The same in Chinese.
    pub chinese: &'static str,
    /// Its clients, servers and times; the name, the lock and the seed are filled in.
    base: fn() -> (Micros, LockPlan, Topology, Workload),
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redis-single",
        english: "one Redis server, no failover: crashes, pauses and cuts around one lock",
        chinese: "单台 Redis，无故障转移：崩溃、停顿与断网中的一把锁",
        base: redis_single,
    },
    Scenario {
        name: "redis-failover",
        english: "a Redis master with two replicas and a failover controller, asynchronous replication",
        chinese: "一主两从加故障转移控制器，异步复制",
        base: redis_failover,
    },
    Scenario {
        name: "redis-long-lease",
        english: "one Redis server and leases of an hour: clocks that run apart begin to matter",
        chinese: "单台 Redis，租约长达一小时：时钟快慢开始起作用",
        base: redis_long_lease,
    },
];

/// A lock that can be put through a storm.
#[derive(Clone, Copy, Debug)]
pub struct LockKind {
    /// Its name after `--lock`.
    pub name: &'static str,
    /// One line about it.
    pub english: &'static str,
    /// The same in Chinese.
    pub chinese: &'static str,
    /// Whether its grants carry fencing tokens.
    pub tokens: bool,
    /// Whether it keeps a record at a server: only then is an acquire `applied`.
    pub records: bool,
}

/// All locks.
pub const LOCKS: &[LockKind] = &[
    LockKind {
        name: "none",
        english: "no lock at all: every buyer walks in (a canary that must fail)",
        chinese: "没有锁：人人直接进入（必须失败的对照）",
        tokens: false,
        records: false,
    },
    LockKind {
        name: "redis",
        english: "SET NX PX with a random owner, compare-and-delete release, INCR token",
        chinese: "SET NX PX 加随机持有者，比较后删除，INCR 令牌",
        tokens: true,
        records: true,
    },
];

/// The lock of a plan that names none.
pub const DEFAULT_LOCK: &str = "redis";

/// The scenario of this name.
///
/// # Errors
/// A complaint with the known names.
pub fn find(name: &str) -> Result<&'static Scenario, Complaint> {
    SCENARIOS.iter().find(|known| known.name == name).ok_or_else(|| {
        Complaint::unknown("scenario", name, SCENARIOS.iter().map(|known| known.name))
    })
}

/// The lock of this name.
///
/// # Errors
/// A complaint with the known names.
pub fn find_lock(name: &str) -> Result<&'static LockKind, Complaint> {
    // A planted bug is known by its name and listed only to whoever names one.
    let known = if name.contains('/') { PLANTED } else { LOCKS };
    known
        .iter()
        .find(|known| known.name == name)
        .ok_or_else(|| Complaint::unknown("lock", name, known.iter().map(|known| known.name)))
}

/// The scenario's plan for this lock: seed 0, nothing goes wrong.
///
/// # Errors
/// At the place `--scenario`, `--lock` or `--fence`: unknown names; a fence for a lock
/// without tokens.
pub fn default_plan(scenario: &str, lock: &str, fence: Fence) -> Result<Plan, PlanError> {
    let scenario = find(scenario).map_err(|complaint| PlanError::named("--scenario", complaint))?;
    let lock = find_lock(lock).map_err(|complaint| PlanError::named("--lock", complaint))?;
    let plan = scenario.plan(lock, fence);
    super::rules::first_problem(&plan)
        .map_err(|problem| PlanError::named("--fence", problem.complaint))?;
    Ok(plan)
}

impl Scenario {
    /// The plan of this scenario for a lock, unchecked.
    pub(super) fn plan(&self, lock: &LockKind, fence: Fence) -> Plan {
        let (duration, mut lock_plan, topology, workload) = (self.base)();
        lock_plan.name = lock.name.to_owned();
        Plan {
            scenario: self.name.to_owned(),
            seed: Seed(0),
            duration,
            fence,
            lock: lock_plan,
            topology,
            workload,
            clocks: Vec::new(),
            faults: Vec::new(),
        }
    }
}

fn redis_failover() -> (Micros, LockPlan, Topology, Workload) {
    let lock = LockPlan {
        name: String::new(),
        lease: Micros::from_secs(5),
        margin_ppm: 10_000,
        command_timeout: Micros::from_millis(500),
        retry: Micros::from_millis(40),
    };
    let topology = Topology {
        redis: 3,
        sentinel: true,
        apps: 3,
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
    };
    (Micros::from_secs(10), lock, topology, workload)
}

fn redis_single() -> (Micros, LockPlan, Topology, Workload) {
    let (duration, lock, topology, workload) = redis_failover();
    (duration, lock, Topology { redis: 1, sentinel: false, ..topology }, workload)
}

fn redis_long_lease() -> (Micros, LockPlan, Topology, Workload) {
    let minutes = |minutes: u64| Micros::from_secs(60 * minutes);
    let lock = LockPlan {
        name: String::new(),
        lease: minutes(60),
        margin_ppm: 10_000,
        command_timeout: Micros::from_secs(2),
        retry: Micros::from_secs(10),
    };
    let topology = Topology {
        redis: 1,
        sentinel: false,
        apps: 2,
        latency: Micros(500),
        latency_sigma_milli: 400,
        down_after: Micros::from_secs(1),
    };
    // Every second section lasts around as long as the lease.
    let workload = Workload {
        units: 400,
        think: minutes(5),
        work: minutes(10),
        slow_per_mille: 500,
        slow_work: minutes(55),
        patience: minutes(120),
        deadline_check: true,
    };
    (minutes(240), lock, topology, workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_possible_with_every_lock() {
        for scenario in SCENARIOS {
            for lock in LOCKS {
                for fence in Fence::ALL {
                    let made = default_plan(scenario.name, lock.name, fence);
                    assert_eq!(made.is_ok(), lock.tokens || fence == Fence::Off, "{made:?}");
                }
            }
        }
    }

    #[test]
    fn unknown_names_are_guessed() {
        let error =
            |scenario, lock, fence| default_plan(scenario, lock, fence).unwrap_err().to_string();
        let errors = [
            error("redis-failovr", "redis", Fence::Off),
            error("redis-failover", "rediss", Fence::Off),
            error("redis-failover", "none", Fence::Full),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }
}

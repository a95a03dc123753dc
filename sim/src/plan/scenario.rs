//! The named starting points, and the locks that can be put through them.
//!
//! A scenario is a plan without faults; [`draw`](super::draw) adds what goes wrong.

mod bases;
mod misfit;
mod planted;

pub(crate) use bases::sale;
use bases::{
    postgres_failover, postgres_pool, postgres_pooler, postgres_single, redis_failover,
    redis_long_lease, redis_single, redlock_five, zookeeper_single, zookeeper_three,
};
pub use planted::PLANTED;

use super::complaint::Complaint;
use super::{
    CONNECTIONS, Fence, LockPlan, Micros, Plan, PlanError, Seed, StockPlace, Topology, Workload,
};

/// A named starting point.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name after `--scenario`.
    pub name: &'static str,
    /// One line about it.
    pub english: &'static str,
    /// The same in Chinese.
    pub chinese: &'static str,
    /// The lock of a plan that names none.
    pub lock: &'static str,
    /// Its clients, servers and times; the name, the lock and the seed are filled in.
    base: fn() -> (Micros, LockPlan, Topology, Workload),
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redis-single",
        english: "one Redis server, no failover: crashes, pauses and cuts around one lock",
        chinese: "单台 Redis，无故障转移：崩溃、停顿与断网中的一把锁",
        lock: "redis",
        base: redis_single,
    },
    Scenario {
        name: "redis-failover",
        english: "a Redis master with two replicas and three sentinels, asynchronous replication",
        chinese: "一主两从加三个哨兵，异步复制",
        lock: "redis",
        base: redis_failover,
    },
    Scenario {
        name: "redis-long-lease",
        english: "one Redis server and leases of an hour: clocks that run apart begin to matter",
        chinese: "单台 Redis，租约长达一小时：时钟快慢开始起作用",
        lock: "redis",
        base: redis_long_lease,
    },
    Scenario {
        name: "redlock-five",
        english: "five Redis servers that know nothing of each other: a majority holds the lock",
        chinese: "五台互不相识的 Redis：多数派持有锁",
        lock: "redlock",
        base: redlock_five,
    },
    Scenario {
        name: "zookeeper-three",
        english: "three ZooKeeper servers, ticks of half a second, sessions of two seconds",
        chinese: "三台 ZooKeeper，心跳周期半秒，会话超时两秒",
        lock: "zookeeper",
        base: zookeeper_three,
    },
    Scenario {
        name: "zookeeper-single",
        english: "one ZooKeeper server: sessions and their ends, restarts from its disk",
        chinese: "单台 ZooKeeper：会话及其终结、从磁盘重启",
        lock: "zookeeper",
        base: zookeeper_single,
    },
    Scenario {
        name: "postgres-single",
        english: "one PostgreSQL server: transactions and sessions that hold locks, and their ends",
        chinese: "单台 PostgreSQL：持有锁的事务与会话及其终结",
        lock: "pg-for-update",
        base: postgres_single,
    },
    Scenario {
        name: "postgres-failover",
        english: "a PostgreSQL primary with a standby that follows asynchronously and can be promoted",
        chinese: "PostgreSQL 一主一备，异步复制，备库可被提升",
        lock: "pg-for-update",
        base: postgres_failover,
    },
    Scenario {
        name: "postgres-pool",
        english: "one PostgreSQL server, and pools of few connections that many buyers share",
        chinese: "单台 PostgreSQL，许多买家共用连接数很少的连接池",
        lock: "none",
        base: postgres_pool,
    },
    Scenario {
        name: "postgres-pooler",
        english: "a PostgreSQL server behind a pooler in transaction mode: clients share sessions",
        chinese: "PostgreSQL 前置事务模式的连接池（如 PgBouncer），客户端共用会话",
        lock: "pg-advisory",
        base: postgres_pooler,
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
    /// Which servers it needs.
    pub needs: Needs,
    /// Whether it is a planted bug or the mended twin of one.
    pub planted: bool,
}

/// Which servers a lock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// None.
    Nothing,
    /// A master, with replicas or without.
    Master,
    /// A master with replicas.
    Replicas,
    /// A master that sentinels name.
    Sentinel,
    /// Masters that know nothing of each other.
    Independent,
    /// ZooKeeper servers, one or more.
    Ensemble,
    /// A PostgreSQL server.
    Database,
    /// A PostgreSQL server with the stock, and a master of Redis: a sale that is planted, and
    /// its lock is there.
    SaleUnderMaster,
}

/// The lock that some of the clients take as readers, beside others that write.
pub const READ_LOCK: &str = "zookeeper-read";

/// A lock that a test brings itself: no program can build it, so it is in no list.
pub const OWN_LOCK: LockKind = LockKind {
    name: "own",
    english: "a test's own lock, built by that test",
    chinese: "测试自带的锁，由测试代码构建",
    tokens: true,
    records: true,
    needs: Needs::Nothing,
    planted: false,
};

/// All locks.
pub const LOCKS: &[LockKind] = &[
    LockKind {
        name: "none",
        english: "no lock at all: every buyer walks in (a canary that must fail, but over pools)",
        chinese: "没有锁：人人直接进入（必须失败的对照，连接池场景除外）",
        tokens: false,
        records: false,
        needs: Needs::Nothing,
        planted: false,
    },
    LockKind {
        name: "redis",
        english: "SET NX PX with a random owner, compare-and-delete release, INCR token",
        chinese: "SET NX PX 加随机持有者，比较后删除，INCR 令牌",
        tokens: true,
        records: true,
        needs: Needs::Master,
        planted: false,
    },
    LockKind {
        name: "redis-watchdog",
        english: "the lock redis, renewed after each third of its lease while its holder lives",
        chinese: "redis 锁加看门狗：持有者存活期间，每过三分之一租约续期一次",
        tokens: true,
        records: true,
        needs: Needs::Master,
        planted: false,
    },
    LockKind {
        name: "redis-wait",
        english: "the lock redis, granted only when replicas have acknowledged it (WAIT)",
        chinese: "redis 锁加 WAIT：副本确认后才算加锁成功",
        tokens: true,
        records: true,
        needs: Needs::Replicas,
        planted: false,
    },
    LockKind {
        name: "redis-sentinel",
        english: "the lock redis, granted only if sentinels still name its master afterwards",
        chinese: "redis 锁加哨兵：加锁后再次确认主库未变才算成功",
        tokens: true,
        records: true,
        needs: Needs::Sentinel,
        planted: false,
    },
    LockKind {
        name: "redis-reentrant",
        english: "a hash of owner and count: its owner may come in again; waiters are woken",
        chinese: "可重入锁：哈希记录持有者与次数，释放时发布消息唤醒等待者",
        tokens: true,
        records: true,
        needs: Needs::Master,
        planted: false,
    },
    LockKind {
        name: "redis-fair",
        english: "granted in order of arrival; waiters that fall silent are dropped",
        chinese: "公平锁：按到达顺序授予，失联的等待者会被剔除",
        tokens: true,
        records: true,
        needs: Needs::Master,
        planted: false,
    },
    LockKind {
        name: "redlock",
        english: "a record at each of several independent servers, held by a majority; no tokens",
        chinese: "红锁：在多台独立服务器上加锁，过半数成功才持有；没有令牌",
        tokens: false,
        records: true,
        needs: Needs::Independent,
        planted: false,
    },
    LockKind {
        name: "zookeeper",
        english: "an ephemeral sequential node each; the first in line holds, tokens are zxids",
        chinese: "临时顺序节点：排在最前者持有锁，令牌是创建时的 zxid",
        tokens: true,
        records: true,
        needs: Needs::Ensemble,
        planted: false,
    },
    LockKind {
        name: "zookeeper-reentrant",
        english: "the lock zookeeper; its owner may come in again on the same node",
        chinese: "zookeeper 可重入锁：持有者凭同一节点再次进入",
        tokens: true,
        records: true,
        needs: Needs::Ensemble,
        planted: false,
    },
    LockKind {
        name: READ_LOCK,
        english: "the readers' side of a read/write lock: the last clients read, the others write",
        chinese: "读写锁的读锁：靠后的客户端只读，其余的写",
        tokens: true,
        records: true,
        needs: Needs::Ensemble,
        planted: false,
    },
    LockKind {
        name: "zookeeper-write",
        english: "the writers' side of a read/write lock: alone, in order of arrival with readers",
        chinese: "读写锁的写锁：独占，与读者一起按到达顺序排队",
        tokens: true,
        records: true,
        needs: Needs::Ensemble,
        planted: false,
    },
    LockKind {
        name: "zookeeper-election",
        english: "leader election: the first candidate in line leads, its epoch is its token",
        chinese: "主节点选举：排在最前的候选者当选，任期号即令牌",
        tokens: true,
        records: true,
        needs: Needs::Ensemble,
        planted: false,
    },
    LockKind {
        name: "pg-for-update",
        english: "a transaction that has locked the key's row, SELECT FOR UPDATE; waiters queue",
        chinese: "事务锁住该键的行（SELECT FOR UPDATE），等待者在服务端排队",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-nowait",
        english: "the lock pg-for-update, asked for with NOWAIT and asked for again",
        chinese: "pg-for-update 加 NOWAIT：拿不到就稍后再试",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-optimistic",
        english: "no lock: the stock's version is compared as a unit is taken, in SQL",
        chinese: "不加锁：在 SQL 中扣减时比较版本号（乐观锁）",
        tokens: false,
        records: false,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-conditional",
        english: "no lock: one UPDATE that takes a unit only where one is left",
        chinese: "不加锁：一条带条件的 UPDATE，有库存才扣减",
        tokens: false,
        records: false,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-lock-table",
        english: "a row in a table with a unique key: who holds the lock, and until when",
        chinese: "锁表：唯一键的一行，写明持有者与到期时间",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-lock-table-reentrant",
        english: "the lock pg-lock-table with a count: its owner may come in again",
        chinese: "可重入的 pg-lock-table：行里记录次数",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-advisory",
        english: "the server's own lock on a number, held by a session",
        chinese: "PostgreSQL 咨询锁，由会话持有",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
    LockKind {
        name: "pg-advisory-xact",
        english: "the server's own lock on a number, held by a transaction",
        chinese: "PostgreSQL 咨询锁，由事务持有",
        tokens: true,
        records: true,
        needs: Needs::Database,
        planted: false,
    },
];

/// The lock of a plan of this scenario that names none; of a scenario that is not there,
/// `redis`.
pub fn default_lock(scenario: &str) -> &'static str {
    let known = SCENARIOS.iter().find(|known| known.name == scenario);
    known.map_or("redis", |known| known.lock)
}

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
    if name == OWN_LOCK.name {
        return Ok(&OWN_LOCK);
    }
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
    super::rules::first_problem(&plan).map_err(|problem| {
        // Scenarios are possible; what is not, is one of these with the lock.
        let flag = match problem.at.first().map(String::as_str) {
            Some("fence") => "--fence",
            _ => "--lock",
        };
        PlanError::named(flag, problem.complaint)
    })?;
    Ok(plan)
}

impl LockKind {
    /// Whether it is no lock but a way to sell out of the stock in SQL.
    pub fn is_way_to_sell(&self) -> bool {
        self.needs == Needs::Database && !self.records
    }

    /// Whether it has a sale of its own, out of the stock in SQL and under a lock or without.
    pub fn has_sale(&self) -> bool {
        self.is_way_to_sell() || self.needs == Needs::SaleUnderMaster
    }

    /// Whether its sale is one that is planted: what an order is of is its own, too.
    pub fn has_planted_sale(&self) -> bool {
        self.has_sale() && self.planted
    }

    /// Whether some of its clients only read: it is the readers' side of a read/write lock.
    pub fn has_readers(&self) -> bool {
        self.name == READ_LOCK
    }
}

impl Scenario {
    /// How many connections a client's pool has.
    pub(super) fn pool(&self) -> u16 {
        let (_, _, _, workload) = (self.base)();
        workload.pool
    }

    /// The plan of this scenario for a lock, unchecked.
    pub(super) fn plan(&self, lock: &LockKind, fence: Fence) -> Plan {
        let (duration, mut lock_plan, mut topology, mut workload) = (self.base)();
        if lock.has_sale() {
            workload.stock = StockPlace::Sql;
        }
        if lock.needs == Needs::SaleUnderMaster {
            topology.redis = topology.redis.max(1);
        }
        if workload.stock != StockPlace::SqlPooled {
            workload.pool = CONNECTIONS;
        }
        lock_plan.name = lock.name.to_owned();
        lock_plan.own = lock_plan.own.only_of(lock.name);
        if lock.has_readers() {
            // Somebody must write, or there is nothing to keep readers out of.
            workload.readers = topology.apps.saturating_sub(1);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_possible_with_every_lock_that_fits() {
        for scenario in SCENARIOS {
            for lock in LOCKS {
                for fence in Fence::ALL {
                    let made = default_plan(scenario.name, lock.name, fence);
                    let (_, _, topology, workload) = (scenario.base)();
                    let fits = lock.misfit(&topology).is_none();
                    let has_fence = workload.stock == StockPlace::Memory;
                    let fenced = (lock.tokens && has_fence) || fence == Fence::Off;
                    assert_eq!(made.is_ok(), fits && fenced, "{made:?}");
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
            error("redis-failover", "redlock", Fence::Off),
            error("redlock-five", "redis-watchdog", Fence::Off),
            error("redis-single", "redis-wait", Fence::Off),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }
}

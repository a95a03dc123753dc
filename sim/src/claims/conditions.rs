//! Storms that several arms share. Sections are short where nothing else is said, so that each
//! run has many.

use super::Storm;
use crate::plan::Fence;

/// A storm without a fence.
const fn storm(
    scenario: &'static str,
    lock: &'static str,
    settings: &'static [(&'static str, &'static str)],
    faults: &'static str,
) -> Storm {
    Storm { scenario, lock, fence: Fence::Off, settings, faults }
}

impl Storm {
    /// The same with another lock.
    pub(super) const fn with(self, lock: &'static str) -> Storm {
        Storm { lock, ..self }
    }

    /// The same with a full fence.
    pub(super) const fn fenced(self) -> Storm {
        Storm { fence: Fence::Full, ..self }
    }

    /// The same with these faults.
    pub(super) const fn struck(self, faults: &'static str) -> Storm {
        Storm { faults, ..self }
    }

    /// The same at a primary with a standby, with these settings and faults.
    pub(super) const fn in_pair(
        self,
        faults: &'static str,
        settings: &'static [(&'static str, &'static str)],
    ) -> Storm {
        Storm { scenario: "postgres-failover", settings, faults, ..self }
    }

    /// The same with these settings in place of its own.
    pub(super) const fn set(self, settings: &'static [(&'static str, &'static str)]) -> Storm {
        Storm { settings, ..self }
    }
}

/// No slow sections.
pub(super) const SHORT: &[(&str, &str)] = &[("workload.slow-per-mille", "0")];
/// Clients that do not look at their deadline; no slow sections.
const CARELESS: &[(&str, &str)] =
    &[("workload.slow-per-mille", "0"), ("workload.deadline-check", "false")];
/// Few units, and no slow sections: the sale sells out.
pub(super) const SCARCE: &[(&str, &str)] =
    &[("workload.units", "20"), ("workload.slow-per-mille", "0")];

/// The holder stands still for six seconds, which is longer than any lease here.
pub(super) const PAUSE: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "6s"
"#;

/// The holder's process dies for good in its section.
pub(super) const HOLDER_DIES: &str = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 3 returned"
"#;

/// The work of a holder hangs, and its other tasks go on.
pub(super) const HOLDER_HANGS: &str = r#"
[[fault]]
kind = "hang"
node = "app-1"
after = "app-1 read 3 applied"
for = "6s"
"#;

/// Replication stands still from a grant on, then the master's machine dies.
pub(super) const LAGGING_FAILOVER: &str = r#"
[[fault]]
kind = "replication-stall"
node = "redis-1"
after = "app-1 acquire 2 applied"
for = "15s"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 2 applied"
delay = "150ms"
"#;

/// The standby is promoted while the old primary still serves some clients.
pub(super) const OLD_PRIMARY: &str = r#"
[[fault]]
kind = "partition"
from = ["pg-1", "app-1"]
to = ["pg-2", "app-2", "app-3"]
after = "app-1 acquire 3 returned"
for = "6s"

[[fault]]
kind = "promote"
node = "pg-2"
after = "app-1 acquire 3 returned"
delay = "200ms"
"#;

/// The primary dies behind a cut, and its standby is promoted.
pub(super) const LOST_PRIMARY: &str = r#"
[[fault]]
kind = "partition"
from = ["pg-1"]
to = ["pg-2"]
after = "app-1 acquire 3 returned"
for = "5s"

[[fault]]
kind = "machine-crash"
node = "pg-1"
after = "app-1 acquire 6 returned"

[[fault]]
kind = "promote"
node = "pg-2"
after = "app-1 acquire 6 returned"
delay = "500ms"
"#;

/// The database's machine restarts.
pub(super) const DATABASE_RESTARTS: &str = r#"
[[fault]]
kind = "machine-crash"
node = "pg-1"
at = "500ms"
for = "500ms"
"#;

/// The database's machine is away for eight seconds.
pub(super) const DATABASE_AWAY: &str = r#"
[[fault]]
kind = "machine-crash"
node = "pg-1"
after = "app-1 acquire 3 returned"
for = "8s"
"#;

/// The primary's machine dies for good, and its standby is promoted soon after.
pub(super) const STANDBY_TAKES_OVER: &str = r#"
[[fault]]
kind = "machine-crash"
node = "pg-1"
after = "app-1 acquire 3 returned"

[[fault]]
kind = "promote"
node = "pg-2"
after = "app-1 acquire 3 returned"
delay = "500ms"
"#;

/// The server's power is cut while somebody is inside; it comes back empty.
pub(super) const EMPTY_RESTART: &str = r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 2 returned"
for = "100ms"
"#;

/// The leader of three ZooKeeper servers dies and comes back.
pub(super) const LEADER_DIES: &str = r#"
[[fault]]
kind = "machine-crash"
node = "zk-3"
after = "app-1 acquire 3 returned"
for = "4s"
"#;

/// The leader of three ZooKeeper servers is away for eight seconds.
pub(super) const LEADER_AWAY: &str = r#"
[[fault]]
kind = "machine-crash"
node = "zk-3"
after = "app-1 acquire 3 returned"
for = "8s"
"#;

/// No slow sections, and a storm of twenty seconds.
pub(super) const LONGER: &[(&str, &str)] = &[("workload.slow-per-mille", "0"), ("duration", "20s")];

/// Nobody locks: Redis stands by unasked.
pub(super) const NO_LOCK: Storm = storm("redis-single", "none", SCARCE, "");
/// Read and written in SQL, with no lock and no condition.
pub(super) const NAIVE_SQL: Storm = storm(
    "postgres-single",
    "none",
    &[("workload.units", "20"), ("workload.slow-per-mille", "0"), ("workload.stock", "sql")],
    "",
);
/// The pessimistic sale: the row is locked in the transaction that sells.
pub(super) const PESSIMISTIC: Storm = storm(
    "postgres-single",
    "none",
    &[
        ("workload.units", "20"),
        ("workload.slow-per-mille", "0"),
        ("workload.stock", "sql-for-update"),
    ],
    "",
);
/// The optimistic sale, and nothing asked for but the version.
pub(super) const OPTIMISTIC_VERBATIM: Storm = storm(
    "postgres-single",
    "pg-optimistic",
    &[("workload.units", "20"), ("workload.slow-per-mille", "0"), ("lock.check", "nothing")],
    "",
);
/// The optimistic sale, with what was read looked at.
pub(super) const OPTIMISTIC_CHECKED: Storm = storm(
    "postgres-single",
    "pg-optimistic",
    &[("workload.units", "20"), ("workload.slow-per-mille", "0"), ("lock.check", "statement")],
    "",
);
/// One statement with its condition.
pub(super) const CONDITIONAL: Storm = storm("postgres-single", "pg-conditional", SCARCE, "");

/// One Redis server, short sections.
pub(super) const REDIS: Storm = storm("redis-single", "redis", SHORT, "");
/// The same, with clients that do not look at their deadline.
pub(super) const REDIS_CARELESS: Storm = storm("redis-single", "redis", CARELESS, "");
/// A master with replicas, leases that outlive a failover, a section that does.
pub(super) const REDIS_FAILOVER: Storm = storm(
    "redis-failover",
    "redis",
    &[
        ("duration", "20s"),
        ("topology.apps", "2"),
        ("lock.lease", "8s"),
        ("workload.work", "4500ms"),
        ("workload.slow-per-mille", "0"),
        ("workload.patience", "18s"),
    ],
    "",
);
/// Work of twice the lease.
pub(super) const LONG_WORK: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "2s"),
    ("workload.slow-per-mille", "300"),
    ("workload.deadline-check", "false"),
];
/// Sections that often last longer than the lease.
pub(super) const REDIS_LONG_WORK: Storm = storm("redis-single", "redis", LONG_WORK, "");
/// Five independent servers.
pub(super) const REDLOCK: Storm = storm("redlock-five", "redlock", SHORT, "");
/// The same, with clients that do not look at their deadline.
pub(super) const REDLOCK_CARELESS: Storm = storm("redlock-five", "redlock", CARELESS, "");

/// One PostgreSQL server, short sections.
pub(super) const POSTGRES: Storm = storm("postgres-single", "pg-for-update", SHORT, "");
/// A primary and its standby.
pub(super) const POSTGRES_PAIR: Storm = storm(
    "postgres-failover",
    "pg-for-update",
    &[("workload.slow-per-mille", "0"), ("workload.patience", "1s")],
    "",
);
/// The lock table without an expiry.
pub(super) const NO_EXPIRY: Storm = storm(
    "postgres-single",
    "pg-lock-table",
    &[("workload.slow-per-mille", "0"), ("lock.expiry", "never")],
    "",
);

/// Three ZooKeeper servers, short sections.
pub(super) const ZOOKEEPER: Storm = storm("zookeeper-three", "zookeeper", SHORT, "");
/// The same, with clients that do not look at their deadline.
pub(super) const ZOOKEEPER_CARELESS: Storm = storm("zookeeper-three", "zookeeper", CARELESS, "");

/// Pools of connections that many buyers share; the row is locked in the transaction that sells.
pub(super) const POOL: Storm = storm("postgres-pool", "none", SHORT, "");

/// One of five servers dies for good.
pub(super) const ONE_OF_FIVE: &str = r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 3 applied"
"#;

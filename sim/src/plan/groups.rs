//! The task groups of each sort of node: what a pause can strike alone.
//!
//! A group is the name that a program gives a task when it spawns it
//! ([`Host::spawn`](lockstorm::Host::spawn)); the program itself is `main`. A client's own
//! work is its `main`.

/// The group in which a node's program itself runs, and on a client all its own work.
pub const MAIN: &str = "main";

/// Of nodes whose names begin so: their groups.
const GROUPS: [(&str, &[&str]); 7] = [
    ("redis-", &[MAIN, "redis-connection", "redis-replication", "redis-replica"]),
    ("sentinel-", &[MAIN, "sentinel-link", "sentinel-client"]),
    (
        "zk-",
        &[
            MAIN,
            "zookeeper-connection",
            "zookeeper-containers",
            "zookeeper-election",
            "zookeeper-follower",
            "zookeeper-learner",
            "zookeeper-log",
            "zookeeper-sessions",
            "zookeeper-snapshot",
        ],
    ),
    ("pg-", &[MAIN, "postgres-backend", "postgres-migration", "postgres-walreceiver"]),
    ("pooler-", &[MAIN, "pooler-client", "pooler-server"]),
    ("stock-", &[MAIN, "stock-connection"]),
    // `asyncs` is what the ZooKeeper client runs in, `session` what looks after its session.
    ("app-", &[MAIN, "asyncs", "postgres-driver", "redis-driver", "release", "renewer", "session"]),
];

/// The groups of the node of this name; empty for a name of no sort of node.
pub fn of_node(node: &str) -> &'static [&'static str] {
    let found = GROUPS.iter().find(|(prefix, _)| node.starts_with(prefix));
    found.map_or(&[], |(_, groups)| groups)
}

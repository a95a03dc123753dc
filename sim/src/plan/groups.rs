//! The sorts of nodes: how their names begin, and the task groups that a pause can strike alone.
//!
//! A group is the name that a program gives a task when it spawns it
//! ([`Host::spawn`](lockstorm::Host::spawn)); the program itself is `main`. A client's own
//! work is its `main`.

/// The group in which a node's program itself runs, and on a client all its own work.
pub const MAIN: &str = "main";

/// A sort of node.
#[derive(Debug)]
pub struct Sort {
    /// How the names of its nodes begin.
    pub prefix: &'static str,
    /// Whether it is a server with something to keep: clients, poolers and the stock that is no
    /// database have nothing on a disk.
    pub keeps: bool,
    /// Its task groups.
    pub groups: &'static [&'static str],
}

/// All of them: clients first, the resource last, as they stand side by side in a report.
pub const SORTS: [Sort; 7] = [
    Sort {
        prefix: "app-",
        keeps: false,
        // `asyncs` is what the ZooKeeper client runs in, `session` what looks after its session.
        groups: &[
            MAIN,
            "asyncs",
            "postgres-driver",
            "redis-driver",
            "release",
            "renewer",
            "session",
        ],
    },
    Sort {
        prefix: "redis-",
        keeps: true,
        groups: &[MAIN, "redis-connection", "redis-replication", "redis-replica"],
    },
    Sort {
        prefix: "zk-",
        keeps: true,
        groups: &[
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
    },
    Sort {
        prefix: "pg-",
        keeps: true,
        groups: &[MAIN, "postgres-backend", "postgres-migration", "postgres-walreceiver"],
    },
    Sort { prefix: "pooler-", keeps: false, groups: &[MAIN, "pooler-client", "pooler-server"] },
    Sort { prefix: "sentinel-", keeps: true, groups: &[MAIN, "sentinel-link", "sentinel-client"] },
    Sort { prefix: "stock-", keeps: false, groups: &[MAIN, "stock-connection"] },
];

/// The sort of the node of this name, with its place among them; `None` of what is no node.
pub fn sort_of(node: &str) -> Option<(usize, &'static Sort)> {
    SORTS.iter().enumerate().find(|(_, sort)| node.starts_with(sort.prefix))
}

/// The groups of the node of this name; empty for a name of no sort of node.
pub fn of_node(node: &str) -> &'static [&'static str] {
    sort_of(node).map_or(&[], |(_, sort)| sort.groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Fence;
    use crate::plan::scenario::{self, SCENARIOS};

    #[test]
    fn every_node_of_every_scenario_is_of_a_sort() {
        let mut seen = std::collections::BTreeSet::new();
        for known in SCENARIOS {
            let lock = scenario::default_lock(known.name);
            let plan = scenario::default_plan(known.name, lock, Fence::Off).unwrap();
            for node in plan.topology.nodes() {
                let (place, _) = sort_of(&node).unwrap_or_else(|| panic!("{node}"));
                seen.insert(place);
            }
        }
        assert!(seen.len() >= 6, "{seen:?}");
    }
}

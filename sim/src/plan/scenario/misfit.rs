//! Why a lock cannot be put through a storm of some servers.

use super::{LockKind, Needs};
use crate::plan::Topology;
use crate::plan::complaint::{Complaint, quoted};

impl LockKind {
    /// What is wrong with this topology for this lock: the settings at fault, and the
    /// complaint.
    pub(in crate::plan) fn misfit(
        &self,
        topology: &Topology,
    ) -> Option<(&'static [&'static str], Complaint)> {
        let name = quoted(self.name);
        let servers = topology.redis;
        match self.needs {
            Needs::Master
            | Needs::Replicas
            | Needs::Sentinel
            | Needs::Independent
            | Needs::SaleUnderMaster
                if servers == 0 =>
            {
                Some((
                    &["topology.redis", "lock.name"],
                    Complaint::new(
                        format!("the lock {name} needs a Redis server, and there is none"),
                        "take a scenario with Redis, such as redis-failover, or another lock",
                    ),
                ))
            }
            Needs::Ensemble if topology.zookeeper == 0 => Some((
                &["topology.zookeeper", "lock.name"],
                Complaint::new(
                    format!("the lock {name} needs ZooKeeper, and there is none"),
                    "take the scenario zookeeper-three, or zookeeper = 3",
                ),
            )),
            Needs::Database | Needs::SaleUnderMaster if topology.postgres == 0 => Some((
                &["topology.postgres", "lock.name"],
                Complaint::new(
                    format!("the lock {name} needs PostgreSQL, and there is none"),
                    "take the scenario postgres-single, or postgres = 1",
                ),
            )),
            Needs::Master | Needs::Replicas | Needs::Sentinel | Needs::SaleUnderMaster
                if topology.independent =>
            {
                Some((
                    &["topology.redis-mode", "lock.name"],
                    Complaint::new(
                        format!("the lock {name} needs one master, and there are {servers}"),
                        "take the lock \"redlock\", or redis-mode = \"replicated\"",
                    ),
                ))
            }
            Needs::Replicas if topology.replicas() == 0 => Some((
                &["topology.redis", "lock.name"],
                Complaint::new(
                    format!("the lock {name} waits for replicas, and there are none"),
                    "take the scenario redis-failover, or redis = 2 or more",
                ),
            )),
            Needs::Sentinel if topology.sentinels == 0 => Some((
                &["topology.sentinels", "lock.name"],
                Complaint::new(
                    format!("the lock {name} asks sentinels, and there are none"),
                    "take the scenario redis-failover, or sentinels = 3",
                ),
            )),
            Needs::Independent if !topology.independent => Some((
                &["topology.redis-mode", "lock.name"],
                Complaint::new(
                    format!("the lock {name} needs servers that are nobody's replicas"),
                    "take the scenario redlock-five, or redis-mode = \"independent\"",
                ),
            )),
            _ => None,
        }
    }
}

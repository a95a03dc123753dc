//! How much of each a plan may have: what the rules hold it to, and what a number is told to be
//! beyond that is too large even to be read.

/// Of the settings that are counted, the most.
pub(super) const MOST: [(&str, u32); 12] = [
    ("topology.redis", 16),
    ("topology.zookeeper", 9),
    ("topology.postgres", 9),
    ("topology.sentinels", 9),
    ("topology.apps", 200),
    ("workload.units", 1_000_000),
    ("workload.locks", 2),
    ("workload.buyers", 200),
    ("workload.pool", 100),
    ("topology.max-connections", 5_000),
    ("topology.pooler", 200),
    ("workload.slow-per-mille", 1_000),
];

/// The widest spread of the latency.
pub(super) const LATENCY_SIGMA_MILLI: u32 = 3_000;

/// The most of the setting of this name; `None` where the other settings decide.
pub(super) fn most(path: &str) -> Option<u32> {
    MOST.iter().find(|(name, _)| *name == path).map(|(_, most)| *most)
}

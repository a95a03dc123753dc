//! Loads that several arms share: how many clients, how fast, at what.

use super::conditions::REDIS;
use super::{Arm, Measure, Prediction, arm};

/// Two locks for one sale, every second client takes them in the other order, and nobody gives
/// up.
pub(super) const OPPOSITE_ORDER: &[(&str, &str)] = &[
    ("workload.locks", "2"),
    ("workload.patience", "1m"),
    ("workload.slow-per-mille", "0"),
    ("topology.apps", "2"),
];
/// Two skus in one order, in either order.
pub(super) const TWO_SKUS: &[(&str, &str)] = &[
    ("workload.locks", "2"),
    ("workload.units", "400"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
];
/// The same, with the row locked first.
pub(super) const TWO_SKUS_LOCKED: &[(&str, &str)] = &[
    ("workload.locks", "2"),
    ("workload.units", "400"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.stock", "sql-for-update"),
];

/// Two clients that seldom meet: what an acquire takes that nobody is in the way of.
pub(super) const CALM_PAIR: &[(&str, &str)] = &[
    ("topology.apps", "2"),
    ("workload.think", "200ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("duration", "5s"),
];
/// Sixteen clients at one sku, each as fast as it can.
pub(super) const CROWD: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "1ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];
/// The same crowd at a stock in SQL under the lock's rows.
pub(super) const CROWD_LOCKED: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "1ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("workload.stock", "sql-for-update"),
    ("duration", "2s"),
];
/// Three clients that seldom meet, at rows that are locked first.
pub(super) const FEW_LOCKED: &[(&str, &str)] = &[
    ("topology.apps", "3"),
    ("workload.think", "200ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("workload.stock", "sql-for-update"),
];
/// Eight clients, so that somebody always waits.
pub(super) const QUEUE: &[(&str, &str)] = &[
    ("topology.apps", "8"),
    ("workload.think", "5ms"),
    ("workload.work", "10ms"),
    ("workload.slow-per-mille", "0"),
    ("duration", "5s"),
];
/// Each holder takes its lock a second time.
pub(super) const REENTERED: &[(&str, &str)] = &[
    ("workload.reentries", "1"),
    ("workload.patience", "200ms"),
    ("workload.slow-per-mille", "0"),
];

/// A hundred and twenty clients: more than a server with its default settings serves.
pub(super) const HUNDRED_AND_TWENTY: &[(&str, &str)] = &[
    ("topology.apps", "120"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// Forty-eight clients, each with a connection.
pub(super) const FORTY_EIGHT: &[(&str, &str)] = &[
    ("topology.apps", "48"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// Four clients.
pub(super) const FOUR: &[(&str, &str)] = &[
    ("topology.apps", "4"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// The optimistic sale of three, who hardly meet.
pub(super) const CALM: &[(&str, &str)] = &[
    ("topology.apps", "3"),
    ("workload.think", "200ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
];

/// The optimistic sale of a crowd.
pub(super) const FIERCE: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "1ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
    ("duration", "2s"),
];

/// Sixteen clients who ask some hundred times a second together.
pub(super) const MODERATE: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "50ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "3s"),
];

/// The same, and what was read is looked at.
pub(super) const MODERATE_CHECKED: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "50ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
    ("duration", "3s"),
];

/// Forty buyers on each of three nodes, who share four connections and lock one row.
pub(super) const POOLED_CROWD: &[(&str, &str)] = &[
    ("workload.buyers", "40"),
    ("workload.pool", "4"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.patience", "200ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "3s"),
];

/// Two buyers on each node, at the same pools.
pub(super) const POOLED_FEW: &[(&str, &str)] = &[
    ("workload.buyers", "2"),
    ("workload.pool", "4"),
    ("workload.think", "100ms"),
    ("workload.work", "1ms"),
    ("workload.patience", "200ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "3s"),
];

/// Forty buyers on each of three nodes, each with a connection: more than a server serves.
pub(super) const UNLIMITED_POOLS: &[(&str, &str)] = &[
    ("workload.buyers", "40"),
    ("workload.pool", "40"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "3s"),
];

/// The optimistic sale of four, each as fast as it can.
pub(super) const FOUR_CHECKED: &[(&str, &str)] = &[
    ("topology.apps", "4"),
    ("workload.think", "1ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
    ("duration", "2s"),
];

/// Sections of a second.
pub(super) const SECONDS: &[(&str, &str)] =
    &[("workload.work", "1s"), ("workload.slow-per-mille", "0")];

/// What speeds at one sku are compared with.
pub(super) const REDIS_AT_ONE_SKU: Arm = arm(
    "the lock redis (asks again every 40 ms), 16 clients at one sku",
    "redis 锁（每 40 毫秒再问一次），16 个客户端抢一个商品",
    REDIS.set(CROWD),
    Measure::SalesPerSecond,
    Prediction::Nothing,
);

/// The same, where the sentence says who and how many.
pub(super) const REDIS_CROWD: Arm = arm(
    "the lock redis (asks again every 40 ms)",
    "redis 锁（每 40 毫秒再问一次）",
    REDIS.set(CROWD),
    Measure::SalesPerSecond,
    Prediction::Nothing,
);

//! What the text says of overselling and of what a lock is for.

use super::conditions::{
    CONDITIONAL, EMPTY_RESTART, HOLDER_DIES, NAIVE_SQL, NO_EXPIRY, NO_LOCK, PAUSE, REDIS,
    REDIS_CARELESS, SCARCE,
};
use super::loads::REENTERED;
use super::measure::{OVERSELL, TWICE};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

/// Found at the books.
/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    tried(
        "s1",
        "瞬时高并发请求集中涌入，库存数量有限，多个请求同时读取库存并尝试扣减，极易出现超卖现象。",
        "A burst of requests meets a limited stock; several read it at the same time and deduct, which easily oversells.",
        Reading::Always,
        &[
            arm(
                "three clients, no lock",
                "三个客户端，没有锁",
                NO_LOCK,
                OVERSELL,
                Prediction::Sometimes,
            ),
            arm(
                "the same at rows in PostgreSQL: read, then write",
                "同样，库存在 PostgreSQL 的行里：先读后写",
                NAIVE_SQL,
                OVERSELL,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "s2",
        "超卖的本质是并发环境下的共享资源竞争问题",
        "Overselling is, at heart, contention for a shared resource: without concurrency there is none.",
        Reading::Always,
        &[
            arm(
                "three clients, no lock",
                "三个客户端，没有锁",
                NO_LOCK,
                OVERSELL,
                Prediction::Sometimes,
            ),
            arm(
                "the same three, one after another (the lock redis in calm weather)",
                "同样三个客户端，依次进行（redis 锁，无故障）",
                REDIS.set(SCARCE),
                OVERSELL,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "s3",
        "在缺乏有效互斥机制的情况下，各自基于旧值完成计算并写入，最终导致实际扣减量超过可用库存。",
        "Without effective mutual exclusion each computes from an old value and writes, and in the end more is deducted than there was.",
        Reading::Graded,
        &[
            arm(
                "no lock, read then write",
                "没有锁，先读后写",
                NAIVE_SQL,
                OVERSELL,
                Prediction::Sometimes,
            ),
            arm(
                "no lock, but one UPDATE with its condition",
                "没有锁，但扣减是一条带条件的 UPDATE",
                CONDITIONAL,
                OVERSELL,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "s4",
        "解决这一问题的核心手段是引入分布式锁。",
        "The means to solve this is a distributed lock.",
        Reading::Graded,
        &[
            arm(
                "the lock redis in calm weather",
                "redis 锁，无故障",
                REDIS,
                OVERSELL,
                Prediction::Never,
            ),
            arm(
                "the same, a holder pauses beyond its lease and does not look at the clock",
                "同样，持有者停顿超过租约且不看时钟",
                REDIS_CARELESS.struck(PAUSE),
                OVERSELL,
                Prediction::Never,
            ),
            arm(
                "for comparison: no lock at all, one UPDATE with its condition",
                "对照：完全没有锁，一条带条件的 UPDATE",
                CONDITIONAL,
                OVERSELL,
                Prediction::Nothing,
            ),
        ],
    ),
    tried(
        "s5",
        "分布式锁的作用是在分布式部署环境下，保证同一时刻只有一个执行流能够进入临界区操作共享资源。",
        "A distributed lock guarantees that at any time only one flow of execution is inside and operates on the shared resource.",
        Reading::Graded,
        &[
            arm(
                "the lock redis in calm weather",
                "redis 锁，无故障",
                REDIS,
                TWICE,
                Prediction::Never,
            ),
            arm(
                "a holder pauses beyond its lease",
                "持有者停顿超过租约",
                REDIS_CARELESS.struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "the same, and the stock looks at fencing tokens",
                "同样，但库存检查栅栏令牌",
                REDIS_CARELESS.struck(PAUSE).fenced(),
                Measure::Found(&[Kind::EffectInterleaved, Kind::Oversell]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "s6",
        "一把合格的分布式锁需要同时满足互斥性、防死锁、可重入、高可用和高性能这五项基本要求。",
        "A lock for a flash sale must have all five: mutual exclusion, no deadlock, reentrancy, availability, speed.",
        Reading::Graded,
        &[
            arm(
                "without mutual exclusion: no lock",
                "没有互斥：不加锁",
                NO_LOCK,
                OVERSELL,
                Prediction::Sometimes,
            ),
            arm(
                "without an end for dead holders: a lock table that never expires",
                "不防死锁：锁表没有到期时间，持有者崩溃",
                NO_EXPIRY.struck(HOLDER_DIES),
                Measure::Found(&[Kind::LeakedLock]),
                Prediction::Sometimes,
            ),
            arm(
                "without availability: one server that comes back empty",
                "没有高可用：单台服务器失忆重启",
                REDIS
                    .set(&[("workload.work", "1s"), ("workload.slow-per-mille", "0")])
                    .struck(EMPTY_RESTART),
                TWICE,
                Prediction::Sometimes,
            ),
            arm(
                "holders that take their lock twice, a reentrant lock",
                "持有者两次取同一把锁，可重入锁",
                REDIS.with("redis-reentrant").set(REENTERED),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "without reentrancy: the same holders, the plain lock redis",
                "不可重入：同样的持有者，普通的 redis 锁",
                REDIS.set(REENTERED),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 3, percent: 50 },
            ),
        ],
    )
    .noted(
        "Tried: what a sale loses without each of the first four.",
        "检验：缺少前四项中的每一项时，一场秒杀会失去什么。",
    ),
    untried(
        "s7",
        "目前主流的分布式锁实现方式主要有三类：基于数据库的分布式锁、基于缓存中间件的分布式锁、基于协调服务的分布式锁。",
        "There are three main ways to build distributed locks: on databases, on caches, on coordination services.",
        "a statement about what people use; no storm can tell",
        "这是关于业界使用情况的陈述，风暴无法判断",
    ),
];

//! What the text says of locks in caches on the whole.

use super::conditions::{
    EMPTY_RESTART, HOLDER_DIES, LAGGING_FAILOVER, ONE_OF_FIVE, PAUSE, REDIS, REDIS_CARELESS,
    REDIS_FAILOVER, REDLOCK, REDLOCK_CARELESS,
};
use super::loads::{OPPOSITE_ORDER, QUEUE, SECONDS};
use super::measure::{INSIDE, LEAK, TWICE};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    untried(
        "c15",
        "总体而言，缓存分布式锁在性能、可用性和实现成本之间取得了较好的平衡，是秒杀场景的首选方案。",
        "On the whole cache locks balance speed, availability and cost well, and come first for flash sales.",
        "a judgement that weighs costs; its parts are c6 to c13",
        "这是权衡成本的评价；其组成部分见 c6 至 c13",
    ),
    tried(
        "c16",
        "单节点缓存锁配合合理的过期时间和Lua原子释放已经足够。",
        "A lock on one server, with a sensible expiry and the Lua release, is enough.",
        Reading::Graded,
        &[
            arm("calm weather", "无故障", REDIS, TWICE, Prediction::Never),
            arm(
                "a holder pauses beyond its lease and does not look at the clock",
                "持有者停顿超过租约且不看时钟",
                REDIS_CARELESS.struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "the server comes back empty",
                "服务器失忆重启",
                REDIS.set(SECONDS).struck(EMPTY_RESTART),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "the pause, and a full fence at the stock",
                "同样的停顿，库存有完整栅栏",
                REDIS_CARELESS.struck(PAUSE).fenced(),
                INSIDE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "c17",
        "| 一致性 | 强（悲观锁） | 最终一致 | 强 |",
        "Consistency of cache locks: eventual.",
        Reading::Always,
        &[arm(
            "replication stands still, the master dies: an acknowledged record is lost for good",
            "复制停滞，主节点崩溃：已确认的记录永远丢失",
            REDIS_FAILOVER.struck(LAGGING_FAILOVER),
            Measure::Found(&[Kind::GrantLost]),
            Prediction::Never,
        )],
    )
    .noted(
        "Tried: whether what was acknowledged comes back in the end.",
        "检验：已确认的记录最终是否会回来。",
    ),
    tried(
        "c18",
        "| 死锁风险 | 悲观锁可能 | 过期时间可避免 | 无（临时节点） |",
        "Risk of deadlock of cache locks: expiry avoids it.",
        Reading::Always,
        &[
            arm(
                "two locks in opposite order, leases that end",
                "以相反顺序取两把锁，租约会到期",
                REDIS.set(OPPOSITE_ORDER),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "the same, and a watchdog renews both",
                "同样，但看门狗给两把都续期",
                REDIS.with("redis-watchdog").set(OPPOSITE_ORDER),
                Measure::Found(&[Kind::Deadlock]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "c19",
        "| 公平性 | 不保证 | 不保证 | 保证 |",
        "Fairness of cache locks: not guaranteed.",
        Reading::Graded,
        &[
            arm(
                "the lock redis: how often a waiter is passed over",
                "redis 锁：等待者被越过的次数",
                REDIS.set(QUEUE),
                Measure::MostOvertaken,
                Prediction::AtLeast(1),
            ),
            arm(
                "redis-fair, with a queue beside the record",
                "redis-fair：记录旁有队列",
                REDIS.with("redis-fair").set(QUEUE),
                Measure::MostOvertaken,
                Prediction::AtLeast(1),
            ),
        ],
    ),
    tried(
        "c20",
        "| 可靠性 | 依赖数据库 | 依赖过期时间和多节点算法 | 高（临时节点） |",
        "Reliability of cache locks: by expiry and by several servers.",
        Reading::Graded,
        &[
            arm(
                "the holder dies: expiry lets the next in",
                "持有者崩溃：到期后放下一个进来",
                REDIS.struck(HOLDER_DIES),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "one of five servers dies",
                "五台中的一台崩溃",
                REDLOCK.struck(ONE_OF_FIVE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "several servers, a holder pauses beyond its lease",
                "多台服务器，持有者停顿超过租约",
                REDLOCK_CARELESS.struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
];

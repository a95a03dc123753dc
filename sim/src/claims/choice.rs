//! What the text recommends in the end.

use super::conditions::{
    CONDITIONAL, EMPTY_RESTART, LAGGING_FAILOVER, LEADER_DIES, LOST_PRIMARY, PAUSE, POSTGRES,
    REDIS, REDIS_CARELESS, REDIS_FAILOVER, REDLOCK, REDLOCK_CARELESS, SHORT, ZOOKEEPER,
    ZOOKEEPER_CARELESS,
};
use super::loads::{CALM_PAIR, CROWD, REDIS_AT_ONE_SKU, REDIS_CROWD, SECONDS};
use super::measure::TWICE;
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    tried(
        "x1",
        "| 性能 | 低 | 高 | 中 |",
        "Performance: database low, cache high, coordination in between.",
        Reading::Graded,
        &[
            arm(
                "the lock redis",
                "redis 锁",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock zookeeper: slower than redis",
                "zookeeper 锁：比 redis 慢",
                ZOOKEEPER.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 125 },
            ),
            arm(
                "SELECT FOR UPDATE: slower than zookeeper",
                "SELECT FOR UPDATE：比 zookeeper 慢",
                POSTGRES.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 1, percent: 125 },
            ),
        ],
    )
    .noted("Tried: time of an uncontended acquire.", "检验：无人争抢时加锁的耗时。"),
    tried(
        "x2",
        "| 适用并发量 | 低 | 高 | 中 |",
        "Concurrency that they suit: database low, cache high, coordination in between.",
        Reading::Graded,
        &[
            REDIS_CROWD,
            arm(
                "the lock zookeeper: less than redis",
                "zookeeper 锁：低于 redis",
                ZOOKEEPER.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
            arm(
                "SELECT FOR UPDATE as a lock: less than zookeeper",
                "以 SELECT FOR UPDATE 为锁：低于 zookeeper",
                POSTGRES.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 1, percent: 80 },
            ),
        ],
    )
    .noted("Tried: sales per second of one sku.", "检验：抢一个商品的成交。"),
    untried(
        "x3",
        "| 实现复杂度 | 低 | 中 | 中高 |",
        "Complexity: database low, cache medium, coordination medium to high.",
        "complexity is no measure of a run",
        "复杂度不是运行可以度量的",
    ),
    untried(
        "x4",
        "| 运维成本 | 低（已有数据库） | 中 | 高 |",
        "Cost of running: database low, cache medium, coordination high.",
        "cost is no measure of a run",
        "成本不是运行可以度量的",
    ),
    tried(
        "x5",
        "如果秒杀量级在每秒数千到数万请求，缓存分布式锁是最佳选择。",
        "At thousands to tens of thousands of requests a second a cache lock is the best choice.",
        Reading::Graded,
        &[
            REDIS_CROWD,
            arm(
                "the lock zookeeper",
                "zookeeper 锁",
                ZOOKEEPER.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 100 },
            ),
            arm(
                "SELECT FOR UPDATE as a lock",
                "以 SELECT FOR UPDATE 为锁",
                POSTGRES.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 100 },
            ),
            arm(
                "one conditional UPDATE, no lock",
                "一条带条件的 UPDATE，不加锁",
                CONDITIONAL.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 100 },
            ),
        ],
    )
    .noted(
        "Tried: sales of one sku to the same crowd; if it is the best, no other sells more.",
        "检验：同一群客户端抢一个商品的成交；若为最佳，则无人更多。",
    ),
    tried(
        "x6",
        "单节点缓存锁配合Lua原子释放、看门狗续期和限流降级，已经能够满足绝大多数业务需求。",
        "A lock on one server with the Lua release and a watchdog meets most needs.",
        Reading::Graded,
        &[
            arm("calm weather", "无故障", REDIS.with("redis-watchdog"), TWICE, Prediction::Never),
            arm(
                "a holder pauses beyond its lease and does not look at the clock",
                "持有者停顿超过租约且不看时钟",
                REDIS_CARELESS.with("redis-watchdog").struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "the server comes back empty",
                "服务器失忆重启",
                REDIS.with("redis-watchdog").set(SECONDS).struck(EMPTY_RESTART),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "x7",
        "对于金融级别的高可靠性要求，可以考虑多节点缓存锁方案",
        "Where reliability as in finance is required, the lock on several cache servers may be considered.",
        Reading::Always,
        &[
            arm("calm weather", "无故障", REDLOCK, TWICE, Prediction::Never),
            arm(
                "a holder pauses beyond its lease and does not look at the clock; no token that a fence could look at",
                "持有者停顿超过租约且不看时钟；没有令牌可供栅栏检查",
                REDLOCK_CARELESS.struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "x8",
        "更适合作为辅助手段，例如用于秒杀活动的全局开关控制、库存预热的选主等对一致性要求高但并发量不大的场景。",
        "Coordination locks suit leader election and switches, where consistency matters more than load.",
        Reading::Graded,
        &[
            arm(
                "leader election, the servers' leader dies",
                "选主，服务器的领导者崩溃",
                ZOOKEEPER.with("zookeeper-election").struck(LEADER_DIES),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "an elected one pauses beyond its session and does not look at the clock",
                "当选者停顿超过会话超时且不看时钟",
                ZOOKEEPER_CARELESS.with("zookeeper-election").struck(PAUSE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "the same, and its epoch is looked at",
                "同样，但检查任期号",
                ZOOKEEPER_CARELESS.with("zookeeper-election").struck(PAUSE).fenced(),
                Measure::Found(&[Kind::EffectInterleaved, Kind::Oversell]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "x9",
        "分布式锁只是秒杀系统的一环，不能替代其他防护手段。",
        "A lock is only one part of a flash sale and replaces no other protection.",
        Reading::Possible,
        &[arm(
            "a lock that works, and a failover that loses confirmed orders",
            "锁没有出错，而主备切换丢失了已确认的订单",
            POSTGRES.in_pair(LOST_PRIMARY, IN_SQL),
            Measure::Found(&[Kind::LostOrder]),
            Prediction::Sometimes,
        )],
    ),
    untried(
        "x10",
        "完整的秒杀架构还应包括前端限流、页面静态化、库存预热、消息队列异步下单、服务降级等多层防护，将流量层层过滤，最终到达数据库的请求已经非常有限，分布式锁才能在可控的并发下发挥最大效用。",
        "Layers filter the traffic, little of it reaches the database, and only then the lock is of most use.",
        "the layers (`lockstorm::sale`) are not yet in storms",
        "这些层（`lockstorm::sale`）尚未进入风暴",
    ),
    tried(
        "x11",
        "缓存锁性能优异但一致性存在理论短板",
        "Cache locks are fast, and weak in consistency in theory.",
        Reading::Always,
        &[
            arm(
                "SELECT FOR UPDATE, two clients that seldom meet: acquire",
                "SELECT FOR UPDATE，两个很少相遇的客户端：加锁",
                POSTGRES.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock redis: acquire",
                "redis 锁：加锁",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
            arm(
                "replication stands still, the master dies",
                "复制停滞，主节点崩溃",
                REDIS_FAILOVER.struck(LAGGING_FAILOVER),
                TWICE,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "x12",
        "协调服务锁一致性强但性能和成本不占优",
        "Coordination locks are strong in consistency and not in speed.",
        Reading::Always,
        &[
            arm(
                "the lock redis: acquire",
                "redis 锁：加锁",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock zookeeper",
                "zookeeper 锁",
                ZOOKEEPER.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 125 },
            ),
            arm(
                "the leader dies",
                "领导者崩溃",
                ZOOKEEPER.set(SHORT).struck(LEADER_DIES),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    untried(
        "x13",
        "缓存分布式锁凭借其高性能和适中的实现成本，成为目前的主流选择。",
        "Cache locks have become the main choice for their speed and moderate cost.",
        "a statement about what people use; no storm can tell",
        "这是关于业界使用情况的陈述，风暴无法判断",
    ),
    tried(
        "x14",
        "数据库锁简单但性能不足",
        "Database locks are simple and not fast enough.",
        Reading::Graded,
        &[
            REDIS_AT_ONE_SKU,
            arm(
                "SELECT FOR UPDATE as a lock: fewer",
                "以 SELECT FOR UPDATE 为锁：更少",
                POSTGRES.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
            arm(
                "one conditional UPDATE, no lock: fewer",
                "一条带条件的 UPDATE，不加锁：更少",
                CONDITIONAL.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
        ],
    )
    .noted(
        "Tried: sales of one sku, against the lock redis in the same crowd.",
        "检验：抢一个商品的成交，与同一群客户端用 redis 锁相比。",
    ),
    untried(
        "x15",
        "协调服务锁在秒杀场景中一般不作为核心锁使用",
        "Coordination locks are seldom the core of a flash sale.",
        "a statement about what people use; no storm can tell",
        "这是关于业界使用情况的陈述，风暴无法判断",
    ),
];

/// The stock in SQL, under a lock.
const IN_SQL: &[(&str, &str)] = &[("workload.slow-per-mille", "0"), ("workload.stock", "sql")];

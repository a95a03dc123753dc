//! What the text says of lock tables, and of databases on the whole.

use super::conditions::{
    CONDITIONAL, DATABASE_AWAY, HOLDER_DIES, LEADER_AWAY, LONGER, LOST_PRIMARY, NO_EXPIRY,
    OLD_PRIMARY, OPTIMISTIC_CHECKED, OPTIMISTIC_VERBATIM, PESSIMISTIC, POOL, POSTGRES,
    POSTGRES_PAIR, REDIS, SHORT, STANDBY_TAKES_OVER, ZOOKEEPER,
};
use super::loads::{
    CALM_PAIR, CROWD, MODERATE, MODERATE_CHECKED, OPPOSITE_ORDER, POOLED_CROWD, QUEUE, REDIS_CROWD,
    REENTERED, TWO_SKUS_LOCKED, UNLIMITED_POOLS,
};
use super::measure::{DEADLOCK_ENDED, LEAK, OVERSELL, TWICE};
use super::{Claim, Measure, Prediction, Reading, arm, tried};
use crate::check::Kind;

/// A disk that needs 300 ms for each synchronisation while a row is being inserted.
const SLOW_COMMIT: &str = r#"
[[fault]]
kind = "disk-slow"
node = "pg-1"
extra = "300ms"
at = "1s"
for = "5s"
"#;

/// Each asks once and does not wait.
const IMPATIENT: &[(&str, &str)] = &[
    ("workload.patience", "0s"),
    ("workload.think", "20ms"),
    ("workload.work", "5ms"),
    ("workload.slow-per-mille", "0"),
    ("topology.apps", "6"),
];

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    tried(
        "d15",
        "锁表方案则存在单点故障",
        "A lock table is a single point of failure.",
        Reading::Graded,
        &[
            arm(
                "three ZooKeeper servers, the leader is away",
                "三台 ZooKeeper，领导者离开",
                ZOOKEEPER.set(LONGER).struck(LEADER_AWAY),
                Measure::LongestClosed,
                Prediction::Nothing,
            ),
            arm(
                "one database, which is away",
                "单台数据库离开",
                POSTGRES.with("pg-lock-table").set(LONGER).struck(DATABASE_AWAY),
                Measure::LongestClosed,
                Prediction::AtLeastOf { arm: 0, percent: 130 },
            ),
            arm(
                "a primary that dies, and its standby is promoted",
                "主库崩溃，备库被提升",
                POSTGRES_PAIR.with("pg-lock-table").struck(STANDBY_TAKES_OVER),
                Measure::LongestClosed,
                Prediction::AtLeastOf { arm: 0, percent: 130 },
            ),
        ],
    )
    .noted(
        "Tried: the longest time without a grant when the machine is away for eight seconds, against three ZooKeeper servers that lose their leader for as long.",
        "检验：机器离开八秒时最长多久无人获锁，与三台 ZooKeeper 的领导者离开同样久相比。",
    ),
    tried(
        "d16",
        "非阻塞",
        "… it is non-blocking: whoever cannot insert fails at once.",
        Reading::Always,
        &[
            arm(
                "commits are quick",
                "提交很快",
                POSTGRES.with("pg-lock-table").set(IMPATIENT),
                Measure::SlowestBusy,
                Prediction::Nothing,
            ),
            arm(
                "commits take 300 ms: an INSERT waits for the one that is not committed",
                "提交需 300 毫秒：INSERT 要等待尚未提交的那一条",
                POSTGRES.with("pg-lock-table").set(IMPATIENT).struck(SLOW_COMMIT),
                Measure::SlowestBusy,
                Prediction::AtMostOf { arm: 0, percent: 200 },
            ),
        ],
    )
    .noted(
        "Tried: how long the slowest answer that it is busy takes when commits take 300 ms more, against quick commits.",
        "检验：提交慢 300 毫秒时，得知锁被占用的最慢应答要多久，与提交很快时相比。",
    ),
    tried(
        "d17",
        "不可重入",
        "… it is not reentrant.",
        Reading::Graded,
        &[
            arm(
                "a row with its owner: the first release gives it up",
                "只记录持有者的行：第一次释放就放弃了锁",
                POSTGRES.with("pg-lock-table").set(REENTERED),
                Measure::Found(&[Kind::Overstay]),
                Prediction::EachTime,
            ),
            arm(
                "a row with its owner and a count",
                "记录持有者与次数的行",
                POSTGRES.with("pg-lock-table-reentrant").set(REENTERED),
                Measure::Found(&[Kind::Overstay]),
                Prediction::EachTime,
            ),
        ],
    )
    .noted(
        "Tried: its owner takes the lock twice; whether it still believes to hold it when its first release has given it up.",
        "检验：持有者两次取同一把锁；第一次释放已放弃锁时，它是否仍以为自己持有。",
    ),
    tried(
        "d18",
        "且锁的释放依赖应用主动删除，一旦服务宕机可能导致死锁。",
        "… its release relies on the application's DELETE, and a service that dies may leave it locked for ever.",
        Reading::Possible,
        &[
            arm(
                "rows without an expiry",
                "没有到期时间的行",
                NO_EXPIRY.struck(HOLDER_DIES),
                LEAK,
                Prediction::Sometimes,
            ),
            arm(
                "rows that expire",
                "有到期时间的行",
                POSTGRES.with("pg-lock-table").struck(HOLDER_DIES),
                LEAK,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "d19",
        "数据库分布式锁适用于并发量较低、对性能要求不高的业务场景，不适合作为秒杀系统的核心锁方案。",
        "Database locks suit low concurrency and are not fit for the core of a flash sale.",
        Reading::Graded,
        &[
            REDIS_CROWD,
            arm(
                "SELECT FOR UPDATE as a lock",
                "以 SELECT FOR UPDATE 为锁",
                POSTGRES.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
            arm(
                "one conditional UPDATE, no lock",
                "一条带条件的 UPDATE，不加锁",
                CONDITIONAL.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
        ],
    )
    .noted(
        "Tried: sales per second of one sku, against the lock redis in the same crowd.",
        "检验：抢一个商品的成交，与同一群客户端用 redis 锁相比。",
    ),
    tried(
        "d20",
        "| 死锁风险 | 悲观锁可能 | 过期时间可避免 | 无（临时节点） |",
        "Risk of deadlock of pessimistic locks: possible.",
        Reading::Possible,
        &[
            arm(
                "two rows in either order, in one transaction: the server ends one",
                "一个事务以相反顺序锁两行：服务端终止其一",
                PESSIMISTIC.set(TWO_SKUS_LOCKED),
                DEADLOCK_ENDED,
                Prediction::Sometimes,
            ),
            arm(
                "two locks, each in a transaction of its own: the server sees no circle",
                "两把锁各在自己的事务中：服务端看不到环",
                POSTGRES.set(OPPOSITE_ORDER),
                Measure::Found(&[Kind::Deadlock]),
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "d21",
        "如果秒杀量级在每秒数百请求以内，且团队不想引入额外中间件，数据库乐观锁配合合理的重试策略可以作为入门方案",
        "Up to some hundreds of requests a second, and without further middleware, optimistic locking with sensible retries will do.",
        Reading::Graded,
        &[
            arm(
                "one conditional UPDATE, 16 clients who think",
                "一条带条件的 UPDATE，16 个会思考的客户端",
                CONDITIONAL.set(MODERATE),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "the optimistic sale, the same clients",
                "乐观方式，同样的客户端",
                OPTIMISTIC_CHECKED.set(MODERATE_CHECKED),
                Measure::SalesPerSecond,
                Prediction::AtLeastOf { arm: 0, percent: 80 },
            ),
            arm(
                "with AND count > 0: oversold",
                "加上 AND count > 0：超卖",
                OPTIMISTIC_CHECKED,
                OVERSELL,
                Prediction::Never,
            ),
            arm(
                "the statement as the text has it: oversold",
                "照原文的语句：超卖",
                OPTIMISTIC_VERBATIM,
                OVERSELL,
                Prediction::Never,
            ),
        ],
    )
    .noted(
        "Tried: some hundred requests a second, against a conditional UPDATE that never conflicts; and whether it oversells.",
        "检验：每秒数百请求，与从不冲突的带条件 UPDATE 相比；以及是否超卖。",
    ),
    tried(
        "d22",
        "但需要做好数据库连接池的监控和限流。",
        "… but the pool of connections must be watched and limited.",
        Reading::Always,
        &[
            arm(
                "120 buyers, each with a connection, max_connections = 100: the server refuses one",
                "120 个买家各用一个连接，max_connections = 100：服务端拒绝连接",
                POOL.set(UNLIMITED_POOLS),
                Measure::SessionRefused,
                Prediction::Sometimes,
            ),
            arm(
                "120 buyers behind three pools of 4: the server refuses one",
                "120 个买家共用三个连接数为 4 的池：服务端拒绝连接",
                POOL.set(POOLED_CROWD),
                Measure::SessionRefused,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d23",
        "| 性能 | 低 | 高 | 中 |",
        "Performance of database locks: low.",
        Reading::Always,
        &[
            arm(
                "the lock redis, two clients that seldom meet",
                "redis 锁，两个很少相遇的客户端",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "SELECT FOR UPDATE",
                "SELECT FOR UPDATE",
                POSTGRES.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 125 },
            ),
            arm(
                "the lock table",
                "锁表",
                POSTGRES.with("pg-lock-table").set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 125 },
            ),
        ],
    )
    .noted(
        "Tried: time of an uncontended acquire, against the lock redis.",
        "检验：无人争抢时加锁的耗时，与 redis 锁相比。",
    ),
    tried(
        "d24",
        "| 一致性 | 强（悲观锁） | 最终一致 | 强 |",
        "Consistency of pessimistic locks: strong.",
        Reading::Always,
        &[
            arm(
                "one server",
                "单台服务器",
                PESSIMISTIC,
                Measure::Found(&[Kind::Oversell, Kind::LostOrder]),
                Prediction::Never,
            ),
            arm(
                "a standby that is behind is promoted: confirmed orders are lost",
                "落后的备库被提升：已确认的订单丢失",
                CONDITIONAL.in_pair(LOST_PRIMARY, SHORT),
                Measure::Found(&[Kind::LostOrder]),
                Prediction::Never,
            ),
            arm(
                "the old primary still serves: the row lock is granted twice",
                "旧主库仍在服务：行锁授予两次",
                POSTGRES_PAIR.struck(OLD_PRIMARY),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d25",
        "| 可靠性 | 依赖数据库 | 依赖过期时间和多节点算法 | 高（临时节点） |",
        "Reliability of database locks: that of the database.",
        Reading::Always,
        &[
            arm(
                "the database is away for 8 s: the longest time without a grant",
                "数据库离开 8 秒：最长无人获锁的时间",
                POSTGRES.set(LONGER).struck(DATABASE_AWAY),
                Measure::LongestClosed,
                Prediction::AtMost(10_000),
            ),
            arm(
                "a standby is promoted half a second after its primary died",
                "主库崩溃半秒后备库被提升",
                POSTGRES_PAIR.struck(STANDBY_TAKES_OVER),
                Measure::LongestClosed,
                Prediction::AtMost(2_500),
            ),
        ],
    )
    .noted(
        "Tried: whether locks are granted again soon after the database is back.",
        "检验：数据库恢复后是否很快又能获锁。",
    ),
    tried(
        "d26",
        "| 公平性 | 不保证 | 不保证 | 保证 |",
        "Fairness of database locks: not guaranteed.",
        Reading::Graded,
        &[
            arm(
                "the lock table, asked again and again",
                "锁表，反复询问",
                POSTGRES.with("pg-lock-table").set(QUEUE),
                Measure::MostOvertaken,
                Prediction::AtLeast(1),
            ),
            arm(
                "SELECT FOR UPDATE: waiters queue at the server",
                "SELECT FOR UPDATE：等待者在服务端排队",
                POSTGRES.set(QUEUE),
                Measure::MostOvertaken,
                Prediction::AtLeast(1),
            ),
        ],
    ),
];

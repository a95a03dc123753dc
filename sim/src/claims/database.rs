//! What the text says of locks in databases.

use super::conditions::{
    ALONE, CONDITIONAL, CROWD, CROWD_LOCKED, DATABASE_DIES, DATABASE_RESTARTS, FEW_LOCKED,
    HOLDER_DIES, LOST_PRIMARY, NO_EXPIRY, OLD_PRIMARY, OPPOSITE_ORDER, OPTIMISTIC_CHECKED,
    OPTIMISTIC_VERBATIM, PESSIMISTIC, POSTGRES, POSTGRES_PAIR, QUEUE, REDIS, REENTERED, TWO_SKUS,
    TWO_SKUS_LOCKED,
};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

const OVERSELL: Measure = Measure::Found(&[Kind::Oversell]);
const TWICE: Measure =
    Measure::Found(&[Kind::DoubleGrant, Kind::EffectInterleaved, Kind::Oversell]);
const LEAK: Measure = Measure::Found(&[Kind::LeakedLock, Kind::StuckWaiter]);
/// The server ended one of a circle of transactions.
const DEADLOCK: Measure = Measure::Refused("40P01");

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

/// A hundred and twenty clients: more than a server with its default settings serves.
const MANY: &[(&str, &str)] = &[
    ("topology.apps", "120"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// Forty-eight clients, each with a connection.
const HALF_AS_MANY: &[(&str, &str)] = &[
    ("topology.apps", "48"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// Four of them.
const FOUR: &[(&str, &str)] = &[
    ("topology.apps", "4"),
    ("workload.think", "5ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("duration", "2s"),
];

/// The optimistic sale of three, who hardly meet.
const CALM: &[(&str, &str)] = &[
    ("topology.apps", "3"),
    ("workload.think", "200ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
];

/// The optimistic sale of a crowd.
const FIERCE: &[(&str, &str)] = &[
    ("topology.apps", "16"),
    ("workload.think", "1ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("workload.units", "100000"),
    ("lock.check", "statement"),
    ("duration", "2s"),
];

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    tried(
        "d1",
        "通过SELECT ... FOR UPDATE语句锁定目标库存行，其他事务在锁释放前无法对该行进行修改，从而保证同一时刻只有一个事务能够操作库存。",
        "SELECT … FOR UPDATE locks the stock's row, nobody else can change it before the lock is released, and so only one transaction at a time operates on the stock.",
        Reading::Graded,
        &[
            arm(
                "the stock's row locked in the transaction that sells",
                "在售卖事务里锁住库存行",
                PESSIMISTIC,
                OVERSELL,
                Prediction::Never,
            ),
            arm(
                "a standby is promoted while the old primary still serves",
                "备库被提升，旧主库仍在服务",
                POSTGRES_PAIR.struck(OLD_PRIMARY),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d2",
        "锁的释放依赖事务的提交或回滚。",
        "The lock is released by commit or rollback of its transaction.",
        Reading::Always,
        &[
            arm(
                "the holder dies: the server rolls back",
                "持有者崩溃：服务端回滚",
                POSTGRES.struck(HOLDER_DIES),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "the database's machine restarts while the holder works: the lock is gone without either",
                "持有者工作时数据库机器重启：未提交也未回滚，锁就没了",
                POSTGRES
                    .set(&[
                        ("lock.lease", "9s"),
                        ("workload.work", "2500ms"),
                        ("workload.slow-per-mille", "0"),
                        ("workload.patience", "300ms"),
                    ])
                    .struck(DATABASE_RESTARTS),
                Measure::Found(&[Kind::GrantLost]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d3",
        "乐观锁则不依赖数据库锁，而是在库存表中增加一个版本号字段。",
        "Optimistic locking does not rely on the database's locks but on a version in the stock's table.",
        Reading::Always,
        &[arm(
            "orders of two skus in either order: without row locks the server would have no deadlock to end",
            "一单两个商品、顺序相反：若没有行锁，服务端就没有死锁可解",
            OPTIMISTIC_CHECKED.set(TWO_SKUS),
            DEADLOCK,
            Prediction::Never,
        )],
    ),
    tried(
        "d4",
        "即UPDATE stock SET count = count - 1, version = version + 1 WHERE id = ? AND version = ?。",
        "The statement, as it stands, prevents overselling: UPDATE stock SET count = count - 1, version = version + 1 WHERE id = ? AND version = ?.",
        Reading::Always,
        &[
            arm(
                "the statement as it stands, 20 units",
                "照原样的语句，20 件库存",
                OPTIMISTIC_VERBATIM,
                OVERSELL,
                Prediction::Never,
            ),
            arm(
                "for comparison: with AND count > 0",
                "对照：加上 AND count > 0",
                OPTIMISTIC_CHECKED,
                OVERSELL,
                Prediction::Nothing,
            ),
        ],
    ),
    tried(
        "d5",
        "如果更新影响行数为零，说明版本号已被其他事务修改，当前操作失败，需要重试。",
        "If no row was changed, somebody else has changed the version; the operation has failed and must be tried again.",
        Reading::Graded,
        &[
            arm(
                "three clients, READ COMMITTED: conflicts are told by the row count",
                "三个客户端，READ COMMITTED：由行数得知冲突",
                OPTIMISTIC_CHECKED,
                Measure::Refused("it was changed"),
                Prediction::Sometimes,
            ),
            arm(
                "one client alone: nobody changes the version",
                "只有一个客户端：没有人改版本号",
                OPTIMISTIC_CHECKED.set(&[
                    ("topology.apps", "1"),
                    ("workload.units", "20"),
                    ("workload.slow-per-mille", "0"),
                    ("lock.check", "statement"),
                ]),
                Measure::Refused("it was changed"),
                Prediction::Never,
            ),
            arm(
                "REPEATABLE READ: the conflict is an error of serialisation (40001) and no row count",
                "REPEATABLE READ：冲突是序列化错误（40001），不是行数",
                OPTIMISTIC_CHECKED.set(&[
                    ("workload.units", "200"),
                    ("workload.think", "5ms"),
                    ("workload.slow-per-mille", "0"),
                    ("lock.check", "statement"),
                    ("lock.isolation", "repeatable-read"),
                ]),
                Measure::Refused("40001"),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d6",
        "还可以通过一张专门的锁表来实现互斥：利用唯一索引约束，插入一条记录代表获取锁，删除记录代表释放锁。",
        "A lock table with a unique index gives mutual exclusion: inserting a row takes the lock, deleting it gives it back.",
        Reading::Graded,
        &[
            arm(
                "one server, calm weather",
                "单台服务器，无故障",
                POSTGRES.with("pg-lock-table"),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "a standby is promoted while the old primary still serves",
                "备库被提升，旧主库仍在服务",
                POSTGRES_PAIR.with("pg-lock-table").struck(OLD_PRIMARY),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    untried(
        "d7",
        "数据库方案的最大优势是实现简单、易于理解，不需要引入额外的中间件，对于并发量不高的系统来说成本最低。",
        "Database locks are simple, easy to understand, need no further middleware, and cost least at low concurrency.",
        "simplicity and cost are no measures of a run",
        "简单与成本不是运行可以度量的",
    ),
    tried(
        "d8",
        "乐观锁方案在冲突较少的场景下性能表现尚可",
        "With few conflicts optimistic locking performs acceptably.",
        Reading::Always,
        &[
            arm(
                "the pessimistic sale, three clients that seldom meet",
                "悲观方式，三个很少相遇的客户端",
                PESSIMISTIC.set(FEW_LOCKED),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "the optimistic sale, the same clients",
                "乐观方式，同样的客户端",
                OPTIMISTIC_CHECKED.set(CALM),
                Measure::SalesPerSecond,
                Prediction::AtLeastOf { arm: 0, percent: 90 },
            ),
            arm(
                "what it refuses",
                "其被拒绝的",
                OPTIMISTIC_CHECKED.set(CALM),
                Measure::RefusedPerThousand,
                Prediction::AtMost(100),
            ),
        ],
    ),
    tried(
        "d9",
        "且不会产生死锁问题。",
        "… and optimistic locking never deadlocks.",
        Reading::Always,
        &[
            arm(
                "one sku an order",
                "一单一个商品",
                OPTIMISTIC_CHECKED,
                DEADLOCK,
                Prediction::Never,
            ),
            arm(
                "two skus an order, in either order",
                "一单两个商品、顺序相反",
                OPTIMISTIC_CHECKED.set(TWO_SKUS),
                DEADLOCK,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "d10",
        "悲观锁在高并发下会导致大量事务阻塞等待",
        "Under load pessimistic locking makes many transactions wait.",
        Reading::Always,
        &[
            arm(
                "4 clients: the most that wait at once",
                "4 个客户端：同时等待的最大数",
                POSTGRES.set(FOUR),
                Measure::MostUnderWay,
                Prediction::Nothing,
            ),
            arm(
                "48 clients",
                "48 个客户端",
                POSTGRES.set(HALF_AS_MANY),
                Measure::MostUnderWay,
                Prediction::AtLeastOf { arm: 0, percent: 800 },
            ),
        ],
    ),
    tried(
        "d11",
        "数据库连接资源被迅速耗尽",
        "… the database's connections are soon used up.",
        Reading::Possible,
        &[
            arm(
                "48 clients, max_connections = 100",
                "48 个客户端，max_connections = 100",
                POSTGRES.set(HALF_AS_MANY),
                Measure::FailedFor("too many clients"),
                Prediction::Sometimes,
            ),
            arm(
                "120 clients",
                "120 个客户端",
                POSTGRES.set(MANY),
                Measure::FailedFor("too many clients"),
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "d12",
        "吞吐量急剧下降",
        "… and throughput falls sharply.",
        Reading::Graded,
        &[
            arm(
                "4 clients",
                "4 个客户端",
                POSTGRES.set(FOUR),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "48 clients",
                "48 个客户端",
                POSTGRES.set(HALF_AS_MANY),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 50 },
            ),
            arm(
                "120 clients, more than the server serves",
                "120 个客户端，超过服务器上限",
                POSTGRES.set(MANY),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 50 },
            ),
        ],
    ),
    tried(
        "d13",
        "完全无法支撑秒杀级别的流量。",
        "… it cannot bear a flash sale's traffic at all. (Tried: thousands of sales per second of one sku.)",
        Reading::Always,
        &[arm(
            "16 clients at one sku",
            "16 个客户端抢一个商品",
            PESSIMISTIC.set(CROWD_LOCKED),
            Measure::SalesPerSecond,
            Prediction::AtMost(999),
        )],
    ),
    tried(
        "d14",
        "乐观锁在冲突激烈时重试率极高，大量更新操作失败后反复重试，反而给数据库带来更大压力。",
        "With fierce conflicts optimistic locking is tried again and again: most updates fail, and the database has more to do.",
        Reading::Always,
        &[
            arm(
                "three clients that seldom meet",
                "三个很少相遇的客户端",
                OPTIMISTIC_CHECKED.set(CALM),
                Measure::RefusedPerThousand,
                Prediction::Nothing,
            ),
            arm(
                "16 clients at one sku: at least one refusal for each sale",
                "16 个客户端抢一个商品：每成交一单至少一次被拒",
                OPTIMISTIC_CHECKED.set(FIERCE),
                Measure::RefusedPerThousand,
                Prediction::AtLeast(1_000),
            ),
        ],
    ),
    tried(
        "d15",
        "锁表方案则存在单点故障",
        "A lock table is a single point of failure.",
        Reading::Always,
        &[
            arm(
                "no fault: the longest time without a grant, ms",
                "无故障：最长无人获锁的时间",
                POSTGRES.with("pg-lock-table"),
                Measure::LongestClosed,
                Prediction::Nothing,
            ),
            arm(
                "the database's machine dies",
                "数据库机器崩溃",
                POSTGRES.with("pg-lock-table").struck(DATABASE_DIES),
                Measure::LongestClosed,
                Prediction::AtLeast(5_000),
            ),
        ],
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
                Prediction::AtMost(50_000),
            ),
            arm(
                "commits take 300 ms: an INSERT waits for the one that is not committed",
                "提交需 300 毫秒：INSERT 要等待尚未提交的那一条",
                POSTGRES.with("pg-lock-table").set(IMPATIENT).struck(SLOW_COMMIT),
                Measure::SlowestBusy,
                Prediction::AtMost(50_000),
            ),
        ],
    ),
    tried(
        "d17",
        "不可重入",
        "… it is not reentrant.",
        Reading::Graded,
        &[
            arm(
                "a row with its owner",
                "只记录持有者的行",
                POSTGRES.with("pg-lock-table").set(REENTERED),
                Measure::RefusedItsOwner,
                Prediction::EachTime,
            ),
            arm(
                "a row with its owner and a count",
                "记录持有者与次数的行",
                POSTGRES.with("pg-lock-table-reentrant").set(REENTERED),
                Measure::RefusedItsOwner,
                Prediction::EachTime,
            ),
        ],
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
        "Database locks suit low concurrency and are not fit for the core of a flash sale. (Tried: sales per second of one sku, against the lock redis in the same crowd.)",
        Reading::Graded,
        &[
            arm(
                "the lock redis",
                "redis 锁",
                REDIS.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
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
                DEADLOCK,
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
                "sales per second of one sku, 16 clients",
                "16 个客户端抢一个商品，每秒成交",
                OPTIMISTIC_CHECKED.set(FIERCE),
                Measure::SalesPerSecond,
                Prediction::AtLeast(100),
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
    ),
    tried(
        "d22",
        "但需要做好数据库连接池的监控和限流。",
        "… but the pool of connections must be watched and limited.",
        Reading::Always,
        &[arm(
            "120 clients without a limit, max_connections = 100",
            "120 个客户端，不限流，max_connections = 100",
            POSTGRES.set(MANY),
            Measure::FailedFor("too many clients"),
            Prediction::Sometimes,
        )],
    ),
    tried(
        "d23",
        "| 性能 | 低 | 高 | 中 |",
        "Performance of database locks: low. (Tried: time of an uncontended acquire, against the lock redis.)",
        Reading::Always,
        &[
            arm(
                "the lock redis, one client alone",
                "redis 锁，单个客户端",
                REDIS.set(ALONE),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "SELECT FOR UPDATE",
                "SELECT FOR UPDATE",
                POSTGRES.set(ALONE),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 150 },
            ),
            arm(
                "the lock table",
                "锁表",
                POSTGRES.with("pg-lock-table").set(ALONE),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 150 },
            ),
        ],
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
                CONDITIONAL.in_pair(LOST_PRIMARY, FEW_UNITS),
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
        &[arm(
            "the database dies: the longest time without a grant, ms",
            "数据库崩溃：最长无人获锁的时间",
            POSTGRES.struck(DATABASE_DIES),
            Measure::LongestClosed,
            Prediction::AtLeast(5_000),
        )],
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
                Measure::MostBypasses,
                Prediction::AtLeast(1),
            ),
            arm(
                "SELECT FOR UPDATE: waiters queue at the server",
                "SELECT FOR UPDATE：等待者在服务端排队",
                POSTGRES.set(QUEUE),
                Measure::MostBypasses,
                Prediction::AtLeast(1),
            ),
        ],
    ),
];

/// As the scenario has it, with no slow sections.
const FEW_UNITS: &[(&str, &str)] = &[("workload.slow-per-mille", "0")];

//! What the text says of row locks and versions in databases.

use super::conditions::{
    DATABASE_RESTARTS, HOLDER_DIES, OLD_PRIMARY, OPTIMISTIC_CHECKED, OPTIMISTIC_VERBATIM,
    PESSIMISTIC, POOL, POSTGRES, POSTGRES_PAIR,
};
use super::loads::{
    CALM, CROWD_LOCKED, FEW_LOCKED, FIERCE, FORTY_EIGHT, FOUR, FOUR_CHECKED, HUNDRED_AND_TWENTY,
    POOLED_CROWD, POOLED_FEW, REDIS_AT_ONE_SKU, TWO_SKUS,
};
use super::measure::{DEADLOCK_ENDED, LEAK, OVERSELL, TWICE};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    untried(
        "d27",
        "基于数据库的分布式锁通常有两种思路：悲观锁和乐观锁。",
        "Locks in databases come as pessimistic and as optimistic ones.",
        "a classification; no storm can tell",
        "这是分类，风暴无法判断",
    ),
    tried(
        "d1",
        "悲观锁依赖数据库原生的行级锁机制。在扣减库存前，通过SELECT ... FOR UPDATE语句锁定目标库存行，其他事务在锁释放前无法对该行进行修改，从而保证同一时刻只有一个事务能够操作库存。",
        "Pessimistic locking relies on the database's row locks. SELECT … FOR UPDATE locks the stock's row, nobody else can change it before the lock is released, and so only one transaction at a time operates on the stock.",
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
            DEADLOCK_ENDED,
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
                DEADLOCK_ENDED,
                Prediction::Never,
            ),
            arm(
                "two skus an order, in either order",
                "一单两个商品、顺序相反",
                OPTIMISTIC_CHECKED.set(TWO_SKUS),
                DEADLOCK_ENDED,
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
                "4 clients",
                "4 个客户端",
                POSTGRES.set(FOUR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "48 clients",
                "48 个客户端",
                POSTGRES.set(FORTY_EIGHT),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 400 },
            ),
        ],
    )
    .noted(
        "Tried: how long an acquire takes, against that of few clients.",
        "检验：加锁要等多久，与客户端少时相比。",
    ),
    tried(
        "d11",
        "数据库连接资源被迅速耗尽",
        "… the database's connections are soon used up.",
        Reading::Possible,
        &[
            arm(
                "40 buyers on each node, pools of 4: somebody finds no connection for 200 ms",
                "每个节点 40 个买家、连接池 4：有人 200 毫秒内拿不到连接",
                POOL.set(POOLED_CROWD),
                Measure::PoolUsedUp,
                Prediction::Sometimes,
            ),
            arm(
                "for comparison: 2 buyers on each node, the same pools",
                "对照：每个节点 2 个买家，同样的连接池",
                POOL.set(POOLED_FEW),
                Measure::PoolUsedUp,
                Prediction::Nothing,
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
                POSTGRES.set(FORTY_EIGHT),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 50 },
            ),
            arm(
                "120 clients, more than the server serves",
                "120 个客户端，超过服务器上限",
                POSTGRES.set(HUNDRED_AND_TWENTY),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 50 },
            ),
            arm(
                "for comparison: the optimistic sale, 4 clients",
                "对照：乐观方式，4 个客户端",
                OPTIMISTIC_CHECKED.set(FOUR_CHECKED),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "for comparison: the optimistic sale, 16 clients",
                "对照：乐观方式，16 个客户端",
                OPTIMISTIC_CHECKED.set(FIERCE),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
        ],
    )
    .noted(
        "Tried: sales of one sku to a crowd, against those to four clients; in this cost model a waiting transaction costs the server nothing.",
        "检验：一群客户端抢一个商品的成交，与四个客户端时相比；在此成本模型中，等待的事务不耗服务端资源。",
    ),
    tried(
        "d13",
        "完全无法支撑秒杀级别的流量。",
        "… it cannot bear a flash sale's traffic at all.",
        Reading::Always,
        &[
            REDIS_AT_ONE_SKU,
            arm(
                "the stock's row locked in the transaction that sells",
                "在售卖事务里锁住库存行",
                PESSIMISTIC.set(CROWD_LOCKED),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 10 },
            ),
        ],
    )
    .noted(
        "Tried: the text has hundreds a second for databases and thousands for caches, so at most a tenth of what the lock redis sells to the same crowd.",
        "检验：原文说数据库每秒数百、缓存每秒数千，因此至多为同一群客户端用 redis 锁成交的十分之一。",
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
];

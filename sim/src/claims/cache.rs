//! What the text says of locks in caches.

use super::conditions::{
    ALONE, CROWD, EMPTY_RESTART, HOLDER_DIES, LAGGING_FAILOVER, OPPOSITE_ORDER, PAUSE, QUEUE,
    REDIS, REDIS_CARELESS, REDIS_FAILOVER, REDIS_LONG_WORK, REDLOCK, REDLOCK_CARELESS, REENTERED,
};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

const TWICE: Measure =
    Measure::Found(&[Kind::DoubleGrant, Kind::EffectInterleaved, Kind::Oversell]);
const INSIDE: Measure = Measure::Found(&[Kind::EffectInterleaved, Kind::Oversell]);
const DOUBLE: Measure = Measure::Found(&[Kind::DoubleGrant]);
const LEAK: Measure = Measure::Found(&[Kind::LeakedLock, Kind::StuckWaiter]);
const WRONG_RELEASE: Measure = Measure::Found(&[Kind::WrongRelease]);

/// One of five servers dies for good.
const ONE_OF_FIVE: &str = r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 3 applied"
"#;

/// A holder and two of five servers are parted from the rest.
const PARTED: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1", "redis-1", "redis-2"]
to = ["app-2", "app-3", "redis-3", "redis-4", "redis-5"]
after = "app-1 acquire 3 returned"
for = "4s"
"#;

/// The holder's link to the stock is cut just when it sells: what it sent arrives when the cut
/// is over.
const CUT_FROM_STOCK: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["stock-1"]
after = "app-1 read 3 applied"
for = "6s"
"#;

/// One of the majority comes back empty.
const AMNESIA: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-4", "redis-5"]
at = "0s"

[[fault]]
kind = "process-crash"
node = "redis-3"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;

/// Sections of two seconds, and clients that wait for them.
const LONG_SECTIONS: &[(&str, &str)] = &[
    ("duration", "12s"),
    ("topology.apps", "2"),
    ("workload.work", "2s"),
    ("workload.slow-per-mille", "0"),
    ("workload.patience", "8s"),
];

/// Sections of a second.
const SECONDS: &[(&str, &str)] = &[("workload.work", "1s"), ("workload.slow-per-mille", "0")];

/// Work of twice the lease, which a watchdog renews.
const RENEWED: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "2s"),
    ("workload.slow-per-mille", "300"),
    ("workload.deadline-check", "false"),
];

/// Work that outlives the lease, of clients that stop at it: their late release finds the next
/// holder's record.
const OVERRUN: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "1500ms"),
    ("workload.slow-per-mille", "300"),
    ("workload.deadline-check", "false"),
];

/// The file is synchronised before every reply.
const SYNCHRONISED: &[(&str, &str)] = &[
    ("topology.apps", "1"),
    ("workload.think", "20ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("topology.redis-persistence", "aof-always"),
    ("duration", "3s"),
];

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    untried(
        "c1",
        "基于缓存中间件的分布式锁是目前秒杀场景中应用最广泛的方案。",
        "Cache locks are the most widely used in flash sales today.",
        "a statement about what people use; no storm can tell",
        "这是关于业界使用情况的陈述，风暴无法判断",
    ),
    tried(
        "c2",
        "其中NX保证只有键不存在时才能设置成功",
        "NX lets a SET succeed only where there is no such key.",
        Reading::Always,
        &[
            arm(
                "eight clients: somebody is refused",
                "八个客户端：有人被拒绝",
                REDIS.set(QUEUE),
                Measure::RecordRefused,
                Prediction::EachTime,
            ),
            arm(
                "eight clients: nobody is promised the lock beside another",
                "八个客户端：没有两人同时被授予",
                REDIS.set(QUEUE),
                DOUBLE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "c3",
        "PX设置过期时间防止死锁",
        "PX sets an expiry, which prevents that a dead holder locks for ever.",
        Reading::Always,
        &[arm("the holder dies", "持有者崩溃", REDIS.struck(HOLDER_DIES), LEAK, Prediction::Never)],
    ),
    tried(
        "c4",
        "用于在释放锁时验证锁的持有者身份，避免误删其他线程持有的锁。",
        "The unique value proves the holder at the release, so that nobody deletes another's lock.",
        Reading::Always,
        &[
            arm(
                "compared: work beyond the lease",
                "比较持有者：业务超过租约",
                REDIS.set(OVERRUN),
                WRONG_RELEASE,
                Prediction::Never,
            ),
            arm(
                "not compared (a plain DEL)",
                "不比较（直接 DEL）",
                REDIS.with("planted/bare-del").set(OVERRUN),
                WRONG_RELEASE,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "c5",
        "释放锁时不能直接删除键，而应通过Lua脚本保证\"判断锁归属\"和\"删除锁\"两个操作的原子性",
        "The key must not simply be deleted; a Lua script must compare and delete as one.",
        Reading::Always,
        &[
            arm("the script", "脚本", REDIS.set(OVERRUN), WRONG_RELEASE, Prediction::Never),
            arm(
                "GET, then DEL, and the holder stands still between them",
                "先 GET 再 DEL，持有者在两者之间停顿",
                REDIS
                    .with("planted/get-then-del")
                    .set(&[
                        ("lock.lease", "1s"),
                        ("workload.slow-per-mille", "0"),
                        ("workload.work", "900ms"),
                    ])
                    .struck(BETWEEN),
                WRONG_RELEASE,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "c6",
        "由于主从复制存在延迟，主节点加锁成功后尚未同步到从节点时主节点宕机，从节点提升为主节点后锁信息丢失，可能导致两个客户端同时持有锁。",
        "Replication lags: a master may die after it granted the lock and before a replica has it; the replica is promoted without it, and two may hold the lock.",
        Reading::Possible,
        &[arm(
            "replication stands still, the master's machine dies",
            "复制停滞，主节点机器崩溃",
            REDIS_FAILOVER.struck(LAGGING_FAILOVER),
            DOUBLE,
            Prediction::Sometimes,
        )],
    ),
    tried(
        "c7",
        "从而降低单点故障带来的风险。",
        "The lock on several servers lowers the risk of a single failure.",
        Reading::Graded,
        &[
            arm(
                "one of five servers dies",
                "五台中的一台崩溃",
                REDLOCK.struck(ONE_OF_FIVE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "one of the majority comes back empty",
                "多数派中的一台失忆重启",
                REDLOCK.set(LONG_SECTIONS).struck(AMNESIA),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "c8",
        "缓存方案的核心优势是性能极高，读写操作均在内存中完成，延迟在毫秒级别",
        "Cache locks are very fast: in memory, a latency of milliseconds.",
        Reading::Always,
        &[
            arm(
                "acquire, one client alone; links of 0.5 ms",
                "加锁，单个客户端；链路 0.5 毫秒",
                REDIS.set(ALONE),
                Measure::Acquire,
                Prediction::AtMost(10_000),
            ),
            arm(
                "the same, synchronised before every reply",
                "同样，每次应答前落盘",
                REDIS.set(SYNCHRONISED),
                Measure::Acquire,
                Prediction::AtMost(10_000),
            ),
        ],
    ),
    tried(
        "c9",
        "能够轻松支撑秒杀场景的高并发请求。",
        "… and easily bear a flash sale's concurrency. (Tried: a thousand sales per second of one sku; the time a lock takes is that of messages and sections, a Redis server's processor costs nothing here.)",
        Reading::Always,
        &[arm(
            "16 clients at one sku",
            "16 个客户端抢一个商品",
            REDIS.set(CROWD),
            Measure::SalesPerSecond,
            Prediction::AtLeast(1_000),
        )],
    ),
    untried(
        "c10",
        "过期时间机制天然避免了死锁问题",
        "Expiry by its nature avoids deadlock.",
        "a hung holder behind a watchdog outlives every storm here, for storms end by healing; what \
         is measured of it is in the watchdog's own tests",
        "看门狗背后挂住的持有者只有在故障不恢复时才会永远占锁，而风暴总以恢复告终；相关测量见看门狗自己的测试",
    ),
    tried(
        "c11",
        "如果业务执行时间超过锁的过期时间，锁会自动释放，其他线程获取锁后进入临界区，导致并发问题。",
        "If the work outlasts the expiry, the lock is released by itself, others enter, and two are inside.",
        Reading::Possible,
        &[arm(
            "work of twice the lease, clients that do not look at the clock",
            "业务时间是租约的两倍，客户端不看时钟",
            REDIS_LONG_WORK,
            INSIDE,
            Prediction::Sometimes,
        )],
    ),
    tried(
        "c12",
        "解决方案是引入看门狗机制，在锁即将过期时自动续期。",
        "The solution is a watchdog that renews the lock before it expires.",
        Reading::Graded,
        &[
            arm(
                "work of twice the lease",
                "业务时间是租约的两倍",
                REDIS.with("redis-watchdog").set(RENEWED),
                INSIDE,
                Prediction::Never,
            ),
            arm(
                "the holder, watchdog and all, stands still beyond the lease",
                "持有者连同看门狗停顿超过租约",
                REDIS_CARELESS.with("redis-watchdog").struck(PAUSE),
                INSIDE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "c13",
        "且在极端网络分区场景下仍存在理论上的不安全可能。",
        "… and in extreme partitions the lock on several servers may still be unsafe.",
        Reading::Possible,
        &[
            arm(
                "the holder and two of five servers are parted from the rest",
                "持有者与五台中的两台被隔开",
                REDLOCK.set(LONG_SECTIONS_OF_THREE).struck(PARTED),
                TWICE,
                Prediction::Sometimes,
            ),
            arm(
                "the holder is parted from the stock as it sells; its message arrives after the lease",
                "持有者售出时与库存断开，消息在租约之后才到",
                REDLOCK_CARELESS.struck(CUT_FROM_STOCK),
                TWICE,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "c14",
        "此外，缓存方案本身不支持可重入，需要通过在值中记录持有者信息和重入次数来实现。",
        "Cache locks are not reentrant by themselves; owner and count must be recorded.",
        Reading::Always,
        &[
            arm(
                "owner and expiry only: its owner is refused",
                "只有持有者与到期时间：自己也被拒绝",
                REDIS.set(REENTERED),
                Measure::RefusedItsOwner,
                Prediction::EachTime,
            ),
            arm(
                "owner and count",
                "记录持有者与次数",
                REDIS.with("redis-reentrant").set(REENTERED),
                Measure::RefusedItsOwner,
                Prediction::Never,
            ),
        ],
    ),
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
        "Consistency of cache locks: eventual. (Tried: whether what was acknowledged comes back in the end.)",
        Reading::Always,
        &[arm(
            "replication stands still, the master dies: an acknowledged record is lost for good",
            "复制停滞，主节点崩溃：已确认的记录永远丢失",
            REDIS_FAILOVER.struck(LAGGING_FAILOVER),
            Measure::Found(&[Kind::GrantLost]),
            Prediction::Never,
        )],
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
                Measure::MostBypasses,
                Prediction::AtLeast(1),
            ),
            arm(
                "redis-fair, with a queue beside the record",
                "redis-fair：记录旁有队列",
                REDIS.with("redis-fair").set(QUEUE),
                Measure::MostBypasses,
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

/// As [`LONG_SECTIONS`], of three clients.
const LONG_SECTIONS_OF_THREE: &[(&str, &str)] = &[
    ("duration", "12s"),
    ("workload.work", "1s"),
    ("workload.slow-per-mille", "0"),
    ("workload.patience", "8s"),
];

/// The holder stands still when it has invoked its release.
const BETWEEN: &str = r#"
[[fault]]
kind = "slow-link"
from = ["app-1"]
to = ["redis-1"]
extra = "400ms"
after = "app-1 read 2 applied"
for = "4s"
"#;

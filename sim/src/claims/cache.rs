//! What the text says of locks in caches and how they work.

use super::conditions::{
    HOLDER_DIES, HOLDER_HANGS, LAGGING_FAILOVER, LONG_WORK, ONE_OF_FIVE, PAUSE, POSTGRES, REDIS,
    REDIS_CARELESS, REDIS_FAILOVER, REDIS_LONG_WORK, REDLOCK, REDLOCK_CARELESS,
};
use super::loads::{CALM_PAIR, FORTY_EIGHT, FOUR, OPPOSITE_ORDER, QUEUE, REENTERED};
use super::measure::{INSIDE, LEAK, TWICE};
use super::{Claim, Measure, Prediction, Reading, arm, tried, untried};
use crate::check::Kind;

const DOUBLE: Measure = Measure::Found(&[Kind::DoubleGrant]);

const WRONG_RELEASE: Measure = Measure::Found(&[Kind::WrongRelease]);

/// A holder and two of five servers are parted from the rest.
const PARTED: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1", "redis-1", "redis-2"]
to = ["app-2", "app-3", "redis-3", "redis-4", "redis-5"]
after = "app-1 acquire 3 returned"
for = "4s"
"#;

/// The holder's link to the stock holds up for six seconds what it sells with, which is longer
/// than its lease.
const FAR_FROM_STOCK: &str = r#"
[[fault]]
kind = "slow-link"
from = ["app-1"]
to = ["stock-1"]
extra = "6s"
after = "app-1 read 3 applied"
delay = "5ms"
for = "1s"
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
    ("topology.apps", "2"),
    ("workload.think", "200ms"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("topology.redis-persistence", "aof-always"),
    ("duration", "5s"),
];

/// Leases of a second, which a hang outlasts.
const SECOND_OF_LEASE: &[(&str, &str)] =
    &[("lock.lease", "1s"), ("workload.slow-per-mille", "0"), ("duration", "12s")];

/// As [`LONG_SECTIONS`], of three clients.
const LONG_SECTIONS_OF_THREE: &[(&str, &str)] = &[
    ("duration", "12s"),
    ("workload.work", "1s"),
    ("workload.slow-per-mille", "0"),
    ("workload.patience", "8s"),
];

/// The holder and the server are so far apart that a lease ends between two commands.
const BETWEEN: &str = r#"
[[fault]]
kind = "slow-link"
from = ["app-1"]
to = ["redis-1"]
extra = "240ms"
after = "app-1 read 2 applied"
for = "4s"
"#;

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
        "c23",
        "其核心思路是利用缓存系统原子性的SET命令，在缓存中设置一个带有唯一标识和过期时间的键值对来表示锁。",
        "At heart the cache's SET is atomic: one command writes a key with a unique value and an expiry, and that is the lock.",
        Reading::Always,
        &[
            arm(
                "one SET with NX and PX, eight clients: two hold it",
                "一条带 NX 与 PX 的 SET，八个客户端：两人同时持有",
                REDIS.set(QUEUE),
                DOUBLE,
                Prediction::Never,
            ),
            arm(
                "looked first, then written over, which is not atomic: two hold it",
                "先查看再写入，并非原子：两人同时持有",
                REDIS.with("planted/get-then-set").set(QUEUE),
                DOUBLE,
                Prediction::Sometimes,
            ),
        ],
    ),
    tried(
        "c2",
        "获取锁时执行SET lock_key unique_value NX PX expire_time，其中NX保证只有键不存在时才能设置成功",
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
                "GET, then DEL, and the lease ends between them",
                "先 GET 再 DEL，租约在两者之间到期",
                REDIS
                    .with("planted/get-then-del")
                    .set(&[
                        ("lock.lease", "1s"),
                        ("workload.slow-per-mille", "0"),
                        ("workload.work", "500ms"),
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
        "c21",
        "通过向多个独立节点依次申请锁，超过半数节点加锁成功且总耗时小于锁有效期时才算获取成功",
        "The lock on several servers asks independent nodes one after another and is granted only when more than half have granted it within the lease.",
        Reading::Graded,
        &[
            arm(
                "more than half of five: two hold it",
                "五台中过半数：两人同时持有",
                REDLOCK.set(QUEUE),
                DOUBLE,
                Prediction::Never,
            ),
            arm(
                "half is taken for most: two hold it, if most are needed",
                "把半数当成多数：若必须过半数，则两人会同时持有",
                REDLOCK.with("planted/half-is-enough").set(QUEUE),
                DOUBLE,
                Prediction::Sometimes,
            ),
        ],
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
        Reading::Graded,
        &[
            arm(
                "the lock table, which commits a row, two clients that seldom meet",
                "锁表（需提交一行），两个很少相遇的客户端",
                POSTGRES.with("pg-lock-table").set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock redis",
                "redis 锁",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
            arm(
                "the lock redis, synchronised to disk before every reply",
                "redis 锁，每次应答前落盘",
                REDIS.set(SYNCHRONISED),
                Measure::Acquire,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
        ],
    )
    .noted(
        "Tried: time of an uncontended acquire, against the lock table; in this cost model a Redis server's processor costs nothing.",
        "检验：无人争抢时加锁的耗时，与锁表相比；在此成本模型中，Redis 的处理器不计耗时。",
    ),
    tried(
        "c9",
        "能够轻松支撑秒杀场景的高并发请求。",
        "… and easily bear a flash sale's concurrency.",
        Reading::Always,
        &[
            arm(
                "the lock redis, 4 clients at one sku",
                "redis 锁，4 个客户端抢一个商品",
                REDIS.set(FOUR),
                Measure::SalesPerSecond,
                Prediction::Nothing,
            ),
            arm(
                "48 clients at the same sku",
                "48 个客户端抢同一个商品",
                REDIS.set(FORTY_EIGHT),
                Measure::SalesPerSecond,
                Prediction::AtLeastOf { arm: 0, percent: 90 },
            ),
        ],
    )
    .noted(
        "Tried: whether one sku sells as fast to 48 clients as to 4; in this cost model a Redis server's processor costs nothing.",
        "检验：48 个客户端抢一个商品时，成交是否与 4 个时一样快；在此成本模型中，Redis 的处理器不计耗时。",
    ),
    tried(
        "c10",
        "过期时间机制天然避免了死锁问题",
        "Expiry by its nature avoids deadlock.",
        Reading::Always,
        &[
            arm(
                "the holder dies",
                "持有者崩溃",
                REDIS.set(SECOND_OF_LEASE).struck(HOLDER_DIES),
                Measure::LongestClosed,
                Prediction::AtMost(3_000),
            ),
            arm(
                "the holder's work hangs for 6 s, no watchdog",
                "持有者的业务挂起 6 秒，没有看门狗",
                REDIS.set(SECOND_OF_LEASE).struck(HOLDER_HANGS),
                Measure::LongestClosed,
                Prediction::AtMost(3_000),
            ),
            arm(
                "the same, and a watchdog renews for the hung holder",
                "同样，但看门狗替挂起的持有者不断续期",
                REDIS.with("redis-watchdog").set(SECOND_OF_LEASE).struck(HOLDER_HANGS),
                Measure::LongestClosed,
                Prediction::AtMost(3_000),
            ),
            arm(
                "two locks in opposite order, and a watchdog renews both",
                "以相反顺序取两把锁，看门狗给两把都续期",
                REDIS.with("redis-watchdog").set(OPPOSITE_ORDER),
                Measure::Found(&[Kind::Deadlock]),
                Prediction::Never,
            ),
        ],
    )
    .noted(
        "Tried: leases of a second; the longest time without a grant.",
        "检验：租约一秒；最长多久无人获锁。",
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
                REDIS.with("redis-watchdog").set(LONG_WORK),
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
                "the network holds up what the holder sells with until its lease is over",
                "网络把持有者的售出消息扣到租约之后",
                REDLOCK_CARELESS.struck(FAR_FROM_STOCK),
                TWICE,
                Prediction::Sometimes,
            ),
        ],
    ),
    untried(
        "c22",
        "虽然多节点算法可以缓解，但也增加了实现复杂度和运维成本",
        "The lock on several servers mitigates this, and adds complexity and cost of running.",
        "complexity and cost are no measures of a run; what it mitigates is c7",
        "复杂度与成本不是运行可以度量的；缓解的效果见 c7",
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
];

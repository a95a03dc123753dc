//! What the text says of locks in coordination services.

use super::conditions::{HOLDER_DIES, LEADER_AWAY, LEADER_DIES, LONGER, REDIS, ZOOKEEPER};
use super::loads::{CALM_PAIR, CROWD, OPPOSITE_ORDER, QUEUE, REDIS_AT_ONE_SKU, REENTERED};
use super::measure::{LEAK, TWICE};
use super::{Claim, Measure, Prediction, Reading, Storm, arm, tried, untried};
use crate::check::Kind;

const DEADLOCK: Measure = Measure::Found(&[Kind::Deadlock]);

/// The holder is cut off for half of its session.
const BRIEFLY_CUT: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["zk-1", "zk-2", "zk-3"]
after = "app-1 read 3 applied"
for = "800ms"
"#;

/// For twice its session.
const CUT_FOR_LONG: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["zk-1", "zk-2", "zk-3"]
after = "app-1 read 3 applied"
for = "5s"
"#;

/// The holder's connections are reset.
const RESET: &str = r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["zk-1", "zk-2", "zk-3"]
after = "app-1 read 3 applied"
"#;

/// A hundred milliseconds more between the leader and the others, each way.
const FAR_APART: &str = r#"
[[fault]]
kind = "slow-link"
from = ["zk-3"]
to = ["zk-1", "zk-2"]
extra = "100ms"
at = "500ms"
"#;

/// One of three dies for good.
const ONE_OF_THREE: &str = r#"
[[fault]]
kind = "machine-crash"
node = "zk-3"
after = "app-1 acquire 3 returned"
"#;

/// The only one is away for eight seconds.
const THE_ONLY_ONE: &str = r#"
[[fault]]
kind = "machine-crash"
node = "zk-1"
after = "app-1 acquire 3 returned"
for = "8s"
"#;

/// Two of three are away for eight seconds.
const TWO_OF_THREE: &str = r#"
[[fault]]
kind = "machine-crash"
node = "zk-3"
after = "app-1 acquire 3 returned"
for = "8s"

[[fault]]
kind = "machine-crash"
node = "zk-2"
after = "app-1 acquire 3 returned"
for = "8s"
"#;

/// A hundred milliseconds more between the master and its replicas, each way.
const REPLICAS_FAR_APART: &str = r#"
[[fault]]
kind = "slow-link"
from = ["redis-1"]
to = ["redis-2", "redis-3"]
extra = "100ms"
at = "500ms"
"#;

/// The leader is behind a cut when it dies.
const LEADER_DIES_CUT_OFF: &str = r#"
[[fault]]
kind = "partition"
from = ["zk-3"]
to = ["zk-1", "zk-2"]
after = "app-1 acquire 2 invoked"
for = "3s"

[[fault]]
kind = "machine-crash"
node = "zk-3"
after = "app-1 acquire 2 returned"
delay = "150ms"
for = "4s"
"#;

/// Work of three seconds that a cut meets.
const WORKING: &[(&str, &str)] = &[
    ("workload.work", "3s"),
    ("workload.slow-per-mille", "0"),
    ("workload.deadline-check", "false"),
    ("workload.patience", "12s"),
    ("workload.think", "20ms"),
    ("duration", "40s"),
];

/// Six clients, who mostly think.
const THINKING: &[(&str, &str)] = &[
    ("topology.apps", "6"),
    ("workload.think", "3s"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("duration", "15s"),
];

/// A master with replicas that must acknowledge.
const REDIS_WAIT: Storm = Storm { scenario: "redis-failover", lock: "redis-wait", ..REDIS };

/// The same six clients, who have patience with replicas far away.
const THINKING_AND_WAITING: &[(&str, &str)] = &[
    ("topology.apps", "6"),
    ("workload.think", "3s"),
    ("workload.work", "1ms"),
    ("workload.slow-per-mille", "0"),
    ("lock.wait-timeout", "400ms"),
    ("lock.command-timeout", "1s"),
    ("duration", "15s"),
];

/// One server.
const SINGLE: Storm = Storm { scenario: "zookeeper-single", ..ZOOKEEPER };

/// Its sentences.
pub const CLAIMS: &[Claim] = &[
    tried(
        "z1",
        "基于协调服务的分布式锁利用其临时顺序节点和Watcher监听机制来实现。",
        "Ephemeral sequential nodes and watches make a lock.",
        Reading::Always,
        &[
            arm(
                "eight clients, calm weather",
                "八个客户端，无故障",
                ZOOKEEPER.set(QUEUE),
                TWICE,
                Prediction::Never,
            ),
            arm(
                "nobody waits for ever",
                "没有人永远等待",
                ZOOKEEPER.set(QUEUE),
                LEAK,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z2",
        "临时节点的生命周期与客户端会话绑定，会话断开后节点自动删除",
        "An ephemeral node lives as long as its client's session: when the session is disconnected the node is deleted.",
        Reading::Always,
        &[
            arm(
                "the connections are reset",
                "连接被重置",
                ZOOKEEPER.set(WORKING).struck(RESET),
                Measure::SessionExpired,
                Prediction::EachTime,
            ),
            arm(
                "disconnected for 0.8 s, the session's timeout is 2 s",
                "断开 0.8 秒，会话超时 2 秒",
                ZOOKEEPER.set(WORKING).struck(BRIEFLY_CUT),
                Measure::SessionExpired,
                Prediction::EachTime,
            ),
            arm(
                "disconnected for 5 s",
                "断开 5 秒",
                ZOOKEEPER.set(WORKING).struck(CUT_FOR_LONG),
                Measure::SessionExpired,
                Prediction::EachTime,
            ),
        ],
    ),
    tried(
        "z3",
        "从根本上避免了死锁。",
        "… which fundamentally avoids deadlock.",
        Reading::Always,
        &[
            arm(
                "the holder dies",
                "持有者崩溃",
                ZOOKEEPER.struck(HOLDER_DIES),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "two locks in opposite order",
                "以相反顺序取两把锁",
                ZOOKEEPER.set(OPPOSITE_ORDER),
                DEADLOCK,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z4",
        "客户端在指定锁路径下创建一个临时顺序节点，然后获取该路径下所有子节点，判断自己创建的节点是否是序号最小的。如果是，则获取锁成功；如果不是，则监听前一个节点的删除事件，当前一个节点被删除（锁被释放）时收到通知，再次尝试获取锁。",
        "A client creates an ephemeral sequential node, and holds the lock if its number is the smallest. Whoever is not first watches the node before it, is told when that is deleted, and tries again.",
        Reading::Always,
        &[
            arm(
                "eight clients: nobody is left waiting",
                "八个客户端：没有人被遗忘",
                ZOOKEEPER.set(QUEUE),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "the leader dies and comes back",
                "领导者崩溃后恢复",
                ZOOKEEPER.struck(LEADER_DIES),
                LEAK,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z5",
        "释放锁时只需删除自己创建的临时节点即可，会话异常断开时节点也会自动删除。",
        "To release is to delete one's node; when a session ends abnormally the node is deleted too.",
        Reading::Always,
        &[
            arm(
                "the holder dies: somebody else is granted the lock",
                "持有者崩溃：锁被授予他人",
                ZOOKEEPER.struck(HOLDER_DIES),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "the holder dies: the longest time without a grant, ms; the session's timeout is 2 s",
                "持有者崩溃：最长无人获锁的时间；会话超时 2 秒",
                ZOOKEEPER.struck(HOLDER_DIES),
                Measure::LongestClosed,
                Prediction::AtMost(4_000),
            ),
        ],
    ),
    tried(
        "z6",
        "协调服务方案的最大优势是强一致性和高可靠性。基于一致性协议保证数据在集群中的强一致，不存在缓存方案中主从复制延迟导致的锁丢失问题。",
        "Consistency and reliability are its greatest advantage. A consensus protocol keeps the servers consistent: no lock is lost by lagging replication.",
        Reading::Always,
        &[
            arm(
                "the leader dies and comes back",
                "领导者崩溃后恢复",
                ZOOKEEPER.struck(LEADER_DIES),
                Measure::Found(&[Kind::GrantLost, Kind::DoubleGrant, Kind::BroadcastBroken]),
                Prediction::Never,
            ),
            arm(
                "the leader dies behind a cut",
                "领导者在断网后崩溃",
                ZOOKEEPER.struck(LEADER_DIES_CUT_OFF),
                Measure::Found(&[Kind::GrantLost, Kind::DoubleGrant, Kind::BroadcastBroken]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z7",
        "临时节点机制天然解决了死锁问题",
        "Ephemeral nodes by their nature solve deadlock.",
        Reading::Always,
        &[arm(
            "two locks in opposite order",
            "以相反顺序取两把锁",
            ZOOKEEPER.set(OPPOSITE_ORDER),
            DEADLOCK,
            Prediction::Never,
        )],
    ),
    tried(
        "z8",
        "Watcher机制实现了锁的公平性——按照节点创建顺序依次获取锁，避免了惊群效应。",
        "Watches make the lock fair: granted in the order of the nodes, without a thundering herd.",
        Reading::Always,
        &[arm(
            "eight clients",
            "八个客户端",
            ZOOKEEPER.set(QUEUE),
            Measure::MostBypasses,
            Prediction::AtMost(0),
        )],
    )
    .noted(
        "Tried: how often a waiter is passed over.",
        "检验：等待者被越过多少次。",
    ),
    tried(
        "z9",
        "可重入性也可以通过在节点中记录持有者信息来实现。",
        "Reentrancy can be had by recording the holder in the node.",
        Reading::Always,
        &[
            arm(
                "zookeeper-reentrant: its owner is refused",
                "zookeeper-reentrant：持有者被拒绝",
                ZOOKEEPER.with("zookeeper-reentrant").set(REENTERED),
                Measure::RefusedItsOwner,
                Prediction::Never,
            ),
            arm(
                "and nobody else is let in",
                "且不放他人进入",
                ZOOKEEPER.with("zookeeper-reentrant").set(REENTERED),
                TWICE,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z10",
        "协调服务的写入性能远低于缓存系统",
        "A coordination service writes much more slowly than a cache.",
        Reading::Always,
        &[
            arm(
                "the lock redis, two clients that seldom meet: acquire",
                "redis 锁，两个很少相遇的客户端：加锁",
                REDIS.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock zookeeper",
                "zookeeper 锁",
                ZOOKEEPER.set(CALM_PAIR),
                Measure::Acquire,
                Prediction::AtLeastOf { arm: 0, percent: 200 },
            ),
        ],
    ),
    tried(
        "z11",
        "每次创建和删除节点都需要经过一致性协议的多轮投票",
        "Each creation and deletion of a node takes several rounds of votes.",
        Reading::Always,
        &[
            arm(
                "one round: Redis and WAIT, the fastest acquire",
                "一轮：Redis 加 WAIT，最快的一次加锁",
                REDIS_WAIT.set(THINKING_AND_WAITING).struck(REPLICAS_FAR_APART),
                Measure::FastestAcquire,
                Prediction::Nothing,
            ),
            arm(
                "the lock zookeeper, which creates a node",
                "zookeeper 锁，需要创建一个节点",
                ZOOKEEPER.set(THINKING).struck(FAR_APART),
                Measure::FastestAcquire,
                Prediction::AtLeastOf { arm: 0, percent: 180 },
            ),
            arm(
                "for comparison: the same, all servers near each other",
                "对照：同样，服务器彼此很近",
                ZOOKEEPER.set(THINKING),
                Measure::FastestAcquire,
                Prediction::Nothing,
            ),
        ],
    )
    .noted(
        "Tried: all servers 100 ms further apart each way. WAIT asks replicas once and waits for their answers, which is one round; several rounds take twice as long at least.",
        "检验：所有服务器彼此再远 100 毫秒（单程）。WAIT 只问副本一次并等待应答，即一轮；多轮至少要两倍的时间。",
    ),
    tried(
        "z12",
        "延迟较高，吞吐量有限。",
        "Its latency is higher and its throughput limited.",
        Reading::Always,
        &[
            REDIS_AT_ONE_SKU,
            arm(
                "the lock zookeeper",
                "zookeeper 锁",
                ZOOKEEPER.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
        ],
    ),
    untried(
        "z13",
        "大量客户端同时创建节点和监听，可能给协调服务带来巨大压力，甚至触发集群限流。",
        "Many clients that create and watch nodes at once may press the service hard and make it throttle.",
        "the server throttles at a thousand outstanding requests, and a storm has at most 200 clients with one request each",
        "服务器在一千个未完成请求时才限流，而风暴最多 200 个客户端、每个一条请求",
    ),
    tried(
        "z14",
        "需要维护一个至少三节点的集群",
        "A cluster of at least three nodes is needed.",
        Reading::Graded,
        &[
            arm(
                "three servers, the leader is away",
                "三台服务器，领导者离开",
                ZOOKEEPER.set(LONGER).struck(LEADER_AWAY),
                Measure::LongestClosed,
                Prediction::Nothing,
            ),
            arm(
                "one server, which is away",
                "单台服务器离开",
                SINGLE.set(LONGER).struck(THE_ONLY_ONE),
                Measure::LongestClosed,
                Prediction::AtLeastOf { arm: 0, percent: 130 },
            ),
            arm(
                "three servers, two are away",
                "三台服务器，两台离开",
                ZOOKEEPER.set(LONGER).struck(TWO_OF_THREE),
                Measure::LongestClosed,
                Prediction::AtLeastOf { arm: 0, percent: 130 },
            ),
        ],
    )
    .noted(
        "Tried: the longest time without a grant when servers are away for eight seconds, against three that lose their leader.",
        "检验：服务器离开八秒时最长多久无人获锁，与三台中领导者离开相比。",
    ),
    untried(
        "z15",
        "此外，协调服务的部署和运维复杂度较高",
        "It is laborious to deploy and to run.",
        "labour is no measure of a run",
        "人力不是运行可以度量的",
    ),
    tried(
        "z16",
        "| 一致性 | 强（悲观锁） | 最终一致 | 强 |",
        "Consistency of coordination locks: strong.",
        Reading::Always,
        &[
            arm(
                "the leader dies behind a cut: what was lost or granted twice",
                "领导者在断网后崩溃：丢失或重复授予",
                ZOOKEEPER.struck(LEADER_DIES_CUT_OFF),
                Measure::Found(&[Kind::GrantLost, Kind::DoubleGrant, Kind::BroadcastBroken]),
                Prediction::Never,
            ),
            arm(
                "one of three dies",
                "三台中的一台崩溃",
                ZOOKEEPER.struck(ONE_OF_THREE),
                Measure::Found(&[Kind::GrantLost, Kind::DoubleGrant, Kind::BroadcastBroken]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z17",
        "| 死锁风险 | 悲观锁可能 | 过期时间可避免 | 无（临时节点） |",
        "Risk of deadlock of coordination locks: none.",
        Reading::Always,
        &[
            arm(
                "the holder dies",
                "持有者崩溃",
                ZOOKEEPER.struck(HOLDER_DIES),
                LEAK,
                Prediction::Never,
            ),
            arm(
                "two locks in opposite order",
                "以相反顺序取两把锁",
                ZOOKEEPER.set(OPPOSITE_ORDER),
                DEADLOCK,
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z18",
        "| 公平性 | 不保证 | 不保证 | 保证 |",
        "Fairness of coordination locks: guaranteed.",
        Reading::Always,
        &[
            arm(
                "eight clients",
                "八个客户端",
                ZOOKEEPER.set(QUEUE),
                Measure::Found(&[Kind::Unfair]),
                Prediction::Never,
            ),
            arm(
                "the leader dies and comes back",
                "领导者崩溃后恢复",
                ZOOKEEPER.struck(LEADER_DIES),
                Measure::Found(&[Kind::Unfair]),
                Prediction::Never,
            ),
        ],
    ),
    tried(
        "z19",
        "总体而言，协调服务分布式锁适用于对一致性要求极高、并发量相对可控的场景，如分布式任务调度、配置中心选主等，不太适合作为秒杀场景的核心锁。",
        "On the whole coordination locks suit what needs consistency and has a moderate load, and are not quite fit for the core of a flash sale.",
        Reading::Graded,
        &[
            REDIS_AT_ONE_SKU,
            arm(
                "the lock zookeeper: fewer",
                "zookeeper 锁：更少",
                ZOOKEEPER.set(CROWD),
                Measure::SalesPerSecond,
                Prediction::AtMostOf { arm: 0, percent: 80 },
            ),
        ],
    )
    .noted(
        "Tried: sales of one sku, against the lock redis in the same crowd.",
        "检验：抢一个商品的成交，与同一群客户端用 redis 锁相比。",
    ),
];

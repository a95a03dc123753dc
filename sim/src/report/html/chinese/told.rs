//! The sentences of findings, what came of them, and why.

use super::Form;

/// `check/sentence.rs`, `report/block.rs`.
pub(super) const SENTENCES: &[Form] = &[
    (
        "{} and {} were both promised {} for {} ({} … {}).",
        "{0} 和 {1} 同时被承诺持有 {2}，长达 {3}（{4} … {5}）。",
    ),
    (
        "{} accepted operations of {} and {} in turns ({} … {}): two were inside.",
        "{0} 交替接受了 {1} 与 {2} 的操作（{3} … {4}）：两者同时在内。",
    ),
    (
        "Of {} units at least {} were sold, and the counter says {} left.",
        "共 {0} 件，至少售出 {1} 件，而计数器显示还剩 {2} 件。",
    ),
    (
        "The record of {} for {} was deleted at {} by somebody else, {} before its promise ended.",
        "{0} 在 {1} 上的记录在 {2} 被他人删除，比承诺期限早 {3}。",
    ),
    (
        "Nobody held {} and nobody got it for {} ({} … {}), against a bound of {}.",
        "{0} 无人持有，却有 {1} 无人得到（{2} … {3}），上限为 {4}。",
    ),
    (
        "Nobody held {} and nobody got it for {} ({} … {}), against a bound of {}, behind a record of {}.",
        "{0} 无人持有，却有 {1} 无人得到（{2} … {3}），上限为 {4}；挡在前面的是 {5} 的记录。",
    ),
    (
        "Nobody held {} and nobody got it for {} ({} … {}), against a bound of {}, behind a record of {} without expiry.",
        "{0} 无人持有，却有 {1} 无人得到（{2} … {3}），上限为 {4}；挡在前面的是 {5} 的永不过期的记录。",
    ),
    (
        "{} accepted operations of {} after those of {}, who was granted {} later.",
        "{0} 在接受 {2} 的操作之后又接受了 {1} 的操作，而 {2} 更晚才获得 {3}。",
    ),
    (
        "A buyer was told at {} that nothing is left, and unit {} of {} was free all the time.",
        "一位买家在 {0} 被告知已售罄，而 {2} 件中的第 {1} 件一直未售。",
    ),
    (
        "A buyer was told at {} that nothing is left, and {} of {} units were free in the end.",
        "一位买家在 {0} 被告知已售罄，而最终 {2} 件中还有 {1} 件未售。",
    ),
    ("Order {} bought {} units: {}.", "订单 {0} 买到了 {1} 件：{2}。"),
    (
        "The buyer of order {} was told at {} that it is accepted, and it is not in the books.",
        "订单 {0} 的买家在 {1} 被告知已成交，而账上没有这笔订单。",
    ),
    (
        "Of {} units the counter says {} left, with {} reserved and {} sold: that does not add up.",
        "共 {0} 件，计数器显示剩 {1} 件、预留 {2} 件、售出 {3} 件：对不上账。",
    ),
    (
        "{} was told at {} that {} is released, though its record was gone since {} and no server had anything to release.",
        "{0} 在 {1} 被告知 {2} 已释放，而其记录自 {3} 起就已不在，没有服务器有可释放之物。",
    ),
    (
        "{} was told at {} that {} is renewed, though its record was gone since {} and no server renewed anything.",
        "{0} 在 {1} 被告知 {2} 已续期，而其记录自 {3} 起就已不在，没有服务器续了任何期。",
    ),
    (
        "{} lost {} at {} and was told nothing of it until {}.",
        "{0} 在 {2} 失去了 {1}，直到 {3} 都没有得到通知。",
    ),
    (
        "{} waited for {} ({} … {}), against a bound of {}: {}.",
        "{0} 等待了 {1}（{2} … {3}），上限为 {4}：{5}。",
    ),
    (
        "For {} ({} … {}), against a bound of {}, they waited in a circle: {}.",
        "有 {0}（{1} … {2}，上限为 {3}）它们相互等待成环：{4}。",
    ),
    ("{} waits for {}, which {} holds", "{0} 等待 {1}，由 {2} 持有"),
    ("{} waits for {}, which nobody holds", "{0} 等待 {1}，无人持有"),
    (
        "{} was passed over {} times while it waited for {} ({} … {}); the lock allows {}.",
        "{0} 在等待 {2} 期间（{3} … {4}）被插队 {1} 次；该锁允许 {5} 次。",
    ),
    (
        "The record of {} for {} {}, {} before its promise ended.",
        "{0} 在 {1} 上的记录：{2}，比承诺期限早 {3}。",
    ),
    ("was missing when {} became master", "{0} 升为主节点时没有这条记录"),
    ("was erased when {} resynchronised", "{0} 全量同步时被抹去"),
    ("was lost when {} crashed", "{0} 崩溃时丢失"),
    ("was overwritten at {} by somebody else", "在 {0} 被他人覆盖"),
    ("was deleted at {} by somebody else", "在 {0} 被他人删除"),
    ("expired at {}", "在 {0} 过期"),
    (
        "{} believed to hold {} for {} beyond its promise ({} … {}).",
        "{0} 在承诺之外仍以为持有 {1}，长达 {2}（{3} … {4}）。",
    ),
    (
        "{} was granted {} with token {}, after {} with token {}.",
        "{0} 获得 {1} 时令牌为 {2}，而此前 {3} 的令牌为 {4}。",
    ),
    (
        "The fence refused {} with {}, the newest holder of {}: token {} was registered.",
        "栅栏拒绝了 {2} 的最新持有者 {0}（{1}）：已登记的令牌为 {3}。",
    ),
    ("no token", "无令牌"),
    ("token {}", "令牌 {0}"),
    (
        "Unit {} was sold under order {}, of only {} units.",
        "第 {0} 件以订单 {1} 售出，而总共只有 {2} 件。",
    ),
    ("The only unit, {}, was sold {}: orders {}.", "唯一的一件（{0}）被售出{1}：订单 {2}。"),
    ("Unit {} was sold {}: orders {}.", "第 {0} 件被售出{1}：订单 {2}。"),
    ("twice", "两次"),
    ("{} times", "{0} 次"),
    ("stock 1, sold {} (oversold by {}).", "库存 1 件，售出 {0} 件（超卖 {1} 件）。"),
    (
        "In all {} sales from a stock of {}, {} too many.",
        "库存 {1} 件，共售出 {0} 件，多卖 {2} 件。",
    ),
    (
        "{} In all {} sales from a stock of {}, {} too many.",
        "{0}库存 {2} 件，共售出 {1} 件，多卖 {3} 件。",
    ),
    ("the same trace in a fresh process", "在全新进程中轨迹相同"),
    ("the same trace on a fresh thread", "在全新线程中轨迹相同"),
    ("another trace", "轨迹不同"),
    ("{}: confirmed", "{0}：已确认"),
    ("{}: confirmed (try {})", "{0}：已确认（第 {1} 次尝试）"),
    ("{}: {} confirmed (try {}), {} did not come", "{0}：{1} 已确认（第 {2} 次尝试），{3} 未出现"),
    ("{}: not confirmed (the last try was {})", "{0}：未确认（最后一次为 {1}）"),
    ("{}: cannot express {}", "{0}：无法表达 {1}"),
    (
        "no plan that passes was found by changing one number, or one fault",
        "只改一个数或一个故障，没有找到能通过的计划",
    ),
    ("fault {}: {}: safe", "故障 {0}：{1}：安全"),
    ("{}: safe", "{0}：安全"),
    ("{}: safe by fence", "{0}：凭栅栏安全"),
    ("{}: inert", "{0}：无效故障"),
    ("without fault {}", "去掉故障 {0}"),
];

/// `report/why.rs`.
pub(super) const REASONS: &[Form] = &[
    (
        "One server granted the lock to both: what the lock writes there does not exclude the second.",
        "同一台服务器把锁授予了两者：这把锁写入的内容无法排除第二个。",
    ),
    (
        "The lock told its client of a grant that no server had applied.",
        "锁告知客户端已授予，而没有任何服务器执行过。",
    ),
    (
        "The lock told its client of a grant that no majority of its servers had applied.",
        "锁告知客户端已授予，而它的服务器中没有多数执行过。",
    ),
    (
        "The order was committed before the server that was promoted had it: replication is asynchronous, and a commit that was acknowledged may be lost. No lock keeps that.",
        "订单提交时，后来被提升的服务器还没有它：复制是异步的，已确认的提交可能丢失。任何锁都防不住这一点。",
    ),
    (
        "The lock let both in; what its servers did is not in the history, so neither is the reason.",
        "锁放行了两者；历史中没有服务器一侧，也就看不到原因。",
    ),
    ("There was no lock between them.", "两者之间没有锁。"),
    (
        "Somebody acted without a grant: that is not the lock's fault.",
        "有人未获授予就操作：这不是锁的错。",
    ),
    (
        "No two grants stood in each other's way: the fault is in what the holders did, not in the lock.",
        "没有两次授予相互冲突：错在持有者的行为，不在锁。",
    ),
    (
        "The lock was free and a waiter was not woken: what should tell it was lost, or went to somebody who is gone.",
        "锁已空闲而等待者未被唤醒：通知丢失了，或发给了已不在的人。",
    ),
    (
        "Each waits for a lock that the next one holds: take locks in one order, or with a wait that ends.",
        "每个都在等下一个持有的锁：应按统一顺序取锁，或设等待上限。",
    ),
    (
        "Each waits for a lock that the next one holds, and the sessions of all of them live, so that nothing ends it: take locks in one order, or with a wait that ends.",
        "每个都在等下一个持有的锁，而它们的会话都还活着，没有什么会结束这种等待：应按统一顺序取锁，或设等待上限。",
    ),
    (
        "Requests that came later were served first: the lock's queue does not keep its order.",
        "后来的请求先被服务：锁的队列不守顺序。",
    ),
    (
        "The lock told its holder that all is well when its record was gone: an answer must say what the server did.",
        "记录已不在，锁却告诉持有者一切正常：应答必须说明服务器实际做了什么。",
    ),
    (
        "Somebody overwrote a record that was not theirs: a request for the lock must set it only where there is none.",
        "有人覆盖了不属于自己的记录：请求锁时只能在没有记录时写入。",
    ),
    (
        "Two servers granted the lock at the same time, and the history does not show how both came to be masters.",
        "两台服务器同时授予了锁，历史未显示二者如何都成为主节点。",
    ),
    (
        "The record vanished while it was promised, and the history does not show how.",
        "记录在承诺期内消失，历史未显示原因。",
    ),
    (
        "Somebody removed a record that was not theirs: a release must compare the owner in the same step in which it deletes.",
        "有人删除了不属于自己的记录：释放时必须在同一步内比较持有者并删除。",
    ),
    (
        "{} restarted with an empty memory (no persistence), and {}, which replaced it afterwards, had no record either.",
        "{0} 重启后内存为空（无持久化），随后接替它的 {1} 也没有这条记录。",
    ),
    (
        "{} restarted with an empty memory (no persistence): the record was gone.",
        "{0} 重启后内存为空（无持久化）：记录没有了。",
    ),
    (
        "{}, the only server, restarted with an empty memory (no persistence) and granted the lock again.",
        "唯一的服务器 {0} 重启后内存为空（无持久化），又把锁授予了一次。",
    ),
    (
        "{} restarted with an empty memory (no persistence) before another was master in its place, and granted the lock again.",
        "{0} 在被接替之前就重启了，内存为空（无持久化），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (its commit was not on the disk), and {}, which replaced it afterwards, had no record either.",
        "{0} 重启后没有这条记录（其提交尚未落盘），随后接替它的 {1} 也没有这条记录。",
    ),
    (
        "{} restarted without the record (its commit was not on the disk): the record was gone.",
        "{0} 重启后没有这条记录（其提交尚未落盘）。",
    ),
    (
        "{}, the only server, restarted without the record (its commit was not on the disk) and granted the lock again.",
        "唯一的服务器 {0} 重启后没有这条记录（其提交尚未落盘），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (its commit was not on the disk) before another was master in its place, and granted the lock again.",
        "{0} 在被接替之前就重启后没有这条记录（其提交尚未落盘），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (no session outlives its server), and {}, which replaced it afterwards, had no record either.",
        "{0} 重启后没有这条记录（会话不会比服务器活得更久），随后接替它的 {1} 也没有这条记录。",
    ),
    (
        "{} restarted without the record (no session outlives its server): the record was gone.",
        "{0} 重启后没有这条记录（会话不会比服务器活得更久）。",
    ),
    (
        "{}, the only server, restarted without the record (no session outlives its server) and granted the lock again.",
        "唯一的服务器 {0} 重启后没有这条记录（会话不会比服务器活得更久），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (no session outlives its server) before another was master in its place, and granted the lock again.",
        "{0} 在被接替之前就重启后没有这条记录（会话不会比服务器活得更久），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (no snapshot had it), and {}, which replaced it afterwards, had no record either.",
        "{0} 重启后没有这条记录（没有快照包含它），随后接替它的 {1} 也没有这条记录。",
    ),
    (
        "{} restarted without the record (no snapshot had it): the record was gone.",
        "{0} 重启后没有这条记录（没有快照包含它）。",
    ),
    (
        "{}, the only server, restarted without the record (no snapshot had it) and granted the lock again.",
        "唯一的服务器 {0} 重启后没有这条记录（没有快照包含它），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (no snapshot had it) before another was master in its place, and granted the lock again.",
        "{0} 在被接替之前就重启后没有这条记录（没有快照包含它），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (its append-only file had lost it), and {}, which replaced it afterwards, had no record either.",
        "{0} 重启后没有这条记录（AOF 文件丢了它），随后接替它的 {1} 也没有这条记录。",
    ),
    (
        "{} restarted without the record (its append-only file had lost it): the record was gone.",
        "{0} 重启后没有这条记录（AOF 文件丢了它）。",
    ),
    (
        "{}, the only server, restarted without the record (its append-only file had lost it) and granted the lock again.",
        "唯一的服务器 {0} 重启后没有这条记录（AOF 文件丢了它），又把锁授予了一次。",
    ),
    (
        "{} restarted without the record (its append-only file had lost it) before another was master in its place, and granted the lock again.",
        "{0} 在被接替之前就重启后没有这条记录（AOF 文件丢了它），又把锁授予了一次。",
    ),
    (
        "The counter behind the tokens went back when {} restarted without its latest value (its commit was not on the disk).",
        "{0} 重启后没有最新值（其提交尚未落盘），令牌计数器随之倒退。",
    ),
    (
        "The counter behind the tokens went back when {} restarted without its latest value (no snapshot had it).",
        "{0} 重启后没有最新值（没有快照包含它），令牌计数器随之倒退。",
    ),
    (
        "The counter behind the tokens went back when {} restarted without its latest value (its append-only file had lost it).",
        "{0} 重启后没有最新值（AOF 文件丢了它），令牌计数器随之倒退。",
    ),
    (
        "{} had died and come back while it was being replaced: it granted the lock once more, and {} never had the record.",
        "{0} 在被接替期间死而复生：它又授予了一次锁，而 {1} 从未有过这条记录。",
    ),
    (
        "The lock was acknowledged before a replica had it; failover chose that replica.",
        "从节点尚未收到锁，客户端就已得到确认；故障转移恰好选中了那个从节点。",
    ),
    (
        "{} died before {} had the record: replication is asynchronous, and the client was told before.",
        "{0} 在 {1} 收到记录之前就死了：复制是异步的，而客户端早已得到确认。",
    ),
    (
        "{} could not be reached and was replaced by {}, which did not have the record.",
        "{0} 无法访问，被没有这条记录的 {1} 接替。",
    ),
    (
        "{} became master without the record: replication is asynchronous, and an acknowledged write may be lost.",
        "{0} 在没有这条记录的情况下升为主节点：复制是异步的，已确认的写入也可能丢失。",
    ),
    (
        "Split brain: {} was cut off and replaced by {}, and went on granting the lock to whoever still reached it.",
        "脑裂：{0} 被隔离并被 {1} 接替，却继续把锁授予仍能访问它的客户端。",
    ),
    (
        "Split brain: {} stood still and was replaced by {}; when it went on it granted the lock, for it had not been told.",
        "脑裂：{0} 停顿期间被 {1} 接替；恢复后它未得到通知，又授予了锁。",
    ),
    (
        "Split brain: {} was down and replaced by {}; it came back as a master with an empty memory and granted the lock before it was told to follow.",
        "脑裂：{0} 宕机后被 {1} 接替；它以空内存的主节点身份回来，在被告知改为从节点之前授予了锁。",
    ),
    (
        "Split brain: {} had been replaced by {} and granted the lock all the same.",
        "脑裂：{0} 已被 {1} 接替，却仍授予了锁。",
    ),
    (
        "A lease is kept as the wall time of its end, and the wall clock of {}, the new master, is {} ahead of {}'s: it ended the lease by so much too early.",
        "租约以到期的墙上时间保存，而新主节点 {0} 的墙上时钟比 {2} 快 {1}：租约因此提前这么多到期。",
    ),
    (
        "The wall clock of {} jumped {} ahead, and the lease was over before its time.",
        "{0} 的墙上时钟向前跳了 {1}，租约提前到期。",
    ),
    (
        "The clock of {} runs fast ({}): it ended the lease before its time by every other clock.",
        "{0} 的时钟偏快（{1}）：按其他时钟看，租约提前到期。",
    ),
    (
        "{} ended the lease before its time, and the history does not show why.",
        "{0} 提前结束了租约，历史未显示原因。",
    ),
    (
        "The holder stood still beyond its lease and went on where it was: it cannot know that the lease has ended, and no lock can stop it.",
        "持有者停顿超过租约后从原处继续：它无从知道租约已到期，没有锁能拦住它。",
    ),
    (
        "The clock of {}, which led, runs fast ({}): it heard nothing of the holder's session for a while and ended it before its timeout had passed by any other clock. The holder went on.",
        "当时的领导者 {0} 的时钟偏快（{1}）：它有一阵没有收到持有者会话的消息，按其他时钟看超时未到就结束了会话，而持有者继续工作。",
    ),
    (
        "{} ended the holder's session while the holder was at work, and the history does not show why.",
        "持有者还在工作时 {0} 结束了它的会话，历史未显示原因。",
    ),
    (
        "The holder stood still beyond its lease, and could notice only when it went on: its own look at the time is all that holds it back.",
        "持有者停顿超过了租约，恢复运行后才能察觉：能拦住它的只有它自己对时间的检查。",
    ),
    (
        "The holder stood still for longer than its session lasts: {} heard nothing of it and ended the session. The holder could notice only when it went on.",
        "持有者停顿的时间超过了会话超时：{0} 收不到它的消息，结束了会话。持有者恢复运行后才能察觉。",
    ),
    (
        "The holder stood still for longer than its session lasts: {} heard nothing of it, ended the session and let the next one in. The holder went on where it was: it cannot know, and no lock can stop it.",
        "持有者停顿的时间超过了会话超时：{0} 收不到它的消息，结束了会话并放行下一个。持有者从原处继续：它无从知道，没有锁能拦住它。",
    ),
    (
        "The holder's tasks {} stood still: {} heard nothing of its session and ended it, and the holder worked on.",
        "持有者的任务 {0} 停顿：{1} 收不到其会话的消息，结束了会话，而持有者仍在工作。",
    ),
    (
        "The holder was cut off from the ensemble for longer than its session lasts: {} ended the session and let the next one in, and the holder went on.",
        "持有者与集群断开的时间超过了会话超时：{0} 结束了会话并放行下一个，而持有者继续工作。",
    ),
    (
        "{} became primary, and the lock was in the memory of {} alone: what a session or a transaction holds is not replicated.",
        "{0} 成为主库，而锁只在 {1} 的内存中：会话或事务持有的锁不会被复制。",
    ),
    (
        "The connection that held the lock was reset: {} ended its session, and the lock with it, while the holder was at work.",
        "持锁的连接被重置：{0} 结束了它的会话，锁随之释放，而持有者还在工作。",
    ),
    (
        "The holder was cut off from {} for longer than its session may be idle: it ended the session and let the next one in, and the holder went on.",
        "持有者与 {0} 断开的时间超过了会话的空闲时限：服务器结束了会话并放行下一个，而持有者继续工作。",
    ),
    (
        "{} was struck, ended the holder's session and let the next one in, and the holder went on.",
        "{0} 遭受故障，结束了持有者的会话并放行下一个，而持有者继续工作。",
    ),
    (
        "What the holder sent came so late that {} had ended its session and let the next one in, and the holder went on.",
        "持有者发出的消息到得太晚，{0} 已结束其会话并放行下一个，而持有者继续工作。",
    ),
    (
        "The servers of the ensemble were struck, and nobody kept the holder's session alive: {} ended it and let the next one in, and the holder went on.",
        "集群的服务器遭受故障，无人维持持有者的会话：{0} 结束了会话并放行下一个，而持有者继续工作。",
    ),
    ("the leader", "领导者"),
    (
        "The holder died, and the ensemble kept its session, and with it its place, for longer than the lock promises.",
        "持有者已死，而集群保留其会话及其排队位置的时间超过了锁的承诺。",
    ),
    (
        "A place in the queue stayed after its owner had left it, for longer than the lock promises: its session lives, or the ensemble did not end it.",
        "队列中的一个位置在其主人离开后残留的时间超过了锁的承诺：它的会话还活着，或集群没有结束它。",
    ),
    (
        "The resource stood still while the holder was at work, and the lease ended meanwhile.",
        "持有者工作时资源停顿，租约在此期间到期。",
    ),
    (
        "The holder stood still for a while, and its work outlasted its lease: what is looked at before the work says nothing of the time after it.",
        "持有者停顿了一阵，工作时长超过了租约：工作前的检查说明不了之后的时间。",
    ),
    (
        "The network held up what the holder did, and its work outlasted its lease.",
        "网络拖延了持有者的操作，工作时长超过了租约。",
    ),
    (
        "The holder's clock runs slow: by its own reckoning the lease had not ended.",
        "持有者的时钟偏慢：按它自己的计算租约尚未到期。",
    ),
    (
        "The holder worked longer than its lease: what is looked at before the work says nothing of the time after it.",
        "持有者的工作时长超过了租约：工作前的检查说明不了之后的时间。",
    ),
    (
        "A cut held up an operation until its holder had left, and the resource cannot see that it comes too late.",
        "网络中断把一个操作拖到其持有者离开之后，而资源看不出它来得太晚。",
    ),
    (
        "A slow link held up an operation until its holder had left, and the resource cannot see that it comes too late.",
        "慢链路把一个操作拖到其持有者离开之后，而资源看不出它来得太晚。",
    ),
    (
        "An operation was still on its way when its holder had left, and the resource cannot see that it comes too late.",
        "持有者离开时还有一个操作在途，而资源看不出它来得太晚。",
    ),
    (
        "The record has no expiry, and whoever could remove it is gone.",
        "记录没有过期时间，而能删除它的人已不在。",
    ),
    (
        "The holder died, and its record outlived it by more than the lock promises.",
        "持有者已死，其记录残留的时间超过了锁的承诺。",
    ),
    (
        "The record outlived its holder by more than the lock promises.",
        "记录在持有者之后残留的时间超过了锁的承诺。",
    ),
    (
        "The counter behind the tokens went back when {} restarted with an empty memory (no persistence).",
        "{0} 重启后内存为空（无持久化），令牌计数器随之倒退。",
    ),
    (
        "The counter behind the tokens went back when a server without its latest value took over.",
        "没有最新值的服务器接替后，令牌计数器倒退了。",
    ),
    (
        "Two masters counted tokens, each for itself: {} had been replaced by {} and went on.",
        "两个主节点各自计数令牌：{0} 已被 {1} 接替却仍在继续。",
    ),
    ("The counter behind the tokens went back.", "令牌计数器倒退了。"),
    (
        "--fence full, in a test .fence(Fence::Full): the stock turns away whoever is not the newest holder",
        "--fence full，在测试中为 .fence(Fence::Full)：库存会拒绝一切不是最新持有者的操作",
    ),
];

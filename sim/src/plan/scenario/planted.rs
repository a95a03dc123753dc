//! The names of the locks with planted bugs and of their mended twins.
//!
//! They are known to plans and not listed among the product's locks.

use super::{LockKind, Needs};

/// Which servers it needs; a way to sell needs a database.
macro_rules! needs {
    (WayToSell) => {
        Needs::Database
    };
    ($needs:ident) => {
        Needs::$needs
    };
}

/// Whether it keeps a record at a server; a way to sell does not.
macro_rules! records {
    (WayToSell) => {
        false
    };
    ($needs:ident) => {
        true
    };
}

/// A planted bug and its twin.
macro_rules! pairs {
    ($($name:literal $needs:ident $tokens:literal $english:literal $chinese:literal,)*) => {
        &[$(
            LockKind {
                name: concat!("planted/", $name),
                english: concat!("planted bug: ", $english),
                chinese: concat!("埋入的缺陷：", $chinese),
                tokens: $tokens,
                records: records!($needs),
                needs: needs!($needs),
                planted: true,
            },
            LockKind {
                name: concat!("mended/", $name),
                english: concat!("mended twin of the planted bug: ", $english),
                chinese: concat!("已修复的对照：", $chinese),
                tokens: $tokens,
                records: records!($needs),
                needs: needs!($needs),
                planted: true,
            },
        )*]
    };
}

/// All pairs.
pub const PLANTED: &[LockKind] = pairs![
    "no-deadline" Master false "a holder has no deadline of its own" "持有者没有自己的期限",
    "bare-del" Master false "the release deletes whoever's record it finds" "释放时不看持有者直接删除",
    "get-then-del" Master false "the release compares, then deletes" "先比较再删除，不是一步",
    "setnx-then-expire" Master false "the record and its expiry are two commands" "写记录与设过期是两条命令",
    "waiters-renew" Master false "every try renews the record that it finds" "每次尝试都给别人的记录续期",
    "lease-cut-to-seconds" Master false "the lease is cut to whole seconds" "租约被截成整秒",
    "expire-in-seconds" Master false "renewed with milliseconds for seconds" "续期把毫秒当成秒",
    "loss-not-noticed" Master false "renewals fail and nobody is told" "续期失败却无人知晓",
    "renewal-not-retried" Master false "a failed renewal is the last one" "续期失败一次便不再续",
    "stale-renewal-entry" Master false "a lost lock is renewed no more when taken again" "丢锁后再次获取不再续期",
    "renewal-outlives-hold" Master false "the renewal goes on after the release" "释放之后仍在续期",
    "armed-by-callback" Master false "the renewal of a given-up acquire is armed" "放弃的获取仍启动续期",
    "renew-without-owner" Master false "renews whoever's record it finds" "续期不看持有者",
    "renew-by-set" Master false "the renewal takes the lock once more" "续期即重新写入",
    "resent-del" Master false "a release without an answer is sent again" "无应答的释放被重发",
    "own-record-as-new" Master false "an own record found is counted as new" "把自己的旧记录当成新租约",
    "counted-again" Master false "an acquire that is sent again is counted again" "重发的获取被再次计数",
    "ghost-in-queue" Master false "who left the queue without a word is waited for" "排队者悄然离开仍被等待",
    "lease-from-reply" Master false "the lease is counted from the answer" "租约从收到应答算起",
    "client-clock-expiry" Master false "clients judge by their own clocks" "由客户端时钟判断过期",
    "token-from-clock" Master true "tokens are times of the client" "令牌取自客户端时钟",
    "local-lock-kept" Master false "a lock lost in the store stays locked in the process" "库中丢锁后进程内仍锁着",
    "released-regardless" Master false "a lost lock is answered released" "锁已丢失仍答已释放",
    "released-at-once" Master false "the lock is released as soon as it is taken" "刚获取便释放",
    "get-then-set" Master false "looks first, then writes over" "先查看再覆盖写入",
    "one-owner-a-process" Master false "all attempts of a process are one owner" "同一进程的各次获取共用持有者",
    "open-on-timeout" Master false "goes in when it has waited long enough" "等待超时便放行",
    "open-on-error" Master false "goes in when the server cannot be asked" "服务不可用便放行",
    "token-before-lock" Master true "the token is counted before the lock is taken" "先取令牌后获取锁",
    "token-expires" Master true "the counter of tokens expires" "令牌计数器会过期",
    "woken-by-message-alone" Master false "a waiter looks only when a message wakes it" "等待者只靠消息唤醒",
    "lease-from-last-vote" Independent false "the lease is counted from the last vote" "租约从最后一票算起",
    "half-is-enough" Independent false "half of the servers are taken for most" "把半数当成多数",
    "session-ignored" Ensemble false "the end of the session is told to nobody" "会话终结无人知晓",
    "stands-behind-itself" Ensemble false "a create without an answer is sent again" "无应答的创建被重发",
    "place-left-behind" Ensemble false "who gives up leaves its place in the queue" "放弃者的节点留在队列中",
    "gone-means-ours" Ensemble false "the one before is gone: taken for the own turn" "前一个节点消失便以为轮到自己",
    "searched-unsorted" Ensemble false "a queue sorted by number is searched by name" "按序号排序却按名称二分查找",
    "row-deleted-by-key" Database false "the release deletes the key's row, whoever's it is" "释放时按键删行，不看持有者",
    "expiry-of-clients" Database false "clients write and compare the row's end by their own clocks" "行的到期时间由各客户端时钟写入和比较",
    "row-without-expiry" Database false "a row in the lock table never ends" "锁表的行永不过期",
    "connection-not-watched" Database false "the end of the connection that holds it is told to nobody" "持锁连接断开无人知晓",
    "vanished-client-kept" Database false "nothing ends the session of a machine that died" "机器消失后其会话仍被保留",
    "released-before-commit" SaleUnderMaster false "the lock is released before the transaction commits" "事务提交之前就释放了锁",
    "unlocked-one-by-one" SaleUnderMaster false "each item is unlocked, and all are committed after the loop" "逐项加锁解锁，循环结束后才提交",
    "version-read-late" WayToSell false "the version is read again at the checkout" "下单时重新读取版本号",
    "state-goes-round" WayToSell false "the state that is compared goes round, and is no version" "比较的是会复原的状态而非版本号",
    "lost-hand-over" Master false "two tasks that one call wakes must run in one order" "同时唤醒的两个任务必须按序运行",
    "parent-watched" Ensemble false "all waiters watch the whole queue" "所有等待者都监视父节点",
];

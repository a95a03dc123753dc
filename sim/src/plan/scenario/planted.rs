//! The names of the locks with planted bugs and of their mended twins.
//!
//! They are known to plans and not listed among the product's locks.

use super::{LockKind, Needs};

/// A planted bug and its twin.
macro_rules! pairs {
    ($($name:literal $tokens:literal $english:literal $chinese:literal,)*) => {
        &[$(
            LockKind {
                name: concat!("planted/", $name),
                english: concat!("planted bug: ", $english),
                chinese: concat!("埋入的缺陷：", $chinese),
                tokens: $tokens,
                records: true,
                needs: Needs::Master,
            },
            LockKind {
                name: concat!("mended/", $name),
                english: concat!("mended twin of the planted bug: ", $english),
                chinese: concat!("已修复的对照：", $chinese),
                tokens: $tokens,
                records: true,
                needs: Needs::Master,
            },
        )*]
    };
}

/// All pairs.
pub const PLANTED: &[LockKind] = pairs![
    "no-deadline" false "a holder has no deadline of its own" "持有者没有自己的期限",
    "bare-del" false "the release deletes whoever's record it finds" "释放时不看持有者直接删除",
    "get-then-del" false "the release compares, then deletes" "先比较再删除，不是一步",
    "setnx-then-expire" false "the record and its expiry are two commands" "写记录与设过期是两条命令",
    "waiters-renew" false "every try renews the record that it finds" "每次尝试都给别人的记录续期",
    "lease-cut-to-seconds" false "the lease is cut to whole seconds" "租约被截成整秒",
    "expire-in-seconds" false "renewed with milliseconds for seconds" "续期把毫秒当成秒",
    "loss-not-noticed" false "renewals fail and nobody is told" "续期失败却无人知晓",
    "renewal-not-retried" false "a failed renewal is the last one" "续期失败一次便不再续",
    "stale-renewal-entry" false "a lost lock is renewed no more when taken again" "丢锁后再次获取不再续期",
    "renewal-outlives-hold" false "the renewal goes on after the release" "释放之后仍在续期",
    "armed-by-callback" false "the renewal of a given-up acquire is armed" "放弃的获取仍启动续期",
    "renew-without-owner" false "renews whoever's record it finds" "续期不看持有者",
    "renew-by-set" false "the renewal takes the lock once more" "续期即重新写入",
    "resent-del" false "a release without an answer is sent again" "无应答的释放被重发",
    "own-record-as-new" false "an own record found is counted as new" "把自己的旧记录当成新租约",
    "counted-again" false "an acquire that is sent again is counted again" "重发的获取被再次计数",
    "ghost-in-queue" false "who left the queue without a word is waited for" "排队者悄然离开仍被等待",
    "lease-from-reply" false "the lease is counted from the answer" "租约从收到应答算起",
    "client-clock-expiry" false "clients judge by their own clocks" "由客户端时钟判断过期",
    "token-from-clock" true "tokens are times of the client" "令牌取自客户端时钟",
    "local-lock-kept" false "a lock lost in the store stays locked in the process" "库中丢锁后进程内仍锁着",
    "released-regardless" false "a lost lock is answered released" "锁已丢失仍答已释放",
    "released-at-once" false "the lock is released as soon as it is taken" "刚获取便释放",
    "get-then-set" false "looks first, then writes over" "先查看再覆盖写入",
    "one-owner-a-process" false "all attempts of a process are one owner" "同一进程的各次获取共用持有者",
    "open-on-timeout" false "goes in when it has waited long enough" "等待超时便放行",
    "open-on-error" false "goes in when the server cannot be asked" "服务不可用便放行",
    "token-before-lock" true "the token is counted before the lock is taken" "先取令牌后获取锁",
    "token-expires" true "the counter of tokens expires" "令牌计数器会过期",
];

//! Every word of a judgement, in English and Chinese: the one table.
//!
//! Keys are the stable names of verdicts, severities, kinds, ways of parting, fault
//! families and goals, as they stand in JSON and in seed files.

/// A language that reports are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, simplified.
    Chinese,
}

/// Stable name, English, Chinese.
const WORDS: &[(&str, &str, &str)] = &[
    // Verdicts.
    ("safe", "safe", "安全"),
    ("safe-by-fence", "safe by fence", "凭栅栏安全"),
    ("violation", "violation", "违反"),
    ("unknown", "unknown", "未知"),
    ("inert", "inert", "无效故障"),
    ("not-expressible", "not expressible", "无法表达"),
    ("internal", "internal", "内部错误"),
    ("nondeterminism", "nondeterminism", "不确定性"),
    // What is to be thought of a sentence.
    ("confirmed", "confirmed", "证实"),
    ("refuted", "refuted", "证伪"),
    ("depends", "depends", "视条件而定"),
    ("not-measured", "not measured", "未测量"),
    // Severities ("violation" is above).
    ("advisory", "advisory", "提示"),
    // Kinds.
    ("double-grant", "double-grant", "双重授予"),
    ("effect-interleaved", "effect-interleaved", "操作交错"),
    ("stale-effect", "stale-effect", "过期操作"),
    ("oversell", "oversell", "超卖"),
    ("undersell", "undersell", "少卖"),
    ("duplicate-order", "duplicate-order", "重复订单"),
    ("lost-order", "lost-order", "订单丢失"),
    ("stock-not-conserved", "stock-not-conserved", "库存不守恒"),
    ("wrong-release", "wrong-release", "误释放"),
    ("loss-not-told", "loss-not-told", "丢锁未告知"),
    ("leaked-lock", "leaked-lock", "锁泄漏"),
    ("stuck-waiter", "stuck-waiter", "等待者卡死"),
    ("deadlock", "deadlock", "死锁"),
    ("unfair", "unfair", "不公平"),
    ("grant-lost", "grant-lost", "锁丢失"),
    ("overstay", "overstay", "超时持有"),
    ("token-regression", "token-regression", "令牌倒退"),
    ("false-reject", "false-reject", "误拒绝"),
    ("broadcast-broken", "broadcast-broken", "广播协议被破坏"),
    // What parted promise, belief and effect.
    ("record-lost", "the record was lost", "锁记录丢失"),
    ("expired-early", "the record expired early", "锁记录提前过期"),
    ("record-deleted", "somebody else removed the record", "锁记录被他人删除"),
    ("two-masters", "two servers granted as master", "出现两个主节点"),
    ("no-exclusion", "one server granted it twice", "同一服务器授予两次"),
    ("no-record", "it was granted without a record", "无记录即授予"),
    ("let-in", "the lock let both in", "锁放行了两者"),
    ("overstayed", "the holder stayed beyond its promise", "持有者超出承诺期限"),
    ("late-effect", "an operation arrived after its holder had left", "操作在持有者离开后才到达"),
    ("unguarded", "there was no lock", "没有锁"),
    ("not-granted", "somebody acted without a grant", "未获授予即操作"),
    ("not-a-lock-bug", "not a lock bug", "并非锁的缺陷"),
    ("record-left", "the record outlived its holder", "锁记录在持有者之后仍残留"),
    ("token-source", "the source of tokens went back", "令牌来源倒退"),
    ("not-woken", "nobody woke the waiter", "等待者未被唤醒"),
    ("circular-wait", "they waited for each other", "相互等待"),
    ("passed-over", "others were served first", "他人被优先服务"),
    ("answer", "the answer was wrong", "应答有误"),
    ("servers-disagree", "the servers disagree", "服务器之间不一致"),
    ("commit-lost", "a commit was lost", "提交丢失"),
    // Fault families.
    ("process-crash", "process crash", "进程崩溃"),
    ("machine-crash", "machine crash", "机器崩溃"),
    ("pause", "pause", "暂停"),
    ("partition", "partition", "网络分区"),
    ("slow-link", "slow link", "慢链路"),
    ("replication-stall", "replication stall", "复制停滞"),
    ("clock-rate", "clock rate", "时钟速率偏差"),
    ("clock-step", "clock step", "时钟跳变"),
    ("reset", "connection reset", "连接重置"),
    ("promote", "promotion of a standby", "备库提升"),
    ("clock-freeze", "clock freeze", "时钟停走"),
    ("clock-slew", "clock slew", "时钟渐调"),
    ("cancel", "cancelled operation", "操作中途取消"),
    ("hang", "hang", "业务挂起"),
    ("disk-slow", "slow disk", "慢磁盘"),
    ("disk-stall", "stalled disk", "磁盘停滞"),
    ("disk-error", "failing disk", "磁盘故障"),
    // Goals.
    ("handover", "handover", "锁交接"),
    ("grant-in-storm", "a grant before the faults were over", "故障结束之前的授予"),
    ("fault-took-effect", "fault took effect", "故障已生效"),
    ("books-read", "books read", "账目已核对"),
    ("conflict", "conflict", "发生冲突"),
    ("failover", "failover", "主从切换"),
    ("expiry", "lease expired", "租约到期"),
    ("renewal", "lease renewed", "租约续期"),
    ("holder-died", "holder died", "持有者死亡"),
    ("sold-out", "sold out", "售罄"),
    ("fence-refused", "fence refused", "栅栏拒绝"),
    ("resource-touched", "resource touched", "触及资源"),
];

/// What people call the thing of this stable name; the name itself when it is
/// unknown, which the tests exclude for all our own.
pub fn word(id: &'static str, language: Language) -> &'static str {
    let found = WORDS.iter().find(|(known, ..)| *known == id);
    match (found, language) {
        (Some((_, english, _)), Language::English) => english,
        (Some((_, _, chinese)), Language::Chinese) => chinese,
        (None, _) => id,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::blame::{FAMILIES, Parted, family_id};
    use super::super::finding::{Kind, Severity};
    use super::super::goals::Goal;
    use super::super::verdict::Verdict;
    use super::*;
    use crate::claims::Standing;

    #[test]
    fn no_word_is_missing_empty_or_twice() {
        let mut ids: Vec<&str> = Vec::new();
        ids.extend(Verdict::BY_PRECEDENCE.map(Verdict::id));
        ids.extend(Standing::ALL.map(Standing::id));
        ids.extend(Kind::ALL.map(Kind::id));
        ids.extend([Severity::Violation, Severity::Advisory].map(Severity::id));
        ids.extend(Parted::ALL.map(Parted::id));
        ids.extend(FAMILIES.map(family_id));
        ids.extend(Goal::ALL.map(Goal::id));
        let known: BTreeSet<&str> = WORDS.iter().map(|(id, ..)| *id).collect();
        assert_eq!(known.len(), WORDS.len(), "a name is there twice");
        assert_eq!(known, ids.into_iter().collect(), "the table and the code differ");
        for (column, words) in [
            ("English", WORDS.iter().map(|word| word.1).collect::<Vec<_>>()),
            ("Chinese", WORDS.iter().map(|word| word.2).collect()),
        ] {
            let distinct: BTreeSet<&str> = words.iter().copied().collect();
            assert_eq!(distinct.len(), words.len(), "two things have one {column} word");
            assert!(!distinct.contains(""), "a {column} word is empty");
        }
        for (id, _, chinese) in WORDS {
            assert!(!chinese.is_ascii(), "{id} is not translated");
        }
    }
}

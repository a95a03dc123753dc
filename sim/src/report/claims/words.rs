//! The words in which claims are told, in English and Chinese. Those of verdicts are in
//! [`check::words`](crate::check::words), with all others.

use std::collections::BTreeMap;

use crate::check::{Language, Verdict};
use crate::claims::measure::{Measure, Sample, Unit, Value};
use crate::claims::prove::{Proof, Repeated};
use crate::claims::{Prediction, Reading};
use crate::report::layout::grouped;
use crate::storm::confirm::Confirmation;

/// The words of one language.
#[derive(Debug)]
#[expect(missing_docs, reason = "they say what they are")]
pub struct Words {
    pub title: &'static str,
    pub how: &'static str,
    pub sentence: &'static str,
    pub condition: &'static str,
    pub storm: &'static str,
    pub fence: &'static str,
    pub asks: &'static str,
    pub came: &'static str,
    pub nothing: &'static str,
    pub comma: &'static str,
    pub colon: &'static str,
    pub semicolon: &'static str,
    pub language: Language,
}

const ENGLISH: Words = Words {
    title: "What a text on locks for flash sales says, and what came of it",
    how: "Written by `lockstorm claims --out docs/claims.md`, together with \
          [claims.zh-CN.md](claims.zh-CN.md). Each sentence has arms: a storm, something that is \
          measured, and what the sentence predicts of it; the verdict follows from the runs. ✓: the \
          prediction came true; ✗: it did not; ·: for comparison, or not measured. Shares have \
          Wilson's interval at 95 %. A run of which nothing can be said (unknown, inert, not \
          expressible) is in no share: where most are such the arm is not measured. **Speeds are \
          ratios within the simulator's cost model**: messages take what its links take, statements \
          of PostgreSQL and disks what was measured, a processor of Redis or ZooKeeper nothing; the \
          numbers beside the ratios are simulated time and say nothing of a machine. Each witness \
          was run again in a fresh process before it was told; of what decides and happened, turmoil \
          was asked as well (not with `--quick`).",
    sentence: "sentence",
    condition: "condition",
    storm: "lock, scenario",
    fence: "fence",
    asks: "measured, and predicted by the sentence",
    came: "came out",
    nothing: "nothing was measured",
    comma: ", ",
    colon: ": ",
    semicolon: "; ",
    language: Language::English,
};

const CHINESE: Words = Words {
    title: "一篇秒杀锁文章的论断，逐句实测",
    how: "本页由 `lockstorm claims --out docs/claims.md` 写成，英文版见 [claims.md](claims.md)。\
          每句话有若干组实验：一种风暴、一个度量、这句话对它的预测；结论由运行得出。✓：预测成真；✗：未成真；·：仅作对照，或未测得。\
          比例附 95 % Wilson 区间。无法下结论的运行（未知、无效故障、无法表达）不计入任何比例；若多数如此，该组视为未测量。\
          **速度一律是模拟器成本模型内的比值**：消息耗时取决于链路，PostgreSQL 语句与磁盘按实测计时，Redis 与 ZooKeeper 的处理器不计耗时；\
          比值旁的数字是模拟时间，与任何机器的快慢无关。每个见证都先在新进程中重跑一遍；起决定作用且确有其事的，还问过 turmoil（`--quick` 除外）。",
    sentence: "论断",
    condition: "条件",
    storm: "锁、场景",
    fence: "栅栏",
    asks: "度量，以及该句的预测",
    came: "结果",
    nothing: "未测得",
    comma: "，",
    colon: "：",
    semicolon: "；",
    language: Language::Chinese,
};

/// Those of this language.
pub fn words(language: Language) -> &'static Words {
    match language {
        Language::English => &ENGLISH,
        Language::Chinese => &CHINESE,
    }
}

impl Words {
    fn of(&self, english: &str, chinese: &str) -> String {
        match self.language {
            Language::English => english.to_owned(),
            Language::Chinese => chinese.to_owned(),
        }
    }

    /// How much was run.
    pub fn head(&self, sentences: usize, seeds: u64) -> String {
        self.of(
            &format!("{sentences} sentences; {seeds} seeds for each arm, from 0x1 on."),
            &format!("共 {sentences} 句；每组实验自 0x1 起 {seeds} 个种子。"),
        )
    }

    /// That a sentence did not come out as the documents say.
    pub fn differs(&self, id: &str, is: &str, known: Option<&str>) -> String {
        let was = known.unwrap_or(self.nothing);
        self.of(
            &format!("{id} is {is}; the documents say: {was}"),
            &format!("{id} 的结论是“{is}”，文档写的是“{was}”"),
        )
    }

    /// How a sentence is read.
    pub fn reading(&self, reading: Reading) -> String {
        match reading {
            Reading::Always => self.of(
                "read as *always*: one counterexample refutes it",
                "按“总是如此”解读：一个反例即可证伪",
            ),
            Reading::Possible => self.of(
                "read as *it can be*: one example confirms it",
                "按“可能如此”解读：一个实例即可证实",
            ),
            Reading::Graded => self.of(
                "read as *in general*: where it holds under some conditions only, it depends",
                "按“一般如此”解读：只在部分条件下成立，则视条件而定",
            ),
        }
    }

    /// Whether a prediction came true.
    pub fn mark(&self, holds: Option<bool>) -> &'static str {
        match holds {
            Some(true) => "✓",
            Some(false) => "✗",
            None => "·",
        }
    }

    /// `oversell, predicted: in no run`.
    pub fn asked(&self, measure: &str, predicted: &str) -> String {
        self.of(
            &format!("{measure}, predicted: {predicted}"),
            &format!("{measure}，预测：{predicted}"),
        )
    }

    /// ` (42 % of condition 1)`.
    pub fn ratio(&self, percent: u64, arm: usize) -> String {
        let (percent, arm) = (grouped(percent), arm + 1);
        self.of(
            &format!(" ({percent} % of condition {arm})"),
            &format!("（条件 {arm} 的 {percent} %）"),
        )
    }

    /// ` (2 of 10 runs say nothing: unknown 2)`.
    pub fn silent(&self, silent: &BTreeMap<Verdict, u64>, runs: u64, mostly: bool) -> String {
        let why = |verdict: Verdict| match verdict {
            // It has a verdict, and says nothing of what is measured.
            Verdict::Safe | Verdict::SafeByFence | Verdict::Violation => self.of(
                "one of the faults touched nothing, or there was nothing to measure:",
                "有故障未起作用，或无可度量：",
            ),
            _ => verdict.word(self.language).to_owned(),
        };
        let each = silent.iter().map(|(verdict, count)| format!("{} {count}", why(*verdict)));
        let each = each.collect::<Vec<_>>().join(self.comma);
        let count: u64 = silent.values().sum();
        let so = if mostly {
            self.of(", so this is not measured", "，因此视为未测量")
        } else {
            String::new()
        };
        self.of(
            &format!(" ({count} of {runs} runs say nothing: {each}{so})"),
            &format!("（{runs} 次运行中 {count} 次无法下结论：{each}{so}）"),
        )
    }

    /// What one run says.
    pub fn sample(&self, measure: Measure, sample: Sample) -> String {
        let what = self.measure(measure);
        match (sample, measure.unit()) {
            (Sample::Number(number), Some(unit)) => {
                format!("{what}{}{}", self.colon, self.number(number, unit))
            }
            (Sample::Happened(true), _) => self.of(&format!("{what}: yes"), &format!("{what}：是")),
            _ => self.of(&format!("{what}: no"), &format!("{what}：否")),
        }
    }

    /// `Witness (two skus): violation; deadlock: yes`.
    pub fn witness(&self, condition: &str, verdict: &str, sample: &str, decides: bool) -> String {
        let noun = match decides {
            true => self.of("Witness", "见证"),
            false => self.of("One of the runs", "其中一次运行"),
        };
        self.of(
            &format!("{noun} ({condition}): verdict {verdict}; {sample}"),
            &format!("{noun}（{condition}）：判定 {verdict}；{sample}"),
        )
    }

    /// How a witness repeated.
    pub fn proof(&self, proof: Option<&Proof>) -> Vec<String> {
        let Some(proof) = proof else {
            return vec![self.of("not repeated", "未重跑")];
        };
        let repeated = match &proof.repeated {
            Repeated::Same => self.of("the same in a fresh process", "新进程中重跑一致"),
            Repeated::Differs(how) => self.of(
                &format!("NOT the same in a fresh process: {how}"),
                &format!("新进程中重跑不一致：{how}"),
            ),
            Repeated::Lost(how) => self.of(
                &format!("the fresh process was lost: {how}"),
                &format!("新进程未能完成：{how}"),
            ),
        };
        let confirmation =
            proof.confirmation.as_ref().map(|confirmation| self.confirmed(confirmation));
        [Some(repeated), confirmation].into_iter().flatten().collect()
    }

    fn confirmed(&self, confirmation: &Confirmation) -> String {
        let chinese = match confirmation {
            Confirmation::Confirmed { tries } => format!("turmoil：已确认（第 {tries} 次尝试）"),
            Confirmation::ConfirmedInPart { tries, .. } => {
                format!("turmoil：部分确认（第 {tries} 次尝试）")
            }
            Confirmation::NotConfirmed { .. } => "turmoil：未能确认".to_owned(),
            Confirmation::NotExpressible { clause } => format!("turmoil：无法表达（{clause}）"),
        };
        self.of(&confirmation.to_string(), &chinese)
    }

    /// What is measured.
    pub fn measure(&self, measure: Measure) -> String {
        match measure {
            Measure::Found(kinds) => {
                let kinds = kinds.iter().map(|kind| kind.word(self.language));
                kinds.collect::<Vec<_>>().join(self.of(" or ", "或").as_str())
            }
            Measure::Refused(begins) => self.of(
                &format!("the database refuses with “{begins} …”"),
                &format!("数据库以“{begins} …”拒绝"),
            ),
            Measure::RefusedItsOwner => {
                self.of("its owner is refused when it asks again", "持有者再次请求时被拒绝")
            }
            Measure::PoolUsedUp => self.of(
                "somebody finds no connection while there is patience",
                "有人等到不耐烦也拿不到连接",
            ),
            Measure::SessionRefused => self
                .of("the server refuses a session: it has too many", "服务端因会话过多而拒绝连接"),
            Measure::SessionExpired => self.of("the holder's session expires", "持有者的会话过期"),
            Measure::RecordRefused => self.of("somebody finds the key taken", "有人发现键已被占用"),
            Measure::SalesPerSecond => self.of("sales", "成交"),
            Measure::RefusedPerThousand => {
                self.of("refused for each thousand sold", "每成交一千单被拒")
            }
            Measure::Acquire => self.of("median acquire", "加锁中位数"),
            Measure::FastestAcquire => self.of("fastest acquire", "最快加锁"),
            Measure::SlowestBusy => {
                self.of("slowest answer that it is busy", "得知锁被占用的最慢应答")
            }
            Measure::MostBypasses => self.of("one waiter is passed over", "单个等待者被越过"),
            Measure::MostOvertaken => self.of(
                "somebody who waits sees so many served who asked later",
                "单个等待者眼看晚来者先得",
            ),
            Measure::LongestClosed => self.of("longest time without a grant", "最长无人获锁"),
        }
    }

    /// What came of it.
    pub fn value(&self, value: Value) -> String {
        match value {
            Value::Share(share) => self.of(
                &format!("in {} of {} runs, {}", share.count, share.of, share.percent()),
                &format!("{} 次运行中 {} 次，{}", share.of, share.count, share.percent()),
            ),
            Value::Number { number, unit, .. } => self.number(number, unit),
        }
    }

    fn number(&self, number: u64, unit: Unit) -> String {
        match unit {
            Unit::Times => self.of(&grouped(number), &format!("{number} 次")),
            Unit::Microseconds => {
                format!("{}.{:02} ms", grouped(number / 1_000), number % 1_000 / 10)
            }
            Unit::Milliseconds => format!("{} ms", grouped(number)),
            Unit::PerSecond => {
                self.of(&format!("{}/s", grouped(number)), &format!("{number} 次/秒"))
            }
            Unit::PerThousand => self.of(&grouped(number), &format!("{number} 次")),
        }
    }

    /// What the sentence predicts; `None` if nothing.
    pub fn prediction(&self, prediction: Prediction) -> Option<String> {
        Some(match prediction {
            Prediction::Nothing => return None,
            Prediction::Never => self.of("in no run", "从不"),
            Prediction::Sometimes => self.of("in some run", "会出现"),
            Prediction::EachTime => self.of("in every run", "每次都出现"),
            Prediction::AtMost(most) => {
                self.of(&format!("at most {}", grouped(most)), &format!("不超过 {most}"))
            }
            Prediction::AtLeast(least) => {
                self.of(&format!("at least {}", grouped(least)), &format!("不少于 {least}"))
            }
            Prediction::AtMostOf { arm, percent } => self.of(
                &format!("at most {percent} % of that of condition {}", arm + 1),
                &format!("不超过条件 {} 的 {percent} %", arm + 1),
            ),
            Prediction::AtLeastOf { arm, percent } => self.of(
                &format!("at least {percent} % of that of condition {}", arm + 1),
                &format!("不低于条件 {} 的 {percent} %", arm + 1),
            ),
        })
    }
}

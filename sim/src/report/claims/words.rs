//! The words in which claims are told, in English and Chinese.

use crate::check::Language;
use crate::claims::measure::{Measure, Unit, Value};
use crate::claims::{Prediction, Reading, Standing};
use crate::report::layout::grouped;

/// The words of one language.
#[derive(Debug)]
#[expect(missing_docs, reason = "they say what they are")]
pub struct Words {
    pub title: &'static str,
    pub how: &'static str,
    pub sentence: &'static str,
    pub condition: &'static str,
    pub storm: &'static str,
    pub measured: &'static str,
    pub predicted: &'static str,
    pub nothing: &'static str,
    pub comma: &'static str,
    pub colon: &'static str,
    pub language: Language,
}

const ENGLISH: Words = Words {
    title: "What a text on locks for flash sales says, and what came of it",
    how: "Each sentence has arms: a storm, something that is measured, and what the sentence \
          predicts of it. The standing follows from the runs. ✓: the prediction came true; ✗: it \
          did not; ·: for comparison. Shares have Wilson's interval at 95 %. Times and rates are \
          those of the simulation: messages take what its links take, statements of PostgreSQL and \
          disks what was measured, a processor of Redis or ZooKeeper nothing. This page is written by \
          `lockstorm claims --format markdown --lang en`.",
    sentence: "sentence",
    condition: "condition",
    storm: "lock, scenario",
    measured: "measured",
    predicted: "the sentence predicts",
    nothing: "nothing was measured",
    comma: ", ",
    colon: ": ",
    language: Language::English,
};

const CHINESE: Words = Words {
    title: "一篇秒杀锁文章的论断，逐句实测",
    how: "每句话有若干组实验：一种风暴、一个度量、这句话对它的预测。结论由运行得出。✓：预测成真；✗：未成真；·：仅作对照。\
          比例附 95 % Wilson 区间。时间与速率是模拟中的：消息耗时取决于链路，PostgreSQL 语句与磁盘按实测计时，\
          Redis 与 ZooKeeper 的处理器不计耗时。本页由 `lockstorm claims --format markdown --lang zh` 写成。",
    sentence: "论断",
    condition: "条件",
    storm: "锁、场景",
    measured: "测得",
    predicted: "该句预测",
    nothing: "未测得",
    comma: "，",
    colon: "：",
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

    /// `refuted`.
    pub fn standing(&self, standing: Standing) -> &'static str {
        let (english, chinese) = match standing {
            Standing::Confirmed => ("confirmed", "证实"),
            Standing::Refuted => ("refuted", "证伪"),
            Standing::Depends => ("depends", "视条件而定"),
            Standing::NotMeasured => ("not measured", "未测量"),
        };
        if self.language == Language::English { english } else { chinese }
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

    /// `two skus: deadlock in 10 of 10 …; predicted: never`.
    pub fn arm(&self, condition: &str, what: &str, measured: &str, predicted: &str) -> String {
        self.of(
            &format!("{condition}: {what} {measured}; predicted: {predicted}"),
            &format!("{condition}：{what} {measured}；预测：{predicted}"),
        )
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
            Measure::FailedFor(words) => self
                .of(&format!("an acquire fails with “{words}”"), &format!("加锁因“{words}”失败")),
            Measure::RefusedItsOwner => {
                self.of("its owner is refused when it asks again", "持有者再次请求时被拒绝")
            }
            Measure::SessionExpired => self.of("the holder's session expires", "持有者的会话过期"),
            Measure::RecordLost => self.of("a record is lost", "锁记录丢失"),
            Measure::RecordRefused => self.of("somebody finds the key taken", "有人发现键已被占用"),
            Measure::SalesPerSecond => self.of("sales:", "成交："),
            Measure::RefusedPerThousand => {
                self.of("refused for each thousand sold:", "每成交一千单被拒：")
            }
            Measure::Acquire => self.of("median acquire:", "加锁中位数："),
            Measure::FastestAcquire => self.of("fastest acquire:", "最快加锁："),
            Measure::SlowestBusy => {
                self.of("slowest answer that it is busy:", "得知锁被占用的最慢应答：")
            }
            Measure::MostUnderWay => self.of("acquires under way at once:", "同时进行的加锁："),
            Measure::MostBypasses => self.of("one waiter is passed over:", "单个等待者被越过："),
            Measure::LongestClosed => self.of("longest time without a grant:", "最长无人获锁："),
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

//! The words of a matrix beside those of verdicts, in English and Chinese.

use crate::check::{Language, Verdict};
use crate::matrix::Cell;
use crate::matrix::cell::FEWEST_EFFECTIVE;
use crate::plan::Seed;
use crate::report::layout::{counted, grouped};

/// The words of one language.
#[derive(Debug)]
#[expect(missing_docs, reason = "they say what they are")]
pub struct Words {
    pub title: &'static str,
    pub legend: &'static str,
    pub lock: &'static str,
    pub fence: &'static str,
    pub family: &'static str,
    pub columns: &'static str,
    pub verdict: &'static str,
    pub rests_on: &'static str,
    language: Language,
}

const ENGLISH: Words = Words {
    title: "Every lock against every family of faults",
    legend: "✗ and a number: so many percent of the effective runs violated something; ok: none did; ok*: none did, \
             by the fence; ?: nothing can be said of too many runs; ·: the faults touched nothing; \
             –: the family is not at home there; !: the trouble is ours.",
    lock: "lock",
    fence: "fence",
    family: "family",
    columns: "The families",
    verdict: "verdict",
    rests_on: "what it rests on",
    language: Language::English,
};

const CHINESE: Words = Words {
    title: "每种锁对每类故障",
    legend: "✗ 加数字：有效运行中出现违反的百分比；ok：没有；ok*：没有，靠的是栅栏；?：无法判断的运行太多，不下结论；\
             ·：故障没有触及任何东西；–：该类故障在此不存在；!：问题出在我们自己。",
    lock: "锁",
    fence: "栅栏",
    family: "故障类别",
    columns: "故障类别",
    verdict: "判定",
    rests_on: "依据",
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
    /// How much was run.
    pub fn head(&self, cells: usize, seeds: u64, first: Seed, engine: &str) -> String {
        let cells = cells as u64;
        match self.language {
            Language::English => format!(
                "{} of {} each from {first} on, each plan with faults of one family alone; engine \
                 {engine}. Intervals are Wilson's at 95 %, and speak of these plans only.",
                counted(cells, "cell"),
                counted(seeds, "seed"),
            ),
            Language::Chinese => format!(
                "{} 格，每格自 {first} 起 {} 个种子，每个计划只有一类故障；引擎 {engine}。\
                 区间为 95 % Wilson 区间，只对这些计划而言。",
                grouped(cells),
                grouped(seeds),
            ),
        }
    }

    /// What a cell rests on. Of a safe one its three parts; of a fenced one also what the same
    /// faults do without the fence.
    pub fn said(&self, cell: &Cell, unfenced: Option<&Cell>) -> String {
        let mut parts = vec![self.tried(cell)];
        match cell.verdict() {
            Verdict::Violation => parts.push(self.failed(cell)),
            Verdict::Safe | Verdict::SafeByFence => parts.push(match self.language {
                Language::English => {
                    format!(
                        "none violated anything: at 95 % fewer than {} would",
                        cell.failed().upper()
                    )
                }
                Language::Chinese => format!("无一违反：95 % 置信下低于 {}", cell.failed().upper()),
            }),
            Verdict::Unknown => parts.extend(self.why_unknown(cell)),
            _ => {}
        }
        if cell.unstruck > 0 {
            let unstruck = cell.unstruck;
            parts.push(match self.language {
                Language::English => {
                    format!("{unstruck} violated something although no fault had touched anything")
                }
                Language::Chinese => format!("另有 {unstruck} 次在故障未触及任何东西时出现违反"),
            });
        }
        if let Some(unfenced) = unfenced {
            let (without, of) = (unfenced.failed().count, unfenced.failed().of);
            parts.push(match self.language {
                Language::English => format!("without the fence {without} of {of}"),
                Language::Chinese => format!("不用栅栏则 {of} 次中 {without} 次违反"),
            });
        }
        parts.join(if self.language == Language::English { "; " } else { "；" })
    }

    /// Why nothing is said of a cell in which no run failed.
    fn why_unknown(&self, cell: &Cell) -> Option<String> {
        let (open, effective) = (cell.ended(Verdict::Unknown), cell.effective());
        let said = match self.language {
            Language::English if open > 0 => {
                "a cell with runs of which nothing can be said is not safe".to_owned()
            }
            Language::Chinese if open > 0 => "有无法判断的运行，不能说安全".to_owned(),
            _ if effective >= FEWEST_EFFECTIVE => return None,
            Language::English => {
                format!("fewer than {FEWEST_EFFECTIVE} effective runs say nothing")
            }
            Language::Chinese => format!("有效运行不足 {FEWEST_EFFECTIVE} 次，不下结论"),
        };
        Some(said)
    }

    fn failed(&self, cell: &Cell) -> String {
        let failed = cell.failed();
        let mut kinds: Vec<_> = cell.violations.iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), **kind));
        let kinds =
            kinds.iter().map(|(kind, count)| format!("{} {count}", kind.word(self.language)));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        match self.language {
            Language::English => {
                format!(
                    "{} of them violated something, {}: {kinds}",
                    failed.count,
                    failed.percent()
                )
            }
            Language::Chinese => {
                format!(
                    "其中 {} 次违反，{}：{}",
                    failed.count,
                    failed.percent(),
                    kinds.replace(", ", "、")
                )
            }
        }
    }

    /// `40 tried, 38 had an effect (2 inert)`.
    fn tried(&self, cell: &Cell) -> String {
        let effective = cell.effective();
        let rest = [
            Verdict::Inert,
            Verdict::Unknown,
            Verdict::NotExpressible,
            Verdict::Internal,
            Verdict::Nondeterminism,
        ];
        let rest = rest.into_iter().filter(|verdict| cell.ended(*verdict) > 0);
        let rest =
            rest.map(|verdict| format!("{} {}", cell.ended(verdict), verdict.word(self.language)));
        let rest = rest.collect::<Vec<_>>().join(", ");
        let (open, close) = if rest.is_empty() { ("", "") } else { (" (", ")") };
        match self.language {
            Language::English => {
                format!("{} tried, {effective} had an effect{open}{rest}{close}", cell.runs)
            }
            Language::Chinese => {
                format!("试 {} 次，{effective} 次有效{open}{rest}{close}", cell.runs)
            }
        }
    }
}

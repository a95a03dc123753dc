//! The summary of many runs: how many ended how, what was found, and what their
//! silence is worth.
//!
//! A clean campaign proves a bound and no more: after n conclusive runs without a
//! failure, at 95 % confidence fewer than 3 in n plans of this storm fail (the rule
//! of three).

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::check::{Kind, Language, Verdict};
use crate::report::layout::{counted, grouped};
use crate::report::manner::{Charset, Manner};
use crate::storm::Run;

/// What many runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many runs.
    pub runs: u64,
    /// How many of them ended so.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// In how many of them each kind was found as a violation.
    pub violations: BTreeMap<Kind, u64>,
    /// In how many of them each kind was found, but not as a violation.
    pub advisories: BTreeMap<Kind, u64>,
    /// How often the lock passed from one client to another, in all runs.
    pub handovers: u64,
    /// How many faults had an observable effect, in all runs.
    pub touched: u64,
    /// How many had none.
    pub inert: u64,
}

/// Below so many runs the rule of three says nothing worth reading.
const FEWEST_FOR_A_BOUND: u64 = 30;

impl Summary {
    /// Counts one more run.
    pub fn add(&mut self, run: &Run) {
        let judgement = &run.judgement;
        self.runs += 1;
        *self.verdicts.entry(judgement.verdict).or_default() += 1;
        for kind in Kind::ALL {
            let mut of_kind = judgement.findings.iter().filter(|finding| finding.kind == kind);
            if judgement.violations().any(|finding| finding.kind == kind) {
                *self.violations.entry(kind).or_default() += 1;
            } else if of_kind.next().is_some() {
                *self.advisories.entry(kind).or_default() += 1;
            }
        }
        self.handovers += judgement.goals.handovers as u64;
        self.touched += judgement.goals.touched.len() as u64;
        self.inert += judgement.goals.inert.len() as u64;
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Summary) {
        fn add<K: Ord + Copy>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *into.entry(*key).or_default() += count;
            }
        }
        self.runs += other.runs;
        add(&mut self.verdicts, &other.verdicts);
        add(&mut self.violations, &other.violations);
        add(&mut self.advisories, &other.advisories);
        self.handovers += other.handovers;
        self.touched += other.touched;
        self.inert += other.inert;
    }

    /// The verdict on all of them.
    pub fn verdict(&self) -> Verdict {
        Verdict::merge(self.verdicts.keys().copied())
    }

    /// How many runs ended so.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// How many runs say something: those that were safe or were not.
    pub fn conclusive(&self) -> u64 {
        self.of(Verdict::Safe) + self.of(Verdict::SafeByFence) + self.of(Verdict::Violation)
    }

    /// All runs in one line, for a storm that passed: `50 seeds safe; 61 handovers,
    /// 112 faults took effect, 3 inert; engine event 0.1.0`.
    pub fn line(&self, engine: &str) -> String {
        let counts = Verdict::BY_PRECEDENCE.iter().filter_map(|verdict| {
            let count = self.of(*verdict);
            (count > 0).then_some((*verdict, count))
        });
        let counts: Vec<(Verdict, u64)> = counts.collect();
        let verdicts = match counts.as_slice() {
            [] => "no seeds".to_owned(),
            [(verdict, count)] => format!("{} {verdict}", counted(*count, "seed")),
            many => {
                let each = many.iter().map(|(verdict, count)| format!("{} {verdict}", grouped(*count)));
                format!("{}: {}", counted(self.runs, "seed"), each.collect::<Vec<_>>().join(", "))
            }
        };
        format!(
            "{verdicts}; {}, {} took effect, {} inert; engine {engine}",
            counted(self.handovers, "handover"),
            counted(self.touched, "fault"),
            grouped(self.inert),
        )
    }

    /// What a clean campaign proves; `None` for one that failed, or is too short.
    pub fn bound(&self) -> Option<String> {
        let runs = self.conclusive();
        if runs < FEWEST_FOR_A_BOUND || !self.verdict().is_safe() {
            return None;
        }
        // -ln 0.05 = 2.9957…; rounded down, which claims less.
        let one_in = u128::from(runs) * 10_000 / 29_958;
        let one_in = grouped(u64::try_from(one_in).unwrap_or(u64::MAX));
        Some(format!(
            "0 of {} failed: at 95 % fewer than 1 in {one_in} seeds of this storm fail",
            grouped(runs),
        ))
    }

    /// The table of verdicts and kinds, and the bound of a clean campaign.
    pub fn table(&self, manner: &Manner) -> String {
        let mut text = self.verdict_table(manner).to_string();
        if !self.violations.is_empty() || !self.advisories.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.kind_table(manner).to_string());
        }
        if let Some(bound) = self.bound() {
            text.push_str("\n\n");
            text.push_str(&bound);
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        format!("{}\n", lines.join("\n"))
    }

    fn verdict_table(&self, manner: &Manner) -> Table {
        let mut table = empty(manner.charset, ["verdict", "判定", "seeds", "share"]);
        for verdict in Verdict::BY_PRECEDENCE {
            let count = self.of(verdict);
            if count == 0 {
                continue;
            }
            let word = verdict.word(Language::English);
            let word = match verdict {
                Verdict::Safe | Verdict::SafeByFence => manner.style.good(word),
                Verdict::Violation | Verdict::Nondeterminism => manner.style.bad(word),
                _ => manner.style.warning(word),
            };
            let chinese = verdict.word(Language::Chinese).to_owned();
            row(&mut table, manner.charset, [word, chinese, grouped(count), share(count, self.runs)]);
        }
        table
    }

    fn kind_table(&self, manner: &Manner) -> Table {
        let mut table = empty(manner.charset, ["found", "发现", "violation in", "advisory in"]);
        for kind in Kind::ALL {
            let count = |of: &BTreeMap<Kind, u64>| of.get(&kind).copied().unwrap_or(0);
            let (violations, advisories) = (count(&self.violations), count(&self.advisories));
            if violations + advisories == 0 {
                continue;
            }
            let shown = |count: u64| if count == 0 { String::new() } else { grouped(count) };
            let (english, chinese) = (kind.word(Language::English), kind.word(Language::Chinese));
            let cells = [english.to_owned(), chinese.to_owned(), shown(violations), shown(advisories)];
            row(&mut table, manner.charset, cells);
        }
        table
    }
}

/// A table with this head; the second column is Chinese.
fn empty(charset: Charset, head: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    row(&mut table, charset, head.map(str::to_owned));
    let numbers = if charset.has_chinese() { [2, 3] } else { [1, 2] };
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(table: &mut Table, charset: Charset, cells: [String; 4]) {
    let [first, chinese, third, fourth] = cells;
    if charset.has_chinese() {
        table.add_row([first, chinese, third, fourth]);
    } else {
        table.add_row([first, third, fourth]);
    }
}

/// In percent with one decimal, exact arithmetic.
fn share(count: u64, of: u64) -> String {
    if of == 0 {
        return String::new();
    }
    let per_mille = (u128::from(count) * 2_000 + u128::from(of)) / (2 * u128::from(of));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

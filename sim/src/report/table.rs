//! The summary of many runs: how many ended how, what was found, and what their
//! silence is worth.
//!
//! A clean campaign proves a bound and no more: after n conclusive runs without a
//! failure, at 95 % confidence fewer than 3 in n plans of this storm fail (the rule
//! of three).

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::check::{Kind, Language, Verdict};
use crate::engine::Engine;
use crate::engine::turmoil::Turmoil;
use crate::hunt::Summary;
use crate::report::layout::{counted, grouped};
use crate::report::manner::{Charset, Manner, Style};
use crate::storm::Run;
use crate::storm::confirm::Confirmation;

/// What many runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tally {
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
    /// In how many runs the faults let the lock pass to nobody until they had ended, and no more was
    /// missing: of those verdicts that are *unknown*, so many.
    #[serde(skip_serializing_if = "is_zero")]
    pub untried: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Below so many runs the rule of three says nothing worth reading.
const FEWEST_FOR_A_BOUND: u64 = 30;

impl Tally {
    /// Of what workers told.
    pub fn of<'a>(summaries: impl IntoIterator<Item = &'a Summary>) -> Tally {
        let mut tally = Tally::default();
        for summary in summaries {
            tally.add(summary);
        }
        tally
    }

    /// Counts one more run.
    pub fn add_run(&mut self, run: &Run) {
        self.add(&Summary::of(run));
    }

    /// Counts one more run by what is told of it.
    pub fn add(&mut self, summary: &Summary) {
        self.runs += 1;
        *self.verdicts.entry(summary.verdict).or_default() += 1;
        for kind in &summary.kinds {
            let counts = match summary.violations.contains(kind) {
                true => &mut self.violations,
                false => &mut self.advisories,
            };
            *counts.entry(*kind).or_default() += 1;
        }
        self.handovers += summary.handovers;
        self.touched += summary.faults_showed;
        self.inert += summary.faults_inert;
        self.untried += u64::from(summary.untried);
    }

    /// The verdict on a hunt's runs. Those that prove nothing, since their faults touched nothing
    /// or left the lock untried, fail nothing, unless there are no others (docs/adr/0007).
    pub fn verdict_of_hunt(&self) -> Verdict {
        let is_other = |verdict: &Verdict| *verdict != Verdict::Unknown || self.unknown() > 0;
        let others = self.verdicts.keys().copied().filter(is_other);
        let merged = Verdict::merge_drawn(others);
        // Without others, what was inert and what was not tried is decided by precedence.
        let says_something = self.ended(Verdict::Inert) + self.untried < self.runs;
        if says_something { merged } else { self.verdict() }
    }

    /// How many runs are *unknown* for another reason than that they are untried.
    pub fn unknown(&self) -> u64 {
        self.ended(Verdict::Unknown).saturating_sub(self.untried)
    }

    /// The verdict on all of them.
    pub fn verdict(&self) -> Verdict {
        Verdict::merge(self.verdicts.keys().copied())
    }

    /// How many runs ended so.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// How many runs say something: those that were safe or were not.
    pub fn conclusive(&self) -> u64 {
        self.ended(Verdict::Safe)
            + self.ended(Verdict::SafeByFence)
            + self.ended(Verdict::Violation)
    }

    /// All runs in one line, for a storm that passed: `50 seeds safe; 61 handovers,
    /// 112 faults took effect, 3 inert; engine event 0.1.0`.
    pub fn line(&self, engine: &str) -> String {
        let counts = Verdict::BY_PRECEDENCE.iter().filter_map(|verdict| {
            let count = self.ended(*verdict);
            (count > 0).then_some((*verdict, count))
        });
        let counts: Vec<(Verdict, u64)> = counts.collect();
        let verdicts = match counts.as_slice() {
            [] => "no seeds".to_owned(),
            [(verdict, count)] => format!("{} {verdict}", counted(*count, "seed")),
            many => {
                let each =
                    many.iter().map(|(verdict, count)| format!("{} {verdict}", grouped(*count)));
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
        // Plans that prove nothing are not part of it (docs/adr/0007).
        if runs < FEWEST_FOR_A_BOUND || !self.verdict_of_hunt().is_safe() {
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

    /// The table of verdicts and kinds, and the bound of a clean campaign. No line feed
    /// at the end.
    pub fn table(&self, manner: &Manner) -> String {
        let mut text = self.counts("seeds", manner);
        if let Some(bound) = self.bound() {
            text.push_str("\n\n");
            text.push_str(&bound);
        }
        text
    }

    /// The table alone; `what` was counted.
    pub fn counts(&self, what: &str, manner: &Manner) -> String {
        let mut text = self.verdict_table(what, manner).to_string();
        if !self.violations.is_empty() || !self.advisories.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.kind_table(manner).to_string());
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    fn verdict_table(&self, what: &str, manner: &Manner) -> Table {
        let mut table = empty(manner, ["verdict", "判定", what, "share"]);
        for verdict in Verdict::BY_PRECEDENCE {
            let count = self.ended(verdict);
            if count == 0 {
                continue;
            }
            let colour = match verdict {
                Verdict::Safe | Verdict::SafeByFence => Color::Green,
                Verdict::Violation | Verdict::Nondeterminism => Color::Red,
                _ => Color::Yellow,
            };
            let word = Cell::new(verdict.word(Language::English)).fg(colour);
            let chinese = verdict.word(Language::Chinese);
            row(&mut table, manner, word, chinese, [grouped(count), share(count, self.runs)]);
        }
        table
    }

    fn kind_table(&self, manner: &Manner) -> Table {
        let mut table = empty(manner, ["found", "发现", "violation in", "advisory in"]);
        for kind in Kind::ALL {
            let count = |of: &BTreeMap<Kind, u64>| of.get(&kind).copied().unwrap_or(0);
            let (violations, advisories) = (count(&self.violations), count(&self.advisories));
            if violations + advisories == 0 {
                continue;
            }
            let shown = |count: u64| if count == 0 { String::new() } else { grouped(count) };
            let word = Cell::new(kind.word(Language::English));
            let counts = [shown(violations), shown(advisories)];
            row(&mut table, manner, word, kind.word(Language::Chinese), counts);
        }
        table
    }
}

/// The end of a hunt, in the characters of this process's locale, without colours: the
/// tables, and what the reference engine said of the failures it was asked about.
pub fn summary<'a>(
    summaries: &[Summary],
    confirmations: impl IntoIterator<Item = Option<&'a Confirmation>>,
) -> String {
    summary_in(summaries, confirmations, &Manner::from_environment())
}

/// The same in this manner.
pub fn summary_in<'a>(
    summaries: &[Summary],
    confirmations: impl IntoIterator<Item = Option<&'a Confirmation>>,
    manner: &Manner,
) -> String {
    let mut text = Tally::of(summaries).table(manner);
    if let Some(confirmed) = confirmed(confirmations) {
        text.push_str(&format!("\n\n{confirmed}"));
    }
    text
}

/// `turmoil 0.7.2: 40 of 41 violations confirmed, 1 not expressible`; `None` if it was asked
/// nothing.
pub fn confirmed<'a>(
    confirmations: impl IntoIterator<Item = Option<&'a Confirmation>>,
) -> Option<String> {
    let confirmations: Vec<&Confirmation> = confirmations.into_iter().flatten().collect();
    if confirmations.is_empty() {
        return None;
    }
    let count = |is: fn(&Confirmation) -> bool| {
        confirmations.iter().filter(|confirmation| is(confirmation)).count() as u64
    };
    let mut text = format!(
        "{}: {} of {} confirmed",
        Turmoil::default().title(),
        grouped(count(|c| matches!(c, Confirmation::Confirmed { .. }))),
        counted(confirmations.len() as u64, "violation"),
    );
    for (count, word) in [
        (count(|c| matches!(c, Confirmation::ConfirmedInPart { .. })), "confirmed in part"),
        (count(|c| matches!(c, Confirmation::NotConfirmed { .. })), "not confirmed"),
        (count(|c| matches!(c, Confirmation::NotExpressible { .. })), "not expressible there"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {} {word}", grouped(count)));
        }
    }
    Some(text)
}

/// A table with this head; the second column is Chinese.
fn empty(manner: &Manner, head: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    // What the terminal is like was decided by whoever chose the manner.
    table.force_no_tty();
    if manner.style == Style::Coloured {
        table.enforce_styling();
    }
    row(&mut table, manner, Cell::new(head[0]), head[1], [head[2].to_owned(), head[3].to_owned()]);
    table
}

fn row(table: &mut Table, manner: &Manner, first: Cell, chinese: &str, numbers: [String; 2]) {
    let mut cells = vec![first];
    if manner.charset == Charset::Unicode {
        cells.push(Cell::new(chinese));
    }
    cells.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
    table.add_row(cells);
}

/// In percent with one decimal, exact arithmetic.
fn share(count: u64, of: u64) -> String {
    if of == 0 {
        return String::new();
    }
    let per_mille = (u128::from(count) * 2_000 + u128::from(of)) / (2 * u128::from(of));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

//! Tells what is to be thought of a history that was read from a file: the verdict, each
//! finding with its blame and the lines that prove it, the goals, the numbers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::check::numbers::Delays;
use crate::check::{Blame, Finding, Goal, Goals, Judgement, Kind, Language, Numbers, Verdict};
use crate::check::{FailedChecker, blame};
use crate::history::Event;
use crate::history::file::Recorded;
use crate::report::manner::Manner;
use crate::visible::visible;

/// How many findings are told in full; the others are counted.
const TOLD_IN_FULL: usize = 10;
/// How many lines of one finding are shown.
const LINES_SHOWN: usize = 12;
/// How much of one line is shown, characters.
const LINE_CHARS: usize = 160;

/// A judged file.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The file's name.
    pub file: &'a str,
    /// What it held.
    pub recorded: &'a Recorded,
    /// What is to be thought of it.
    pub judgement: &'a Judgement,
}

impl Told<'_> {
    /// For people.
    pub fn text(&self, manner: &Manner) -> String {
        let judgement = self.judgement;
        let fit = |text: &str| manner.charset.fit(text);
        let mut lines = vec![self.headline(manner)];
        if let Some(stuck) = self.recorded.header.run.as_ref().and_then(|run| run.stuck.as_ref()) {
            let stuck = visible(stuck);
            lines.push(fit(&format!(
                "  The run came to no end ({stuck}): its history is not judged."
            )));
        }
        for finding in judgement.findings.iter().take(TOLD_IN_FULL) {
            lines.push(String::new());
            self.finding(finding, manner, &mut lines);
        }
        let rest = judgement.findings.get(TOLD_IN_FULL..).unwrap_or_default();
        if !rest.is_empty() {
            let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
            rest.iter().for_each(|finding| *kinds.entry(finding.kind).or_default() += 1);
            let kinds: Vec<String> =
                kinds.iter().map(|(kind, count)| format!("{kind} ×{count}")).collect();
            lines.push(String::new());
            lines.push(fit(&format!("  … and {} more: {}", rest.len(), kinds.join(", "))));
        }
        let missing = missing(judgement);
        if !missing.is_empty() {
            lines.push(String::new());
            lines.extend(
                missing.into_iter().map(|missing| fit(&format!("  {}", visible(&missing)))),
            );
        }
        lines.push(String::new());
        lines.push(format!("  {}", self.counted()));
        let numbers = numbers(&judgement.numbers).into_iter();
        lines.extend(numbers.map(|line| fit(&format!("  {line}"))));
        lines.join("\n")
    }

    fn headline(&self, manner: &Manner) -> String {
        let verdict = self.judgement.verdict;
        let word = verdict.word(Language::English).to_uppercase();
        let mut line = match verdict {
            Verdict::Safe | Verdict::SafeByFence => manner.style.good(&word),
            Verdict::Violation => manner.style.bad(&word),
            _ => manner.style.warning(&word),
        };
        let named = |language: Language| {
            let kinds = Kind::BY_GRAVITY.into_iter();
            let kinds = kinds.filter(|kind| self.judgement.has_violation(*kind));
            kinds.map(|kind| kind.word(language)).collect::<Vec<_>>().join(", ")
        };
        let kinds = named(Language::English);
        if !kinds.is_empty() {
            line.push_str(&format!("  {kinds}"));
        }
        line.push_str(&format!("   {}", manner.charset.fit(&visible(self.file))));
        if manner.charset.has_chinese() {
            line.push_str(&format!("   {}", verdict.word(Language::Chinese)));
            let kinds = named(Language::Chinese);
            if !kinds.is_empty() {
                line.push_str(&format!(" {kinds}"));
            }
        }
        line
    }

    fn finding(&self, finding: &Finding, manner: &Manner, lines: &mut Vec<String>) {
        let severity = finding.severity.id();
        lines.push(format!("  {}  {}", manner.style.strong(finding.kind.id()), severity));
        // Names of the history may be anything, an end of line too.
        let mut say = |text: String| lines.push(manner.charset.fit(&visible(&text)));
        say(format!("    {}", finding.sentence()));
        say(format!("    blame: {}", blamed(&finding.blame)));
        for event in finding.events.iter().take(LINES_SHOWN) {
            if let Some(event) = self.recorded.history.get(*event) {
                say(format!("    line {}: {}", self.recorded.line_of(event.id), shown(event)));
            }
        }
        if finding.events.len() > LINES_SHOWN {
            say(format!("    … and {} more lines", finding.events.len() - LINES_SHOWN));
        }
    }

    fn counted(&self) -> String {
        let goals = &self.judgement.goals;
        let mut text = format!(
            "{} events, {} grants, {} handovers",
            self.recorded.history.events.len(),
            self.judgement.numbers.grants,
            goals.handovers,
        );
        if !goals.touched.is_empty() || !goals.inert.is_empty() {
            let all = goals.touched.len() + goals.inert.len();
            text.push_str(&format!(", {} of {all} faults took effect", goals.touched.len()));
        }
        text
    }

    /// For machines: kebab-case, as [`json`](super::json).
    pub fn json(&self) -> String {
        let judgement = self.judgement;
        let document = Document {
            schema: super::json::SCHEMA,
            lockstorm: env!("CARGO_PKG_VERSION"),
            file: self.file,
            verdict: judgement.verdict,
            exit_code: judgement.verdict.exit_code(),
            signature: judgement.signature(),
            events: self.recorded.history.events.len(),
            ended_us: self.recorded.history.ended_us,
            findings: judgement
                .findings
                .iter()
                .map(|finding| Line {
                    sentence: finding.sentence(),
                    lines: finding
                        .events
                        .iter()
                        .map(|event| self.recorded.line_of(*event))
                        .collect(),
                    finding,
                })
                .collect(),
            goals: &judgement.goals,
            failed_checkers: &judgement.failed,
            undecided: judgement.undecided,
            numbers: &judgement.numbers,
        };
        let value = serde_json::to_value(&document);
        format!("{:#}", value.unwrap_or_else(|error| Value::String(error.to_string())))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    schema: u32,
    lockstorm: &'static str,
    file: &'a str,
    verdict: Verdict,
    exit_code: u8,
    signature: String,
    events: usize,
    ended_us: u64,
    findings: Vec<Line<'a>>,
    goals: &'a Goals,
    failed_checkers: &'a [FailedChecker],
    undecided: usize,
    numbers: &'a Numbers,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line<'a> {
    sentence: String,
    lines: Vec<u64>,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// `the record was lost: process crash (fault 1, authority); app-1/1, app-2/1`.
fn blamed(blame: &Blame) -> String {
    let mut text = blame.parted.word(Language::English).to_owned();
    let faults: Vec<String> = blame
        .faults
        .iter()
        .map(|fault| {
            let word = blame::family_word(fault.family, Language::English);
            format!("{word} (fault {}, {})", fault.fault, fault.role)
        })
        .collect();
    if !faults.is_empty() {
        text.push_str(&format!(": {}", faults.join(", ")));
    }
    if !blame.owners.is_empty() {
        text.push_str(&format!("; {}", blame.owners.join(", ")));
    }
    text
}

/// An event as its line has it, if longer then cut.
fn shown(event: &Event) -> String {
    let what = serde_json::to_string(&event.what).unwrap_or_default();
    let text = format!("{} µs {} {what}", event.at_us, event.node);
    match text.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Why nothing, or not all, can be said.
fn missing(judgement: &Judgement) -> Vec<String> {
    let mut missing = Vec::new();
    for failed in &judgement.failed {
        missing.push(format!("The checker {} failed: {}.", failed.checker, failed.message));
    }
    if judgement.undecided > 0 {
        missing.push(format!(
            "{} overlaps are shorter than the clocks are uncertain: they are neither shown nor \
             excluded.",
            judgement.undecided,
        ));
    }
    for goal in &judgement.goals.missed {
        missing.push(match goal {
            Goal::Handover => "No lock passed from one client to another: nothing is shown.".into(),
            Goal::Conflict => "No two clients met: nothing is shown.".into(),
            Goal::FaultTookEffect => "No fault had an observable effect.".into(),
            Goal::BooksRead => {
                "Something was sold, and neither books nor counter were read at the end.".into()
            }
            _ => format!("The goal \"{}\" was not met.", goal.word(Language::English)),
        });
    }
    missing
}

fn numbers(numbers: &Numbers) -> Vec<String> {
    let mut lines = Vec::new();
    let mut delays = |name: &str, delays: &Delays| {
        if delays.count > 0 {
            lines.push(format!(
                "{name}: {} times, median {} ms, 99 % within {} ms, longest {} ms",
                delays.count,
                millis(delays.median_us),
                millis(delays.p99_us),
                millis(delays.most_us),
            ));
        }
    };
    delays("wait for a grant", &numbers.waits);
    delays("takeover", &numbers.takeover);
    delays("notice of a loss", &numbers.loss_notice);
    if numbers.bypasses > 0 {
        let (all, most) = (numbers.bypasses, numbers.most_bypasses);
        lines.push(format!("passed over: {all} times, the same waiter at most {most} times"));
    }
    if let Some(jain) = numbers.jain_per_mille {
        lines.push(format!("Jain's index of the grants: {}.{:03}", jain / 1_000, jain % 1_000));
    }
    if numbers.dead_waiter_us > 0 {
        lines.push(format!("lost to dead waiters: {} ms", millis(numbers.dead_waiter_us)));
    }
    if numbers.double_work > 0 {
        lines.push(format!("operations while two were inside: {}", numbers.double_work));
    }
    lines
}

fn millis(us: u64) -> String {
    format!("{}.{}", us / 1_000, us / 100 % 10)
}

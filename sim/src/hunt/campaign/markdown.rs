//! `summary.md`: the campaign on one page, also for GitHub's job summaries.

use std::fmt::Write as _;

use super::Identity;
use crate::check::{Language, Verdict};
use crate::hunt::book::Book;
use crate::hunt::course::Course;
use crate::report::layout::grouped;

/// A failure as it is told: its line, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What tells it from others.
    pub signature: String,
    /// In how many runs.
    pub runs: u64,
    /// The verdict, after it was run again.
    pub verdict: Verdict,
    /// The example.
    pub label: String,
    /// What the reference engine says, if it was asked.
    pub confirmation: Option<String>,
    /// The command that shows it.
    pub reproduce: String,
    /// The example's seed.
    pub seed: String,
    /// The whole report of the example.
    pub block: String,
}

/// The page.
pub fn summary(identity: &Identity, book: &Book, course: &Course, told: &[Told]) -> String {
    let quarry = &identity.quarry;
    let verdict = book.verdict();
    let (english, chinese) = (verdict.word(Language::English), verdict.word(Language::Chinese));
    let mut out = format!(
        "# lockstorm: {} in {}, fence {}: {english} {chinese}\n\n",
        quarry.lock,
        quarry.scenario,
        quarry.fence.name()
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "Strategy {}, seeds from {}, engine {}, lockstorm {}.\n",
        identity.strategy.name(),
        identity.seeds.first,
        quarry.engine,
        identity.lockstorm
    );
    let _ = writeln!(out, "| runs | verdict | |\n|---:|---|---|");
    for verdict in Verdict::BY_PRECEDENCE {
        let count = book.tally.ended(verdict);
        if count > 0 {
            let (english, chinese) =
                (verdict.word(Language::English), verdict.word(Language::Chinese));
            let _ = writeln!(out, "| {} | {english} | {chinese} |", grouped(count));
        }
    }
    if !told.is_empty() {
        let _ = writeln!(out, "\n## Failures\n\n| runs | signature | example | again |");
        let _ = writeln!(out, "|---:|---|---|---|");
        for failure in told {
            let confirmation = failure.confirmation.as_deref();
            let confirmation = confirmation.map_or_else(String::new, |said| format!(" ({said})"));
            let _ = writeln!(
                out,
                "| {} | `{}`{} | {} | `{}` |",
                grouped(failure.runs),
                failure.signature,
                cell(&confirmation),
                cell(&failure.label),
                cell(&failure.reproduce)
            );
        }
    }
    let _ = writeln!(out, "\n## Coverage\n\n```text");
    for (name, text) in book.denominators(quarry, course) {
        let _ = writeln!(out, "{name:<15}{text}");
    }
    for breaker in book.breakers() {
        let kinds: Vec<&str> = breaker.kinds.iter().map(|kind| kind.id()).collect();
        let (broke, tried) = (breaker.broke, breaker.tried);
        let kinds = kinds.join(", ");
        let _ = writeln!(out, "broke at {broke:>3} of {tried:>3}  {}: {kinds}", breaker.fault);
    }
    let _ = writeln!(out, "```");
    let rests_on = book.rests_on(course);
    if !rests_on.is_empty() {
        let _ = writeln!(out, "\n## What *{english}* rests on\n");
        for line in rests_on {
            let _ = writeln!(out, "- {line}");
        }
    }
    out
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

//! What came of the sentences of a text, as text, Markdown and JSON, in either language.
//!
//! Markdown is what `docs/claims.md` is made of; a test compares its standings with fresh runs.

pub mod words;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::check::Language;
use crate::claims::measure::Value;
use crate::claims::{Arm, Claim, Judged, Outcome, Standing, Trial};
use words::{Words, words};

/// Version of the JSON.
const SCHEMA: u32 = 1;

fn of_arm(arm: &Arm, language: Language) -> &'static str {
    match language {
        Language::English => arm.english,
        Language::Chinese => arm.chinese,
    }
}

/// Why a sentence is not measured.
fn reason(claim: &Claim, language: Language) -> Option<&'static str> {
    match (claim.trial, language) {
        (Trial::Arms(_), _) => None,
        (Trial::None(english, _), Language::English) => Some(english),
        (Trial::None(_, chinese), Language::Chinese) => Some(chinese),
    }
}

/// How many sentences ended so.
fn counts(judged: &[Judged]) -> BTreeMap<Standing, u64> {
    let mut counts = BTreeMap::new();
    for one in judged {
        *counts.entry(one.standing).or_default() += 1;
    }
    counts
}

fn tally(judged: &[Judged], words: &Words) -> String {
    let counts = counts(judged);
    let each = Standing::ALL.into_iter().filter_map(|standing| {
        counts.get(&standing).map(|count| format!("{} {count}", words.standing(standing)))
    });
    each.collect::<Vec<_>>().join(words.comma)
}

/// For people at a terminal.
pub fn text(judged: &[Judged], seeds: u64, language: Language) -> String {
    let words = words(language);
    let mut out = format!("{}\n{}\n", words.head(judged.len(), seeds), tally(judged, words));
    for one in judged {
        let (claim, standing) = (one.claim, words.standing(one.standing));
        out.push_str(&format!("\n{}  {standing}  {}\n", claim.id, claim.chinese));
        if language == Language::English {
            out.push_str(&format!("    {}\n", claim.english));
        }
        if let Some(reason) = reason(claim, language) {
            out.push_str(&format!("    {reason}\n"));
        }
        for outcome in &one.outcomes {
            out.push_str(&format!("    {} {}\n", words.mark(outcome.holds), line(outcome, words)));
        }
        if let Some(capsule) = one.witness().and_then(|outcome| outcome.witness.as_ref()) {
            out.push_str(&format!("    lockstorm replay {capsule}\n"));
        }
    }
    out.trim_end().to_owned()
}

/// `two skus in either order: in 10 of 10 runs …; predicted: never`.
fn line(outcome: &Outcome, words: &Words) -> String {
    let arm = outcome.arm;
    let measured = outcome.value.map_or(words.nothing.to_owned(), |value| words.value(value));
    let what = words.measure(arm.measure);
    let condition = of_arm(arm, words.language);
    match words.prediction(arm.predicts) {
        Some(predicted) => words.arm(condition, &what, &measured, &predicted),
        None => format!("{condition}{}{what} {measured}", words.colon),
    }
}

/// For a page of documentation.
pub fn markdown(judged: &[Judged], seeds: u64, language: Language) -> String {
    let words = words(language);
    let mut out = format!(
        "# {}\n\n{}\n\n{}\n\n**{}**\n\n| | {} | |\n|---|---|---|\n",
        words.title,
        words.head(judged.len(), seeds),
        words.how,
        tally(judged, words),
        words.sentence,
    );
    for one in judged {
        let sentence = match language {
            Language::English => one.claim.english,
            Language::Chinese => one.claim.chinese,
        };
        let (id, standing) = (one.claim.id, words.standing(one.standing));
        out.push_str(&format!("| [{id}](#{id}) | {} | {standing} |\n", cell(sentence)));
    }
    for one in judged {
        let (claim, standing) = (one.claim, words.standing(one.standing));
        // The heading alone is the link's target: the id and nothing else.
        out.push_str(&format!(
            "\n## {}\n\n**{standing}** · {}\n\n",
            claim.id,
            words.reading(claim.reading)
        ));
        out.push_str(&format!("> {}\n", quoted(claim.chinese)));
        if language == Language::English {
            out.push_str(&format!(">\n> {}\n", claim.english));
        }
        if let Some(reason) = reason(claim, language) {
            out.push_str(&format!(
                "\n{}{}{reason}\n",
                words.standing(Standing::NotMeasured),
                words.colon
            ));
        }
        if !one.outcomes.is_empty() {
            out.push_str(&format!(
                "\n| | {} | {} | {} | {} |\n|---|---|---|---|---|\n",
                words.condition, words.storm, words.measured, words.predicted
            ));
        }
        for outcome in &one.outcomes {
            out.push_str(&row(outcome, words));
        }
        if let Some(outcome) = one.witness()
            && let Some(capsule) = &outcome.witness
        {
            let condition = of_arm(outcome.arm, language);
            out.push_str(&format!(
                "\n{condition}{}\n\n```text\nlockstorm replay {capsule}\n```\n",
                words.colon
            ));
        }
    }
    out
}

fn row(outcome: &Outcome, words: &Words) -> String {
    let arm = outcome.arm;
    let measured = outcome.value.map_or(words.nothing.to_owned(), |value| words.value(value));
    let predicted = words.prediction(arm.predicts).unwrap_or_default();
    format!(
        "| {} | {} | `{}`, `{}` | {} {measured} | {predicted} |\n",
        words.mark(outcome.holds),
        cell(of_arm(arm, words.language)),
        arm.storm.lock,
        arm.storm.scenario,
        words.measure(arm.measure),
    )
}

/// A table's row of the text is no row here.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Of a table's row the bars are text.
fn quoted(text: &str) -> String {
    cell(text)
}

/// For programs.
pub fn json(judged: &[Judged], seeds: u64) -> String {
    let claims = judged.iter().map(|one| {
        json!({
            "id": one.claim.id,
            "chinese": one.claim.chinese,
            "english": one.claim.english,
            "reading": format!("{:?}", one.claim.reading).to_lowercase(),
            "standing": one.standing,
            "why-not-measured": reason(one.claim, Language::English),
            "arms": one.outcomes.iter().map(of_outcome).collect::<Vec<_>>(),
        })
    });
    let document = json!({
        "schema": SCHEMA,
        "lockstorm": env!("CARGO_PKG_VERSION"),
        "seeds": seeds,
        "claims": claims.collect::<Vec<_>>(),
    });
    format!("{document:#}")
}

fn of_outcome(outcome: &Outcome) -> Json {
    let arm = outcome.arm;
    let interval = outcome.value.and_then(|value| match value {
        Value::Share(share) => Some(share.interval_per_mille()),
        Value::Number { .. } => None,
    });
    json!({
        "english": arm.english,
        "chinese": arm.chinese,
        "scenario": arm.storm.scenario,
        "lock": arm.storm.lock,
        "measure": words(Language::English).measure(arm.measure),
        "value": outcome.value,
        "interval-per-mille": interval,
        "predicted": words(Language::English).prediction(arm.predicts),
        "holds": outcome.holds,
        "witness": outcome.witness,
    })
}

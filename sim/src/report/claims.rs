//! What came of the sentences of a text, as text, Markdown and JSON, in either language.
//!
//! Markdown is what `docs/claims.md` is made of. What of it no run decides ([`fixed`]) is
//! compared with that file by a test.

pub mod words;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::check::Language;
use crate::claims::measure::Value;
use crate::claims::prove::{Repeated, Witness};
use crate::claims::{Arm, Claim, Judged, Outcome, Prediction, Standing, Trial, expected};
use words::{Words, words};

/// Version of the JSON.
const SCHEMA: u32 = 1;

fn of_arm(arm: &Arm, language: Language) -> &'static str {
    match language {
        Language::English => arm.english,
        Language::Chinese => arm.chinese,
    }
}

/// Why no storm can tell of a sentence.
fn reason(claim: &Claim, language: Language) -> Option<&'static str> {
    match (claim.trial, language) {
        (Trial::Arms(_), _) => None,
        (Trial::None(english, _), Language::English) => Some(english),
        (Trial::None(_, chinese), Language::Chinese) => Some(chinese),
    }
}

/// What of a sentence is tried, where that is not plain.
fn note(claim: &Claim, language: Language) -> Option<&'static str> {
    claim.note.map(|(english, chinese)| match language {
        Language::English => english,
        Language::Chinese => chinese,
    })
}

/// How many sentences ended so, and which did not as the documents say.
fn tally(judged: &[Judged], words: &Words) -> String {
    let mut counts: BTreeMap<Standing, u64> = BTreeMap::new();
    for one in judged {
        *counts.entry(one.standing).or_default() += 1;
    }
    let each = counts.iter().map(|(standing, count)| {
        let word = standing.word(words.language);
        format!("{word} {count}")
    });
    each.collect::<Vec<_>>().join(words.comma)
}

/// One line for each sentence that did not come out as the documents say.
fn differences(judged: &[Judged], words: &Words) -> Vec<String> {
    let differing = judged.iter().filter(|one| !one.is_as_expected());
    let told = differing.map(|one| {
        let known = expected::of(one.claim.id).map(|standing| standing.word(words.language));
        words.differs(one.claim.id, one.standing.word(words.language), known)
    });
    told.collect()
}

/// For people at a terminal.
pub fn text(judged: &[Judged], seeds: u64, language: Language) -> String {
    let words = words(language);
    let mut out = format!("{}\n{}\n", words.head(judged.len(), seeds), tally(judged, words));
    for one in judged {
        let (claim, standing) = (one.claim, one.standing.word(language));
        out.push_str(&format!("\n{}  {standing}  {}\n", claim.id, claim.chinese));
        if language == Language::English {
            out.push_str(&format!("    {}\n", claim.english));
        }
        for said in [note(claim, language), reason(claim, language)].into_iter().flatten() {
            out.push_str(&format!("    {said}\n"));
        }
        for outcome in &one.outcomes {
            let condition = of_arm(outcome.arm, language);
            let asked = asked(outcome.arm, words);
            let came = came(outcome, &one.outcomes, words);
            let colon = words.colon;
            out.push_str(&format!("    {condition}{colon}{asked}{}{came}\n", words.semicolon));
        }
        if let Some(witness) = &one.witness {
            out.push_str(&format!("    {}\n", shown(witness, one, words)));
            out.push_str(&format!("    lockstorm replay {}\n", witness.capsule));
        }
    }
    for difference in differences(judged, words) {
        out.push_str(&format!("\n{difference}"));
    }
    out.trim_end().to_owned()
}

/// What is measured and what the sentence predicts of it.
fn asked(arm: &Arm, words: &Words) -> String {
    let measure = words.measure(arm.measure);
    match words.prediction(arm.predicts) {
        Some(predicted) => words.asked(&measure, &predicted),
        None => measure,
    }
}

/// What came of an arm: the number, as a ratio where it is compared, runs that say nothing.
fn came(outcome: &Outcome, all: &[Outcome], words: &Words) -> String {
    let mark = words.mark(outcome.holds);
    let mut came = match outcome.value {
        Some(value) => format!("{mark} {}", words.value(value)),
        None => format!("{mark} {}", words.nothing),
    };
    if let (Some(value), Some(at)) = (outcome.value, outcome.arm.predicts.compared_with())
        && let Some(other) = all.get(at).and_then(|outcome| outcome.value)
        && let Some(percent) = (value.number() * 100).checked_div(other.number())
    {
        came.push_str(&words.ratio(percent, at));
    }
    if !outcome.silent.is_empty() {
        came.push_str(&words.silent(&outcome.silent, outcome.runs, outcome.is_mostly_silent()));
    }
    came
}

/// One line about a witness, without its capsule.
fn shown(witness: &Witness, one: &Judged, words: &Words) -> String {
    let condition = of_arm(one.outcomes[witness.arm].arm, words.language);
    let verdict = witness.verdict.word(words.language);
    let measure = one.outcomes[witness.arm].arm.measure;
    let sample = words.sample(measure, witness.sample);
    let mut told = words.witness(condition, verdict, &sample, witness.is_decisive);
    for part in words.proof(witness.proof.as_ref()) {
        told.push_str(words.semicolon);
        told.push_str(&part);
    }
    told
}

/// The beginnings of those lines of a page that no run decides, in their order: what is said of
/// each sentence, how it is read, by which storms it is tried and what it predicts.
pub fn fixed(claims: &[&'static Claim], language: Language) -> Vec<String> {
    let words = words(language);
    let standing = |claim: &Claim| expected::of(claim.id).unwrap_or(Standing::NotMeasured);
    let mut lines: Vec<String> =
        claims.iter().map(|claim| summary(claim, standing(claim), words)).collect();
    for claim in claims {
        lines.extend(head(claim, standing(claim), words));
        lines.extend(claim.arms().iter().map(|arm| row(arm, words)));
    }
    lines
}

/// A sentence in the first table.
fn summary(claim: &Claim, standing: Standing, words: &Words) -> String {
    let sentence = match words.language {
        Language::English => claim.english,
        Language::Chinese => claim.chinese,
    };
    let (id, word) = (claim.id, standing.word(words.language));
    format!("| [{id}](#{id}) | {} | {word} |", cell(sentence))
}

/// What stands above the arms of a sentence.
fn head(claim: &Claim, standing: Standing, words: &Words) -> Vec<String> {
    let word = standing.word(words.language);
    let mut lines = vec![
        // The heading alone is the link's target: the id and nothing else.
        format!("## {}", claim.id),
        format!("> {}", cell(claim.chinese)),
    ];
    if words.language == Language::English {
        lines.push(format!("> {}", cell(claim.english)));
    }
    lines.push(match reason(claim, words.language) {
        Some(reason) => format!("**{word}**{}{reason}", words.colon),
        None => format!("**{word}** · {}", words.reading(claim.reading)),
    });
    lines.extend(note(claim, words.language).map(str::to_owned));
    lines
}

/// An arm up to what came of it.
fn row(arm: &Arm, words: &Words) -> String {
    let storm = arm.storm;
    format!(
        "| {} | `{}`, `{}`, {} {} | {} |",
        cell(of_arm(arm, words.language)),
        storm.lock,
        storm.scenario,
        words.fence,
        storm.fence.name(),
        asked(arm, words),
    )
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
        out.push_str(&format!("{}\n", summary(one.claim, one.standing, words)));
    }
    for one in judged {
        out.push_str(&section(one, words));
    }
    out
}

fn section(one: &Judged, words: &Words) -> String {
    let mut out = String::new();
    for line in head(one.claim, one.standing, words) {
        // Two quotations in a row would be one paragraph.
        let quoted = out.lines().last().is_some_and(|last| last.starts_with("> "));
        let parted = if quoted && line.starts_with("> ") { ">" } else { "" };
        out.push_str(&format!("{parted}\n{line}\n"));
    }
    if !one.outcomes.is_empty() {
        out.push_str(&format!(
            "\n| {} | {} | {} | {} |\n|---|---|---|---|\n",
            words.condition, words.storm, words.asks, words.came
        ));
    }
    for outcome in &one.outcomes {
        let came = came(outcome, &one.outcomes, words);
        out.push_str(&format!("{} {came} |\n", row(outcome.arm, words)));
    }
    if let Some(witness) = &one.witness {
        let capsule = &witness.capsule;
        let shown = shown(witness, one, words);
        out.push_str(&format!("\n{shown}\n\n```text\nlockstorm replay {capsule}\n```\n"));
    }
    out
}

/// A bar of the text is no border of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// For programs.
pub fn json(judged: &[Judged], seeds: u64) -> String {
    let claims = judged.iter().map(|one| {
        json!({
            "id": one.claim.id,
            "chinese": one.claim.chinese,
            "english": one.claim.english,
            "note": note(one.claim, Language::English),
            "reading": format!("{:?}", one.claim.reading).to_lowercase(),
            "standing": one.standing,
            "expected": expected::of(one.claim.id),
            "why-not-measured": reason(one.claim, Language::English),
            "arms": one.outcomes.iter().map(of_outcome).collect::<Vec<_>>(),
            "witness": one.witness.as_ref().map(of_witness),
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
    let (arm, words) = (outcome.arm, words(Language::English));
    let interval = outcome.value.and_then(|value| match value {
        Value::Share(share) => Some(share.interval_per_mille()),
        Value::Number { .. } => None,
    });
    json!({
        "english": arm.english,
        "chinese": arm.chinese,
        "scenario": arm.storm.scenario,
        "lock": arm.storm.lock,
        "fence": arm.storm.fence.name(),
        "measure": words.measure(arm.measure),
        "value": outcome.value,
        "interval-per-mille": interval,
        "runs": outcome.runs,
        "silent": outcome.silent.iter().map(|(verdict, count)| (verdict.id(), count))
            .collect::<BTreeMap<_, _>>(),
        "predicted": words.prediction(arm.predicts),
        "is-compared-only": arm.predicts == Prediction::Nothing,
        "holds": outcome.holds,
    })
}

fn of_witness(witness: &Witness) -> Json {
    let repeated = witness.proof.as_ref().map(|proof| match &proof.repeated {
        Repeated::Same => "same".to_owned(),
        Repeated::Differs(how) => format!("differs: {how}"),
        Repeated::Lost(how) => format!("lost: {how}"),
    });
    json!({
        "arm": witness.arm,
        "seed": witness.seed.to_string(),
        "capsule": witness.capsule,
        "verdict": witness.verdict.id(),
        "trace": witness.trace,
        "sample": witness.sample,
        "is-decisive": witness.is_decisive,
        "repeated": repeated,
        "confirmation": witness.proof.as_ref().and_then(|proof| proof.confirmation.as_ref()),
    })
}

//! Prints what a hunt came to.

use std::collections::BTreeMap;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::hunt::campaign::annotations::annotations;
use lockstorm_sim::hunt::campaign::evidence::TwinHunt;
use lockstorm_sim::hunt::campaign::markdown;
use lockstorm_sim::hunt::course::Course;
use lockstorm_sim::hunt::smaller::End;
use lockstorm_sim::plan::Seed;
use lockstorm_sim::report::block::failure_block_in;
use lockstorm_sim::report::layout::{counted, labelled};
use lockstorm_sim::report::manner::Manner;
use lockstorm_sim::report::{json, table};
use serde_json::{Value, json};

use super::Setup;
use super::examine::Examined;
use super::walk::Walk;
use crate::program::arguments::Format;
use crate::program::run::command_of_seed;
use crate::program::say::{manner, say};

/// How many failures are told in full; the others by one line.
const TOLD_IN_FULL: usize = 5;

/// Tells all of it.
pub fn tell(
    setup: &Setup,
    course: &Course,
    walk: &Walk<'_>,
    examined: &[Examined],
    twin: Option<&TwinHunt>,
) {
    match setup.format {
        Format::Text => text(setup, course, walk, examined, twin),
        Format::Json => say(json_of(setup, course, walk, examined)),
    }
    let is_text = setup.format == Format::Text;
    if setup.is_campaign
        && is_text
        && std::env::var_os("GITHUB_ACTIONS").is_some_and(|set| set == "true")
    {
        annotations(&told(examined, &plain())).iter().for_each(say);
    }
}

/// For files: no colours, whatever watches.
pub fn plain() -> Manner {
    Manner::from_environment()
}

/// Failures as the files of a campaign tell them.
pub fn told(examined: &[Examined], manner: &Manner) -> Vec<markdown::Told> {
    let told = examined.iter().map(|failure| markdown::Told {
        signature: failure.signature.clone(),
        runs: failure.runs,
        verdict: failure.verdict(),
        label: match &failure.shrunk {
            Some(shrunk) => format!("{}; {}", failure.label, shrunk.line()),
            None => failure.label.clone(),
        },
        confirmation: failure.confirmation().map(ToString::to_string),
        reproduce: failure.reproduce.clone(),
        seed: failure.run.plan.seed.to_string(),
        block: failure_block_in(&failure.told(), manner),
    });
    told.collect()
}

fn json_of(setup: &Setup, course: &Course, walk: &Walk<'_>, examined: &[Examined]) -> String {
    let book = &walk.book;
    let failures = examined.iter().map(|failure| {
        let mut value = json::run_value(&failure.told());
        value["shrunk"] = failure.shrunk.as_ref().map_or(Value::Null, |shrunk| {
            json!({
                "faults-before": shrunk.smaller.faults_before,
                "faults": shrunk.smaller.plan.faults.len(),
                "replays": shrunk.smaller.replays,
                "minimal": shrunk.smaller.end == End::Minimal,
                "file": shrunk.file,
                "before": shrunk.before,
            })
        });
        value
    });
    let signatures: Vec<Value> = book
        .failures()
        .into_iter()
        .map(|(signature, catch)| {
            json!({
                "signature": signature,
                "verdict": catch.summary.verdict,
                "runs": catch.runs,
                "first": { "number": catch.step.number, "what": catch.label },
            })
        })
        .collect();
    let cells: Vec<Value> = book
        .coverage
        .iter()
        .map(|((fault, operation), cell)| {
            let mut value = json!(cell);
            value["fault"] = json!(fault);
            value["operation"] = json!(operation);
            value
        })
        .collect();
    let parts: std::collections::BTreeMap<&str, String> =
        book.denominators(&setup.quarry, course).into_iter().collect();
    // The rule of three speaks of draws.
    let drawn = if course.survey().is_some() { &book.drawn } else { &book.tally };
    let more = [
        ("strategy", json!(setup.strategy.name())),
        ("signatures", json!(signatures)),
        ("coverage", json!({ "parts": parts, "cells": cells })),
        ("bound", json!(drawn.bound())),
        ("rests-on", json!(book.rests_on(course))),
        ("no-pair", json!(book.why_no_pair(course, setup.shard))),
    ];
    json::hunt_json(&setup.quarry, book.tally.clone(), book.trace(), failures.collect(), &more)
}

fn text(
    setup: &Setup,
    course: &Course,
    walk: &Walk<'_>,
    examined: &[Examined],
    twin: Option<&TwinHunt>,
) {
    let manner = manner();
    groups(examined, &manner);
    if walk.tells_all() {
        all(setup, examined, &manner);
    }
    let late = examined.iter().filter(|failure| failure.was_late).count() as u64;
    if late > 0 {
        say(format!(
            "{} told as found: the time was over before turmoil was asked; `lockstorm replay` of \
             the plan asks it, `lockstorm shrink` makes it smaller\n",
            counted(late, "failure")
        ));
    }
    let book = &walk.book;
    if course.survey().is_none() {
        say(book.tally.table(&manner));
    } else {
        say(book.tally.counts("runs", &manner));
        say("");
        coverage(setup, course, walk, &manner);
    }
    if let Some(why) = book.why_no_pair(course, setup.shard) {
        say(format!("\n{}", labelled("", 0, &why, manner.width)));
    }
    if let Some(confirmed) = table::confirmed(examined.iter().map(Examined::confirmation)) {
        say(format!("\n{confirmed}"));
    }
    if course.survey().is_some() {
        let rests_on = book.rests_on(course);
        if !rests_on.is_empty() {
            say(format!("\n{}, which rests on:", book.verdict()));
            for line in rests_on {
                say(labelled("  - ", 4, &line, manner.width));
            }
        }
    }
    if let Some(twin) = twin {
        let blind = if twin.is_seen() { "" } else { ": this harness is blind, believe nothing" };
        say(format!("\n{}{blind}", twin.line()));
    }
}

/// How wide the table of the coverage is; what is narrower gets a line each.
const COVERAGE_WIDTH: usize = 68;

/// `broke / inert / tried` of single faults, by kind of fault and operation.
fn coverage(setup: &Setup, course: &Course, walk: &Walk<'_>, manner: &Manner) {
    let quarry = &setup.quarry;
    let fence = quarry.fence.name();
    say(format!("coverage of {} in {}, fence {fence}", quarry.lock, quarry.scenario));
    for (name, text) in walk.book.denominators(quarry, course) {
        say(labelled(&format!("  {name:<15}"), 17, &text, manner.width));
    }
    let mut rows: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for ((fault, operation), cell) in &walk.book.coverage {
        let text = format!("{}/{}/{}", cell.broke, cell.inert, cell.tried);
        rows.entry(fault).or_default().insert(operation, text);
    }
    if rows.is_empty() {
        return;
    }
    let operations = ["acquire", "read", "sell", "release"];
    say("\n  broke/inert/tried, by the operation at whose moments the fault struck");
    if manner.width < COVERAGE_WIDTH {
        for (fault, cells) in &rows {
            let cells = operations.iter().filter_map(|operation| {
                cells.get(operation).map(|cell| format!("{operation} {cell}"))
            });
            let text = cells.collect::<Vec<_>>().join(", ");
            say(labelled(&format!("  {fault:<18}"), 6, &text, manner.width));
        }
    }
    let line = |first: &str, cells: [&str; 4]| {
        let mut line = format!("  {first:<18}");
        for cell in cells {
            line.push_str(&format!("{cell:>12}"));
        }
        say(line.trim_end());
    };
    if manner.width >= COVERAGE_WIDTH {
        line("", operations);
        for (fault, cells) in &rows {
            let cell = |operation| cells.get(operation).map_or("", String::as_str);
            line(fault, operations.map(cell));
        }
    }
    let breakers = walk.book.breakers();
    if breakers.is_empty() {
        return;
    }
    say("\n  single faults that break it, and at how many moments of those tried");
    for breaker in breakers {
        let kinds: Vec<&str> = breaker.kinds.iter().map(|kind| kind.id()).collect();
        let label = format!("  {:>3} of {:>3}  ", breaker.broke, breaker.tried);
        let text = format!("{}: {}", breaker.fault, kinds.join(", "));
        say(labelled(&label, label.len(), &text, manner.width));
    }
}

/// The first of each signature, those of the commonest in full.
fn groups(examined: &[Examined], manner: &Manner) {
    let mut of_signature: BTreeMap<&str, (u64, &Examined)> = BTreeMap::new();
    for failure in examined {
        of_signature.entry(&failure.signature).or_insert((0, failure)).0 += failure.runs;
    }
    // What is wrong with us first, then the commonest; among equals by their names.
    let is_ours = |signature: &str| {
        examined.iter().filter(|failure| failure.signature == signature).any(|failure| {
            failure.is_nondeterministic() || failure.run.judgement.verdict == Verdict::Internal
        })
    };
    let mut groups: Vec<(&str, (u64, &Examined))> = of_signature.into_iter().collect();
    groups.sort_by_key(|(signature, (runs, _))| (!is_ours(signature), std::cmp::Reverse(*runs)));
    for (signature, (runs, first)) in groups.iter().take(TOLD_IN_FULL) {
        say(failure_block_in(&first.told(), manner));
        if let Some(shrunk) = &first.shrunk {
            let line = format!("{}; {}", first.label, shrunk.line());
            say(manner.charset.fit(&labelled("  ", 2, &line, manner.width)));
            say(format!("  before: {}", shrunk.before));
        }
        if *runs > 1 {
            let more = format!("… and {} more with the signature {signature}", runs - 1);
            say(manner.charset.fit(&labelled("  ", 2, &more, manner.width)));
        }
        say("");
    }
    if groups.len() > TOLD_IN_FULL {
        let rest = &groups[TOLD_IN_FULL..];
        say(format!("{}, not told in full:", counted(rest.len() as u64, "more signature")));
        say("   runs  signature, and its first");
        for (signature, (runs, first)) in rest {
            let label = format!("  {runs:>5}  ");
            say(labelled(&label, label.len(), signature, manner.width));
            say(labelled("         ", 9, &first.label, manner.width));
        }
        say("");
    }
}

/// Every failure of a swarm, a line each.
fn all(setup: &Setup, examined: &[Examined], manner: &Manner) {
    let signatures: std::collections::BTreeSet<&str> =
        examined.iter().map(|failure| failure.signature.as_str()).collect();
    if examined.len() <= signatures.len().min(TOLD_IN_FULL) {
        return;
    }
    let command = command_of_seed(Seed(0), &setup.storm);
    let command = command.replace(&Seed(0).to_string(), "SEED");
    say(format!("All {} runs that were not safe; to see one of them:", examined.len()));
    say(format!("  {command}"));
    for failure in examined {
        say(one_line(failure, manner.width));
    }
    say("");
}

/// `  0x0000000000000005  turmoil 0.7: confirmed  violation  double-grant …`: the seed,
/// what the reference engine says, the verdict, and what it was.
fn one_line(failure: &Examined, cells: usize) -> String {
    let judgement = &failure.run.judgement;
    let verdict = failure.verdict();
    let confirmation = failure.confirmation();
    let confirmation = confirmation.map_or_else(String::new, |said| format!("{said};  "));
    // Without violations the signature is the verdict.
    let signature = match judgement.violations().next() {
        Some(_) if !failure.is_nondeterministic() => format!("  {}", failure.signature),
        _ => String::new(),
    };
    let seed = format!("  {}  ", failure.run.plan.seed);
    labelled(&seed, seed.len(), &format!("{confirmation}{verdict}{signature}"), cells)
}

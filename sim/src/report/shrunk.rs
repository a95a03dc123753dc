//! What shrinking came to: how much smaller the plan is, why each of its faults is
//! needed, which nearest plan passes. The story of the run that is left is told by
//! [`block`](super::block).

use serde_json::{Value, json};

use crate::check::Verdict;
use crate::fault;
use crate::plan::{Fault, Plan, When, capsule, file};
use crate::report::layout::{counted, labelled, pad, width};
use crate::report::manner::Manner;
use crate::shrink::{Nearest, Shrunk, Stopped, Without};

/// The text, without a line feed at its end.
pub fn shrunk(shrunk: &Shrunk, manner: &Manner) -> String {
    let mut lines = vec![format!(
        "{}  {}",
        manner.style.strong("SHRUNK"),
        manner.charset.fit(&shrunk.signature.to_string())
    )];
    lines.extend(sizes(&shrunk.original, shrunk.plan()));
    let remembered = match shrunk.remembered {
        0 => String::new(),
        again => format!(", {} known from before", counted(u64::from(again), "candidate")),
    };
    lines.push(format!("  by {}{remembered}", counted(u64::from(shrunk.replays), "replay")));
    lines.push(String::new());
    lines.push(format!("  {}", heading(shrunk)));
    for (without, fault) in shrunk.without.iter().zip(&shrunk.plan().faults) {
        let text = format!("{}; without it: {}", one_line(fault), outcome(without));
        lines.push(labelled(
            &format!("    {}  ", without.fault + 1),
            7,
            &manner.charset.fit(&text),
            manner.width,
        ));
    }
    let nearest = nearest_line(shrunk.nearest.as_ref());
    lines.push(labelled("  Nearest", 12, &manner.charset.fit(&nearest), manner.width));
    match shrunk.stopped {
        Some(Stopped::Limit) => {
            lines.push("  Stopped   at the limit of replays; --budget allows more".to_owned());
        }
        Some(Stopped::Caller) => lines.push("  Stopped   by whoever asked".to_owned()),
        None => {}
    }
    lines.join("\n")
}

fn heading(shrunk: &Shrunk) -> &'static str {
    match (shrunk.without.len(), shrunk.is_minimal()) {
        (0, _) => "It fails without any fault",
        (1, true) => "The fault is needed",
        (_, true) => "Each fault is needed",
        (_, false) => "Not each fault is proved to be needed: too few replays were left",
    }
}

/// `safe`, `inert`, or what it fails with instead.
pub fn outcome(without: &Without) -> String {
    match (&without.verdict, &without.signature) {
        (None, _) => "not tried".to_owned(),
        (Some(Verdict::Violation), Some(signature)) => format!("another violation ({signature})"),
        (Some(verdict), _) => verdict.to_string(),
    }
}

/// What the nearest plan that passes is.
pub fn nearest_line(nearest: Option<&Nearest>) -> String {
    match nearest {
        Some(nearest) => format!("{}: {}", nearest.change, nearest.verdict),
        None => "no plan that passes was found by changing one number, or one fault".to_owned(),
    }
}

/// What became smaller, a line each.
fn sizes(before: &Plan, after: &Plan) -> Vec<String> {
    let count = |number: usize| number.to_string();
    let clients = |plan: &Plan| count(plan.topology.app_nodes().len());
    let servers = |plan: &Plan| {
        let number = plan.topology.lock_servers().len();
        match plan.topology.sentinels {
            0 => number.to_string(),
            1 => format!("{number} + 1 sentinel"),
            sentinels => format!("{number} + {sentinels} sentinels"),
        }
    };
    let rows = [
        ("faults", count(before.faults.len()), count(after.faults.len())),
        ("clocks", count(before.clocks.len()), count(after.clocks.len())),
        ("clients", clients(before), clients(after)),
        ("servers", servers(before), servers(after)),
        ("units", before.workload.units.to_string(), after.workload.units.to_string()),
        ("duration", before.duration.to_string(), after.duration.to_string()),
    ];
    let widest = rows.iter().map(|(_, before, _)| width(before)).max().unwrap_or(0);
    let row = |(what, before, after): &(&str, String, String)| match before == after {
        true => format!("  {what:8}  {before}"),
        false => format!("  {what:8}  {}  to  {after}", pad(before, widest)),
    };
    rows.iter().map(row).collect()
}

/// A fault on one line: what it does, when it begins, how long it lasts.
pub fn one_line(fault: &Fault) -> String {
    let when = match (&fault.when, fault.kind.own_begin()) {
        (_, Some(_)) => String::new(),
        (When::At(at), _) => format!(", at {at}"),
        (When::After { anchor, delay }, _) if delay.0 == 0 => format!(", after {anchor}"),
        (When::After { anchor, delay }, _) => format!(", {delay} after {anchor}"),
    };
    let lasts = fault.lasts.map(|lasts| format!(", for {lasts}")).unwrap_or_default();
    format!("{}{when}{lasts}", fault::narration(&fault.kind))
}

/// The same as a JSON value.
pub fn shrunk_json(shrunk: &Shrunk) -> Value {
    let without = shrunk.without.iter().zip(&shrunk.plan().faults).map(|(without, fault)| {
        json!({
            "fault": without.fault,
            "what": one_line(fault),
            "verdict-without-it": without.verdict,
            "signature-without-it": without.signature.as_ref().map(ToString::to_string),
        })
    });
    let stopped = shrunk.stopped.map(|stopped| match stopped {
        Stopped::Limit => "limit",
        Stopped::Caller => "caller",
    });
    json!({
        "schema": 1,
        "lockstorm": env!("CARGO_PKG_VERSION"),
        "signature": shrunk.signature,
        "replays": shrunk.replays,
        "remembered": shrunk.remembered,
        "stopped": stopped,
        "minimal": shrunk.is_minimal(),
        "faults": without.collect::<Vec<_>>(),
        "nearest": nearest_json(shrunk.nearest.as_ref()),
        "original": file::write(&shrunk.original),
        "plan": file::write(shrunk.plan()),
        "capsule": capsule::write(shrunk.plan()),
    })
}

/// The nearest plan that passes as a JSON value.
pub fn nearest_json(nearest: Option<&Nearest>) -> Value {
    nearest.map_or(Value::Null, |nearest| {
        json!({
            "change": nearest.change,
            "verdict": nearest.verdict,
            "plan": file::write(&nearest.plan),
        })
    })
}

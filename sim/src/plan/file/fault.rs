//! The lists of a plan, `[[clock]]` and `[[fault]]`, read and written.

use std::fmt::Write as _;

use super::document::{Document, Entry, raw};
use super::read::{Fields, Places};
use crate::plan::complaint::{Complaint, listed};
use crate::plan::keys::{Raw, toml_text};
use crate::plan::{ClockPlan, Fault, FaultKind, Micros, PlanError, Ppm, SignedMicros, When};

/// What a kind of fault is called and which keys are its own.
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
}

const KINDS: [Kind; 8] = [
    Kind { name: "process-crash", keys: &["node"] },
    Kind { name: "machine-crash", keys: &["node"] },
    Kind { name: "pause", keys: &["node", "group"] },
    Kind { name: "partition", keys: &["from", "to", "one-way"] },
    Kind { name: "slow-link", keys: &["from", "to", "extra"] },
    Kind { name: "replication-stall", keys: &["node"] },
    Kind { name: "clock-rate", keys: &["node", "rate"] },
    Kind { name: "clock-step", keys: &["node", "by"] },
];

/// Keys of every fault.
const COMMON_KEYS: [&str; 5] = ["kind", "at", "after", "delay", "for"];

impl FaultKind {
    /// What the kind is called in plans and reports.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::ProcessCrash { .. } => "process-crash",
            FaultKind::MachineCrash { .. } => "machine-crash",
            FaultKind::Pause { .. } => "pause",
            FaultKind::Partition { .. } => "partition",
            FaultKind::SlowLink { .. } => "slow-link",
            FaultKind::ReplicationStall { .. } => "replication-stall",
            FaultKind::ClockRate { .. } => "clock-rate",
            FaultKind::ClockStep { .. } => "clock-step",
        }
    }
}

/// The clocks in `[[clock]]`.
pub(super) fn clocks(
    document: &Document<'_>,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<Vec<ClockPlan>, PlanError> {
    let mut clocks = Vec::new();
    for (position, (table, span)) in document.tables(entry)?.into_iter().enumerate() {
        let fields = Fields::new(document, format!("clock[{position}]"), table, span, places);
        for entry in &fields.entries {
            let known = ["node", "offset", "rate"];
            if !known.contains(&entry.key) {
                return Err(document.unknown_key(entry, "[[clock]]", &known));
            }
        }
        clocks.push(ClockPlan {
            node: text(&fields, "node", "write whose clock it is, such as node = \"redis-1\"")?,
            offset_us: fields.optional("offset", signed_us)?.unwrap_or(0),
            rate_ppm: fields.optional("rate", ppm)?.unwrap_or(0),
        });
    }
    Ok(clocks)
}

/// The faults in `[[fault]]`.
pub(super) fn faults(
    document: &Document<'_>,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<Vec<Fault>, PlanError> {
    let mut faults = Vec::new();
    for (position, (table, span)) in document.tables(entry)?.into_iter().enumerate() {
        let fields = Fields::new(document, format!("fault[{position}]"), table, span, places);
        faults.push(one_fault(fields)?);
    }
    Ok(faults)
}

fn one_fault(mut fields: Fields<'_, '_>) -> Result<Fault, PlanError> {
    let names = || KINDS.iter().map(|kind| kind.name);
    let mend = format!("write one of {}", listed(names()));
    let kind = fields.required("kind", &mend, |raw| {
        let name = raw.text()?;
        KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            Complaint::unknown("kind of fault", name, KINDS.iter().map(|kind| kind.name))
        })
    })?;
    own_keys_only(&fields, kind)?;
    let when = when(&fields)?;
    let lasts = fields.optional("for", Raw::time)?;
    let kind = fault_kind(&mut fields, kind)?;
    Ok(Fault { kind, when, lasts })
}

fn own_keys_only(fields: &Fields<'_, '_>, kind: &Kind) -> Result<(), PlanError> {
    let own: Vec<&str> = kind.keys.iter().chain(&COMMON_KEYS).copied().collect();
    for entry in &fields.entries {
        if own.contains(&entry.key) {
            continue;
        }
        let elsewhere = KINDS.iter().any(|kind| kind.keys.contains(&entry.key));
        if elsewhere {
            let complaint = Complaint::new(
                format!("{} does not belong to a {}", entry.key, kind.name),
                format!("it takes {}", listed(own.iter().copied())),
            );
            return Err(fields.document.error(entry.key_span.clone(), complaint));
        }
        return Err(fields.document.unknown_key(entry, &format!("a {}", kind.name), &own));
    }
    Ok(())
}

fn when(fields: &Fields<'_, '_>) -> Result<When, PlanError> {
    let at = fields.optional("at", Raw::time)?;
    let anchor =
        fields.optional("after", |raw| raw.parsed("an event", "app-1 acquire 3 applied"))?;
    let delay = fields.optional("delay", Raw::time)?;
    let at_key = |key: &str, complaint: Complaint| {
        let span = fields.find(key).map_or(fields.span.clone(), |entry| entry.key_span.clone());
        fields.document.error(span, complaint)
    };
    match (at, anchor, delay) {
        (Some(_), Some(_), _) => Err(at_key(
            "after",
            Complaint::new("the fault begins both `at` a time and `after` an event", "keep one"),
        )),
        (Some(_), None, Some(_)) => Err(at_key(
            "delay",
            Complaint::new("a delay follows an event, not a time", "add it to `at`"),
        )),
        (Some(at), None, None) => Ok(When::At(at)),
        (None, Some(anchor), delay) => {
            Ok(When::After { anchor, delay: delay.unwrap_or(Micros(0)) })
        }
        (None, None, _) => Err(fields.document.error(
            fields.span.clone(),
            Complaint::new(
                "the fault does not say when it begins",
                "write at = \"2s\", or after = \"app-1 acquire 3 applied\"",
            ),
        )),
    }
}

fn fault_kind(fields: &mut Fields<'_, '_>, kind: &Kind) -> Result<FaultKind, PlanError> {
    if kind.keys.contains(&"from") {
        return between(fields, kind);
    }
    let node = text(fields, "node", "write whose it is, such as node = \"redis-1\"")?;
    Ok(match kind.name {
        "process-crash" => FaultKind::ProcessCrash { node },
        "machine-crash" => FaultKind::MachineCrash { node },
        "pause" => {
            let group = fields.optional("group", |raw| raw.text().map(str::to_owned))?;
            FaultKind::Pause { node, group }
        }
        "replication-stall" => FaultKind::ReplicationStall { node },
        "clock-rate" => {
            let ppm = fields.required("rate", "write one, such as rate = \"+500ppm\"", ppm)?;
            FaultKind::ClockRate { node, ppm }
        }
        _ => {
            let by_us =
                fields.required("by", "write a step, such as by = \"-250ms\"", signed_us)?;
            FaultKind::ClockStep { node, by_us }
        }
    })
}

/// The kinds that stand between two sets of nodes.
fn between(fields: &mut Fields<'_, '_>, kind: &Kind) -> Result<FaultKind, PlanError> {
    let from = nodes(fields, "from")?;
    let to = nodes(fields, "to")?;
    if kind.name == "partition" {
        let one_way = fields.optional("one-way", Raw::flag)?.unwrap_or(false);
        return Ok(FaultKind::Partition { from, to, one_way });
    }
    let extra =
        fields.required("extra", "write how much longer, such as extra = \"80ms\"", Raw::time)?;
    Ok(FaultKind::SlowLink { from, to, extra })
}

fn text(fields: &Fields<'_, '_>, key: &str, mend: &str) -> Result<String, PlanError> {
    fields.required(key, mend, |raw| raw.text().map(str::to_owned))
}

fn ppm(raw: Raw<'_>) -> Result<i64, Complaint> {
    raw.parsed("a rate", "+500ppm").map(|Ppm(ppm)| ppm)
}

fn signed_us(raw: Raw<'_>) -> Result<i64, Complaint> {
    raw.parsed("a time with a unit", "-250ms").map(|SignedMicros(us)| us)
}

/// One side of a partition or a slow link: a name, or a list of them.
fn nodes(fields: &mut Fields<'_, '_>, key: &str) -> Result<Vec<String>, PlanError> {
    let mend = format!("write one side, such as {key} = [\"redis-1\"]");
    let Some(entry) = fields.find(key).cloned() else {
        return Err(fields.missing(key, &mend));
    };
    if let Ok(name) = raw(entry.value).text() {
        return Ok(vec![name.to_owned()]);
    }
    let wrong = |span| {
        let what = format!("{key}: expected names of nodes");
        fields.document.error(span, Complaint::new(what, mend.clone()))
    };
    let Some(array) = entry.value.as_array() else {
        return Err(wrong(entry.span));
    };
    let mut names = Vec::new();
    for (position, item) in array.iter().enumerate() {
        let name = raw(item.get_ref()).text().map_err(|_| wrong(item.span()))?;
        names.push(name.to_owned());
        fields.places.insert(format!("{}.{key}[{position}]", fields.at), item.span());
    }
    Ok(names)
}

/// One `[[clock]]`, its keys only.
pub(super) fn write_clock(out: &mut String, clock: &ClockPlan) {
    line(out, "node", &clock.node);
    if clock.offset_us != 0 {
        line(out, "offset", SignedMicros(clock.offset_us));
    }
    if clock.rate_ppm != 0 {
        line(out, "rate", Ppm(clock.rate_ppm));
    }
}

/// One `[[fault]]`, its keys only.
pub(super) fn write_fault(out: &mut String, fault: &Fault) {
    line(out, "kind", fault.kind.name());
    match &fault.kind {
        FaultKind::ProcessCrash { node }
        | FaultKind::MachineCrash { node }
        | FaultKind::ReplicationStall { node } => line(out, "node", node),
        FaultKind::Pause { node, group } => {
            line(out, "node", node);
            if let Some(group) = group {
                line(out, "group", group);
            }
        }
        FaultKind::Partition { from, to, one_way } => {
            node_line(out, "from", from);
            node_line(out, "to", to);
            if *one_way {
                out.push_str("one-way = true\n");
            }
        }
        FaultKind::SlowLink { from, to, extra } => {
            node_line(out, "from", from);
            node_line(out, "to", to);
            line(out, "extra", extra);
        }
        FaultKind::ClockRate { node, ppm } => {
            line(out, "node", node);
            line(out, "rate", Ppm(*ppm));
        }
        FaultKind::ClockStep { node, by_us } => {
            line(out, "node", node);
            line(out, "by", SignedMicros(*by_us));
        }
    }
    match &fault.when {
        When::At(at) => line(out, "at", at),
        When::After { anchor, delay } => {
            line(out, "after", anchor);
            if *delay != Micros(0) {
                line(out, "delay", delay);
            }
        }
    }
    if let Some(lasts) = fault.lasts {
        line(out, "for", lasts);
    }
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{key} = {}", toml_text(&value.to_string()));
}

fn node_line(out: &mut String, key: &str, nodes: &[String]) {
    let nodes: Vec<String> = nodes.iter().map(|node| toml_text(node)).collect();
    let _ = writeln!(out, "{key} = [{}]", nodes.join(", "));
}

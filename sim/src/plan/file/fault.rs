//! The lists of a plan, `[[clock]]` and `[[fault]]`, read and written.

use std::fmt::Write as _;

use super::document::{Document, Entry, raw};
use super::read::{Fields, Places};
use crate::plan::complaint::{Complaint, listed};
use crate::plan::keys::{Raw, toml_text};
use crate::plan::struck::Struck;
use crate::plan::{
    ClockPlan, Fault, FaultKind, Micros, Operation, PlanError, Ppm, SignedMicros, When,
};

/// What a kind of fault is called and which keys are its own.
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
    /// Which keys say when it begins and ends.
    times: &'static [&'static str],
}

const KINDS: [Kind; 17] = [
    Kind { name: "process-crash", keys: &["node"], times: LASTING },
    Kind { name: "machine-crash", keys: &["node"], times: LASTING },
    Kind { name: "pause", keys: &["node", "group"], times: LASTING },
    Kind { name: "hang", keys: &["node"], times: LASTING },
    Kind { name: "partition", keys: &["from", "to", "one-way"], times: LASTING },
    Kind { name: "slow-link", keys: &["from", "to", "extra"], times: LASTING },
    Kind { name: "reset", keys: &["from", "to"], times: BEGINNING },
    Kind { name: "replication-stall", keys: &["node"], times: LASTING },
    Kind { name: "promote", keys: &["node"], times: BEGINNING },
    Kind { name: "clock-rate", keys: &["node", "rate"], times: LASTING },
    Kind { name: "clock-step", keys: &["node", "by"], times: LASTING },
    Kind { name: "clock-freeze", keys: &["node"], times: LASTING },
    Kind { name: "clock-slew", keys: &["node", "by", "rate"], times: BEGINNING },
    Kind { name: "disk-slow", keys: &["node", "extra"], times: LASTING },
    Kind { name: "disk-stall", keys: &["node"], times: LASTING },
    Kind { name: "disk-error", keys: &["node"], times: LASTING },
    Kind {
        name: "cancel",
        keys: &["node", "operation", "ordinal", "await", "delay"],
        times: &["kind"],
    },
];

/// Keys of faults that begin when they are told to, and last.
const LASTING: &[&str] = &["kind", "at", "after", "delay", "for"];

/// Keys of faults that begin when they are told to, and end by themselves.
const BEGINNING: &[&str] = &["kind", "at", "after", "delay"];

impl Kind {
    fn all_keys(&self) -> Vec<&'static str> {
        self.keys.iter().chain(self.times).copied().collect()
    }
}

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
            FaultKind::Promote { .. } => "promote",
            FaultKind::ClockRate { .. } => "clock-rate",
            FaultKind::ClockStep { .. } => "clock-step",
            FaultKind::Reset { .. } => "reset",
            FaultKind::ClockFreeze { .. } => "clock-freeze",
            FaultKind::ClockSlew { .. } => "clock-slew",
            FaultKind::Cancel { .. } => "cancel",
            FaultKind::Hang { .. } => "hang",
            FaultKind::DiskSlow { .. } => "disk-slow",
            FaultKind::DiskStall { .. } => "disk-stall",
            FaultKind::DiskError { .. } => "disk-error",
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
    if kind.name == "cancel" {
        return Ok(Fault::new(cancel(&fields)?, When::At(Micros(0))));
    }
    let when = when(&fields)?;
    let lasts = fields.optional("for", Raw::time)?;
    let kind = fault_kind(&mut fields, kind)?;
    Ok(Fault { kind, when, lasts })
}

fn own_keys_only(fields: &Fields<'_, '_>, kind: &Kind) -> Result<(), PlanError> {
    let own = kind.all_keys();
    for entry in &fields.entries {
        if own.contains(&entry.key) {
            continue;
        }
        let elsewhere = KINDS.iter().any(|kind| kind.all_keys().contains(&entry.key));
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
    let by = || fields.required("by", "write how much, such as by = \"-250ms\"", signed_us);
    Ok(match kind.name {
        "process-crash" => FaultKind::ProcessCrash { node },
        "machine-crash" => FaultKind::MachineCrash { node },
        "pause" => {
            let group = fields.optional("group", |raw| raw.text().map(str::to_owned))?;
            FaultKind::Pause { node, group }
        }
        "hang" => FaultKind::Hang { node },
        "replication-stall" => FaultKind::ReplicationStall { node },
        "promote" => FaultKind::Promote { node },
        "clock-rate" => {
            let ppm = fields.required("rate", "write one, such as rate = \"+500ppm\"", ppm)?;
            FaultKind::ClockRate { node, ppm }
        }
        "clock-step" => FaultKind::ClockStep { node, by_us: by()? },
        "clock-freeze" => FaultKind::ClockFreeze { node },
        "clock-slew" => {
            let ppm = fields.optional("rate", slew_ppm)?.unwrap_or(FaultKind::SLEW_PPM);
            FaultKind::ClockSlew { node, by_us: by()?, ppm }
        }
        "disk-slow" => FaultKind::DiskSlow { node, extra: extra(fields)? },
        "disk-stall" => FaultKind::DiskStall { node },
        _ => FaultKind::DiskError { node },
    })
}

/// A future to be dropped.
fn cancel(fields: &Fields<'_, '_>) -> Result<FaultKind, PlanError> {
    let count = |raw: Raw<'_>| raw.count(u32::MAX);
    let operation = |raw: Raw<'_>| {
        let name = raw.text()?;
        let known = FaultKind::CANCELLABLE.into_iter().find(|known| known.name() == name);
        let names = FaultKind::CANCELLABLE.map(Operation::name);
        known.ok_or_else(|| Complaint::unknown("operation to cancel", name, names))
    };
    Ok(FaultKind::Cancel {
        node: text(fields, "node", "write whose, such as node = \"app-1\"")?,
        operation: fields.required("operation", "write \"acquire\" or \"release\"", operation)?,
        ordinal: fields.required("ordinal", "write which, such as ordinal = 3", count)?,
        suspension: fields.required("await", "write at which wait, such as await = 1", count)?,
        delay: fields.optional("delay", Raw::time)?.unwrap_or(Micros(0)),
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
    if kind.name == "reset" {
        return Ok(FaultKind::Reset { from, to });
    }
    Ok(FaultKind::SlowLink { from, to, extra: extra(fields)? })
}

fn extra(fields: &Fields<'_, '_>) -> Result<Micros, PlanError> {
    fields.required("extra", "write how much longer, such as extra = \"80ms\"", Raw::time)
}

fn text(fields: &Fields<'_, '_>, key: &str, mend: &str) -> Result<String, PlanError> {
    fields.required(key, mend, |raw| raw.text().map(str::to_owned))
}

fn ppm(raw: Raw<'_>) -> Result<i64, Complaint> {
    raw.parsed("a rate", "+500ppm").map(|Ppm(ppm)| ppm)
}

/// The rate of a slew: its direction is that of what it gains.
fn slew_ppm(raw: Raw<'_>) -> Result<u32, Complaint> {
    let ppm = ppm(raw)?;
    u32::try_from(ppm).map_err(|_| {
        Complaint::new(
            format!("a slew at {} cannot be", Ppm(ppm)),
            "write a rate without a sign; the sign of `by` says which way",
        )
    })
}

fn signed_us(raw: Raw<'_>) -> Result<i64, Complaint> {
    raw.parsed("a time with a unit", "-250ms").map(|SignedMicros(us)| us)
}

/// One side of a partition, a slow link or a reset: a name, or a list of them.
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
    write_kind(out, &fault.kind);
    if fault.kind.own_begin().as_ref() != Some(&fault.when) {
        write_when(out, &fault.when);
    }
    if let Some(lasts) = fault.lasts {
        line(out, "for", lasts);
    }
}

/// The keys of a kind's own.
fn write_kind(out: &mut String, kind: &FaultKind) {
    match kind.struck() {
        Struck::Node(node) => line(out, "node", node),
        Struck::Sides(from, to) => {
            node_line(out, "from", from);
            node_line(out, "to", to);
        }
    }
    match kind {
        FaultKind::Pause { group: Some(group), .. } => line(out, "group", group),
        FaultKind::Partition { one_way: true, .. } => out.push_str("one-way = true\n"),
        FaultKind::SlowLink { extra, .. } | FaultKind::DiskSlow { extra, .. } => {
            line(out, "extra", extra);
        }
        FaultKind::ClockRate { ppm, .. } => line(out, "rate", Ppm(*ppm)),
        FaultKind::ClockStep { by_us, .. } => line(out, "by", SignedMicros(*by_us)),
        FaultKind::ClockSlew { by_us, ppm, .. } => {
            line(out, "by", SignedMicros(*by_us));
            line(out, "rate", Ppm(i64::from(*ppm)).without_plus());
        }
        FaultKind::Cancel { operation, ordinal, suspension, delay, .. } => {
            line(out, "operation", operation.name());
            // Writing to a string does not fail.
            let _ = writeln!(out, "ordinal = {ordinal}\nawait = {suspension}");
            if *delay != Micros(0) {
                line(out, "delay", delay);
            }
        }
        _ => {}
    }
}

fn write_when(out: &mut String, when: &When) {
    match when {
        When::At(at) => line(out, "at", at),
        When::After { anchor, delay } => {
            line(out, "after", anchor);
            if *delay != Micros(0) {
                line(out, "delay", delay);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the book names each kind, with its own keys and no others.
    #[test]
    fn the_book_says_every_kind_and_its_keys() {
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/storms.md");
        let text = std::fs::read_to_string(book).unwrap();
        let quoted = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let mut told = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split('|').collect();
            for name in quoted(cells[1]) {
                told.push((name, quoted(cells[2])));
            }
        }
        told.sort();
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let mut known: Vec<(String, Vec<String>)> =
            KINDS.iter().map(|kind| (kind.name.to_owned(), owned(kind.keys))).collect();
        known.sort();
        assert_eq!(told, known);
    }
}

//! From a plan to its canonical text: complete, in a fixed order, in the units a
//! reader would choose.

use std::fmt::Write as _;

use super::fault::{write_clock, write_fault};
use crate::plan::keys::{KEYS, SECTIONS, joined};
use crate::plan::{Fault, Plan, SCHEMA};

/// The plan as TOML; [`parse`](super::parse) gives the same plan back.
pub fn write(plan: &Plan) -> String {
    let mut out = String::new();
    write_at(&mut out, "", plan);
    out
}

/// Writes the plan as the table `prefix`; the top of the file if that is empty.
pub(crate) fn write_at(out: &mut String, prefix: &str, plan: &Plan) {
    // Writing to a string does not fail.
    if !prefix.is_empty() {
        let _ = writeln!(out, "[{prefix}]");
    }
    let _ = writeln!(out, "schema = {SCHEMA}");
    write_section(out, "", plan);
    for section in SECTIONS {
        let _ = writeln!(out, "\n[{}]", joined(prefix, section));
        write_section(out, section, plan);
    }
    for clock in &plan.clocks {
        let _ = writeln!(out, "\n[[{}]]", joined(prefix, "clock"));
        write_clock(out, clock);
    }
    for fault in &plan.faults {
        let _ = writeln!(out, "\n[[{}]]", joined(prefix, "fault"));
        write_fault(out, fault);
    }
}

/// Faults alone, as tables to be added to the end of a plan's file.
pub fn write_faults(faults: &[Fault]) -> String {
    let mut out = String::new();
    for fault in faults {
        // Writing to a string does not fail.
        let _ = writeln!(out, "\n[[fault]]");
        write_fault(&mut out, fault);
    }
    out
}

/// A fault in one line: `{ kind = "pause", node = "app-1", … }`.
pub fn inline_fault(fault: &Fault) -> String {
    let mut out = String::new();
    write_fault(&mut out, fault);
    let keys: Vec<&str> = out.lines().collect();
    format!("{{ {} }}", keys.join(", "))
}

fn write_section(out: &mut String, section: &str, plan: &Plan) {
    for key in KEYS.iter().filter(|key| key.section == section && (key.matters)(plan)) {
        let _ = writeln!(out, "{} = {}", key.name, (key.show)(plan));
    }
}

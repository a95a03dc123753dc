//! Plans as TOML files.
//!
//! ```toml
//! schema = 1
//! scenario = "redis-failover"
//! seed = "0x2a"
//! fence = "off"
//!
//! [lock]
//! lease = "2s"
//!
//! [[fault]]
//! kind = "machine-crash"
//! node = "redis-1"
//! after = "app-1 acquire 3 applied"
//! delay = "5ms"
//! for = "400ms"
//! ```
//!
//! What is left out takes the scenario's default, so a file can be short; what is
//! written is complete and canonical, and reading it gives the same plan. Times,
//! rates and seeds are text (see [`time`](super::time), [`rate`](super::rate),
//! [`seed`](super::seed)); `latency-sigma` is a number with up to three decimals. A
//! fault begins `at` a time or `after` an event, with an optional `delay`; without
//! `for` it lasts until the storm is over. What ends by itself has no `for`: a `reset` is
//! over at once, a `clock-slew` when it has gained its `by`, a `cancel` with its
//! operation, which is also when it begins.
//!
//! Bad input gives exactly one error, which names file, line, column, what is wrong
//! and the mend.
//!
//! Order of things: `document` is a TOML text whose values know their places,
//! `read` turns it into a plan, `fault` does so for the lists of clocks and
//! faults, `write` is the way back, and [`setting`] reads the same
//! settings from the command line.

pub(crate) mod document;
pub(crate) mod fault;
pub(crate) mod read;
pub mod setting;
pub(crate) mod write;

use std::io::Read;
use std::path::Path;

use super::{Complaint, Plan, PlanError, capsule};
use document::Document;

pub use write::{inline_fault, write, write_faults};

/// Reads a plan from `text`; `name` is what errors call it.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(name: &str, text: &str) -> Result<Plan, PlanError> {
    let document = Document { name, text };
    let root = document.root()?;
    read::plan(&document, &root, 0..text.len().min(1))
}

/// Reads the plan in the file at `path`, which may hold a [capsule], or in the capsule that
/// `path` is.
///
/// # Errors
/// Those of [`parse`], and files that cannot be read or are not UTF-8.
pub fn load(path: &Path) -> Result<Plan, PlanError> {
    parse(&name_of(path), &load_text(path)?)
}

/// A name for the file of this plan, without an ending. Two plans of one seed may have the
/// same; of `planted/bare-del` it makes no folder.
pub fn stem(plan: &Plan) -> String {
    let lock = plan.lock.name.replace(['/', '\\'], "-");
    format!("{}-{lock}-{}-{}", plan.scenario, plan.fence.name(), plan.seed)
}

/// What errors call what is read from `path`.
pub(crate) fn name_of(path: &Path) -> String {
    capsule::of_path(path).map_or_else(|| path.display().to_string(), capsule::name)
}

/// The text of the file at `path`, or in the capsule that it is.
pub(crate) fn load_text(path: &Path) -> Result<String, PlanError> {
    if let Some(capsule) = capsule::of_path(path) {
        return capsule::text(capsule);
    }
    let name = path.display().to_string();
    // No more than shows that it is too long: it may have no end.
    let read = |file: std::fs::File| {
        let mut bytes = Vec::new();
        file.take(document::LARGEST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes: Vec<u8> = std::fs::File::open(path).and_then(read).map_err(|error| {
        let mend = if path.is_dir() { "name a file" } else { "look at the path and its rights" };
        PlanError::named(&name, Complaint::new(format!("cannot be read: {error}"), mend))
    })?;
    if bytes.len() > document::LARGEST_BYTES {
        return Err(PlanError::named(&name, document::too_long()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        let complaint =
            Complaint::new("these bytes are not UTF-8", "restore the file, or write it as UTF-8");
        PlanError::in_text(&name, &text, valid..valid + 1, complaint)
    })?;
    // A capsule that somebody has kept in a file.
    if capsule::is_capsule(&text) { capsule::text(&text) } else { Ok(text) }
}

/// The plan, which has no faults, with these: TOML's inline tables, as
/// [`inline_fault`] writes them.
///
/// # Errors
/// Those of [`parse`]; the place is `name`.
pub fn with_faults(name: &str, plan: &Plan, faults: &[String]) -> Result<Plan, PlanError> {
    let text = format!("fault = [{}]\n{}", faults.join(", "), write(plan));
    parse(name, &text)
}

#[cfg(test)]
mod tests;

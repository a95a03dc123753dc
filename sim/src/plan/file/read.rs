//! From a TOML table to a plan.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use super::document::{Document, Entry, entries, find, raw};
use super::fault;
use crate::plan::complaint::{Complaint, quoted};
use crate::plan::keys::{KEYS, Key, SECTIONS, joined};
use crate::plan::rules::{Problem, first_problem};
use crate::plan::scenario::{self, LockKind, Scenario};
use crate::plan::{Fence, Plan, PlanError, SCHEMA};

/// Where settings stand in the text, by their names (`lock.lease`,
/// `fault[2].node`).
pub(crate) type Places = BTreeMap<String, Range<usize>>;

/// The plan in `table`, which stands at `span`.
pub(crate) fn plan(
    document: &Document<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
) -> Result<Plan, PlanError> {
    document.check_schema(table, span.clone(), "plan", SCHEMA)?;
    let (scenario, lock) = starting_point(document, table, span.clone())?;
    let mut plan = scenario.plan(lock, Fence::Off);
    let mut places = Places::new();
    for entry in entries(table) {
        places.insert(entry.key.to_owned(), entry.span.clone());
        match entry.key {
            "schema" => {}
            "clock" => plan.clocks = fault::clocks(document, &entry, &mut places)?,
            "fault" => plan.faults = fault::faults(document, &entry, &mut places)?,
            section if SECTIONS.contains(&section) => {
                let mend = format!("write [{section}] on a line of its own, its keys below");
                for inner in entries(document.table(&entry, &mend)?) {
                    setting(document, &mut plan, section, &inner, &mut places)?;
                }
            }
            _ => setting(document, &mut plan, "", &entry, &mut places)?,
        }
    }
    first_problem(&plan).map_err(|problem| placed(document, &places, &span, problem))?;
    Ok(plan)
}

/// The scenario and the lock: they decide what everything left out is.
fn starting_point(
    document: &Document<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
) -> Result<(&'static Scenario, &'static LockKind), PlanError> {
    let Some(entry) = find(table, "scenario") else {
        let known = scenario::SCENARIOS.iter().map(|known| known.name);
        let complaint = Complaint::new(
            "the plan names no scenario",
            format!("write scenario = \"…\"; allowed: {}", crate::plan::complaint::listed(known)),
        );
        return Err(document.error(span, complaint));
    };
    let at = |entry: &Entry<'_>, complaint| document.error(entry.span.clone(), complaint);
    let scenario = raw(entry.value)
        .text()
        .and_then(scenario::find)
        .map_err(|complaint| at(&entry, complaint))?;
    let section = find(table, "lock");
    let section = section.as_ref().and_then(|lock| lock.value.as_table());
    let lock = match section.and_then(|section| find(section, "name")) {
        Some(entry) => raw(entry.value)
            .text()
            .and_then(scenario::find_lock)
            .map_err(|complaint| at(&entry, complaint))?,
        None => scenario::find_lock(scenario.lock)
            .map_err(|complaint| document.error(0..1, complaint))?,
    };
    Ok((scenario, lock))
}

/// Reads one setting into the plan.
fn setting(
    document: &Document<'_>,
    plan: &mut Plan,
    section: &str,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<(), PlanError> {
    let known = |key: &&Key| key.section == section && key.name == entry.key;
    let Some(key) = KEYS.iter().find(known) else {
        return Err(unknown_setting(document, section, entry));
    };
    places.insert(key.path(), entry.span.clone());
    key.put(plan, raw(entry.value)).map_err(|complaint| {
        let what = format!("{}: {}", key.path(), complaint.what);
        document.error(entry.span.clone(), Complaint::new(what, complaint.mend))
    })
}

fn unknown_setting(document: &Document<'_>, section: &str, entry: &Entry<'_>) -> PlanError {
    let place = if section.is_empty() { "a plan".to_owned() } else { format!("[{section}]") };
    if let Some(key) = KEYS.iter().find(|key| key.name == entry.key) {
        let home = if key.section.is_empty() {
            "at the top of the file, above all [tables]".to_owned()
        } else {
            format!("below [{}]", key.section)
        };
        let complaint = Complaint::new(
            format!("{place} has no key {}", quoted(entry.key)),
            format!("it stands {home}"),
        );
        return document.error(entry.key_span.clone(), complaint);
    }
    if (section, entry.key) == ("topology", "sentinel") {
        let complaint = Complaint::new(
            "[topology] has no key \"sentinel\" any more: sentinels are counted",
            "write sentinels = 1 for true, 0 for false (3 is what the scenarios have)",
        );
        return document.error(entry.key_span.clone(), complaint);
    }
    let mut names: Vec<&str> =
        KEYS.iter().filter(|key| key.section == section).map(|key| key.name).collect();
    if section.is_empty() {
        names.insert(0, "schema");
        names.extend(SECTIONS);
        names.extend(["clock", "fault"]);
    }
    document.unknown_key(entry, &place, &names)
}

/// A broken rule at the first of its settings that stands in the text; where none
/// does, at the table it would stand in.
fn placed(
    document: &Document<'_>,
    places: &Places,
    table_span: &Range<usize>,
    problem: Problem,
) -> PlanError {
    let section = problem.at.iter().filter_map(|at| at.split_once('.')).map(|(section, _)| section);
    let span = problem.at.iter().map(String::as_str).chain(section).find_map(|at| places.get(at));
    document.error(span.unwrap_or(table_span).clone(), problem.complaint)
}

/// The keys of one table of a list, each to be taken once.
pub(crate) struct Fields<'a, 't> {
    pub document: &'a Document<'a>,
    /// The table's name, such as `fault[2]`.
    pub at: String,
    /// Where the table begins.
    pub span: Range<usize>,
    pub entries: Vec<Entry<'t>>,
    pub places: &'a mut Places,
}

impl<'a, 't> Fields<'a, 't> {
    /// The fields of the table `at`.
    pub fn new(
        document: &'a Document<'a>,
        at: String,
        table: &'t DeTable<'t>,
        span: Range<usize>,
        places: &'a mut Places,
    ) -> Self {
        places.insert(at.clone(), span.clone());
        let entries = entries(table);
        for entry in &entries {
            places.insert(joined(&at, entry.key), entry.span.clone());
        }
        Fields { document, at, span, entries, places }
    }

    /// The entry of this key, if the table has it.
    pub fn find(&self, key: &str) -> Option<&Entry<'t>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// What `read` makes of the key's value, if the table has it.
    pub fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(crate::plan::keys::Raw<'t>) -> Result<T, Complaint>,
    ) -> Result<Option<T>, PlanError> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let value: &'t toml::de::DeValue<'t> = entry.value;
        read(raw(value)).map(Some).map_err(|complaint| {
            let what = format!("{key}: {}", complaint.what);
            self.document.error(entry.span.clone(), Complaint::new(what, complaint.mend))
        })
    }

    /// Likewise; its absence is an error whose mend is `mend`.
    pub fn required<T>(
        &self,
        key: &str,
        mend: &str,
        read: impl FnOnce(crate::plan::keys::Raw<'t>) -> Result<T, Complaint>,
    ) -> Result<T, PlanError> {
        self.optional(key, read)?.ok_or_else(|| self.missing(key, mend))
    }

    /// An error that `key` is missing.
    pub fn missing(&self, key: &str, mend: &str) -> PlanError {
        let list = self.at.split('[').next().unwrap_or_default();
        let complaint = Complaint::new(format!("the {list} has no {key}"), mend);
        self.document.error(self.span.clone(), complaint)
    }
}

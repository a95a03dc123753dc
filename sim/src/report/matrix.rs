//! The matrix as text, Markdown and JSON, in either language; [`page`] is the one for
//! browsers.
//!
//! First the table, a lock in each row and a family of faults in each column; then for each
//! row what each cell rests on. Safe is told with its three parts: what was tried, how often
//! it had an effect, and what that leaves possible.

pub mod page;
pub mod words;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::check::{Language, Verdict};
use crate::engine::Engine as _;
use crate::engine::event::EventEngine;
use crate::matrix::{Cell, Matrix};
use crate::plan::draw::alone::{LoneFamily, find_family};
use crate::plan::{Fence, scenario};
use words::{Words, words};

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// The cells of one lock with one fence.
#[derive(Debug)]
struct RowOf<'a> {
    lock: &'a str,
    fence: Fence,
    scenario: &'a str,
    cells: Vec<&'a Cell>,
}

fn rows(matrix: &Matrix) -> Vec<RowOf<'_>> {
    let mut rows: Vec<RowOf<'_>> = Vec::new();
    for cell in &matrix.cells {
        let place = &cell.place;
        match rows.last_mut() {
            Some(row) if row.lock == place.lock && row.fence == place.fence => row.cells.push(cell),
            _ => rows.push(RowOf {
                lock: &place.lock,
                fence: place.fence,
                scenario: &cell.scenario,
                cells: vec![cell],
            }),
        }
    }
    rows
}

/// The families that were asked for, in the order of the columns.
fn families(matrix: &Matrix) -> Vec<&'static LoneFamily> {
    matrix.request.families.iter().filter_map(|name| find_family(name).ok()).collect()
}

fn described(family: &LoneFamily, language: Language) -> &'static str {
    match language {
        Language::English => family.english,
        Language::Chinese => family.chinese,
    }
}

/// A cell in the table: the share of runs that failed, in percent, or a sign.
fn sign(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "–".to_owned() };
    match cell.verdict() {
        Verdict::Violation => match (cell.failed().per_mille() + 5) / 10 {
            // What happened is never told as 0.
            0 => "✗<1".to_owned(),
            percent => format!("✗{percent}"),
        },
        Verdict::Safe => "ok".to_owned(),
        Verdict::SafeByFence => "ok*".to_owned(),
        Verdict::Inert => "·".to_owned(),
        Verdict::Unknown => "?".to_owned(),
        Verdict::NotExpressible | Verdict::Internal | Verdict::Nondeterminism => "!".to_owned(),
    }
}

fn head(words: &Words, matrix: &Matrix) -> String {
    let request = &matrix.request;
    words.head(matrix.cells.len(), request.seeds, request.first, EventEngine.title())
}

/// For people at a terminal.
pub fn text(matrix: &Matrix, language: Language) -> String {
    let words = words(language);
    let mut out = format!("{}\n\n{}\n\n", head(words, matrix), overview(matrix));
    for (number, family) in (1..).zip(families(matrix)) {
        out.push_str(&format!("{number:>3}  {}: {}\n", family.name, described(family, language)));
    }
    out.push_str(&format!("\n{}\n", words.legend));
    for row in rows(matrix) {
        out.push_str(&format!(
            "\n{} · {} {} · {}\n",
            row.lock,
            words.fence,
            row.fence.name(),
            row.scenario
        ));
        for cell in row.cells {
            let verdict = cell.verdict().word(language);
            let said = words.said(cell, matrix.unfenced(cell));
            out.push_str(&format!("  {}: {verdict}; {said}\n", cell.place.family));
            if let Some(witness) = &cell.witness {
                out.push_str(&format!("    lockstorm replay {}\n", witness.capsule));
            }
        }
    }
    out.trim_end().to_owned()
}

/// The table for terminals: a column for each family, by its number.
fn overview(matrix: &Matrix) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    let families = families(matrix);
    let mut top = vec![String::new(), String::new()];
    top.extend((1..=families.len()).map(|number| number.to_string()));
    table.add_row(top);
    for row in rows(matrix) {
        let mut cells = vec![row.lock.to_owned(), row.fence.name().to_owned()];
        cells.extend(families.iter().map(|family| sign(of_family(&row, family))));
        table.add_row(cells);
    }
    // Narrow enough for a terminal: one blank between the columns.
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn of_family<'a>(row: &RowOf<'a>, family: &LoneFamily) -> Option<&'a Cell> {
    row.cells.iter().copied().find(|cell| cell.place.family == family.name)
}

/// For a page of documentation.
pub fn markdown(matrix: &Matrix, language: Language) -> String {
    let words = words(language);
    let families = families(matrix);
    let mut out = format!("# {}\n\n{}\n\n{}\n\n", words.title, head(words, matrix), words.legend);
    out.push_str(&format!("| {} | {} |", words.lock, words.fence));
    families.iter().for_each(|family| out.push_str(&format!(" {} |", family.name)));
    out.push_str(&format!("\n|---|---|{}\n", "---|".repeat(families.len())));
    for row in rows(matrix) {
        out.push_str(&format!("| `{}` | {} |", row.lock, row.fence.name()));
        families
            .iter()
            .for_each(|family| out.push_str(&format!(" {} |", sign(of_family(&row, family)))));
        out.push('\n');
    }
    out.push_str(&format!("\n## {}\n\n| {} | |\n|---|---|\n", words.columns, words.family));
    for family in &families {
        out.push_str(&format!("| {} | {} |\n", family.name, described(family, language)));
    }
    for row in rows(matrix) {
        let (lock, fence) = (row.lock, row.fence.name());
        out.push_str(&format!("\n## {lock}, {} {fence}, {}\n\n", words.fence, row.scenario));
        out.push_str(&format!(
            "| {} | {} | {} |\n|---|---|---|\n",
            words.family, words.verdict, words.rests_on
        ));
        for cell in row.cells {
            let verdict = cell.verdict().word(language);
            let said = words.said(cell, matrix.unfenced(cell));
            let witness = cell.witness.as_ref();
            let witness =
                witness.map_or(String::new(), |w| format!("<br>`lockstorm replay {}`", w.capsule));
            out.push_str(&format!("| {} | {verdict} | {said}{witness} |\n", cell.place.family));
        }
    }
    out
}

/// For programs.
pub fn json(matrix: &Matrix) -> String {
    let families = families(matrix).into_iter().map(|family| {
        json!({ "name": family.name, "english": family.english, "chinese": family.chinese })
    });
    let cells = matrix.cells.iter().map(|cell| of_cell(matrix, cell));
    let document = json!({
        "schema": SCHEMA,
        "lockstorm": env!("CARGO_PKG_VERSION"),
        "engine": EventEngine.title(),
        "first-seed": matrix.request.first,
        "seeds": matrix.request.seeds,
        "families": families.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
    });
    format!("{document:#}")
}

fn of_cell(matrix: &Matrix, cell: &Cell) -> Value {
    let failed = cell.failed();
    let (low, high) = failed.interval_per_mille();
    let records = scenario::find_lock(&cell.place.lock).is_ok_and(|lock| lock.records);
    json!({
        "lock": cell.place.lock,
        "keeps-records": records,
        "fence": cell.place.fence,
        "family": cell.place.family,
        "scenario": cell.scenario,
        "verdict": cell.verdict().id(),
        "runs": cell.runs,
        "effective": cell.effective(),
        "failed": failed.count,
        "per-mille": failed.per_mille(),
        "interval-per-mille": [low, high],
        "verdicts": cell.verdicts,
        "violations": cell.violations,
        "violated-without-fault": cell.unstruck,
        "faults-that-showed": cell.faults,
        "unfenced": matrix.unfenced(cell).map(Cell::failed),
        "witness": cell.witness,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Kind;
    use crate::hunt::Summary;
    use crate::matrix::{Place, Request, Witness};
    use crate::plan::Seed;

    fn cell(lock: &str, fence: Fence, family: &str, runs: &[(Verdict, u64)]) -> Cell {
        let place = Place { lock: lock.into(), fence, family: family.into() };
        let mut cell = Cell::new(place, "redis-failover");
        for (verdict, count) in runs {
            for seed in 0..*count {
                let violations = match verdict {
                    Verdict::Violation => vec![Kind::Oversell, Kind::EffectInterleaved],
                    _ => Vec::new(),
                };
                let faults_showed = u64::from(*verdict != Verdict::Inert);
                let lost = Summary::lost(Seed(seed), String::new());
                cell.add(&Summary { verdict: *verdict, violations, faults_showed, ..lost });
            }
        }
        if cell.verdict() == Verdict::Violation {
            cell.witness = Some(Witness {
                seed: Seed(3),
                violations: vec![Kind::Oversell],
                trace: "00ff".into(),
                capsule: "storm1:AAAA".into(),
            });
        }
        cell
    }

    fn sample() -> Matrix {
        let request = Request {
            locks: vec!["redis".into()],
            families: ["none", "holder-pause", "disk", "clock-step", "renewer-pause"]
                .map(str::to_owned)
                .to_vec(),
            fences: vec![Fence::Off, Fence::Full],
            first: Seed(0),
            seeds: 40,
        };
        let cells = vec![
            cell("redis", Fence::Off, "none", &[(Verdict::Safe, 40)]),
            cell(
                "redis",
                Fence::Off,
                "holder-pause",
                &[(Verdict::Violation, 12), (Verdict::Safe, 28)],
            ),
            cell("redis", Fence::Off, "disk", &[(Verdict::Inert, 40)]),
            cell("redis", Fence::Off, "clock-step", &[(Verdict::Safe, 3), (Verdict::Inert, 37)]),
            cell("redis", Fence::Full, "none", &[(Verdict::Safe, 40)]),
            cell(
                "redis",
                Fence::Full,
                "holder-pause",
                &[(Verdict::SafeByFence, 12), (Verdict::Safe, 26), (Verdict::Inert, 2)],
            ),
        ];
        Matrix { request, cells }
    }

    #[test]
    fn it_is_told_as_text_and_as_markdown() {
        let english = text(&sample(), Language::English);
        assert!(english.contains("12 of them violated something, 30 % (18–45.5 %)"), "{english}");
        assert!(english.contains("lockstorm replay storm1:AAAA"), "{english}");
        assert!(english.contains("none violated anything: at 95 % fewer than 8.8 %"), "{english}");
        assert!(english.contains("without the fence 12 of 40"), "{english}");
        assert!(english.contains("fewer than 10 effective runs say nothing"), "{english}");
        let chinese = text(&sample(), Language::Chinese);
        assert!(chinese.contains("其中 12 次违反"), "{chinese}");
        let page = markdown(&sample(), Language::English);
        assert!(page.contains("| `redis` | off | ok | ✗30 | · | ? | – |"), "{page}");
    }

    #[test]
    fn a_failure_is_never_told_as_none() {
        let rare = cell(
            "redis",
            Fence::Off,
            "holder-pause",
            &[(Verdict::Violation, 1), (Verdict::Safe, 999)],
        );
        assert_eq!(sign(Some(&rare)), "✗<1");
    }

    #[test]
    fn why_a_cell_is_unknown_is_said() {
        let told = |cell: &Cell| words(Language::English).said(cell, None);
        let unknown = |count| {
            let runs = [(Verdict::Safe, 20), (Verdict::Unknown, count)];
            cell("redis", Fence::Off, "holder-pause", &runs)
        };
        insta::assert_snapshot!(told(&unknown(2)));
        let mut unstruck = unknown(0);
        let lost = Summary::lost(Seed(7), String::new());
        unstruck.add(&Summary { verdict: Verdict::Violation, faults_showed: 0, ..lost });
        insta::assert_snapshot!(told(&unstruck));
        insta::assert_snapshot!(words(Language::Chinese).said(&unstruck, None));
    }

    #[test]
    fn programs_read_the_same() {
        let read: Value = serde_json::from_str(&json(&sample())).unwrap();
        assert_eq!(read["cells"][1]["interval-per-mille"], json!([180, 455]));
        assert_eq!(read["cells"][5]["unfenced"], json!({ "count": 12, "of": 40 }));
    }
}

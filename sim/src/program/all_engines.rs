//! `--engine all`: whether the three engines agree on plans, as a table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::{self, Failure};
use super::say::{manner, say};
use super::with_madsim::Asked;
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::engine::turmoil::Turmoil;
use crate::plan::Plan;
use crate::report::layout::{counted, labelled, pad};
use crate::seeds::{self, SeedFile, check};
use crate::storm::confirm::Confirmation;
use crate::storm::locks::{self, LockFactory};
use crate::storm::opinion::{Claim, Opinion, ask, differences};
use crate::storm::{self, Run};

/// The engines of the table, in its order.
const COLUMNS: [&str; 3] = ["event", "turmoil", "madsim"];

/// What became of one engine's opinion.
enum Cell {
    /// It shows the same.
    Agrees,
    /// It has no means for a part of the plan: this one.
    NotExpressible(String),
    /// It shows something else, and these known differences may be why.
    Differs(Opinion, Vec<&'static str>),
}

impl Cell {
    fn of(opinion: Opinion, plan: &Plan) -> Cell {
        match (opinion.agrees, opinion.shows.verdict, &opinion.clause) {
            (true, ..) => Cell::Agrees,
            (false, Verdict::NotExpressible, Some(clause)) => Cell::NotExpressible(clause.clone()),
            _ => {
                let known = differences(&opinion.engine, plan);
                Cell::Differs(opinion, known)
            }
        }
    }

    fn is_unexplained(&self) -> bool {
        matches!(self, Cell::Differs(_, known) if known.is_empty())
    }

    /// In the table.
    fn word(&self) -> String {
        match self {
            Cell::Agrees => "the same".to_owned(),
            Cell::NotExpressible(_) => "not expressible".to_owned(),
            Cell::Differs(opinion, _) => opinion.shows.to_string(),
        }
    }

    /// Below the table's line, for what does not agree.
    fn note(&self, engine: &str) -> Option<String> {
        match self {
            Cell::Agrees => None,
            Cell::NotExpressible(clause) => Some(format!("{engine} cannot express {clause}")),
            Cell::Differs(opinion, known) => {
                let (shows, tries) = (opinion.shows, opinion.tries);
                let stuck = opinion.clause.as_deref().map(|clause| format!(": {clause}"));
                let what = format!("{engine} shows {shows} in {tries} tries{}", {
                    stuck.unwrap_or_default()
                });
                Some(match known.as_slice() {
                    [] => format!("UNEXPLAINED: {what}, and no known difference is in this plan"),
                    known => format!("{what}; known difference: {}", known.join("; or: ")),
                })
            }
        }
    }
}

/// What all engines say of a plan.
struct Row {
    claim: Claim,
    cells: [Cell; 2],
}

impl Row {
    fn is_unexplained(&self) -> bool {
        self.cells.iter().any(Cell::is_unexplained)
    }

    fn agree(&self) -> usize {
        1 + self.cells.iter().filter(|cell| matches!(cell, Cell::Agrees)).count()
    }

    fn say(&self, name: &str, cells: usize) {
        let words = self.cells.iter().map(|cell| pad(&cell.word(), 16));
        let line = format!(
            "{}  {}  {}",
            pad(name, cells),
            pad(&self.claim.to_string(), 31),
            words.collect::<Vec<_>>().join("  ")
        );
        say(line.trim_end());
        for (cell, engine) in self.cells.iter().zip(&COLUMNS[1..]) {
            if let Some(note) = cell.note(engine) {
                say(labelled("     ", 5, &note, manner().width));
            }
        }
    }
}

/// Asks the others about what `run` showed; turmoil where nobody has yet.
fn row(run: &Run, turmoil: Option<Opinion>, asked: &mut Asked) -> Result<Row, Failure> {
    let claim = Claim::of(&run.judgement);
    let plan = &run.plan;
    let factory: LockFactory = Arc::new(locks::build);
    let turmoil = turmoil.unwrap_or_else(|| ask(plan, &Turmoil::default(), &claim, &factory));
    let madsim = asked.ask(plan, claim)?;
    Ok(Row { claim, cells: [Cell::of(turmoil, plan), Cell::of(madsim, plan)] })
}

fn heading(name: &str, cells: usize) {
    let [event, turmoil, madsim] = COLUMNS;
    say(format!("{}  {}  {}  {madsim}", pad(name, cells), pad(event, 31), pad(turmoil, 16)));
}

/// `replay FILE --engine all`. The exit code is the verdict's, or 2 where an engine differs
/// and nobody knows why.
pub fn plan(plan: &Plan, name: &str) -> Result<u8, Failure> {
    let mut asked = Asked::start()?;
    let run = storm::run(plan, &EventEngine);
    let row = row(&run, None, &mut asked)?;
    let cells = name.chars().count();
    heading("plan", cells);
    row.say(name, cells);
    Ok(match row.is_unexplained() {
        true => Verdict::Unknown.exit_code(),
        false => run.judgement.verdict.exit_code(),
    })
}

/// `seeds check --engine all`. Exit code 0 iff every file is as it says and every difference
/// is explained.
pub fn seeds(paths: &[PathBuf]) -> Result<u8, Failure> {
    let mut asked = Asked::start()?;
    let names: Vec<String> = paths.iter().map(|path| short(path)).collect();
    let cells = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    heading("plan", cells);
    let (mut failed, mut unexplained, mut on_all) = (0_u64, 0_u64, 0_u64);
    for (path, name) in paths.iter().zip(&names) {
        let file = SeedFile::load(path)?;
        let (run, confirmation) = check::run(&file);
        let row = row(&run, opinion_of(&run, &confirmation), &mut asked)?;
        row.say(name, cells);
        let outcome = check::compare(&file, &run, &confirmation);
        if !outcome.is_met() {
            failed += 1;
            outcome.lines.iter().for_each(|line| say(format!("     NOT AS EXPECTED: {line}")));
        }
        unexplained += u64::from(row.is_unexplained());
        on_all += u64::from(row.agree() == COLUMNS.len());
    }
    let files = counted(paths.len() as u64, "seed file");
    say(format!(
        "{files}: {on_all} the same on all three engines, {} with a known difference, \
         {unexplained} unexplained; {failed} not as expected",
        paths.len() as u64 - on_all - unexplained
    ));
    Ok(if failed + unexplained == 0 { exit::SAFE } else { exit::VIOLATION })
}

/// A confirmation, which has looked further than others are asked to, as an opinion.
fn opinion_of(run: &Run, confirmation: &Confirmation) -> Option<Opinion> {
    let claim = Claim::of(&run.judgement);
    let opinion = |agrees, shows, tries, clause| Opinion {
        engine: "turmoil".to_owned(),
        agrees,
        shows,
        tries,
        clause,
    };
    match confirmation {
        Confirmation::Confirmed { tries } => Some(opinion(true, claim, *tries, None)),
        Confirmation::NotExpressible { clause } => {
            let shows = Claim { verdict: Verdict::NotExpressible, gravest: None };
            Some(opinion(false, shows, 0, Some(clause.clone())))
        }
        Confirmation::ConfirmedInPart { .. } | Confirmation::NotConfirmed { .. } => None,
    }
}

/// The file's folder and name.
fn short(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.parent().and_then(Path::file_name) {
        Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
        None => name.into_owned(),
    }
}

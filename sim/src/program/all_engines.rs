//! `--engine all`: whether the three engines agree on plans, as a table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::Plan;
use lockstorm_sim::report::layout::{counted, labelled, pad};
use lockstorm_sim::seeds::SeedFile;
use lockstorm_sim::seeds::check::{self, Checked};
use lockstorm_sim::storm::abreast::abreast;
use lockstorm_sim::storm::confirm::Confirmation;
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::opinion::{Claim, Explanation, FURTHER, Opinion, explain};
use lockstorm_sim::storm::{self, Run};

use super::exit::{self, Failure};
use super::progress::{Progress, Waiting};
use super::run::confirmed;
use super::say::{manner, say};
use super::with_madsim::Asked;

/// The engines of the table, in its order.
const COLUMNS: [&str; 3] = ["event", "turmoil", "madsim"];
/// How wide the columns of `event` and of the others are, in cells.
const CLAIM: usize = 31;
const CELL: usize = 16;

/// What became of one engine's opinion.
enum Cell {
    /// It shows the same.
    Agrees,
    /// It has no means for a part of the plan: this one.
    NotExpressible(String),
    /// It shows something else, told so, and perhaps it is known why.
    Differs { shows: String, told: String, why: Option<Explanation> },
}

impl Cell {
    fn of_turmoil(confirmation: &Confirmation) -> Cell {
        let differs =
            |shows: String| Cell::Differs { shows, told: confirmation.to_string(), why: None };
        match confirmation {
            Confirmation::Confirmed { .. } => Cell::Agrees,
            Confirmation::NotExpressible { clause } => Cell::NotExpressible(clause.clone()),
            Confirmation::ConfirmedInPart { kind, .. } => differs(kind.id().to_owned()),
            Confirmation::NotConfirmed { instead } => differs(instead.id().to_owned()),
        }
    }

    fn of_madsim(opinion: Opinion, plan: &Plan, factory: &LockFactory, claim: &Claim) -> Cell {
        let Opinion { agrees, shows, tries, clause, engine } = opinion;
        match (agrees, shows.verdict, clause) {
            (true, ..) => Cell::Agrees,
            (false, Verdict::NotExpressible, Some(clause)) => Cell::NotExpressible(clause),
            (false, _, clause) => {
                let told = format!("{engine} shows {shows} in {tries} tries");
                let (told, why) = match clause {
                    // That it came to no end is no other verdict.
                    Some(stuck) => (format!("{told}: {stuck}"), None),
                    None => (told, explain(plan, claim, FURTHER, factory)),
                };
                Cell::Differs { shows: shows.to_string(), told, why }
            }
        }
    }

    fn is_unexplained(&self) -> bool {
        matches!(self, Cell::Differs { why: None, .. })
    }

    /// In the table.
    fn word(&self) -> &str {
        match self {
            Cell::Agrees => "the same",
            Cell::NotExpressible(_) => "not expressible",
            Cell::Differs { shows, .. } => shows,
        }
    }

    /// Below the table's line, for what does not agree.
    fn note(&self, engine: &str) -> Option<String> {
        match self {
            Cell::Agrees => None,
            Cell::NotExpressible(clause) => Some(format!("{engine} cannot express {clause}")),
            Cell::Differs { told, why: Some(known), .. } => Some(format!("{told}; {known}")),
            Cell::Differs { told, why: None, .. } => {
                Some(format!("UNEXPLAINED: {told}, and no known difference takes it away"))
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
        let words = self.cells.iter().map(|cell| pad(cell.word(), CELL));
        let line = format!(
            "{}  {}  {}",
            pad(name, cells),
            pad(&self.claim.to_string(), CLAIM),
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

/// Asks madsim about what `run` showed, of which turmoil has said this.
fn row(run: &Run, confirmation: &Confirmation, asked: &Asked) -> Result<Row, Failure> {
    let (plan, claim) = (&run.plan, Claim::of(&run.judgement));
    let factory: LockFactory = Arc::new(locks::build);
    let madsim = Cell::of_madsim(asked.ask(plan, claim)?, plan, &factory, &claim);
    Ok(Row { claim, cells: [Cell::of_turmoil(confirmation), madsim] })
}

fn heading(name: &str, cells: usize) {
    let [event, turmoil, madsim] = COLUMNS;
    say(format!("{}  {}  {}  {madsim}", pad(name, cells), pad(event, CLAIM), pad(turmoil, CELL)));
}

/// `replay FILE --engine all`. The exit code is the verdict's, or 2 where an engine differs
/// and nobody knows why.
pub fn plan(plan: &Plan, name: &str) -> Result<u8, Failure> {
    let asked = Asked::begin()?;
    let waiting = Waiting::begin();
    let run = storm::run(plan, &EventEngine);
    let row = row(&run, &confirmed(&run), &asked)?;
    drop(waiting);
    let cells = name.chars().count();
    heading("plan", cells);
    row.say(name, cells);
    Ok(match row.is_unexplained() {
        true => Verdict::Unknown.exit_code(),
        false => row.claim.verdict.exit_code(),
    })
}

/// What came of a seed file: its row, and what is not as the file says.
fn of_file(path: &Path, asked: &Asked) -> Result<(Row, Checked), Failure> {
    let file = SeedFile::load(path)?;
    let (run, confirmation) = check::run(&file);
    let row = row(&run, &confirmation, asked)?;
    Ok((row, check::compare(&file, &run, &confirmation)))
}

/// `seeds check --engine all`. Exit code 0 iff every file is as it says and every difference
/// is explained.
pub fn seeds(paths: &[PathBuf]) -> Result<u8, Failure> {
    let asked = Asked::begin()?;
    let names: Vec<String> = paths.iter().map(|path| short(path)).collect();
    let cells = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let progress = Progress::new("seed files", Some(paths.len() as u64));
    let rows = abreast(paths, |path| {
        let row = of_file(path, &asked);
        progress.inc();
        row
    });
    drop(progress);
    heading("plan", cells);
    let (mut failed, mut unexplained, mut on_all) = (0_u64, 0_u64, 0_u64);
    for (name, row) in names.iter().zip(rows) {
        let (row, checked) = row?;
        row.say(name, cells);
        if !checked.is_met() {
            failed += 1;
            checked.lines.iter().for_each(|line| say(format!("     NOT AS EXPECTED: {line}")));
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

/// The file's folder and name.
fn short(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.parent().and_then(Path::file_name) {
        Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
        None => name.into_owned(),
    }
}

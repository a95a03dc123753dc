//! Runs the cells of a matrix over the workers of hunts.
//!
//! Cells are run a few at a time. When such a batch is through, the first failure of each of
//! its cells is run again in fresh processes, and the cells are written down.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::cell::{Cell, Place, Witness};
use super::journal::Journal;
use super::{Matrix, Request, Row};
use crate::hunt::{Quarry, Summary, Task, pack};
use crate::plan::draw::alone::LoneFamily;
use crate::plan::{PlanError, Seed, capsule};

/// So many runs are made before cells are written down: what a kill costs at most, if no cell
/// alone has more.
const BATCH_RUNS: u64 = 400;

/// Who runs the plans.
#[derive(Clone, Debug)]
pub struct Workers {
    /// The program that is started as a worker.
    pub program: PathBuf,
    /// How many of them.
    pub jobs: usize,
    /// How long one run may take, real time.
    pub limit: Duration,
}

/// Why there is no matrix.
#[derive(Debug)]
pub enum Trouble {
    /// A lock or a family that is not known.
    Asked(PlanError),
    /// A worker could not be started, or refused a plan.
    Worker(io::Error),
    /// The folder cannot be read or written: one sentence with the mend.
    Folder(String),
}

impl From<PlanError> for Trouble {
    fn from(error: PlanError) -> Trouble {
        Trouble::Asked(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Worker(error)
    }
}

/// Runs every cell that `journal` does not have; `note` hears of each that is done, also of
/// those that were.
///
/// # Errors
/// [`Trouble`]; what was written down stays.
pub fn run(
    request: &Request,
    workers: &Workers,
    mut journal: Option<&mut Journal>,
    note: &mut dyn FnMut(&Cell),
) -> Result<Matrix, Trouble> {
    let mut cells = Vec::new();
    for row in request.rows()? {
        let place = |family: &LoneFamily| Place {
            lock: row.quarry.lock.clone(),
            fence: row.quarry.fence,
            family: family.name.to_owned(),
        };
        let mut missing = Vec::new();
        let first_of_row = cells.len();
        for family in &row.families {
            let place = place(family);
            match journal.as_ref().and_then(|journal| journal.known(&place)) {
                Some(cell) => {
                    note(cell);
                    cells.push(cell.clone());
                }
                None => missing.push(place),
            }
        }
        let many = usize::try_from(BATCH_RUNS / request.seeds.max(1)).unwrap_or(1).max(1);
        for batch in missing.chunks(many) {
            for cell in run_batch(request, &row, batch, workers)? {
                if let Some(journal) = &mut journal {
                    journal.add(&cell).map_err(Trouble::Folder)?;
                }
                note(&cell);
                cells.push(cell);
            }
        }
        // Those that were known stand among the others, wherever a kill had parted them.
        let order = |cell: &Cell| row.families.iter().position(|f| f.name == cell.place.family);
        cells[first_of_row..].sort_by_key(order);
    }
    Ok(Matrix { request: request.clone(), cells })
}

fn run_batch(
    request: &Request,
    row: &Row,
    places: &[Place],
    workers: &Workers,
) -> Result<Vec<Cell>, Trouble> {
    let Row { quarry, .. } = row;
    let mut tasks = Vec::new();
    for place in places {
        for offset in 0..request.seeds {
            let seed = Seed(request.first.0.wrapping_add(offset));
            tasks.push(Task::Struck { seed, family: place.family.clone() });
        }
    }
    let mut cells: Vec<Cell> =
        places.iter().map(|place| Cell::new(place.clone(), &quarry.scenario)).collect();
    // The first failure of each cell: its position, and what was told of it.
    let mut failures: Vec<Option<(usize, Summary)>> = vec![None; cells.len()];
    let per_cell = usize::try_from(request.seeds.max(1)).unwrap_or(usize::MAX);
    let mut position = 0;
    let Workers { program, jobs, limit } = workers;
    pack::run(quarry, &tasks, *jobs, program, *limit, |summary| {
        let number = position / per_cell;
        cells[number].add(&summary);
        if !summary.violations.is_empty() && failures[number].is_none() {
            failures[number] = Some((position, summary));
        }
        position += 1;
        true
    })?;
    witness(quarry, &tasks, workers, &mut cells, failures)?;
    Ok(cells)
}

/// Runs the first failure of each cell again, in fresh processes, and keeps it.
fn witness(
    quarry: &Quarry,
    tasks: &[Task],
    workers: &Workers,
    cells: &mut [Cell],
    failures: Vec<Option<(usize, Summary)>>,
) -> Result<(), Trouble> {
    let failures = failures.into_iter().enumerate();
    let failures: Vec<(usize, usize, Summary)> =
        failures.filter_map(|(cell, failure)| failure.map(|(at, told)| (cell, at, told))).collect();
    let again: Vec<Task> = failures.iter().map(|(_, at, _)| tasks[*at].clone()).collect();
    let mut told = Vec::new();
    let Workers { program, jobs, limit } = workers;
    pack::run(quarry, &again, *jobs, program, *limit, |summary| {
        told.push(summary);
        true
    })?;
    for ((number, at, first), again) in failures.into_iter().zip(&told) {
        let cell = &mut cells[number];
        cell.nondeterministic = first.trace != again.trace;
        let plan = quarry.plan_of(&tasks[at])?;
        cell.witness = Some(Witness {
            seed: first.seed,
            violations: first.violations,
            trace: first.trace,
            capsule: capsule::write(&plan),
        });
    }
    Ok(())
}

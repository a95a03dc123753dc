//! Runs the cells of a matrix over the workers of hunts.
//!
//! Cells are run a few at a time. When such a batch is through, the first failure of each of
//! its cells is run again, each in a process of its own, and the cells are written down.

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
    let Workers { program, jobs, limit } = workers;
    let mut told = Vec::new();
    pack::run(quarry, &tasks, *jobs, program, *limit, |summary| {
        told.push(summary);
        true
    })?;
    let per_cell = usize::try_from(request.seeds.max(1)).unwrap_or(usize::MAX);
    let cells = places.iter().zip(told.chunks_mut(per_cell));
    let mut told: Vec<Told<'_>> = cells
        .map(|(place, runs)| Told::new(Cell::new(place.clone(), &quarry.scenario), runs))
        .collect();
    repeat(&mut told, |at| {
        let again: Vec<Task> = at.iter().map(|at| tasks[*at].clone()).collect();
        let mut summaries = Vec::new();
        pack::run_apart(quarry, &again, *jobs, program, *limit, |summary| {
            summaries.push(summary);
            true
        })?;
        Ok(summaries)
    })?;
    told.into_iter().map(|told| told.count(quarry)).collect()
}

/// What was told of the runs of a cell.
struct Told<'a> {
    cell: Cell,
    runs: &'a mut [Summary],
    /// The first run whose failure is not repeated yet, or that failed again.
    at: Option<usize>,
    /// Whether that one is done with.
    is_repeated: bool,
}

impl<'a> Told<'a> {
    fn new(cell: Cell, runs: &'a mut [Summary]) -> Told<'a> {
        let at = runs.iter().position(|run| cell.is_failed_by(run));
        Told { cell, runs, at, is_repeated: false }
    }

    /// Compares the failure with its repetition. If that one was lost, the run is told as
    /// lost, and the next failure is the one to repeat.
    fn compare(&mut self, again: &Summary) {
        let Some(at) = self.at else { return };
        self.runs[at].compare(again);
        self.is_repeated = !self.runs[at].is_lost();
        if !self.is_repeated {
            let cell = &self.cell;
            self.at = self.runs.iter().position(|run| cell.is_failed_by(run));
        }
    }

    /// The cell, with all of its runs counted.
    fn count(mut self, quarry: &Quarry) -> Result<Cell, Trouble> {
        for run in self.runs.iter() {
            self.cell.add(run);
        }
        let Some(first) = self.at.map(|at| &self.runs[at]) else { return Ok(self.cell) };
        let family = self.cell.place.family.clone();
        let plan = quarry.plan_of(&Task::Struck { seed: first.seed, family })?;
        self.cell.witness = Some(Witness {
            seed: first.seed,
            violations: first.violations.clone(),
            trace: first.trace.clone(),
            capsule: capsule::write(&plan),
        });
        Ok(self.cell)
    }
}

/// Repeats the first failure of each cell. `again` runs those at these positions among all
/// runs, each in a process of its own.
fn repeat(
    told: &mut [Told<'_>],
    mut again: impl FnMut(&[usize]) -> Result<Vec<Summary>, Trouble>,
) -> Result<(), Trouble> {
    loop {
        let mut waiting = Vec::new();
        let mut positions = Vec::new();
        let mut before = 0;
        for told in told.iter_mut() {
            let runs = told.runs.len();
            if let (Some(at), false) = (told.at, told.is_repeated) {
                positions.push(before + at);
                waiting.push(&mut *told);
            }
            before += runs;
        }
        if waiting.is_empty() {
            return Ok(());
        }
        for (told, again) in waiting.into_iter().zip(again(&positions)?) {
            told.compare(&again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Kind, Verdict};
    use crate::plan::Fence;

    fn failure(seed: u64, trace: &str) -> Summary {
        Summary {
            verdict: Verdict::Violation,
            violations: vec![Kind::Oversell],
            trace: trace.to_owned(),
            faults_showed: 1,
            ..Summary::lost(Seed(seed), String::new())
        }
    }

    /// Two cells of three failures each, and what a repetition of each failure tells.
    fn repeated(again: impl Fn(usize) -> Summary) -> (Vec<Cell>, Vec<Vec<usize>>) {
        let quarry = Quarry::new("redis-failover", "redis", Fence::Off);
        let mut runs: Vec<Summary> = (0..6).map(|at| failure(at % 3, "aaaa")).collect();
        let cell = |family: &str| {
            let place = Place { lock: "redis".into(), fence: Fence::Off, family: family.into() };
            Cell::new(place, "redis-failover")
        };
        let cells = ["holder-pause", "holder-crash"].map(cell).into_iter();
        let cells = cells.zip(runs.chunks_mut(3));
        let mut told: Vec<Told<'_>> = cells.map(|(cell, runs)| Told::new(cell, runs)).collect();
        let mut asked = Vec::new();
        repeat(&mut told, |positions| {
            asked.push(positions.to_vec());
            Ok(positions.iter().map(|at| again(*at)).collect())
        })
        .unwrap();
        (told.into_iter().map(|told| told.count(&quarry).unwrap()).collect(), asked)
    }

    #[test]
    fn a_failure_that_fails_again_is_the_witness_and_another_trace_is_nondeterminism() {
        let (cells, asked) = repeated(|at| failure(0, if at == 0 { "aaaa" } else { "bbbb" }));
        assert_eq!(asked, [[0, 3]]);
        assert_eq!(cells[0].verdict(), Verdict::Violation);
        assert_eq!(cells[0].witness.as_ref().unwrap().seed, Seed(0));
        assert_eq!(cells[1].verdict(), Verdict::Nondeterminism);
        assert_eq!(cells[1].failed().count, 2);
    }

    #[test]
    fn a_lost_repetition_is_lost_and_the_next_failure_is_the_witness() {
        let lost = |at: usize| Summary::lost(Seed(at as u64 % 3), "died".into());
        let (cells, asked) = repeated(|at| if at == 3 { lost(at) } else { failure(0, "aaaa") });
        assert_eq!(asked, [vec![0, 3], vec![4]]);
        assert_eq!(cells[1].verdict(), Verdict::Violation);
        assert_eq!((cells[1].failed().count, cells[1].ended(Verdict::Internal)), (2, 1));
        assert_eq!(cells[1].witness.as_ref().unwrap().seed, Seed(1));
        let (cells, asked) = repeated(lost);
        assert_eq!(asked, [vec![0, 3], vec![1, 4], vec![2, 5]]);
        assert_eq!(cells[0].verdict(), Verdict::Internal);
        assert_eq!(cells[0].witness, None);
    }
}

//! The matrix: every lock against every family of faults, with and without a fence.
//!
//! A cell is so many plans with faults of one family alone
//! ([`alone`](crate::plan::draw::alone)), run on the event engine by the workers of hunts.
//! What it says follows from its runs: a run whose faults touched nothing is counted apart and
//! is never a safe one, and a cell with too few effective runs says so.
//!
//! Order of things: [`Request`] says which cells, [`cell`] is what one came to, [`work`] runs
//! them, [`journal`] keeps those that are done. [`report::matrix`](crate::report::matrix) tells.

pub mod cell;
pub mod journal;
pub mod work;

use serde::{Deserialize, Serialize};

pub use cell::{Cell, Place, Witness};

use crate::hunt::Quarry;
use crate::plan::draw::alone::{LONE_FAMILIES, LoneFamily, find_family};
use crate::plan::scenario::{self, LOCKS, LockKind, Needs};
use crate::plan::{Fence, PlanError, Seed};

/// How many seeds a cell has where nothing is said.
pub const SEEDS: u64 = 40;

/// How many seeds a cell has when it must be quick.
pub const QUICK_SEEDS: u64 = 12;

/// Which cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Request {
    /// The locks, by name.
    pub locks: Vec<String>,
    /// The families, by name.
    pub families: Vec<String>,
    /// How much of the fence; a lock without tokens has none.
    pub fences: Vec<Fence>,
    /// The first seed of each cell.
    pub first: Seed,
    /// How many seeds each cell has.
    pub seeds: u64,
}

/// A lock with one of the fences: a row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The storm without its faults.
    pub quarry: Quarry,
    /// The families that are at home in it.
    pub families: Vec<&'static LoneFamily>,
}

impl Request {
    /// All locks and families, without a fence and with a full one.
    pub fn whole(seeds: u64) -> Request {
        Request {
            locks: LOCKS.iter().map(|lock| lock.name.to_owned()).collect(),
            families: LONE_FAMILIES.iter().map(|family| family.name.to_owned()).collect(),
            fences: vec![Fence::Off, Fence::Full],
            first: Seed(0),
            seeds,
        }
    }

    /// Its rows, in the order of the locks.
    ///
    /// # Errors
    /// Unknown names, at the places `--locks` and `--families`.
    pub fn rows(&self) -> Result<Vec<Row>, PlanError> {
        let families = self.families()?;
        let mut rows = Vec::new();
        for name in &self.locks {
            let lock = scenario::find_lock(name);
            let lock = lock.map_err(|complaint| PlanError::named("--locks", complaint))?;
            for fence in self.fences.iter().filter(|fence| lock.tokens || **fence == Fence::Off) {
                let quarry = Quarry::new(scenario_of(lock), lock.name, *fence);
                let plan = quarry.calm_plan(self.first)?;
                let families = families.iter().copied();
                let families = families.filter(|family| family.is_at_home(&plan)).collect();
                rows.push(Row { quarry, families });
            }
        }
        Ok(rows)
    }

    /// Its families.
    ///
    /// # Errors
    /// An unknown name, at the place `--families`.
    pub fn families(&self) -> Result<Vec<&'static LoneFamily>, PlanError> {
        let named = |complaint| PlanError::named("--families", complaint);
        self.families.iter().map(|name| find_family(name).map_err(named)).collect()
    }
}

/// The scenario in which a lock meets most: one with a failover where it has any.
pub fn scenario_of(lock: &LockKind) -> &'static str {
    match lock.needs {
        Needs::Nothing | Needs::Master | Needs::Replicas | Needs::Sentinel => "redis-failover",
        Needs::Independent => "redlock-five",
        Needs::Ensemble => "zookeeper-three",
        Needs::Database | Needs::SaleUnderMaster => "postgres-failover",
    }
}

/// What all cells came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// What was asked.
    pub request: Request,
    /// The cells, by row, then by family; a family that is not at home has none.
    pub cells: Vec<Cell>,
}

impl Matrix {
    /// The cell at this place.
    pub fn cell(&self, lock: &str, fence: Fence, family: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            let place = &cell.place;
            place.lock == lock && place.fence == fence && place.family == family
        })
    }

    /// The same lock and family without the cell's fence: whether the same faults can do harm
    /// at all. `None` for cells without a fence, or where it was not asked.
    pub fn unfenced(&self, cell: &Cell) -> Option<&Cell> {
        let place = &cell.place;
        let fenced = place.fence != Fence::Off;
        fenced.then(|| self.cell(&place.lock, Fence::Off, &place.family)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_matrix_has_every_lock_and_fourteen_families_at_least() {
        let request = Request::whole(SEEDS);
        let rows = request.rows().unwrap();
        for lock in LOCKS {
            let of_lock = rows.iter().filter(|row| row.quarry.lock == lock.name);
            let of_lock: Vec<&Row> = of_lock.collect();
            assert_eq!(of_lock.len(), if lock.tokens { 2 } else { 1 }, "{}", lock.name);
            let least = if lock.name == "none" { 8 } else { 14 };
            assert!(of_lock.iter().all(|row| row.families.len() >= least), "{}", lock.name);
        }
    }

    #[test]
    fn unknown_names_are_guessed() {
        let locks = Request { locks: vec!["rediss".to_owned()], ..Request::whole(1) };
        assert!(locks.rows().unwrap_err().to_string().contains("redis"));
        let families = Request { families: vec!["holder-hung".to_owned()], ..Request::whole(1) };
        assert!(families.rows().unwrap_err().to_string().contains("holder-hang"));
    }
}

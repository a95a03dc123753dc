//! Where a verb takes its plan from: a plan file, a seed file, a capsule, or a seed.

use std::path::{Path, PathBuf};

use clap::Args;
use lockstorm_sim::plan::{Plan, Seed, capsule, file};
use lockstorm_sim::seeds::{self, SeedFile};

use super::arguments::{EngineArgument, StormArguments};
use super::exit::Failure;
use super::run::quarry;
use super::sort::Sort;

/// A plan.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// A plan file, a seed file, or a capsule (`storm1:…`).
    #[arg(conflicts_with_all = ["seed", "scenario", "draws"])]
    pub file: Option<PathBuf>,
    /// The seed whose plan it is, instead of a file.
    #[arg(long, required_unless_present = "file")]
    pub seed: Option<Seed>,
    /// Which storm.
    #[command(flatten)]
    pub storm: StormArguments,
}

impl PlanArguments {
    /// The plan.
    pub fn plan(&self) -> Result<Plan, Failure> {
        if self.storm.engine() != EngineArgument::Event {
            let mend = "leave --engine out; `replay --engine turmoil` asks the reference";
            return Err(Failure::usage(format!("this is done on the event engine only; {mend}")));
        }
        let Some(path) = &self.file else {
            return Ok(quarry(&self.storm)?.plan(self.seed.unwrap_or_default())?);
        };
        self.storm.change.of_file(load_any(path)?)
    }
}

/// Reads a plan file, the plan of a seed file, or a capsule. Of a file for another verb it
/// says for which.
pub fn load_any(path: &Path) -> Result<Plan, Failure> {
    load(path).map_err(|error| Sort::instead_of(path, Sort::Plan).unwrap_or(error))
}

fn load(path: &Path) -> Result<Plan, Failure> {
    if capsule::of_path(path).is_some() {
        return Ok(file::load(path)?);
    }
    Ok(if seeds::is_seed_file(path)? { SeedFile::load(path)?.plan } else { file::load(path)? })
}

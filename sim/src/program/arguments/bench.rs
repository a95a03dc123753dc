//! `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::hunt::StrategyArgument;
use super::values::Format;

/// `bench`.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Hunt the planted bugs (docs/bugs.md): executions and CPU time until each is found.
    ///
    /// Exit code 0 iff the portfolio (where it was not asked for: every strategy) found
    /// every bug in every hunt.
    Bugs(BugsArguments),
}

/// `bench bugs`.
#[derive(Debug, Args)]
pub struct BugsArguments {
    /// Only this strategy; may be repeated.
    #[arg(long, value_enum)]
    pub strategy: Vec<StrategyArgument>,
    /// Only this bug; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub bug: Vec<String>,
    /// The most executions of a hunt.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// Hunts of each bug by each strategy, with different seeds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    pub repeat: u64,
    /// Write every hunt down here as it ends, and do not make again what is written there.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// How many worker processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

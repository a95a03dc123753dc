//! The grammar of the command line: the verbs here, the flags of each in a file of its own.

mod bench;
mod check;
mod hunt;
mod seeds;
mod serve;
mod serve_plan;
mod storm;
mod values;

use clap::{Parser, Subcommand};
use lockstorm_sim::storm::environment::Environment;

use super::claims::ClaimsArguments;
use super::explain::ExplainArguments;
use super::lesson::LessonVerb;
use super::manual::{CompletionsArguments, ManArguments};
use super::matrix::MatrixArguments;
use super::report::ReportArguments;
use super::sale::SaleArguments;
use super::shrink::ShrinkArguments;

pub use bench::{BenchVerb, BugsArguments};
pub use check::CheckArguments;
pub use hunt::{HuntArguments, MergeArguments, StrategyArgument};
pub use seeds::SeedsVerb;
pub use serve::{ServePostgres, ServeRedis, ServeVerb, ServeZookeeper};
pub use serve_plan::{ServeArguments, ServePlan};
pub use storm::{ChangeArguments, OF_FLAGS, ReplayArguments, RunArguments, StormArguments};
pub use values::{
    AllEngines, DrawsArgument, EngineArgument, EngineChoice, FenceArgument, Format, key_and_value,
    real_time,
};

/// Puts distributed locks through a storm, by seed.
///
/// Without a verb: a guided demonstration of how replication lag loses a lock.
#[derive(Debug, Parser)]
#[command(name = "lockstorm", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Say nothing of how far a long task is.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Arguments {
    /// Whether this is to be done on the engine `madsim`.
    pub fn needs_madsim(&self, environment: &Environment) -> bool {
        let said = match &self.verb {
            Some(Verb::Run(arguments)) => arguments.storm.engine,
            Some(Verb::Hunt(arguments)) => arguments.storm.engine,
            Some(Verb::Replay(arguments)) => match arguments.engine {
                Some(EngineChoice::All) => return false,
                Some(EngineChoice::One(engine)) => Some(engine),
                None => None,
            },
            _ => return false,
        };
        let said = said.map(EngineArgument::name).or(environment.engine.as_deref());
        said == Some(EngineArgument::Madsim.name())
    }
}

const EXIT_CODES: &str = "Exit codes: 0 safe, 1 violation, 2 unknown, inert or not expressible, \
3 nondeterminism, 64 usage or bad input, 70 internal.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run one plan: drawn from a seed, or from a file.
    Run(RunArguments),
    /// Run many plans and examine what fails.
    Hunt(HuntArguments),
    /// Put the shards of a campaign together.
    Merge(MergeArguments),
    /// Run a plan file or a seed file again; a violation also under turmoil.
    Replay(ReplayArguments),
    /// Shrink a plan that fails to the smallest that fails in the same way.
    Shrink(ShrinkArguments),
    /// Explain a failure: its story, what decided it and when, what would help.
    Explain(ExplainArguments),
    /// Write a history, a plan's run or a capsule's as a page, a trace or a diagram.
    Report(ReportArguments),
    /// Judge a recorded history: ours, or of a real system.
    ///
    /// Reads NDJSON (docs/history.md) and Jepsen's EDN, plain or gzip; see docs/check.md.
    Check(CheckArguments),
    /// Storms to learn from: what goes wrong with locks, why, and what helps.
    #[command(subcommand)]
    Lesson(LessonVerb),
    /// Every lock against every family of faults, with and without a fence.
    ///
    /// A cell is so many plans with faults of one family alone. Failures of locks are what it is
    /// for: exit code 0 if all cells were run.
    Matrix(MatrixArguments),
    /// What an often-read text on locks for flash sales says, sentence by sentence, tried in
    /// storms.
    ///
    /// Exit code 0 if every sentence came out as the committed table says, 1 if one did not.
    Claims(ClaimsArguments),
    /// A whole flash sale in storms: its layers, its orders, and whether it sells what there is.
    ///
    /// Exit code 0 if every sale was safe, 1 if one was not.
    Sale(SaleArguments),
    /// The kept plans under `seeds/`.
    #[command(subcommand)]
    Seeds(SeedsVerb),
    /// Open simulated servers on TCP ports: some of one sort, or those of a plan with its faults.
    Serve(ServeArguments),
    /// Measure lockstorm itself.
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Print a script that completes verbs and flags: `source <(lockstorm completions bash)`.
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all verbs into a folder.
    Man(ManArguments),
    /// Serve a hunt (for lockstorm's own use).
    #[command(hide = true)]
    Worker,
    /// Serve a bench (for lockstorm's own use).
    #[command(hide = true)]
    BenchWorker,
}

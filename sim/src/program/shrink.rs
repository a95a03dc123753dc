//! `lockstorm shrink`: the smallest plan that still fails in the same way. Each
//! improvement is written to the file of `--out` at once, so that whoever interrupts it has
//! the best so far.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lockstorm_sim::plan::{Plan, capsule, file};
use lockstorm_sim::report::block::{self, Failure as Told};
use lockstorm_sim::report::layout::counted;
use lockstorm_sim::report::shrunk as report;
use lockstorm_sim::shrink::{Limits, shrink_with};
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::whole_file;

use super::arguments::{EngineArgument, Format};
use super::exit::{self, Failure};
use super::plan_source::PlanArguments;
use super::progress::is_watched;
use super::run::{command_of_plan, examined, verdict_with};
use super::say::{complain, manner, mutter, say};

/// `shrink`.
#[derive(Debug, Args)]
pub struct ShrinkArguments {
    /// The plan.
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Write the smallest plan so far into this file, at each improvement.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How many runs at most.
    #[arg(long, value_name = "RUNS", default_value_t = Limits::default().replays,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: u32,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `lockstorm shrink`. Safe (0) when the plan was shrunk, whatever it shows.
pub fn shrink(arguments: &ShrinkArguments) -> Result<u8, Failure> {
    let plan = arguments.plan.plan()?;
    let factory: LockFactory = Arc::new(locks::build);
    let mut unwritten = None;
    let keep = |plan: &Plan| match &arguments.out {
        Some(path) => write(path, plan),
        None => Ok(()),
    };
    // Before anything is run: a file that cannot be written is told at once.
    arguments.out.as_deref().map_or(Ok(()), only_over_a_plan)?;
    keep(&plan)?;
    let watched = is_watched();
    let limits = Limits { replays: arguments.budget };
    let shrunk = shrink_with(&plan, &limits, &factory, &mut |progress| {
        if watched {
            let faults = counted(progress.plan.faults.len() as u64, "fault");
            let replays = counted(u64::from(progress.replays), "replay");
            mutter(format!("\r{replays}: {faults}, {} long      ", progress.plan.duration));
        }
        // What cannot be written any more is told at the end: the disk has filled meanwhile.
        unwritten = keep(progress.plan).err();
        ControlFlow::Continue(())
    });
    if watched {
        complain("");
    }
    let shrunk = shrunk.map_err(Failure::usage)?;
    if arguments.format == Format::Json {
        let text = serde_json::to_string_pretty(&report::shrunk_json(&shrunk));
        say(text.map_err(Failure::internal)?);
        return unwritten.map_or(Ok(exit::SAFE), Err);
    }
    let manner = manner();
    say(report::shrunk(&shrunk, &manner));
    let examination = examined(&shrunk.run, EngineArgument::Event, false)?;
    let reproduce = command_of_plan("replay", shrunk.plan(), arguments.out.as_deref());
    let (repetition, confirmation) = match &examination {
        Some(examination) => (Some(&examination.repetition), examination.confirmation.as_ref()),
        None => (None, None),
    };
    let told =
        Told { run: &shrunk.run, position: None, repetition, confirmation, reproduce: &reproduce };
    say(block::failure_block_in(&told, &manner));
    say(capsule::write(shrunk.plan()));
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    let verdict = verdict_with(&shrunk.run, repetition);
    Ok(if verdict == shrunk.run.judgement.verdict { exit::SAFE } else { verdict.exit_code() })
}

/// Only a plan is written over: a seed file has more than its plan, and anything else was not
/// meant.
fn only_over_a_plan(path: &Path) -> Result<(), Failure> {
    let is_empty = |there: std::fs::Metadata| !there.is_file() || there.len() == 0;
    // It must be read as one whole: much else begins like one.
    let is_plan = || file::load(path).is_ok();
    if std::fs::metadata(path).map_or(true, is_empty) || is_plan() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--out {}: there is a file here that is no plan, and would be written over; name another",
        path.display()
    )))
}

/// Writes a plan in one step: a reader finds the old one or the new one.
fn write(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let mend = "look at the path and its rights, or name another file";
        Failure::usage(format!("--out {}: cannot be written: {error}; {mend}", path.display()))
    };
    whole_file::write(path, &file::write(plan)).map_err(failed)
}

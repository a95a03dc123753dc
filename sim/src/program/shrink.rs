//! `lockstorm shrink`: the smallest plan that still fails in the same way. Each
//! improvement is written to the file of `--out` at once, so that whoever interrupts it has
//! the best so far.

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::plan::{Plan, capsule, file};
use crate::report::block::{self, Failure as Told};
use crate::report::layout::counted;
use crate::report::shrunk as report;
use crate::shrink::{Limits, shrink_with};
use crate::storm::locks::{self, LockFactory};
use crate::whole_file;
use clap::Args;

use super::arguments::{EngineArgument, Format};
use super::exit::{self, Failure};
use super::plan_source::PlanArguments;
use super::run::{command_of_plan, examined, verdict_with};
use super::say::{manner, say};

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
    let mut keep = |plan: &Plan| {
        if let Some(path) = &arguments.out {
            unwritten = unwritten.take().or(write(path, plan).err());
        }
        match unwritten {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    // Before anything is run: a file that cannot be written is told at once.
    if keep(&plan).is_break() {
        return Err(unwritten.unwrap_or_else(|| Failure::internal("--out failed")));
    }
    let watched = stderr().is_terminal();
    let limits = Limits { replays: arguments.budget };
    let shrunk = shrink_with(&plan, &limits, &factory, &mut |progress| {
        if watched {
            let faults = counted(progress.plan.faults.len() as u64, "fault");
            let replays = counted(u64::from(progress.replays), "replay");
            eprint!("\r{replays}: {faults}, {} long      ", progress.plan.duration);
        }
        keep(progress.plan)
    });
    if watched {
        eprintln!();
    }
    let shrunk = shrunk.map_err(Failure::usage)?;
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    if arguments.format == Format::Json {
        let text = serde_json::to_string_pretty(&report::shrunk_json(&shrunk));
        say(text.map_err(Failure::internal)?);
        return Ok(exit::SAFE);
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
    let verdict = verdict_with(&shrunk.run, repetition);
    Ok(if verdict == shrunk.run.judgement.verdict { exit::SAFE } else { verdict.exit_code() })
}

/// Writes a plan in one step: a reader finds the old one or the new one.
fn write(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let mend = "look at the path and its rights, or name another file";
        Failure::usage(format!("--out {}: cannot be written: {error}; {mend}", path.display()))
    };
    whole_file::write(path, &file::write(plan)).map_err(failed)
}

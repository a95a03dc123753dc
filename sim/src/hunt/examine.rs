//! Examines a failure before it is told: the same plan in a fresh process must leave
//! the same trace, and turmoil is asked about it.

use std::io;
use std::path::PathBuf;

use super::pack::Worker;
use super::worker::{Answer, Request};
use crate::plan::{Plan, file};
use crate::storm::Run;
use crate::storm::confirm::Confirmation;
use crate::storm::repeat::{Repetition, Report};

/// What came of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// How the run repeated.
    pub repetition: Repetition,
    /// What turmoil says, where it was asked.
    pub confirmation: Option<Confirmation>,
}

/// Runs the plan of `run` in a fresh process of `program` and compares.
///
/// # Errors
/// When the process cannot be started or dies.
pub fn examine(
    run: &Run,
    engine: &str,
    confirm: bool,
    program: &PathBuf,
) -> io::Result<Examination> {
    let first = Report::of(run);
    let (second, confirmation) = fresh(&run.plan, engine, confirm, false, program)?;
    if first.trace == second.trace {
        return Ok(Examination { repetition: Repetition::FreshProcess, confirmation });
    }
    // Once more with all events, to say where they part.
    let (second, _) = fresh(&run.plan, engine, false, true, program)?;
    let difference = first.difference(&second).flatten();
    Ok(Examination { repetition: Repetition::Differs { first: difference }, confirmation: None })
}

/// Runs `plan` once in a fresh process of `program`.
///
/// # Errors
/// When the process cannot be started, dies, or refuses the plan.
pub fn fresh(
    plan: &Plan,
    engine: &str,
    confirm: bool,
    events: bool,
    program: &PathBuf,
) -> io::Result<(Report, Option<Confirmation>)> {
    let mut worker = Worker::start(program)?;
    let plan = file::write(plan);
    worker.ask(&Request::Examine { plan, engine: engine.to_owned(), confirm, events })?;
    match worker.hear()? {
        Answer::Examined { report, confirmation } => Ok((report, confirmation)),
        Answer::Refused { why } => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
        Answer::Seed(_) => Err(io::Error::other("the worker answered another question")),
    }
}

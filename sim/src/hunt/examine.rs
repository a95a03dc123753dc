//! Examines a failure before it is told: the same plan in a fresh process must leave
//! the same trace, and turmoil is asked about it.
//!
//! The fresh process comes first. A plan that aborts or never ends is found out there,
//! and is then not run in this one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::process::{GRACE, Trouble, Worker};
use super::worker::{Answer, Request};
use crate::engine::Engine;
use crate::plan::{Plan, file};
use crate::storm::confirm::{Confirmation, DIRECTED_TRIES, TRIES};
use crate::storm::repeat::{Repetition, Report};
use crate::storm::{self, Run};

/// What came of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// How the run repeated.
    pub repetition: Repetition,
    /// What turmoil says, where it was asked.
    pub confirmation: Option<Confirmation>,
}

/// Where and how long a plan is examined.
#[derive(Clone, Debug)]
pub struct Examiner {
    /// The program that is started as a worker.
    pub program: PathBuf,
    /// How long one run may take, real time. A confirmation may take
    /// [`CONFIRMATION_RUNS`] times as long.
    pub limit: Duration,
    /// When all must be over, real time; `None` where there is no such time.
    pub until: Option<Instant>,
}

#[expect(clippy::disallowed_methods, reason = "how long a hunt waits; no storm reads it")]
fn now() -> Instant {
    Instant::now()
}

/// A confirmation is at most so many runs, on four engines.
pub const CONFIRMATION_RUNS: u32 = 4 * TRIES + DIRECTED_TRIES;

/// What a fresh process tells of a plan.
type Fresh = (Report, Option<Confirmation>);

impl Examiner {
    /// One without a time at which all must be over.
    pub fn new(program: PathBuf, limit: Duration) -> Examiner {
        Examiner { program, limit, until: None }
    }

    /// The same, which has only so much real time from now on.
    #[must_use]
    pub fn within(&self, most: Option<Duration>) -> Examiner {
        Examiner { until: most.map(|most| now() + most), ..self.clone() }
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= now())
    }

    /// So much, or what is left of its time.
    pub fn at_most(&self, limit: Duration) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// Runs `plan` in a fresh process, has it confirmed there where asked, then runs it
    /// here and compares. A plan that the fresh process did not survive is not run here.
    ///
    /// # Errors
    /// [`Trouble`] of the fresh process: it died or hung over this plan, it could not
    /// be started, or it refused the plan.
    pub fn examine(
        &self,
        plan: &Plan,
        engine: &dyn Engine,
        confirm: bool,
    ) -> Result<(Run, Examination), Trouble> {
        let fresh = self.fresh(plan, engine.name(), confirm, false)?;
        let run = storm::run(plan, engine);
        let examination = self.compare(&run, engine.name(), fresh)?;
        Ok((run, examination))
    }

    /// Runs the plan of `run` once more, in a fresh process, and compares.
    ///
    /// # Errors
    /// As [`Examiner::examine`].
    pub fn repeat(&self, run: &Run, engine: &str, confirm: bool) -> Result<Examination, Trouble> {
        let fresh = self.fresh(&run.plan, engine, confirm, false)?;
        self.compare(run, engine, fresh)
    }

    fn compare(&self, run: &Run, engine: &str, fresh: Fresh) -> Result<Examination, Trouble> {
        let (there, confirmation) = fresh;
        let here = Report::of(run);
        if here.trace == there.trace {
            return Ok(Examination { repetition: Repetition::FreshProcess, confirmation });
        }
        // Once more with all events, to say where they part.
        let (again, _) = self.fresh(&run.plan, engine, false, true)?;
        let first = here.difference(&again).flatten();
        Ok(Examination { repetition: Repetition::Differs { first }, confirmation: None })
    }

    /// Runs `plan` once in a fresh process.
    ///
    /// # Errors
    /// [`Trouble`] of that process.
    fn fresh(
        &self,
        plan: &Plan,
        engine: &str,
        confirm: bool,
        events: bool,
    ) -> Result<Fresh, Trouble> {
        let mut worker = Worker::start(&self.program).map_err(Trouble::Failed)?;
        let plan = file::write(plan);
        let runs = if confirm { 1 + CONFIRMATION_RUNS } else { 1 };
        let limit = self.at_most(self.limit.saturating_mul(runs));
        let engine = engine.to_owned();
        worker.ask(&Request::Examine { plan, engine, confirm, events, limit })?;
        match worker.hear(limit + GRACE)? {
            Answer::Examined { report, confirmation } => Ok((report, confirmation)),
            Answer::Stuck { why } => Err(Trouble::Lost(why)),
            Answer::Refused { why } => Err(Trouble::refused(why)),
            Answer::Ran(_)
            | Answer::Thought(_)
            | Answer::Smaller { .. }
            | Answer::Shrunk { .. } => {
                Err(Trouble::Lost("the worker answered another question".into()))
            }
        }
    }
}

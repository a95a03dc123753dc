//! Shrinks a failure that a hunt keeps, in a process of its own: a candidate that hangs or
//! kills its process costs what was not yet tried, never what was found.
//!
//! The process tells each improvement as it finds it, so whoever waits has the best so far
//! at any moment. What is found in the end depends on the plan and the number of replays
//! alone; only where real time runs out before them does the machine have a say, and then
//! the report says so.

use std::time::Instant;

use super::examine::Examiner;
use super::process::{GRACE, Trouble, Worker};
use super::worker::{Answer, Request};
use crate::plan::{Plan, file};
use crate::report::layout::counted;
use crate::shrink::Limits;

/// The smallest plan that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smaller {
    /// It; the plan itself where nothing could be taken away.
    pub plan: Plan,
    /// How many faults the plan had before.
    pub faults_before: usize,
    /// How many plans were run.
    pub replays: u32,
    /// How it ended.
    pub end: End,
}

/// How a shrinking ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Each fault that is left is proved necessary.
    Minimal,
    /// All replays were used.
    Replays,
    /// Real time was over.
    Time,
    /// Its process died or hung over a candidate, and how.
    Lost(String),
}

impl Smaller {
    /// `5 faults to 1, 64 replays; each fault is proved necessary`.
    pub fn line(&self) -> String {
        let end = match &self.end {
            End::Minimal if self.plan.faults.is_empty() => "it fails without any fault".to_owned(),
            End::Minimal => "each fault is proved necessary".to_owned(),
            End::Replays => "given up when all replays were used".to_owned(),
            End::Time => "given up when the time was over".to_owned(),
            End::Lost(why) => format!("given up: {why}"),
        };
        format!(
            "{} to {}, {}; {end}",
            counted(self.faults_before as u64, "fault"),
            self.plan.faults.len(),
            counted(u64::from(self.replays), "replay"),
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a hunt waits; no storm reads it")]
fn now() -> Instant {
    Instant::now()
}

impl Examiner {
    /// Shrinks `plan` in a fresh process, for no longer than one run may take; `each` hears
    /// of every improvement.
    ///
    /// # Errors
    /// [`Trouble::Failed`] when there is no process, or it refused the plan, which does not
    /// fail there.
    pub fn shrink(
        &self,
        plan: &Plan,
        limits: &Limits,
        each: &mut dyn FnMut(&Smaller),
    ) -> Result<Smaller, Trouble> {
        let mut best = Smaller {
            plan: plan.clone(),
            faults_before: plan.faults.len(),
            replays: 1,
            end: End::Time,
        };
        let most = self.at_most(self.limit);
        let mut worker = Worker::start(&self.program).map_err(Trouble::Failed)?;
        let request =
            Request::Shrink { plan: file::write(plan), replays: limits.replays, limit: most };
        let until = now() + most + GRACE;
        if let Err(Trouble::Failed(error)) = worker.ask(&request) {
            return Err(Trouble::Failed(error));
        }
        loop {
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(best);
            }
            match worker.hear(left) {
                Ok(Answer::Smaller { plan, replays }) => {
                    best.take(&plan, replays).map_err(Trouble::refused)?;
                    each(&best);
                }
                Ok(Answer::Shrunk { plan, replays, minimal }) => {
                    best.take(&plan, replays).map_err(Trouble::refused)?;
                    best.end = if minimal { End::Minimal } else { End::Replays };
                    return Ok(best);
                }
                Ok(Answer::Refused { why }) => return Err(Trouble::refused(why)),
                Ok(Answer::Stuck { .. }) => return Ok(best),
                Ok(Answer::Ran(_) | Answer::Thought(_) | Answer::Examined { .. }) => {
                    best.end = End::Lost("the worker answered another question".to_owned());
                    return Ok(best);
                }
                Err(Trouble::Lost(why)) => {
                    if now() < until {
                        best.end = End::Lost(why);
                    }
                    return Ok(best);
                }
                Err(failed @ Trouble::Failed(_)) => return Err(failed),
            }
        }
    }
}

impl Smaller {
    fn take(&mut self, plan: &str, replays: u32) -> Result<(), String> {
        self.plan = file::parse("the worker's plan", plan).map_err(|error| error.to_string())?;
        self.replays = replays;
        Ok(())
    }
}

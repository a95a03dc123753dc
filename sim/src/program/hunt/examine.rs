//! Looks at failures again: in a fresh process, and under turmoil.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lockstorm_sim::check::Verdict;
use lockstorm_sim::hunt::Summary;
use lockstorm_sim::hunt::book::Catch;
use lockstorm_sim::hunt::course::{Source, Step};
use lockstorm_sim::hunt::examine::Examination;
use lockstorm_sim::hunt::process::Trouble;
use lockstorm_sim::report::block::Failure as Told;
use lockstorm_sim::storm::confirm::Confirmation;
use lockstorm_sim::storm::repeat::Repetition;
use lockstorm_sim::storm::{self, Run};

use super::Setup;
use super::walk::{Walk, progress};
use crate::program::arguments::EngineArgument;
use crate::program::exit::Failure;
use crate::program::run::{command_of_faults, command_of_seed};

/// A failure that was run again and asked about.
pub struct Examined {
    /// Its run.
    pub run: Run,
    /// None for a run that its worker did not survive.
    pub examination: Option<Examination>,
    /// What tells it from others, as its worker said.
    pub signature: String,
    /// How many runs have this signature; 1 where all are examined.
    pub runs: u64,
    /// What it is, for people.
    pub label: String,
    /// The command that runs it again.
    pub reproduce: String,
}

impl Examined {
    /// Whether two runs of it differ.
    pub fn is_nondeterministic(&self) -> bool {
        let repetition = self.examination.as_ref().map(|examination| &examination.repetition);
        matches!(repetition, Some(Repetition::Differs { .. }))
    }

    /// What the reference engine says.
    pub fn confirmation(&self) -> Option<&Confirmation> {
        self.examination.as_ref()?.confirmation.as_ref()
    }

    /// What it came to.
    pub fn verdict(&self) -> Verdict {
        match self.is_nondeterministic() {
            true => Verdict::Nondeterminism,
            false => self.run.judgement.verdict,
        }
    }

    /// For reports.
    pub fn told(&self) -> Told<'_> {
        Told {
            run: &self.run,
            position: None,
            repetition: self.examination.as_ref().map(|examination| &examination.repetition),
            confirmation: self.confirmation(),
            reproduce: &self.reproduce,
        }
    }
}

/// What is to be examined.
struct Suspect<'a> {
    step: &'a Step,
    summary: &'a Summary,
    runs: u64,
    label: String,
}

/// Examines all failures, or the first of each signature, as many at once as there are
/// jobs; in the order of the hunt, or the gravest first.
pub fn examine_all(setup: &Setup, walk: &Walk<'_>) -> Result<Vec<Examined>, Failure> {
    let suspects: Vec<Suspect<'_>> = if walk.tells_all() {
        let failures = walk.failures.iter();
        let label = |step: &Step| format!("seed {}", step.task.seed());
        failures
            .map(|(step, summary)| Suspect { step, summary, runs: 1, label: label(step) })
            .collect()
    } else {
        let failures = walk.book.failures().into_iter();
        failures
            .map(|(_, Catch { runs, step, label, summary })| Suspect {
                step,
                summary,
                runs: *runs,
                label: label.clone(),
            })
            .collect()
    };
    let bar = progress("failures examined", Some(suspects.len() as u64));
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..setup.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(suspect) = suspects.get(index) else { return };
                    let result = examine_one(setup, suspect);
                    bar.inc(1);
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    bar.finish_and_clear();
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn examine_one(setup: &Setup, suspect: &Suspect<'_>) -> Result<Examined, Failure> {
    let Setup { quarry, storm, examiner, .. } = setup;
    let plan = quarry.plan_of(&suspect.step.task)?;
    let engine =
        storm::engine(&quarry.engine).ok_or_else(|| Failure::internal("the engine is missing"))?;
    let examined = |run, examination| Examined {
        run,
        examination,
        signature: suspect.summary.signature.clone(),
        runs: suspect.runs,
        label: suspect.label.clone(),
        reproduce: match suspect.step.source {
            Source::Drawn => command_of_seed(plan.seed, storm),
            Source::Single(_) | Source::Pair(..) => command_of_faults(&plan, storm),
        },
    };
    let lost = |why| examined(storm::lost(&plan, engine.as_ref(), why), None);
    if suspect.summary.is_lost() {
        // What killed its worker would kill the next: it is told, not run.
        return Ok(lost(suspect.summary.trouble.clone().unwrap_or_default()));
    }
    let is_event = quarry.engine == EngineArgument::Event.name();
    let confirm = is_event && suspect.summary.verdict == Verdict::Violation;
    let (run, mut examination) = match examiner.examine(&plan, engine.as_ref(), confirm) {
        Ok(examined) => examined,
        // A plan that kills or hangs a fresh process is told as what it is.
        Err(Trouble::Lost(why)) => return Ok(lost(why)),
        Err(Trouble::Failed(error)) => return Err(Failure::internal(error)),
    };
    let was_same = suspect.summary.trace == run.trace_hash.to_string();
    let is_same = !matches!(examination.repetition, Repetition::Differs { .. });
    let parted = suspect.summary.verdict == Verdict::Nondeterminism || !was_same;
    if parted && is_same {
        examination.repetition = Repetition::Differs { first: None };
    }
    Ok(examined(run, Some(examination)))
}

//! Looks at failures again: each in a fresh process; what is kept is shrunk, and the
//! smaller plan is looked at in its place; then turmoil is asked.
//!
//! Where the time of a campaign is over, failures are told as they were found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::check::Verdict;
use crate::engine::Engine;
use crate::hunt::Summary;
use crate::hunt::book::Catch;
use crate::hunt::course::{Source, Step};
use crate::hunt::examine::{Examination, Examiner};
use crate::hunt::process::Trouble;
use crate::hunt::smaller::Smaller;
use crate::report::block::Failure as Told;
use crate::shrink::Limits;
use crate::storm::confirm::Confirmation;
use crate::storm::repeat::Repetition;
use crate::storm::{self, Run};

use super::Setup;
use super::walk::Walk;
use crate::program::arguments::EngineArgument;
use crate::program::exit::Failure;
use crate::program::plan_folder::{Origin, PlanFolder};
use crate::program::progress::Progress;
use crate::program::run::{command_of_faults, command_of_plan, command_of_seed};

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
    /// What was made of a plan that is kept.
    pub shrunk: Option<Shrunk>,
    /// Whether the time was over before it could be looked at.
    pub was_late: bool,
}

/// How a kept plan was shrunk.
pub struct Shrunk {
    /// What came of it.
    pub smaller: Smaller,
    /// The name of its file.
    pub file: String,
    /// The command that runs the plan again as it was found.
    pub before: String,
}

impl Shrunk {
    /// `shrunk from 5 faults to 1, …, in FILE`.
    pub fn line(&self) -> String {
        format!("shrunk from {}, in {}", self.smaller.line(), self.file)
    }
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
    /// Where its plan is kept, if it is to be shrunk.
    path: Option<&'a Path>,
}

/// Examines all failures, or the first of each signature, as many at once as there are
/// jobs; in the order of the hunt, or the gravest first. Beside them the first error of
/// writing a smaller plan.
pub fn examine_all(
    setup: &Setup,
    examiner: &Examiner,
    walk: &Walk<'_>,
) -> Result<(Vec<Examined>, Option<Failure>), Failure> {
    let path = |step: &Step| walk.kept.get(&step.number).map(PathBuf::as_path);
    let path = |step: &Step| path(step).filter(|_| setup.shrinks);
    let suspects: Vec<Suspect<'_>> = if walk.tells_all() {
        let failures = walk.failures.iter();
        let label = |step: &Step| format!("seed {}", step.task.seed());
        failures
            .map(|(step, summary)| Suspect {
                step,
                summary,
                runs: 1,
                label: label(step),
                path: path(step),
            })
            .collect()
    } else {
        let failures = walk.book.failures().into_iter();
        failures
            .map(|(_, Catch { runs, step, label, summary })| Suspect {
                step,
                summary,
                runs: *runs,
                label: label.clone(),
                path: path(step),
            })
            .collect()
    };
    let bar = Progress::new("failures examined", Some(suspects.len() as u64));
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let examining = Examining { setup, examiner, unwritten: Mutex::new(None) };
    std::thread::scope(|scope| {
        for _ in 0..setup.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(suspect) = suspects.get(index) else { return };
                    let result = examining.examine(suspect);
                    bar.inc();
                    locked(&found).insert(index, result);
                }
            });
        }
    });
    drop(bar);
    let unwritten = locked(&examining.unwritten).take();
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let examined: Result<Vec<Examined>, Failure> = found.into_values().collect();
    Ok((examined?, unwritten))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all examinations have in common.
struct Examining<'a> {
    setup: &'a Setup,
    examiner: &'a Examiner,
    /// Why a smaller plan could not be written.
    unwritten: Mutex<Option<Failure>>,
}

impl Examining<'_> {
    fn examine(&self, suspect: &Suspect<'_>) -> Result<Examined, Failure> {
        let Setup { quarry, storm, .. } = self.setup;
        let plan = quarry.plan_of(&suspect.step.task)?;
        let engine = storm::engine(&quarry.engine)
            .ok_or_else(|| Failure::internal("the engine is missing"))?;
        let examined = |run, examination| Examined {
            run,
            examination,
            signature: suspect.summary.signature.clone(),
            runs: suspect.runs,
            label: suspect.label.clone(),
            reproduce: match suspect.step.source {
                Source::Drawn => command_of_seed(plan.seed, storm),
                Source::Calm(_) | Source::Again(_) => command_of_plan("replay", &plan, None),
                Source::Single(_) | Source::Pair(..) => command_of_faults(&plan, storm),
            },
            shrunk: None,
            was_late: false,
        };
        let lost = |why| examined(storm::lost(&plan, engine.as_ref(), why), None);
        if suspect.summary.is_lost() {
            // What killed its worker would kill the next: it is told, not run.
            return Ok(lost(suspect.summary.trouble.clone().unwrap_or_default()));
        }
        // A worker has survived it: this process will.
        let late = || {
            let run = storm::run(&plan, engine.as_ref());
            Examined { was_late: true, ..examined(run, None) }
        };
        if self.examiner.is_over() {
            return Ok(late());
        }
        let is_event = quarry.engine == EngineArgument::Event.name();
        let is_violation = is_event && suspect.summary.verdict == Verdict::Violation;
        let path = suspect.path.filter(|_| is_violation);
        // The smaller plan is asked about, where there will be one.
        let confirm = is_violation && path.is_none();
        let (run, mut examination) = match self.examiner.examine(&plan, engine.as_ref(), confirm) {
            Ok(examined) => examined,
            Err(Trouble::Lost(_)) if self.examiner.is_over() => return Ok(late()),
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
        let whole = examined(run, Some(examination));
        match path {
            Some(path) if !whole.is_nondeterministic() => self.shrink(whole, path, engine.as_ref()),
            _ => Ok(whole),
        }
    }

    /// Shrinks the plan of `whole`, keeps every improvement at `path`, and looks at the
    /// smallest in its place.
    fn shrink(
        &self,
        whole: Examined,
        path: &Path,
        engine: &dyn Engine,
    ) -> Result<Examined, Failure> {
        let plan = &whole.run.plan;
        let origin = Origin { plan, label: &whole.label, reproduce: &whole.reproduce };
        let keep = |smaller: &Smaller| {
            if let Err(failure) = PlanFolder::shrunk(path, smaller, &origin) {
                locked(&self.unwritten).get_or_insert(failure);
            }
        };
        let shrunk = self.examiner.shrink(plan, &Limits::default(), &mut |so_far| keep(so_far));
        let smaller = match shrunk {
            Ok(smaller) => smaller,
            Err(Trouble::Lost(why)) => return Err(Failure::internal(why)),
            Err(Trouble::Failed(error)) => return Err(Failure::internal(error)),
        };
        keep(&smaller);
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (run, mut examination) = match self.examiner.examine(&smaller.plan, engine, true) {
            Ok(examined) => examined,
            // There was no time for it: the whole one is told, which was the same twice.
            Err(Trouble::Lost(_)) if self.examiner.is_over() => {
                let shrunk = Some(Shrunk { smaller, file, before: whole.reproduce.clone() });
                return Ok(Examined { shrunk, was_late: true, ..whole });
            }
            // In a process of its own it failed as it should a moment ago.
            Err(Trouble::Lost(why)) => return Err(Failure::internal(why)),
            Err(Trouble::Failed(error)) => return Err(Failure::internal(error)),
        };
        if run.judgement.verdict != Verdict::Violation {
            // It was one when it was shrunk.
            examination.repetition = Repetition::Differs { first: None };
        }
        let reproduce = command_of_plan("replay", &smaller.plan, None);
        Ok(Examined {
            run,
            examination: Some(examination),
            shrunk: Some(Shrunk { smaller, file, before: whole.reproduce }),
            reproduce,
            ..whole
        })
    }
}

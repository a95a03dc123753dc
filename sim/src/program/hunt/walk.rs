//! Goes the course of a hunt, round by round, and writes down what its runs bring.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::hunt::book::{Book, is_failure};
use crate::hunt::campaign::{Journal, Line};
use crate::hunt::course::{Course, Step, Strategy};
use crate::hunt::{Quarry, Summary, Task, pack};
use crate::report::layout::counted;

use super::Setup;
use crate::program::exit::Failure;
use crate::program::plan_folder::PlanFolder;
use crate::program::progress::Progress;

/// A hunt on its way.
pub struct Walk<'a> {
    setup: &'a Setup,
    folder: Option<PlanFolder>,
    /// Of a campaign.
    pub journal: Option<Journal>,
    /// Whether nothing is run: of a merged campaign all runs are known.
    pub read_only: bool,
    /// What the runs came to.
    pub book: Book,
    /// All failures, where all of them are told.
    pub failures: Vec<(Step, Summary)>,
    /// Why something could not be written; told after everything else.
    pub unwritten: Option<Failure>,
    /// Where the plan of the first failure of each signature is kept, by its step.
    pub kept: BTreeMap<u64, PathBuf>,
    began: Instant,
    before: Duration,
    bar: Option<Progress>,
}

#[expect(clippy::disallowed_methods, reason = "how long a campaign lasts; no storm reads it")]
fn now() -> Instant {
    Instant::now()
}

impl<'a> Walk<'a> {
    /// Nothing has been run yet.
    pub fn new(setup: &'a Setup, folder: Option<PlanFolder>, journal: Option<Journal>) -> Walk<'a> {
        let before = journal.as_ref().map_or(0, Journal::elapsed_s);
        Walk {
            setup,
            folder,
            journal,
            read_only: false,
            book: Book::default(),
            failures: Vec::new(),
            unwritten: None,
            kept: BTreeMap::new(),
            began: now(),
            before: Duration::from_secs(before),
            bar: None,
        }
    }

    /// Whether every failure is told, and not only the first of each signature.
    pub fn tells_all(&self) -> bool {
        self.setup.strategy == Strategy::Swarm && !self.setup.is_campaign
    }

    /// How long was hunted, with earlier starts.
    fn elapsed(&self) -> Duration {
        self.before + now().duration_since(self.began)
    }

    fn is_over(&self) -> bool {
        self.unwritten.is_some() && self.journal.is_some()
            || self.setup.duration.is_some_and(|duration| self.elapsed() >= duration)
    }

    /// Goes on until the course or the time is over.
    pub fn go(&mut self, course: &mut Course) -> Result<(), Failure> {
        self.bar = Some(Progress::new("runs", course.budget()));
        loop {
            let round = course.next_round()?;
            if let (Some(bar), Some(budget)) = (&self.bar, course.budget()) {
                bar.set_length(budget);
            }
            let Some(last) = round.last().map(|step| step.number) else { break };
            let shard = self.setup.shard;
            let round: Vec<Step> =
                round.into_iter().filter(|step| course.is_of(step, shard)).collect();
            let mut to_run = Vec::new();
            for mut step in round {
                let known = self.journal.as_mut().map(|journal| journal.known(&step));
                match known.transpose().map_err(Failure::Usage)?.flatten() {
                    Some(line) => {
                        let summary = line.summary(&step);
                        // It is there, as it was found or shrunk, unless somebody took it.
                        self.keep_plan(&step, &summary);
                        self.take(course, &step, &summary);
                    }
                    None => {
                        let gap = self.journal.as_ref().and_then(|journal| journal.gap(&step));
                        // Of what was merged, a shard may not have come so far.
                        if let Some(gap) = gap.filter(|_| !self.read_only) {
                            return Err(Failure::usage(gap));
                        }
                        match step.known.take() {
                            Some(summary) if !self.read_only => {
                                self.write_down(course, &step, &summary);
                                self.take(course, &step, &summary);
                            }
                            _ => to_run.push(step),
                        }
                    }
                }
            }
            if let Some(journal) = &self.journal {
                if journal.next_number().is_some_and(|next| next <= last) {
                    return Err(Failure::usage(
                        "the journal has runs that this hunt does not make; name another folder",
                    ));
                }
                if self.read_only && journal.next_number().is_none() {
                    // The end of what the shards have run.
                    break;
                }
            }
            if to_run.is_empty() || self.read_only {
                continue;
            }
            if self.is_over() {
                break;
            }
            self.run_round(course, &to_run)?;
            if let Some(journal) = &self.journal {
                let rested = journal.rest(self.elapsed().as_secs());
                self.unwritten = self.unwritten.take().or(rested.err().map(Failure::Usage));
            }
            if self.is_over() {
                break;
            }
        }
        self.bar = None;
        Ok(())
    }

    fn run_round(&mut self, course: &mut Course, steps: &[Step]) -> Result<(), Failure> {
        let tasks: Vec<Task> = steps.iter().map(|step| step.task.clone()).collect();
        let setup = self.setup;
        if !setup.twice {
            let mut steps = steps.iter();
            return run(setup, &setup.quarry, &tasks, |summary| {
                let Some(step) = steps.next() else { return false };
                self.write_down(course, step, &summary);
                self.take(course, step, &summary);
                !self.is_over()
            });
        }
        let mut passes = [Vec::new(), Vec::new()];
        for pass in &mut passes {
            run(setup, &setup.quarry, &tasks, |summary| {
                pass.push(summary);
                true
            })?;
        }
        let [first, again] = passes;
        for ((step, mut summary), again) in steps.iter().zip(first).zip(&again) {
            summary.compare(again);
            self.write_down(course, step, &summary);
            self.take(course, step, &summary);
        }
        Ok(())
    }

    /// At once: a hunt that is interrupted has lost nothing that it had found. What cannot
    /// be written is told after everything else.
    fn write_down(&mut self, course: &Course, step: &Step, summary: &Summary) {
        self.keep_plan(step, summary);
        if let (Some(journal), None) = (&mut self.journal, &self.unwritten) {
            let what = is_failure(step, summary).then(|| course.label(step));
            let added = journal.add(&Line::new(step, summary, what));
            self.unwritten = added.err().map(Failure::Usage);
        }
    }

    /// The first of each signature; the others run again by the lines that are told.
    fn keep_plan(&mut self, step: &Step, summary: &Summary) {
        let is_first = !self.book.caught.contains_key(&summary.signature);
        if let (Some(folder), true) = (&self.folder, is_failure(step, summary) && is_first) {
            let kept = self.setup.quarry.plan_of(&step.task).map_err(Failure::from);
            match kept.and_then(|plan| folder.keep(&plan)) {
                Ok(path) => drop(self.kept.insert(step.number, path)),
                Err(error) => self.unwritten = self.unwritten.take().or(Some(error)),
            }
        }
    }

    fn take(&mut self, course: &mut Course, step: &Step, summary: &Summary) {
        course.note(step, summary);
        self.book.add(course, step, summary);
        if self.tells_all() && is_failure(step, summary) {
            self.failures.push((step.clone(), summary.clone()));
        }
        if let Some(bar) = &self.bar {
            let distinct = self.book.caught.len() as u64;
            bar.set_message(counted(distinct, "distinct failure"));
            bar.inc();
        }
    }

    /// The folder of `--out`.
    pub fn folder(&self) -> Option<&PlanFolder> {
        self.folder.as_ref()
    }
}

/// Runs tasks over the workers.
pub fn run(
    setup: &Setup,
    quarry: &Quarry,
    tasks: &[Task],
    each: impl FnMut(Summary) -> bool,
) -> Result<(), Failure> {
    let (program, limit) = (&setup.examiner.program, setup.examiner.limit);
    let result = pack::run(quarry, tasks, usize::from(setup.jobs), program, limit, each);
    result.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error),
        _ => Failure::internal(error),
    })
}

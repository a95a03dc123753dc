//! What a storm of a test tells when it fails: the smallest run that fails in the same way, and
//! the lines that show it again.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Storm;
use crate::check::Verdict;
use crate::plan::{Plan, capsule, file};
use crate::report::block::{Failure, failure_block};
use crate::report::html::{Source, pages};
use crate::report::layout::counted;
use crate::shrink::{Limits, Progress, Shrunk, shrink_with};
use crate::storm::Run;
use crate::storm::confirm::confirm;
use crate::storm::environment::Environment;
use crate::storm::place::place;
use crate::storm::repeat::{self, Repetition};
use crate::whole_file;

/// How many runs a failure is shrunk with, unless the storm says otherwise.
pub(super) const REPLAYS: u32 = 100;

impl Storm {
    /// The failure block of one of this storm's runs: repeated in a fresh process,
    /// asked about under turmoil, told; below it the files that `LOCKSTORM_REPORT` asks for.
    pub fn block(&self, run: &Run, position: Option<(u64, u64)>) -> String {
        self.block_with(run, position, &self.reproduce(run))
    }

    fn block_with(&self, run: &Run, position: Option<(u64, u64)>, reproduce: &str) -> String {
        let tested = self.under_test();
        let factory = &tested.factory;
        let repetition = repeat::twice(run, &tested);
        let confirmation = match (&repetition, run.judgement.verdict) {
            (Repetition::Differs { .. }, _) => None,
            (_, Verdict::Violation) => Some(confirm(run, factory)),
            _ => None,
        };
        let failure = Failure {
            run,
            position,
            repetition: Some(&repetition),
            confirmation: confirmation.as_ref(),
            reproduce,
        };
        let mut block = failure_block(&failure);
        let environment = Environment::get();
        if !environment.reports.is_empty() {
            let shown = crate::storm::with_asides(run, factory);
            let failure = Failure { run: shown.as_ref().unwrap_or(run), ..failure };
            for line in pages::written(environment, &Source::of_run(&failure)) {
                block.push_str(&format!("\n{line}"));
            }
        }
        block
    }

    /// A violation made small; `None` of what is none, or where nothing gave.
    pub(super) fn shrunk(&self, run: &Run) -> Option<Shrunk> {
        let environment = Environment::get();
        // Whoever asks for one plan wants to see that one.
        let asks_for_one = self.plan.is_some() || environment.plan.is_some();
        let wants = self.replays > 0 && !asks_for_one && environment.seed.is_none();
        // Candidates are run on the event engine.
        if !wants || run.engine_name != "event" || run.judgement.verdict != Verdict::Violation {
            return None;
        }
        let tested = self.under_test();
        if let Repetition::Differs { .. } = repeat::twice(run, &tested) {
            return None;
        }
        let limits = Limits { replays: self.replays };
        let tell = &mut |_: &Progress<'_>| ControlFlow::Continue(());
        let shrunk = shrink_with(&run.plan, &limits, &tested.factory, tell).ok()?;
        // Of one that does not repeat there is nothing to tell; of the one it came from there is.
        let repeats = !matches!(repeat::twice(&shrunk.run, &tested), Repetition::Differs { .. });
        (repeats && *shrunk.plan() != run.plan).then_some(shrunk)
    }

    /// The failure block of the shrunk run, and from what it was shrunk.
    pub(super) fn shrunk_block(&self, run: &Run, shrunk: &Shrunk) -> String {
        let again = format!("LOCKSTORM_PLAN={} {}", capsule::write(shrunk.plan()), command());
        let block = self.block_with(&shrunk.run, None, &again);
        let (before, after) = (&run.plan, shrunk.plan());
        let of = |plan: &Plan| {
            let faults = counted(plan.faults.len() as u64, "fault");
            format!("{faults}, {}", counted(u64::from(plan.topology.apps), "client"))
        };
        let whole = self.reproduce(run);
        format!(
            "{block}\n  shrunk      {} → {}, in {}\n  the whole   {whole}",
            of(before),
            of(after),
            counted(u64::from(shrunk.replays), "run"),
        )
    }

    fn reproduce(&self, run: &Run) -> String {
        format!("LOCKSTORM_SEED={} {}", run.plan.seed, command())
    }
}

/// Said before the process is ended; past libtest, which would keep it for a report that never
/// comes.
pub(super) fn stands_still(limit: Duration) {
    let seconds = limit.as_secs_f64();
    let place = place().unwrap_or_else(|| "nothing has run yet".to_owned());
    let _ = writeln!(
        std::io::stderr(),
        "lockstorm: a run came to no end in {seconds} s of real time; {place}.\n\
         A run has one thread: whatever blocks it (std::thread::sleep, a mutex of std that is held \
         while something is awaited, a client library that is not async) stops everything.\n\
         This process ends here."
    );
}

/// What runs this test again.
fn command() -> String {
    match repeat::test_name() {
        Some(test) => format!("cargo test {test}"),
        None => "cargo test".to_owned(),
    }
}

/// Writes the plan of a failure into a folder, and says where.
pub(super) fn keep(folder: &Path, plan: &Plan) -> Result<PathBuf, String> {
    let path = folder.join(format!("{}.toml", file::stem(plan)));
    let written =
        std::fs::create_dir_all(folder).and_then(|()| whole_file::write(&path, &file::write(plan)));
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("{}: cannot be written: {error}", path.display())),
    }
}

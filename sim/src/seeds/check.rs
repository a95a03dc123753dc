//! Runs kept plans, and makes new ones worth keeping.
//!
//! A file is met when the event engine gives its verdict and kinds, and turmoil says
//! of it what the file says. A changed trace with the same verdict is a note: the
//! program has changed, the story has not.

use std::sync::Arc;

use super::{Expectation, Found, SeedFile, Title, Turmoil};
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::storm::confirm::{self, Confirmation};
use crate::storm::locks::{self, LockFactory};
use crate::storm::{self, Run};

/// What came of a kept plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    met: bool,
    /// What there is to say, a line each: failures, else notes.
    pub lines: Vec<String>,
}

impl Checked {
    /// Whether everything is as the file says.
    pub fn is_met(&self) -> bool {
        self.met
    }

    /// `ok` or `FAILED`.
    pub fn word(&self) -> &'static str {
        if self.met { "ok    " } else { "FAILED" }
    }
}

/// Runs the plan of `file` on both engines and compares.
pub fn check(file: &SeedFile) -> Checked {
    let (run, confirmation) = run(file);
    compare(file, &run, &confirmation)
}

/// Runs the plan of `file` on the event engine, and asks turmoil about what came of it.
pub fn run(file: &SeedFile) -> (Run, Confirmation) {
    let run = storm::run(&file.plan, &EventEngine);
    let confirmation = ask_turmoil(&run);
    (run, confirmation)
}

/// Compares what came of it with what `file` says.
pub fn compare(file: &SeedFile, run: &Run, confirmation: &Confirmation) -> Checked {
    let kinds: Vec<&str> = run.judgement.kinds().into_iter().map(|kind| kind.id()).collect();
    let mut failures = Vec::new();
    if let Err(difference) = file.expect.met_by(run.judgement.verdict.id(), &kinds) {
        failures.push(format!("event: {difference}"));
    }
    match (&file.turmoil, confirmation) {
        (Turmoil::Confirmed, Confirmation::Confirmed { .. }) => {}
        (Turmoil::NotExpressible(said), Confirmation::NotExpressible { clause })
            if said == clause => {}
        (said, got) => failures.push(format!("the file says \"{said}\" of turmoil; {got}")),
    }
    if !failures.is_empty() {
        return Checked { met: false, lines: failures };
    }
    let trace = run.trace_hash.to_string();
    let mut lines = Vec::new();
    if trace != file.found.trace_hash {
        let Found { version, trace_hash, .. } = &file.found;
        lines.push(format!("note: trace changed since {version}: {trace_hash} → {trace}"));
    }
    Checked { met: true, lines }
}

/// Whether turmoil gives the same verdict, and of a violation the same gravest kind.
fn ask_turmoil(run: &Run) -> Confirmation {
    let factory: LockFactory = Arc::new(locks::build);
    match run.judgement.verdict {
        Verdict::Violation => confirm::confirm(run, &factory),
        verdict => confirm::confirm_verdict(&run.plan, verdict, &factory),
    }
}

/// The file that keeps a run's plan, with today's findings as its expectation.
///
/// # Errors
/// When turmoil could run the plan and did not confirm it: such a find is not kept
/// before it is understood.
pub fn keep(run: &Run, id: &str, title: Title) -> Result<SeedFile, String> {
    let turmoil = match ask_turmoil(run) {
        Confirmation::Confirmed { .. } => Turmoil::Confirmed,
        Confirmation::NotExpressible { clause } => Turmoil::NotExpressible(clause),
        not_confirmed => {
            return Err(format!("{not_confirmed}; a find that is not confirmed is not kept"));
        }
    };
    let kinds = run.judgement.kinds().into_iter().map(|kind| kind.id().to_owned());
    Ok(SeedFile {
        id: id.to_owned(),
        title,
        expect: Expectation {
            verdict: run.judgement.verdict.id().to_owned(),
            kinds: kinds.collect(),
        },
        found: Found {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trace_hash: run.trace_hash.to_string(),
            issue: None,
        },
        turmoil,
        plan: run.plan.clone(),
    })
}

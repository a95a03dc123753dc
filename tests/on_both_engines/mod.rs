//! A plan run on both engines, and what to read off the runs.

#![allow(dead_code, reason = "each test file needs some of it")]

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::{AcquireOutcome, What};
use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::storm::{self, Run};

/// The plan that this text is.
pub fn plan(text: &str) -> Plan {
    file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the plan on both engines; under turmoil if it has the means.
pub fn each_of(plan: &Plan, check: impl Fn(&Run)) {
    assert_eq!(EventEngine.cannot_express(plan), None);
    let turmoil = Turmoil::default();
    let engines = [&EventEngine as &dyn Engine, &turmoil].into_iter();
    for engine in engines.filter(|engine| engine.cannot_express(plan).is_none()) {
        let run = storm::run(plan, engine);
        assert_eq!(run.ending.stuck, None, "{}", run.engine);
        check(&run);
    }
}

/// Runs the plan that this text is on both engines.
pub fn each(text: &str, check: impl Fn(&Run)) {
    each_of(&plan(text), check);
}

/// What came of a run, in a line for a failing test.
pub fn told(run: &Run) -> String {
    let judgement = &run.judgement;
    let violations: Vec<&str> = judgement.violations().map(|found| found.kind.id()).collect();
    let advisories: Vec<&str> = judgement.advisories().map(|found| found.kind.id()).collect();
    format!(
        "{} with {}: {}, violations {violations:?}, advisories {advisories:?}, goals missed {:?}, \
         {} grants",
        run.engine,
        run.plan.lock.name,
        judgement.verdict.id(),
        judgement.goals.missed,
        judgement.numbers.grants
    )
}

/// Who was granted the lock, when, µs.
pub fn grants(run: &Run) -> Vec<(u64, String)> {
    let grants = run.history.iter().filter_map(|event| match &event.what {
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            Some((event.at_us, attempt.to_string()))
        }
        _ => None,
    });
    grants.collect()
}

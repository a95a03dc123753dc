//! A plan run on both engines, and what to read off the runs.

#![allow(dead_code, reason = "each test file needs some of it")]

use lockstorm_interpose::Senses;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::{Engine, senses};
use lockstorm_sim::history::{AcquireOutcome, What};
use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::storm::{self, Run};

/// Has third-party clients read the clocks of their nodes: those of ZooKeeper do.
pub fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// The plan that this text is.
pub fn plan(text: &str) -> Plan {
    file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the plan on both engines, which must both have the means.
pub fn each_of(plan: &Plan, check: impl Fn(&Run)) {
    each_that_can(plan, None, check);
}

/// Runs the plan that this text is on both engines.
pub fn each(text: &str, check: impl Fn(&Run)) {
    each_of(&plan(text), check);
}

/// Runs the plan on the event engine, and under turmoil unless that says that it cannot
/// express `inexpressible`. It must say so.
pub fn each_that_can(plan: &Plan, inexpressible: Option<&str>, check: impl Fn(&Run)) {
    assert_eq!(EventEngine.cannot_express(plan), None);
    let turmoil = Turmoil::default();
    assert_eq!(turmoil.cannot_express(plan).as_deref(), inexpressible);
    let mut engines = vec![&EventEngine as &dyn Engine];
    if inexpressible.is_none() {
        engines.push(&turmoil);
    }
    for engine in engines {
        let run = storm::run(plan, engine);
        assert_eq!(run.ending.stuck, None, "{}", run.engine);
        check(&run);
    }
}

/// Whether every fault of the plan had an observable effect.
pub fn is_struck(run: &Run) -> bool {
    run.judgement.goals.touched.len() == run.plan.faults.len()
}

/// Every fault of the plan struck, and it is safe all the same. A run without a violation
/// is less: nothing may have happened in it.
pub fn assert_withstood(run: &Run) {
    assert!(is_struck(run), "{}", told(run));
    assert!(run.judgement.verdict.is_safe(), "{}", told(run));
}

/// What came of a run, in a line for a failing test.
pub fn told(run: &Run) -> String {
    let judgement = &run.judgement;
    let violations: Vec<&str> = judgement.violations().map(|found| found.kind.id()).collect();
    let advisories: Vec<&str> = judgement.advisories().map(|found| found.kind.id()).collect();
    format!(
        "{} with {}: {}, violations {violations:?}, advisories {advisories:?}, goals missed {:?}, \
         faults that touched {:?} of {}, {} grants",
        run.engine,
        run.plan.lock.name,
        judgement.verdict.id(),
        judgement.goals.missed,
        judgement.goals.touched,
        run.plan.faults.len(),
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

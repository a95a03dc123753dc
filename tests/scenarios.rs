//! Does each scenario, with each lock that it can have, come to the same verdict under turmoil as
//! on the event engine? And are the kept plans that only the event engine can run listed?

mod on_both_engines;

use std::path::Path;
use std::sync::Mutex;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::scenario::{LOCKS, SCENARIOS, default_plan};
use lockstorm_sim::plan::{Fence, Micros, Plan};
use lockstorm_sim::seeds::{self, SeedFile};
use lockstorm_sim::storm;

use on_both_engines::{install_senses, told};

/// Storms of leases of an hour take turmoil a tick for each millisecond: it gets longer ones.
const LONG_TICK_MS: u64 = 500;

/// The scenario's plan with this lock, shorter where it can be; none where they do not fit.
fn plan_of(scenario: &str, lock: &str) -> Option<Plan> {
    let plan = default_plan(scenario, lock, Fence::Off).ok()?;
    let duration = plan.duration.min(match scenario {
        "redis-long-lease" => plan.duration,
        _ => Micros::from_secs(5),
    });
    Some(Plan { duration, ..plan })
}

fn turmoil_for(plan: &Plan) -> Turmoil {
    match plan.scenario.as_str() {
        "redis-long-lease" => Turmoil { tick_ms: LONG_TICK_MS, ..Turmoil::default() },
        _ => Turmoil::default(),
    }
}

/// What the engines make of the plan, if that is not the same.
fn difference(plan: &Plan) -> Option<String> {
    let turmoil = turmoil_for(plan);
    if let Some(why) = turmoil.cannot_express(plan) {
        return Some(format!("{} {}: turmoil cannot express {why}", plan.scenario, plan.lock.name));
    }
    let runs = [&EventEngine as &dyn Engine, &turmoil].map(|engine| storm::run(plan, engine));
    let kinds = runs.each_ref().map(|run| {
        let violations: Vec<_> = run.judgement.violations().map(|found| found.kind).collect();
        (run.judgement.verdict, violations.into_iter().min())
    });
    let says = |verdict: Verdict| verdict.is_safe() || verdict == Verdict::Violation;
    let is_said = runs.iter().all(|run| says(run.judgement.verdict));
    (kinds[0] != kinds[1] || !is_said)
        .then(|| format!("{}\n  {}\n  {}", plan.scenario, told(&runs[0]), told(&runs[1])))
}

#[test]
fn each_scenario_with_each_of_its_locks_comes_to_the_same_verdict_on_both_engines() {
    let pairs = SCENARIOS.iter().flat_map(|scenario| {
        let locks = LOCKS.iter().filter(|lock| !lock.planted);
        locks.filter_map(|lock| plan_of(scenario.name, lock.name))
    });
    let plans: Vec<Plan> = pairs.collect();
    assert!(plans.len() > 40, "{} pairs of scenario and lock", plans.len());
    let scenarios: std::collections::BTreeSet<_> =
        plans.iter().map(|plan| &plan.scenario).collect();
    assert_eq!(scenarios.len(), SCENARIOS.len(), "each scenario has a lock");
    let differences = Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                install_senses();
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(plan) = plans.get(at) else { return };
                    let found = difference(plan);
                    differences.lock().unwrap().extend(found);
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// docs/engines.md names each kept plan that turmoil has no means for.
#[test]
fn what_only_the_event_engine_runs_is_listed() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(top.join("docs/engines.md")).unwrap();
    let mut exceptions = 0;
    for path in seeds::list(&top.join("seeds")).unwrap() {
        let text = std::fs::read_to_string(&path).unwrap();
        let file = SeedFile::load(&path).unwrap();
        if text.contains("turmoil = \"not expressible") {
            let name = path.strip_prefix(top).unwrap().display().to_string();
            assert!(page.contains(&name), "{}: {name} is not listed", file.id);
            exceptions += 1;
        }
    }
    assert!(exceptions > 0);
}

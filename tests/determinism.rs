//! Is a run the same run when it is run again?

mod on_both_engines;

use std::sync::{Arc, Mutex};

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Fence, Plan, Seed, file};
use lockstorm_sim::storm::locks;
use lockstorm_sim::storm::{self, Run, Storm};

#[test]
fn twice_in_one_process_the_trace_is_the_same() {
    for seed in 0..30 {
        let plan = Plan::from_seed("redis-failover", "redis", Fence::Full, Seed(seed)).unwrap();
        let first = storm::run(&plan, &EventEngine);
        let second = storm::run(&plan, &EventEngine);
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

/// A run that was not made, for want of means, would equal itself, too. Builds without
/// `tokio_unstable` may lack them.
fn assert_was_made(run: &Run) {
    if cfg!(tokio_unstable) {
        assert_eq!(run.ending.stuck, None);
        assert!(run.history.iter().count() > 100, "{:?}", run.plan.seed);
    }
}

/// Their client's own tasks, maps and `select!`s are in it too.
#[test]
fn twice_in_one_process_the_trace_of_a_storm_of_zookeeper_is_the_same() {
    on_both_engines::install_senses();
    for seed in 0..8 {
        let plan = Plan::from_seed("zookeeper-three", "zookeeper", Fence::Full, Seed(seed));
        let plan = plan.unwrap();
        let first = storm::run(&plan, &EventEngine);
        let second = storm::run(&plan, &EventEngine);
        assert_was_made(&first);
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

#[test]
fn twice_with_statements_and_portals_in_use_the_trace_is_the_same() {
    // Sessions, rows and sales of PostgreSQL; the client numbers nothing across runs.
    let cases = [
        ("postgres-single", "pg-for-update"),
        ("postgres-failover", "pg-lock-table"),
        ("postgres-failover", "pg-optimistic"),
    ];
    for (scenario, lock) in cases {
        for seed in 0..6 {
            let plan = Plan::from_seed(scenario, lock, Fence::Off, Seed(seed)).unwrap();
            let first = storm::run(&plan, &EventEngine);
            let second = storm::run(&plan, &EventEngine);
            assert_was_made(&first);
            assert_eq!(first.history, second.history, "{scenario} {lock} {seed}");
            assert_eq!(first.trace_hash, second.trace_hash, "{scenario} {lock} {seed}");
        }
    }
}

#[test]
fn beside_other_storms_the_trace_is_the_same() {
    let plan = |seed| Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed)).unwrap();
    let alone: Vec<_> =
        (0..8).map(|seed| storm::run(&plan(seed), &EventEngine).trace_hash).collect();
    let beside: Vec<_> = std::thread::scope(|scope| {
        let runs = (0..8).map(|seed| scope.spawn(move || storm::run(&plan(seed), &EventEngine)));
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().unwrap().trace_hash).collect()
    });
    assert_eq!(alone, beside);
}

#[test]
fn under_turmoil_the_trace_is_the_same() {
    for seed in 0..2 {
        let plan = Plan::from_seed("redis-single", "redis", Fence::Off, Seed(seed)).unwrap();
        let plan = plan.with_set("duration", "4s").unwrap().without_faults();
        let first = storm::run(&plan, &Turmoil::default());
        let second = storm::run(&plan, &Turmoil::default());
        assert_eq!(first.history, second.history, "seed {seed}");
    }
}

/// The faults that no seed draws, each once.
const UNDRAWN: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x7"
duration = "6s"

[[fault]]
kind = "reset"
from = ["app-1", "app-2"]
to = "redis-1"
after = "app-1 acquire 3 applied"

[[fault]]
kind = "cancel"
node = "app-2"
operation = "acquire"
ordinal = 4
await = 2
delay = "300us"

[[fault]]
kind = "clock-slew"
node = "redis-1"
by = "+100ms"
rate = "10%"
at = "1s"

[[fault]]
kind = "clock-freeze"
node = "redis-1"
at = "1500ms"
for = "1s"

[[fault]]
kind = "hang"
node = "app-3"
at = "2s"
for = "700ms"

[[fault]]
kind = "disk-stall"
node = "redis-1"
at = "1s"
"#;

#[test]
fn faults_that_no_seed_draws_give_the_same_trace_twice_on_each_engine() {
    let plan = file::parse("the test's plan", UNDRAWN).unwrap();
    for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
        let (first, second) = (storm::run(&plan, engine), storm::run(&plan, engine));
        assert_eq!(first.judgement.goals.touched, [0, 1, 2, 3, 4], "{:#?}", first.judgement);
        assert_eq!(first.history, second.history, "{}", engine.name());
        assert_eq!(first.trace_hash, second.trace_hash, "{}", engine.name());
    }
}

#[test]
fn another_seed_is_another_run() {
    let storm = Storm::new("redis-single").without_faults();
    let hash = |seed| storm::run(&storm.plan_of(Seed(seed)).unwrap(), &EventEngine).trace_hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn what_a_lock_senses_as_it_is_made_is_the_plans() {
    let run = || {
        let sensed = Arc::new(Mutex::new(Vec::new()));
        let senses = sensed.clone();
        let factory = locks::made_by(move |host, plan| {
            let drawn = host.random("as it is made");
            let now = (host.monotonic(), host.wall());
            senses.lock().unwrap().push((host.name().to_owned(), drawn, now));
            locks::build(host, plan)
        });
        let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(3)).unwrap();
        storm::run_with(&plan, &EventEngine, &factory);
        sensed.lock().unwrap().clone()
    };
    let first = run();
    // Once to ask for its takeover bound, once on each client.
    assert!(first.len() >= 4, "{first:?}");
    assert_eq!(first, run());
}

//! Is a run the same run when it is run again?

use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm::{self, Storm};

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

#[test]
fn another_seed_is_another_run() {
    let storm = Storm::new("redis-single").without_faults();
    let hash = |seed| storm::run(&storm.plan_of(Seed(seed)).unwrap(), &EventEngine).trace_hash;
    assert_ne!(hash(1), hash(2));
}

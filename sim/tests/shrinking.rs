//! Does shrinking find the smallest plan that fails in the same way?

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_interpose::Senses;
use lockstorm_sim::bench::trial;
use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::plan::{Draws, Fence, Plan, Seed, file, scenario};
use lockstorm_sim::planted::{BUGS, Half};
use lockstorm_sim::shrink::{Limits, Shrunk, Signature, shrink};
use lockstorm_sim::storm;

/// Our own locks whose failures are shrunk here: scenario, lock, fence. Each seed draws for them
/// by turns as `run --seed` does and as a hunt does.
const STORMS: [(&str, &str, Fence); 12] = [
    ("redis-failover", "redis", Fence::Off),
    ("redis-single", "redis", Fence::Off),
    ("redis-failover", "redis", Fence::Write),
    ("redis-long-lease", "redis", Fence::Off),
    ("redis-failover", "none", Fence::Off),
    ("redis-single", "none", Fence::Off),
    ("redis-failover", "redis-fair", Fence::Off),
    ("redis-failover", "redis-reentrant", Fence::Off),
    ("redis-failover", "redis-watchdog", Fence::Off),
    ("redis-failover", "redis-wait", Fence::Off),
    ("redis-failover", "redis-sentinel", Fence::Full),
    ("redlock-five", "redlock", Fence::Off),
];

/// Those, and the storm of each planted bug.
fn quarries() -> Vec<Quarry> {
    let ours = STORMS.iter().enumerate().map(|(position, (scenario, lock, fence))| {
        let draws = if position % 2 == 0 { Draws::First } else { Draws::Wide };
        Quarry { draws, ..Quarry::new(scenario, lock, *fence) }
    });
    let planted = BUGS.iter().map(|bug| trial::quarry(bug, Half::Planted));
    ours.chain(planted).collect()
}

/// The plans of failing seeds, each storm in its turn; no more than `each` of a signature, and
/// no more than `kind` of those that are told by one kind of violation.
fn failing(wanted: usize, each: usize, kind: usize) -> Vec<(Plan, Signature)> {
    // The client of ZooKeeper reads the clocks of its node.
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    let mut of_signature: BTreeMap<Signature, usize> = BTreeMap::new();
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    let quarries = quarries();
    for seed in 0..1_000 {
        for quarry in &quarries {
            let plan = quarry.plan(Seed(seed)).unwrap();
            let Some(signature) = Signature::of(&storm::run(&plan, &EventEngine)) else { continue };
            let known = of_signature.entry(signature.clone()).or_default();
            let told = of_kind.entry(signature.kind).or_default();
            if *known < each && *told < kind {
                *known += 1;
                *told += 1;
                found.push((plan, signature));
            }
            if found.len() == wanted {
                return found;
            }
        }
    }
    panic!("only {} failing seeds: {of_kind:?}", found.len());
}

/// Runs the shrunk plan, and without each of its faults, in runs that know nothing of the
/// search.
fn hold(shrunk: &Shrunk, signature: &Signature) {
    let plan = shrunk.plan();
    let again = storm::run(plan, &EventEngine);
    assert_eq!(again.trace_hash, shrunk.run.trace_hash, "{plan:?}");
    assert_eq!(Signature::of(&again).as_ref(), Some(signature), "another bug: {plan:?}");
    assert!(shrunk.is_minimal(), "not proved: {:?}", shrunk.without);
    assert_eq!(shrunk.without.len(), plan.faults.len());
    for without in &shrunk.without {
        let mut less = plan.clone();
        less.faults.remove(without.fault);
        let run = storm::run(&less, &EventEngine);
        assert_ne!(Signature::of(&run).as_ref(), Some(signature), "{without:?} of {plan:?}");
        assert_eq!(Some(run.judgement.verdict), without.verdict);
    }
    if let Some(nearest) = &shrunk.nearest {
        let verdict = storm::run(&nearest.plan, &EventEngine).judgement.verdict;
        assert!(verdict == nearest.verdict && verdict.is_safe(), "{nearest:?}");
    }
    assert!(shrunk.replays <= Limits::default().replays, "{}", shrunk.replays);
}

/// Shrinks them and says how it went, a line each.
fn campaign(plans: Vec<(Plan, Signature)>) {
    let (mut faults, mut replays) = (Vec::new(), Vec::new());
    let (mut signatures, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (plan, signature) in plans {
        let shrunk = shrink(&plan, &Limits::default()).unwrap();
        hold(&shrunk, &signature);
        let small = shrunk.plan();
        println!(
            "{:16} {} {:2} → {} faults, {} → {} clients, {:>3} units, {:>6}, {:>3} replays  {signature}  [{}]",
            plan.scenario,
            plan.seed,
            plan.faults.len(),
            small.faults.len(),
            plan.topology.app_nodes().len(),
            small.topology.app_nodes().len(),
            small.workload.units,
            small.duration.to_string(),
            shrunk.replays,
            shrunk.nearest.as_ref().map_or("-", |nearest| nearest.change.as_str()),
        );
        faults.push(small.faults.len());
        replays.push(shrunk.replays);
        kinds.insert(signature.kind);
        signatures.insert(signature);
    }
    faults.sort_unstable();
    replays.sort_unstable();
    let middle = faults.len() / 2;
    println!(
        "{} plans of {} signatures and {} kinds ({}): median {} faults (most {}), median {} \
         replays (most {})",
        faults.len(),
        signatures.len(),
        kinds.len(),
        kinds.iter().copied().collect::<Vec<_>>().join(", "),
        faults[middle],
        faults[faults.len() - 1],
        replays[middle],
        replays[replays.len() - 1],
    );
    assert!(faults[middle] <= 3, "{faults:?}");
}

#[test]
fn failures_of_many_kinds_shrink_to_what_each_needs() {
    campaign(failing(6, 1, 2));
}

/// The whole campaign: `cargo test --release -p lockstorm-sim --test shrinking -- --ignored
/// --nocapture`.
#[test]
#[ignore = "takes a minute in a release build; the nightly runs it"]
fn fifty_failures_shrink_to_what_each_needs() {
    // Of ten at most of a kind there are five kinds at least.
    campaign(failing(50, 6, 10));
}

#[test]
fn the_limit_is_kept_and_the_best_so_far_stays() {
    let (plan, signature) = failing(1, 1, 1).remove(0);
    for replays in [1, 5, 20] {
        let shrunk = shrink(&plan, &Limits { replays }).unwrap();
        assert!(shrunk.replays <= replays);
        assert_eq!(shrunk.signature, signature);
        assert_eq!(
            Signature::of(&storm::run(shrunk.plan(), &EventEngine)),
            Some(signature.clone())
        );
    }
}

#[test]
fn a_plan_that_passes_is_not_shrunk() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(0)).unwrap();
    let error = shrink(&plan.without_faults(), &Limits::default()).unwrap_err();
    assert_eq!(error.verdict, Verdict::Safe);
}

/// When each event of a client was, until the storm is over: when a run ends then hangs on
/// everybody.
fn times(run: &storm::Run, client: &str) -> Vec<u64> {
    let own = run.history.iter().filter(|event| *event.node == *client);
    let own = own.filter(|event| event.at_us < run.plan.duration.0);
    own.map(|event| event.at_us).collect()
}

#[test]
fn a_client_that_is_taken_out_moves_no_others_draws() {
    // Without a lock nobody waits for anybody: all that is left of the others are draws.
    let settings = [("topology.apps", "4"), ("workload.units", "100000")];
    let plan = scenario::default_plan("redis-failover", "none", Fence::Off).unwrap();
    let plan = Plan { seed: Seed(7), ..plan.with_settings(&settings).unwrap() };
    let whole = storm::run(&plan, &EventEngine);
    for absent in ["app-1", "app-2", "app-3", "app-4"] {
        let less = plan.without_client(absent).unwrap();
        let run = storm::run(&less, &EventEngine);
        assert!(times(&run, absent).is_empty());
        for client in less.topology.app_nodes() {
            let (before, after) = (times(&whole, &client), times(&run, &client));
            assert!(before.len() > 100, "{client} did little: {}", before.len());
            assert_eq!(before, after, "{client} without {absent}");
        }
    }
}

#[test]
fn whoever_has_nothing_to_do_with_a_failure_goes_whatever_its_number() {
    // The last is the one that fails, so another goes.
    let text = r#"
schema = 1
scenario = "redis-single"
seed = "0x2"

[workload]
deadline-check = false

[[fault]]
kind = "pause"
node = "app-3"
after = "app-3 read 3 applied"
for = "5.03s"
"#;
    let plan = file::parse("the test's plan", text).unwrap();
    let shrunk = shrink(&plan, &Limits::default()).unwrap();
    assert_eq!(shrunk.plan().topology.app_nodes().len(), 2, "{:?}", shrunk.plan().topology);
    // The one that is struck was the last: it has another name where the gap was closed.
    let struck = file::inline_fault(&shrunk.plan().faults[0]);
    let (absent, is_last) = (&shrunk.plan().topology.absent, struck.contains("app-3"));
    assert_eq!(absent.is_empty(), !is_last, "{struck} {absent:?}");
    assert_eq!(shrunk.plan().faults.len(), 1);
}

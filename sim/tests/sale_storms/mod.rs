//! The whole sale in storms: does it sell exactly what there is, and what is each protection
//! worth? `SALE_SEEDS=1000` chooses another number of seeds for the campaigns.

mod connections;
mod protections;

use lockstorm_interpose::Senses;
use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Fault, FaultKind, Micros, Seed, When};
use lockstorm_sim::sale::campaign::{Campaign, Request};
use lockstorm_sim::sale::{Part, SaleStorm, Setup, shrunk};

/// Third-party clients in storms sense the nodes' clocks.
fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

fn seeds() -> u64 {
    std::env::var("SALE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

fn campaign(setup: Setup, seeds: u64, has_faults: bool) -> Campaign {
    install_senses();
    let request = Request { setup, first: Seed(0), seeds, has_faults, jobs: 2 };
    request.run(&EventEngine, || {})
}

#[test]
fn the_whole_sale_sells_exactly_what_there_is_whatever_strikes() {
    let campaign = campaign(Setup::default(), seeds(), true);
    assert_eq!(campaign.kinds().len(), 0, "{}", campaign.text());
    assert_eq!(campaign.exact(), seeds(), "{}", campaign.text());
    assert!(campaign.lines.iter().all(|line| line.unknown.is_none()), "{}", campaign.text());
    // It was a storm.
    let touched = campaign.touched();
    for family in
        ["process-crash", "machine-crash", "pause", "partition", "reset", "redis-failover"]
    {
        assert!(touched.get(family).is_some_and(|runs| *runs >= 3), "{family}: {touched:?}");
    }
    let safe = campaign.verdicts().get(&Verdict::Safe).copied().unwrap_or(0);
    assert!(safe * 10 >= seeds() * 9, "{}", campaign.text());
}

#[test]
fn the_naive_sale_oversells() {
    let in_storms = campaign(Setup::naive(), 30, true);
    assert!(in_storms.kinds()["oversell"] >= 10, "{}", in_storms.text());
    // Nothing has to go wrong for that.
    let rush = Setup { rush_per_second: 2_000, ..Setup::naive() };
    let calm = campaign(rush, 10, false);
    assert!(calm.kinds()["oversell"] >= 8, "{}", calm.text());
}

/// All of it on every engine that there is for users.
#[test]
fn the_sale_runs_under_turmoil() {
    install_senses();
    let small = |setup| Setup { units: 4, demand: 10, ..setup };
    let crash = FaultKind::ProcessCrash { node: "app-2".to_owned() };
    let crash = Fault {
        lasts: Some(Micros::from_millis(600)),
        ..Fault::new(crash, When::At(Micros::from_millis(1_080)))
    };
    let dies = FaultKind::MachineCrash { node: "redis-1".to_owned() };
    let dies = Fault {
        lasts: Some(Micros::from_millis(900)),
        ..Fault::new(dies, When::At(Micros::from_millis(1_150)))
    };
    for seed in 0..3 {
        let mut storm = SaleStorm::calm(small(Setup::default()), Seed(seed));
        storm.plan.faults = vec![crash.clone(), dies.clone()];
        let run = storm.run(&Turmoil::default());
        assert_eq!((run.judged.verdict, run.judged.sold), (Verdict::Safe, 4), "{:?}", run.judged);
    }
    let rush = Setup { rush_per_second: 2_000, ..small(Setup::naive()) };
    let run = SaleStorm::calm(rush, Seed(0)).run(&Turmoil::default());
    assert!(run.judged.kinds().contains("oversell"), "{:?}", run.judged);
}

#[test]
fn the_same_sale_is_the_same_run() {
    install_senses();
    for seed in [1, 5, 9] {
        let run = || SaleStorm::drawn(Setup::default(), Seed(seed)).run(&EventEngine);
        let (first, second) = (run(), run());
        assert_eq!(first.run.trace_hash, second.run.trace_hash, "{seed}");
        assert_eq!(first.facts.told(), second.facts.told(), "{seed}");
        assert_eq!(first.facts.funnel.all(), second.facts.funnel.all(), "{seed}");
    }
}

#[test]
fn a_failing_sale_keeps_the_faults_that_it_needs() {
    install_senses();
    let campaign = campaign(Setup::without(&[Part::Confirmation]), 30, true);
    let failing = campaign.lines.iter().find(|line| line.verdict == Verdict::Violation).unwrap();
    let run = campaign.request.storm(failing.seed).run(&EventEngine);
    let small = shrunk(&run, &EventEngine);
    assert_eq!(small.judged.kinds(), run.judged.kinds());
    let faults = &small.storm.plan.faults;
    assert!(!faults.is_empty() && faults.len() < run.storm.plan.faults.len(), "{faults:?}");
    for left_out in 0..faults.len() {
        let mut storm = small.storm.clone();
        storm.plan.faults.remove(left_out);
        assert_ne!(storm.run(&EventEngine).judged.kinds(), run.judged.kinds(), "{left_out}");
    }
}

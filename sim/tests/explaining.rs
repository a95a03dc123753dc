//! Is what an explanation says so?

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::explain::cliff::{Rest, Settled};
use lockstorm_sim::explain::{Effort, Unexplained, Watch, explain, explain_watched};
use lockstorm_sim::history::{Event, EventId, What};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::report::explained;
use lockstorm_sim::report::manner::{Charset, Manner};
use lockstorm_sim::seeds::SeedFile;
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::{self, Reseed, Run, run_reseeded};

fn lesson() -> Plan {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/lesson/replication-lag.toml");
    SeedFile::load(Path::new(path)).unwrap().plan
}

fn other(run: &Run, after: EventId, seed: u64, calm: bool) -> Run {
    let factory: LockFactory = Arc::new(locks::build);
    run_reseeded(&run.plan, &EventEngine, &factory, Reseed { after, seed, calm })
}

#[test]
fn the_past_stays_and_the_future_is_another() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
    let run = storm::run(&plan, &EventEngine);
    for share in [4, 2] {
        let after = EventId(run.history.events.len() as u64 / share);
        let past = after.0 as usize + 1;
        let (one, two) = (other(&run, after, 1, false), other(&run, after, 2, false));
        for reseeded in [&one, &two] {
            assert_eq!(reseeded.history.events[..past], run.history.events[..past]);
            assert_ne!(reseeded.trace_hash, run.trace_hash);
        }
        assert_ne!(one.trace_hash, two.trace_hash);
        assert_eq!(other(&run, after, 1, false).trace_hash, one.trace_hash, "it repeats");
    }
}

#[test]
fn in_calm_weather_no_fault_begins_after_the_event() {
    let run = storm::run(&lesson(), &EventEngine);
    let began = |event: &&Event| matches!(event.what, What::FaultBegan { .. });
    let first = run.history.iter().find(began).unwrap().id;
    let calm = other(&run, first, 1, true);
    assert_eq!(calm.history.iter().filter(began).count(), 1);
    assert!(other(&run, first, 1, false).history.iter().filter(began).count() > 1);
}

#[test]
fn an_explanation_reads_well_and_its_numbers_come_back() {
    let effort = Effort { draws: 4, replays: 100 };
    let explanation = explain(&lesson(), &effort).unwrap();
    let manner = Manner::of(Charset::Unicode);
    insta::assert_snapshot!(explained::explained(&explanation, &manner));
    let ascii = explained::explained(&explanation, &Manner::of(Charset::Ascii).within(60));
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(ascii.lines().all(|line| line.len() <= 100), "{ascii}");
    // The nearest plan passes, its neighbour fails, and the pair is in their runs.
    let nearest = explanation.nearest.unwrap();
    let (fails, passes) =
        (storm::run(&nearest.failing, &EventEngine), storm::run(&nearest.plan, &EventEngine));
    assert_eq!(fails.judgement.verdict, Verdict::Violation);
    assert!(passes.judgement.verdict.is_safe());
    let pair = explanation.pair.unwrap();
    assert_eq!(fails.history.get(pair.failing.event).unwrap().at_us, pair.failing.at_us);
    assert_eq!(passes.history.get(pair.passing.event).unwrap().at_us, pair.passing.at_us);
    // What fails as it is, in every draw, is settled in the end.
    let last = explanation.cliff.points.last().unwrap();
    assert_eq!((last.stormy, last.calm), (4, 4));
    let fenced = explanation.measures.iter().find(|measure| measure.flags == "--fence full");
    assert_eq!(fenced.unwrap().violations, 0);
}

/// Of two draws nothing can be told, whatever they show.
#[test]
fn what_may_be_chance_decides_nothing() {
    let explanation = explain(&lesson(), &Effort { draws: 2, replays: 1 }).unwrap();
    let Settled::NotDecided(steepest) = &explanation.cliff.settled else {
        panic!("{:?}", explanation.cliff.settled)
    };
    assert!(steepest.before < steepest.after, "{steepest:?}");
    let least = steepest.least_draws(2).unwrap();
    let told = explained::explained(&explanation, &Manner::of(Charset::Unicode));
    let told = told.lines().skip_while(|line| !line.starts_with("  Not decided"));
    insta::assert_snapshot!(
        told.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    );
    let json: serde_json::Value =
        serde_json::from_str(&explained::explained_json(&explanation, "")).unwrap();
    assert_eq!(json["decisive"], serde_json::Value::Null);
    assert_eq!(json["not-decided"]["draws-needed-at-least"], least);
    assert_eq!(json["not-decided"]["drawn-anew"], false);
    // The shares of its two steps are those of the cliff.
    let step = |step: Option<usize>| {
        let points = &explanation.cliff.points;
        points.iter().find(|point| point.step == step).unwrap().stormy
    };
    assert_eq!(
        [step(steepest.from_step), step(steepest.to.step)],
        [steepest.before, steepest.after]
    );
    // None of four before it and four of four from it on, by draws of their own: where the two
    // shares are equal that is seen in at most one of 256.
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
    let explanation = explain(&plan, &Effort { draws: 4, replays: 1 }).unwrap();
    let decisive = explanation.cliff.settled.decisive();
    let decisive = decisive.map(|decisive| (decisive.before, decisive.after, decisive.rest));
    assert_eq!(decisive, Some((0, 4, Rest::Calm)));
}

/// Whoever waits is told of each run that is made, and of as many as were announced.
#[test]
fn an_explanation_says_how_far_it_is() {
    #[derive(Default)]
    struct Count {
        expected: AtomicU64,
        done: AtomicU64,
    }
    impl Watch for Count {
        fn expect(&self, runs: u64) {
            self.expected.fetch_add(runs, Ordering::Relaxed);
        }
        fn done(&self) {
            self.done.fetch_add(1, Ordering::Relaxed);
            assert!(self.done.load(Ordering::Relaxed) <= self.expected.load(Ordering::Relaxed));
        }
    }
    let count = Count::default();
    explain_watched(&lesson(), &Effort { draws: 2, replays: 1 }, &count).unwrap();
    let [expected, done] = [count.expected, count.done].map(AtomicU64::into_inner);
    assert!(done > 50, "{done}");
    assert_eq!(done, expected);
}

#[test]
fn what_passes_is_not_explained() {
    let calm = lesson().without_faults();
    let verdict = storm::run(&calm, &EventEngine).judgement.verdict;
    let error = explain(&calm, &Effort { draws: 1, replays: 1 }).unwrap_err();
    assert_eq!(error, Unexplained::NoViolation(verdict));
}

/// What a client does, and when: with the lock `none` nobody waits for anybody, so all of
/// it comes from its own draws, and from those of its links.
fn of_client(run: &Run, client: &str) -> Vec<(u64, String)> {
    let own = run.history.iter().filter(|event| &*event.node == client);
    let told = own.filter_map(|event| match &event.what {
        What::AcquireInvoked { attempt, .. } => Some((event.at_us, format!("asks {attempt}"))),
        What::AcquireReturned { attempt, .. } => Some((event.at_us, format!("has {attempt}"))),
        What::ReleaseInvoked { attempt } => Some((event.at_us, format!("frees {attempt}"))),
        What::ReleaseReturned { attempt, .. } => Some((event.at_us, format!("freed {attempt}"))),
        _ => None,
    });
    // In the end clients stop when others let them.
    told.filter(|(at_us, _)| *at_us < run.plan.duration.0).collect()
}

#[test]
fn a_client_that_is_taken_out_moves_no_draw_of_the_others() {
    for seed in 0..5 {
        let plan = Plan::from_seed("redis-failover", "none", Fence::Off, Seed(seed)).unwrap();
        let plan = plan.without_faults().with_set("topology.apps", "5").unwrap();
        let all = storm::run(&plan, &EventEngine);
        let fewer = storm::run(&plan.with_set("topology.apps", "4").unwrap(), &EventEngine);
        for client in ["app-1", "app-2", "app-3", "app-4"] {
            let did = of_client(&all, client);
            assert!(did.len() > 50, "{}", did.len());
            assert_eq!(did, of_client(&fewer, client), "seed {seed}");
        }
        assert!(of_client(&fewer, "app-5").is_empty());
    }
}

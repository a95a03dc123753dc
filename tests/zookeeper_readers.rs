//! Do readers of a read/write lock on ZooKeeper hold it together and writers alone, and what
//! does a reader see that slept?

mod on_both_engines;

use std::collections::BTreeMap;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::{AcquireOutcome, What};
use lockstorm_sim::plan::{Fence, Plan, Seed, file};
use lockstorm_sim::storm::{self, Run};

use on_both_engines::{assert_withstood, each, install_senses, is_struck, told};

/// Two clients read, the first one writes; none looks at its deadline.
const CARELESS: &str = r#"
schema = 1
scenario = "zookeeper-three"
seed = "0x1"

[lock]
name = "zookeeper-read"

[workload]
slow-per-mille = 0
deadline-check = false
"#;

/// A reader that stands still between its two readings, for longer than its session lasts.
const PAUSE: &str = r#"
[[fault]]
kind = "pause"
node = "app-2"
after = "app-2 read 3 applied"
for = "4s"
"#;

/// From when to when each client held the lock, by the events' positions.
fn held(run: &Run) -> Vec<(String, usize, usize)> {
    let (mut open, mut held) = (BTreeMap::new(), Vec::new());
    for (at, event) in run.history.iter().enumerate() {
        match &event.what {
            What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
                open.insert(attempt.clone(), at);
            }
            What::ReleaseInvoked { attempt } => {
                let from = open.remove(attempt).unwrap();
                held.push((attempt.client.to_string(), from, at));
            }
            _ => {}
        }
    }
    held
}

/// How often two of these clients held the lock at once.
fn together(held: &[(String, usize, usize)], one: &str, other: &str) -> usize {
    let of = |client: &str| held.iter().filter(move |(who, ..)| who == client).collect::<Vec<_>>();
    let others = of(other);
    let overlap = |a: &(String, usize, usize)| others.iter().any(|b| a.1 < b.2 && b.1 < a.2);
    of(one).into_iter().filter(|a| overlap(a)).count()
}

#[test]
fn in_calm_weather_readers_hold_together_and_the_writer_alone() {
    install_senses();
    each(CARELESS, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        let held = held(run);
        assert!(together(&held, "app-2", "app-3") > 10, "{}", told(run));
        assert_eq!(together(&held, "app-1", "app-2"), 0);
        assert_eq!(together(&held, "app-1", "app-3"), 0);
        let writes = held.iter().filter(|(who, ..)| who == "app-1").count();
        assert!(writes > 10, "nobody starves: {writes} writes");
    });
}

#[test]
fn a_reader_that_slept_past_its_session_sees_a_sale_between_its_readings() {
    install_senses();
    each(&format!("{CARELESS}{PAUSE}"), |run| {
        assert!(is_struck(run), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
        assert!(run.judgement.found(Kind::Overstay), "{}", told(run));
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
        // Readers do not stand in each other's way, asleep or not.
        let parties = run.judgement.violations().flat_map(|finding| &finding.parties);
        let owners: Vec<&str> = parties.map(|party| party.owner.as_str()).collect();
        assert!(owners.iter().any(|owner| owner.starts_with("app-1/")), "{owners:?}");
        assert!(owners.iter().all(|owner| !owner.starts_with("app-3/")), "{owners:?}");
    });
}

#[test]
fn the_fence_turns_away_the_reader_that_slept_and_no_other() {
    install_senses();
    let fenced = CARELESS.replace("seed =", "fence = \"full\"\nseed =");
    each(&format!("{fenced}{PAUSE}"), |run| {
        assert_withstood(run);
        assert!(run.judgement.found(Kind::Overstay), "{}", told(run));
        assert!(!run.judgement.found(Kind::FalseReject), "{}", told(run));
        let refused = run.history.iter().filter_map(|event| match &event.what {
            What::Effect { owner, accepted: false, .. } => Some(&**owner),
            _ => None,
        });
        assert_eq!(refused.collect::<Vec<_>>(), ["app-2/3"]);
    });
}

#[test]
fn drawn_storms_keep_readers_and_writers_apart() {
    install_senses();
    for seed in 0..20 {
        let plan = Plan::from_seed("zookeeper-three", "zookeeper-read", Fence::Full, Seed(seed));
        let run = storm::run(&plan.unwrap(), &EventEngine);
        assert_eq!(run.ending.stuck, None, "seed {seed}");
        assert_eq!(run.judgement.violations().count(), 0, "seed {seed}: {}", told(&run));
        assert!(!run.judgement.found(Kind::DoubleGrant), "seed {seed}: {}", told(&run));
    }
}

#[test]
fn who_reads_is_a_number_and_some_numbers_cannot_be() {
    let plan = |text: &str| file::parse("plan.toml", text).map(|plan| plan.workload.readers);
    let with =
        |readers: &str| CARELESS.replace("slow-per", &format!("readers = {readers}\nslow-per"));
    assert_eq!((plan(CARELESS).unwrap(), plan(&with("1")).unwrap()), (2, 1));
    let wrong = |text: &str| plan(text).unwrap_err().to_string();
    insta::assert_snapshot!(wrong(&with("3")), @"plan.toml:10:11: 3 of 3 clients read: somebody must read, and somebody write; have 1 to 2 of them read: --set workload.readers=2, or readers = 2 in [workload]");
    insta::assert_snapshot!(wrong(&with("0")), @"plan.toml:10:11: 0 of 3 clients read: somebody must read, and somebody write; have 1 to 2 of them read: --set workload.readers=2, or readers = 2 in [workload]");
    insta::assert_snapshot!(wrong(&with("1").replace("zookeeper-read", "zookeeper")), @r#"plan.toml:10:11: the lock "zookeeper" has no side for readers, and readers is 1; leave them out, or take the lock "zookeeper-read""#);
    let alone = CARELESS.replace("[workload]", "[topology]\napps = 1\n\n[workload]");
    insta::assert_snapshot!(wrong(&alone), @r#"plan.toml:10:8: the lock "zookeeper-read" is for readers beside writers, and there is one client; write apps = 2 or more"#);
}

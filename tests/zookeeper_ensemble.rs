//! Three ZooKeeper servers lose their leader, a follower, each other, their disks' speed: is
//! a grant ever lost, or promised twice, and does it go on?

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::What;
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::report::block;
use lockstorm_sim::storm::{self, Run};

use on_both_engines::{assert_withstood, each, grants, install_senses, is_struck, plan, told};

/// Clients whose work is short and who look at their deadline. The server with the largest
/// number leads at first.
const BASE: &str = r#"
schema = 1
scenario = "zookeeper-three"
seed = "0x1"

[lock]
name = "zookeeper"

[workload]
slow-per-mille = 0
"#;

fn with(faults: &str) -> String {
    format!("{BASE}{faults}")
}

/// A fault at the moment at which app-1's third acquire was applied.
fn fault(kind: &str, rest: &str) -> String {
    format!("\n[[fault]]\nkind = \"{kind}\"\nafter = \"app-1 acquire 3 applied\"\n{rest}\n")
}

fn never_two_promises(run: &Run) {
    for kind in [Kind::DoubleGrant, Kind::GrantLost, Kind::BroadcastBroken, Kind::TokenRegression] {
        assert!(!run.judgement.found(kind), "{}: {}", kind.id(), told(run));
    }
}

/// How often, and who: the leaders, one after another.
fn leaders(run: &Run) -> Vec<String> {
    let leaders = run.history.iter().filter(|event| matches!(event.what, What::Leading { .. }));
    leaders.map(|event| event.node.to_string()).collect()
}

fn ends_of_sessions(run: &Run) -> usize {
    run.history.iter().filter(|e| matches!(e.what, What::SessionExpired { .. })).count()
}

/// Withstood, and the last second of the storm had grants as the first had.
fn goes_on(run: &Run) {
    assert_withstood(run);
    never_two_promises(run);
    let last = grants(run).last().map_or(0, |(at_us, _)| *at_us);
    assert!(last + 1_000_000 > run.plan.duration.0, "{}: the last grant at {last} µs", told(run));
}

#[test]
fn in_calm_weather_it_is_safe_and_the_largest_leads() {
    install_senses();
    for lock in [
        "zookeeper",
        "zookeeper-reentrant",
        "zookeeper-read",
        "zookeeper-write",
        "zookeeper-election",
    ] {
        each(&BASE.replace("\"zookeeper\"", &format!("\"{lock}\"")), |run| {
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
            assert_eq!(leaders(run), ["zk-3"]);
            assert_eq!(ends_of_sessions(run), 0);
        });
    }
}

#[test]
fn another_leader_has_every_grant() {
    install_senses();
    for kind in ["process-crash", "machine-crash"] {
        let dies = fault(kind, "node = \"zk-3\"\nfor = \"5s\"");
        each(&with(&dies), |run| {
            goes_on(run);
            assert_eq!(leaders(run).len(), 2, "{:?}", leaders(run));
        });
    }
}

#[test]
fn writes_go_on_about_a_second_after_a_leader_was_seen_to_die() {
    install_senses();
    each(&with(&fault("process-crash", "node = \"zk-3\"")), |run| {
        let died = run.history.iter().find(|e| matches!(e.what, What::NodeCrashed { .. }));
        let died_us = died.unwrap().at_us;
        let next = run.history.iter().find(|event| {
            matches!(event.what, What::RecordReleased { .. }) && event.at_us > died_us
        });
        let took_ms = (next.unwrap().at_us - died_us) / 1_000;
        assert!((200..=1_500).contains(&took_ms), "{}: {took_ms} ms", run.engine);
    });
}

#[test]
fn a_minority_that_is_cut_off_takes_nothing_along() {
    install_senses();
    for alone in ["zk-3", "zk-1"] {
        let others: Vec<String> =
            (1..=3).map(|n| format!("zk-{n}")).filter(|node| node != alone).collect();
        let rest = format!("from = [\"{alone}\"]\nto = {others:?}\nfor = \"6s\"");
        each(&with(&fault("partition", &rest)), goes_on);
    }
}

#[test]
fn a_holder_with_the_old_leader_stops_before_the_next_is_let_in() {
    install_senses();
    let slow = BASE.replace("slow-per-mille = 0", "slow-per-mille = 0\nwork = \"700ms\"");
    let cut = fault(
        "partition",
        "from = [\"zk-3\", \"app-1\"]\nto = [\"zk-1\", \"zk-2\", \"app-2\", \"app-3\"]\n\
         for = \"8s\"",
    );
    each(&format!("{slow}{cut}"), |run| {
        assert_withstood(run);
        never_two_promises(run);
    });
}

#[test]
fn without_a_quorum_nobody_is_granted_and_afterwards_it_goes_on() {
    install_senses();
    for kind in ["process-crash", "machine-crash"] {
        let two = ["zk-2", "zk-3"]
            .map(|node| fault(kind, &format!("node = \"{node}\"\nfor = \"3s\"")))
            .concat();
        each(&with(&two), |run| {
            goes_on(run);
            let crash = run.history.iter().find(|e| matches!(e.what, What::NodeCrashed { .. }));
            let died_us = crash.unwrap().at_us;
            let set = run.history.iter().filter(|event| {
                matches!(event.what, What::RecordSet { .. })
                    && (died_us + 1_000..died_us + 3_000_000).contains(&event.at_us)
            });
            assert_eq!(set.count(), 0, "{}", told(run));
        });
    }
}

#[test]
fn whoever_came_first_is_served_first_whoever_leads() {
    install_senses();
    // Somebody always waits.
    let crowded = BASE.replace("slow-per-mille = 0", "slow-per-mille = 0\nthink = \"10ms\"");
    let dies = fault("process-crash", "node = \"zk-3\"\nfor = \"5s\"");
    each(&format!("{crowded}{dies}"), |run| {
        goes_on(run);
        let arrived = |what: &What| match what {
            What::WaitBegan { owner, .. } => Some(owner.clone()),
            _ => None,
        };
        let waited: Vec<_> = run.history.iter().filter_map(|e| arrived(&e.what)).collect();
        let let_in = run.history.iter().filter_map(|event| match &event.what {
            What::RecordSet { owner, .. } if waited.contains(owner) => Some(owner.clone()),
            _ => None,
        });
        let let_in: Vec<_> = let_in.collect();
        assert!(waited.len() > 50, "{} waited", waited.len());
        let never = waited.iter().filter(|owner| !let_in.contains(owner));
        let gone: Vec<_> = never.cloned().collect();
        let in_order = waited.iter().filter(|owner| !gone.contains(owner));
        assert_eq!(let_in, in_order.cloned().collect::<Vec<_>>(), "{}", told(run));
        assert_eq!(run.judgement.numbers.most_bypasses, 0);
    });
}

#[test]
fn a_place_whose_creation_was_not_answered_is_found_again() {
    install_senses();
    // The lock is free whenever somebody asks: created is held.
    let calm =
        BASE.replace("slow-per-mille = 0", "slow-per-mille = 0\nthink = \"900ms\"\nwork = \"5ms\"");
    let to = "from = [\"app-1\"]\nto = [\"zk-1\", \"zk-2\", \"zk-3\"]";
    each(&format!("{calm}{}", fault("reset", to)), |run| {
        goes_on(run);
        let of_it = |is: fn(&What) -> Option<&str>| {
            run.history.iter().filter(|e| is(&e.what) == Some("app-1/3")).count()
        };
        let waits = of_it(|what| match what {
            What::WaitBegan { owner, .. } => Some(owner),
            _ => None,
        });
        let sets = of_it(|what| match what {
            What::RecordSet { owner, .. } => Some(owner),
            _ => None,
        });
        assert_eq!((waits, sets), (0, 1), "{}", told(run));
        assert!(grants(run).iter().any(|(_, who)| who == "app-1/3"), "{}", told(run));
        assert_eq!(ends_of_sessions(run), 0, "{}", told(run));
    });
}

#[test]
fn a_slow_disk_delays_and_a_stalled_one_is_left_behind() {
    install_senses();
    each(&with(&fault("disk-slow", "node = \"zk-3\"\nextra = \"80ms\"\nfor = \"6s\"")), goes_on);
    each(&with(&fault("disk-stall", "node = \"zk-1\"\nfor = \"6s\"")), goes_on);
    each(&with(&fault("disk-stall", "node = \"zk-3\"\nfor = \"6s\"")), goes_on);
}

#[test]
fn a_wall_clock_that_steps_does_not_matter() {
    install_senses();
    for node in ["zk-3", "zk-1", "app-1"] {
        for by in ["1h", "-1h"] {
            let step = fault("clock-step", &format!("node = \"{node}\"\nby = \"{by}\""));
            each(&with(&step), |run| {
                never_two_promises(run);
                assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
                assert_eq!(ends_of_sessions(run), 0, "{}", told(run));
            });
        }
    }
}

/// The shortest pause of a holder, ms in steps of 50, that costs it its session.
fn shortest_pause_that_ends_it(clock: &str) -> Option<u64> {
    (1_500..3_000).step_by(50).find(|ms| {
        let pause = format!("node = \"app-1\"\nfor = \"{ms}ms\"");
        let text = format!("{}{clock}", with(&fault("pause", &pause)));
        let run = storm::run(&plan(&text), &EventEngine);
        assert!(is_struck(&run), "{}", told(&run));
        never_two_promises(&run);
        ends_of_sessions(&run) > 0
    })
}

#[test]
fn a_leader_whose_clock_runs_fast_ends_sessions_early() {
    install_senses();
    let clock = |rate: &str| format!("\n[[clock]]\nnode = \"zk-3\"\nrate = \"{rate}\"\n");
    let is_true = shortest_pause_that_ends_it("").unwrap();
    let fast = shortest_pause_that_ends_it(&clock("+30%")).unwrap();
    // What it may not have heard of yet is less than half a tick.
    assert!((2_000..=2_800).contains(&is_true), "{is_true} ms");
    assert!(fast < is_true, "{fast} ms, and {is_true} ms by a true clock");
    // What clocks are allowed to be off must not matter to a careful holder.
    let slightly =
        format!("{}{}", with(&fault("pause", "node = \"app-1\"\nfor = \"4s\"")), clock("+5%"));
    each(&slightly, |run| {
        assert_withstood(run);
        never_two_promises(run);
    });
}

#[test]
fn drawn_storms_break_no_promise_and_a_full_fence_keeps_the_stock() {
    install_senses();
    let mut ended = 0;
    for seed in 0..40 {
        for fence in [Fence::Off, Fence::Full] {
            let plan = Plan::from_seed("zookeeper-three", "zookeeper", fence, Seed(seed)).unwrap();
            let run = storm::run(&plan, &EventEngine);
            assert_eq!(run.ending.stuck, None, "seed {seed}");
            never_two_promises(&run);
            ended += ends_of_sessions(&run);
            if fence == Fence::Full {
                assert_eq!(run.judgement.violations().count(), 0, "seed {seed}: {}", told(&run));
            }
        }
    }
    assert!(ended > 10, "{ended} sessions ended in all these storms");
}

/// A server that cannot write ends, as a real one does; nobody waits for it in silence.
#[test]
fn servers_that_cannot_write_are_told_to_have_ended() {
    install_senses();
    let faults = ["zk-1", "zk-2", "zk-3"].map(|node| {
        format!("[[fault]]\nkind = \"disk-error\"\nnode = \"{node}\"\nat = \"100ms\"\n\n")
    });
    each(&with(&format!("\n{}", faults.concat())), |run| {
        let ended = run.history.iter().filter_map(|event| match &event.what {
            What::ProgramEnded { how } => Some((event.node.to_string(), how.clone())),
            _ => None,
        });
        let ended: Vec<(String, String)> = ended.collect();
        // Two of three: the last has nobody left to write anything with.
        assert!(ended.len() >= 2, "{ended:?}");
        assert_eq!(run.judgement.verdict, Verdict::Unknown, "{}", told(run));
        let block = block::failure_block(&block::Failure {
            run,
            position: None,
            repetition: None,
            confirmation: None,
            reproduce: "",
        });
        let said = block.split_whitespace().collect::<Vec<_>>().join(" ");
        for (node, how) in &ended {
            assert!(said.contains(&format!("{node} ended by itself after")), "{block}");
            assert!(said.contains(how.as_str()), "{block}");
        }
        let mend = "a program that ends by itself stays so until a crash of its node, or the \
                    failure of its disk, is over";
        assert_eq!(said.matches(mend).count(), 1, "{block}");
    });
}

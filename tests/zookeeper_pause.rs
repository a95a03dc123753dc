//! Does a session of ZooKeeper end while its holder stands still, and what comes of it: two
//! inside without a fence, none with it, and never two promises?

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::What;
use lockstorm_sim::storm::Run;

use on_both_engines::{assert_withstood, each, grants, install_senses, is_struck, told};

/// Clients whose work is short, and who do not look at their deadline.
const CARELESS: &str = r#"
schema = 1
scenario = "zookeeper-single"
seed = "0x1"

[lock]
name = "zookeeper"

[workload]
slow-per-mille = 0
deadline-check = false
"#;

/// A holder that stands still while it works, for longer than its session lasts.
const PAUSE: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "4s"
"#;

/// The same for less than that.
const BRIEF_PAUSE: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "1500ms"
"#;

/// The sessions that ended with a lock: when, µs, and whose.
fn ends(run: &Run) -> Vec<(u64, String)> {
    let ends = run.history.iter().filter_map(|event| match &event.what {
        What::SessionExpired { records, .. } => {
            records.first().map(|(_, owner)| (event.at_us, owner.to_string()))
        }
        _ => None,
    });
    ends.collect()
}

fn never_two_promises(run: &Run) {
    assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
    assert!(!run.judgement.found(Kind::GrantLost), "{}", told(run));
    assert!(!run.judgement.found(Kind::BroadcastBroken), "{}", told(run));
}

#[test]
fn in_calm_weather_it_is_safe_and_fair() {
    install_senses();
    for lock in [
        "zookeeper",
        "zookeeper-reentrant",
        "zookeeper-read",
        "zookeeper-write",
        "zookeeper-election",
    ] {
        let calm = CARELESS.replace("\"zookeeper\"", &format!("\"{lock}\""));
        each(&calm, |run| {
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
            assert!(grants(run).len() > 50, "{}", told(run));
            assert_eq!(ends(run), []);
        });
    }
}

#[test]
fn a_pause_longer_than_the_session_lets_a_second_one_in() {
    install_senses();
    each(&format!("{CARELESS}{PAUSE}"), |run| {
        assert!(is_struck(run), "{}", told(run));
        never_two_promises(run);
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
        assert!(run.judgement.found(Kind::Overstay), "{}", told(run));
        assert_eq!(ends(run).len(), 1, "{:?}", ends(run));
    });
}

#[test]
fn the_fence_keeps_the_one_that_was_asleep_out() {
    install_senses();
    let fenced = CARELESS.replace("seed =", "fence = \"full\"\nseed =");
    each(&format!("{fenced}{PAUSE}"), |run| {
        assert_withstood(run);
        never_two_promises(run);
        assert!(run.judgement.found(Kind::Overstay), "{}", told(run));
        assert!(!run.judgement.found(Kind::EffectInterleaved), "{}", told(run));
        assert!(!run.judgement.found(Kind::TokenRegression), "{}", told(run));
    });
}

#[test]
fn a_holder_that_looks_is_told_and_does_not_sell() {
    install_senses();
    let careful = CARELESS.replace("deadline-check = false", "deadline-check = true");
    each(&format!("{careful}{PAUSE}"), |run| {
        assert_withstood(run);
        never_two_promises(run);
    });
}

#[test]
fn a_pause_shorter_than_the_session_is_nothing() {
    install_senses();
    each(&format!("{CARELESS}{BRIEF_PAUSE}"), |run| {
        assert_withstood(run);
        assert_eq!(ends(run), []);
    });
}

#[test]
fn a_session_ends_within_its_timeout_and_one_and_a_half_ticks() {
    install_senses();
    // Dead at once: nothing is heard of it any more.
    let crash = "\n[[fault]]\nkind = \"machine-crash\"\nnode = \"app-1\"\n\
                 after = \"app-1 read 3 applied\"\n";
    each(&format!("{CARELESS}{crash}"), |run| {
        assert_withstood(run);
        let died = run.history.iter().find(|e| matches!(e.what, What::NodeCrashed { .. }));
        let (died_us, ends) = (died.unwrap().at_us, ends(run));
        let [(ended_us, _)] = ends[..] else { panic!("{ends:?}") };
        let took_ms = (ended_us - died_us) / 1_000;
        // Last heard of up to a heartbeat (167 ms) before it died.
        assert!((1_833..=2_760).contains(&took_ms), "{}: {took_ms} ms", run.engine);
    });
}

#[test]
fn a_step_of_a_wall_clock_ends_nothing() {
    install_senses();
    for (node, by) in [("zk-1", "1h"), ("zk-1", "-1h"), ("app-1", "1h")] {
        let step = format!(
            "\n[[fault]]\nkind = \"clock-step\"\nnode = \"{node}\"\nby = \"{by}\"\n\
             after = \"app-1 read 3 applied\"\n"
        );
        each(&format!("{CARELESS}{step}"), |run| {
            never_two_promises(run);
            assert_eq!(ends(run), [], "{}", told(run));
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
        });
    }
}

#[test]
fn a_server_that_restarts_from_its_disk_keeps_the_holder() {
    install_senses();
    for kind in ["process-crash", "machine-crash"] {
        let crash = format!(
            "\n[[fault]]\nkind = \"{kind}\"\nnode = \"zk-1\"\n\
             after = \"app-1 acquire 3 returned\"\nfor = \"700ms\"\n"
        );
        each(&format!("{CARELESS}{crash}"), |run| {
            assert_withstood(run);
            never_two_promises(run);
            assert_eq!(ends(run), [], "{}", told(run));
        });
    }
}

#[test]
fn a_lost_reply_leaves_no_second_place() {
    install_senses();
    // Reset exactly when it is applied: the reply is on its way.
    for phase in ["acquire 3 applied", "release 3 applied"] {
        let reset = format!(
            "\n[[fault]]\nkind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"zk-1\"]\n\
             after = \"app-1 {phase}\"\n"
        );
        each(&format!("{CARELESS}{reset}"), |run| {
            assert_withstood(run);
            never_two_promises(run);
            let places = run.history.iter().filter(|event| match &event.what {
                What::RecordSet { owner, .. } => **owner == *"app-1/3",
                _ => false,
            });
            assert_eq!(places.count(), 1, "{}", told(run));
        });
    }
}

/// Two clients that take two locks, each in its own order, and wait for long.
const OPPOSITE: &str = r#"
schema = 1
scenario = "zookeeper-single"
seed = "0x1"

[lock]
name = "zookeeper"

[topology]
apps = 2

[workload]
slow-per-mille = 0
locks = 2
patience = "60s"
"#;

#[test]
fn two_locks_in_opposite_order_wait_for_each_other_for_ever() {
    install_senses();
    each(OPPOSITE, |run| {
        assert!(run.judgement.has_violation(Kind::Deadlock), "{}", told(run));
        never_two_promises(run);
        assert_eq!(ends(run), [], "both sessions live");
    });
    // Leases end by themselves, and with them the circle.
    let leases = OPPOSITE.replace("zookeeper-single", "redis-single");
    let leases = leases.replace("\"zookeeper\"", "\"redis\"");
    each(&leases, |run| {
        assert!(!run.judgement.found(Kind::Deadlock), "{}", told(run));
    });
}

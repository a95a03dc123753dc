//! What becomes of a lock on PostgreSQL when its holder dies, falls silent or stands still,
//! when its server restarts, or when clocks are wrong?

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::What;
use lockstorm_sim::storm::Run;

use on_both_engines::{assert_withstood, each, grants, is_struck, told};

/// One server; work that is short.
const BRIEF: &str = r#"
schema = 1
scenario = "postgres-single"
seed = "0x1"
duration = "6s"

[lock]
name = "pg-for-update"

[workload]
slow-per-mille = 0
"#;

/// The locks that a session holds, or a transaction in it.
const OF_SESSIONS: [&str; 4] = ["pg-for-update", "pg-nowait", "pg-advisory", "pg-advisory-xact"];

/// The locks that are rows.
const OF_ROWS: [&str; 2] = ["pg-lock-table", "pg-lock-table-reentrant"];

fn with(lock: &str, faults: &str) -> String {
    format!("{}{faults}", BRIEF.replace("pg-for-update", lock))
}

/// Likewise, of clients that do not look at their deadline.
fn careless(lock: &str, faults: &str) -> String {
    with(lock, faults).replace("slow-per-mille", "deadline-check = false\nslow-per-mille")
}

fn fault(kind: &str, rest: &str) -> String {
    format!("\n[[fault]]\nkind = \"{kind}\"\n{rest}\n")
}

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

/// When the server granted it, µs.
fn applied_us(run: &Run, owner: &str) -> u64 {
    let applied = run.history.iter().find(|event| match &event.what {
        What::RecordSet { owner: whose, .. } => **whose == *owner,
        _ => false,
    });
    applied.map_or(0, |event| event.at_us)
}

fn crashed_us(run: &Run) -> u64 {
    let died = run.history.iter().find(|event| matches!(event.what, What::NodeCrashed { .. }));
    died.map_or(0, |event| event.at_us)
}

/// Of one lock after another, on both engines.
fn each_lock(locks: &[&str], text: impl Fn(&str) -> String, check: impl Fn(&Run)) {
    for lock in locks {
        each(&text(lock), &check);
    }
}

#[test]
fn in_calm_weather_it_is_safe() {
    let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
    each_lock(
        &locks,
        |lock| with(lock, ""),
        |run| {
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
            assert!(grants(run).len() > 40, "{}", told(run));
            assert_eq!(ends(run), []);
        },
    );
}

#[test]
fn a_holder_whose_process_dies_is_rid_of_at_once() {
    let crash = fault("process-crash", "node = \"app-1\"\nafter = \"app-1 acquire 3 returned\"");
    each_lock(
        &OF_SESSIONS,
        |lock| with(lock, &crash),
        |run| {
            assert_withstood(run);
            let [(ended_us, _)] = ends(run)[..] else { panic!("{:?}", ends(run)) };
            assert!(ended_us - crashed_us(run) < 50_000, "{}", told(run));
        },
    );
    each_lock(&OF_ROWS, |lock| with(lock, &crash), assert_withstood);
}

#[test]
fn a_holder_whose_machine_dies_is_rid_of_within_its_lease() {
    let crash = fault("machine-crash", "node = \"app-1\"\nafter = \"app-1 acquire 3 returned\"");
    each_lock(
        &OF_SESSIONS,
        |lock| with(lock, &crash),
        |run| {
            assert_withstood(run);
            let [(ended_us, _)] = ends(run)[..] else { panic!("{:?}", ends(run)) };
            let took_ms = (ended_us - crashed_us(run)) / 1_000;
            assert!((2_900..=3_100).contains(&took_ms), "{}: {took_ms} ms", told(run));
        },
    );
    each_lock(&OF_ROWS, |lock| with(lock, &crash), assert_withstood);
}

/// Dead between the server's yes and its own knowledge of it, or in the line before the lock:
/// the server finds out when it has answered.
#[test]
fn a_holder_that_dies_in_the_middle_of_its_query_is_rid_of_as_any_other() {
    let dies = |kind: &str, when: &str| {
        fault(kind, &format!("node = \"app-1\"\nafter = \"app-1 acquire 3 {when}"))
    };
    for (kind, took_ms) in [("process-crash", 0..=50), ("machine-crash", 2_900..=3_100)] {
        let in_query = dies(kind, "applied\"");
        each_lock(
            &OF_SESSIONS,
            |lock| with(lock, &in_query),
            |run| {
                assert_withstood(run);
                let [(ended_us, owner)] = &ends(run)[..] else { panic!("{:?}", ends(run)) };
                assert_eq!(owner, "app-1/3");
                let found_ms = (ended_us - crashed_us(run)) / 1_000;
                assert!(took_ms.contains(&found_ms), "{}: {found_ms} ms", told(run));
            },
        );
        each_lock(&OF_ROWS, |lock| with(lock, &in_query), assert_withstood);
        // Whoever dies waiting has the lock in its turn all the same, and is rid of then.
        let in_line = dies(kind, "invoked\"\ndelay = \"2ms\"");
        each_lock(
            &["pg-for-update", "pg-advisory", "pg-advisory-xact"],
            |lock| with(lock, &in_line),
            |run| {
                assert_withstood(run);
                let [(ended_us, owner)] = &ends(run)[..] else { panic!("{:?}", ends(run)) };
                assert_eq!(owner, "app-1/3");
                let granted_us = applied_us(run, "app-1/3");
                assert!(granted_us > crashed_us(run), "{}", told(run));
                let found_ms = (ended_us - granted_us) / 1_000;
                assert!(took_ms.contains(&found_ms), "{}: {found_ms} ms", told(run));
            },
        );
        let in_release =
            fault(kind, "node = \"app-1\"\nafter = \"app-1 release 3 invoked\"\ndelay = \"300us\"");
        let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
        each_lock(&locks, |lock| with(lock, &in_release), assert_withstood);
    }
}

#[test]
fn a_silent_cut_takes_the_lock_from_a_holder_that_looks() {
    let cut = fault(
        "partition",
        "from = [\"app-1\"]\nto = [\"pg-1\"]\nafter = \"app-1 acquire 1 returned\"\nfor = \"4s\"",
    );
    let long =
        |lock: &str| with(lock, &cut).replace("slow-per-mille", "work = \"1s\"\nslow-per-mille");
    let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
    each_lock(&locks, long, assert_withstood);
}

#[test]
fn a_pause_longer_than_the_lease_lets_a_second_one_in() {
    let pause = fault("pause", "node = \"app-1\"\nafter = \"app-1 read 3 applied\"\nfor = \"4s\"");
    let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
    each_lock(
        &locks,
        |lock| careless(lock, &pause),
        |run| {
            assert!(is_struck(run), "{}", told(run));
            assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
            assert!(run.judgement.found(Kind::Overstay), "{}", told(run));
            assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
        },
    );
    let fenced = |lock: &str| careless(lock, &pause).replace("seed =", "fence = \"full\"\nseed =");
    each_lock(&locks, fenced, |run| {
        assert_withstood(run);
        assert!(!run.judgement.found(Kind::EffectInterleaved), "{}", told(run));
    });
    each_lock(&locks, |lock| with(lock, &pause), assert_withstood);
}

#[test]
fn without_an_expiry_a_dead_holder_locks_for_ever() {
    let crash = fault("process-crash", "node = \"app-1\"\nafter = \"app-1 acquire 3 returned\"");
    let never = with("pg-lock-table", &crash).replace("table\"", "table\"\nexpiry = \"never\"");
    each(&never, |run| {
        assert!(is_struck(run), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::LeakedLock), "{}", told(run));
    });
}

#[test]
fn a_server_that_loses_its_memory_loses_what_sessions_hold_and_keeps_rows() {
    let crash = fault(
        "process-crash",
        "node = \"pg-1\"\nafter = \"app-1 acquire 3 returned\"\nfor = \"500ms\"",
    );
    // Its clients are told at once, by the end of the stream.
    let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
    each_lock(&locks, |lock| with(lock, &crash), assert_withstood);
    // A machine says nothing as it dies; whoever holds says its next word after a third of the
    // lease, whoever waits gives up before.
    let silent = crash.replace("process", "machine");
    let long = |lock: &str| {
        let work = "work = \"2500ms\"\npatience = \"300ms\"\nslow-per-mille";
        let text = with(lock, &silent).replace("slow-per-mille", work);
        let text = text.replace("[workload]", "lease = \"9s\"\n\n[workload]");
        let text = text.replace("6s", "10s");
        text.replace("after = \"app-1 acquire 3 returned\"", "at = \"500ms\"")
    };
    // Nobody tells the holder, and the server has forgotten it.
    each_lock(&OF_SESSIONS, long, |run| {
        assert!(is_struck(run), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
        assert!(run.judgement.found(Kind::GrantLost), "{}", told(run));
    });
    each_lock(&OF_ROWS, long, |run| {
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
        assert!(!run.judgement.found(Kind::GrantLost), "{}", told(run));
    });
}

#[test]
fn a_step_of_the_servers_wall_clock_ends_leases_of_rows_and_of_nothing_else() {
    let step =
        fault("clock-step", "node = \"pg-1\"\nby = \"1m\"\nafter = \"app-1 acquire 1 returned\"");
    let long =
        |lock: &str| with(lock, &step).replace("slow-per-mille", "work = \"1s\"\nslow-per-mille");
    each_lock(&OF_ROWS, long, |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
    each_lock(&OF_SESSIONS, long, |run| {
        assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
    });
}

/// A step forward is above. One back makes leases late; being set right is one forward again.
#[test]
fn a_step_back_of_the_servers_wall_clock_lets_nobody_in_early_but_its_mending_does() {
    let step = "kind = \"clock-step\"\nnode = \"pg-1\"\nby = \"-1m\"";
    let dies = fault("process-crash", "node = \"app-1\"\nafter = \"app-1 acquire 3 returned\"");
    let stays = format!("{dies}\n[[fault]]\n{step}\nafter = \"app-1 acquire 3 returned\"\n");
    each_lock(
        &OF_ROWS,
        |lock| with(lock, &stays),
        |run| {
            assert_withstood(run);
            // The dead one's row stands for the minute, as far as the storm goes.
            let crashed_us = crashed_us(run);
            let next = grants(run).into_iter().find(|(at_us, _)| *at_us > crashed_us);
            let next_us = next.map_or(u64::MAX, |(at_us, _)| at_us);
            assert!(next_us >= 6_000_000, "{}: {next_us} µs", told(run));
        },
    );
    let mended =
        format!("\n[[fault]]\n{step}\nafter = \"app-1 acquire 1 returned\"\nfor = \"2500ms\"\n");
    let long =
        |lock: &str| with(lock, &mended).replace("slow-per-mille", "work = \"1s\"\nslow-per-mille");
    each_lock(&OF_ROWS, long, |run| {
        assert!(is_struck(run), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
    each_lock(&OF_SESSIONS, long, |run| {
        assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
    });
}

/// Sections of nearly the lease. The margin of a lock is one percent of it.
#[test]
fn a_server_five_percent_fast_ends_leases_of_rows_early_and_a_slow_one_does_not() {
    let at = |rate: &str, lock: &str| {
        let long = "work = \"2900ms\"\npatience = \"6s\"\nslow-per-mille";
        let clock = format!("\n[[clock]]\nnode = \"pg-1\"\nrate = \"{rate}\"\n");
        let text = with(lock, &clock).replace("duration = \"6s\"", "duration = \"10s\"");
        text.replace("slow-per-mille", long)
    };
    each_lock(
        &OF_ROWS,
        |lock| at("+5%", lock),
        |run| {
            assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
            assert!(run.judgement.found(Kind::GrantLost), "{}", told(run));
        },
    );
    let safe = |run: &Run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(grants(run).len() > 2, "{}", told(run));
    };
    for rate in ["-5%", "+500ppm", "-500ppm"] {
        each_lock(&OF_ROWS, |lock| at(rate, lock), safe);
    }
    // A session lasts as long as its client says something in time.
    for rate in ["+5%", "-5%"] {
        each_lock(&OF_SESSIONS, |lock| at(rate, lock), safe);
    }
}

#[test]
fn a_lost_reply_leaves_no_second_holder() {
    for phase in ["acquire 3 applied", "release 3 applied"] {
        let reset = fault(
            "reset",
            &format!("from = [\"app-1\"]\nto = [\"pg-1\"]\nafter = \"app-1 {phase}\""),
        );
        let locks = [&OF_SESSIONS[..], &OF_ROWS[..]].concat();
        each_lock(&locks, |lock| with(lock, &reset), assert_withstood);
    }
}

#[test]
fn two_keys_in_opposite_order_wait_for_each_other_beyond_the_servers_detector() {
    let opposite = |lock: &str| {
        let two = "locks = 2\npatience = \"60s\"\nthink = \"5ms\"\nslow-per-mille";
        with(lock, "")
            .replace("slow-per-mille", two)
            .replace("[workload]", "[topology]\napps = 2\n\n[workload]")
    };
    // Each acquire is a session of its own: the server sees no circle.
    each_lock(&["pg-for-update", "pg-advisory"], opposite, |run| {
        assert!(run.judgement.has_violation(Kind::Deadlock), "{}", told(run));
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
    });
    // Rows are over with their leases, and with them the circle.
    each_lock(&["pg-lock-table"], opposite, |run| {
        assert!(!run.judgement.found(Kind::Deadlock), "{}", told(run));
    });
}

/// A server that cannot synchronise its log ends; whoever repairs its disk starts it again, but
/// not while a crash still holds it down.
#[test]
fn a_server_that_its_disk_has_ended_serves_again_once_the_disk_is_repaired() {
    let failing = fault("disk-error", "node = \"pg-1\"\nat = \"1s\"\nfor = \"1s\"");
    let crash = fault("process-crash", "node = \"pg-1\"\nat = \"1500ms\"\nfor = \"1s\"");
    let starts = |run: &Run| -> Vec<u64> {
        let of_server = run.history.iter().filter(|event| &*event.node == "pg-1");
        let starts = of_server.filter(|event| matches!(event.what, What::NodeStarted { .. }));
        starts.map(|event| event.at_us / 1_000).collect()
    };
    for (faults, again_ms) in [(failing.clone(), 2_000), (format!("{failing}{crash}"), 2_500)] {
        each_lock(
            &OF_ROWS,
            |lock| with(lock, &faults),
            |run| {
                let ended = |what: &What| matches!(what, What::ProgramEnded { .. });
                assert!(run.history.iter().any(|event| ended(&event.what)), "{}", told(run));
                assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
                let [0, again] = starts(run)[..] else { panic!("{:?}", starts(run)) };
                assert!((again_ms..again_ms + 5).contains(&again), "{again}");
                // Whoever held it could not let go: it is free when the lease has run out.
                let is_then = |(at_us, _): &(u64, String)| *at_us >= again * 1_000;
                assert!(grants(run).iter().any(is_then), "{}", told(run));
            },
        );
    }
}

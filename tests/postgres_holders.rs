//! What becomes of a lock on PostgreSQL when its holder dies, falls silent or stands still,
//! when its server restarts, or when clocks are wrong?

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::What;
use lockstorm_sim::storm::{self, Run};

use on_both_engines::{assert_withstood, each, grants, is_struck, plan, told};

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

fn crashed_us(run: &Run) -> u64 {
    let died = run.history.iter().find(|event| matches!(event.what, What::NodeCrashed { .. }));
    died.map_or(0, |event| event.at_us)
}

/// Of one lock after another: the first and the last on both engines, those between, which
/// ask the same of a server, on the fast one.
fn each_lock(locks: &[&str], text: impl Fn(&str) -> String, check: impl Fn(&Run)) {
    for (number, lock) in locks.iter().enumerate() {
        if number == 0 || number + 1 == locks.len() {
            each(&text(lock), &check);
        } else {
            let run = storm::run(&plan(&text(lock)), &EventEngine);
            assert_eq!(run.ending.stuck, None);
            check(&run);
        }
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

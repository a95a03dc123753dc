//! What becomes of an operation that is cut off half-way: its reply lost after it was
//! applied, its future dropped, its program hanging while the rest of its node goes on?

use lockstorm_interpose::Senses;
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::event::FaultFamily;
use lockstorm_sim::history::{AcquireOutcome, Event, What};
use lockstorm_sim::plan::file;
use lockstorm_sim::storm::{self, Run};

/// Two clients of one server, seldom busy.
const SCENE: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x7"
duration = "10s"

[topology]
apps = 2

[workload]
think = "300ms"
work = "5ms"
slow-per-mille = 0
"#;

fn on(engine: &dyn Engine, rest: &str) -> Run {
    let text = format!("{SCENE}{rest}");
    let plan = file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"));
    storm::run(&plan, engine)
}

fn on_both(rest: &str, check: impl Fn(&Run)) {
    for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
        let run = on(engine, rest);
        assert_eq!(run.ending.stuck, None, "{}", run.engine);
        check(&run);
    }
}

/// The position of the only event that is so.
fn only(run: &Run, name: &str, is: impl Fn(&What) -> bool) -> usize {
    let found: Vec<usize> =
        run.history.iter().enumerate().filter(|(_, e)| is(&e.what)).map(|(n, _)| n).collect();
    assert_eq!(found.len(), 1, "{name} on {}: {:#?}", run.engine, around(run));
    found[0]
}

/// The events of the third attempt of app-1 and of the faults, for messages.
fn around(run: &Run) -> Vec<&Event> {
    let is_about = |event: &&Event| {
        let text = format!("{:?}", event.what);
        text.contains("Fault") || text.contains("app-1/3") || text.contains("ordinal: 3 ")
    };
    run.history.iter().filter(is_about).collect()
}

fn at_us(run: &Run, position: usize) -> u64 {
    run.history.events[position].at_us
}

fn applied(run: &Run) -> usize {
    only(
        run,
        "applied",
        |what| matches!(what, What::RecordSet { owner, .. } if **owner == *"app-1/3"),
    )
}

fn released(run: &Run) -> usize {
    let is =
        |what: &What| matches!(what, What::RecordReleased { owner, .. } if **owner == *"app-1/3");
    only(run, "released", is)
}

fn expired(run: &Run) -> usize {
    let is =
        |what: &What| matches!(what, What::RecordExpired { owner, .. } if **owner == *"app-1/3");
    only(run, "expired", is)
}

/// The third acquire of app-1 came back without an answer.
fn indeterminate(run: &Run) -> usize {
    only(run, "indeterminate", |what| match what {
        What::AcquireReturned { attempt, outcome, .. } if attempt.to_string() == "app-1/3" => {
            assert!(matches!(outcome, AcquireOutcome::Indeterminate { .. }), "{outcome:?}");
            true
        }
        _ => false,
    })
}

fn touched(run: &Run, position: usize) -> usize {
    let is = |what: &What| matches!(what, What::FaultTouched { fault, .. } if *fault == position);
    only(run, "touched", is)
}

fn ended(run: &Run, position: usize) -> usize {
    only(run, "ended", |what| matches!(what, What::FaultEnded { fault } if *fault == position))
}

/// Nobody else held the lock while the record stood, and nobody was kept out too long.
fn is_clean(run: &Run) {
    assert_eq!(run.judgement.verdict, Verdict::Safe, "{}: {:#?}", run.engine, run.judgement);
    assert!(run.judgement.findings.is_empty(), "{}: {:#?}", run.engine, run.judgement.findings);
}

const RESET: &str = r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
after = "app-1 acquire 3 applied"
"#;

#[test]
fn a_reply_lost_after_it_was_applied_is_indeterminate_and_taken_back() {
    on_both(RESET, |run| {
        let (applied, touched) = (applied(run), touched(run, 0));
        assert_eq!(at_us(run, applied), at_us(run, touched), "in the event itself");
        assert!(applied < touched && touched < ended(run, 0));
        assert!(ended(run, 0) < indeterminate(run), "{:#?}", around(run));
        // On a new connection, since the old one is gone.
        let released = released(run);
        assert!(at_us(run, released) < at_us(run, applied) + 100_000, "{:#?}", around(run));
        is_clean(run);
    });
}

#[test]
fn what_cannot_be_taken_back_expires_and_lets_others_in() {
    let cut_off = r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 acquire 3 applied"
for = "6s"
"#;
    on_both(&format!("{RESET}{cut_off}"), |run| {
        let (applied, expired) = (applied(run), expired(run));
        assert!(indeterminate(run) < expired);
        let held_us = at_us(run, expired) - at_us(run, applied);
        assert!((5_000_000..5_200_000).contains(&held_us), "a lease of 5 s: {held_us}");
        let next = run.history.iter().find(|event| {
            event.at_us > at_us(run, applied) && matches!(event.what, What::RecordSet { .. })
        });
        assert!(next.unwrap().at_us >= at_us(run, expired), "nobody between");
        is_clean(run);
    });
}

#[test]
fn a_reset_where_there_is_no_connection_is_inert() {
    let apart = RESET.replace("redis-1", "app-2");
    on_both(&apart, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Inert, "{:#?}", run.judgement);
        assert!(applied(run) < ended(run, 0), "it is over at once");
    });
}

fn cancel(operation: &str, suspension: u32, rest: &str) -> String {
    format!(
        "[[fault]]\nkind = \"cancel\"\nnode = \"app-1\"\noperation = \"{operation}\"\nordinal = \
         3\nawait = {suspension}\n{rest}\n"
    )
}

#[test]
fn an_acquire_dropped_at_its_first_wait_has_not_been_sent() {
    on_both(&cancel("acquire", 1, ""), |run| {
        let (touched, returned) = (touched(run, 0), indeterminate(run));
        assert!(touched < ended(run, 0) && ended(run, 0) < returned);
        // The client library looks whether anybody still waits before it writes.
        let set = run.history.iter().any(
            |event| matches!(&event.what, What::RecordSet { owner, .. } if **owner == *"app-1/3"),
        );
        assert!(!set, "{:#?}", around(run));
        is_clean(run);
    });
}

/// The request takes long, so that its client has gone when it arrives.
const SLOW: &str = r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "60ms"
at = "0s"
"#;

#[test]
fn a_dropped_acquire_that_is_applied_later_is_taken_back() {
    on_both(&format!("{}{SLOW}", cancel("acquire", 1, "delay = \"20ms\"")), |run| {
        let (dropped, applied) = (touched(run, 0), applied(run));
        assert!(dropped < indeterminate(run) && indeterminate(run) < applied);
        assert!(at_us(run, applied) > at_us(run, dropped) + 30_000, "{:#?}", around(run));
        let held_us = at_us(run, released(run)) - at_us(run, applied);
        assert!(held_us < 100_000, "the release follows it on its connection: {held_us}");
        is_clean(run);
    });
}

#[test]
fn a_dropped_acquire_that_cannot_be_taken_back_holds_for_its_lease_and_no_longer() {
    let cut_off = r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 acquire 3 applied"
for = "6s"
"#;
    let faults = format!("{}{SLOW}{cut_off}", cancel("acquire", 1, "delay = \"20ms\""));
    on_both(&faults, |run| {
        let applied = applied(run);
        assert!(indeterminate(run) < applied, "{:#?}", around(run));
        let held_us = at_us(run, expired(run)) - at_us(run, applied);
        assert!((5_000_000..5_200_000).contains(&held_us), "a lease of 5 s: {held_us}");
        is_clean(run);
    });
}

#[test]
fn a_dropped_release_goes_on_by_itself() {
    on_both(&cancel("release", 1, ""), |run| {
        let touched = touched(run, 0);
        let returned = only(run, "returned", |what| match what {
            What::ReleaseReturned { attempt, release } if attempt.to_string() == "app-1/3" => {
                assert!(format!("{release:?}").contains("half-way"), "{release:?}");
                true
            }
            _ => false,
        });
        assert!(touched < returned && returned < released(run), "{:#?}", around(run));
        is_clean(run);
    });
}

#[test]
fn an_operation_that_comes_back_before_is_not_dropped() {
    on_both(&cancel("acquire", 4_000, ""), |run| {
        assert_eq!(run.judgement.verdict, Verdict::Inert, "{:#?}", run.judgement);
        let granted = |what: &What| matches!(what, What::AcquireReturned { attempt, .. } if attempt.to_string() == "app-1/3");
        assert!(ended(run, 0) < only(run, "returned", granted), "it is over with its operation");
    });
}

#[test]
fn a_client_that_hangs_beyond_its_lease_goes_on_where_it_was() {
    let hang = r#"
[[fault]]
kind = "hang"
node = "app-1"
after = "app-1 read 3 applied"
for = "5.5s"
"#;
    let careless = hang.replace("[[fault]]", "deadline-check = false\n[[fault]]");
    on_both(&careless, |run| {
        assert!(touched(run, 0) < ended(run, 0));
        let (from, to) = (at_us(run, touched(run, 0)), at_us(run, ended(run, 0)));
        let mut own = run.history.iter().filter(|event| &*event.node == "app-1");
        let acts = own.any(|event| event.at_us > from && event.at_us < to);
        assert!(!acts, "its work stands still");
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{:#?}", run.judgement);
        let blamed = run.judgement.findings.iter().flat_map(|finding| &finding.blame.faults);
        let families: Vec<FaultFamily> = blamed.map(|fault| fault.family).collect();
        assert!(!families.is_empty() && families.iter().all(|f| *f == FaultFamily::Hang));
    });
    on_both(hang, |run| {
        assert!(touched(run, 0) < ended(run, 0));
        assert_eq!(run.judgement.verdict, Verdict::Safe, "it asks its own deadline first");
    });
}

#[test]
fn wherever_an_operation_is_cut_off_nothing_is_granted_twice_or_leaked() {
    let scene = "schema = 1\nscenario = \"redis-failover\"\nseed = \"0x3\"\nduration = \"5s\"\n";
    let mut cuts = Vec::new();
    for ordinal in 1..=4 {
        for operation in ["acquire", "release"] {
            for (suspension, delay) in [
                (1, "0s"),
                (2, "0s"),
                (3, "0s"),
                (1, "300us"),
                (1, "700us"),
                (1, "1500us"),
                (2, "5ms"),
            ] {
                cuts.push(format!(
                    "kind = \"cancel\"\nnode = \"app-1\"\noperation = \"{operation}\"\nordinal = \
                     {ordinal}\nawait = {suspension}\ndelay = \"{delay}\"\n"
                ));
            }
            for phase in ["invoked", "applied", "returned"] {
                cuts.push(format!(
                    "kind = \"reset\"\nfrom = \"app-1\"\nto = [\"redis-1\", \"sentinel-1\", \
                     \"stock-1\"]\nafter = \"app-1 {operation} {ordinal} {phase}\"\n"
                ));
            }
        }
    }
    let mut shown = 0;
    for cut in &cuts {
        let plan = file::parse("the test's plan", &format!("{scene}[[fault]]\n{cut}")).unwrap();
        let run = storm::run(&plan, &EventEngine);
        let verdict = run.judgement.verdict;
        assert!(matches!(verdict, Verdict::Safe | Verdict::Inert), "{cut}{:#?}", run.judgement);
        assert!(run.judgement.findings.is_empty(), "{cut}{:#?}", run.judgement.findings);
        shown += u32::from(verdict == Verdict::Safe);
    }
    assert!(shown as usize * 2 > cuts.len(), "most of {} show: {shown}", cuts.len());
}

/// Every group that plans know is one that programs have: a pause of it shows.
#[test]
fn every_task_group_can_be_paused() {
    // The client of ZooKeeper asks the C library.
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    let groups = [
        ("redis-1", "main"),
        ("redis-1", "redis-connection"),
        ("redis-1", "redis-replication"),
        ("redis-2", "redis-replica"),
        ("sentinel-1", "main"),
        ("sentinel-1", "sentinel-link"),
        ("sentinel-1", "sentinel-client"),
        ("stock-1", "main"),
        ("stock-1", "stock-connection"),
        ("app-1", "main"),
        ("app-1", "redis-driver"),
        ("app-1", "release"),
        ("app-1", "renewer"),
        ("app-1", "asyncs"),
        ("app-1", "session"),
        ("app-1", "postgres-driver"),
    ];
    let known: usize = ["redis-1", "sentinel-1", "stock-1", "app-1"]
        .map(|node| lockstorm_sim::plan::groups::of_node(node).len())
        .iter()
        .sum();
    assert_eq!(known, groups.len(), "a group is known that is not tried here");
    for (node, group) in groups {
        // New connections to everybody, and a release that runs as a task of its own.
        let text = format!(
            "schema = 1\nscenario = \"redis-failover\"\nduration = \"6s\"\n[[fault]]\nkind = \
             \"pause\"\nnode = \"{node}\"\ngroup = \"{group}\"\nat = \"0s\"\nfor = \
             \"2s\"\n{}\n",
            cancel("release", 1, "")
        );
        let text = match group {
            "release" => text.replace("2s", "5s"),
            // Only a lock that renews has one.
            "renewer" => format!("{text}[lock]\nname = \"redis-watchdog\"\nlease = \"1s\"\n"),
            // Those of the client of ZooKeeper.
            "asyncs" | "session" => {
                let text = text.replace("redis-failover", "zookeeper-three");
                format!("{text}[lock]\nname = \"zookeeper\"\n")
            }
            "postgres-driver" => {
                let text = text.replace("redis-failover", "postgres-single");
                format!("{text}[lock]\nname = \"pg-for-update\"\n")
            }
            _ => text,
        };
        let plan = file::parse("the test's plan", &text).unwrap();
        let run = storm::run(&plan, &EventEngine);
        assert!(run.judgement.goals.touched.contains(&0), "{node} {group}: {:#?}", run.judgement);
    }
}

#[test]
fn disks_that_no_server_uses_make_their_faults_inert() {
    let faults = r#"
[[fault]]
kind = "disk-slow"
node = "redis-1"
extra = "200ms"
at = "1s"
for = "2s"

[[fault]]
kind = "disk-stall"
node = "redis-1"
at = "2s"
for = "2s"

[[fault]]
kind = "disk-error"
node = "stock-1"
at = "1s"
"#;
    on_both(faults, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Inert, "{:#?}", run.judgement);
        assert_eq!(run.judgement.goals.inert.len(), 3);
        for position in 0..3 {
            ended(run, position);
        }
    });
}

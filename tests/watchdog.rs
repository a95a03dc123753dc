//! Does the watchdog keep the lock of a slow holder, tell one that has lost it, and stop
//! when nobody holds?

mod on_both_engines;

use std::collections::BTreeMap;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::{BeliefEnd, What};
use lockstorm_sim::storm::Run;

use on_both_engines::{assert_withstood, each, grants, told};

/// Two clients whose sections, of about three seconds, outlast the lease of one.
const SLOW: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "16s"

[lock]
name = "redis-watchdog"
lease = "1s"

[topology]
apps = 2

[workload]
work = "3s"
patience = "12s"
"#;

const PERIOD_US: u64 = 1_000_000 / 3;

/// The renewals that a server applied: when, µs, and whose.
fn renewals(run: &Run) -> Vec<(u64, &str)> {
    let renewals = run.history.iter().filter_map(|event| match &event.what {
        What::RecordExtended { owner, .. } => Some((event.at_us, owner.as_ref())),
        _ => None,
    });
    renewals.collect()
}

#[test]
fn a_holder_that_is_slower_than_its_lease_keeps_the_lock() {
    each(SLOW, |run| {
        assert!(renewals(run).len() > 10, "{:?}", renewals(run));
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(!run.judgement.found(Kind::Overstay), "{}", told(run));
    });
    // What the same sections do without a watchdog, and without a look at the clock.
    let careless = SLOW.replace("redis-watchdog", "redis");
    let careless = careless.replace("patience", "deadline-check = false\npatience");
    each(&careless, |run| {
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
    });
}

/// No owner's record is renewed later than a period after it was given back, or after its
/// client died.
fn stops_in_time(run: &Run) {
    let mut ended: BTreeMap<String, u64> = BTreeMap::new();
    for event in run.history.iter() {
        match &event.what {
            What::ReleaseInvoked { attempt } => {
                ended.insert(attempt.to_string(), event.at_us);
            }
            What::NodeCrashed { .. } => {
                for (at_us, owner) in grants(run) {
                    if owner.starts_with(&format!("{}/", event.node)) && at_us < event.at_us {
                        ended.entry(owner).or_insert(event.at_us);
                    }
                }
            }
            What::RecordExtended { owner, .. } => {
                let since = ended.get(&**owner).copied().unwrap_or(u64::MAX);
                assert!(
                    event.at_us <= since.saturating_add(PERIOD_US),
                    "{}: {owner} was renewed {} µs after its end",
                    run.engine,
                    event.at_us - since
                );
            }
            _ => {}
        }
    }
    assert!(!ended.is_empty());
}

#[test]
fn renewal_stops_with_a_release_a_crash_and_a_cancelled_client() {
    each(SLOW, stops_in_time);
    let crash = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 read 1 applied"
delay = "1500ms"
for = "3s"
"#;
    each(&format!("{SLOW}{crash}"), |run| {
        stops_in_time(run);
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
    });
    for operation in ["acquire", "release"] {
        let cancel = format!(
            r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "{operation}"
ordinal = 1
await = 1
"#
        );
        each(&format!("{SLOW}{cancel}"), |run| {
            stops_in_time(run);
            let dropped = "app-1/1";
            if operation == "acquire" {
                let mine = renewals(run).iter().filter(|(_, owner)| *owner == dropped).count();
                assert_eq!(mine, 0, "{}: nobody held it", run.engine);
            }
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        });
    }
}

const HUNG: &str = r#"
[[fault]]
kind = "hang"
node = "app-1"
after = "app-1 read 1 applied"
for = "11s"
"#;

#[test]
fn a_hung_holder_keeps_the_lock_for_ever_without_a_longest_hold() {
    let others_meanwhile = |run: &Run| {
        let hung = run.history.iter().find(|event| matches!(event.what, What::FaultBegan { .. }));
        let from_us = hung.expect("it hangs").at_us;
        let grants = grants(run).into_iter();
        grants.filter(|(at_us, _)| (from_us..from_us + 11_000_000).contains(at_us)).count()
    };
    each(&format!("{SLOW}{HUNG}"), |run| {
        assert_eq!(others_meanwhile(run), 0, "{}: {:?}", run.engine, grants(run));
    });
    let limited = SLOW.replace("lease =", "max-hold = \"4s\"\nlease =");
    each(&format!("{limited}{HUNG}"), |run| {
        assert!(others_meanwhile(run) > 0, "{}: {:?}", run.engine, grants(run));
        // It wakes, is told, and does nothing.
        assert_withstood(run);
    });
}

#[test]
fn a_renewer_that_stands_still_alone_lets_the_lease_end_under_a_working_holder() {
    let asleep = r#"
[[fault]]
kind = "pause"
node = "app-1"
group = "renewer"
after = "app-1 read 1 applied"
for = "6s"
"#;
    // The holder's own clock still knows.
    each(&format!("{SLOW}{asleep}"), |run| {
        assert_withstood(run);
    });
    let careless = SLOW.replace("patience", "deadline-check = false\npatience");
    each(&format!("{careless}{asleep}"), |run| {
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
    });
}

#[test]
fn a_holder_whose_record_is_gone_is_told_within_a_renewal() {
    let restart = r#"
[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 read 1 applied"
for = "50ms"
"#;
    each(&format!("{SLOW}{restart}"), |run| {
        let gone = run.history.iter().find(|event| matches!(event.what, What::RecordLost { .. }));
        let gone = gone.expect("the server forgot the record").at_us;
        let told_at = run.history.iter().find_map(|event| match &event.what {
            What::BeliefEnded { attempt, reason: BeliefEnd::Told }
                if attempt.to_string() == "app-1/1" =>
            {
                Some(event.at_us)
            }
            _ => None,
        });
        let after_us = told_at.expect("the holder is told").saturating_sub(gone);
        assert!(after_us < 1_000_000, "{}: told {after_us} µs later", run.engine);
        assert!(!run.judgement.found(Kind::LossNotTold), "{}", told(run));
    });
}

#[test]
fn the_longest_hold_ends_a_holder_that_is_only_slow() {
    let limited = SLOW.replace("lease =", "max-hold = \"1500ms\"\nlease =");
    each(&limited, |run| {
        let ended = run
            .history
            .iter()
            .any(|event| matches!(event.what, What::BeliefEnded { reason: BeliefEnd::Told, .. }));
        assert!(ended, "{}: nobody was told", run.engine);
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
    });
}

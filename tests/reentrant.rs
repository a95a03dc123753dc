//! Does the owner of `redis-reentrant` get in again, out as often, and are those who wait
//! woken?

mod on_both_engines;

use std::collections::BTreeMap;

use lockstorm::lock::Release;
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::{AcquireOutcome, What};

use on_both_engines::{assert_withstood, each, is_struck, told};

/// Each section acquires the lock three times in all.
const NESTED: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "8s"

[lock]
name = "redis-reentrant"

[topology]
apps = 3

[workload]
reentries = 2
"#;

#[test]
fn it_is_free_after_as_many_releases_as_acquires() {
    each(NESTED, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        let mut inside: BTreeMap<String, i32> = BTreeMap::new();
        let (mut nested, mut freed) = (0, 0);
        for event in run.history.iter() {
            match &event.what {
                What::AcquireReturned {
                    attempt, outcome: AcquireOutcome::Granted { .. }, ..
                } => {
                    let count = inside.entry(attempt.to_string()).or_default();
                    *count += 1;
                    nested += i32::from(*count > 1);
                }
                What::ReleaseInvoked { attempt } => {
                    *inside.entry(attempt.to_string()).or_default() -= 1;
                }
                What::RecordReleased { owner, .. } => {
                    freed += 1;
                    assert_eq!(inside[&**owner], 0, "{}: {owner} is inside still", run.engine);
                }
                _ => {}
            }
        }
        assert!(nested > 10 && freed > 10, "{}: {nested} nested, {freed} freed", run.engine);
    });
}

#[test]
fn a_lock_that_is_not_reentrant_keeps_its_owner_waiting_for_itself() {
    let plain = NESTED
        .replace("redis-reentrant", "redis")
        .replace("reentries", "patience = \"300ms\"\nreentries");
    each(&plain, |run| {
        let mut open: BTreeMap<String, u32> = BTreeMap::new();
        let mut denied = 0;
        for event in run.history.iter() {
            if let What::AcquireReturned { attempt, outcome, .. } = &event.what {
                match outcome {
                    AcquireOutcome::Granted { .. } => {
                        *open.entry(attempt.to_string()).or_default() += 1;
                    }
                    AcquireOutcome::TimedOut => {
                        denied += u32::from(open.contains_key(&attempt.to_string()));
                    }
                    _ => {}
                }
            }
        }
        assert!(denied > 0, "{}: nobody met itself", run.engine);
        assert!(open.values().all(|count| *count == 1), "{}: {open:?}", run.engine);
    });
}

#[test]
fn a_waiter_is_woken_long_before_it_would_have_asked_again() {
    let patient = |name: &str| {
        NESTED
            .replace("redis-reentrant", name)
            .replace("reentries = 2", "patience = \"6s\"")
            .replace("[topology]", "retry = \"1s\"\n\n[topology]")
    };
    each(&patient("redis-reentrant"), |run| {
        let takeover = run.judgement.numbers.takeover.median_us;
        assert!(takeover < 200_000, "{}: {takeover} µs between two holders", run.engine);
    });
    each(&patient("redis"), |run| {
        let most = run.judgement.numbers.takeover.most_us;
        assert!(most > 200_000, "{}: {most} µs between two holders", run.engine);
    });
}

#[test]
fn no_lost_reply_and_no_lost_interest_upsets_the_count() {
    let faults = [
        "kind = \"process-crash\"\nnode = \"app-1\"\nafter = \"app-1 read 2 applied\"\nfor = \"1s\"",
        "kind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"redis-1\"]\nafter = \"app-1 acquire 2 applied\"",
        "kind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"redis-1\"]\nafter = \"app-1 release 2 invoked\"",
        "kind = \"cancel\"\nnode = \"app-1\"\noperation = \"acquire\"\nordinal = 2\nawait = 1",
        "kind = \"cancel\"\nnode = \"app-1\"\noperation = \"release\"\nordinal = 2\nawait = 1",
    ];
    for fault in faults {
        each(&format!("{NESTED}\n[[fault]]\n{fault}\n"), |run| {
            let withstood = is_struck(run) && run.judgement.verdict.is_safe();
            assert!(withstood, "{fault}: {}", told(run));
        });
    }
}

/// A holder sleeps through its lease, another is let in, and the first wakes and releases.
#[test]
fn the_release_of_who_holds_it_no_longer_frees_nobody_and_says_so() {
    let careless = NESTED.replace("reentries = 2", "reentries = 2\ndeadline-check = false");
    let lease = careless.replace("[topology]", "lease = \"2s\"\n\n[topology]");
    let asleep = "\n[[fault]]\nkind = \"pause\"\nnode = \"app-1\"\nafter = \"app-1 read 1 \
                  applied\"\nfor = \"3s\"\n";
    each(&format!("{lease}{asleep}"), |run| {
        assert!(is_struck(run), "{}", told(run));
        let late = run.history.iter().find_map(|event| match &event.what {
            What::ReleaseReturned { attempt, release } if attempt.to_string() == "app-1/1" => {
                Some(release)
            }
            _ => None,
        });
        assert_eq!(late, Some(&Release::NotHeld), "{}: {}", run.engine, told(run));
        assert!(!run.judgement.found(Kind::WrongRelease), "{}", told(run));
        let freed_by = run.history.iter().filter_map(|event| match &event.what {
            What::RecordReleased { owner, .. } => Some(owner.to_string()),
            _ => None,
        });
        let freed_by: Vec<String> = freed_by.collect();
        assert!(freed_by.iter().all(|owner| owner != "app-1/1"), "{}: {freed_by:?}", run.engine);
        assert!(freed_by.len() > 3, "{}: others go on: {freed_by:?}", run.engine);
    });
}

#[test]
fn a_failover_that_keeps_the_hash_keeps_the_lock() {
    // A planned failover: everything was replicated when the master died.
    let failover = NESTED.replace("redis-single", "redis-failover");
    let dies = "\n[[fault]]\nkind = \"process-crash\"\nnode = \"redis-1\"\nafter = \"app-1 read 2 \
                applied\"\n";
    each(&format!("{failover}{dies}"), |run| {
        assert_withstood(run);
        assert!(!run.judgement.found(Kind::GrantLost), "{}", told(run));
        let promoted = run.history.iter().find_map(|event| match &event.what {
            What::Promoted { records, .. } => Some(records),
            _ => None,
        });
        let records = promoted.expect("a failover");
        assert_eq!(records.len(), 1, "{}: the new master has {records:?}", run.engine);
    });
}

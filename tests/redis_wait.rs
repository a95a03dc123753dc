//! What does WAIT buy? A grant that its replicas know of. What does it not buy? That one of
//! those is chosen in a failover, and that it still knows then.

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::{AcquireOutcome, What};

use on_both_engines::{assert_withstood, each, grants, told};

const TWO: &str = r#"
schema = 1
scenario = "redis-failover"
seed = "0x2"
duration = "12s"

[lock]
name = "redis-wait"
wait-replicas = 1
lease = "9s"

[topology]
apps = 2

[workload]
work = "4s"
patience = "8s"
"#;

#[test]
fn in_calm_weather_a_grant_is_at_a_replica_before_it_is_told() {
    each(TWO, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        let mut replicated: Option<&str> = None;
        for event in run.history.iter() {
            match &event.what {
                What::RecordReplicated { owner, .. } => replicated = Some(owner),
                What::AcquireReturned {
                    attempt, outcome: AcquireOutcome::Granted { .. }, ..
                } => assert_eq!(replicated, Some(attempt.to_string().as_str()), "{}", run.engine),
                _ => {}
            }
        }
    });
}

/// The demonstration's storm: replication stands still, the master dies.
const LAG: &str = r#"
[[fault]]
kind = "replication-stall"
node = "redis-1"
after = "app-1 acquire 1 invoked"
for = "3s"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 applied"
delay = "150ms"
"#;

#[test]
fn what_replicas_do_not_have_is_not_granted() {
    each(&format!("{TWO}{LAG}"), |run| {
        assert_withstood(run);
    });
    let plain = TWO.replace("redis-wait", "redis").replace("wait-replicas = 1\n", "");
    each(&format!("{plain}{LAG}"), |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
}

/// One replica hears the master; it dies with it, and comes back empty before the sentinels
/// choose. The other never heard of the grant.
const NOBODY_HAS_IT: &str = r#"
[[fault]]
kind = "partition"
from = ["redis-1"]
to = ["redis-3"]
after = "app-1 acquire 1 invoked"

[[fault]]
kind = "process-crash"
node = "redis-2"
after = "app-1 acquire 1 returned"
delay = "1200ms"
for = "700ms"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
delay = "1200ms"
"#;

#[test]
fn a_failover_after_the_replica_that_knew_died_loses_the_grant_all_the_same() {
    // Still at work when the other is master.
    let two = TWO.replace("\"4s\"", "\"8s\"");
    each(&format!("{two}{NOBODY_HAS_IT}"), |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
    // With all of them asked for, nobody is granted behind that cut.
    let all = two.replace("wait-replicas = 1", "wait-replicas = 2");
    each(&format!("{all}{NOBODY_HAS_IT}"), |run| {
        assert!(run.judgement.goals.touched.contains(&0), "{}", told(run));
        let set = |what: &What| matches!(what, What::RecordSet { .. });
        assert!(run.history.iter().any(|event| set(&event.what)), "{}", told(run));
        // What is cut heals at the end of the storm.
        let ends_us = run.plan.duration.0;
        assert!(grants(run).iter().all(|(at_us, _)| *at_us > ends_us), "{}", told(run));
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
    });
}

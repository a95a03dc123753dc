//! Does a Redlock server that forgets let two clients in, and which way of keeping data
//! keeps them out? A server of the majority loses its power after it granted, and is back
//! long before the lease is over.

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::plan::RedisPersistence;

use on_both_engines::{each_of, grants, is_struck, plan, told};

/// Only three servers hear app-1: no more than the majority that it needs.
const AMNESIAC: &str = r#"
schema = 1
scenario = "redlock-five"
seed = "0x6"
duration = "12s"

[lock]
name = "redlock"

[topology]
apps = 2

[workload]
work = "2s"
patience = "8s"

[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-4", "redis-5"]
at = "0s"

[[fault]]
kind = "machine-crash"
node = "redis-3"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;

#[test]
fn only_a_server_that_synchronises_before_it_answers_keeps_its_vote_through_a_power_cut() {
    for persistence in RedisPersistence::ALL {
        let mut plan = plan(AMNESIAC);
        plan.topology.persistence = persistence;
        each_of(&plan, |run| {
            assert!(grants(run).len() > 1 && is_struck(run), "{persistence:?}: {}", told(run));
            if persistence == RedisPersistence::AofAlways {
                assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
                return;
            }
            assert!(
                run.judgement.has_violation(Kind::DoubleGrant),
                "{persistence:?}: {}",
                told(run)
            );
        });
    }
}

#[test]
fn a_crash_of_the_process_alone_loses_no_vote_that_was_written() {
    let process = AMNESIAC.replace("machine-crash", "process-crash");
    for persistence in RedisPersistence::ALL {
        let mut plan = plan(&process);
        plan.topology.persistence = persistence;
        let keeps = !matches!(persistence, RedisPersistence::None | RedisPersistence::Rdb);
        each_of(&plan, |run| {
            let found = run.judgement.has_violation(Kind::DoubleGrant);
            assert_eq!(found, !keeps, "{persistence:?}: {}", told(run));
        });
    }
}

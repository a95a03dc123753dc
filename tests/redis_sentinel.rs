//! A master is cut off together with a client. Who is let in there, while the others have a
//! new master?

mod on_both_engines;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::What;

use on_both_engines::{assert_withstood, each, told};

const CALM: &str = r#"
schema = 1
scenario = "redis-failover"
seed = "0x1"
duration = "10s"

[lock]
name = "redis-sentinel"

[topology]
apps = 3

[workload]
work = "200ms"
"#;

const CUT_OFF: &str = r#"
[[fault]]
kind = "partition"
from = ["redis-1", "app-1"]
to = ["redis-2", "redis-3", "sentinel-1", "sentinel-2", "sentinel-3", "app-2", "app-3"]
at = "2s"
"#;

#[test]
fn in_calm_weather_it_confirms_and_grants() {
    each(CALM, |run| assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run)));
}

#[test]
fn a_client_that_cannot_ask_most_sentinels_is_not_let_in_by_the_old_master() {
    each(&format!("{CALM}{CUT_OFF}"), |run| {
        assert_withstood(run);
        let mut events = run.history.iter();
        let is_replaced = events.any(|event| matches!(event.what, What::Promoted { .. }));
        assert!(is_replaced, "{}: no new master", run.engine);
    });
    // The lock that asks for each connection stays with the one it has.
    let plain = CALM.replace("redis-sentinel", "redis");
    each(&format!("{plain}{CUT_OFF}"), |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
}

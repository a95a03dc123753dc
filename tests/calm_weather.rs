//! Is a run that proves nothing called safe? And is calm weather called anything else?

use lockstorm_sim::check::Verdict;
use lockstorm_sim::plan::file;
use lockstorm_sim::storm::Storm;

#[test]
fn without_faults_every_seed_is_safe_and_hands_the_lock_over() {
    for scenario in ["redis-single", "redis-failover"] {
        let outcome = Storm::new(scenario).without_faults().seeds(100).outcome();
        assert_eq!(outcome.verdicts_of(Verdict::Safe), 100, "{scenario}: {outcome:#?}");
    }
}

fn verdict(text: &str) -> Verdict {
    let plan = file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"));
    let outcome = Storm::of(plan).outcome();
    *outcome.verdicts.keys().next().unwrap()
}

#[test]
fn a_fault_that_touches_nothing_is_inert() {
    let text = r#"
schema = 1
scenario = "redis-failover"
duration = "4s"

[[fault]]
kind = "partition"
from = ["redis-2"]
to = ["stock-1"]
at = "1s"
for = "1s"
"#;
    assert_eq!(verdict(text), Verdict::Inert);
}

#[test]
fn a_fault_whose_anchor_never_comes_is_inert() {
    let text = r#"
schema = 1
scenario = "redis-single"
duration = "3s"

[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 acquire 4000 returned"
for = "1s"
"#;
    assert_eq!(verdict(text), Verdict::Inert);
}

#[test]
fn a_run_without_a_handover_is_unknown() {
    let text = r#"
schema = 1
scenario = "redis-single"
duration = "3s"

[topology]
apps = 1
"#;
    assert_eq!(verdict(text), Verdict::Unknown);
}

#[test]
fn no_lock_at_all_is_caught() {
    let outcome = Storm::new("redis-single").lock("none").without_faults().seeds(10).outcome();
    assert!(outcome.verdicts_of(Verdict::Violation) >= 9, "{outcome:#?}");
}

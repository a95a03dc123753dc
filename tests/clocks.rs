//! How wrong may a Redis server's clock be before a lease of an hour breaks?

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::{Fence, file};
use lockstorm_sim::storm::{self, Run};

fn run(text: &str, fence: Fence) -> Run {
    let mut plan = file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"));
    plan.fence = fence;
    storm::run(&plan, &EventEngine)
}

/// Two clients; sections of about 59 minutes under a lease of an hour.
const HOUR: &str = r#"
schema = 1
scenario = "redis-long-lease"
seed = "0x1"
duration = "6h"

[workload]
think = "1m"
slow-per-mille = 1000
slow-work = "70m"
deadline-check = false

[[clock]]
node = "redis-1"
rate = "+5%"
"#;

#[test]
fn five_percent_fast_an_hour_ends_three_minutes_early() {
    let run = run(HOUR, Fence::Off);
    assert!(run.judgement.kinds().contains(&Kind::GrantLost), "{:#?}", run.judgement);
    assert!(run.judgement.has_violation(Kind::DoubleGrant), "{:#?}", run.judgement);
    assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{:#?}", run.judgement);
}

#[test]
fn fully_fenced_it_ends_early_and_harms_nobody() {
    let run = run(HOUR, Fence::Full);
    assert!(run.judgement.kinds().contains(&Kind::DoubleGrant), "{:#?}", run.judgement);
    assert_eq!(run.judgement.verdict, Verdict::SafeByFence, "{:#?}", run.judgement);
}

#[test]
fn five_hundred_ppm_are_within_a_margin_of_one_percent() {
    let text = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "60s"

[lock]
lease = "10s"
margin = "1%"

[topology]
apps = 2

[workload]
slow-per-mille = 500
slow-work = "9s"
patience = "30s"

[[clock]]
node = "redis-1"
rate = "+500ppm"
"#;
    let run = run(text, Fence::Off);
    assert!(!run.judgement.kinds().contains(&Kind::GrantLost), "{:#?}", run.judgement);
    assert_eq!(run.judgement.verdict, Verdict::Safe, "{:#?}", run.judgement);
}

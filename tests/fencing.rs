//! Does fencing hold where the lock fails? Full fencing: always; none: no; of writes
//! only: no. (The campaigns of 2,000 seeds are in docs/evidence; here is their smoke.)

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::plan::Fence;
use lockstorm_sim::storm::Storm;

const SEEDS: u64 = 150;

fn storm(fence: Fence) -> Storm {
    Storm::new("redis-failover").lock("redis").fence(fence).seeds(SEEDS)
}

#[test]
fn fully_fenced_a_lost_lock_sells_nothing_twice() {
    let outcome = storm(Fence::Full).outcome();
    assert_eq!(outcome.violations_of(Kind::EffectInterleaved), 0, "{outcome:?}");
    assert_eq!(outcome.violations_of(Kind::Oversell), 0, "{outcome:?}");
    assert!(
        outcome.verdicts_of(Verdict::SafeByFence) > 0,
        "the lock never failed, so nothing was shown: {:?}",
        outcome.verdicts
    );
}

#[test]
fn without_a_fence_the_same_storms_sell_units_twice() {
    let outcome = storm(Fence::Off).outcome();
    assert!(outcome.violations_of(Kind::Oversell) > 0, "{:?}", outcome.violations);
    assert!(outcome.violations_of(Kind::EffectInterleaved) > 0, "{:?}", outcome.violations);
    assert!(outcome.violations_of(Kind::DoubleGrant) > 0, "{:?}", outcome.violations);
}

#[test]
fn a_fence_that_looks_at_writes_only_lets_a_unit_be_sold_twice() {
    // A holder reads, stands still beyond its lease, another reads and works, the first
    // wakes and sells with the older token before the newer one was ever shown to a write.
    let text = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "6s"
fence = "write"

[lock]
lease = "1s"

[topology]
apps = 2

[workload]
units = 40
slow-per-mille = 1000
slow-work = "700ms"
work = "700ms"
deadline-check = false

[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "500ms"
"#;
    let written = lockstorm_sim::plan::file::parse("the test's plan", text).unwrap();
    let outcome = Storm::of(written.clone()).outcome();
    assert_eq!(outcome.violations_of(Kind::Oversell), 1, "{outcome:#?}");

    let full = lockstorm_sim::plan::Plan { fence: Fence::Full, ..written };
    let outcome = Storm::of(full).outcome();
    assert_eq!(outcome.violations_of(Kind::Oversell), 0, "{outcome:#?}");
}

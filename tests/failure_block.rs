//! What does a failing storm print?

use std::panic::{AssertUnwindSafe, catch_unwind};

use lockstorm_sim::plan::file;
use lockstorm_sim::seeds::SeedFile;
use lockstorm_sim::storm::Storm;

const PLAN: &str = r#"
schema = 1
scenario = "redis-failover"
seed = "0x5"
duration = "9s"

[topology]
apps = 2

[workload]
units = 1
think = "100ms"
slow-per-mille = 1000
slow-work = "4s"

[[fault]]
kind = "replication-stall"
node = "redis-1"
after = "app-1 acquire 1 invoked"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
"#;

/// The block, with what differs between builds made the same.
fn printed(storm: Storm) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| storm.run())).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    let lines = text.lines().map(|line| match line.starts_with("  build") {
        true => "  build   (of this program)",
        false => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_failing_storm_says_what_happened_why_and_how_to_see_it_again() {
    let plan = file::parse("the test's plan", PLAN).unwrap();
    insta::assert_snapshot!(printed(Storm::of(plan)));
}

#[test]
fn a_run_that_proves_nothing_says_what_is_missing() {
    let plan = file::parse("the test's plan", PLAN).unwrap().without_faults();
    let plan = plan.with_set("topology.apps", "1").unwrap();
    insta::assert_snapshot!(printed(Storm::of(plan)));
}

/// A grant before, or without, its record begins with the word to its client; where several
/// servers vote, a majority of them is what was missing.
#[test]
fn a_grant_that_no_majority_has_applied_is_told_as_that() {
    let text = r#"
schema = 1
scenario = "redlock-five"

[lock]
name = "planted/half-is-enough"

[[fault]]
kind = "partition"
from = "app-1"
to = ["redis-1", "redis-2", "redis-3"]
at = "1s"
for = "4s"

[[fault]]
kind = "partition"
from = ["app-2", "app-3"]
to = ["redis-4", "redis-5"]
at = "1s"
for = "4s"
"#;
    let told = printed(Storm::of(file::parse("the test's plan", text).unwrap()));
    let why = "The lock told its client of a grant that no majority of its servers had applied.";
    assert!(told.contains(why), "{told}");
    let second: Vec<&str> = told.lines().filter(|line| line.contains("second holder")).collect();
    assert!(matches!(second[..], [line] if line.contains("acquire of lock:sku-42")), "{told}");
}

/// At a database each connection is a session: what breaks it ends the lock at once.
#[test]
fn a_session_that_a_reset_ended_is_blamed_on_the_reset() {
    let text = r#"
schema = 1
scenario = "postgres-failover"
seed = "0x33"
duration = "15s"

[lock]
name = "pg-advisory"

[workload]
deadline-check = false
slow-per-mille = 1000

[[fault]]
kind = "reset"
from = "app-1"
to = "pg-1"
after = "app-1 read 3 applied"
"#;
    let told = printed(Storm::of(file::parse("the test's plan", text).unwrap()));
    let why: Vec<&str> = told.lines().skip_while(|line| !line.starts_with("  Why")).collect();
    insta::assert_snapshot!(why.join("\n"));
}

/// A commit that a promotion loses is the database's, whatever the lock.
#[test]
fn an_order_that_a_promotion_lost_is_blamed_on_it() {
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/seeds/known-unsafe/postgres-failover-lost-order-001.toml"
    );
    let text = std::fs::read_to_string(kept).unwrap();
    let told = printed(Storm::of(SeedFile::parse(kept, &text).unwrap().plan));
    let why: Vec<&str> = told.lines().skip_while(|line| !line.starts_with("  Why")).collect();
    insta::assert_snapshot!(why.join("\n"));
}

/// What a server had lost is told by what it keeps.
#[test]
fn a_restart_is_told_by_what_the_server_keeps() {
    let why = |persistence: &str| {
        let plan = file::parse("the test's plan", RESTART).unwrap();
        let plan = plan.with_set("topology.redis-persistence", persistence).unwrap();
        let text = printed(Storm::of(plan));
        let why = text.lines().skip_while(|line| !line.starts_with("  Why"));
        why.take_while(|line| !line.starts_with("  Try")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(["none", "rdb", "aof-everysec", "aof-no"].map(why).join("\n"));
}

const RESTART: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x2"
duration = "2s"

[lock]
lease = "5s"

[topology]
apps = 2

[workload]
units = 1
work = "1500ms"
slow-per-mille = 0

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;

//! Every Redis lock against every fault whose outcome theory knows: what must be broken,
//! and what must not.

#[path = "lock_matrix/columns.rs"]
mod columns;
mod on_both_engines;

use lockstorm_sim::check::Kind;

use columns::{COLUMNS, Column, Expected, expected};
use on_both_engines::{each, each_that_can, plan, told};

/// The locks that keep one record at a master.
const ON_ONE_MASTER: [&str; 6] =
    ["redis", "redis-watchdog", "redis-wait", "redis-sentinel", "redis-reentrant", "redis-fair"];

/// The old master is cut off, and a client with it: who lets it in all the same?
const TWO_MASTERS: Column = expected(
    "two masters, some clients at the old one",
    r#"
[[fault]]
kind = "partition"
from = ["redis-1", "app-1"]
to = ["redis-2", "redis-3", "sentinel-1", "sentinel-2", "sentinel-3", "app-2"]
after = "app-1 read 1 applied"
for = "7s"
"#,
    |lock| match lock {
        // Its grants need a replica, or most sentinels, on the client's side.
        "redis-wait" | "redis-sentinel" => Expected::Safe,
        _ => Expected::DoubleGrant,
    },
);

fn text_of(lock: &str, column: &Column) -> String {
    let scenario = if lock == "redlock" { "redlock-five" } else { "redis-failover" };
    let check = if column.careless { "false" } else { "true" };
    format!(
        r#"
schema = 1
scenario = "{scenario}"
seed = "0x2"
duration = "12s"

[lock]
name = "{lock}"
lease = "3s"

[topology]
apps = 2
redis-persistence = "{}"

[workload]
work = "{}"
slow-per-mille = 0
patience = "8s"
deadline-check = {check}
{}"#,
        column.persistence, column.work, column.faults
    )
}

/// What of a column is not as it should be.
fn wrong(lock: &str, column: &Column) -> Vec<String> {
    let expected = (column.expect)(lock);
    let wrong = std::sync::Mutex::new(Vec::new());
    each_that_can(&plan(&text_of(lock, column)), column.inexpressible, |run| {
        if !expected.is_met(run)
            && let Ok(mut wrong) = wrong.lock()
        {
            wrong.push(format!("{}: {}", column.name, told(run)));
        }
    });
    wrong.into_inner().unwrap_or_default()
}

fn cell(lock: &str, column: &Column) {
    let wrong = wrong(lock, column);
    assert!(wrong.is_empty(), "{lock}\n{}", wrong.join("\n"));
}

/// A lock against all columns. Each lock is a test of its own, so that they run side by side.
fn row(lock: &str) {
    let wrong: Vec<String> = COLUMNS.iter().flat_map(|column| wrong(lock, column)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn redis_does_what_theory_says() {
    row("redis");
}

#[test]
fn redis_watchdog_does_what_theory_says() {
    row("redis-watchdog");
}

#[test]
fn redis_wait_does_what_theory_says() {
    row("redis-wait");
}

#[test]
fn redis_sentinel_does_what_theory_says() {
    row("redis-sentinel");
}

#[test]
fn redis_reentrant_does_what_theory_says() {
    row("redis-reentrant");
}

#[test]
fn redis_fair_does_what_theory_says() {
    row("redis-fair");
}

#[test]
fn redlock_does_what_theory_says() {
    row("redlock");
}

#[test]
fn an_old_master_that_is_cut_off_with_a_client_lets_it_in_unless_the_lock_asks_others() {
    ON_ONE_MASTER.into_iter().for_each(|lock| cell(lock, &TWO_MASTERS));
}

/// The renewer stands still, the holder works on: for longer than the lease of three
/// seconds.
const RENEWER_PAUSED: Column = expected(
    "renewer paused alone, clients do not look",
    r#"
[[fault]]
kind = "pause"
node = "app-1"
group = "renewer"
after = "app-1 read 1 applied"
for = "6s"
"#,
    |_| Expected::OnlyInside(Kind::EffectInterleaved),
)
.careless();

#[test]
fn a_renewer_paused_alone_lets_two_inside_under_one_promise_at_a_time() {
    let lock = "redis-watchdog";
    let text = text_of(lock, &RENEWER_PAUSED).replace("work = \"1500ms\"", "work = \"4s\"");
    each(&text, |run| {
        assert!((RENEWER_PAUSED.expect)(lock).is_met(run), "{}", told(run));
    });
}

/// Replication stands still, the master's machine dies, the holder is inside for long.
const LAG: Column = expected(
    "lag",
    r#"
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
"#,
    |lock| match lock {
        "redis-wait" => Expected::Safe,
        _ => Expected::DoubleGrant,
    },
);

#[test]
fn a_failover_with_stalled_output_loses_every_lock_but_the_one_that_waits() {
    for lock in ON_ONE_MASTER {
        // The first renewal, which tells a holder of its loss, comes after the section.
        let text = text_of(lock, &LAG)
            .replace("lease = \"3s\"", "lease = \"15s\"")
            .replace("work = \"1500ms\"", "work = \"4s\"")
            .replace("duration = \"12s\"", "duration = \"20s\"");
        each(&text, |run| assert!((LAG.expect)(lock).is_met(run), "{}", told(run)));
    }
}

//! Every Redis lock against every fault whose outcome theory knows: what must be broken,
//! and what must not.

mod on_both_engines;

use lockstorm_sim::check::Kind;
use lockstorm_sim::storm::Run;

use on_both_engines::{each, each_that_can, is_struck, plan, told};

/// The locks that keep one record at a master.
const ON_ONE_MASTER: [&str; 6] =
    ["redis", "redis-watchdog", "redis-wait", "redis-sentinel", "redis-reentrant", "redis-fair"];

/// A fault, whether clients look at their deadline, and what a lock must come to.
struct Column {
    name: &'static str,
    faults: &'static str,
    careless: bool,
    expect: fn(&str) -> Expected,
    /// What of it turmoil cannot express.
    inexpressible: Option<&'static str>,
}

/// What must come of a storm.
enum Expected {
    /// The verdict is a safe one.
    Safe,
    /// This violation, and no promise broken.
    OnlyInside(Kind),
    /// Two promises at once.
    DoubleGrant,
}

impl Expected {
    /// Whether every fault struck, and this came of it.
    fn is_met(&self, run: &Run) -> bool {
        let judgement = &run.judgement;
        let is_right = match self {
            Expected::Safe => judgement.verdict.is_safe(),
            Expected::OnlyInside(kind) => {
                judgement.has_violation(*kind) && !judgement.found(Kind::DoubleGrant)
            }
            Expected::DoubleGrant => judgement.has_violation(Kind::DoubleGrant),
        };
        is_right && is_struck(run)
    }
}

fn safe(_: &str) -> Expected {
    Expected::Safe
}

/// A column whose clients look at their deadline, and whose lock holds.
const fn withstood(name: &'static str, faults: &'static str) -> Column {
    Column { name, faults, careless: false, expect: safe, inexpressible: None }
}

const COLUMNS: &[Column] = &[
    withstood("none", ""),
    withstood(
        "holder crash",
        r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 read 1 applied"
for = "1s"
"#,
    ),
    withstood(
        "holder pause beyond the lease, clients look",
        r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
    ),
    Column {
        name: "holder pause beyond the lease, clients do not look",
        faults: r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
        careless: true,
        expect: |_| Expected::OnlyInside(Kind::EffectInterleaved),
        inexpressible: None,
    },
    withstood(
        "holder hung",
        r#"
[[fault]]
kind = "hang"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
    ),
    withstood(
        "holder cut off",
        r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 read 1 applied"
for = "4s"
"#,
    ),
    Column {
        name: "a one-way cut, no reply comes back",
        faults: r#"
[[fault]]
kind = "partition"
from = ["redis-1", "redis-2", "redis-3"]
to = ["app-1"]
one-way = true
after = "app-1 acquire 2 invoked"
for = "1s"
"#,
        careless: false,
        expect: safe,
        inexpressible: Some("a one-way cut that delivers after the heal"),
    },
    withstood(
        "reply lost after it was applied",
        r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 acquire 2 applied"
"#,
    ),
    withstood(
        "reply lost, not applied",
        r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 acquire 2 invoked"
"#,
    ),
    withstood(
        "a server's clock 500 ppm fast",
        "[[clock]]\nnode = \"redis-1\"\nrate = \"+500ppm\"\n",
    ),
    Column {
        name: "a server's clock steps forward",
        faults: r#"
[[fault]]
kind = "clock-step"
node = "redis-1"
by = "+10s"
after = "app-1 read 1 applied"
"#,
        careless: false,
        expect: |lock| match lock {
            // One of five.
            "redlock" => Expected::Safe,
            _ => Expected::DoubleGrant,
        },
        inexpressible: None,
    },
];

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

[workload]
work = "1500ms"
slow-per-mille = 0
patience = "8s"
deadline-check = {check}
{}"#,
        column.faults
    )
}

fn row(lock: &str) {
    let mut wrong = Vec::new();
    for column in COLUMNS {
        let expected = (column.expect)(lock);
        let wrong = std::sync::Mutex::new(&mut wrong);
        each_that_can(&plan(&text_of(lock, column)), column.inexpressible, |run| {
            if !expected.is_met(run)
                && let Ok(mut wrong) = wrong.lock()
            {
                wrong.push(format!("{}: {}", column.name, told(run)));
            }
        });
    }
    assert!(wrong.is_empty(), "{lock}\n{}", wrong.join("\n"));
}

#[test]
fn locks_on_one_master_do_what_theory_says() {
    ON_ONE_MASTER.into_iter().for_each(row);
}

#[test]
fn redlock_does_what_theory_says() {
    row("redlock");
}

/// The renewer stands still, the holder works on: for longer than the lease of three
/// seconds.
const RENEWER_PAUSED: Column = Column {
    name: "renewer paused alone, clients do not look",
    faults: r#"
[[fault]]
kind = "pause"
node = "app-1"
group = "renewer"
after = "app-1 read 1 applied"
for = "6s"
"#,
    careless: true,
    expect: |_| Expected::OnlyInside(Kind::EffectInterleaved),
    inexpressible: None,
};

#[test]
fn a_renewer_paused_alone_lets_two_inside_under_one_promise_at_a_time() {
    let lock = "redis-watchdog";
    let text = text_of(lock, &RENEWER_PAUSED).replace("work = \"1500ms\"", "work = \"4s\"");
    each(&text, |run| {
        assert!((RENEWER_PAUSED.expect)(lock).is_met(run), "{}", told(run));
    });
}

/// Replication stands still, the master's machine dies, the holder is inside for long.
const LAG: Column = Column {
    name: "lag",
    faults: r#"
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
    careless: false,
    expect: |lock| match lock {
        "redis-wait" => Expected::Safe,
        _ => Expected::DoubleGrant,
    },
    inexpressible: None,
};

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

//! Every Redis lock against every fault whose outcome theory knows: what must be broken,
//! and what must not.

mod on_both_engines;

use lockstorm_sim::check::Kind;
use lockstorm_sim::plan::file;

use on_both_engines::{each, told};

/// The locks that keep one record at a master.
const ON_ONE_MASTER: [&str; 6] =
    ["redis", "redis-watchdog", "redis-wait", "redis-sentinel", "redis-reentrant", "redis-fair"];

/// A fault, whether clients look at their deadline, and what a lock must come to.
struct Column {
    name: &'static str,
    faults: &'static str,
    careless: bool,
    expect: fn(&str) -> Expected,
}

/// What must come of a storm.
enum Expected {
    /// No violation at all.
    Safe,
    /// This violation, and no promise broken.
    OnlyInside(Kind),
    /// Two promises at once.
    DoubleGrant,
    /// A race that either may win.
    Either,
}

fn safe(_: &str) -> Expected {
    Expected::Safe
}

const COLUMNS: &[Column] = &[
    Column { name: "none", faults: "", careless: false, expect: safe },
    Column {
        name: "holder crash",
        faults: r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 read 1 applied"
for = "1s"
"#,
        careless: false,
        expect: safe,
    },
    Column {
        name: "holder pause beyond the lease, clients look",
        faults: r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
        careless: false,
        expect: safe,
    },
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
    },
    Column {
        name: "renewer paused alone, clients do not look",
        faults: r#"
[[fault]]
kind = "pause"
node = "app-1"
group = "renewer"
after = "app-1 read 1 applied"
for = "4s"
"#,
        careless: true,
        expect: |_| Expected::Either,
    },
    Column {
        name: "holder hung",
        faults: r#"
[[fault]]
kind = "hang"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
        careless: false,
        expect: safe,
    },
    Column {
        name: "holder cut off",
        faults: r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 read 1 applied"
for = "4s"
"#,
        careless: false,
        expect: safe,
    },
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
    },
    Column {
        name: "reply lost after it was applied",
        faults: r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 acquire 2 applied"
"#,
        careless: false,
        expect: safe,
    },
    Column {
        name: "reply lost, not applied",
        faults: r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
after = "app-1 acquire 2 invoked"
"#,
        careless: false,
        expect: safe,
    },
    Column {
        name: "a server's clock 500 ppm fast",
        faults: "[[clock]]\nnode = \"redis-1\"\nrate = \"+500ppm\"\n",
        careless: false,
        expect: safe,
    },
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
    },
];

fn plan(lock: &str, column: &Column) -> String {
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
        let text = plan(lock, column);
        let faults = file::parse("plan", &text).map(|plan| plan.faults.len());
        assert!(faults.is_ok(), "{}: {faults:?}", column.name);
        let expected = (column.expect)(lock);
        let wrong = std::sync::Mutex::new(&mut wrong);
        each(&text, |run| {
            let judgement = &run.judgement;
            let broken: Vec<Kind> = judgement.violations().map(|found| found.kind).collect();
            let is_right = match expected {
                Expected::Safe => broken.is_empty(),
                Expected::OnlyInside(kind) => {
                    broken.contains(&kind) && !broken.contains(&Kind::DoubleGrant)
                }
                Expected::DoubleGrant => broken.contains(&Kind::DoubleGrant),
                Expected::Either => true,
            };
            if !is_right && let Ok(mut wrong) = wrong.lock() {
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

/// Replication stands still, the master's machine dies, the holder is inside for long.
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
fn a_failover_with_stalled_output_loses_every_lock_but_the_one_that_waits() {
    let column = Column { name: "lag", faults: LAG, careless: false, expect: safe };
    for lock in ON_ONE_MASTER {
        let text = plan(lock, &column).replace("\"3s\"\n\n[topology]", "\"9s\"\n\n[topology]");
        let text = text.replace("work = \"1500ms\"", "work = \"4s\"");
        each(&text, |run| {
            let found = run.judgement.found(Kind::DoubleGrant);
            match lock {
                "redis-wait" => assert!(!found, "{}", told(run)),
                // Told of the loss by its renewal, it may be out before the next is in.
                "redis-watchdog" => {}
                _ => assert!(found, "{}", told(run)),
            }
        });
    }
}

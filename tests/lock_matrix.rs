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
    /// How long a section takes; the lease is 3 s, and its holder stops acting after 2.97 s.
    work: &'static str,
    /// What the servers keep on their disks.
    persistence: &'static str,
}

/// What must come of a storm.
enum Expected {
    /// The verdict is a safe one.
    Safe,
    /// This violation, and no promise broken.
    OnlyInside(Kind),
    /// Two promises at once.
    DoubleGrant,
    /// A grant is lost, and on our own engine given to another while it lasts. Whether somebody
    /// asks in that time hangs on how long a message takes, under turmoil a tick or more.
    DoubleGrantIfAsked,
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
            Expected::DoubleGrantIfAsked => {
                judgement.found(Kind::GrantLost)
                    && (run.engine.starts_with("turmoil")
                        || judgement.has_violation(Kind::DoubleGrant))
            }
        };
        is_right && is_struck(run)
    }
}

fn safe(_: &str) -> Expected {
    Expected::Safe
}

/// A column whose clients look at their deadline, and whose lock holds.
const fn withstood(name: &'static str, faults: &'static str) -> Column {
    expected(name, faults, safe)
}

/// A column whose clients look at their deadline.
const fn expected(
    name: &'static str,
    faults: &'static str,
    expect: fn(&str) -> Expected,
) -> Column {
    Column {
        name,
        faults,
        careless: false,
        expect,
        inexpressible: None,
        work: "1500ms",
        persistence: "none",
    }
}

impl Column {
    const fn careless(self) -> Column {
        Column { careless: true, ..self }
    }

    const fn inexpressible(self, what: &'static str) -> Column {
        Column { inexpressible: Some(what), ..self }
    }

    /// Sections end between the end of the lease by a wrong clock and by a right one.
    const fn until_the_last(self) -> Column {
        Column { work: "2900ms", ..self }
    }

    const fn keeping(self, persistence: &'static str) -> Column {
        Column { persistence, ..self }
    }
}

/// A server whose clock is ahead ends a lease early; not one that is renewed long before, and
/// not that of a majority of others.
fn too_early_unless_renewed(lock: &str) -> Expected {
    match lock {
        "redis-watchdog" | "redlock" => Expected::Safe,
        _ => Expected::DoubleGrant,
    }
}

/// A server that has forgotten its record grants it again; of five one may.
fn forgotten(lock: &str) -> Expected {
    if lock == "redlock" { Expected::Safe } else { Expected::DoubleGrant }
}

/// As [`forgotten`], by a server that was away for a moment.
fn forgotten_after_a_moment(lock: &str) -> Expected {
    if lock == "redis-wait" { Expected::DoubleGrantIfAsked } else { forgotten(lock) }
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
    expected(
        "holder pause beyond the lease, clients do not look",
        r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
        |_| Expected::OnlyInside(Kind::EffectInterleaved),
    )
    .careless(),
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
    withstood(
        "a one-way cut, no reply comes back",
        r#"
[[fault]]
kind = "partition"
from = ["redis-1", "redis-2", "redis-3"]
to = ["app-1"]
one-way = true
after = "app-1 acquire 2 invoked"
for = "1s"
"#,
    )
    .inexpressible("a one-way cut that delivers after the heal"),
    withstood(
        "a one-way cut, no request arrives",
        r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3"]
one-way = true
after = "app-1 acquire 2 invoked"
for = "1s"
"#,
    )
    .inexpressible("a one-way cut that delivers after the heal"),
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
    )
    .until_the_last(),
    withstood("a server's clock 5 % slow", "[[clock]]\nnode = \"redis-1\"\nrate = \"-5%\"\n")
        .until_the_last(),
    expected(
        "a server's clock 5 % fast",
        "[[clock]]\nnode = \"redis-1\"\nrate = \"+5%\"\n",
        |lock| match lock {
            "redis-reentrant" => Expected::DoubleGrantIfAsked,
            lock => too_early_unless_renewed(lock),
        },
    )
    .until_the_last(),
    withstood("a client's clock 5 % fast", "[[clock]]\nnode = \"app-1\"\nrate = \"+5%\"\n")
        .until_the_last(),
    // It stays on for too long and is told so (`overstay`); nobody else was promised that time.
    withstood("a client's clock 5 % slow", "[[clock]]\nnode = \"app-1\"\nrate = \"-5%\"\n")
        .until_the_last(),
    expected(
        "a server's clock steps forward",
        r#"
[[fault]]
kind = "clock-step"
node = "redis-1"
by = "+10s"
after = "app-1 read 1 applied"
"#,
        forgotten,
    ),
    withstood(
        "a server's clock steps back",
        r#"
[[fault]]
kind = "clock-step"
node = "redis-1"
by = "-10s"
after = "app-1 read 1 applied"
"#,
    ),
    withstood(
        "a server's clock is slewed back",
        r#"
[[fault]]
kind = "clock-slew"
node = "redis-1"
by = "-250ms"
rate = "10%"
after = "app-1 read 1 applied"
"#,
    )
    .until_the_last(),
    expected(
        "a server's clock is slewed forward",
        r#"
[[fault]]
kind = "clock-slew"
node = "redis-1"
by = "+250ms"
rate = "10%"
after = "app-1 read 1 applied"
"#,
        |lock| match lock {
            // Its waiter asked how long the record has, and does not come back before.
            "redis-reentrant" => Expected::Safe,
            lock => too_early_unless_renewed(lock),
        },
    )
    .until_the_last(),
    expected(
        "a server's power is cut and it comes back empty before anybody notices",
        FORGETFUL,
        forgotten_after_a_moment,
    ),
    expected(
        "a server's process dies and comes back empty before anybody notices",
        BRIEFLY_DEAD,
        forgotten_after_a_moment,
    ),
    // The kernel has what was written, and it outlives the process.
    withstood("the same, and it writes an append-only file", BRIEFLY_DEAD).keeping("aof-everysec"),
    // What was granted has been replicated by then, and the new master has it.
    withstood(
        "a master's process dies for good",
        r#"
[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 read 1 applied"
"#,
    ),
    withstood(
        "a master's machine dies for good",
        r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 read 1 applied"
"#,
    ),
    withstood(
        "its power is cut, and it synchronises its append-only file before it answers",
        FORGETFUL,
    )
    .keeping("aof-always"),
    expected(
        "its power is cut, and it synchronises its append-only file once a second",
        FORGETFUL,
        forgotten_after_a_moment,
    )
    .keeping("aof-everysec"),
    withstood(
        "a server's disk stands still",
        r#"
[[fault]]
kind = "disk-stall"
node = "redis-1"
after = "app-1 acquire 1 invoked"
for = "800ms"
"#,
    )
    .keeping("aof-always"),
    withstood(
        "a server's disk is slow",
        r#"
[[fault]]
kind = "disk-slow"
node = "redis-1"
extra = "60ms"
after = "app-1 read 1 applied"
for = "4s"
"#,
    )
    .keeping("aof-always"),
    withstood(
        "a server's disk fails while there is a holder: the server ends itself",
        r#"
[[fault]]
kind = "disk-error"
node = "redis-1"
after = "app-1 read 1 applied"
for = "4s"
"#,
    )
    .keeping("aof-always"),
];

const FORGETFUL: &str = r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;

const BRIEFLY_DEAD: &str = r#"
[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;

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

#[test]
fn locks_on_one_master_do_what_theory_says() {
    let wrong: Vec<String> = ON_ONE_MASTER
        .into_iter()
        .flat_map(|lock| COLUMNS.iter().flat_map(move |column| wrong(lock, column)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn redlock_does_what_theory_says() {
    let wrong: Vec<String> = COLUMNS.iter().flat_map(|column| wrong("redlock", column)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

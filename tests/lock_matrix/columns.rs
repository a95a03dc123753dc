//! What a lock is put through, and what must come of it.

use lockstorm_sim::check::Kind;
use lockstorm_sim::storm::Run;

use crate::on_both_engines::is_struck;

/// A fault, whether clients look at their deadline, and what a lock must come to.
pub struct Column {
    pub name: &'static str,
    pub faults: &'static str,
    pub careless: bool,
    pub expect: fn(&str) -> Expected,
    /// What of it turmoil cannot express.
    pub inexpressible: Option<&'static str>,
    /// How long a section takes; the lease is 3 s, and its holder stops acting after 2.97 s.
    pub work: &'static str,
    /// What the servers keep on their disks.
    pub persistence: &'static str,
}

/// What must come of a storm.
pub enum Expected {
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
    pub fn is_met(&self, run: &Run) -> bool {
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
pub const fn withstood(name: &'static str, faults: &'static str) -> Column {
    expected(name, faults, safe)
}

/// A column whose clients look at their deadline.
pub const fn expected(
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
    pub const fn careless(self) -> Column {
        Column { careless: true, ..self }
    }

    pub const fn inexpressible(self, what: &'static str) -> Column {
        Column { inexpressible: Some(what), ..self }
    }

    /// Sections end between the end of the lease by a wrong clock and by a right one.
    pub const fn until_the_last(self) -> Column {
        Column { work: "2900ms", ..self }
    }

    pub const fn keeping(self, persistence: &'static str) -> Column {
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

/// What each lock is put through.
pub const COLUMNS: &[Column] = &[
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

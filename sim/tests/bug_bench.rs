//! Is every planted bug found by the plan that is directed at it, and is its mended twin clean
//! under the same plan? Does docs/bugs.md speak of all reports?

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::history::{AcquireOutcome, What};
use lockstorm_sim::plan::{Fence, Plan, Seed, file, scenario};
use lockstorm_sim::planted::{BUGS, Bug, Half, WASTES};
use lockstorm_sim::storm::{self, Run, Storm};

/// The bug, the seed, and the faults that are directed at it.
struct Directed {
    bug: &'static str,
    seed: u64,
    /// Settings beside those of the bug's storm.
    settings: &'static [(&'static str, &'static str)],
    faults: &'static str,
}

const fn by(bug: &'static str, faults: &'static str) -> Directed {
    Directed { bug, seed: 1, settings: &[], faults }
}

/// Every section is slow.
const SLOW: (&str, &str) = ("workload.slow-per-mille", "1000");

const DIRECTED: &[Directed] = &[
    by("no-deadline", PAUSED_PAST_ITS_LEASE),
    by("bare-del", PAUSED_PAST_ITS_LEASE),
    Directed {
        seed: 2,
        settings: &[SLOW],
        // Its GET is answered while it stands still; its lease ends meanwhile.
        ..by(
            "get-then-del",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "20ms"
after = "app-1 release 2 invoked"
for = "1s"

[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 release 2 invoked"
delay = "30ms"
for = "480ms"
"#,
        )
    },
    by("setnx-then-expire", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("waiters-renew", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("lease-cut-to-seconds", ""),
    Directed {
        seed: 2,
        settings: &[SLOW],
        // After its first renewal.
        ..by(
            "expire-in-seconds",
            r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 read 1 applied"
delay = "500ms"
"#,
        )
    },
    Directed { seed: 2, settings: &[SLOW], ..by("loss-not-noticed", CUT_OFF_PAST_ITS_LEASE) },
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "renewal-not-retried",
            r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 read 1 applied"
delay = "200ms"
for = "600ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW, ("topology.apps", "2")],
        ..by("stale-renewal-entry", CUT_OFF_PAST_ITS_LEASE)
    },
    by(
        "renewal-outlives-hold",
        r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
after = "app-1 release 3 invoked"
delay = "100us"
"#,
    ),
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "armed-by-callback",
            r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 1
await = 1
delay = "300us"
"#,
        )
    },
    Directed { seed: 2, settings: &[SLOW], ..by("renew-without-owner", PAUSED_IN_LONG_WORK) },
    Directed { seed: 2, settings: &[SLOW], ..by("renew-by-set", PAUSED_IN_LONG_WORK) },
    Directed {
        seed: 2,
        ..by(
            "resent-del",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 release 3 applied"
for = "450ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW],
        ..by(
            "own-record-as-new",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 acquire 1 applied"
for = "480ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        // The reply is lost, and the request sent again.
        ..by(
            "counted-again",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 acquire 1 applied"
for = "480ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        // It dies in the queue.
        ..by(
            "ghost-in-queue",
            r#"
[[fault]]
kind = "process-crash"
node = "app-2"
after = "app-2 acquire 2 invoked"
delay = "50ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "lease-from-reply",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "200ms"
at = "0s"
for = "8s"
"#,
        )
    },
    by("client-clock-expiry", A_CLOCK_AHEAD),
    by("token-from-clock", A_CLOCK_AHEAD),
    by(
        "local-lock-kept",
        r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "1.2s"

[[fault]]
kind = "pause"
node = "app-2"
after = "app-2 read 6 applied"
for = "1.2s"
"#,
    ),
    by("released-regardless", PAUSED_PAST_ITS_LEASE),
    by("released-at-once", ""),
    by("get-then-set", ""),
    Directed {
        seed: 4,
        // What is sent again of the given-up attempt comes after the next one was granted.
        ..by(
            "one-owner-a-process",
            r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 acquire 3 invoked"
for = "640ms"
"#,
        )
    },
    by("open-on-timeout", PAUSED_PAST_ITS_LEASE),
    by(
        "open-on-error",
        r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
at = "2s"
for = "2s"
"#,
    ),
    by(
        "token-before-lock",
        r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "100ms"
at = "1s"
for = "4s"
"#,
    ),
    by("token-expires", PAUSED_PAST_ITS_LEASE),
    Directed {
        settings: &[SLOW],
        // Who waits is subscribed no more, and the other stops soon after.
        ..by(
            "woken-by-message-alone",
            r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
at = "9300ms"

[[fault]]
kind = "reset"
from = "app-2"
to = "redis-1"
at = "9300ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW, ("topology.apps", "2")],
        // A round takes more than half of the lease; the other asks while that is worked.
        ..by(
            "lease-from-last-vote",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = ["redis-1", "redis-2", "redis-3", "redis-4", "redis-5"]
extra = "70ms"
at = "0s"
for = "8s"

[[fault]]
kind = "pause"
node = "app-2"
at = "0s"
for = "900ms"
"#,
        )
    },
    by(
        "half-is-enough",
        r#"
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
"#,
    ),
    by("session-ignored", PAUSED_PAST_ITS_LEASE),
    by(
        "stands-behind-itself",
        r#"
[[fault]]
kind = "reset"
from = "app-1"
to = ["zk-1", "zk-2", "zk-3"]
after = "app-1 acquire 3 applied"
"#,
    ),
    by(
        "place-left-behind",
        r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 3
await = 2
"#,
    ),
    Directed {
        settings: &[SLOW],
        // By then another has come and stands behind it.
        ..by(
            "gone-means-ours",
            r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 3
await = 4
delay = "1s"
"#,
        )
    },
    Directed { settings: &[SLOW], ..by("searched-unsorted", "") },
    Directed { settings: &[SLOW], ..by("row-deleted-by-key", PAUSED_PAST_ITS_LEASE) },
    by(
        "expiry-of-clients",
        r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#,
    ),
    by("row-without-expiry", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("connection-not-watched", PAUSED_PAST_ITS_LEASE),
    by(
        "vanished-client-kept",
        // With nothing on its way to it: what is sent again would find a machine that has
        // come back and knows of no connection.
        r#"
[[fault]]
kind = "machine-crash"
node = "app-1"
after = "app-1 read 3 applied"
delay = "5ms"
"#,
    ),
];

const PAUSED_PAST_ITS_LEASE: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "5.03s"
"#;

const HOLDER_DIES_AS_IT_IS_GRANTED: &str = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 3 applied"
"#;

const CUT_OFF_PAST_ITS_LEASE: &str = r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 read 1 applied"
for = "1.2s"
"#;

const PAUSED_IN_LONG_WORK: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "1.2s"
"#;

const A_CLOCK_AHEAD: &str = r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#;

/// Has the client of ZooKeeper read the clocks of its node.
fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

fn bug(name: &str) -> &'static Bug {
    BUGS.iter()
        .chain(WASTES)
        .find(|bug| bug.name == name)
        .unwrap_or_else(|| panic!("no bug is called {name}"))
}

fn plan(directed: &Directed, half: Half) -> Plan {
    let bug = bug(directed.bug);
    let plan = scenario::default_plan(bug.scenario, &bug.lock_name(half), bug.fence).unwrap();
    let settings: Vec<_> = bug.settings.iter().chain(directed.settings).copied().collect();
    let plan = plan.with_settings(&settings).unwrap();
    let plan = Plan { seed: Seed(directed.seed), ..plan };
    let text = format!("{}{}", file::write(&plan), directed.faults);
    file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn shown(run: &Run, bug: &Bug) -> BTreeSet<&'static str> {
    let is_shown = |kind: &&Kind| run.judgement.has_violation(**kind);
    let ids = Kind::ALL.iter().filter(is_shown).map(|kind| kind.id());
    ids.filter(|id| bug.shows.contains(id)).collect()
}

#[test]
fn each_directed_plan_finds_its_bug_and_passes_the_mended_twin() {
    install_senses();
    let named: BTreeSet<&str> = DIRECTED.iter().map(|directed| directed.bug).collect();
    let all: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    assert_eq!(named, all);
    let mut failures = Vec::new();
    for directed in DIRECTED {
        let bug = bug(directed.bug);
        let [planted, mended] = [Half::Planted, Half::Mended]
            .map(|half| storm::run(&plan(directed, half), &EventEngine));
        if shown(&planted, bug).is_empty() {
            failures.push(format!("{} is not found: {}", bug.name, told(&planted)));
        }
        let verdict = mended.judgement.verdict;
        // A fault of a clock that nobody reads any more is inert.
        let is_clean = verdict.is_safe() || verdict == Verdict::Inert;
        if !is_clean || !mended.judgement.findings.iter().all(is_advisory) {
            failures.push(format!("{} mended is {verdict}: {}", bug.name, told(&mended)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn is_advisory(finding: &lockstorm_sim::check::Finding) -> bool {
    finding.severity == lockstorm_sim::check::Severity::Advisory
}

fn told(run: &Run) -> String {
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for finding in &run.judgement.findings {
        *kinds.entry(finding.kind.id()).or_default() += 1;
    }
    let stuck = run.ending.stuck.as_deref().unwrap_or_default();
    let inert = run.judgement.goals.inert.len();
    let handovers = run.judgement.goals.handovers;
    format!("{} {kinds:?} handovers {handovers} inert {inert} {stuck}", run.judgement.verdict)
}

/// How many messages a grant costs, of 12 clients that mostly wait.
fn messages_of_a_grant(waste: &Bug, half: Half) -> u64 {
    let plan = scenario::default_plan(waste.scenario, &waste.lock_name(half), waste.fence);
    let settings = [("topology.apps", "12"), ("workload.patience", "1m"), ("duration", "5s")];
    let run = storm::run(&plan.unwrap().with_settings(&settings).unwrap(), &EventEngine);
    assert!(run.judgement.verdict.is_safe(), "{}", told(&run));
    let is_grant = |what: &What| {
        matches!(what, What::AcquireReturned { outcome: AcquireOutcome::Granted { .. }, .. })
    };
    let grants = run.history.iter().filter(|event| is_grant(&event.what)).count() as u64;
    assert!(grants > 20, "{grants} grants");
    run.ending.messages / grants
}

#[test]
fn whoever_watches_the_whole_queue_is_woken_by_every_release() {
    install_senses();
    let waste = bug("parent-watched");
    let [all, one] = [Half::Planted, Half::Mended].map(|half| messages_of_a_grant(waste, half));
    // Ten others hear of it, and each asks twice who is first.
    assert!(all > one + 10 * 3, "{all} messages a grant, and {one} where one is woken");
}

/// Its client was told before any server had a record of it: the story marks that.
#[test]
fn a_grant_before_its_record_is_marked_where_its_client_is_told() {
    install_senses();
    let directed = DIRECTED.iter().find(|directed| directed.bug == "gone-means-ours").unwrap();
    let storm = Storm::of(plan(directed, Half::Planted));
    let panic = catch_unwind(AssertUnwindSafe(|| storm.run())).unwrap_err();
    let told = panic.downcast_ref::<String>().unwrap();
    let marked: Vec<&str> = told.lines().filter(|line| line.contains('✗')).collect();
    assert!(marked[0].contains("returns as"), "{told}");
}

#[test]
fn the_storms_of_the_bugs_are_possible() {
    for bug in BUGS {
        let made = Plan::from_seed_with(
            bug.scenario,
            &bug.lock_name(Half::Planted),
            bug.fence,
            Seed(7),
            bug.settings,
        );
        let plan = made.unwrap_or_else(|error| panic!("{}: {error}", bug.name));
        assert!(plan.fence == Fence::Off || bug.ordered_tokens, "{}", bug.name);
    }
}

/// A row of the table in docs/bugs.md.
struct Row<'a> {
    number: u32,
    class: &'a str,
    shown_by: &'a str,
}

const DOCUMENT: &str = include_str!("../../docs/bugs.md");

fn rows() -> Vec<Row<'static>> {
    let tables = DOCUMENT.lines().filter(|line| line.starts_with("| "));
    let cells = tables.map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
    let of_reports = cells.filter_map(|cells: Vec<&str>| match cells[..] {
        [number, _, _, _, class, shown_by] => {
            number.parse().ok().map(|number| Row { number, class, shown_by })
        }
        _ => None,
    });
    of_reports.collect()
}

/// What stands in back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_report_is_spoken_of_once() {
    let numbers: Vec<u32> = rows().iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=74).collect::<Vec<_>>());
    let mut classes: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows() {
        let class = if row.class.starts_with("waits for ") { "wait" } else { row.class };
        *classes.entry(class).or_default() += 1;
        assert!(["direct", "analogue", "out of scope", "wait"].contains(&class), "{}", row.number);
        let shows = quoted(row.shown_by).count();
        assert_eq!(shows > 0, matches!(class, "direct" | "analogue"), "{}", row.number);
        assert!(!row.shown_by.is_empty(), "{}", row.number);
    }
    let told = format!(
        "{} direct, {} analogues, {} out of scope, {} wait.",
        classes["direct"], classes["analogue"], classes["out of scope"], classes["wait"]
    );
    assert!(DOCUMENT.contains(&told), "{told}");
}

#[test]
fn whatever_shows_a_report_exists_and_every_planted_bug_says_where_it_is_from() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let mut named = BTreeSet::new();
    for name in DOCUMENT.lines().filter(|line| line.starts_with("| ")).flat_map(quoted) {
        if let Some(bug) = name.strip_prefix("planted/") {
            named.insert(bug);
        } else if name.starts_with("seeds/") {
            assert!(std::path::Path::new(&format!("{root}{name}")).exists(), "{name}");
        }
    }
    let planted: BTreeSet<&str> = BUGS.iter().chain(WASTES).map(|bug| bug.name).collect();
    assert_eq!(named, planted);
}

/// Exit code, output, errors.
fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
    let output = command.args(["bench", "bugs"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_bench_writes_its_hunts_down_and_makes_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("bench.ndjson");
    let journal = journal.to_str().unwrap();
    let asked = ["--bug", "get-then-set", "--strategy", "swarm", "--budget", "20"];
    let rest = ["--repeat", "3", "--jobs", "2", "--journal", journal, "--format", "json"];
    let all = [&asked[..], &rest].concat();
    let (code, first, _) = bench(&all);
    assert_eq!(code, Some(0), "{first}");
    let written = std::fs::read_to_string(journal).unwrap();
    assert_eq!(written.lines().count(), 3);
    // Cut short, as by a kill: that hunt alone is made again.
    std::fs::write(journal, &written[..written.len() - 9]).unwrap();
    let (code, again, _) = bench(&all);
    assert_eq!(code, Some(0));
    assert_eq!(std::fs::read_to_string(journal).unwrap().lines().count(), 3);
    // CPU times of the one hunt may differ; nothing else does.
    let executions = |text: &str| {
        let report: serde_json::Value = serde_json::from_str(text).unwrap();
        report["rows"][0]["own"]["executions"].clone()
    };
    assert_eq!(executions(&first), executions(&again));
    assert!(executions(&first)["median"]["found"].is_u64(), "{first}");
}

#[test]
fn a_bug_that_is_none_and_a_journal_that_cannot_be_read_are_refused() {
    let (code, _, told) = bench(&["--bug", "bare-dell"]);
    assert_eq!(code, Some(64));
    assert!(told.contains("bare-del,"), "{told}");
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("bench.ndjson");
    std::fs::write(&journal, "nonsense\n").unwrap();
    let (code, _, told) = bench(&["--bug", "bare-del", "--journal", journal.to_str().unwrap()]);
    assert_eq!(code, Some(64));
    assert!(told.contains("line 1"), "{told}");
}

//! Is every planted bug found by the plan that is directed at it, and is its mended twin clean
//! under the same plan? Does docs/bugs.md speak of all reports?

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::check::Kind;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::{Fence, Plan, Seed, file, scenario};
use lockstorm_sim::planted::{BUGS, Bug, Half};
use lockstorm_sim::storm::{self, Run};

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

const DIRECTED: &[Directed] = &[
    by("no-deadline", PAUSED_IN_ITS_SECTION),
    by("bare-del", PAUSED_IN_ITS_SECTION),
    by(
        "get-then-del",
        r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "50ms"
after = "app-1 read 3 applied"
for = "1s"

[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 release 3 invoked"
delay = "70ms"
for = "5s"
"#,
    ),
    by("setnx-then-expire", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("waiters-renew", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("lease-cut-to-seconds", ""),
    Directed {
        settings: &[("workload.slow-per-mille", "1000")],
        ..by(
            "expire-in-seconds",
            r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 2 returned"
delay = "500ms"
"#,
        )
    },
    by("loss-not-noticed", LONG_CUT),
    by(
        "renewal-not-retried",
        r#"
[[fault]]
kind = "reset"
from = ["app-1", "app-2", "app-3"]
to = "redis-1"
at = "2s"
"#,
    ),
    by("stale-renewal-entry", ""),
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
    by(
        "armed-by-callback",
        r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 3
await = 1
delay = "300us"
"#,
    ),
    by("renew-without-owner", LONG_CUT),
    by("renew-by-set", LONG_CUT),
    by(
        "resent-del",
        r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 release 3 applied"
for = "400ms"
"#,
    ),
    by("own-record-as-new", ""),
    by("lease-from-reply", ""),
    by(
        "client-clock-expiry",
        r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#,
    ),
    by(
        "token-from-clock",
        r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#,
    ),
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
    by("released-regardless", PAUSED_IN_ITS_SECTION),
    by("released-at-once", ""),
    by("get-then-set", ""),
    by("one-owner-a-process", ""),
    by("open-on-timeout", PAUSED_IN_ITS_SECTION),
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
    by("token-expires", PAUSED_IN_ITS_SECTION),
];

const PAUSED_IN_ITS_SECTION: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "5.01s"
"#;

const HOLDER_DIES_AS_IT_IS_GRANTED: &str = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 3 applied"
"#;

const LONG_CUT: &str = r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 read 3 applied"
for = "1.2s"
"#;

fn bug(name: &str) -> &'static Bug {
    BUGS.iter().find(|bug| bug.name == name).unwrap_or_else(|| panic!("no bug is called {name}"))
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
        if !verdict.is_safe() || !mended.judgement.findings.iter().all(is_advisory) {
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

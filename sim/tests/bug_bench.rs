//! Is every planted bug found by the plan that is directed at it, and is its mended twin clean
//! under the same plan? Does docs/bugs.md speak of all reports?

#[path = "bug_bench/directed.rs"]
mod directed;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use assert_cmd::Command;
use directed::{DIRECTED, Directed};
use lockstorm_interpose::Senses;
use lockstorm_sim::check::{InertFault, Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::history::{AcquireOutcome, What};
use lockstorm_sim::plan::{Fence, Plan, Seed, file, scenario};
use lockstorm_sim::planted::{BUGS, Bug, Half, OF_ORDER, WASTES};
use lockstorm_sim::storm::{self, Run, Storm};

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
        let is_of_clocks =
            |inert: &InertFault| directed_kind(directed, inert.fault).contains("clock-");
        let is_clean = verdict.is_safe()
            || (verdict == Verdict::Inert && mended.judgement.goals.inert.iter().all(is_of_clocks));
        if !is_clean || !mended.judgement.findings.iter().all(is_advisory) {
            failures.push(format!("{} mended is {verdict}: {}", bug.name, told(&mended)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The kind of a fault, as its plan says it.
fn directed_kind(directed: &Directed, fault: usize) -> &'static str {
    let mut kinds = directed.faults.lines().filter_map(|line| line.strip_prefix("kind = "));
    kinds.nth(fault).unwrap_or_default()
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

/// What was sold when, and to which order.
fn sales_of(run: &Run) -> Vec<(u64, String)> {
    let sale = |event: &lockstorm_sim::history::Event| match &event.what {
        What::Effect { owner, accepted: true, .. } => Some((event.at_us, owner.to_string())),
        _ => None,
    };
    run.history.iter().filter_map(sale).collect()
}

/// A buyer dies at the row that it has taken: nobody else would ever sell.
#[test]
fn a_state_of_somebody_who_has_died_is_not_for_ever() {
    let bug = bug("state-goes-round");
    for half in [Half::Planted, Half::Mended] {
        let plan = scenario::default_plan(bug.scenario, &bug.lock_name(half), bug.fence).unwrap();
        let plan = Plan { seed: Seed(5), ..plan.with_settings(bug.settings).unwrap() };
        let (lease_us, mut left_taken) = (plan.lock.lease.0, 0);
        let (sold_at_us, order) = sales_of(&storm::run(&plan, &EventEngine)).swap_remove(3);
        let node = order.split('/').next().unwrap();
        // The row is taken with one commit and sold with the next one, some milliseconds later.
        for earlier_us in (500..=5_000).step_by(500) {
            let dies_at_us = sold_at_us - earlier_us;
            let text = format!(
                "{}\n[[fault]]\nkind = \"process-crash\"\nnode = \"{node}\"\nat = \
                 \"{dies_at_us}us\"\nfor = \"6s\"\n",
                file::write(&plan)
            );
            let run = storm::run(&file::parse("the test's plan", &text).unwrap(), &EventEngine);
            let mut later = sales_of(&run).into_iter().map(|(at_us, _)| at_us);
            let next_at_us = later.find(|at_us| *at_us > sold_at_us);
            let next_at_us = next_at_us.unwrap_or_else(|| panic!("nobody sells: {}", told(&run)));
            assert!(next_at_us < dies_at_us + 2 * lease_us, "{next_at_us}");
            left_taken += u32::from(next_at_us >= dies_at_us + lease_us);
            let is_clean = run.judgement.verdict.is_safe();
            assert!(is_clean || !half.is_mended(), "{}", told(&run));
        }
        assert!(left_taken > 0, "it had not taken the row");
    }
}

/// Two slow sections take longer than a lease: what was locked first is looked at again.
#[test]
fn whoever_locks_item_by_item_looks_at_every_lock_before_the_commit() {
    let bug = bug("unlocked-one-by-one");
    let plan =
        scenario::default_plan(bug.scenario, &bug.lock_name(Half::Mended), bug.fence).unwrap();
    let settings = [bug.settings, &[("workload.slow-per-mille", "1000")]].concat();
    let plan = plan.with_settings(&settings).unwrap();
    let (mut sold, mut given_up) = (0, 0);
    for seed in 1..=20 {
        let run = storm::run(&Plan { seed: Seed(seed), ..plan.clone() }, &EventEngine);
        assert!(run.judgement.verdict.is_safe(), "seed {seed}: {}", told(&run));
        sold += sales_of(&run).len();
        let is_end = |what: &What| matches!(what, What::BeliefEnded { .. });
        given_up += run.history.iter().filter(|event| is_end(&event.what)).count();
    }
    assert!(sold > 0 && given_up > 0, "{sold} sold, {given_up} given up");
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
    let planted: BTreeSet<&str> =
        BUGS.iter().chain(WASTES).chain(OF_ORDER).map(|bug| bug.name).collect();
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

//! Is a matrix the same whatever runs at once and however often it is interrupted? Does what is
//! unsafe replay, and does what is safe say what it rests on?

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::matrix::scenario_of;
use lockstorm_sim::plan::draw::alone::LONE_FAMILIES;
use lockstorm_sim::plan::scenario::{LOCKS, default_plan, find_lock};
use lockstorm_sim::plan::{Fence, Operation, Plan, Seed, When, file};
use lockstorm_sim::storm::abreast::abreast;
use lockstorm_sim::storm::{self, Run};
use serde_json::Value;

/// Two locks, of which one must fail, and three families.
const SMALL: [&str; 8] = [
    "matrix",
    "--locks",
    "redis,none",
    "--families",
    "none,holder-pause,clock-freeze",
    "--seeds",
    "10",
    "--lang=en",
];

fn lockstorm(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("lockstorm").unwrap().args(arguments).output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn small(more: &[&str]) -> String {
    let (code, stdout, stderr) = lockstorm(&[&SMALL[..], more].concat());
    assert_eq!(code, 0, "{stderr}");
    stdout
}

/// The cells of a matrix in JSON.
fn cells(text: &str) -> Vec<Value> {
    let read: Value = serde_json::from_str(text).unwrap();
    read["cells"].as_array().unwrap().clone()
}

#[test]
fn what_is_unsafe_replays_and_what_is_safe_says_what_it_rests_on() {
    let json = small(&["--jobs", "2", "--format", "json"]);
    let cells = cells(&json);
    let ended = |lock: &str, fence: &str, family: &str| {
        let cell = cells.iter().find(|cell| {
            cell["lock"] == lock && cell["fence"] == fence && cell["family"] == family
        });
        cell.unwrap_or_else(|| panic!("{lock} {fence} {family}"))
    };
    assert_eq!(ended("none", "off", "none")["verdict"], "violation", "the canary");
    assert_eq!(ended("redis", "off", "none")["verdict"], "safe");
    let broken = ended("redis", "off", "holder-pause");
    assert_eq!(broken["verdict"], "violation");
    let capsule = broken["witness"]["capsule"].as_str().unwrap();
    let (code, stdout, stderr) = lockstorm(&["replay", capsule, "--format", "json"]);
    assert_eq!(code, 1, "{stderr}");
    let replayed: Value = serde_json::from_str(&stdout).unwrap();
    // A report has the whole of it, a cell what people compare.
    let told = broken["witness"]["trace"].as_str().unwrap();
    assert!(replayed["trace"].as_str().unwrap().starts_with(told), "{told}");
    // With the fence the same plans are harmless, and the cell says what they do without.
    let fenced = ended("redis", "full", "holder-pause");
    assert!(fenced["verdict"].as_str().unwrap().starts_with("safe"), "{fenced}");
    assert_eq!(fenced["unfenced"]["count"], broken["failed"]);
    // What a cell counts is what its plans come to, each run alone.
    let calm = ended("redis", "off", "clock-freeze");
    let runs: Vec<Run> = (0..10).map(|seed| struck("redis", "clock-freeze", seed)).collect();
    let of = |verdict| runs.iter().filter(|run| run.judgement.verdict == verdict).count();
    let touched: usize = runs.iter().map(|run| run.judgement.goals.touched.len()).sum();
    assert_eq!(calm["effective"], of(Verdict::Safe) + of(Verdict::Violation), "{calm}");
    assert_eq!(calm["failed"], of(Verdict::Violation), "{calm}");
    assert_eq!(calm["verdicts"]["inert"].as_u64().unwrap_or(0), of(Verdict::Inert) as u64);
    assert_eq!(calm["faults-that-showed"], touched, "{calm}");
}

/// Third-party clients in storms sense the nodes' clocks.
fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// What the matrix runs of this lock, without a fence.
fn struck(lock: &str, family: &str, seed: u64) -> Run {
    install_senses();
    storm::run(&plan_of(lock, family, seed), &EventEngine)
}

fn plan_of(lock: &str, family: &str, seed: u64) -> Plan {
    let scenario = scenario_of(find_lock(lock).unwrap());
    let base = default_plan(scenario, lock, Fence::Off).unwrap();
    Plan::struck_by(base, family, Seed(seed)).unwrap()
}

/// What a family brings with it so that its faults can matter must not break a lock alone:
/// else its column would tell of that.
#[test]
fn the_circumstances_of_families_break_no_lock() {
    install_senses();
    let mut calm: Vec<Plan> = Vec::new();
    for lock in LOCKS.iter().filter(|lock| lock.name != "none") {
        let base = default_plan(scenario_of(lock), lock.name, Fence::Off).unwrap();
        for family in LONE_FAMILIES.iter().filter(|family| family.is_at_home(&base)) {
            for seed in 0..4 {
                let plan = Plan { faults: Vec::new(), ..plan_of(lock.name, family.name, seed) };
                // Many families have the same circumstances.
                if !calm.contains(&plan) {
                    calm.push(plan);
                }
            }
        }
    }
    let verdicts = abreast(&calm, |plan| storm::run(plan, &EventEngine).judgement.verdict);
    for (plan, verdict) in calm.iter().zip(verdicts) {
        assert_eq!(verdict, Verdict::Safe, "{}", file::write(plan));
    }
}

/// The stock of these is in the database: there the connection breaks as the sale is made.
#[test]
fn the_reply_of_a_sale_in_sql_is_lost() {
    let is_sale = |plan: &Plan| {
        let when = plan.faults.first().map(|fault| &fault.when);
        matches!(when, Some(When::After { anchor, .. }) if anchor.operation == Operation::Sell)
    };
    for lock in ["pg-conditional", "pg-optimistic"] {
        let seeds = (0..).filter(|seed| is_sale(&plan_of(lock, "reply-lost", *seed)));
        let runs = seeds.take(4).map(|seed| struck(lock, "reply-lost", seed));
        let struck = runs.filter(|run| !run.judgement.goals.touched.is_empty());
        assert!(struck.count() > 1, "{lock}");
    }
}

#[test]
fn jobs_change_nothing_and_an_interrupted_matrix_goes_on() {
    let whole = small(&["--format", "json"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let again = ["--jobs", "2", "--format", "json", "--out", out];
    assert_eq!(small(&again), whole, "jobs");
    // As a kill would have left it: some cells are missing, the last line is cut short.
    let journal = folder.path().join("cells.ndjson");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), cells(&whole).len());
    let kept = lines[..3].join("\n") + "\n" + &lines[3][..lines[3].len() / 2];
    fs::write(&journal, kept).unwrap();
    assert_eq!(small(&again), whole, "resumed");
    let resumed = fs::read_to_string(&journal).unwrap();
    let mut sorted: Vec<&str> = resumed.lines().collect();
    assert_eq!(sorted.len(), lines.len(), "nothing is lost");
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), lines.len(), "nothing is repeated");
    is_told_in_every_format(folder.path());
    let other = [&SMALL[..], &["--out", out, "--seed", "0x1"]].concat();
    let (code, _, stderr) = lockstorm(&other);
    assert_eq!(code, 64);
    assert!(stderr.contains("--seed is"), "{stderr}");
}

fn is_told_in_every_format(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("matrix.txt").contains("lockstorm replay storm1:"));
    assert!(read("matrix.md").contains("at 95 % fewer than"));
    assert!(read("matrix.zh-CN.md").contains("95 % 置信下低于"));
    let page = read("matrix.html");
    assert!(page.contains("每种锁对每类故障") && page.contains("Every lock against"));
    let fetched = ["http:", "https:", "<script", "src="];
    assert!(fetched.iter().all(|sign| !page.contains(sign)), "it opens offline");
}

#[test]
fn bad_flags_are_one_error_with_the_place_and_the_mend() {
    for (arguments, told) in [
        (&["--locks", "rediss"][..], "redis"),
        (&["--families", "holder-hung"], "holder-hang"),
        (&["--locks", "redlock", "--fence", "full"], "no lock has this fence"),
        (&["--seed", "0xffffffffffffffff", "--seeds", "2"], "begin"),
        (&["--seeds", "0"], "--seeds"),
    ] {
        let (code, stdout, stderr) = lockstorm(&[&["matrix"][..], arguments].concat());
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches("error").count(), 1, "{stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
    }
}

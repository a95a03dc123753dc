//! What does the program say to good and to bad input, and with which exit code?
//!
//! Order of things: what it refuses ([`refusals`]), where it takes a plan from ([`plans`]), what
//! it writes and does not write over ([`writing`]), the kept plans ([`kept`]); the rest is here.

mod kept;
mod plans;
mod refusals;
mod writing;

use assert_cmd::Command;

fn lockstorm(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("lockstorm")
        .unwrap()
        .args(arguments)
        // As a user starts it, not as a child of cargo.
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The trace hash in a run's, or a hunt's, JSON; it must be there.
fn trace(document: &serde_json::Value) -> String {
    document["trace"].as_str().expect("a trace hash").to_owned()
}

fn plan_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The lesson's seed file.
pub const LESSON: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/lesson/replication-lag.toml");

#[test]
fn exit_codes_say_how_a_run_went() {
    let calm = ["run", "--scenario", "redis-single", "--calm", "--set", "duration=3s"];
    let (code, stdout, _) = lockstorm(&calm);
    assert_eq!(code, 0, "{stdout}");
    let (code, stdout, _) = lockstorm(&[&calm[..], &["--set", "topology.apps=1"]].concat());
    assert_eq!(code, 2, "no handover is unknown: {stdout}");
    let (code, stdout, _) = lockstorm(&[&calm[..], &["--lock", "none"]].concat());
    assert_eq!(code, 1, "no lock is a violation: {stdout}");
}

#[test]
fn a_hunt_is_the_same_with_one_worker_and_with_two_and_its_commands_reproduce() {
    let arguments = [
        "hunt",
        "--lock",
        "redis",
        "--scenario",
        "redis-failover",
        "--strategy",
        "swarm",
        "--draws",
        "first",
        "--seeds",
        "40",
        "--format",
        "json",
    ];
    let (one_code, one, _) = lockstorm(&[&arguments[..], &["--jobs", "1"]].concat());
    let (two_code, two, _) = lockstorm(&[&arguments[..], &["--jobs", "2"]].concat());
    assert_eq!(one_code, two_code);
    assert_eq!(one, two);
    assert_eq!(one_code, 1, "forty storms without a fence find something: {one}");

    let hunt: serde_json::Value = serde_json::from_str(&one).unwrap();
    // Over all seeds, the safe ones too.
    assert_eq!(trace(&hunt).len(), 16);
    let failures = hunt["failures"].as_array().unwrap();
    for failure in failures.iter().take(3) {
        let command = failure["reproduce"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let (code, stdout, _) = lockstorm(&[&words[..], &["--format", "json"]].concat());
        assert_eq!(code, 1, "{command}");
        let again: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(trace(&again), trace(failure), "{command}");
    }
}

/// What a hunt and a test obey, one run obeys as well.
#[test]
fn one_run_obeys_the_environment_where_no_flag_is_given() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/known-unsafe/no-lock-001.toml");
    let run = |arguments: &[&str], name: &str, value: &str| {
        let mut command = Command::cargo_bin("lockstorm").unwrap();
        let output = command.args(arguments).env(name, value).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for arguments in [&["run", "--seed", "5"][..], &["replay", plan]] {
        let (_, told, _) = run(arguments, "LOCKSTORM_ENGINE", "turmoil");
        assert!(told.contains(" turmoil 0.7"), "{arguments:?}: {told}");
        let flag = [arguments, &["--engine", "event"]].concat();
        let (_, told, _) = run(&flag, "LOCKSTORM_ENGINE", "turmoil");
        assert!(told.contains(" event 0.1.0"), "{arguments:?}: {told}");
        let (code, _, wrong) = run(arguments, "LOCKSTORM_ENGINE", "madness");
        assert_eq!(code, Some(64));
        assert_eq!(
            wrong,
            "error: LOCKSTORM_ENGINE=`madness`: there are: event, event-shuffled, turmoil, madsim\n"
        );
    }
    let (_, drawn, _) = run(&["run", "--print-plan"], "LOCKSTORM_SEED", "0x5");
    let (_, same, _) = run(&["run", "--seed", "5", "--print-plan"], "LOCKSTORM_SEEDS", "3");
    assert_eq!(drawn, same);
}

/// The README's first command: what it shows is what is printed there.
#[test]
fn alone_it_shows_the_storm_of_the_readme_and_the_fence() {
    let mut command = Command::cargo_bin("lockstorm").unwrap();
    let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stdout).unwrap();
    let (_, told) = told.split_once("1. The storm").unwrap();
    let (storm, fenced) = told.split_once("\n\n2. The same storm").unwrap();
    for readme in ["README.md", "README.zh-CN.md"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../").to_owned() + readme;
        assert!(std::fs::read_to_string(path).unwrap().contains(storm.trim_end()), "{storm}");
    }
    assert!(storm.contains("sold 2 (oversold by 1)") && storm.contains("turmoil 0.7: confirmed"));
    assert!(fenced.contains("safe by fence") && fenced.contains("turmoil 0.7: confirmed"));
}

#[test]
fn the_help_names_the_verbs_and_exit_codes() {
    let (code, stdout, _) = lockstorm(&["--help"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(stdout);
}

#[test]
fn a_hunt_keeps_what_it_finds_and_drawn_plans_that_touch_nothing_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found");
    let out = out.to_str().unwrap();
    // Seed 0x13 is inert.
    let swarm = ["hunt", "--strategy", "swarm", "--draws", "first"];
    let hunt = |more: &[&str]| lockstorm(&[&swarm[..], more].concat());
    let (code, stdout, stderr) =
        hunt(&["--fence", "full", "--seed", "0x12", "--seeds", "3", "--out", out]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stderr.contains("no journal") && stderr.contains("add --for DURATION"), "{stderr}");
    assert!(stdout.contains("INERT"), "{stdout}");
    let (code, stdout, _) = hunt(&["--fence", "full", "--seed", "0x13", "--seeds", "1"]);
    assert_eq!(code, 2, "alone it proves nothing: {stdout}");
    let (code, _, _) = hunt(&["--seed", "0x1", "--seeds", "2", "--out", out]);
    assert_eq!(code, 1);
    let kept = std::fs::read_dir(out).unwrap().count();
    assert_eq!(kept, 3, "one inert, two violations");
}

#[test]
fn every_safe_run_can_be_repeated_and_compared() {
    let (code, stdout, _) = lockstorm(&["run", "--calm", "--twice"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("the same trace in a fresh process"), "{stdout}");
    let (code, stdout, _) =
        lockstorm(&["hunt", "--calm", "--seeds", "12", "--twice", "--jobs", "2"]);
    assert_eq!(code, 0, "{stdout}");
}

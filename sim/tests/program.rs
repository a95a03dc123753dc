//! What does the program say to good and to bad input, and with which exit code?

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

/// One error, on standard error, with exit code 64; returns its text with the file's
/// name made the same every time.
fn refused(text: &str) -> String {
    let file = plan_file(text);
    let path = file.path().display().to_string();
    let (code, stdout, stderr) = lockstorm(&["run", "--plan", &path]);
    assert_eq!(code, 64, "{stderr}");
    assert_eq!(stdout, "");
    assert_eq!(stderr.matches("error").count(), 1, "one error: {stderr}");
    stderr.replace(&path, "plan.toml")
}

#[test]
fn bad_plans_are_refused_with_file_line_and_mend() {
    let refusals = [
        ("wrong key", "schema = 1\nscenario = \"redis-failover\"\ndurration = \"3s\"\n"),
        ("wrong type", "schema = 1\nscenario = \"redis-failover\"\nduration = 3\n"),
        (
            "impossible time",
            "schema = 1\nscenario = \"redis-single\"\nduration = \"3s\"\n\n[[fault]]\nkind = \"pause\"\nnode = \"app-1\"\nat = \"5s\"\n",
        ),
        ("truncated", "schema = 1\nscenario = \"redis-fail"),
        ("unknown lock", "schema = 1\nscenario = \"redis-failover\"\n[lock]\nname = \"reddis\"\n"),
        ("unknown scenario", "schema = 1\nscenario = \"redis-failunder\"\n"),
        (
            "unknown node",
            "schema = 1\nscenario = \"redis-single\"\n\n[[fault]]\nkind = \"pause\"\nnode = \"app-9\"\nat = \"1s\"\n",
        ),
    ];
    let told = refusals.map(|(what, text)| format!("# {what}\n{}", refused(text)));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn bad_flags_are_refused() {
    for arguments in [
        &["run", "--engine", "warp"][..],
        &["run", "--scenario", "redis-failunder"],
        &["run", "--lock", "reddis"],
        &["run", "--seed", "zebra"],
        &["run", "--set", "lock.lease=soon"],
        &["run", "--set", "fence=full"],
        &["hunt", "--seed", "0xffffffffffffffff", "--seeds", "2"],
        &["hunt", "--seeds", "1", "--out", "Cargo.toml"],
        &["seeds", "check", "nowhere"],
        &["run", "--set", "lock.lese=2s"],
        &["hunt", "--seeds", "0"],
        &["hunt", "--strategy", "certify", "--calm"],
        &["hunt", "--strategy", "swarm", "--against", "Cargo.toml"],
        &["hunt", "--strategy", "certify", "--against", "Cargo.toml"],
        &["run", "--print-plan", "--out", "x"],
        &["hunt", "--strategy", "certify", "--against", "no-such-file"],
        &["hunt", "--for", "8h"],
        &["hunt", "--for", "8h", "--out", "Cargo.toml"],
        &["hunt", "--for", "soon", "--out", "new"],
        &["hunt", "--shard", "3/2", "--out", "new"],
        &["merge", "src", "--out", "new"],
        &["run", "--fault", "{ kind = \"pause\" }"],
        &["run", "--fault", "kind"],
        &["hunt", "--lock", "reddis", "--seeds", "3"],
        &["replay", "no-such-file.toml"],
        &["seeds", "check", "no-such-folder"],
        &["seeds", "check", LESSON],
        &["fly"],
    ] {
        let (code, stdout, stderr) = lockstorm(arguments);
        assert_eq!(code, 64, "{arguments:?}: {stderr}");
        assert_eq!(stdout, "", "{arguments:?}");
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn flags_that_do_nothing_together_are_refused() {
    for arguments in [
        &["run", "--print-plan", "--out", "h.ndjson"][..],
        &["run", "--print-plan", "--twice"],
        &["run", "--print-plan", "--print-capsule"],
        &["run", "--print-capsule", "--format", "json"],
        &["run", "--plan", "plan.toml", "--draws", "wide"],
        &["replay", "plan.toml", "--scenario", "redis-single"],
        &["explain", "plan.toml", "--seed", "3"],
        &["run", "--calm", "--fault", "{ kind = \"pause\", node = \"app-1\", at = \"1s\" }"],
        &["hunt", "--no-shrink"],
    ] {
        let (code, stdout, stderr) = lockstorm(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_file_for_another_verb_is_told_which() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("h.ndjson.gz");
    let history = history.to_str().unwrap();
    let calm = ["run", "--scenario", "redis-single", "--calm", "--set", "duration=3s"];
    assert_eq!(lockstorm(&[&calm[..], &["--out", history]].concat()).0, 0);
    let check = |file: &str| format!("`lockstorm check {file}`");
    let replay = |file: &str| format!("`lockstorm replay {file}`");
    for (arguments, told) in [
        (&["replay", history][..], check(history)),
        (&["run", "--plan", history], check(history)),
        (&["shrink", history], check(history)),
        (&["check", LESSON], replay(LESSON)),
    ] {
        let (code, stdout, stderr) = lockstorm(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains(&told), "{stderr}");
    }
}

#[test]
fn a_history_that_cannot_be_written_does_not_hide_the_report() {
    let (code, stdout, stderr) =
        lockstorm(&["run", "--seed", "0x2", "--out", "no-such-folder/h.ndjson"]);
    assert_eq!(code, 64);
    assert!(stdout.contains("VIOLATION") && stderr.starts_with("error: --out "), "{stderr}");
}

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

#[test]
fn a_plan_that_is_printed_runs_again_the_same() {
    let drawn = ["run", "--seed", "0x5", "--format", "json"];
    let (code, first, _) = lockstorm(&drawn);
    let (_, plan, _) = lockstorm(&["run", "--seed", "0x5", "--print-plan"]);
    let file = plan_file(&plan);
    let path = file.path().display().to_string();
    let (again_code, again, _) = lockstorm(&["run", "--plan", &path, "--format", "json"]);
    assert_eq!(code, again_code);
    let hash = |text: &str| trace(&serde_json::from_str(text).unwrap());
    assert_eq!(hash(&first), hash(&again));
    let (_, other, _) = lockstorm(&["run", "--seed", "0x6", "--format", "json"]);
    assert_ne!(hash(&first), hash(&other));
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
        assert_eq!(wrong, "error: LOCKSTORM_ENGINE=`madness`: there are: event, turmoil\n");
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
fn one_broken_seed_file_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = folder.path().join("known-unsafe");
    std::fs::create_dir(&shelf).unwrap();
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/known-unsafe/no-lock-001.toml");
    std::fs::copy(good, shelf.join("no-lock-001.toml")).unwrap();
    std::fs::write(shelf.join("a-broken-one.toml"), "garbage\n").unwrap();
    let (code, stdout, _) = lockstorm(&["seeds", "check", &folder.path().display().to_string()]);
    assert_eq!(code, 64, "{stdout}");
    assert!(stdout.contains("BROKEN "), "{stdout}");
    assert!(stdout.contains("no-lock-001.toml"), "{stdout}");
    assert!(stdout.ends_with("2 seed files, 0 not as expected, 1 cannot be read\n"), "{stdout}");
}

#[test]
fn a_hunt_keeps_what_it_finds_and_drawn_plans_that_touch_nothing_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found");
    let out = out.to_str().unwrap();
    // Seed 0x13 is inert.
    let swarm = ["hunt", "--strategy", "swarm", "--draws", "first"];
    let hunt = |more: &[&str]| lockstorm(&[&swarm[..], more].concat());
    let (code, stdout, _) =
        hunt(&["--fence", "full", "--seed", "0x12", "--seeds", "3", "--out", out]);
    assert_eq!(code, 0, "{stdout}");
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

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    // Only Linux has one.
    let Ok(full) = full else { return };
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin("lockstorm"))
        .args(["run", "--print-plan"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(70));
}

#[test]
fn a_hunt_whose_folder_takes_nothing_tells_what_it_found_and_then_the_error() {
    // A folder in which even root makes no files; only Linux has it.
    let out = "/proc";
    if !std::path::Path::new("/proc/self").exists() {
        return;
    }
    let (code, stdout, stderr) =
        lockstorm(&["hunt", "--strategy", "swarm", "--seed", "0x1", "--seeds", "2", "--out", out]);
    assert_eq!(code, 64, "{stderr}");
    assert!(stdout.contains("VIOLATION"), "what was found is told: {stdout}");
    assert_eq!(stderr.matches("cannot be written").count(), 1, "one error: {stderr}");
}

/// The lesson's seed file.
const LESSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/lesson/replication-lag.toml");

#[test]
fn a_capsule_stands_for_a_plan_file_everywhere() {
    let of_seed = ["run", "--seed", "0x2", "--print-capsule"];
    let (code, capsule, _) = lockstorm(&of_seed);
    let capsule = capsule.trim();
    assert!(code == 0 && capsule.starts_with("storm1:") && !capsule.contains('\n'), "{capsule}");
    let printed = |arguments: &[&str]| lockstorm(&[arguments, &["--print-plan"]].concat()).1;
    assert_eq!(printed(&["run", "--plan", capsule]), printed(&["run", "--seed", "0x2"]));
    let (code, told, _) = lockstorm(&["replay", capsule, "--format", "json"]);
    let (_, same, _) = lockstorm(&["run", "--seed", "0x2", "--format", "json"]);
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!((code, trace(&json(&told))), (1, trace(&json(&same))));
    for verb in [&["shrink"][..], &["explain", "--reseeds", "1"], &["replay"]] {
        let damaged = capsule[..capsule.len() - 9].to_owned();
        let future = capsule.replacen("storm1", "storm2", 1);
        for (bad, clause) in [(damaged, "is damaged"), (future, "a capsule of version")] {
            let (code, stdout, stderr) = lockstorm(&[verb, &[bad.as_str()]].concat());
            assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
            assert!(stderr.contains(&bad[..20]) && stderr.contains(clause), "{stderr}");
        }
    }
}

#[test]
fn a_failure_is_shrunk_into_a_file_and_what_passes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("small.toml");
    let out = out.to_str().unwrap();
    let (code, told, stderr) = lockstorm(&["shrink", "--seed", "0x2", "--out", out]);
    assert_eq!(code, 0, "{stderr}");
    let capsule = told.lines().last().unwrap();
    let printed = |plan: &str| lockstorm(&["run", "--plan", plan, "--print-plan"]).1;
    assert_eq!(printed(out), printed(capsule), "the file and the capsule are the same plan");
    assert_eq!(lockstorm(&["replay", out]).0, 1);
    // Too small a budget: the best so far is there.
    let (code, told, _) = lockstorm(&["shrink", "--seed", "0x2", "--out", out, "--budget", "3"]);
    assert!(code == 0 && told.contains("Stopped") && lockstorm(&["replay", out]).0 == 1, "{told}");
    for arguments in [
        &["shrink", "--seed", "0x2", "--calm"][..],
        &["shrink"],
        &["shrink", "--seed", "0x2", "--engine", "turmoil"],
        &["shrink", "--seed", "0x2", "--out", "no-such-folder/plan.toml"],
        &["explain", "--seed", "0x2", "--calm"],
    ] {
        let (code, stdout, stderr) = lockstorm(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
    }
}

/// A seed file has a title and what is expected beside its plan; other files were not meant.
#[test]
fn shrinking_writes_over_plans_alone() {
    let folder = tempfile::tempdir().unwrap();
    let seed = std::fs::read_to_string(LESSON).unwrap();
    for (name, text) in [("kept.toml", seed.as_str()), ("notes.md", "# mine\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let arguments = ["shrink", LESSON, "--budget", "1", "--out", path.to_str().unwrap()];
        let (code, stdout, stderr) = lockstorm(&arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains(name) && stderr.contains("name another"), "{stderr}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

/// Neither is what is read written over by what is made of it.
#[test]
fn no_report_is_written_over_its_plan() {
    let (_, text, _) = lockstorm(&["run", "--seed", "0x2", "--print-plan"]);
    let file = plan_file(&text);
    let plan = file.path().to_str().unwrap();
    for (arguments, flag) in [
        (&["run", "--plan", plan, "--out", plan][..], "--out"),
        (&["run", "--plan", plan, "--html", plan], "--html"),
        (&["replay", plan, "--perfetto", plan], "--perfetto"),
        (&["report", plan, "--mermaid", plan], "--mermaid"),
    ] {
        let (code, stdout, stderr) = lockstorm(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(&format!("error: {flag} {plan}: ")), "{stderr}");
        assert_eq!(std::fs::read_to_string(plan).unwrap(), text);
    }
}

/// What *Try it* prints is copied, and does what it says; the flags of *Mend* and of what
/// `explain` tried go behind any verb that takes a file.
#[test]
fn what_a_report_proposes_works_when_it_is_copied() {
    let words = |command: &str| -> Vec<String> {
        command.split_whitespace().skip(1).map(ToOwned::to_owned).collect()
    };
    let plan = plan_file(&lockstorm(&["run", "--seed", "0x2", "--print-plan"]).1);
    let plan = plan.path().to_str().unwrap();
    for told in [
        lockstorm(&["run", "--seed", "0x2"]),
        lockstorm(&["replay", LESSON]),
        lockstorm(&["run", "--plan", plan]),
        lockstorm(&["run", "--plan", LESSON]),
    ] {
        assert_eq!(told.0, 1, "{}", told.2);
        let line = told.1.lines().find_map(|line| line.trim().strip_prefix("Try it"));
        let command = line.expect("a command to try");
        let words = words(command.trim());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, fenced, stderr) = lockstorm(&words);
        assert!(code == 0 && fenced.contains("SAFE BY FENCE"), "{command}: {fenced}{stderr}");
        // Behind the command as well.
        let reproduce = told.1.lines().find_map(|line| line.trim().strip_prefix("Reproduce"));
        let reproduce = format!("{} --fence full", reproduce.unwrap().trim());
        let words: Vec<&str> = reproduce.split_whitespace().skip(1).collect();
        assert_eq!(lockstorm(&words).0, 0, "{reproduce}");
    }
    // What is changed stands in the line that runs it again.
    let changed = ["replay", LESSON, "--set", "workload.patience=10s", "--lock", "redis-watchdog"];
    let (_, told, stderr) = lockstorm(&changed);
    let same = format!("replay {LESSON} --lock redis-watchdog --set workload.patience=10s");
    assert!(told.contains(&same), "{told}{stderr}");
    let (code, _, stderr) = lockstorm(&["explain", LESSON, "--fence", "full"]);
    assert!(code == 64 && stderr.contains("there is nothing to explain"), "{stderr}");
    let (code, _, stderr) = lockstorm(&["replay", LESSON, "--lock", "redlock"]);
    assert!(code == 64 && stderr.starts_with("error: --lock: "), "{stderr}");
}

/// One table has the knobs, for the help as well.
#[test]
fn the_help_of_set_names_every_knob() {
    for verb in ["run", "hunt", "replay", "explain", "shrink"] {
        let (code, help, _) = lockstorm(&[verb, "--help"]);
        assert_eq!(code, 0);
        let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in lockstorm_sim::plan::file::setting::settable() {
            assert!(help.contains(&key.path()), "{verb}: {}", key.path());
        }
        assert!(!help.contains("lock.name"), "that is --lock");
    }
}

/// Nothing but errors where no terminal watches.
#[test]
fn no_terminal_is_told_how_far_it_is() {
    for more in [&[][..], &["--quiet"]] {
        let explain = ["explain", LESSON, "--reseeds", "1"];
        let (code, _, stderr) = lockstorm(&[&explain[..], more].concat());
        assert_eq!((code, stderr.as_str()), (0, ""));
    }
}

#[test]
fn a_seed_file_is_explained_as_text_and_as_json() {
    let (code, told, stderr) = lockstorm(&["explain", LESSON, "--reseeds", "2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(told.lines().last().unwrap().starts_with("storm1:"), "{told}");
    let (code, json, _) = lockstorm(&["explain", LESSON, "--reseeds", "2", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["draws"]), (0, &serde_json::json!(2)));
}

#[test]
fn kept_plans_are_listed_and_those_that_show_the_same_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = folder.path().to_str().unwrap();
    let add = |id: &str, more: &[&str]| {
        let titles = ["--id", id, "--title", "One", "--title-zh", "一", "--folder", seeds];
        lockstorm(&[&["seeds", "add"][..], &titles, &["--plan", LESSON], more].concat())
    };
    assert_eq!(add("one", &[]).0, 0);
    let (code, _, stderr) = add("two", &[]);
    assert!(code == 64 && stderr.contains("shows the same failure already"), "{stderr}");
    assert_eq!(add("two", &["--another"]).0, 0);
    let larger = ["--another", "--set", "workload.units=5"];
    assert_eq!(add("three", &larger).0, 64, "a file's plan takes no settings here");
    let (code, listed, _) = lockstorm(&["seeds", "list", seeds]);
    assert!(code == 0 && listed.ends_with("2 seed files\n"), "{listed}");
    let (code, json, _) = lockstorm(&["seeds", "list", seeds, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["files"][1]["id"]), (0, &serde_json::json!("two")));
    let (code, told, _) = lockstorm(&["seeds", "prune", seeds]);
    assert!(code == 0 && told.contains("larger") && told.contains("--delete"), "{told}");
    assert_eq!(lockstorm(&["seeds", "prune", seeds, "--delete"]).0, 0);
    let left = std::fs::read_dir(folder.path().join("known-unsafe")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["one.toml"]);
    // One broken file does not hide the others.
    std::fs::write(folder.path().join("known-unsafe/broken.toml"), "schema = 9\n").unwrap();
    let (code, listed, _) = lockstorm(&["seeds", "list", seeds]);
    assert!(code == 64 && listed.contains("one.toml") && listed.contains("BROKEN"), "{listed}");
    assert!(listed.ends_with("1 seed file, 1 cannot be read\n"), "{listed}");
}

//! Are certificates, campaigns and shards what they say? The same whatever the workers, no
//! run lost or made twice by a kill, shards that merge into the hunt they divide, errors
//! that lose nothing that was found.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A storm that is short, and often unsafe.
const STORM: [&str; 10] = [
    "--scenario",
    "redis-single",
    "--set",
    "duration=1200ms",
    "--set",
    "lock.lease=400ms",
    "--set",
    "workload.slow-work=250ms",
    "--set",
    "workload.slow-per-mille=200",
];

/// Without a seed it would be today's, and the day might end.
const CAMPAIGN: [&str; 6] = ["--for", "1h", "--seed", "0x5eed", "--jobs", "2"];

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("lockstorm"))
}

fn lockstorm(arguments: &[&str]) -> (i32, String, String) {
    let output = program().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn hunt(more: &[&str]) -> (i32, String, String) {
    lockstorm(&[&["hunt"][..], &STORM, more].concat())
}

/// Every file of a campaign but the time that it took.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named
        .filter(|(name, _)| name != "elapsed")
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

/// Tells which file differs, and not the whole of it.
fn assert_equal(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, text) in &one {
        let differs = text.lines().zip(other[name].lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{name}");
        assert_eq!(text, &other[name], "{name}");
    }
}

#[test]
fn a_certificate_is_the_same_with_any_workers_and_compares_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    // Quiet: on a slow machine it is told how far it is.
    let certify = ["--strategy", "certify", "--format", "json", "--quiet"];
    let one = hunt(&[&certify[..], &["--jobs", "1", "--out", &out("one")]].concat());
    let two = hunt(&[&certify[..], &["--jobs", "2", "--out", &out("two")]].concat());
    assert_eq!(one, two);
    assert_eq!(one.0, 1, "one fault is enough for this lock: {}", one.2);
    assert_equal(Path::new(&out("one")), Path::new(&out("two")));

    let value: serde_json::Value = serde_json::from_str(&one.1).unwrap();
    let cells = value["coverage"]["cells"].as_array().unwrap();
    let sum = |field: &str| cells.iter().map(|cell| cell[field].as_u64().unwrap()).sum::<u64>();
    // And the fault-free runs, of which one gave the moments.
    let calm = value["tally"]["runs"].as_u64().unwrap() - sum("tried");
    assert_eq!(value["coverage"]["parts"]["fault-free"], format!("{calm}: 0 broke"));
    assert!((1..=16).contains(&calm), "{calm}");
    assert_eq!(value["tally"]["verdicts"]["violation"], sum("broke"));
    assert_eq!(value["tally"]["verdicts"]["inert"], sum("inert"));
    // The command of a failure shows it.
    let failure = &value["failures"][0];
    let command = failure["reproduce"].as_str().unwrap();
    let again = Command::new("sh")
        .arg("-c")
        .arg(command.replacen("lockstorm", "\"$0\"", 1).replacen("cargo run --", "\"$0\"", 1))
        .arg(assert_cmd::cargo::cargo_bin("lockstorm"))
        .output()
        .unwrap();
    let told = String::from_utf8(again.stdout).unwrap();
    assert!(told.contains(failure["signature"].as_str().unwrap()), "{command}\n{told}");

    let file = Path::new(&out("one")).join("certificate-redis-single-redis.txt");
    let against = |file: &Path| {
        let file = file.display().to_string();
        hunt(&["--strategy", "certify", "--jobs", "2", "--against", &file])
    };
    let (code, stdout, stderr) = against(&file);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.ends_with("the certificate agrees with the older one\n"), "{stdout}");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen("| inert\n", "| safe\n", 1);
    assert_ne!(changed, text);
    let other = folder.path().join("changed.txt");
    fs::write(&other, changed).unwrap();
    let (code, stdout, _) = against(&other);
    assert_eq!(code, 1);
    let differences: Vec<&str> = stdout.lines().rev().take(2).collect();
    assert!(differences[1].starts_with("- ") && differences[1].ends_with("| safe"), "{stdout}");
    assert!(differences[0].starts_with("+ ") && differences[0].ends_with("| inert"), "{stdout}");
    fs::write(&other, text.replace("fence     off", "fence     full")).unwrap();
    let (code, _, stderr) = against(&other);
    assert_eq!(code, 64);
    assert!(stderr.contains("fence full") && stderr.contains("fence off"), "{stderr}");
}

/// A campaign that was not disturbed: its folder, its code and what it said.
fn whole_campaign(folder: &Path) -> (String, i32, String) {
    let whole = folder.join("whole").display().to_string();
    let (code, stdout, stderr) = hunt(&campaign(&whole, &[]));
    assert_eq!(code, 1, "{stdout}{stderr}");
    (whole, code, stdout)
}

fn campaign<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&CAMPAIGN[..], &["--seeds", "260", "--out", out], more].concat()
}

#[test]
fn a_killed_campaign_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, code, stdout) = whole_campaign(folder.path());
    let found = files(Path::new(&whole));
    for name in ["campaign.json", "runs.ndjson", "summary.md", "junit.xml", "evidence.md"] {
        assert!(found.contains_key(name), "{name} of {:?}", found.keys());
    }
    assert_eq!(found["runs.ndjson"].lines().count(), 260);
    assert!(found["summary.md"].contains("violation 违反"));

    // Killed as soon as it has written something, three times.
    let killed = folder.path().join("killed").display().to_string();
    let journal = Path::new(&killed).join("runs.ndjson");
    let arguments = [&["hunt"][..], &STORM, &campaign(&killed, &[])].concat();
    let lines = || fs::read_to_string(&journal).unwrap_or_default().lines().count();
    for _ in 0..3 {
        let before = lines();
        let mut child =
            program().args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while lines() < before + 20 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // As a kill within a line leaves it.
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 9]).unwrap();
    // The lines that are whole.
    let there = fs::read_to_string(&journal).unwrap().matches('\n').count();
    let went_on = lockstorm(&arguments);
    assert_eq!((went_on.0, &went_on.1), (code, &stdout), "{}", went_on.2);
    let said = format!("{killed}: goes on with the campaign there: {there} runs in ");
    let cut = ", not made again, and one that was cut short, which is; ";
    assert!(went_on.2.starts_with(&said) && went_on.2.contains(cut), "{}", went_on.2);
    let quiet = lockstorm(&[&arguments[..], &["--quiet"]].concat());
    assert_eq!((quiet.1, quiet.2.as_str()), (stdout.clone(), ""));
    assert_equal(Path::new(&whole), Path::new(&killed));
    // What is complete is told again, and not run again.
    assert_eq!(lockstorm(&arguments).1, stdout);

    let (code, _, stderr) = hunt(&[&CAMPAIGN[..], &["--seeds", "261", "--out", &whole]].concat());
    assert_eq!(code, 64);
    assert!(stderr.contains("--seeds is 261 here and 260 there"), "{stderr}");
}

#[test]
fn shards_merge_into_one_campaign() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let (whole, code, stdout) = whole_campaign(folder.path());
    let shards = ["1/2", "2/2"].map(|shard| {
        let name = out(&shard.replace('/', "-of-"));
        let (code, _, stderr) = hunt(&campaign(&name, &["--shard", shard]));
        assert_eq!(code, 1, "{stderr}");
        name
    });
    let merged = out("merged");
    let (merged_code, told, stderr) =
        lockstorm(&["merge", &shards[0], &shards[1], "--out", &merged, "--jobs", "2"]);
    assert_eq!((merged_code, told), (code, stdout), "{stderr}");
    assert_equal(Path::new(&whole), Path::new(&merged));
    let (code, _, stderr) = lockstorm(&["merge", &shards[0], "--out", &out("half")]);
    assert_eq!(code, 64);
    assert!(stderr.contains("shard 2 of 2 is missing"), "{stderr}");
    // A merge that fails half-way leaves no campaign in the way of the next.
    let journal = Path::new(&shards[1]).join("runs.ndjson");
    let sound = fs::read_to_string(&journal).unwrap();
    let last = sound.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&journal, format!("{}damaged\n", &sound[..last])).unwrap();
    let half = out("half-way");
    let merge_half = || lockstorm(&["merge", &shards[0], &shards[1], "--out", &half]);
    let (code, _, stderr) = merge_half();
    assert_eq!(code, 64);
    assert!(stderr.contains("is damaged"), "{stderr}");
    assert!(!Path::new(&half).exists());
    fs::write(&journal, sound).unwrap();
    assert_eq!(merge_half().0, merged_code);
    assert_equal(Path::new(&whole), Path::new(&half));
}

#[test]
fn a_hunt_for_pairs_says_why_it_tried_none() {
    let all = ["--strategy", "pairs", "--fence", "full", "--jobs", "2"];
    let pairs = |more: &[&str]| hunt(&[&all[..], more].concat());
    let why = |told: &str| {
        let told = told.lines().skip_while(|line| !line.starts_with("no pair was tried"));
        told.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let (_, few, _) = pairs(&["--seeds", "3"]);
    // How many single faults there are is no matter here.
    let counts =
        |word| if str::starts_with(word, |c: char| c.is_ascii_digit()) { "N" } else { word };
    insta::assert_snapshot!(why(&few).split(' ').map(counts).collect::<Vec<_>>().join(" "));
    let (_, json, _) = pairs(&["--seeds", "3", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["no-pair"].as_str().unwrap().starts_with("no pair was tried: "), "{json}");
    // Of as many as it names, one is for a pair.
    let enough = why(&few).rsplit_once("--seeds ").unwrap().1.parse::<u64>().unwrap() + 1;
    let (_, told, _) = pairs(&["--seeds", &enough.to_string()]);
    assert!(!told.contains("no pair was tried") && told.contains("  pairs"), "{told}");
}

#[test]
fn what_a_hunt_keeps_is_shrunk_and_names_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let swarm = ["--strategy", "swarm", "--lock", "planted/bare-del", "--seeds", "60", "--out"];
    let hunted = |name: &str, more: &[&str]| {
        let out = out(name);
        let arguments = [&swarm[..], &[&out, "--format", "json"], more].concat();
        let (code, told, stderr) = hunt(&arguments);
        assert_eq!(code, 1, "{stderr}");
        serde_json::from_str::<serde_json::Value>(&told).unwrap()
    };
    let one = hunted("one", &["--jobs", "1"]);
    assert_eq!(one, hunted("two", &["--jobs", "2"]));
    assert_equal(Path::new(&out("one")), Path::new(&out("two")));
    // What is there is the same plan, smaller: it is not kept beside itself.
    assert_eq!(one, hunted("two", &["--jobs", "2"]));
    assert_equal(Path::new(&out("one")), Path::new(&out("two")));
    let whole = hunted("whole", &["--no-shrink"]);
    let (small, whole_files) = (files(Path::new(&out("one"))), files(Path::new(&out("whole"))));
    assert_eq!(small.keys().collect::<Vec<_>>(), whole_files.keys().collect::<Vec<_>>());

    let failures = one["failures"].as_array().unwrap();
    let shrunk: Vec<_> = failures.iter().filter(|failure| !failure["shrunk"].is_null()).collect();
    assert!(!shrunk.is_empty() && whole["failures"][0]["shrunk"].is_null());
    for failure in shrunk {
        let told = &failure["shrunk"];
        let (before, after) = (told["faults-before"].as_u64(), told["faults"].as_u64());
        assert!(told["minimal"] == true && after <= before && after <= Some(3), "{told}");
        assert!(told["replays"].as_u64() <= Some(200), "{told}");
        let file = told["file"].as_str().unwrap();
        assert!(file.starts_with("redis-single-planted-bare-del-off-"), "{file}");
        let text = &small[file];
        assert!(text.contains(told["before"].as_str().unwrap()), "{text}");
        let capsule = text.lines().find_map(|line| line.strip_prefix("# it was ")).unwrap();
        let printed = |plan: &str| lockstorm(&["run", "--plan", plan, "--print-plan"]).1;
        assert_eq!(printed(capsule), whole_files[file], "what it was");
        // As a person runs it again, with the trace that was told.
        let path = format!("{}/{file}", out("one"));
        let (code, again, _) = lockstorm(&["replay", &path, "--format", "json"]);
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!((code, &again["trace"]), (1, &failure["trace"]));
        assert!(failure["confirmation"].is_object() && failure["repetition"].is_object());
    }
}

#[test]
fn a_hunt_that_was_killed_while_it_shrank_leaves_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let text = out.display().to_string();
    let arguments =
        [&["hunt"][..], &STORM, &["--strategy", "swarm", "--seeds", "40", "--out", &text]].concat();
    let is_shrinking = || {
        let found = fs::read_dir(&out).into_iter().flatten().filter_map(Result::ok);
        found
            .filter_map(|entry| fs::read_to_string(entry.path()).ok())
            .any(|text| text.contains("# Shrunk: "))
    };
    let mut child =
        program().args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_shrinking() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let plans = files(&out).into_iter().filter(|(name, _)| name.ends_with(".toml"));
    for (name, text) in plans.filter(|(_, text)| text.contains("# Shrunk: ")) {
        let (code, _, stderr) = lockstorm(&["replay", &out.join(&name).display().to_string()]);
        assert_eq!(code, 1, "{text}{stderr}");
    }
    // Started again, it is as if nothing had been.
    let (code, told, _) = lockstorm(&arguments);
    let fresh = folder.path().join("fresh");
    let again = hunt(&["--strategy", "swarm", "--seeds", "40", "--out", fresh.to_str().unwrap()]);
    assert_eq!((again.0, again.1), (code, told));
    fs::read_dir(&out).unwrap().map(Result::unwrap).for_each(|entry| {
        let name = entry.file_name();
        let is_left = name.to_string_lossy().ends_with(".part");
        if is_left {
            fs::remove_file(entry.path()).unwrap();
        }
    });
    assert_equal(&out, &fresh);
}

#[test]
fn the_environment_says_where_and_how_long() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let hunt = |name: &str, value: &str| {
        let mut command = program();
        command.args(["hunt", "--strategy", "swarm", "--calm", "--seeds", "10"]).args(STORM);
        let output = command.env("LOCKSTORM_OUT", &out).env(name, value).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = hunt("LOCKSTORM_FOR", "1h");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(out.join("campaign.json").exists());
    let (code, stderr) = hunt("LOCKSTORM_FORE", "1h");
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("warning: LOCKSTORM_FORE is not a variable"), "{stderr}");
    let (code, stderr) = hunt("LOCKSTORM_FOR", "soon");
    assert_eq!(code, Some(64));
    assert!(stderr.starts_with("error: LOCKSTORM_FOR=`soon`"), "{stderr}");
}

#[test]
fn a_campaign_is_over_soon_after_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    #[expect(clippy::disallowed_methods, reason = "how long the program takes")]
    let began = std::time::Instant::now();
    let (code, told, stderr) = hunt(&["--for", "3s", "--seed", "0x5eed", "--out", &out]);
    assert_eq!(code, 1, "{told}{stderr}");
    // Its time, a minute for what it found, one run.
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
    assert!(folder.path().join("summary.md").exists());
}

#[test]
fn a_disk_that_is_full_loses_nothing_that_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let campaign = [&CAMPAIGN[..], &["--seeds", "200", "--out"]].concat();
    let arguments = [&["hunt"][..], &STORM, &campaign, &[&out]].concat();
    // No file may grow beyond 8 or 16 KiB, by what the shell takes for a block.
    let limited = Command::new("sh")
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"")
        .arg(assert_cmd::cargo::cargo_bin("lockstorm"))
        .args(&arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&limited.stdout), text(&limited.stderr));
    assert_eq!(limited.status.code(), Some(64), "{stderr}");
    assert!(stdout.contains("VIOLATION"), "what was found is told: {stdout}");
    assert_eq!(stderr.matches("cannot be written").count(), 1, "one error: {stderr}");
    assert!(stderr.contains("runs.ndjson") && stderr.contains("make room"), "{stderr}");
    // With room again it goes on, as if nothing had been.
    let (code, stdout, stderr) = lockstorm(&arguments);
    assert_eq!(code, 1, "{stderr}");
    let fresh = folder.path().join("fresh").display().to_string();
    assert_eq!(hunt(&[&campaign[..], &[&fresh]].concat()).1, stdout);
    assert_equal(Path::new(&out), Path::new(&fresh));
}

#[test]
fn a_folder_that_takes_nothing_is_one_error_before_anything_is_run() {
    // A folder in which even root makes no files; only Linux has it.
    if !Path::new("/proc/self").exists() {
        return;
    }
    let (code, stdout, stderr) = hunt(&["--for", "1h", "--out", "/proc"]);
    assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
    assert!(stderr.contains("/proc/campaign.json: cannot be written"), "{stderr}");
}

#[test]
fn a_journal_that_lost_a_line_or_its_hunt_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let small = ["--strategy", "swarm", "--calm", "--for", "1h", "--seeds", "20", "--out", &out];
    assert_eq!(hunt(&small).0, 0);
    let journal = folder.path().join("out/runs.ndjson");
    let sound = fs::read_to_string(&journal).unwrap();
    let fifth = sound.lines().nth(4).unwrap();
    fs::write(&journal, sound.replace(&format!("{fifth}\n"), "")).unwrap();
    let (code, _, stderr) = hunt(&small);
    assert_eq!(code, 64);
    assert!(stderr.contains("is missing before run"), "{stderr}");
    assert_eq!(fs::read_to_string(&journal).unwrap().lines().count(), 19, "nothing was added");
    fs::write(&journal, sound).unwrap();
    assert_eq!(hunt(&small).0, 0);
    fs::remove_file(folder.path().join("out/campaign.json")).unwrap();
    let (code, _, stderr) = hunt(&small);
    assert_eq!(code, 64);
    assert!(stderr.contains("nothing says of which hunt"), "{stderr}");
}

#[test]
fn a_clean_campaign_says_what_it_rests_on_and_that_it_can_see() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let clean = ["--strategy", "swarm", "--calm", "--for", "1h", "--seeds", "40", "--out", &out];
    let (code, stdout, stderr) = hunt(&[&clean[..], &["--jobs", "2"]].concat());
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("the canary (lock none, fence off) fails in 10 of "), "{stdout}");
    let evidence = fs::read_to_string(Path::new(&out).join("evidence.md")).unwrap();
    assert!(evidence.contains("| certificate | no |"), "{evidence}");
    assert!(evidence.contains("| swarm | yes | 0 of 40 failed"), "{evidence}");
    assert!(evidence.contains("| canary | no |"), "{evidence}");
    assert!(evidence.contains("a part is missing"), "{evidence}");
}

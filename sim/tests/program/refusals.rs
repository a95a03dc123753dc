//! What is refused, in one line with the mend?

use super::*;

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
        &["replay", LESSON, "--set", "fence=write"],
        &["replay", LESSON, "--set", "scenario=redis-single"],
        &["replay", LESSON, "--set", "lock.name=redlock"],
        &["run", "--set", "scenario=redis-single"],
        &["run", "--set", "seed=0x3"],
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

/// The readers' lock over a plan without readers: the mend is a flag to copy, and it helps.
#[test]
fn a_lock_for_readers_says_how_many_may_read() {
    let (_, text, _) = lockstorm(&["run", "--scenario", "zookeeper-three", "--print-plan"]);
    let file = plan_file(&text);
    let path = file.path().to_str().unwrap();
    let over = ["run", "--plan", path, "--lock", "zookeeper-read", "--print-plan"];
    let (code, _, stderr) = lockstorm(&over);
    assert_eq!(code, 64, "{stderr}");
    let words = stderr.split_whitespace();
    let setting = words.skip_while(|word| *word != "--set").nth(1).expect("a flag to copy");
    let setting = setting.trim_end_matches(',');
    assert!(setting.starts_with("workload.readers="), "{stderr}");
    let (code, told, stderr) = lockstorm(&[&over[..], &["--set", setting]].concat());
    assert!(code == 0 && told.contains("zookeeper-read"), "{stderr}");
}

/// A setting of the fence would win over the flag that a report proposes.
#[test]
fn the_fence_of_a_file_is_set_by_its_flag() {
    for verb in [&["replay"][..], &["run", "--plan"], &["explain"], &["shrink"], &["report"]] {
        let arguments = [verb, &[LESSON, "--set", "fence=write", "--fence", "full"]].concat();
        let (code, stdout, stderr) = lockstorm(&arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        let told = "error: --set fence: a flag sets this; write --fence instead\n";
        assert_eq!(stderr, told, "{arguments:?}");
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

//! Is what was found told where it cannot be written, and is nothing written over that was not meant?

use super::*;

#[test]
fn a_history_that_cannot_be_written_does_not_hide_the_report() {
    // A folder stands in its place.
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let (code, stdout, stderr) = lockstorm(&["run", "--seed", "0x2", "--out", out]);
    assert_eq!(code, 64);
    assert!(stdout.contains("VIOLATION") && stderr.starts_with("error: --out "), "{stderr}");
}

/// Nobody waits for a storm whose report then goes nowhere.
#[test]
fn a_folder_that_is_not_there_is_refused_before_the_storm() {
    for (arguments, flag) in [
        (&["run", "--seed", "0x2"][..], "--out"),
        (&["run", "--seed", "0x2"], "--html"),
        (&["run", "--plan", LESSON], "--perfetto"),
        (&["replay", LESSON], "--mermaid"),
        (&["report", LESSON], "--html"),
    ] {
        let arguments = [arguments, &[flag, "no-such-folder/file"]].concat();
        let (code, stdout, stderr) = lockstorm(&arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        let told = format!(
            "error: {flag} no-such-folder/file: there is no folder no-such-folder; make it, or \
             name a file in one that is there\n"
        );
        assert_eq!(stderr, told, "{arguments:?}");
    }
}

/// Whoever reads standard error may leave (`2>&1 | head`): the exit code still says how it went.
#[test]
fn a_reader_of_errors_who_has_left_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    for (arguments, expected) in [
        (&["run", "--sed", "3"][..], 64),
        (&["run", "--set", "lock.lease=soon"], 64),
        (&["replay", "no-such-file.toml"], 64),
        (&["run", "--seed", "0x2", "--html", page], 1),
        (&["hunt", "--strategy", "swarm", "--seed", "0x1", "--seeds", "2"], 1),
        (&["report", LESSON, "--html", page], 1),
    ] {
        let mut left = std::process::Command::new(assert_cmd::cargo::cargo_bin("lockstorm"));
        left.args(arguments).stdout(std::process::Stdio::null());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = left.stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
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
    let (notes, begins_like_one) = ("# mine\n", "# mine\nschema = 1\nTODO: measure again\n");
    for (name, text) in
        [("kept.toml", seed.as_str()), ("notes.md", notes), ("plan.toml", begins_like_one)]
    {
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

//! Does the ordinary program have the engine done by this one, and do the engines agree?

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const LESSON: &str = "seeds/lesson/replication-lag.toml";

/// The ordinary program, beside the one of this package, built where it is missing.
fn lockstorm() -> PathBuf {
    let here = Path::new(env!("CARGO_BIN_EXE_lockstorm-madsim"));
    let program = here.with_file_name("lockstorm");
    if !program.is_file() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "-p", "lockstorm-sim", "--bin", "lockstorm"]);
        assert!(command.current_dir(ROOT).status().unwrap().success());
    }
    program
}

fn run(program: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(ROOT).env_remove("CARGO_MANIFEST_DIR");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_ordinary_program_hands_over_what_is_for_madsim() {
    let (code, told, errors) = run(&lockstorm(), &["replay", LESSON, "--engine", "madsim"]);
    assert_eq!(code, Some(1), "{told}{errors}");
    assert!(told.contains("madsim 0.2"), "{told}");
    let here = Path::new(env!("CARGO_BIN_EXE_lockstorm-madsim"));
    let asked = ["hunt", "--engine", "madsim", "--strategy", "swarm", "--seeds", "4"];
    let asked = [&asked[..], &["--format", "json"]].concat();
    let ((code, over, errors), (there, own, _)) = (run(&lockstorm(), &asked), run(here, &asked));
    assert_eq!((code, over), (there, own), "{errors}");
}

#[test]
fn without_the_other_program_the_line_that_builds_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("lockstorm");
    std::fs::copy(lockstorm(), &alone).unwrap();
    let (code, told, errors) = run(&alone, &["replay", LESSON, "--engine", "madsim"]);
    assert_eq!((code, told.as_str()), (Some(64), ""), "{errors}");
    assert!(errors.contains("build it: cargo build -p lockstorm-madsim"), "{errors}");
}

#[test]
fn all_engines_are_told_side_by_side() {
    let (code, told, errors) = run(&lockstorm(), &["replay", LESSON, "--engine", "all"]);
    assert_eq!(code, Some(1), "{told}{errors}");
    let mut lines = told.lines();
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["plan", "event", "turmoil", "madsim"]);
    assert_eq!(lines.next().unwrap().matches("the same").count(), 2, "{told}");
}

#[test]
fn the_engines_agree_on_kept_plans_of_every_server_and_what_one_cannot_express_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let kept = [
        "lesson/replication-lag-fenced.toml",
        "known-unsafe/redis-failover-one-way-cut-001.toml",
        "known-unsafe/zookeeper-pause-without-fence-001.toml",
        "known-unsafe/pg-lock-table-pause-001.toml",
        "regression/zookeeper-session-ended-in-line-001.toml",
    ];
    for path in kept {
        let shelf = folder.path().join(path);
        std::fs::create_dir_all(shelf.parent().unwrap()).unwrap();
        std::fs::copy(Path::new(ROOT).join("seeds").join(path), shelf).unwrap();
    }
    let asked = ["seeds", "check", folder.path().to_str().unwrap(), "--engine", "all"];
    let (code, told, errors) = run(&lockstorm(), &asked);
    assert_eq!(code, Some(0), "{told}{errors}");
    assert!(told.contains("turmoil cannot express a one-way cut"), "{told}");
    assert_eq!(
        told.lines().last().unwrap(),
        "5 seed files: 4 the same on all three engines, 1 with a known difference, 0 unexplained; \
         0 not as expected"
    );
}

//! Are kept plans listed, compared and sorted out?

use super::*;

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
    // What is kept is the file's plan with what was changed in it.
    let changed = ["--shelf", "regression", "--fence", "full", "--set", "workload.units=5"];
    assert_eq!(add("three", &changed).0, 0);
    let three = folder.path().join("regression/three.toml");
    let text = std::fs::read_to_string(&three).unwrap();
    assert!(text.contains("fence = \"full\"") && text.contains("units = 5"), "{text}");
    std::fs::remove_file(three).unwrap();
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

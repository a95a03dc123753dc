//! Is a plan the same wherever it comes from, and does what is proposed over one work?

use super::*;

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

/// In calm weather nothing strikes what a change takes out, and flags may stand there twice.
#[test]
fn what_is_calm_is_changed_without_its_faults() {
    let text = "schema = 1\nscenario = \"redis-single\"\nduration = \"3s\"\n\n[[clock]]\n\
                node = \"app-2\"\noffset = \"1s\"\n\n[[fault]]\nkind = \"pause\"\n\
                node = \"app-2\"\nat = \"1s\"\n";
    let plan = plan_file(text);
    let plan = plan.path().to_str().unwrap();
    let fewer = ["run", "--plan", plan, "--set", "topology.apps=1", "--print-plan"];
    let (code, _, stderr) = lockstorm(&fewer);
    assert!(code == 64 && stderr.contains("app-2"), "{stderr}");
    let (code, told, stderr) = lockstorm(&[&fewer[..], &["--calm", "--calm"]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(!told.contains("[[fault]]") && !told.contains("app-2"), "{told}");
}

/// A report is of the plan as it was changed, and names the file with what changes it, as `replay`
/// does; a history is what it was.
#[test]
fn a_report_takes_changes_of_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let (code, told, stderr) = lockstorm(&["report", LESSON, "--html", page, "--fence", "full"]);
    assert_eq!((code, told.as_str()), (0, "safe-by-fence\n"), "{stderr}");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains(&format!("replay {LESSON} --fence full")), "{text}");
    let history = folder.path().join("h.ndjson");
    let history = history.to_str().unwrap();
    let calm = ["run", "--scenario", "redis-single", "--calm", "--set", "duration=3s"];
    assert_eq!(lockstorm(&[&calm[..], &["--out", history]].concat()).0, 0);
    let (code, _, stderr) = lockstorm(&["report", history, "--html", page, "--calm"]);
    assert!(code == 64 && stderr.contains("name its plan instead"), "{stderr}");
}

/// One table has the knobs, for the help as well.
#[test]
fn the_help_of_set_names_every_knob() {
    for verb in ["run", "hunt", "replay", "explain", "shrink", "report"] {
        let (code, help, _) = lockstorm(&[verb, "--help"]);
        assert_eq!(code, 0);
        let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, knobs) = help.split_once("There are: ").unwrap();
        let (knobs, _) = knobs.split_once(" --").unwrap();
        let knobs: Vec<&str> = knobs.split([',', ' ']).collect();
        for key in lockstorm_sim::plan::file::setting::settable() {
            // What a flag sets is set by that; a hunt reads its plans from no file.
            let is_flag = key.path() == "fence" || (verb == "hunt" && key.path() == "seed");
            let is_named = knobs.contains(&key.path().as_str());
            assert_eq!(is_named, !is_flag, "{verb}: {}: {knobs:?}", key.path());
        }
        assert!(!help.contains("lock.name"), "that is --lock");
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

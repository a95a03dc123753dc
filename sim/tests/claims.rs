//! Does every sentence of the text come out as the documents say? Is it the same whatever runs
//! at once? Do the witnesses replay? Do the documents say what the table says?

use std::path::Path;

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::Language;
use lockstorm_sim::claims::{self, Claim, Judged};
use lockstorm_sim::engine::senses;
use lockstorm_sim::report::claims::{fixed, json, markdown};
use serde_json::Value;

/// Third-party clients in storms sense the nodes' clocks.
fn judged(claims: &[&'static Claim], seeds: u64, jobs: usize) -> Vec<Judged> {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    claims::judge(claims, seeds, jobs, &|| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn of_ids(ids: &[&str]) -> Vec<&'static Claim> {
    claims::all().filter(|claim| ids.contains(&claim.id)).collect()
}

fn lockstorm(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("lockstorm").unwrap().args(arguments).output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Those that the text's readers must know of.
const REFUTED: [&str; 9] = ["d4", "d9", "d16", "d24", "c10", "z2", "z3", "z11", "x7"];

/// Some that are confirmed, beside them.
const CONFIRMED: [&str; 3] = ["s1", "c6", "z8"];

/// All of it takes minutes: the nightly asks for it with `CLAIMS=all`.
#[test]
fn each_sentence_comes_out_as_the_documents_say_and_is_shown_by_a_run_that_repeated() {
    let is_all = std::env::var("CLAIMS").is_ok_and(|asked| asked == "all");
    let some: Vec<&str> = REFUTED.into_iter().chain(CONFIRMED).collect();
    let least = if is_all { 40 } else { some.len() };
    let mut arguments = vec!["claims", "--quick", "--jobs", "2", "--format", "json", "--quiet"];
    arguments.extend(some.iter().filter(|_| !is_all));
    let (code, stdout, stderr) = lockstorm(&arguments);
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    let claims = told["claims"].as_array().unwrap();
    let differing: Vec<&Value> =
        claims.iter().filter(|claim| claim["standing"] != claim["expected"]).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(code, 0, "{stderr}");
    let measured = claims.iter().filter(|claim| claim["standing"] != "not-measured");
    let measured: Vec<&Value> = measured.collect();
    assert!(measured.len() >= least, "{}", measured.len());
    for claim in measured {
        assert_eq!(claim["witness"]["repeated"], "same", "{claim:#}");
    }
    for id in REFUTED {
        let claim = claims.iter().find(|claim| claim["id"] == id).unwrap();
        assert_eq!(claim["standing"], "refuted", "{claim:#}");
        assert_eq!(claim["witness"]["is-decisive"], true, "{claim:#}");
    }
}

#[test]
fn what_comes_of_them_is_the_same_whatever_runs_at_once() {
    let some = of_ids(&["s2", "d9", "z2"]);
    let (one, two) = (judged(&some, 2, 1), judged(&some, 2, 2));
    assert_eq!(json(&one, 2), json(&two, 2));
    assert_eq!(markdown(&one, 2, Language::Chinese), markdown(&two, 2, Language::Chinese));
}

/// What is refuted by something that was found is shown by a violation.
#[test]
fn witnesses_replay() {
    for one in judged(&of_ids(&["d4", "z3", "x7"]), 1, 2) {
        let witness = one.witness.unwrap();
        let (code, stdout, _) = lockstorm(&["replay", &witness.capsule]);
        assert_eq!(code, 1, "{}: {stdout}", one.claim.id);
    }
}

/// What of the pages no run decides is as the table has it: sentences, verdicts, storms,
/// predictions.
#[test]
fn the_documents_are_those_of_this_table() {
    let all: Vec<&'static Claim> = claims::all().collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for (name, language) in
        [("claims.md", Language::English), ("claims.zh-CN.md", Language::Chinese)]
    {
        let page = std::fs::read_to_string(docs.join(name)).unwrap();
        let mut lines = page.lines();
        for wanted in fixed(&all, language) {
            let mend = "write it anew with `lockstorm claims --out docs/claims.md`";
            assert!(lines.any(|line| line.starts_with(&wanted)), "{name}: {wanted}: {mend}");
        }
        let sections = page.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(sections, all.len(), "{name}");
    }
}

#[test]
fn unknown_sentences_are_one_error_with_exit_code_64() {
    for arguments in [&["claims", "d99"][..], &["claims", "d9", "--out", "x.md"]] {
        let (code, _, stderr) = lockstorm(arguments);
        assert_eq!(code, 64, "{stderr}");
        assert_eq!(stderr.matches("error").count(), 1, "{stderr}");
    }
}

/// One seed is too few for a circle that comes seldom, so this sentence comes out another way.
#[test]
fn a_sentence_that_does_not_come_out_as_the_documents_say_is_told_with_exit_code_1() {
    let (code, stdout, stderr) = lockstorm(&["claims", "c18", "--seeds", "1", "--lang", "en"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.ends_with("c18 is confirmed; the documents say: refuted\n"), "{stdout}");
}

//! Does every sentence of the text come to something? Is it the same whatever runs at once? Do
//! the witnesses replay?

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::Language;
use lockstorm_sim::claims::{self, Claim, Judged, Measure, Standing};
use lockstorm_sim::engine::senses;
use lockstorm_sim::report::claims::{json, markdown};

/// Third-party clients in storms sense the nodes' clocks.
fn judged(claims: &[&'static Claim], seeds: u64, jobs: usize) -> Vec<Judged> {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    claims::judge(claims, seeds, jobs, &|| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn of_ids(ids: &[&str]) -> Vec<&'static Claim> {
    claims::all().filter(|claim| ids.contains(&claim.id)).collect()
}

#[test]
fn no_arm_is_without_a_measurement() {
    let all: Vec<&'static Claim> = claims::all().collect();
    for one in judged(&all, 1, 2) {
        let nothing = one.outcomes.iter().filter(|outcome| outcome.value.is_none());
        let nothing: Vec<&str> = nothing.map(|outcome| outcome.arm.english).collect();
        assert!(nothing.is_empty(), "{}: {nothing:?}", one.claim.id);
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
    let some = of_ids(&["d4", "z3", "x7"]);
    for one in judged(&some, 1, 2) {
        assert_eq!(one.standing, Standing::Refuted, "{}", one.claim.id);
        let shown = one.witness().unwrap();
        assert!(matches!(shown.arm.measure, Measure::Found(_)), "{}", one.claim.id);
        let capsule = shown.witness.as_ref().unwrap();
        let replay = Command::cargo_bin("lockstorm").unwrap().args(["replay", capsule]).output();
        let replay = replay.unwrap();
        assert_eq!(replay.status.code(), Some(1), "{}: {replay:?}", one.claim.id);
    }
}

#[test]
fn unknown_sentences_are_one_error_with_exit_code_64() {
    let output = Command::cargo_bin("lockstorm").unwrap().args(["claims", "d99"]).output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    assert!(stderr.contains("d99") && stderr.matches("error").count() == 1, "{stderr}");
}

//! Clocks that are not known exactly: what can be told is told, what cannot is said.

use super::*;

fn judged(overlap_ms: u64, uncertainty_us: u64) -> Judgement {
    let sample = Sample::new().at(100).grant("app-1/1").at(200).grant("app-2/1");
    let sample = sample.at(200 + overlap_ms).let_go("app-1/1").at(400).let_go("app-2/1");
    let mut history = sample.end();
    history.clock_uncertainty.others_us = uncertainty_us;
    judge(&history, &setting(0))
}

#[test]
fn an_overlap_counts_when_it_is_longer_than_the_clocks_are_uncertain() {
    assert_eq!(judged(11, 5_000).verdict, Verdict::Violation);
    let judgement = judged(10, 5_000);
    assert_eq!((judgement.verdict, judgement.undecided), (Verdict::Unknown, 1));
    assert_eq!(kinds(&judgement), [""; 0]);
    assert_eq!(judged(10, 0).verdict, Verdict::Violation);
    let mut apart = Sample::new().at(100).grant("app-1/1").at(200).let_go("app-1/1").at(220);
    apart = apart.grant("app-2/1");
    let mut history = apart.end();
    history.clock_uncertainty.others_us = 5_000;
    let judgement = judge(&history, &setting(0));
    assert_eq!((judgement.verdict, judgement.undecided), (Verdict::Safe, 0));
}

#[test]
fn each_host_has_its_own_clock() {
    let sample = Sample::new().at(100).grant("app-1/1").at(200).grant("app-2/1");
    let mut history = sample.at(210).let_go("app-1/1").end();
    history.clock_uncertainty.nodes_us.insert("app-1".into(), 20_000);
    assert_eq!(judge(&history, &setting(0)).verdict, Verdict::Unknown);
    history.clock_uncertainty.nodes_us.insert("app-1".into(), 4_000);
    assert_eq!(judge(&history, &setting(0)).verdict, Verdict::Violation);
}

#[test]
fn what_one_resource_saw_needs_no_clock() {
    let sample = Sample::new().at(1).grant("app-1/1").read("app-1/1", 1).at(1_200);
    let sample = sample.grant("app-2/1").read("app-2/1", 1).sell("app-1/1", 1);
    let mut history = sample.ledger(1, &[(1, "app-1/1")]).end();
    history.clock_uncertainty.others_us = 10_000_000;
    assert!(judge(&history, &setting(0)).found(Kind::EffectInterleaved));
}

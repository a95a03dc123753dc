//! Every kind: planted and mended.

use super::super::sample::KEY;
use super::*;
use crate::history::{Attempt, StockOperation, What};
use lockstorm::lock::Release;

#[test]
fn a_record_lost_to_replication_lag_is_told_with_its_faults() {
    let judgement = judge(&lost_to_replication_lag().end(), &setting(2));
    assert_eq!(judgement.verdict, Verdict::Violation);
    assert_eq!(kinds(&judgement), ["double-grant", "effect-interleaved", "oversell", "grant-lost"]);
    for finding in &judgement.findings {
        assert_eq!(finding.blame.parted, Parted::RecordLost, "{}", finding.kind);
        assert_eq!(blamed(finding), [(0, "authority"), (1, "authority")], "{}", finding.kind);
    }
    let double = one(&judgement, Kind::DoubleGrant);
    assert_eq!(owners(double), ["app-1/1", "app-2/1"]);
    assert_eq!((double.from_us, double.to_us), (250_000, 330_000));
    let sentences: Vec<String> = judgement.findings.iter().map(Finding::sentence).collect();
    insta::assert_snapshot!(sentences.join("\n"), @r"
    app-1/1 and app-2/1 were both promised sku-42 for 0.080 s (0.250 s … 0.330 s).
    stock-1 accepted operations of app-1/1 and app-2/1 in turns (0.310 s … 0.320 s): two were inside.
    The only unit, 1, was sold twice: orders order-of-app-1/1, order-of-app-2/1.
    The record of app-1/1 for sku-42 was missing when redis-2 became master, 0.130 s before its promise ended.
    ");
    insta::assert_snapshot!(
        judgement.signature(),
        @"double-grant+effect-interleaved+oversell process-crash@authority+replication-stall@authority"
    );
}

#[test]
fn a_record_that_reached_the_new_master_is_not_lost() {
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(0, FaultFamily::ProcessCrash, "redis-1")
        .at(200)
        .promoted("redis-2", &["app-1/1"])
        .at(300)
        .read("app-1/1", 1)
        .sell("app-1/1", 1)
        .at(400)
        .let_go("app-1/1")
        .at(500)
        .grant_on("redis-2", "app-2/1")
        .at(600)
        .let_go("app-2/1")
        .ledger(1, &[(1, "app-1/1")])
        .end();
    let judgement = judge(&history, &setting(1));
    assert_eq!(judgement.verdict, Verdict::Safe);
    assert_eq!(kinds(&judgement), [""; 0]);
    assert_eq!(judgement.signature(), "safe");
}

#[test]
fn what_a_deposed_master_loses_is_no_loss() {
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(200)
        .promoted("redis-2", &["app-1/1"])
        .at(300)
        .lost("redis-1", "app-1/1", RecordLoss::Resync)
        .at(400)
        .expired("app-1/1")
        .end();
    assert!(!judge(&history, &setting(0)).found(Kind::GrantLost));
    // The same on the server that is responsible.
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(200)
        .promoted("redis-2", &["app-1/1"])
        .at(300)
        .lost("redis-2", "app-1/1", RecordLoss::Crash)
        .end();
    let judgement = judge(&history, &setting(0));
    let lost = one(&judgement, Kind::GrantLost);
    assert_eq!(lost.severity, Severity::Advisory);
    assert_eq!((lost.from_us, lost.to_us), (300_000, 300_000), "no later than the end of the run");
}

#[test]
fn two_masters_grant_one_lock() {
    let history = Sample::new()
        .at(100)
        .fault(0, FaultFamily::Partition, "redis-1")
        .at(200)
        .promoted("redis-2", &[])
        .at(300)
        .grant_on("redis-2", "app-2/1")
        .at(400)
        .grant_on("redis-1", "app-1/1")
        .end();
    let judgement = judge(&history, &setting(1));
    let double = one(&judgement, Kind::DoubleGrant);
    assert_eq!(double.blame.parted, Parted::TwoMasters);
    assert_eq!(owners(double), ["app-2/1", "app-1/1"]);
    assert_eq!(judgement.signature(), "double-grant partition@authority");
    assert!(!judgement.found(Kind::GrantLost), "the deposed master's grant came later");
}

#[test]
fn a_server_or_a_lock_that_excludes_nobody_is_told_apart() {
    let twice = Sample::new().at(1).grant("app-1/1").at(2).grant("app-2/1").end();
    let judgement = judge(&twice, &setting(0));
    assert_eq!(one(&judgement, Kind::DoubleGrant).blame.parted, Parted::NoExclusion);

    let unrecorded = Sample::new()
        .at(1)
        .grant("app-1/1")
        .at(2)
        .ask("app-2/1")
        .refused("app-2/1", "app-1/1")
        .granted("app-2/1")
        .end();
    let judgement = judge(&unrecorded, &setting(0));
    assert_eq!(one(&judgement, Kind::DoubleGrant).blame.parted, Parted::NoRecord);
}

/// A lease that a fast clock ended at `expires_ms` instead of 1,100 less the margin.
fn expires_at(expires_ms: u64) -> Judgement {
    let history = Sample::new()
        .at(50)
        .fault(0, FaultFamily::ClockRate, "redis-1")
        .at(100)
        .grant("app-1/1")
        .at(expires_ms)
        .expired("app-1/1")
        .grant("app-2/1")
        .at(1_200)
        .release("app-1/1")
        .release_returned("app-1/1", Release::NotHeld)
        .end();
    judge(&history, &setting(1))
}

#[test]
fn a_lease_that_a_fast_clock_ends_early_is_lost_and_the_margin_forgives_a_little() {
    let judgement = expires_at(1_050);
    let lost = one(&judgement, Kind::GrantLost);
    assert_eq!((lost.blame.parted, blamed(lost)), (Parted::ExpiredEarly, vec![(0, "authority")]));
    assert_eq!((lost.from_us, lost.to_us), (1_050_000, 1_090_000));
    assert_eq!(judgement.signature(), "double-grant clock-rate@authority");

    let judgement = expires_at(1_090);
    assert_eq!(judgement.verdict, Verdict::Safe);
    let overstay = one(&judgement, Kind::Overstay);
    assert_eq!((overstay.from_us, overstay.to_us), (1_090_000, 1_200_000));
}

#[test]
fn a_record_that_moves_to_a_server_with_another_clock_is_blamed_on_what_moved_it() {
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(0, FaultFamily::ProcessCrash, "redis-1")
        .at(200)
        .promoted("redis-2", &["app-1/1"])
        .at(300)
        .event("redis-2", What::RecordExpired { key: KEY.into(), owner: "app-1/1".into() })
        .grant_on("redis-2", "app-2/1")
        .end();
    let judgement = judge(&history, &setting(1));
    let double = one(&judgement, Kind::DoubleGrant);
    assert_eq!(double.blame.parted, Parted::ExpiredEarly);
    assert_eq!(judgement.signature(), "double-grant process-crash@authority");
}

/// app-1/1 reads, is paused past its lease, and sells at the end.
fn paused(sells_first: &str) -> Sample {
    Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(200)
        .read("app-1/1", 1)
        .fault(0, FaultFamily::Pause, "app-1")
        .at(1_100)
        .expired("app-1/1")
        .at(1_200)
        .grant("app-2/1")
        .at(1_300)
        .read("app-2/1", 1)
        .sell(sells_first, 1)
}

#[test]
fn a_pause_beyond_the_lease_makes_an_overstay_and_two_inside() {
    let history = paused("app-2/1")
        .at(1_400)
        .sell("app-1/1", 1)
        .at(1_500)
        .let_go("app-2/1")
        .release("app-1/1")
        .ledger(1, &[(1, "app-2/1"), (1, "app-1/1")])
        .end();
    let judgement = judge(&history, &setting(1));
    assert_eq!(kinds(&judgement), ["effect-interleaved", "oversell", "overstay"]);
    assert_eq!(judgement.signature(), "effect-interleaved+oversell pause@first-holder");
    for finding in judgement.violations() {
        assert_eq!(finding.blame.parted, Parted::Overstayed);
        assert_eq!(finding.blame.owners, ["app-1/1", "app-2/1"]);
    }
    // The mended twin looks at its own deadline when it wakes.
    let history = paused("app-2/1")
        .at(1_400)
        .belief_ends("app-1/1", BeliefEnd::Deadline)
        .at(1_500)
        .let_go("app-2/1")
        .ledger(1, &[(1, "app-2/1")])
        .end();
    let judgement = judge(&history, &setting(1));
    assert_eq!((judgement.verdict, kinds(&judgement)), (Verdict::Safe, vec!["overstay"]));
}

#[test]
fn an_operation_that_arrives_after_its_holder_left_is_late() {
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(110)
        .read("app-1/1", 1)
        .link_fault(0, FaultFamily::SlowLink, ["app-1", "stock-1"])
        .at(200)
        .let_go("app-1/1")
        .at(300)
        .grant("app-2/1")
        .read("app-2/1", 1)
        .at(400)
        .sell("app-1/1", 1)
        .at(500)
        .let_go("app-2/1")
        .ledger(1, &[(1, "app-1/1")])
        .end();
    let judgement = judge(&history, &setting(1));
    let finding = one(&judgement, Kind::EffectInterleaved);
    assert_eq!(
        (finding.blame.parted, blamed(finding)),
        (Parted::LateEffect, vec![(0, "first-holder")])
    );
    assert_eq!((finding.from_us, finding.to_us), (300_000, 400_000));
}

#[test]
fn without_a_lock_there_is_belief_and_effect_only() {
    let section = |sample: Sample, who: &str| sample.ask(who).granted(who).read(who, 1);
    let sample = section(section(Sample::new().at(1), "app-1/1").at(2), "app-2/1");
    let history = sample
        .at(3)
        .sell("app-1/1", 1)
        .release("app-1/1")
        .at(4)
        .sell("app-2/1", 1)
        .release("app-2/1")
        .ledger(1, &[(1, "app-1/1"), (1, "app-2/1")])
        .end();
    let none = Setting { lock_has_records: false, ..setting(0) };
    let judgement = judge(&history, &none);
    assert_eq!(kinds(&judgement), ["effect-interleaved", "oversell"]);
    for finding in &judgement.findings {
        assert_eq!(finding.blame.parted, Parted::Unguarded);
    }
    assert_eq!(judgement.signature(), "effect-interleaved+oversell");
}

#[test]
fn a_record_deleted_by_a_stranger_is_a_wrong_release_while_it_is_promised() {
    let deleted_at = |ms: u64| {
        let sample = Sample::new().at(100).grant("app-1/1").at(ms);
        judge(&sample.lost("redis-1", "app-1/1", RecordLoss::Deleted).end(), &setting(0))
    };
    let judgement = deleted_at(600);
    assert_eq!(kinds(&judgement), ["wrong-release", "grant-lost"]);
    assert_eq!(one(&judgement, Kind::WrongRelease).blame.parted, Parted::RecordDeleted);
    assert!(!deleted_at(1_095).found(Kind::WrongRelease));
}

#[test]
fn who_acts_without_a_grant_is_named() {
    let history = Sample::new()
        .at(100)
        .ask("app-1/1")
        .indeterminate("app-1/1")
        .read("app-1/1", 1)
        .at(110)
        .grant("app-2/1")
        .read("app-2/1", 1)
        .at(120)
        .sell("app-1/1", 1)
        .ledger(1, &[(1, "app-1/1")])
        .end();
    let judgement = judge(&history, &setting(0));
    let finding = one(&judgement, Kind::EffectInterleaved);
    assert_eq!(finding.blame.parted, Parted::NotGranted);
    assert_eq!(finding.blame.owners, ["app-1/1"]);
}

#[test]
fn foreign_owners_are_presumed_told_and_judged_by_their_records() {
    let sell = |sample: Sample, who: &str| {
        let operation = StockOperation::Sell { unit: 1, order: format!("order-of-{who}").into() };
        sample.effect(who, None, operation, true)
    };
    let sample = Sample::new().at(1).set("7f3a:client").read("7f3a:client", 1);
    let sample = sample.at(2).set("other/name").read("other/name", 1);
    let sample = sell(sell(sample.at(3), "7f3a:client"), "other/name");
    let history = sample.ledger(1, &[(1, "7f3a:client"), (1, "other/name")]).end();
    let judgement = judge(&history, &setting(0));
    assert_eq!(kinds(&judgement), ["double-grant", "effect-interleaved", "oversell"]);
    assert_eq!(Attempt::parse("other/name"), None);

    // One owner, again and again: each release makes room for the next grant.
    let mut sample = Sample::new();
    for n in 0..4 {
        sample = sample.at(n * 10).set("worker").at(n * 10 + 5).released("worker");
        sample = sample.set("other").released("other");
    }
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!((judgement.verdict, judgement.goals.handovers), (Verdict::Safe, 7));
    let nested = Sample::new().at(1).set("worker").at(900).set("worker").at(1_500).set("other");
    assert!(judge(&nested.end(), &setting(0)).found(Kind::DoubleGrant));
}

#[test]
fn what_was_found_is_json() {
    let judgement = judge(&lost_to_replication_lag().end(), &setting(2));
    let json = serde_json::to_value(one(&judgement, Kind::Oversell)).unwrap();
    let attempt = |client: &str| serde_json::json!({ "client": client, "ordinal": 1 });
    let expected = serde_json::json!({
        "kind": "oversell",
        "severity": "violation",
        "key": "sku-42",
        "parties": [
            { "owner": "app-1/1", "attempt": attempt("app-1") },
            { "owner": "app-2/1", "attempt": attempt("app-2") },
        ],
        "from-us": 320_000,
        "to-us": 330_000,
        "events": [0, 1, 3, 4, 5, 6, 8, 10, 11, 14, 15, 19],
        "blame": {
            "parted": "record-lost",
            "owners": ["app-1/1", "app-2/1"],
            "faults": [
                {
                    "fault": 0,
                    "family": "replication-stall",
                    "role": "authority",
                    "events": [0, 1],
                },
                {
                    "fault": 1,
                    "family": "process-crash",
                    "role": "authority",
                    "events": [5, 6],
                },
            ],
            "mechanism": {
                "by": "promoted-without",
                "failover": { "from": "redis-1", "to": "redis-2", "promotion": 8 },
            },
            "shown-by": [8],
        },
        "detail": {
            "oversell": {
                "unit": 1,
                "units": 1,
                "orders": ["order-of-app-1/1", "order-of-app-2/1"],
            },
        },
    });
    assert_eq!(json, expected);
    assert!(serde_json::to_value(&judgement).unwrap().get("verdict").is_some());
}

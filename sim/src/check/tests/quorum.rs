//! Locks that need their record at several servers: each planted bug beside its mended
//! twin, and what must not be taken for one.

use super::*;
use crate::check::grants::Grants;
use lockstorm::lock::Release;

/// Redlock on three servers.
fn two_of_three(faults: usize) -> Setting {
    Setting { quorum: 2, ..setting(faults) }
}

/// Asked for at some of the servers, a millisecond apart, and granted.
fn granted_at(sample: Sample, from_ms: u64, who: &str, servers: &[&str]) -> Sample {
    let mut sample = sample.at(from_ms).ask(who);
    for (n, server) in servers.iter().enumerate() {
        sample = sample.at(from_ms + 1 + n as u64).set_on(server, who);
    }
    sample.at(from_ms + 9).granted(who)
}

fn released_at(mut sample: Sample, who: &str, servers: &[&str]) -> Sample {
    for server in servers {
        let (key, owner) = (super::super::sample::KEY.into(), who.into());
        sample = sample.event(server, crate::history::What::RecordReleased { key, owner });
    }
    sample
}

#[test]
fn a_promise_begins_with_the_quorum_and_its_lease_with_the_first_server() {
    let sample = granted_at(Sample::new(), 100, "app-1/1", &["redis-1", "redis-2", "redis-3"]);
    let history = sample.at(3_000).end();
    let table = Grants::of(&history, true, 2);
    let [grant] = table.rows() else { panic!("{table:?}") };
    assert_eq!(grant.applied.as_ref().map(|applied| &*applied.node), Some("redis-2"));
    let [promise] = grant.promise[..] else { panic!("{grant:?}") };
    // The lease of a second, less the margin of 10 ms, from redis-1's on.
    assert_eq!((promise.from.at_us, promise.to.at_us), (102_000, 101_000 + 990_000));
}

#[test]
fn a_second_quorum_beside_the_first_is_a_double_grant() {
    let story = |restart: bool| {
        let sample = granted_at(Sample::new(), 100, "app-1/1", &["redis-1", "redis-2"]).at(200);
        let sample = sample.fault(0, FaultFamily::ProcessCrash, "redis-2").crash("redis-2");
        let sample = if restart { sample.restarted("redis-2", "app-1/1") } else { sample };
        let servers: &[&str] = if restart { &["redis-2", "redis-3"] } else { &["redis-3"] };
        let mut sample = sample.at(300).ask("app-2/1");
        for server in servers {
            sample = sample.set_on(server, "app-2/1");
        }
        let sample = match restart {
            true => sample.at(310).granted("app-2/1"),
            false => sample.at(310).returned("app-2/1", AcquireOutcome::TimedOut),
        };
        judge(&sample.at(400).release("app-1/1").release("app-2/1").end(), &two_of_three(1))
    };
    let amnesiac = story(true);
    let found = one(&amnesiac, Kind::DoubleGrant);
    assert_eq!(owners(found), ["app-1/1", "app-2/1"]);
    assert_eq!(blamed(found), [(0, "authority")]);
    assert!(amnesiac.found(Kind::GrantLost), "{:?}", kinds(&amnesiac));

    let down = story(false);
    assert!(!down.found(Kind::DoubleGrant), "{:?}", kinds(&down));
    assert!(!down.found(Kind::GrantLost), "{:?}", kinds(&down));
}

#[test]
fn a_grant_without_a_quorum_is_promised_all_the_same_and_found_out() {
    let story = |servers: &[&str]| {
        let sample = granted_at(Sample::new(), 100, "app-1/1", &["redis-1", "redis-2"]);
        let sample = sample.at(200).ask("app-2/1");
        let sample = servers.iter().fold(sample, |sample, s| sample.set_on(s, "app-2/1"));
        let outcome = match servers.len() {
            // It counts a server as granted that said no.
            1 => AcquireOutcome::Granted { token: None, lease_us: 1_000_000, margin_us: 10_000 },
            _ => AcquireOutcome::Busy,
        };
        let sample = sample.at(210).returned("app-2/1", outcome).at(300).release("app-1/1");
        judge(&sample.end(), &two_of_three(0))
    };
    assert!(story(&["redis-3"]).has_violation(Kind::DoubleGrant));
    assert!(!story(&[]).has_violation(Kind::DoubleGrant));
}

#[test]
fn a_minority_that_loses_the_record_loses_nothing() {
    let story = |lost: &[&str]| {
        let all = ["redis-1", "redis-2", "redis-3"];
        let sample = granted_at(Sample::new(), 100, "app-1/1", &all).at(200);
        let sample = lost
            .iter()
            .fold(sample, |sample, server| sample.lost(server, "app-1/1", RecordLoss::Crash));
        judge(&sample.at(300).release("app-1/1").end(), &two_of_three(0))
    };
    assert!(!story(&["redis-3"]).found(Kind::GrantLost));
    let both = story(&["redis-3", "redis-1"]);
    assert_eq!(one(&both, Kind::GrantLost).from_us, 200_000);
}

#[test]
fn an_early_expiry_at_the_last_server_of_a_quorum_is_a_clocks_fault() {
    let sample = granted_at(Sample::new(), 100, "app-1/1", &["redis-1", "redis-2"]).at(200);
    let sample = sample.fault(0, FaultFamily::ClockStep, "redis-1").expired("app-1/1");
    let sample = granted_at(sample, 300, "app-2/1", &["redis-1", "redis-3"]);
    let judgement = judge(&sample.at(400).release("app-1/1").end(), &two_of_three(1));
    let found = one(&judgement, Kind::DoubleGrant);
    assert_eq!(blamed(found), [(0, "authority")]);
}

#[test]
fn what_a_given_up_round_leaves_behind_is_no_promise() {
    // The first round got one server only and was taken back, the second got two; the
    // other client held meanwhile.
    let sample = granted_at(Sample::new(), 100, "app-2/1", &["redis-2", "redis-3"]);
    let sample = sample.at(150).ask("app-1/1").set_on("redis-1", "app-1/1");
    let sample = released_at(sample.at(160), "app-1/1", &["redis-1"]);
    let sample = sample.at(200).release("app-2/1");
    let sample = released_at(sample, "app-2/1", &["redis-2", "redis-3"]);
    let sample = sample.at(210).set_on("redis-1", "app-1/1").set_on("redis-2", "app-1/1");
    let sample = sample.at(220).granted("app-1/1").at(300).release("app-1/1");
    let sample = released_at(sample, "app-1/1", &["redis-1", "redis-2"]);
    let sample = sample.release_returned("app-1/1", Release::Released);
    let judgement = judge(&sample.end(), &two_of_three(0));
    assert!(!judgement.found(Kind::DoubleGrant), "{:?}", kinds(&judgement));
    assert!(!judgement.found(Kind::Overstay), "{:?}", kinds(&judgement));
}

#[test]
fn a_record_left_by_an_earlier_round_counts_neither_for_the_promise_nor_for_its_lease() {
    // The first round was given up; the giving back never came to redis-1.
    let promised_us = |refused: bool| {
        let sample = Sample::new().at(100).ask("app-1/1").set_on("redis-1", "app-1/1").at(200);
        let key: crate::history::Name = super::super::sample::KEY.into();
        let (owner, held_by) = ("app-1/1".into(), "app-1/1".into());
        let what = crate::history::What::RecordRefused { key, owner, held_by };
        // Else redis-1 forgot the record before, and has the new round's.
        let sample = match refused {
            true => sample.event("redis-1", what),
            false => sample.lost("redis-1", "app-1/1", RecordLoss::Crash),
        };
        let sample = if refused { sample } else { sample.set_on("redis-1", "app-1/1") };
        let sample = sample.at(201).set_on("redis-2", "app-1/1");
        let sample = sample.at(202).set_on("redis-3", "app-1/1").at(209).granted("app-1/1");
        let history = sample.at(3_000).end();
        let table = Grants::of(&history, true, 2);
        let [grant] = table.rows() else { panic!("{table:?}") };
        let [promise] = grant.promise[..] else { panic!("{grant:?}") };
        (promise.from.at_us, promise.to.at_us)
    };
    assert_eq!(promised_us(true), (202_000, 201_000 + 990_000));
    assert_eq!(promised_us(false), (201_000, 200_000 + 990_000));
}

#[test]
fn a_foreigner_holds_from_its_quorum_until_its_releases_leave_none() {
    let foreign = |sample: Sample, at: u64, who: &str, servers: &[&str]| {
        servers.iter().fold(sample.at(at), |sample, server| sample.set_on(server, who))
    };
    let story = |releases: &[&str]| {
        let sample = foreign(Sample::new(), 100, "one", &["redis-1", "redis-2", "redis-3"]);
        let sample = released_at(sample.at(200), "one", releases);
        let sample = foreign(sample, 300, "other", &["redis-1", "redis-2"]);
        judge(&sample.at(2_000).end(), &two_of_three(0))
    };
    assert!(!story(&["redis-1", "redis-2"]).has_violation(Kind::DoubleGrant));
    assert!(story(&["redis-1"]).has_violation(Kind::DoubleGrant));
}

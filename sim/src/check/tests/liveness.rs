//! After the healing: leaks, waiters, circles, fairness.

use super::super::sample::KEY;
use super::*;
use crate::history::What;

#[test]
fn a_refused_ask_after_the_bound_shows_a_leak() {
    // Healed at 1 s, the bound is 2 s; nobody has believed since 0.2 s.
    let asked_at = |ms: u64| {
        let sample = Sample::new()
            .at(100)
            .grant("app-1/1")
            .at(200)
            .fault(0, FaultFamily::ProcessCrash, "app-1")
            .crash("app-1")
            .at(1_000)
            .healed()
            .at(ms)
            .ask("app-2/1")
            .refused("app-2/1", "app-1/1")
            .returned("app-2/1", AcquireOutcome::Busy);
        judge(&sample.at(ms + 100).end(), &setting(1))
    };
    let judgement = asked_at(3_001);
    let leak = one(&judgement, Kind::LeakedLock);
    assert_eq!((leak.from_us, leak.to_us), (1_000_000, 3_101_000));
    assert_eq!((owners(leak), blamed(leak)), (vec!["app-1/1"], vec![(0, "first-holder")]));
    insta::assert_snapshot!(
        leak.sentence(),
        @"Nobody held sku-42 and nobody got it for 2.101 s (1.000 s … 3.101 s), against a bound of 2.000 s, behind a record of app-1/1."
    );
    assert!(!asked_at(3_000).found(Kind::LeakedLock), "within the bound");
}

#[test]
fn a_waiter_that_waits_beyond_the_bound_was_not_woken_or_shows_a_leak() {
    let waits_until = |ms: u64, behind_a_record: bool| {
        let sample = Sample::new().at(100).healed();
        let sample = match behind_a_record {
            true => sample.ask("app-1/1").set("app-1/1").indeterminate("app-1/1"),
            false => sample,
        };
        let sample = sample.at(200).ask("app-2/1").at(ms);
        judge(&sample.set("app-2/1").granted("app-2/1").end(), &setting(0))
    };
    assert_eq!(kinds(&waits_until(2_201, false)), ["stuck-waiter"], "nothing is in the way");
    assert_eq!(kinds(&waits_until(2_201, true)), ["leaked-lock"]);
    assert_eq!(kinds(&waits_until(2_200, false)), [""; 0]);
    assert_eq!(kinds(&waits_until(2_200, true)), [""; 0]);
}

#[test]
fn a_waiter_passed_over_while_others_are_served_is_no_leak() {
    let mut sample = Sample::new().at(100).healed().ask("app-3/1");
    for n in 1..=10_u64 {
        let who = format!("app-{}/{n}", n % 2 + 1);
        sample = sample.at(n * 1_000).grant(&who).at(n * 1_000 + 500).let_go(&who);
    }
    assert!(!judge(&sample.end(), &setting(0)).found(Kind::LeakedLock));
}

#[test]
fn a_record_without_expiry_outlives_its_dead_holder() {
    let holder = |crashes: bool| {
        let sample = Sample::new()
            .at(100)
            .healed()
            .ask("app-1/1")
            .set_lease("redis-1", "app-1/1", None)
            .granted("app-1/1")
            .at(200);
        let sample = if crashes { sample.crash("app-1") } else { sample.let_go("app-1/1") };
        judge(&sample.at(300).end(), &setting(0))
    };
    let judgement = holder(true);
    let leak = one(&judgement, Kind::LeakedLock);
    assert!(matches!(leak.detail, Detail::LeakedLock { never_expires: true, .. }));
    assert!(!holder(false).found(Kind::LeakedLock));
}

fn bypassed(times: u64) -> History {
    // app-9/1 is queued; others come later and are served first.
    let mut sample = Sample::new().at(1).grant("app-1/1").ask("app-9/1").waits("app-9/1", KEY);
    for n in 1..=times {
        let who = format!("app-2/{n}");
        let before = if n == 1 { "app-1/1".to_owned() } else { format!("app-2/{}", n - 1) };
        sample = sample.at(10 * n).ask(&who).waits(&who, KEY).at(10 * n + 5);
        sample = sample.let_go(&before).set(&who).granted(&who);
    }
    let last = format!("app-2/{times}");
    let sample = if times > 0 { sample.let_go(&last) } else { sample.let_go("app-1/1") };
    sample.set("app-9/1").granted("app-9/1").end()
}

#[test]
fn a_waiter_may_be_passed_over_as_often_as_the_lock_says() {
    let unfair = |times: u64, bound: Option<u32>| {
        let setting = Setting { bypass_bound: bound, ..setting(0) };
        let judgement = judge(&bypassed(times), &setting);
        assert_eq!(judgement.numbers.most_bypasses, times);
        judgement.found(Kind::Unfair)
    };
    assert!(unfair(3, Some(2)));
    assert!(!unfair(2, Some(2)));
    assert!(!unfair(9, None), "a lock that promises nothing breaks nothing");
    // Whoever came before me passes nobody over.
    let history = Sample::new()
        .at(1)
        .grant("app-1/1")
        .ask("app-2/1")
        .waits("app-2/1", KEY)
        .ask("app-9/1")
        .waits("app-9/1", KEY)
        .at(5)
        .let_go("app-1/1")
        .set("app-2/1")
        .granted("app-2/1")
        .at(9)
        .let_go("app-2/1")
        .set("app-9/1")
        .granted("app-9/1")
        .end();
    assert_eq!(judge(&history, &setting(0)).numbers.most_bypasses, 0);
}

#[test]
fn whoever_has_no_place_in_line_any_more_is_passed_over_by_nobody() {
    // app-9/1's session ended at 5 ms, and it hears of that at 90 ms.
    let history = |its_place_goes: bool, it_stands_anew: bool| {
        let mut sample = Sample::new().at(1).grant("app-1/1").ask("app-9/1").waits("app-9/1", KEY);
        if its_place_goes {
            sample = sample.at(5).waits_no_more("app-9/1", KEY);
        }
        if it_stands_anew {
            sample = sample.at(6).waits("app-9/1", KEY);
        }
        let sample = sample.at(10).ask("app-2/1").waits("app-2/1", KEY);
        let sample = sample.at(20).let_go("app-1/1").set("app-2/1").granted("app-2/1");
        sample.at(90).indeterminate("app-9/1").at(95).let_go("app-2/1").end()
    };
    let strict = Setting { bypass_bound: Some(0), ..setting(0) };
    assert!(judge(&history(false, false), &strict).found(Kind::Unfair));
    assert!(!judge(&history(true, false), &strict).found(Kind::Unfair));
    assert!(judge(&history(true, true), &strict).found(Kind::Unfair));
}

#[test]
fn a_turn_that_ended_before_its_owner_heard_of_it_ends_its_claim() {
    // app-9/1's turn comes at 2 ms and ends with its session at 5 ms; it hears of neither.
    let history = |it_ends: bool| {
        let mut sample = Sample::new().at(1).ask("app-9/1").at(2).set("app-9/1");
        if it_ends {
            sample = sample.at(5).session_expired("app-9/1");
        }
        let sample = sample.at(10).ask("app-2/1").waits("app-2/1", KEY);
        let sample = sample.at(20).set("app-2/1").granted("app-2/1");
        sample.at(90).indeterminate("app-9/1").at(95).let_go("app-2/1").end()
    };
    let strict = Setting { bypass_bound: Some(0), ..setting(0) };
    assert!(judge(&history(false), &strict).found(Kind::Unfair));
    assert!(!judge(&history(true), &strict).found(Kind::Unfair));
}

#[test]
fn a_request_that_comes_after_its_attempt_gave_up_waits_for_nobody() {
    // app-9/1 gave up at 5 ms; its request reaches the server at 6 ms.
    let late = Sample::new().at(1).grant("app-1/1").ask("app-9/1").at(5).indeterminate("app-9/1");
    let late = late.at(6).waits("app-9/1", KEY).at(10).ask("app-2/1").waits("app-2/1", KEY);
    let late = late.at(20).let_go("app-1/1").set("app-2/1").granted("app-2/1");
    let late = late.at(95).let_go("app-2/1").end();
    let strict = Setting { bypass_bound: Some(0), ..setting(0) };
    assert!(!judge(&late, &strict).found(Kind::Unfair));
}

/// Two clients with two locks each; in a circle, or in one order.
fn crossing(in_a_circle: bool) -> Sample {
    let (first, second) = if in_a_circle { ("b", "a") } else { ("a", "b") };
    let sample = Sample::new().at(1).healed().at(10).grant_of("app-1/1", "a");
    let sample = match in_a_circle {
        true => sample.grant_of("app-2/1", first),
        false => sample.ask_for("app-2/1", first, false),
    };
    let sample = sample.at(20).ask_for("app-1/2", "b", false);
    match in_a_circle {
        true => sample.ask_for("app-2/2", second, false),
        false => sample,
    }
}

#[test]
fn a_circle_of_waiters_is_printed_and_whoever_waits_behind_it_is_stuck() {
    let sample = crossing(true).at(30).ask_for("app-3/1", "a", false).at(5_000);
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!(kinds(&judgement), ["deadlock", "stuck-waiter"]);
    insta::assert_snapshot!(
        one(&judgement, Kind::Deadlock).sentence(),
        @"For 4.980 s (0.020 s … 5.000 s), against a bound of 2.000 s, they waited in a circle: app-1/2 waits for b, which app-2/1 holds; app-2/2 waits for a, which app-1/1 holds."
    );
    insta::assert_snapshot!(
        one(&judgement, Kind::StuckWaiter).sentence(),
        @"app-3/1 waited for 4.970 s (0.030 s … 5.000 s), against a bound of 2.000 s: app-3/1 waits for a, which app-1/1 holds; app-1/2 waits for b, which app-2/1 holds; app-2/2 waits for a, which app-1/1 holds."
    );
    // Within the bound a lease or a detector may still break it.
    assert_eq!(kinds(&judge(&crossing(true).at(2_000).end(), &setting(0))), [""; 0]);
    assert_eq!(kinds(&judge(&crossing(false).at(1_900).end(), &setting(0))), ["stuck-waiter"; 0]);
}

#[test]
fn a_circle_of_leases_breaks_by_itself() {
    let hold = |sample: Sample, who: &str, key: &str| {
        let (key, owner) = (crate::history::Name::from(key), who.into());
        let lease_us = Some(LEASE_MS * 1_000);
        let set = What::RecordSet { key: key.clone(), owner, lease_us, shared: false };
        let attempt = crate::history::Attempt::parse(who).unwrap();
        let outcome =
            AcquireOutcome::Granted { token: None, lease_us: LEASE_MS * 1_000, margin_us: 0 };
        let returned = What::AcquireReturned { attempt, key: key.clone(), outcome };
        sample.ask_for(who, &key, false).event("redis-1", set).event("app", returned)
    };
    let sample = hold(hold(Sample::new().at(1).healed(), "app-1/1", "a"), "app-2/1", "b");
    let sample = sample.ask_for("app-1/2", "b", false).ask_for("app-2/2", "a", false);
    assert!(!judge(&sample.at(1_900).end(), &setting(0)).found(Kind::Deadlock));
}

#[test]
fn a_readers_record_that_stays_beside_others_is_a_leak() {
    let set = |sample: Sample, owner: &str| {
        let (key, owner) = (KEY.into(), owner.into());
        sample.event("zk", What::RecordSet { key, owner, lease_us: None, shared: true })
    };
    // app-1's node dies while it reads; a later reader comes and goes.
    let sample = Sample::new().at(1).healed().at(10).ask_for("app-1/1", KEY, true);
    let sample = set(sample, "app-1/1").granted("app-1/1").ask_for("app-2/1", KEY, true);
    let sample = set(sample, "app-2/1").granted("app-2/1").at(20).crash("app-1");
    let history = sample.at(30).let_go("app-2/1").released("app-2/1").at(5_000).end();
    let judgement = judge(&history, &setting(0));
    assert_eq!(kinds(&judgement), ["leaked-lock"]);
    assert_eq!(one(&judgement, Kind::LeakedLock).parties[0].owner, "app-1/1");
}

//! Goals, precedence, the fence's excuse, and checkers that fail.

use super::*;

fn handover() -> Sample {
    Sample::new().at(100).grant("app-1/1").at(200).let_go("app-1/1").at(300).grant("app-2/1")
}

#[test]
fn without_a_handover_nothing_is_known() {
    let alone = Sample::new().at(100).grant("app-1/1").at(200).let_go("app-1/1");
    let alone = alone.at(300).grant("app-1/2").end();
    assert_eq!(judge(&alone, &setting(0)).verdict, Verdict::Unknown, "one client, again");
    let alone = Sample::new().at(100).grant("app-1/1").at(200).let_go("app-1/1").end();
    let judgement = judge(&alone, &setting(0));
    assert_eq!(
        (judgement.verdict, judgement.goals.missed),
        (Verdict::Unknown, vec![Goal::Handover])
    );
    let untold = Sample::new().at(100).grant("app-1/1").at(2_000).ask("app-2/1").set("app-2/1");
    assert_eq!(judge(&untold.end(), &setting(0)).goals.handovers, 0);
    assert_eq!(judge(&handover().end(), &setting(0)).goals.handovers, 1);
}

#[test]
fn a_plan_whose_faults_touch_nothing_is_inert() {
    let history = handover().inert_fault(1, FaultFamily::Pause, "app-9").end();
    let judgement = judge(&history, &setting(2));
    assert_eq!(judgement.verdict, Verdict::Inert);
    let inert: Vec<(usize, bool)> =
        judgement.goals.inert.iter().map(|fault| (fault.fault, fault.began.is_some())).collect();
    assert_eq!(inert, [(0, false), (1, true)]);
    // One that touches is enough; the others are still told.
    let history = handover().fault(0, FaultFamily::Pause, "app-1").end();
    let judgement = judge(&history, &setting(2));
    assert_eq!((judgement.verdict, judgement.goals.inert.len()), (Verdict::Safe, 1));
}

#[test]
fn a_lock_that_was_granted_only_after_the_storm_was_not_in_it() {
    let storm = |at: u64| {
        let sample = Sample::new().at(10).fault(0, FaultFamily::ProcessCrash, "redis-1");
        let sample = if at > 50 { sample.at(50).healed() } else { sample };
        let sample = sample.at(at).grant("app-1/1").at(at + 5).let_go("app-1/1");
        let sample = if at > 50 { sample } else { sample.at(50).healed() };
        sample.at(at + 100).grant("app-2/1").at(at + 110).let_go("app-2/1").end()
    };
    let judgement = judge(&storm(60), &setting(1));
    assert_eq!(judgement.verdict, Verdict::Unknown);
    assert_eq!(judgement.goals.missed, [Goal::GrantInStorm]);
    assert_eq!(judge(&storm(30), &setting(1)).verdict, Verdict::Safe);
    // Without faults there is no storm to be in.
    assert!(judge(&storm(60), &setting(0)).goals.missed.is_empty());
}

/// A lock that opens only when the storm is over, though its fault was over long before, is not
/// excused by that fault.
#[test]
fn a_run_is_untried_only_while_its_fault_may_have_closed_the_lock() {
    let storm = |ended: Option<u64>| {
        let sample = Sample::new().at(10).fault(0, FaultFamily::ProcessCrash, "redis-1");
        let sample = match ended {
            Some(at) => sample.at(at).fault_ended(0, "redis-1").at(9_000).healed(),
            None => sample.at(9_000).fault_ended(0, "redis-1").healed(),
        };
        let sample = sample.at(9_100).grant("app-1/1").at(9_110).let_go("app-1/1");
        sample.at(9_200).grant("app-2/1").at(9_210).let_go("app-2/1").end()
    };
    let is_untried = |ended, bound_us| {
        let setting = Setting { takeover_bound_us: bound_us, ..setting(1) };
        let judgement = judge(&storm(ended), &setting);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        judgement.is_untried()
    };
    // Two seconds are the takeover bound.
    assert!(is_untried(None, Some(2_000_000)));
    assert!(is_untried(Some(7_000), Some(2_000_000)));
    assert!(!is_untried(Some(6_999), Some(2_000_000)));
    assert!(!is_untried(Some(50), Some(2_000_000)));
    // One client alone, before and after, is as little.
    let alone = |ended| {
        let sample = Sample::new().at(10).grant("app-1/1").at(20).let_go("app-1/1");
        let sample = sample.at(30).fault(0, FaultFamily::ProcessCrash, "redis-1");
        let sample = sample.at(ended).fault_ended(0, "redis-1").at(9_000).healed();
        let sample = sample.at(9_100).grant("app-1/2").at(9_110).let_go("app-1/2");
        let judgement = judge(&sample.end(), &setting(1));
        assert_eq!(judgement.goals.missed, [Goal::Handover]);
        judgement.is_untried()
    };
    assert!(alone(8_900) && !alone(3_000));
    // Of a lock that declares nothing, a fault must have lasted.
    assert!(is_untried(None, None));
    assert!(!is_untried(Some(8_999), None));
}

#[test]
fn violation_comes_before_unknown_before_inert_before_safe() {
    let twice = Sample::new().at(1).grant("app-1/1").at(2).grant("app-2/1").end();
    assert_eq!(judge(&twice, &setting(1)).verdict, Verdict::Violation);
    let alone = Sample::new().at(1).grant("app-1/1").end();
    assert_eq!(judge(&alone, &setting(1)).verdict, Verdict::Unknown);
}

#[test]
fn sales_without_books_are_unknown() {
    let sold = handover().sell("app-2/1", 1);
    assert_eq!(judge(&sold.end(), &setting(0)).verdict, Verdict::Unknown);
    let sold = handover().sell("app-2/1", 1).ledger(1, &[(1, "app-2/1")]);
    assert_eq!(judge(&sold.end(), &setting(0)).verdict, Verdict::Safe);
}

#[test]
fn a_full_fence_excuses_a_double_grant_with_clean_effects_only() {
    let twice = || Sample::new().at(1).grant("app-1/1").at(2).grant("app-2/1");
    let fenced =
        |fence: Fence, sample: Sample| judge(&sample.end(), &Setting { fence, ..setting(0) });
    let judgement = fenced(Fence::Full, twice());
    assert_eq!(judgement.verdict, Verdict::SafeByFence);
    assert_eq!(one(&judgement, Kind::DoubleGrant).severity, Severity::Advisory);
    assert_eq!(judgement.signature(), "safe-by-fence");
    assert_eq!(fenced(Fence::Write, twice()).verdict, Verdict::Violation);
    let dirty = twice().read("app-1/1", 1).read("app-2/1", 1).read("app-1/1", 1);
    let judgement = fenced(Fence::Full, dirty);
    assert_eq!(judgement.verdict, Verdict::Violation);
    assert_eq!(judgement.violations().count(), 2, "then the double grant is one, too");
    // Nothing to excuse.
    assert_eq!(fenced(Fence::Full, handover()).verdict, Verdict::Safe);
}

#[test]
fn a_checker_that_panics_makes_the_verdict_unknown() {
    fn broken(_: &Case<'_>) -> Vec<Finding> {
        panic!("out of order")
    }
    let history = handover().end();
    let judgement = judge_with(&history, &setting(0), &[("broken", broken as Checker)]);
    assert_eq!(judgement.verdict, Verdict::Unknown);
    let failed = FailedChecker { checker: "broken", message: "out of order".into() };
    assert_eq!(judgement.failed, [failed]);

    // It does not hide what others find …
    let twice = Sample::new().at(1).grant("app-1/1").at(2).grant("app-2/1").end();
    let checkers = [("broken", broken as Checker), ("double-grant", promise::double_grant)];
    assert_eq!(judge_with(&twice, &setting(0), &checkers).verdict, Verdict::Violation);
    // … and effects that nobody looked at excuse nothing.
    let checkers = [("oversell", broken as Checker), ("double-grant", promise::double_grant)];
    let full = Setting { fence: Fence::Full, ..setting(0) };
    assert_eq!(judge_with(&twice, &full, &checkers).verdict, Verdict::Violation);
}

#[test]
fn faults_that_touch_after_the_violation_are_not_blamed() {
    let history = Sample::new()
        .at(1)
        .fault(0, FaultFamily::ProcessCrash, "redis-9")
        .grant("app-1/1")
        .at(2)
        .promoted("redis-2", &[])
        .at(3)
        .grant_on("redis-2", "app-2/1")
        .at(4)
        .fault(1, FaultFamily::ProcessCrash, "redis-1")
        .end();
    let judgement = judge(&history, &setting(2));
    assert_eq!(blamed(one(&judgement, Kind::DoubleGrant)), []);
    assert_eq!(judgement.signature(), "double-grant");
}

#[test]
fn of_a_kind_only_the_earliest_are_told() {
    let mut sample = Sample::new();
    for n in 1..=40 {
        sample = sample.at(n).grant(&format!("app-{n}/1"));
    }
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!(judgement.violations().count(), 50);
}

#[test]
fn a_checker_that_thinks_for_too_long_makes_the_verdict_unknown() {
    fn endless(case: &Case<'_>) -> Vec<Finding> {
        loop {
            case.steps.take(1);
        }
    }
    let history = handover().end();
    let checkers =
        [("endless", endless as Checker), ("double-grant", promise::double_grant as Checker)];
    let judgement = judge_with(&history, &setting(0), &checkers);
    assert_eq!(judgement.verdict, Verdict::Unknown);
    let message = "it thought for too long".to_owned();
    assert_eq!(judgement.failed, [FailedChecker { checker: "endless", message }]);
    // The next checker has all its steps again.
    let twice = Sample::new().at(1).grant("app-1/1").at(2).grant("app-2/1").end();
    let judgement = judge_with(&twice, &setting(0), &checkers);
    assert!(judgement.found(Kind::DoubleGrant));
}

#[test]
fn sweeps_keep_within_their_steps_however_many_readers_there_are() {
    let mut sample = Sample::new();
    for n in 0..3_000 {
        sample = sample.grant_shared(&format!("app-{n}/1"));
    }
    for n in 0..3_000 {
        let who = format!("app-{n}/1");
        sample = sample.read(&who, 1);
    }
    for n in 0..3_000 {
        let who = format!("app-{n}/1");
        sample = sample.read(&who, 1).let_go(&who);
    }
    let sample = sample.at(9).grant("app-1/2").let_go("app-1/2");
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!((judgement.verdict, kinds(&judgement)), (Verdict::Safe, vec![]));
}

#[test]
fn a_strategy_without_locks_needs_a_conflict() {
    let free = Setting { lock_free: true, ..setting(0) };
    let calm = Sample::new().at(1).read("app-1/1", 1).at(2).read("app-2/1", 1);
    let judgement = judge(&calm.end(), &free);
    assert_eq!(judgement.goals.missed, [Goal::Conflict]);
    assert_eq!(judgement.verdict, Verdict::Unknown);
    let refused = Sample::new().at(1).fenced_read("app-1/1", 1, true).at(2);
    let refused = refused.fenced_read("app-2/1", 1, false).end();
    assert_eq!(judge(&refused, &free).verdict, Verdict::Safe);
}

#[test]
fn a_scenario_that_did_not_get_where_it_should_is_unknown() {
    let wants = |goals: Vec<Goal>| Setting { goals: goals.into(), ..setting(0) };
    for (goal, happens) in [
        (Goal::Failover, handover().promoted("redis-2", &["app-2/1"])),
        (Goal::Expiry, handover().at(2_000).expired("app-2/1")),
        (Goal::Renewal, handover().extended("app-2/1")),
        (Goal::HolderDied, handover().crash("app-2")),
        (Goal::SoldOut, handover().answered("app-3/1", crate::history::OrderAnswer::SoldOut)),
        (Goal::FenceRefused, handover().fenced_read("app-1/1", 1, false)),
        (Goal::ResourceTouched, handover().fenced_read("app-1/1", 1, true)),
    ] {
        let without = judge(&handover().end(), &wants(vec![goal]));
        assert_eq!((without.verdict, without.goals.missed), (Verdict::Unknown, vec![goal]));
        let judgement = judge(&happens.end(), &wants(vec![goal]));
        assert_eq!(
            (judgement.verdict, judgement.goals.missed),
            (Verdict::Safe, vec![]),
            "{goal:?}"
        );
    }
    let listed: Vec<Goal> = wants(vec![Goal::Expiry, Goal::Failover]).goals.into();
    assert_eq!(listed, [Goal::Failover, Goal::Expiry]);
}

//! Where checkers of locks go wrong: each as an alarm that must not be raised and one
//! that must.

use super::*;
use lockstorm::lock::Release;

fn double_grant(sample: Sample) -> bool {
    judge(&sample.end(), &setting(0)).found(Kind::DoubleGrant)
}

#[test]
fn a_lease_may_expire_after_its_holder_crashed() {
    // A plain mutex model would say: app-1 never released.
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(200)
        .crash("app-1")
        .at(1_100)
        .expired("app-1/1")
        .at(1_150)
        .grant("app-2/1")
        .end();
    let judgement = judge(&history, &setting(0));
    assert_eq!((judgement.verdict, kinds(&judgement)), (Verdict::Safe, vec![]));
    // While its lease lives the promise binds, whether or not the holder does.
    let sample = Sample::new().at(100).grant("app-1/1").at(200).crash("app-1");
    assert!(double_grant(sample.at(300).grant("app-2/1")));
}

#[test]
fn an_indeterminate_acquire_promises_nothing() {
    let applied = |told: bool| {
        let sample = Sample::new().at(100).ask("app-1/1").set("app-1/1").at(200);
        let sample = if told { sample.granted("app-1/1") } else { sample.indeterminate("app-1/1") };
        sample.at(300).promoted("redis-2", &[]).at(400).grant_on("redis-2", "app-2/1")
    };
    assert!(!double_grant(applied(false)));
    assert!(!judge(&applied(false).end(), &setting(0)).found(Kind::GrantLost));
    assert!(double_grant(applied(true)));
}

#[test]
fn a_client_that_crashed_before_the_reply_was_promised_nothing() {
    let sample = Sample::new().at(100).ask("app-1/1").set("app-1/1").at(110).crash("app-1");
    assert!(!double_grant(sample.at(200).promoted("redis-2", &[]).grant_on("redis-2", "app-2/1")));
}

#[test]
fn the_record_of_an_indeterminate_acquire_may_block_for_its_lease() {
    // Set by nobody's grant at 2.9 s, long after the healing: the bound counts anew.
    let refused_at = |ms: u64| {
        let sample = Sample::new()
            .at(100)
            .healed()
            .at(2_000)
            .ask("app-1/1")
            .set("app-1/1")
            .indeterminate("app-1/1")
            .at(ms)
            .refused("app-2/1", "app-1/1");
        judge(&sample.end(), &setting(0)).found(Kind::LeakedLock)
    };
    assert!(!refused_at(4_000));
    assert!(refused_at(4_001));
}

#[test]
fn equal_times_are_ordered_by_the_event() {
    let release_first = Sample::new().at(100).grant("app-1/1").at(200).let_go("app-1/1");
    assert!(!double_grant(release_first.grant("app-2/1")));
    let grant_first = Sample::new().at(100).grant("app-1/1").at(200).grant("app-2/1");
    assert!(double_grant(grant_first.let_go("app-1/1")));
}

#[test]
fn a_lease_ends_before_what_happens_at_its_end() {
    let next_at = |ms: u64| double_grant(Sample::new().grant("app-1/1").at(ms).grant("app-2/1"));
    assert!(next_at(LEASE_MS - 11));
    assert!(!next_at(LEASE_MS - 10), "the margin is taken off");
}

#[test]
fn release_ends_belief_and_promise_when_invoked() {
    // Invoked in time, applied late, told later still: no overstay …
    let released_at = |ms: u64| {
        Sample::new()
            .at(100)
            .grant("app-1/1")
            .at(500)
            .release("app-1/1")
            .at(ms)
            .released("app-1/1")
            .at(ms + 1)
            .grant("app-2/1")
            .at(3_000)
            .release_returned("app-1/1", Release::Released)
    };
    let judgement = judge(&released_at(600).end(), &setting(0));
    assert_eq!(one(&judgement, Kind::Overstay).parties[0].owner, "app-2/1");
    assert!(!judgement.found(Kind::DoubleGrant));
    // … and free for others from then on, applied or not (docs/adr/0003); not before.
    let given_back = Sample::new().at(100).grant("app-1/1").at(500).release("app-1/1").at(550);
    assert!(!double_grant(given_back.grant("app-2/1").at(600).released("app-1/1")));
    let early = Sample::new().at(100).grant("app-1/1").at(450).grant("app-2/1");
    assert!(double_grant(early.at(500).release("app-1/1").at(600).released("app-1/1")));
}

#[test]
fn the_loss_told_to_the_holder_ends_the_promise() {
    let told = |reason: BeliefEnd| {
        let sample = Sample::new().at(100).grant("app-1/1").at(200).promoted("redis-2", &[]);
        double_grant(sample.belief_ends("app-1/1", reason).at(300).grant_on("redis-2", "app-2/1"))
    };
    assert!(!told(BeliefEnd::Told));
    assert!(told(BeliefEnd::Deadline), "only its own clock said so");
    assert!(told(BeliefEnd::Dropped), "a best-effort release has yet to be applied");
    // The answer to a release tells it, too.
    let not_held = Sample::new().at(100).grant("app-1/1").at(200).release("app-1/1");
    let not_held = not_held.release_returned("app-1/1", Release::NotHeld);
    assert!(!double_grant(not_held.at(300).grant("app-2/1")));
}

#[test]
fn the_last_applied_renewal_counts() {
    let next_at = |ms: u64| {
        let sample = Sample::new().at(100).grant("app-1/1").at(800).extended("app-1/1");
        double_grant(sample.at(ms).grant("app-2/1"))
    };
    assert!(next_at(1_500));
    assert!(!next_at(1_790));
}

#[test]
fn a_renewal_after_the_end_of_the_promise_does_not_promise_the_time_between() {
    let sample = Sample::new()
        .at(0)
        .grant("app-1/1")
        .at(1_100)
        .grant_on("redis-2", "app-2/1")
        .at(1_200)
        .let_go("app-2/1")
        .at(1_300)
        .extended("app-1/1");
    assert!(!double_grant(sample));
    let sample = Sample::new().at(0).grant("app-1/1").at(1_100).grant_on("redis-2", "app-2/1");
    assert!(double_grant(sample.at(1_300).extended("app-1/1")));
}

#[test]
fn a_retried_acquire_is_promised_from_the_application_that_was_told() {
    // Applied on the old master, lost with it, applied again by a retry, then told.
    let sample = Sample::new()
        .at(100)
        .ask("app-1/1")
        .set("app-1/1")
        .at(200)
        .promoted("redis-2", &[])
        .at(300)
        .grant_on("redis-2", "app-2/1")
        .at(400)
        .let_go("app-2/1")
        .at(500)
        .set_on("redis-2", "app-1/1")
        .granted("app-1/1");
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!((judgement.verdict, kinds(&judgement)), (Verdict::Safe, vec![]));
}

#[test]
fn reads_count_so_a_write_only_fence_is_not_enough() {
    // No two writes are out of order, and yet both decided on the same unit.
    let history = |second_reads_first: bool| {
        let sample = Sample::new().at(100).grant_token("app-1/1", 1).read("app-1/1", 1).at(1_200);
        let sample = sample.grant_token("app-2/1", 2);
        let sample = if second_reads_first { sample.read("app-2/1", 1) } else { sample };
        let sample = sample.at(1_300).sell("app-1/1", 1).at(1_400);
        let sample = if second_reads_first { sample } else { sample.read("app-2/1", 2) };
        sample.sell("app-2/1", 1).ledger(1, &[(1, "app-1/1"), (1, "app-2/1")]).end()
    };
    let write = Setting { fence: Fence::Write, ..setting(0) };
    let judgement = judge(&history(true), &write);
    assert_eq!(judgement.verdict, Verdict::Violation);
    assert!(judgement.found(Kind::EffectInterleaved) && judgement.found(Kind::Oversell));
    assert!(!judge(&history(false), &write).found(Kind::EffectInterleaved));
}

#[test]
fn refused_operations_are_no_effects() {
    let history = Sample::new()
        .at(100)
        .grant_token("app-1/1", 1)
        .fenced_read("app-1/1", 1, true)
        .at(1_200)
        .grant_token("app-2/1", 2)
        .fenced_read("app-2/1", 2, true)
        .fenced_read("app-1/1", 1, false)
        .end();
    assert!(!judge(&history, &setting(0)).found(Kind::EffectInterleaved));
}

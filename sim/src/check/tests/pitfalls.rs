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

#[test]
fn readers_share_and_a_writer_does_not() {
    let shared = |second_reads: bool| {
        let sample = Sample::new().at(1).grant_shared("app-1/1").at(2);
        let sample = match second_reads {
            true => sample.grant_shared("app-2/1"),
            false => sample.grant("app-2/1"),
        };
        let sample = sample.read("app-1/1", 1).read("app-2/1", 1).read("app-1/1", 1);
        let sample = sample.let_go("app-1/1").let_go("app-2/1");
        judge(&sample.at(9).grant("app-3/1").let_go("app-3/1").end(), &setting(0))
    };
    assert_eq!((shared(true).verdict, kinds(&shared(true))), (Verdict::Safe, vec![]));
    assert_eq!(kinds(&shared(false)), ["double-grant", "effect-interleaved"]);
}

#[test]
fn nested_acquires_are_one_grant_until_the_outermost_release() {
    let next_at = |ms: u64| {
        let sample = Sample::new().at(1).grant("app-1/1").at(10).grant("app-1/1");
        let inner = sample.at(20).release("app-1/1");
        let inner = inner.release_returned("app-1/1", Release::Released);
        let (before, after) = (ms < 30, ms >= 30);
        let sample = if before { inner.at(ms).grant("app-2/1") } else { inner };
        let sample = sample.at(30).let_go("app-1/1");
        let sample = sample.release_returned("app-1/1", Release::Released);
        let sample = if after { sample.at(ms).grant("app-2/1") } else { sample };
        judge(&sample.end(), &setting(0))
    };
    assert_eq!(kinds(&next_at(40)), [""; 0]);
    assert_eq!(kinds(&next_at(25)), ["double-grant"], "the inner release gives nothing back");
}

#[test]
fn whole_sections_out_of_order_are_stale_only_where_order_was_promised() {
    let sample = || {
        let sample = Sample::new().at(1).grant_token("app-1/1", 1).let_go("app-1/1");
        let sample = sample.at(2).grant_token("app-2/1", 2).let_go("app-2/1");
        sample.at(3).read("app-2/1", 1).at(4).read("app-1/1", 1)
    };
    assert_eq!(kinds(&judge(&sample().end(), &setting(0))), [""; 0]);
    let ordered = Setting { ordered_tokens: true, ..setting(0) };
    let judgement = judge(&sample().end(), &ordered);
    let stale = one(&judgement, Kind::StaleEffect);
    assert_eq!(owners(stale), ["app-1/1", "app-2/1"]);
    assert_eq!(stale.blame.parted, Parted::LateEffect);
    insta::assert_snapshot!(
        stale.sentence(),
        @"stock-1 accepted operations of app-1/1 after those of app-2/1, who was granted sku-42 later."
    );
}

#[test]
fn a_session_that_is_declared_expired_ends_its_promise() {
    let next_after = |expires: bool| {
        let sample = Sample::new().at(1).ask("app-1/1");
        let sample = sample.set_lease("redis-1", "app-1/1", None).granted("app-1/1").at(500);
        let sample = if expires { sample.session_expired("app-1/1") } else { sample };
        double_grant(sample.at(600).grant("app-2/1"))
    };
    assert!(!next_after(true));
    assert!(next_after(false));
}

#[test]
fn a_holder_must_be_told_the_truth_about_its_loss() {
    use crate::history::Renewal;
    // Released, says the lock; nothing was there to release.
    let released = |gone: bool, server_releases: bool| {
        let sample = Sample::new().at(1).grant("app-1/1").at(990);
        let sample = if gone { sample.at(1_010).expired("app-1/1") } else { sample };
        let sample = sample.release("app-1/1");
        let sample = if server_releases { sample.released("app-1/1") } else { sample };
        let sample = sample.release_returned("app-1/1", Release::Released);
        judge(&sample.end(), &setting(0)).found(Kind::LossNotTold)
    };
    assert!(released(true, false));
    assert!(!released(true, true), "a deposed master had it still");
    assert!(!released(false, true) && !released(false, false));
    // Renewed, says the lock; nobody renewed anything.
    let renewed = |renews: bool| {
        let sample = Sample::new().at(1).grant("app-1/1").at(500);
        let sample = sample.lost("redis-1", "app-1/1", RecordLoss::Crash).renew("app-1/1");
        let sample = if renews { sample.set("app-1/1") } else { sample };
        let sample = sample.renewed("app-1/1", Renewal::Renewed).release("app-1/1");
        judge(&sample.end(), &setting(0)).found(Kind::LossNotTold)
    };
    assert!(renewed(false));
    assert!(!renewed(true));
    // Nothing, says the lock, for longer than it declares.
    let told_at = |ms: u64, bound_ms: Option<u64>| {
        let sample = Sample::new().at(1).grant("app-1/1").at(100);
        let sample = sample.lost("redis-1", "app-1/1", RecordLoss::Crash).at(200).healed();
        let sample = sample.at(ms).belief_ends("app-1/1", BeliefEnd::Told);
        let bound = bound_ms.map(|ms| ms * 1_000);
        let setting = Setting { loss_notice_bound_us: bound, ..setting(0) };
        judge(&sample.end(), &setting).found(Kind::LossNotTold)
    };
    assert!(told_at(301, Some(100)));
    assert!(!told_at(300, Some(100)));
    assert!(!told_at(301, None));
}

#[test]
fn a_stranger_is_against_the_lock_that_guards_the_resource() {
    // Two locks; the stranger never asked for either.
    let sample = Sample::new().at(1).grant_of("app-9/1", "other").at(2).grant("app-1/1");
    let sample = sample.read("app-1/1", 1).read("stranger", 1).read("app-1/1", 1);
    let judgement = judge(&sample.let_go("app-1/1").end(), &setting(0));
    let finding = one(&judgement, Kind::EffectInterleaved);
    assert_eq!((finding.key.as_str(), finding.blame.parted), ("sku-42", Parted::NotGranted));
}

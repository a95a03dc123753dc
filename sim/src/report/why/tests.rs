//! One small history for each sentence, and what must not be said of it.

use super::*;
use crate::check::sample::Sample;
use crate::check::{self, Setting};
use crate::history::{BeliefEnd, RecordLoss, StockOperation};
use crate::plan::{ClockPlan, Fault, FaultKind, When};

const CUT: FaultFamily = Partition;

/// The why of a history, and the faults that are blamed.
fn told_with(plan: &Plan, history: &History) -> (String, Vec<usize>) {
    let setting = Setting { faults: plan.faults.len(), ..Setting::default() };
    let judgement = check::judge(history, &setting);
    let subject = Subject::of(history, &judgement).expect("something is found");
    let faults = subject.blame().faults.iter().map(|fault| fault.fault).collect();
    (why(history, plan, &subject), faults)
}

fn plan() -> Plan {
    scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap()
}

fn told(history: &History) -> (String, Vec<usize>) {
    told_with(&plan(), history)
}

fn down(sample: Sample, master: &str) -> Sample {
    sample.event("sentinel-1", What::MasterDown { master: format!("{master}:6379") })
}

fn stall_and_crash() -> Sample {
    Sample::new()
        .at(50)
        .fault(0, ReplicationStall, "redis-1")
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(1, ProcessCrash, "redis-1")
        .crash("redis-1")
}

#[test]
fn a_replica_without_the_record_was_promoted() {
    let history = down(stall_and_crash().at(300), "redis-1")
        .promoted("redis-2", &[])
        .at(350)
        .grant_on("redis-2", "app-2/1")
        .end();
    let (why, faults) = told(&history);
    assert!(
        why.starts_with("The lock was acknowledged before a replica had it; failover"),
        "{why}"
    );
    assert_eq!(faults, [0, 1]);
}

#[test]
fn the_master_restarted_empty_before_it_was_missed_and_the_stall_played_no_part() {
    let history =
        stall_and_crash().at(200).restarted("redis-1", "app-1/1").at(250).grant("app-2/1").end();
    let (why, faults) = told(&history);
    assert!(
        why.starts_with("redis-1 restarted with an empty memory (no persistence) before"),
        "{why}"
    );
    assert!(!why.contains("failover") && !why.contains("replica "), "{why}");
    assert_eq!(faults, [1], "not the stall");
}

#[test]
fn the_only_server_restarted_empty() {
    let plan = scenario::default_plan("redis-single", "redis", Fence::Off).unwrap();
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(0, MachineCrash, "redis-1")
        .crash("redis-1")
        .at(200)
        .restarted("redis-1", "app-1/1")
        .at(250)
        .grant("app-2/1")
        .end();
    let (why, faults) = told_with(&plan, &history);
    assert_eq!(
        why,
        "redis-1, the only server, restarted with an empty memory (no persistence) and granted \
         the lock again."
    );
    assert_eq!(faults, [0]);
}

#[test]
fn a_crash_that_was_over_before_the_grant_is_not_blamed() {
    let history = Sample::new()
        .at(50)
        .fault(0, ProcessCrash, "redis-1")
        .at(60)
        .fault_ended(0, "redis-1")
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(1, CUT, "redis-1")
        .at(300)
        .promoted("redis-2", &[])
        .at(350)
        .grant_on("redis-2", "app-2/1")
        .end();
    let (why, faults) = told(&history);
    assert!(why.starts_with("redis-1 could not be reached and was replaced by redis-2"), "{why}");
    assert_eq!(faults, [1]);
}

#[test]
fn a_master_that_was_cut_off_and_replaced_went_on_granting() {
    let cut = Sample::new().at(50).link_fault(0, CUT, ["redis-1", "sentinel-1"]);
    let history = down(cut.at(200), "redis-1")
        .promoted("redis-2", &[])
        .at(300)
        .grant("app-1/1")
        .at(320)
        .lost("redis-1", "app-1/1", RecordLoss::Resync)
        .at(400)
        .grant_on("redis-2", "app-2/1")
        .end();
    let (why, faults) = told(&history);
    assert!(why.starts_with("Split brain: redis-1 was cut off and replaced by redis-2"), "{why}");
    assert_eq!(faults, [0]);
}

#[test]
fn a_replaced_master_that_comes_back_empty_grants_as_well() {
    let history = down(stall_and_crash().at(300), "redis-1")
        .promoted("redis-2", &["app-1/1"])
        .at(400)
        .restarted("redis-1", "app-1/1")
        .at(450)
        .grant("app-2/1")
        .end();
    let (why, faults) = told(&history);
    assert!(why.starts_with("Split brain: redis-1 was down and replaced by redis-2"), "{why}");
    assert_eq!(faults, [1]);
}

/// A lease of a second that ends after 600 ms, at `node`.
fn ends_early(sample: Sample, node: &str) -> History {
    let (key, owner) = (check::sample::KEY.into(), "app-1/1".into());
    let expired = What::RecordExpired { key, owner };
    sample.at(700).event(node, expired).at(750).grant_on(node, "app-2/1").end()
}

#[test]
fn the_new_masters_clock_is_ahead_of_the_old_ones() {
    let mut plan = plan();
    for (node, offset_us) in [("redis-1", -100_000), ("redis-2", 320_000)] {
        plan.clocks.push(ClockPlan { node: node.to_owned(), offset_us, rate_ppm: 0 });
    }
    let crash = Sample::new().at(100).grant("app-1/1").at(150).fault(0, ProcessCrash, "redis-1");
    let moved = down(crash.crash("redis-1").at(300), "redis-1").promoted("redis-2", &["app-1/1"]);
    let (why, faults) = told_with(&plan, &ends_early(moved, "redis-2"));
    assert!(why.contains("the wall clock of redis-2, the new master, is 420ms ahead of redis-1's"));
    assert!(!why.contains("fast"), "{why}");
    assert_eq!(faults, [0]);
}

#[test]
fn a_clock_that_runs_fast_and_one_that_jumped() {
    for (kind, family, part) in [
        (
            FaultKind::ClockRate { node: "redis-1".into(), ppm: 700_000 },
            ClockRate,
            "The clock of redis-1 runs fast (+70%)",
        ),
        (
            FaultKind::ClockStep { node: "redis-1".into(), by_us: 400_000 },
            FaultFamily::ClockStep,
            "The wall clock of redis-1 jumped 400ms ahead",
        ),
    ] {
        let mut plan = plan();
        plan.faults.push(Fault { kind, when: When::At(Micros(150_000)), lasts: None });
        let sample = Sample::new().at(100).grant("app-1/1").at(150).fault(0, family, "redis-1");
        let (why, faults) = told_with(&plan, &ends_early(sample, "redis-1"));
        assert!(why.contains(part), "{why}");
        assert_eq!(faults, [0]);
    }
}

#[test]
fn clocks_that_ended_nothing_early_are_not_said_to_have() {
    let mut plan = plan();
    let slow = ClockPlan { node: "redis-1".to_owned(), offset_us: 900_000, rate_ppm: -50_000 };
    plan.clocks.push(slow);
    let sample = Sample::new().at(100).grant("app-1/1");
    let (why, _) = told_with(&plan, &ends_early(sample, "redis-1"));
    assert!(why.ends_with("the history does not show why."), "{why}");
}

#[test]
fn an_operation_that_a_cut_held_up_is_blamed_on_the_cut_and_on_what_kept_the_other_inside() {
    let history = Sample::new()
        .at(100)
        .grant("app-1/1")
        .read("app-1/1", 1)
        .at(110)
        .link_fault(0, CUT, ["app-1", "stock-1"])
        .at(200)
        .let_go("app-1/1")
        .at(300)
        .grant("app-2/1")
        .read("app-2/1", 1)
        .at(310)
        .fault(1, Pause, "app-2")
        .at(400)
        .sell("app-1/1", 1)
        .at(500)
        .fault_ended(1, "app-2")
        .sell("app-2/1", 2)
        .let_go("app-2/1")
        .ledger(2, &[(1, "app-1/1"), (2, "app-2/1")])
        .end();
    let (why, faults) = told(&history);
    assert!(why.starts_with("A cut held up an operation until its holder had left"), "{why}");
    assert_eq!(faults, [0, 1]);
}

/// A holder that works until 1,300 ms, far beyond its lease of a second.
fn stays(sample: Sample) -> History {
    sample
        .at(1_200)
        .grant("app-2/1")
        .read("app-2/1", 1)
        .at(1_300)
        .sell("app-1/1", 1)
        .let_go("app-1/1")
        .sell("app-2/1", 1)
        .let_go("app-2/1")
        .ledger(1, &[(1, "app-1/1"), (1, "app-2/1")])
        .end()
}

#[test]
fn who_stood_still_at_the_end_of_the_lease_is_told_from_who_woke_before() {
    let inside = || Sample::new().at(100).grant("app-1/1").read("app-1/1", 1).at(110);
    let (why, faults) = told(&stays(inside().fault(0, Pause, "app-1")));
    assert!(why.starts_with("The holder stood still beyond its lease"), "{why}");
    assert_eq!(faults, [0]);
    let woken = inside().fault(0, Pause, "app-1").at(800).fault_ended(0, "app-1");
    let (why, faults) = told(&stays(woken));
    assert!(why.starts_with("The holder stood still for a while"), "{why}");
    assert_eq!(faults, [0]);
    let before = Sample::new().at(10).fault(0, Pause, "app-1").at(20).fault_ended(0, "app-1");
    let (why, faults) = told(&stays(before.at(100).grant("app-1/1").read("app-1/1", 1)));
    assert!(why.starts_with("The holder worked longer than its lease"), "{why}");
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn whoever_is_slow_must_be_so_by_its_own_clock() {
    let slow = |ppm: i64| {
        let mut plan = plan();
        let kind = FaultKind::ClockRate { node: "app-1".into(), ppm };
        plan.faults.push(Fault { kind, when: When::At(Micros(0)), lasts: None });
        let sample = Sample::new().fault(0, ClockRate, "app-1");
        told_with(&plan, &stays(sample.at(100).grant("app-1/1").read("app-1/1", 1))).0
    };
    assert!(slow(-400_000).starts_with("The holder's clock runs slow"));
    assert!(slow(-20_000).starts_with("The holder worked longer than its lease"));
    assert!(slow(400_000).starts_with("The holder worked longer than its lease"));
}

/// What saved a run whose lock had failed its holder.
fn saved(sample: Sample) -> Option<String> {
    let history = sample.end();
    let judgement = check::judge(&history, &Setting::default());
    let subject = Subject::of(&history, &judgement).expect("something is found");
    saved::saved_by(&history, &subject)
}

/// Not what the lock could not know is what somebody reads of a run that is safe, but who did.
#[test]
fn what_saved_a_run_is_told() {
    let lost = || {
        let sample = Sample::new().at(100).grant("app-1/1").at(150).read("app-1/1", 1);
        sample.at(200).crash("redis-1").lost("redis-1", "app-1/1", RecordLoss::Crash)
    };
    let told = |reason| saved(lost().at(300).belief_ends("app-1/1", reason).at(9_000));
    let sell = StockOperation::Sell { unit: 1, order: "order-1".into() };
    let refused = lost().at(300).effect("app-1/1", Some(1), sell, false);
    let told = [
        told(BeliefEnd::Told),
        told(BeliefEnd::Deadline),
        told(BeliefEnd::Died),
        saved(lost().at(300).release("app-1/1").at(9_000)),
        saved(lost().at(300).sell("app-1/1", 1).at(310).release("app-1/1").at(9_000)),
        saved(refused.at(310).belief_ends("app-1/1", BeliefEnd::Told).at(9_000)),
    ];
    insta::assert_snapshot!(told.map(|told| told.expect("it was saved")).join("\n"));
    // Two at once were not saved.
    let both = Sample::new().at(100).grant("app-1/1").at(200).grant("app-2/1").at(300);
    assert_eq!(saved(both.at(9_000)), None);
}

/// Against sections in the wrong order a fence helps: it turns the older one away.
#[test]
fn a_stale_effect_has_a_mend() {
    let sample = Sample::new().at(1).grant_token("app-1/1", 1).let_go("app-1/1");
    let sample = sample.at(2).grant_token("app-2/1", 2).let_go("app-2/1");
    let history = sample.at(3).read("app-2/1", 1).at(4).read("app-1/1", 1).end();
    let setting = Setting { ordered_tokens: true, ..Setting::default() };
    let judgement = check::judge(&history, &setting);
    let subject = Subject::of(&history, &judgement).unwrap();
    assert_eq!(subject.finding.kind, Kind::StaleEffect);
    let proposals = |fence| {
        let plan = Plan { fence, ..plan() };
        proposals(&subject, &plan)
    };
    assert_eq!(proposals(Fence::Off).len(), 1);
    assert!(proposals(Fence::Full).is_empty());
}

//! Why a holder whose session its servers ended was not alone: an ensemble's leader, or a
//! database at which each connection is a session.

use crate::check::{Blame, BlamedFault};
use crate::history::{EventId, FaultFamily, History, What};
use crate::plan::{FaultKind, Plan, Ppm};

use super::restarted::is_database;
use FaultFamily::{ClockRate, ClockSlew, Partition, Pause, Reset, SlowLink};

/// The sentence. `leader` ended the session, and since `clock` its clock ran fast; where the
/// holder `has_noticed` that, it did nothing more.
pub(super) fn ended(
    history: &History,
    plan: &Plan,
    blame: &Blame,
    (leader, clock): (Option<&str>, Option<EventId>),
    has_noticed: bool,
) -> String {
    let leader = leader.unwrap_or("the leader");
    let silenced = blame.faults.iter().find(|fault| !matches!(fault.family, ClockRate | ClockSlew));
    if let Some(ppm) = clock.and_then(|event| rate_ppm(history, event)) {
        return format!(
            "The clock of {leader}, which led, runs fast ({}): it heard nothing of the holder's \
             session for a while and ended it before its timeout had passed by any other clock. \
             The holder went on.",
            Ppm(ppm),
        );
    }
    let Some(fault) = silenced else {
        return format!(
            "{leader} ended the holder's session while the holder was at work, and the history \
             does not show why."
        );
    };
    let is_holders = fault.role != "authority";
    match (fault.family, is_holders) {
        (Pause, true) => match group(plan, fault) {
            None if has_noticed => format!(
                "The holder stood still for longer than its session lasts: {leader} heard nothing \
                 of it and ended the session. The holder could notice only when it went on."
            ),
            None => format!(
                "The holder stood still for longer than its session lasts: {leader} heard nothing \
                 of it, ended the session and let the next one in. The holder went on where it \
                 was: it cannot know, and no lock can stop it."
            ),
            Some(group) => format!(
                "The holder's tasks {group} stood still: {leader} heard nothing of its session and \
                 ended it, and the holder worked on."
            ),
        },
        (Reset, _) => format!(
            "The connection that held the lock was reset: {leader} ended its session, and the lock \
             with it, while the holder was at work."
        ),
        (Partition, true) if is_database(plan) => format!(
            "The holder was cut off from {leader} for longer than its session may be idle: it ended \
             the session and let the next one in, and the holder went on."
        ),
        (Partition, true) => format!(
            "The holder was cut off from the ensemble for longer than its session lasts: {leader} \
             ended the session and let the next one in, and the holder went on."
        ),
        (SlowLink, true) => format!(
            "What the holder sent came so late that {leader} had ended its session and let the \
             next one in, and the holder went on."
        ),
        _ if is_database(plan) => format!(
            "{leader} was struck, ended the holder's session and let the next one in, and the \
             holder went on."
        ),
        _ => format!(
            "The servers of the ensemble were struck, and nobody kept the holder's session alive: \
             {leader} ended it and let the next one in, and the holder went on."
        ),
    }
}

/// The rate of a clock since this change of it, ppm.
fn rate_ppm(history: &History, change: EventId) -> Option<i64> {
    match history.get(change)?.what {
        What::ClockChanged { rate_ppm, .. } => Some(rate_ppm),
        _ => None,
    }
}

/// Which tasks alone a pause of the plan strikes.
fn group<'p>(plan: &'p Plan, fault: &BlamedFault) -> Option<&'p str> {
    match plan.faults.get(fault.fault).map(|fault| &fault.kind) {
        Some(FaultKind::Pause { group, .. }) => group.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{KEY, Sample};
    use crate::check::{self, Setting};
    use crate::history::{AcquireOutcome, NO_END};
    use crate::plan::{Fault, Fence, Micros, When, scenario};
    use crate::report::subject::Subject;
    use crate::report::why::why;

    const ENDED_MS: u64 = 2_500;

    /// `app-1` was granted the lock and has read; whatever happens to it begins after 150 ms.
    fn inside() -> Sample {
        let led = Sample::new().event("zk-3", What::Leading { epoch: 1 });
        let asked = led.at(100).ask("app-1/1").event("zookeeper", set("app-1/1"));
        asked.returned("app-1/1", granted()).read("app-1/1", 1).at(150)
    }

    fn granted() -> AcquireOutcome {
        AcquireOutcome::Granted { token: None, lease_us: NO_END, margin_us: 0 }
    }

    fn set(owner: &str) -> What {
        What::RecordSet { key: KEY.into(), owner: owner.into(), lease_us: None, shared: false }
    }

    /// Its session ends, the next sells the unit, and so does `app-1`.
    fn told(sample: Sample, plan: &Plan) -> (String, Vec<usize>) {
        let (session, records) = ("0x1".to_owned(), vec![(KEY.into(), "app-1/1".into())]);
        let history = sample
            .at(ENDED_MS)
            .event("zookeeper", What::SessionExpired { session, records })
            .ask("app-2/1")
            .event("zookeeper", set("app-2/1"))
            .returned("app-2/1", granted())
            .read("app-2/1", 1)
            .sell("app-2/1", 1)
            .at(ENDED_MS + 50)
            .sell("app-1/1", 1)
            .at(ENDED_MS + 60)
            .let_go("app-2/1")
            .release("app-1/1")
            .ledger(1, &[(1, "app-2/1"), (1, "app-1/1")])
            .end();
        let setting = Setting { faults: plan.faults.len(), ..Setting::default() };
        let judgement = check::judge(&history, &setting);
        let subject = Subject::of(&history, &judgement).expect("something is found");
        let faults = subject.blame().faults.iter().map(|fault| fault.fault).collect();
        (why(&history, plan, &subject), faults)
    }

    fn plan(faults: Vec<FaultKind>) -> Plan {
        let plan = scenario::default_plan("zookeeper-three", "zookeeper", Fence::Off).unwrap();
        let fault = |kind| Fault { kind, when: When::At(Micros(150_000)), lasts: None };
        Plan { faults: faults.into_iter().map(fault).collect(), ..plan }
    }

    fn pause(group: Option<&str>) -> FaultKind {
        FaultKind::Pause { node: "app-1".into(), group: group.map(str::to_owned) }
    }

    #[test]
    fn the_holder_or_only_what_keeps_its_session_alive_stood_still() {
        let asleep = || inside().fault(0, Pause, "app-1");
        let (why, faults) = told(asleep(), &plan(vec![pause(None)]));
        insta::assert_snapshot!(
            why,
            @"The holder stood still for longer than its session lasts: zk-3 heard nothing of it, ended the session and let the next one in. The holder went on where it was: it cannot know, and no lock can stop it."
        );
        assert_eq!(faults, [0]);
        let (why, _) = told(asleep(), &plan(vec![pause(Some("asyncs"))]));
        insta::assert_snapshot!(
            why,
            @"The holder's tasks asyncs stood still: zk-3 heard nothing of its session and ended it, and the holder worked on."
        );
    }

    #[test]
    fn the_holder_was_cut_off_or_the_servers_from_each_other() {
        let cut = |to: &str| {
            let (from, to) = (vec!["app-1".to_owned()], vec![to.to_owned()]);
            plan(vec![FaultKind::Partition { from, to, one_way: false }])
        };
        let cut_off = inside().link_fault(0, Partition, ["app-1", "zk-1"]);
        let (why, faults) = told(cut_off, &cut("zk-1"));
        insta::assert_snapshot!(
            why,
            @"The holder was cut off from the ensemble for longer than its session lasts: zk-3 ended the session and let the next one in, and the holder went on."
        );
        assert_eq!(faults, [0]);
        let apart = || inside().link_fault(0, Partition, ["zk-3", "zk-1"]);
        let led_anew = apart().at(400).event("zk-2", What::Leading { epoch: 2 });
        let (why, faults) = told(led_anew, &plan(vec![pause(None)]));
        insta::assert_snapshot!(
            why,
            @"The servers of the ensemble were struck, and nobody kept the holder's session alive: zk-2 ended it and let the next one in, and the holder went on."
        );
        assert_eq!(faults, [0]);
        // Another client's cut ends nobody else's session.
        let (why, faults) =
            told(inside().link_fault(0, Partition, ["app-2", "zk-1"]), &cut("zk-1"));
        insta::assert_snapshot!(
            why,
            @"zk-3 ended the holder's session while the holder was at work, and the history does not show why."
        );
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn only_the_clock_of_whoever_leads_is_blamed_and_only_a_fast_one() {
        let run = |node: &str, rate_ppm: i64| {
            let sample = inside().fault(0, Pause, "app-1").fault(1, ClockRate, node);
            let change = What::ClockChanged { offset_us: 0, rate_ppm };
            let rate = FaultKind::ClockRate { node: node.to_owned(), ppm: rate_ppm };
            told(sample.event(node, change), &plan(vec![pause(None), rate]))
        };
        let (why, faults) = run("zk-3", 600_000);
        insta::assert_snapshot!(
            why,
            @"The clock of zk-3, which led, runs fast (+60%): it heard nothing of the holder's session for a while and ended it before its timeout had passed by any other clock. The holder went on."
        );
        assert_eq!(faults, [0, 1]);
        for (node, rate_ppm) in [("zk-1", 600_000), ("zk-3", -50_000), ("zk-3", 200)] {
            let (why, faults) = run(node, rate_ppm);
            assert!(why.starts_with("The holder stood still for longer"), "{why}");
            assert_eq!(faults, [0]);
        }
    }
}

//! Is what proves a finding told, however much else there is?

use std::collections::BTreeSet;

use super::*;
use crate::check::Mechanism;
use crate::history::What;
use crate::report::sample;
use crate::storm::Run;

fn told(run: &Run) -> (Subject<'_>, Story) {
    let subject = Subject::of(&run.history, &run.judgement).unwrap();
    let story = Story::of(&run.history, &run.plan, &subject);
    (subject, story)
}

/// Where each fault of the plan is told, from 0.
fn begun(run: &Run, story: &Story) -> BTreeSet<usize> {
    let events = story.steps.iter().filter_map(|step| run.history.get(step.event?));
    let begun = events.filter_map(|event| match &event.what {
        What::FaultBegan { fault, .. } => Some(*fault),
        _ => None,
    });
    begun.collect()
}

#[test]
fn no_fault_drives_the_proof_out() {
    for more in 0..=9 {
        let run = sample::replication_lag_among(more);
        let (subject, story) = told(&run);
        let evidence: Vec<EventId> = subject
            .finding
            .events
            .iter()
            .chain(subject.harm.into_iter().flat_map(|harm| &harm.events))
            .copied()
            .collect();
        assert!(evidence.len() >= 6, "{evidence:?}");
        let shown: BTreeSet<EventId> = story.steps.iter().filter_map(|step| step.event).collect();
        for event in evidence.iter().filter_map(|id| run.history.get(*id)) {
            let is_told = match &event.what {
                // Told beside the request, as its outcome.
                What::AcquireReturned { attempt, .. } => story
                    .steps
                    .iter()
                    .any(|step| step.what.contains(&attempt.to_string()) && step.outcome == "OK"),
                // Told by what it touched.
                What::FaultTouched { .. } | What::Ledger { .. } => true,
                _ => shown.contains(&event.id),
            };
            assert!(is_told, "{more}: {event:?} of\n{story:#?}");
        }
        assert_eq!(begun(&run, &story), (0..run.plan.faults.len()).collect(), "{more}");
        let wrong = story.steps.iter().filter(|step| step.mark == Mark::Wrong).count();
        assert!(wrong >= 2, "{more}: both grants or both sales");
        // Two grants, two sales, two faults that are blamed, the promotion, what led to it and
        // that clients were told: those and the other faults are needed.
        assert!(story.steps.len() <= most_steps(9 + more, more), "{more}: {story:#?}");
        if more > 0 {
            assert_eq!(story.steps.len(), most_steps(9 + more, more), "{more}: {story:#?}");
        }
    }
    assert_eq!(
        [(9, 0), (9, 4), (9, 6), (16, 6)].map(|(needed, beside)| most_steps(needed, beside)),
        [12, 12, 14, 16]
    );
}

/// A server that is held up before it answers answers late: "OK" belongs behind that.
#[test]
fn what_held_up_a_reply_is_told_before_it() {
    let order = |touched_us: u64| {
        let run = sample::a_pause_between_a_request_and_its_reply(touched_us);
        let (_, story) = told(&run);
        let set = story.steps.iter().find(|step| step.what.starts_with("SET ")).unwrap();
        let fault = run
            .history
            .iter()
            .find(|event| matches!(event.what, What::FaultBegan { fault: 1, .. }));
        let place = |event: EventId| story.steps.iter().position(|step| step.event == Some(event));
        let fault = place(fault.unwrap().id).expect("it was at work");
        let granted = run.history.iter().find(|event| {
            matches!(event.what, What::AcquireReturned { ref attempt, .. } if attempt.to_string() == "app-1/1")
        });
        (set.outcome.clone(), fault, place(granted.unwrap().id))
    };
    let (outcome, fault, reply) = order(1_000_700);
    assert_eq!(outcome, "applied");
    assert!(reply.is_some_and(|reply| fault < reply), "{fault} {reply:?}");
    let (outcome, _, reply) = order(1_001_500);
    assert_eq!((outcome.as_str(), reply), ("OK", None));
}

/// A fault of one node's clock hides what it did there, and what the why speaks of elsewhere it
/// does not.
#[test]
fn the_change_of_a_clock_is_told_where_no_fault_tells_it() {
    for (node, is_told) in [("redis-2", true), ("app-1", false)] {
        let mut run = sample::replication_lag_beside_clocks();
        let is_change = |event: &&crate::history::Event| {
            matches!(event.what, What::ClockChanged { .. }) && *event.node == *node
        };
        let change = run.history.iter().find(is_change).unwrap().id;
        for finding in &mut run.judgement.findings {
            finding.blame.mechanism = Mechanism::SessionEnded {
                holder: "app-1".into(),
                expiry: change,
                leader: None,
                clock: Some(change),
            };
        }
        let (_, story) = told(&run);
        assert!(begun(&run, &story).contains(&2), "{story:#?}");
        let shown = story.steps.iter().any(|step| step.event == Some(change));
        assert_eq!(shown, is_told, "{node}: {story:#?}");
    }
}

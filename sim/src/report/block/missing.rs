//! What a run without a finding lacks, and the mend: no verdict without a reason.

use std::collections::BTreeMap;

use super::{Block, Failure, seconds};
use crate::check::{Goal, Judgement, Verdict};
use crate::explain::names;
use crate::fault;
use crate::history::{AcquireOutcome, Event, History, What};
use crate::plan::groups;
use crate::plan::{FaultKind, Micros, Plan, RedisPersistence, When};
use crate::report::layout::counted;

pub(super) fn tell(block: &mut Block<'_>, failure: &Failure<'_>) {
    let run = failure.run;
    let judgement = &run.judgement;
    let (sentence, mends) = match judgement.verdict {
        Verdict::Unknown => unknown(judgement, &run.history),
        Verdict::Inert => (inert_sentence(&run.plan), inert_mends(judgement, &run.plan)),
        Verdict::NotExpressible => not_expressible(failure),
        Verdict::Internal => internal(failure),
        Verdict::Nondeterminism => (
            "The same plan was run twice, and the two traces differ.".to_owned(),
            vec!["run it once more: the block of a single failure says where".to_owned()],
        ),
        Verdict::Safe | Verdict::SafeByFence | Verdict::Violation => (
            format!(
                "Nothing is wrong: {}, {} took effect.",
                counted(judgement.goals.handovers as u64, "handover"),
                counted(judgement.goals.touched.len() as u64, "fault"),
            ),
            Vec::new(),
        ),
    };
    block.paragraph(&sentence);
    block.blank();
    block.facts(failure, None);
    block.blank();
    // A fault that did nothing proves nothing, whatever the others did.
    if !judgement.goals.inert.is_empty() {
        for line in inert_faults(judgement, &run.plan, 8) {
            block.paragraph(&line);
        }
        block.blank();
    }
    if judgement.verdict.is_safe() {
        let did = what_faults_did(&run.history, &run.plan, judgement);
        did.iter().for_each(|line| block.paragraph(line));
        if !did.is_empty() {
            block.blank();
        }
    }
    let mends: Vec<&str> = mends.iter().map(String::as_str).collect();
    block.labelled("Mend", &mends);
}

fn unknown(judgement: &Judgement, history: &History) -> (String, Vec<String>) {
    let mut mends = Vec::new();
    let mut missing = ended_for_good(history);
    if !missing.is_empty() {
        mends.push(
            "a program that ends by itself stays so until a crash of its node, or the failure of \
             its disk, is over: have what made it end strike later, end sooner or strike fewer \
             nodes"
                .to_owned(),
        );
    }
    for failed in &judgement.failed {
        missing.push(format!("the checker {} failed: {}", failed.checker, failed.message));
        mends.push(
            "a checker that fails is a bug of lockstorm: please report it with the line below"
                .to_owned(),
        );
    }
    for goal in &judgement.goals.missed {
        let (what, mend) = missed(*goal);
        missing.push(what);
        mends.push(mend.to_owned());
    }
    if let Some(what) = nobody_was_let_in(history) {
        missing.push(what);
        mends.insert(0, "look first at what the lock says of itself".to_owned());
    }
    if judgement.undecided > 0 {
        missing.push(format!(
            "{} overlaps are shorter than the clocks are uncertain",
            judgement.undecided
        ));
        mends.push("record with better clocks, or at one host".to_owned());
    }
    if missing.is_empty() {
        missing.push("no goal is known to have been met".to_owned());
    }
    mends.dedup();
    (format!("Nothing can be said of this run: {}.", missing.join("; ")), mends)
}

/// Why nobody was ever granted the lock, where every acquire failed.
fn nobody_was_let_in(history: &History) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for event in history.iter() {
        let What::AcquireReturned { outcome, .. } = &event.what else { continue };
        match outcome {
            AcquireOutcome::Granted { .. } => return None,
            AcquireOutcome::Failed { reason } | AcquireOutcome::Indeterminate { reason } => {
                *reasons.entry(reason).or_default() += 1;
            }
            AcquireOutcome::Busy | AcquireOutcome::TimedOut => {}
        }
    }
    let total: usize = reasons.values().sum();
    let (reason, count) = reasons.into_iter().max_by_key(|(_, count)| *count)?;
    let acquires = counted(total as u64, "acquire");
    Some(format!("of {acquires} that failed {count} said \"{reason}\", and nobody was let in"))
}

/// What of a goal was not there, and the mend.
fn missed(goal: Goal) -> (String, &'static str) {
    let (what, mend) = match goal {
        Goal::Handover => (
            "the lock never passed from one client to another",
            "give the storm more time (--set duration=20s), more clients (--set topology.apps=3) \
             or more patience (--set workload.patience=10s)",
        ),
        Goal::FaultTookEffect => {
            ("no fault had an observable effect", "anchor a fault to an event that happens")
        }
        Goal::GrantInStorm => (
            "the lock was granted only after every fault had ended: in the storm it was not tried",
            "let the faults begin later or end sooner, or give the storm more time (--set \
             duration=20s)",
        ),
        Goal::BooksRead => (
            "units were sold, and the stock's books were never read",
            "the run ended before its clients: give it less to do, or look for a client that never \
             comes back",
        ),
        Goal::Conflict => (
            "no two clients ever wanted the same at the same time",
            "give the storm more clients (--set topology.apps=3) or fewer units",
        ),
        Goal::ResourceTouched => (
            "no client ever did anything to the resource that the lock guards",
            "say inside the section what it does there (`Inside::effect`), or leave the section \
             away and have it sell",
        ),
        Goal::Failover
        | Goal::Expiry
        | Goal::Renewal
        | Goal::HolderDied
        | Goal::SoldOut
        | Goal::FenceRefused => {
            let goal = goal.word(crate::check::Language::English);
            return (
                format!("the scenario's goal \"{goal}\" was not met"),
                "the scenario is about this, and it did not happen: anchor a fault where it would",
            );
        }
    };
    (what.to_owned(), mend)
}

/// What each fault of a safe run did first, and what became of its servers meanwhile: who led,
/// and whose sessions ended. A run that says nothing of this could be one in which all was calm.
fn what_faults_did(history: &History, plan: &Plan, judgement: &Judgement) -> Vec<String> {
    const MOST_FAULTS: usize = 6;
    const MOST_EVENTS: usize = 6;
    let touched = &judgement.goals.touched;
    let of_fault = touched.iter().take(MOST_FAULTS).filter_map(|fault| {
        let narration = fault::narration(&plan.faults.get(*fault)?.kind);
        let how = history.iter().find_map(|event| match &event.what {
            What::FaultTouched { fault: of, how } if of == fault => Some(how),
            _ => None,
        });
        Some(format!("fault {fault}: {narration}; {}", how?))
    });
    let mut lines: Vec<String> = of_fault.collect();
    if touched.len() > MOST_FAULTS {
        lines.push(format!("and {} more", touched.len() - MOST_FAULTS));
    }
    let is_told = |event: &&Event| {
        matches!(
            event.what,
            What::Promoted { .. }
                | What::Leading { .. }
                | What::SteppedDown { .. }
                | What::SessionExpired { .. }
        )
    };
    let events = history.iter().filter(is_told);
    let mut told: Vec<String> = events
        .clone()
        .take(MOST_EVENTS)
        .filter_map(|event| Some(format!("{} ({})", names::name(event)?, seconds(event.at_us))))
        .collect();
    if events.clone().count() > MOST_EVENTS {
        told.push(format!("and {} more", events.count() - MOST_EVENTS));
    }
    if !told.is_empty() {
        lines.push(format!("servers: {}", told.join(", ")));
    }
    lines
}

/// Whose programs ended by themselves and were not started again while the storm lasted, and why.
fn ended_for_good(history: &History) -> Vec<String> {
    let healed = history.iter().find(|event| event.what == What::Healed);
    let over_us = healed.map_or(u64::MAX, |event| event.at_us);
    let is_for_good = |event: &Event| {
        !history.iter().any(|later| {
            later.id > event.id
                && later.at_us < over_us
                && later.node == event.node
                && matches!(later.what, What::NodeStarted { .. })
        })
    };
    let ended = history.iter().filter_map(|event| match &event.what {
        What::ProgramEnded { how } if is_for_good(event) => {
            let at = Micros(event.at_us);
            Some(format!("{} ended by itself after {at} ({how})", event.node))
        }
        _ => None,
    });
    ended.collect()
}

const INERT_MEND: &str = "anchor a fault to an event that happens (after = \"app-1 acquire 2 \
                          applied\"), or move it to where its nodes have something to do";

fn inert_sentence(plan: &Plan) -> String {
    match plan.faults.len() {
        1 => "The plan has a fault, and it had no observable effect: this run proves nothing."
            .to_owned(),
        many => format!(
            "The plan has {many} faults, and none had an observable effect: this run proves \
             nothing.",
        ),
    }
}

/// What would have each fault do something.
fn inert_mends(judgement: &Judgement, plan: &Plan) -> Vec<String> {
    let mut mends: Vec<String> = Vec::new();
    for inert in &judgement.goals.inert {
        let planned = plan.faults.get(inert.fault).filter(|_| inert.began.is_some());
        let diskless = planned.and_then(|fault| diskless(&fault.kind, plan));
        let mend = match diskless {
            Some((_, mend)) => mend,
            None => INERT_MEND.to_owned(),
        };
        if !mends.contains(&mend) {
            mends.push(mend);
        }
    }
    if mends.is_empty() {
        mends.push(INERT_MEND.to_owned());
    }
    mends
}

/// Of a fault of a disk that its node keeps nothing on: the node, and what would change that.
fn diskless<'k>(kind: &'k FaultKind, plan: &Plan) -> Option<(&'k str, String)> {
    let (FaultKind::DiskSlow { node, .. }
    | FaultKind::DiskStall { node }
    | FaultKind::DiskError { node }) = kind
    else {
        return None;
    };
    if node.starts_with("redis-") && plan.topology.persistence == RedisPersistence::None {
        let mend = "have the Redis servers keep what they have on their disks (--set \
                    topology.redis-persistence=aof-always)";
        return Some((node, mend.to_owned()));
    }
    let keeps = groups::sort_of(node).is_some_and(|(_, sort)| sort.keeps);
    let mend =
        format!("{node} is no server that keeps anything: have the fault strike one that is");
    (!keeps).then_some((node, mend))
}

/// What became of each fault that touched nothing; of many, the first `most`.
pub(super) fn inert_faults(judgement: &Judgement, plan: &Plan, most: usize) -> Vec<String> {
    let inert = &judgement.goals.inert;
    let lines = inert.iter().take(most).map(|inert| {
        let planned = plan.faults.get(inert.fault);
        let narration = planned.map(|fault| fault::narration(&fault.kind));
        let what = narration.unwrap_or_else(|| inert.description.clone());
        let group = planned.and_then(|fault| match &fault.kind {
            FaultKind::Pause { group: Some(group), .. } => Some(group),
            _ => None,
        });
        let became = match (inert.began, planned.map(|fault| &fault.when)) {
            (Some(_), _) if group.is_some() => format!(
                "it began, and no task of the group {} came to run: the lock {} may have none",
                group.map_or("", String::as_str),
                plan.lock.name
            ),
            (Some(_), _) => match planned.and_then(|fault| diskless(&fault.kind, plan)) {
                Some((node, _)) => format!("it began, and {node} keeps nothing on its disk"),
                None => "it began, and nothing met it".to_owned(),
            },
            (None, Some(When::After { anchor, .. })) => {
                format!("it never began: `{anchor}` never happened")
            }
            (None, Some(When::At(at))) => format!("it never began: the storm was over before {at}"),
            (None, None) => "it never began".to_owned(),
        };
        format!("fault {}: {what}; {became}", inert.fault)
    });
    let mut lines: Vec<String> = lines.collect();
    if inert.len() > most {
        lines.push(format!("and {} more", inert.len() - most));
    }
    lines
}

fn not_expressible(failure: &Failure<'_>) -> (String, Vec<String>) {
    let run = failure.run;
    let clause = run.ending.stuck.as_deref().unwrap_or("a part of the plan");
    // Some of it shows only as the plan is run.
    let how_far = if run.ending.steps == 0 { "Nothing was run" } else { "The run ended there" };
    let sentence = format!("{} cannot do what the plan asks: {clause}. {how_far}.", run.engine);
    let mend = match &run.ending.mend {
        Some(mend) => mend,
        None if run.engine_name == "event" => {
            "whose a task is, is known of those that are spawned through the host: use \
             Host::spawn, or leave out the fault that strikes beside others"
        }
        None => "run it on the engine that can do all of it: --engine event",
    };
    (sentence, vec![mend.to_owned()])
}

fn internal(failure: &Failure<'_>) -> (String, Vec<String>) {
    let why = failure.run.ending.stuck.as_deref().unwrap_or("it did not say why");
    let why = why.trim_end_matches('.');
    let sentence = format!("The run came to no end of its own: {why}.");
    let misused = MISUSES.iter().find(|(sign, _)| why.contains(sign));
    let mend = misused.map_or(
        "a lock that panics or never yields is a bug of the lock; anything else is a bug of \
         lockstorm: please report it with the line below",
        |(_, mend)| mend,
    );
    (sentence, vec![mend.to_owned()])
}

/// What tokio says of what has no place in a run, and what to do instead.
const MISUSES: [(&str, &str); 2] = [
    (
        "but IO is disabled",
        "a real socket has no place in a run: have the lock connect through its node \
         (`Node::redis`, `Node::postgres`, `Node::connect`)",
    ),
    (
        "Cannot start a runtime from within a runtime",
        "a run has a runtime of its own, with one thread: await what the lock does there, and \
         start no other",
    ),
];

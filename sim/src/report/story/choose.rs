//! Chooses the events of a story and weighs them.
//!
//! What proves the finding comes first, then what the parties did to the lock and to
//! the stock, then what the cluster did between them. Events of other clients and
//! other locks are no part of it. Faults are told where they are blamed, and where they were
//! at work on a party or its server meanwhile ([`at_work`](super::at_work)).

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Kind;
use crate::history::{AcquireOutcome, Attempt, Event, EventId, FaultFamily, History, What};
use crate::report::subject::Subject;

use super::at_work::{AtWork, at_work};

/// How much an event matters to a story, 0 for what it cannot be told without and what is never
/// left out: what proves it, and the faults.
pub(super) type Weight = u8;

/// An event that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Scene<'a> {
    pub event: &'a Event,
    pub weight: Weight,
    /// The reply to the request that `event` applies, where no other event that was
    /// chosen lies between them: the two are told as one step.
    pub reply: Option<&'a Event>,
    /// Of a fault that changes nothing about what is under way, up to which event: a request
    /// and a reply before that are told as one step, and it behind them.
    pub idle_until: Option<EventId>,
}

/// The events that matter, in order, and how many of them are faults that are told though
/// nothing is blamed on them.
pub(super) fn choose<'a>(history: &'a History, subject: &Subject<'_>) -> (Vec<Scene<'a>>, usize) {
    let chooser = Chooser::new(history, subject);
    let weighed = history.iter().filter_map(|event| Some((event, chooser.weigh(event)?)));
    let scenes = weighed.map(|(event, weight)| Scene {
        event,
        weight,
        reply: None,
        idle_until: chooser.idle_until(event),
    });
    (scenes.collect(), chooser.at_work.len())
}

/// What is known before the choice.
struct Chooser<'s> {
    key: &'s str,
    owners: BTreeSet<&'s str>,
    evidence: BTreeSet<EventId>,
    /// What the sentence of the why speaks of: the story must show it.
    told: BTreeSet<EventId>,
    /// The faults that are told and their families, by position in the plan: those that are
    /// blamed …
    faults: BTreeMap<usize, FaultFamily>,
    /// … and, by their beginnings, others that were at work on a party or its server meanwhile.
    at_work: BTreeMap<EventId, AtWork>,
    /// Whose clocks those faults changed.
    clocks: BTreeSet<&'s str>,
    /// Of each owner, the application that its client was told of.
    applied: BTreeSet<EventId>,
    /// From the first application, or the failover before it, to the last piece of
    /// evidence.
    window: (EventId, EventId),
    /// What sentinels said that is worth telling: all of them say the same.
    said: BTreeSet<EventId>,
    is_leak: bool,
}

impl<'s> Chooser<'s> {
    fn new(history: &'s History, subject: &Subject<'s>) -> Self {
        let key = subject.key();
        let owners: BTreeSet<&str> = subject.owners().into_iter().collect();
        let blamed = subject.blame().faults.iter().map(|fault| (fault.fault, fault.family));
        let mut faults: BTreeMap<usize, FaultFamily> = blamed.collect();
        let applied = told_applications(history, &owners);
        // The books are read at the end of every run: they say nothing of when.
        let is_books = |id: &&EventId| {
            history.get(**id).is_some_and(|event| matches!(event.what, What::Ledger { .. }))
        };
        let all = subject.evidence();
        let evidence: BTreeSet<EventId> = all.iter().filter(|id| !is_books(id)).copied().collect();
        let mut others = at_work(history, &owners, &applied, &evidence);
        others.retain(|_, other| !faults.contains_key(&other.fault));
        faults.extend(others.values().map(|other| (other.fault, other.family)));
        let mechanism = &subject.blame().mechanism;
        let mut told: BTreeSet<EventId> = mechanism.events().into_iter().collect();
        let failover = mechanism.failover();
        let failover = failover.map_or([None, None], |over| [over.down, over.switch]);
        told.extend(failover.into_iter().flatten());
        let grant = applied.first().or(evidence.first()).copied().unwrap_or(EventId(0));
        let first = told.first().map_or(grant, |first| grant.min(*first));
        let last = evidence.last().copied().unwrap_or(grant);
        Chooser {
            key,
            owners,
            evidence,
            told,
            clocks: changed_clocks(history, &faults),
            faults,
            at_work: others,
            applied,
            window: (first, last),
            said: said(history),
            is_leak: subject.finding.kind == Kind::LeakedLock,
        }
    }

    fn weigh(&self, event: &Event) -> Option<Weight> {
        if let What::FaultTouched { fault, .. } = &event.what {
            return self.weigh_touch(*fault);
        }
        let owned = self.weigh_owned(event);
        let weight =
            owned.or_else(|| self.weigh_fault(event)).or_else(|| self.weigh_cluster(event));
        if self.told.contains(&event.id) && !self.is_of_fault(event) {
            return Some(0);
        }
        if self.evidence.contains(&event.id) { Some(0) } else { weight }
    }

    fn is_owner(&self, owner: &str) -> bool {
        self.owners.contains(owner)
    }

    fn is_attempt(&self, attempt: &Attempt) -> bool {
        self.owners.contains(attempt.to_string().as_str())
    }

    /// What the parties did, and what became of their records.
    fn weigh_owned(&self, event: &Event) -> Option<Weight> {
        match &event.what {
            What::RecordSet { owner, .. } if self.is_owner(owner) => {
                Some(if self.applied.contains(&event.id) { 0 } else { 4 })
            }
            What::AcquireReturned { attempt, outcome, .. } if self.is_attempt(attempt) => {
                let is_granted = matches!(outcome, AcquireOutcome::Granted { .. });
                Some(if is_granted { 2 } else { 3 })
            }
            What::Effect { owner, operation, accepted, .. } if self.is_owner(owner) => {
                use crate::history::StockOperation::{Act, Cancel, Read, Reserve, Sell};
                Some(match operation {
                    _ if !accepted => 1,
                    Sell { .. } | Reserve { .. } | Cancel { .. } | Act { .. } => 1,
                    Read { .. } => 3,
                })
            }
            What::RecordExpired { owner, .. } if self.is_owner(owner) => {
                Some(if self.is_within(event) { 2 } else { 5 })
            }
            // What a server loses that nobody relied on any more is of little interest.
            What::RecordLost { owner, .. } if self.is_owner(owner) => {
                self.is_within(event).then_some(4)
            }
            What::ReleaseReturned { attempt, release } if self.is_attempt(attempt) => {
                Some(if *release == lockstorm::lock::Release::NotHeld { 4 } else { 5 })
            }
            // The release tells of it, and who was told to stop says so by stopping.
            What::BeliefEnded { attempt, .. } if self.is_attempt(attempt) => Some(5),
            What::RecordReleased { owner, .. } if self.is_owner(owner) => Some(5),
            _ => None,
        }
    }

    /// That a fault touched something proves that it counts; to a story it adds little,
    /// and to that of a crash nothing.
    fn weigh_touch(&self, fault: usize) -> Option<Weight> {
        match self.faults.get(&fault)? {
            FaultFamily::ProcessCrash | FaultFamily::MachineCrash => None,
            FaultFamily::ReplicationStall => Some(4),
            _ => Some(5),
        }
    }

    fn weigh_fault(&self, event: &Event) -> Option<Weight> {
        match &event.what {
            What::FaultBegan { fault, .. } if self.faults.contains_key(fault) => Some(0),
            What::FaultEnded { fault } => match self.faults.get(fault)? {
                FaultFamily::Pause | FaultFamily::Hang if self.is_within(event) => Some(2),
                // What was held is gone with the master by then.
                FaultFamily::ReplicationStall => None,
                _ if self.is_within(event) => Some(5),
                _ => None,
            },
            _ => None,
        }
    }

    fn weigh_cluster(&self, event: &Event) -> Option<Weight> {
        if !self.is_within(event) {
            return (self.is_leak && event.what == What::Healed).then_some(3);
        }
        match &event.what {
            What::Promoted { records, .. } => {
                let kept =
                    records.iter().any(|(key, owner)| **key == *self.key && self.is_owner(owner));
                Some(if kept { 4 } else { 1 })
            }
            What::MasterSwitched { .. } if self.said.contains(&event.id) => Some(3),
            What::LeaderElected { .. } | What::Leading { .. } => Some(4),
            What::SteppedDown { .. } => Some(5),
            // The one that is the finding proves it.
            What::BroadcastBroken { .. } => Some(1),
            What::SessionExpired { records, .. } => {
                let is_of_party = records.iter().any(|(_, owner)| self.is_owner(owner));
                Some(if is_of_party { 1 } else { 5 })
            }
            What::MasterDown { .. } if self.said.contains(&event.id) => Some(5),
            _ => None,
        }
    }

    /// Whether it is a clock's change that a fault which is told brought about.
    fn is_of_fault(&self, event: &Event) -> bool {
        matches!(event.what, What::ClockChanged { .. }) && self.clocks.contains(&*event.node)
    }

    /// That a stall met something belongs behind it, and so does a fault that nothing is blamed
    /// on until it did something.
    fn idle_until(&self, event: &Event) -> Option<EventId> {
        match &event.what {
            What::FaultTouched { fault, .. } => {
                let is_stall = self.faults.get(fault) == Some(&FaultFamily::ReplicationStall);
                is_stall.then_some(EventId(u64::MAX))
            }
            _ => self.at_work.get(&event.id).map(|fault| fault.touched),
        }
    }

    fn is_within(&self, event: &Event) -> bool {
        (self.window.0..=self.window.1).contains(&event.id)
    }
}

/// The nodes whose clocks those of `faults` strike that are about clocks.
fn changed_clocks<'h>(
    history: &'h History,
    faults: &BTreeMap<usize, FaultFamily>,
) -> BTreeSet<&'h str> {
    use FaultFamily::{ClockFreeze, ClockRate, ClockSlew, ClockStep};
    let is_of_clock =
        |family: &FaultFamily| matches!(family, ClockFreeze | ClockRate | ClockSlew | ClockStep);
    let struck = history.iter().filter_map(|event| match &event.what {
        What::FaultBegan { fault, targets, .. } if faults.get(fault).is_some_and(is_of_clock) => {
            Some(targets.iter().chain([&event.node]))
        }
        _ => None,
    });
    struck.flatten().map(|node| &**node).collect()
}

/// Of what several sentinels say alike: of giving up on a master the word of whoever was
/// elected then, of a switch the first. Where nobody is elected all of it is said once.
fn said(history: &History) -> BTreeSet<EventId> {
    let elects = |event: &Event| matches!(event.what, What::LeaderElected { .. });
    let has_elections = history.iter().any(elects);
    let mut said = BTreeSet::new();
    let mut downs: BTreeMap<&str, EventId> = BTreeMap::new();
    let mut master = None;
    for event in history.iter() {
        match &event.what {
            What::MasterDown { .. } if has_elections => {
                downs.insert(&event.node, event.id);
            }
            What::MasterDown { .. } => {
                said.insert(event.id);
            }
            What::LeaderElected { .. } => said.extend(downs.remove(&*event.node)),
            What::MasterSwitched { to, .. } if master != Some(to) => {
                master = Some(to);
                said.insert(event.id);
            }
            _ => {}
        }
    }
    said
}

/// Of each owner the last application before its client was told; of one whose client
/// was never told, the last.
pub(super) fn told_applications(history: &History, owners: &BTreeSet<&str>) -> BTreeSet<EventId> {
    let mut last: BTreeMap<&str, EventId> = BTreeMap::new();
    let mut told: BTreeSet<String> = BTreeSet::new();
    for event in history.iter() {
        match &event.what {
            What::RecordSet { owner, .. }
                if owners.contains(&**owner) && !told.contains(&**owner) =>
            {
                last.insert(owner, event.id);
            }
            What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
                told.insert(attempt.to_string());
            }
            _ => {}
        }
    }
    last.into_values().collect()
}

/// Tells a request and its reply as one where nothing that was chosen lies between:
/// the acquire with its application, the release with the record's deletion. A fault that began
/// between them and did nothing until the reply is told behind both.
pub(super) fn join_replies(scenes: &mut Vec<Scene<'_>>) {
    let mut n = 0;
    while n + 1 < scenes.len() {
        let idle = scenes[n + 1..].iter().map_while(|scene| scene.idle_until);
        let (between, until) = idle
            .fold((0, EventId(u64::MAX)), |(between, until), idle| (between + 1, until.min(idle)));
        let reply = scenes.get(n + 1 + between).filter(|reply| reply.event.id < until);
        let joins = match (&scenes[n].event.what, reply.map(|reply| &reply.event.what)) {
            (What::RecordSet { owner, .. }, Some(What::AcquireReturned { attempt, .. }))
            | (What::RecordReleased { owner, .. }, Some(What::ReleaseReturned { attempt, .. })) => {
                attempt.to_string() == **owner
            }
            _ => false,
        };
        if joins {
            let reply = scenes.remove(n + 1 + between);
            scenes[n].weight = scenes[n].weight.min(reply.weight);
            scenes[n].reply = Some(reply.event);
        }
        n += 1;
    }
}

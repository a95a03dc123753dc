//! Walks from the harm back to what set it off.
//!
//! An act follows from the grant that its client was told of, that from the server's, and
//! the second grant from what took the first one's record away: a failover, a restart, an
//! expiry, as the blame has read it off the servers. The walk ends at the faults.

use super::names;
use crate::check::{Finding, Kind};
use crate::history::{AcquireOutcome, Event, EventId, History, StockOperation, What};
use crate::report::subject::Subject;
use crate::storm::Run;

/// One step back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The event.
    pub event: EventId,
    /// When, µs.
    pub at_us: u64,
    /// What.
    pub name: String,
    /// How many steps it is from the harm.
    pub depth: u32,
}

/// No walk is longer.
const LONGEST: usize = 16;

/// The walk of a run; empty where nothing was found.
pub fn of(run: &Run) -> Vec<Link> {
    let history = &run.history;
    let Some(subject) = Subject::of(history, &run.judgement) else { return Vec::new() };
    let walk = Walk { history, subject: &subject };
    let mut links: Vec<Link> = Vec::new();
    // The latest is walked back from first.
    let mut next: Vec<(&Event, u32)> = walk.harm().into_iter().map(|event| (event, 0)).collect();
    while let Some((event, depth)) = next.pop() {
        if links.len() == LONGEST || links.iter().any(|link| link.event == event.id) {
            continue;
        }
        let Some(name) = names::name(event) else { continue };
        links.push(Link { event: event.id, at_us: event.at_us, name, depth });
        let causes = walk.causes(event);
        next.extend(causes.into_iter().rev().map(|cause| (cause, depth + 1)));
    }
    links
}

struct Walk<'a> {
    history: &'a History,
    subject: &'a Subject<'a>,
}

impl<'a> Walk<'a> {
    fn get(&self, id: EventId) -> Option<&'a Event> {
        self.history.get(id)
    }

    /// What was done wrong, in order: the sales of the unit, or else the last event of the
    /// proof.
    fn harm(&self) -> Vec<&'a Event> {
        let finding: &Finding = self.subject.harm.unwrap_or(self.subject.finding);
        let events = finding.events.iter().filter_map(|id| self.get(*id));
        let told: Vec<&Event> = events.filter(|event| names::name(event).is_some()).collect();
        let is_sale = |event: &&Event| {
            matches!(&event.what, What::Effect { operation: StockOperation::Sell { .. }, .. })
        };
        match finding.kind {
            Kind::Oversell => told.into_iter().filter(is_sale).collect(),
            _ => told.into_iter().next_back().into_iter().collect(),
        }
    }

    fn causes(&self, event: &'a Event) -> Vec<&'a Event> {
        match &event.what {
            What::Effect { owner, .. } => self.granted_before(owner, event).into_iter().collect(),
            What::AcquireReturned { attempt, .. } => {
                let owner = attempt.to_string();
                self.last_before(
                    event,
                    |what| matches!(what, What::RecordSet { owner: set, .. } if **set == *owner),
                )
                .into_iter()
                .collect()
            }
            What::RecordSet { owner, .. } => self.let_in(owner),
            What::Promoted { .. } | What::NodeStarted { .. } | What::RecordExpired { .. } => {
                self.behind(event)
            }
            What::MasterDown { .. } => self.faults(event),
            _ => event.cause.and_then(|cause| self.get(cause)).into_iter().collect(),
        }
    }

    fn last_before(&self, event: &Event, is_it: impl Fn(&What) -> bool) -> Option<&'a Event> {
        let before = self.history.events.get(..usize::try_from(event.id.0).ok()?)?;
        before.iter().rev().find(|event| is_it(&event.what))
    }

    fn granted_before(&self, owner: &str, event: &Event) -> Option<&'a Event> {
        self.last_before(event, |what| {
            matches!(what, What::AcquireReturned {
                attempt, outcome: AcquireOutcome::Granted { .. }, ..
            } if attempt.to_string() == owner)
        })
    }

    /// Why the second of two owners could be granted the lock.
    fn let_in(&self, owner: &str) -> Vec<&'a Event> {
        let blame = self.subject.blame();
        let Some(first) = blame.owners.first().filter(|first| *first != owner) else {
            return Vec::new();
        };
        let mut causes: Vec<&Event> =
            blame.mechanism.events().into_iter().filter_map(|id| self.get(id)).collect();
        if causes.is_empty() {
            causes = self.faults_of_blame();
        }
        let first = self.history.iter().find(
            |event| matches!(&event.what, What::RecordSet { owner, .. } if **owner == **first),
        );
        causes.extend(first);
        causes
    }

    /// What stood behind an event of the cluster.
    fn behind(&self, event: &'a Event) -> Vec<&'a Event> {
        let failover = self.subject.blame().mechanism.failover();
        let down = failover.and_then(|failover| failover.down).and_then(|down| self.get(down));
        match down.filter(|down| down.id < event.id) {
            Some(down) if matches!(event.what, What::Promoted { .. }) => vec![down],
            _ => self.faults(event),
        }
    }

    /// The blamed faults that had begun before `event`.
    fn faults(&self, event: &Event) -> Vec<&'a Event> {
        let mut faults = self.faults_of_blame();
        faults.retain(|fault| fault.id < event.id);
        faults
    }

    fn faults_of_blame(&self) -> Vec<&'a Event> {
        let faults = self.subject.blame().faults.iter();
        faults.filter_map(|fault| self.get(*fault.events.first()?)).collect()
    }
}

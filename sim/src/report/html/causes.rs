//! What led to each event: the cause that it names itself, and what the history shows of
//! requests, their application and their replies.
//!
//! A request is applied where its owner's name is written, a reply follows from what was
//! applied, a replica's copy from its master's record, an act from the grant that its
//! client was told of, a failover from the fault that took the master. Each is looked up in
//! one pass, by who was last; what nothing shows has no cause here.

use std::collections::BTreeMap;

use crate::check::Mechanism;
use crate::history::{Event, EventId, History, StockOperation, What};
use crate::report::subject::Subject;

/// No event has more causes than this.
const MOST: usize = 3;

/// The causes of every event, by its position; the nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes(Vec<Vec<EventId>>);

impl Causes {
    /// What led to what in `history`; for the second grant of `subject` also what let it in.
    pub fn of(history: &History, subject: Option<&Subject<'_>>) -> Causes {
        let mut last = Last::default();
        let mut causes = Vec::with_capacity(history.events.len());
        for event in history.iter() {
            let mut of_event = last.led_to(event);
            of_event.extend(event.cause);
            of_event.retain(|cause| *cause < event.id);
            let mut seen = Vec::new();
            of_event.retain(|cause| {
                !seen.contains(cause) && {
                    seen.push(*cause);
                    true
                }
            });
            of_event.truncate(MOST);
            causes.push(of_event);
            last.note(event);
        }
        let mut causes = Causes(causes);
        causes.carried_by(history);
        if let Some(subject) = subject {
            causes.let_in(history, subject);
        }
        causes
    }

    /// Adds the message that brought what one node led another to: the last one that arrived
    /// on that way after the one and before the other.
    fn carried_by(&mut self, history: &History) {
        // By way: when it left and when it arrived, in order of arrival.
        let mut ways: BTreeMap<(&str, &str), Vec<(EventId, EventId)>> = BTreeMap::new();
        for event in history.iter() {
            if let What::MessageDelivered { from } = &event.what
                && let Some(sent) = event.cause
            {
                ways.entry((&**from, &*event.node)).or_default().push((sent, event.id));
            }
        }
        if ways.is_empty() {
            return;
        }
        for event in history.iter().filter(|event| !event.what.is_message()) {
            let Some(causes) = usize::try_from(event.id.0).ok().and_then(|at| self.0.get_mut(at))
            else {
                continue;
            };
            let carried = causes.iter().filter_map(|id| history.get(*id)).find_map(|cause| {
                let way = ways.get(&(&*cause.node, &*event.node))?;
                let before = way.partition_point(|(_, arrived)| *arrived < event.id);
                let (sent, arrived) = way[..before].last()?;
                (cause.node != event.node && *sent > cause.id).then_some(*arrived)
            });
            causes.extend(carried);
        }
    }

    /// Of one event.
    pub fn get(&self, event: EventId) -> &[EventId] {
        usize::try_from(event.0).ok().and_then(|at| self.0.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Why the second of two owners could be granted the lock: what the blame has read off
    /// the servers.
    fn let_in(&mut self, history: &History, subject: &Subject<'_>) {
        let blame = subject.blame();
        let Some(second) = blame.owners.get(1) else { return };
        let set = history.iter().filter(
            |event| matches!(&event.what, What::RecordSet { owner, .. } if **owner == **second),
        );
        let mut events: Vec<EventId> = blame.mechanism.events();
        if let Mechanism::Unknown | Mechanism::AsleepAtEnd { .. } = blame.mechanism {
            events.extend(&blame.shown_by);
        }
        for set in set {
            let Some(causes) = usize::try_from(set.id.0).ok().and_then(|at| self.0.get_mut(at))
            else {
                continue;
            };
            let more = events.iter().copied().filter(|event| *event < set.id);
            let more: Vec<EventId> = more.filter(|event| !causes.contains(event)).collect();
            causes.extend(more);
        }
    }
}

/// Who did what last.
#[derive(Default)]
struct Last<'a> {
    /// By owner: it asked, a server applied or refused it, its client was told, it asked to
    /// release or to renew.
    asked: BTreeMap<String, EventId>,
    served: BTreeMap<&'a str, EventId>,
    told: BTreeMap<String, EventId>,
    releasing: BTreeMap<String, EventId>,
    renewing: BTreeMap<String, EventId>,
    ended: BTreeMap<&'a str, EventId>,
    /// By order: the sale.
    sold: BTreeMap<&'a str, EventId>,
    /// By node.
    crashed: BTreeMap<&'a str, EventId>,
    resynchronised: BTreeMap<&'a str, EventId>,
    demoted: BTreeMap<&'a str, EventId>,
    /// The fault that began at a node last, and each by its position.
    fault_at: BTreeMap<&'a str, EventId>,
    fault: BTreeMap<usize, EventId>,
    down: Option<EventId>,
    elected: Option<EventId>,
    promoted: Option<EventId>,
}

impl<'a> Last<'a> {
    fn led_to(&self, event: &Event) -> Vec<EventId> {
        let node = &*event.node;
        let causes: [Option<&EventId>; 2] = match &event.what {
            What::RecordSet { owner, .. }
            | What::RecordRefused { owner, .. }
            | What::WaitBegan { owner, .. }
            | What::WaitEnded { owner, .. } => [self.asked.get(&**owner), None],
            What::AcquireReturned { attempt, .. } => {
                [self.served.get(attempt.to_string().as_str()), None]
            }
            What::RecordExtended { owner, .. } => [self.renewing.get(&**owner), None],
            What::RecordReleased { owner, .. } => [self.releasing.get(&**owner), None],
            What::RenewReturned { attempt, .. } => {
                [self.served.get(attempt.to_string().as_str()), None]
            }
            What::ReleaseReturned { attempt, .. } => {
                [self.ended.get(attempt.to_string().as_str()), None]
            }
            What::RecordReplicated { owner, .. }
            | What::RecordLoaded { owner, .. }
            | What::RecordExpired { owner, .. } => [self.served.get(&**owner), None],
            What::RecordUnreplicated { owner, .. } => {
                [self.ended.get(&**owner), self.served.get(&**owner)]
            }
            What::RecordLost { owner, .. } => {
                let gone = self.crashed.get(node).max(self.resynchronised.get(node));
                [gone, self.served.get(&**owner)]
            }
            What::Effect { owner, .. } => [self.told.get(&**owner), None],
            What::OrderReturned { order, .. } => [self.sold.get(&**order), None],
            What::Promoted { .. } => [self.elected.as_ref().or(self.down.as_ref()), None],
            What::LeaderElected { .. } => [self.down.as_ref(), None],
            What::MasterDown { master } => {
                let host = master.rsplit_once(':').map_or(master.as_str(), |(host, _)| host);
                [self.crashed.get(host).max(self.fault_at.get(host)), None]
            }
            What::MasterSwitched { .. } | What::Demoted { .. } => [self.promoted.as_ref(), None],
            What::Resynchronised { .. } => [self.demoted.get(node), None],
            What::NodeStarted { incarnation: 2.. } => [self.crashed.get(node), None],
            What::NodeCrashed { .. } | What::ProgramEnded { .. } | What::ClockChanged { .. } => {
                [self.fault_at.get(node), None]
            }
            What::FaultTouched { fault, .. } | What::FaultEnded { fault } => {
                [self.fault.get(fault), None]
            }
            _ => [None, None],
        };
        causes.into_iter().flatten().copied().collect()
    }

    fn note(&mut self, event: &'a Event) {
        let (id, node) = (event.id, &*event.node);
        match &event.what {
            What::AcquireInvoked { attempt, .. } => {
                self.asked.insert(attempt.to_string(), id);
            }
            What::AcquireReturned { attempt, .. } => {
                self.told.insert(attempt.to_string(), id);
            }
            What::ReleaseInvoked { attempt } => {
                self.releasing.insert(attempt.to_string(), id);
            }
            What::RenewInvoked { attempt } => {
                self.renewing.insert(attempt.to_string(), id);
            }
            What::RecordSet { owner, .. }
            | What::RecordExtended { owner, .. }
            | What::RecordRefused { owner, .. } => {
                self.served.insert(owner, id);
            }
            What::RecordReleased { owner, .. }
            | What::RecordExpired { owner, .. }
            | What::RecordLost { owner, .. } => {
                self.ended.insert(owner, id);
            }
            What::Effect { operation: StockOperation::Sell { order, .. }, .. } => {
                self.sold.insert(order, id);
            }
            What::NodeCrashed { .. } | What::ProgramEnded { .. } => {
                self.crashed.insert(node, id);
            }
            What::Resynchronised { .. } => {
                self.resynchronised.insert(node, id);
            }
            What::Demoted { .. } => {
                self.demoted.insert(node, id);
            }
            What::FaultBegan { fault, targets, .. } => {
                self.fault.insert(*fault, id);
                for target in targets {
                    self.fault_at.insert(target, id);
                }
                self.fault_at.insert(node, id);
            }
            What::MasterDown { .. } => self.down = Some(id),
            What::LeaderElected { .. } => self.elected = Some(id),
            What::Promoted { .. } => self.promoted = Some(id),
            _ => {}
        }
    }
}

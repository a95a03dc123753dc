//! Chooses the events that a page carries: all of them where they are few, else first what
//! proves the finding with everything that led to it, then faults and the cluster, then what
//! is near the violation in time.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Causes;
use crate::history::{Event, EventId, History, What};

/// An event that the page carries; `times` of the same kind stand for one, up to `until_us`.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The first of them.
    pub event: &'a Event,
    /// How many there are.
    pub times: u64,
    /// When the last of them was, µs.
    pub until_us: u64,
    /// Whether it led to the finding.
    pub in_cone: bool,
}

/// `roots` with all that led to them, no more than `most`.
pub fn cone(roots: &BTreeSet<EventId>, causes: &Causes, most: usize) -> BTreeSet<EventId> {
    let mut cone = BTreeSet::new();
    let mut next: Vec<EventId> = roots.iter().rev().copied().collect();
    while let Some(event) = next.pop() {
        if cone.len() < most && cone.insert(event) {
            next.extend(causes.get(event).iter().rev());
        }
    }
    cone
}

/// No more than `most` events: `cone` and what fits beside it; `window` is when the
/// violation was, µs.
pub fn choose<'a>(
    history: &'a History,
    cone: &BTreeSet<EventId>,
    window: (u64, u64),
    most: usize,
) -> Vec<Kept<'a>> {
    let one = |event: &'a Event| Kept {
        event,
        times: 1,
        until_us: event.at_us,
        in_cone: cone.contains(&event.id),
    };
    if history.events.len() <= most {
        return history.iter().map(one).collect();
    }
    let mut kept = collapsed(history, cone);
    if kept.len() > most {
        let distance = |event: &Event| {
            let before = window.0.saturating_sub(event.at_us);
            before.max(event.at_us.saturating_sub(window.1))
        };
        let rank = |kept: &Kept<'_>| {
            (
                if kept.in_cone { 0 } else { class(&kept.event.what) },
                distance(kept.event),
                kept.event.id,
            )
        };
        kept.sort_by_cached_key(rank);
        kept.truncate(most);
        kept.sort_by_key(|kept| kept.event.id);
    }
    kept
}

/// The same refusal over and over is one event with a number.
fn collapsed<'a>(history: &'a History, cone: &BTreeSet<EventId>) -> Vec<Kept<'a>> {
    let mut kept: Vec<Kept<'a>> = Vec::new();
    let mut open: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for event in history.iter() {
        let in_cone = cone.contains(&event.id);
        if let What::RecordRefused { owner, held_by, .. } = &event.what
            && !in_cone
        {
            let of = (&*event.node, &**owner, &**held_by);
            if let Some(first) = open.get(&of).and_then(|at| kept.get_mut(*at)) {
                first.times += 1;
                first.until_us = event.at_us;
                continue;
            }
            open.insert(of, kept.len());
        }
        kept.push(Kept { event, times: 1, until_us: event.at_us, in_cone });
    }
    kept
}

/// What is dropped last, first.
fn class(what: &What) -> u8 {
    match what {
        What::FaultBegan { .. }
        | What::FaultEnded { .. }
        | What::FaultTouched { .. }
        | What::Healed
        | What::NodeCrashed { .. }
        | What::NodeStarted { .. }
        | What::ClockChanged { .. }
        | What::Promoted { .. }
        | What::Demoted { .. }
        | What::Resynchronised { .. }
        | What::MasterDown { .. }
        | What::LeaderElected { .. }
        | What::MasterSwitched { .. }
        | What::SessionExpired { .. }
        | What::Ledger { .. }
        | What::StockCounted { .. } => 1,
        What::MessageSent { .. }
        | What::MessageDelivered { .. }
        | What::RecordReplicated { .. }
        | What::RecordUnreplicated { .. }
        | What::ReplicationPosition { .. }
        | What::RecordRefused { .. } => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(many: u64) -> History {
        let refused = |id: u64| Event {
            id: EventId(id),
            at_us: id,
            node: "redis-1".into(),
            cause: None,
            what: What::RecordRefused {
                key: "k".into(),
                owner: format!("app-{}/1", id % 50).as_str().into(),
                held_by: format!("app-{}/1", id % 7).as_str().into(),
            },
        };
        History { events: (0..many).map(refused).collect(), ended_us: many, ..History::default() }
    }

    #[test]
    fn few_events_are_all_kept() {
        let history = refusals(40);
        let kept = choose(&history, &BTreeSet::new(), (0, 0), 40);
        assert!(kept.iter().all(|kept| kept.times == 1));
        assert_eq!(kept.len(), 40);
    }

    #[test]
    fn of_many_the_cone_stays_and_nothing_is_counted_twice() {
        let history = refusals(5_000);
        let cone: BTreeSet<EventId> = [EventId(7), EventId(4_999)].into();
        let kept = choose(&history, &cone, (2_000, 2_010), 1_000);
        assert!(kept.len() <= 1_000);
        assert_eq!(kept.iter().filter(|kept| kept.in_cone).count(), 2);
        assert_eq!(kept.iter().map(|kept| kept.times).sum::<u64>(), 5_000);
        let few = choose(&history, &cone, (2_000, 2_010), 10);
        assert_eq!(few.len(), 10);
        assert_eq!(few.iter().filter(|kept| kept.in_cone).count(), 2);
    }
}

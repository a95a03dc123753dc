//! Chooses the events that a page carries: all of them where they are few, else first what
//! proves the finding with everything that led to it, then faults and the cluster, then what
//! is near the violation in time. Of messages, which are most of a run, only those that carried
//! something of that and those that are nearest.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Causes;
use crate::history::{Event, EventId, History, What};

/// The most messages that a page carries beside those of the cone.
const MOST_MESSAGES: usize = 1_500;

/// The most messages that were lost, besides.
const MOST_LOSSES: usize = 500;
/// The most replication positions that it carries as events.
const MOST_POSITIONS: usize = 300;

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
    let distance = |event: &Event| {
        let before = window.0.saturating_sub(event.at_us);
        before.max(event.at_us.saturating_sub(window.1))
    };
    let far = far_asides(history, cone, &distance);
    let is_near = |event: &Event| !far.contains(&event.id);
    if history.events.len() - far.len() <= most {
        return history.iter().filter(|event| is_near(event)).map(one).collect();
    }
    let mut kept = collapsed(history, cone);
    kept.retain(|kept| is_near(kept.event));
    if kept.len() > most {
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

/// The messages and positions that are left out wherever there are others: all but those of the cone and
/// those nearest to the violation, a sending with its arrival or its loss.
fn far_asides(
    history: &History,
    cone: &BTreeSet<EventId>,
    distance: &impl Fn(&Event) -> u64,
) -> BTreeSet<EventId> {
    let is_sent = |event: &&Event| matches!(event.what, What::MessageSent { .. });
    let mut sent: Vec<&Event> = history.iter().filter(is_sent).collect();
    sent.sort_by_cached_key(|event| (!cone.contains(&event.id), distance(event), event.id));
    let mut near: BTreeSet<EventId> =
        sent.iter().take(MOST_MESSAGES).map(|event| event.id).collect();
    let is_loss = |event: &&Event| matches!(event.what, What::MessageLost { .. });
    let mut losses: Vec<&Event> = history.iter().filter(is_loss).collect();
    losses.sort_by_cached_key(|event| (distance(event), event.id));
    near.extend(losses.iter().take(MOST_LOSSES).filter_map(|event| event.cause));
    let of = |event: &Event| event.cause.filter(|_| event.what.is_message()).unwrap_or(event.id);
    let is_far = |event: &&Event| {
        event.what.is_message() && !cone.contains(&event.id) && !near.contains(&of(event))
    };
    let mut far: BTreeSet<EventId> = history.iter().filter(is_far).map(|event| event.id).collect();
    // How far replication is has a track of its own.
    let is_position = |event: &&Event| matches!(event.what, What::ReplicationPosition { .. });
    let mut positions: Vec<&Event> = history.iter().filter(is_position).collect();
    positions.sort_by_cached_key(|event| (!cone.contains(&event.id), distance(event), event.id));
    far.extend(positions.iter().skip(MOST_POSITIONS).map(|event| event.id));
    far
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
        | What::ProgramEnded { .. }
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
        | What::MessageLost { .. }
        | What::RecordReplicated { .. }
        | What::RecordLoaded { .. }
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

    #[test]
    fn of_messages_those_nearest_to_the_violation_stay_with_both_their_ends() {
        let at = |id: u64, cause, what| Event {
            id: EventId(id),
            at_us: id,
            node: "app-1".into(),
            cause,
            what,
        };
        let mut events = Vec::new();
        for n in 0..10_000 {
            let sent = What::MessageSent { to: "redis-1".into(), message: "SET".to_owned() };
            events.push(at(2 * n, None, sent));
            let end = match n % 2 {
                0 => What::MessageDelivered { from: "app-1".into() },
                _ => What::MessageLost { how: "the link is cut".to_owned() },
            };
            events.push(at(2 * n + 1, Some(EventId(2 * n)), end));
        }
        let history = History { events, ended_us: 20_000, ..History::default() };
        let cone = [EventId(0), EventId(1)].into();
        let kept = choose(&history, &cone, (10_000, 10_010), 10_000);
        assert_eq!(kept.len(), 2 * MOST_MESSAGES);
        let ids: Vec<u64> = kept.iter().map(|kept| kept.event.id.0).collect();
        assert!(ids.contains(&0) && ids.contains(&1) && ids.contains(&10_005));
        assert!(kept.chunks(2).all(|pair| pair[1].event.cause == Some(pair[0].event.id)));
    }
}

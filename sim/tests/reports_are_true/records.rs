//! Preconditions of what is said of records: lost by a restart or a failover, on two
//! masters, removed, left behind.

use lockstorm_sim::history::{Event, RecordLoss, What};
use lockstorm_sim::plan::{FaultKind, RedisPersistence};

use super::told::*;

/// Loses the first owner's record at its own server by a restart, and returns that.
pub fn lost_by_restart<'a>(told: &Told<'a>) -> &'a Event {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let lost = told.events().find(|event| {
        event.id > first.id
            && event.node == first.node
            && matches!(&event.what, What::RecordLost { owner: of, how: RecordLoss::Crash, .. } if **of == *owner)
    });
    let lost = lost.expect("the record was lost by a restart");
    assert!(lost.id < told.until(), "before the second grant");
    assert!(told.promotion(first.id, lost.id).is_none(), "no failover before");
    assert!(told.why.starts_with(&*first.node), "the server is named");
    let mut starts = told.events().filter(|event| matches!(event.what, What::NodeStarted { .. }));
    let start = starts.rfind(|start| start.node == first.node && start.id < lost.id);
    assert!(told.in_story(start.unwrap()), "the restart is told");
    for blamed in &told.blame.faults {
        let kind = &told.plan.faults[blamed.fault].kind;
        assert!(is_crash_of(kind, &first.node), "nothing but its crash is blamed: {kind:?}");
    }
    assert!(!told.blame.faults.is_empty());
    lost
}

pub fn restarted(told: &Told<'_>) {
    let _ = lost_by_restart(told);
    if let Some(second) = told.second() {
        assert_eq!(second.node, told.first().node, "the same server granted it again");
        assert!(told.promotion(told.first().id, second.id).is_none(), "without a failover");
    }
    let again = told.why.contains("granted the lock again");
    assert_eq!(told.why.contains("the only server"), again && told.plan.topology.redis == 1);
}

/// Likewise, and the server keeps something: what is told of how it lost the record fits it.
pub fn restarted_without(told: &Told<'_>) {
    let persistence = told.plan.topology.persistence;
    let fits = match told.plan.lock.name.starts_with("pg-") {
        true => told.why.contains("session outlives") || told.why.contains("commit was not"),
        false => match persistence {
            RedisPersistence::None => false,
            RedisPersistence::Rdb => told.why.contains("no snapshot had it"),
            _ => told.why.contains("append-only file had lost it"),
        },
    };
    assert!(fits, "{persistence:?}: {}", told.why);
    if !told.plan.lock.name.starts_with("pg-") {
        restarted(told);
    }
}

pub fn restarted_then_replaced(told: &Told<'_>) {
    let lost = lost_by_restart(told);
    let promotion = told.promotion(lost.id, told.until()).expect("a failover after it");
    told.shows_failover(promotion);
}

/// The failover that lost the record: after the first grant, to a server without it.
pub fn without<'a>(told: &Told<'a>) -> &'a Event {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let promotion = told.promotion(first.id, told.until()).expect("a failover between the grants");
    let What::Promoted { records, .. } = &promotion.what else { unreachable!() };
    assert!(records.iter().all(|(_, of)| **of != *owner), "the new master has it not");
    let has = told.events().any(|event| {
        event.id > first.id
            && event.id < promotion.id
            && event.node == promotion.node
            && matches!(&event.what, What::RecordReplicated { owner: of, .. } if **of == *owner)
    });
    assert!(!has, "and never had it");
    let before = told.promotions().rfind(|event| event.id < first.id);
    let master = before.map_or("redis-1", |before| &*before.node);
    assert_eq!(&*first.node, master, "the first was granted by the master of the time");
    told.shows_failover(promotion);
    promotion
}

pub fn crashed(told: &Told<'_>, promotion: &Event) -> bool {
    told.events().any(|event| {
        event.id > told.first().id
            && event.id < promotion.id
            && event.node == told.first().node
            && matches!(event.what, What::NodeCrashed { .. })
    })
}

pub fn died(told: &Told<'_>) {
    let promotion = without(told);
    assert!(crashed(told, promotion), "it died");
    let down = told.down(promotion);
    let first = told.first();
    assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, &first.node)));
}

pub fn came_back(told: &Told<'_>) {
    let promotion = without(told);
    let (down, first) = (told.down(promotion), told.first());
    assert!(!crashed(told, promotion), "it did not die afterwards");
    assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, &first.node)));
    let back = told.events().rfind(|event| {
        event.id < first.id
            && event.node == first.node
            && matches!(event.what, What::NodeStarted { .. })
    });
    assert!(back.expect("a start").at_us > 0, "it came back before it granted");
}

pub fn behind_and_died(told: &Told<'_>) {
    died(told);
    let (promotion, first) = (without(told), told.first());
    let to = &*promotion.node;
    assert!(told.blames(first.at_us, promotion.at_us, |kind| match kind {
        FaultKind::ReplicationStall { node } => **node == *first.node,
        kind => between(kind, &first.node, to),
    }));
}

pub fn unreachable(told: &Told<'_>) {
    let promotion = without(told);
    let (down, first) = (told.down(promotion), told.first());
    assert!(told.blames(down.at_us, down.at_us, |kind| {
        is_pause_of(kind, &first.node) || is_cut(kind, &first.node, &down.node)
    }));
}

pub fn promoted_without(told: &Told<'_>) {
    without(told);
}

pub fn split_brain(told: &Told<'_>) {
    let grants = [Some(told.first()), told.second()].into_iter().flatten();
    let mut deposed = grants.filter_map(|set| {
        let before = || told.promotions().filter(|event| event.id < set.id);
        let own = before().rfind(|event| event.node == set.node).map(|own| own.id);
        let replaced = before().find(|event| Some(event.id) > own)?;
        Some((set, replaced))
    });
    let (set, promotion) = deposed.next_back().expect("a grant by a master that had been replaced");
    let (old, down) = (&*set.node, told.down(promotion));
    assert!(told.why.contains(&format!("{old} ")), "{old}");
    told.shows_failover(promotion);
    assert!(told.in_story(set));
    if told.why.contains("cut off") {
        assert!(told.blames(told.silent_since_us(down), down.at_us, |kind| {
            is_cut(kind, old, &down.node)
        }));
    } else if told.why.contains("stood still") {
        assert!(told.blames(down.at_us, down.at_us, |kind| is_pause_of(kind, old)));
    } else if told.why.contains("was down") {
        assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, old)));
        let back = told.events().rfind(|event| {
            event.id < set.id
                && *event.node == *old
                && matches!(event.what, What::NodeStarted { .. })
        });
        let crash = told.events().rfind(|event| {
            event.id < down.id
                && *event.node == *old
                && matches!(event.what, What::NodeCrashed { .. })
        });
        assert!(back.unwrap().id > crash.unwrap().id, "it came back before it granted");
    }
}

pub fn removed(told: &Told<'_>) {
    let owner = told.owner(0).unwrap();
    let deleted = told.events().find(|event| {
        matches!(&event.what, What::RecordLost { owner: of, how: RecordLoss::Deleted, .. } if **of == *owner)
    });
    assert!(told.in_story(deleted.expect("a foreign deletion")));
}

pub fn one_server(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert_eq!(first.node, second.node);
    assert!(told.promotion(first.id, second.id).is_none());
    let gone = told.events().any(|event| {
        event.id > first.id
            && event.id < second.id
            && matches!(event.what, What::RecordLost { .. } | What::NodeStarted { .. })
            && event.node == first.node
    });
    assert!(!gone, "its record was there all the time");
}

pub fn promoted_without_the_count(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert!(told.promotion(first.id, second.id).is_some());
}

pub fn restarted_without_the_count(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert!(told.events().any(|event| {
        first.id < event.id
            && event.id < second.id
            && event.node == first.node
            && matches!(event.what, What::NodeStarted { .. })
    }));
}

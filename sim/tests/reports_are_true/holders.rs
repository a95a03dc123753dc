//! Preconditions of what is said of holders that acted beyond their promise, or late.

use lockstorm_sim::check::Kind;
use lockstorm_sim::history::{Event, What};
use lockstorm_sim::plan::FaultKind;

use super::clocks::rate_ppm;
use super::told::*;

/// The end of the straying owner's promise, and where it strayed last, µs.
pub fn strayed(told: &Told<'_>) -> (u64, u64) {
    let owner = told.strays();
    let set = told.set(owner);
    let last = told.events().rfind(|event| match &event.what {
        What::Effect { owner: of, .. } => **of == *owner,
        What::ReleaseInvoked { attempt } | What::BeliefEnded { attempt, .. } => {
            attempt.to_string() == owner
        }
        _ => false,
    });
    let last_us = last.map_or(told.history.ended_us, |last| last.at_us);
    let end_us = set.at_us + told.promise_us(owner);
    assert!(last_us >= end_us, "it went on beyond its promise: {last_us} {end_us}");
    (end_us, last_us)
}

pub fn asleep_at_the_end(told: &Told<'_>) {
    let (end_us, _) = strayed(told);
    let client = Told::client(told.strays());
    assert!(told.blames(end_us, end_us, |kind| is_pause_of(kind, client)));
}

pub fn paused_meanwhile(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let from_us = told.set(told.strays()).at_us;
    let client = Told::client(told.strays());
    assert!(told.blames(from_us, last_us, |kind| is_pause_of(kind, client)));
}

pub fn resource_paused(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let from_us = told.set(told.strays()).at_us;
    assert!(told.blames(from_us, last_us, |kind| is_pause_of(kind, "stock-1")));
}

pub fn network_held_up(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let set = told.set(told.strays());
    let client = Told::client(told.strays());
    assert!(told.blames(set.at_us, last_us, |kind| {
        between(kind, client, "stock-1") || between(kind, client, &set.node)
    }));
}

pub fn slow_clock(told: &Told<'_>) {
    let (end_us, _) = strayed(told);
    assert!(rate_ppm(told, Told::client(told.strays()), end_us) < 0);
}

pub fn outlasted(told: &Told<'_>) {
    strayed(told);
}

/// The owner whose operation came late, and that operation.
pub fn late_act<'a>(told: &Told<'a>) -> (&'a str, &'a Event) {
    let both = [told.owner(0), told.owner(1)].into_iter().flatten();
    let mut late = both.filter_map(|owner| {
        let left = told.events().find(|event| match &event.what {
            What::ReleaseInvoked { attempt } | What::BeliefEnded { attempt, .. } => {
                attempt.to_string() == owner
            }
            What::NodeCrashed { .. } => {
                *event.node == *Told::client(owner)
                    && told.granted(owner).is_some_and(|granted| granted.id < event.id)
            }
            _ => false,
        })?;
        let act = told.events().find(|event| {
            event.id > left.id
                && matches!(&event.what, What::Effect { owner: of, accepted: true, .. } if **of == *owner)
        })?;
        Some((owner, act))
    });
    let (owner, act) = late.next_back().expect("an operation after its holder had left");
    assert!(told.in_story(act));
    (owner, act)
}

pub fn late(told: &Told<'_>) {
    late_act(told);
}

pub fn late_by_a_cut(told: &Told<'_>) {
    let (owner, act) = late_act(told);
    let from_us = told.set(owner).at_us;
    assert!(told.blames(from_us, act.at_us, |kind| is_cut(kind, Told::client(owner), "stock-1")));
}

pub fn late_by_a_slow_link(told: &Told<'_>) {
    let (owner, act) = late_act(told);
    let from_us = told.set(owner).at_us;
    assert!(told.blames(from_us, act.at_us, |kind| {
        matches!(kind, FaultKind::SlowLink { .. }) && between(kind, Told::client(owner), "stock-1")
    }));
}

pub fn not_granted(told: &Told<'_>) {
    assert!(told.blame.owners.iter().all(|owner| told.granted(owner).is_none()));
}

pub fn holder_died(told: &Told<'_>) {
    let owner = told.owner(0).unwrap();
    let granted = told.granted(owner).unwrap();
    assert!(told.events().any(|event| {
        event.id > granted.id
            && *event.node == *Told::client(owner)
            && matches!(event.what, What::NodeCrashed { .. })
    }));
}

pub fn record_outlived(told: &Told<'_>) {
    assert_eq!(told.finding.kind, Kind::LeakedLock);
    let over = told.set(told.owner(0).unwrap()).at_us + told.promise_us(told.owner(0).unwrap());
    assert!(told.finding.to_us > over, "it was in the way when its promise was over");
}

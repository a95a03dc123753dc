//! Preconditions of what is said of holders whose session an ensemble ended.

use lockstorm_sim::check::Kind;
use lockstorm_sim::history::{Event, What};
use lockstorm_sim::plan::{FaultKind, Plan};

use super::clocks::rate_ppm;
use super::told::*;

/// The end of a party's session while it held the lock, and the party. The story tells of
/// it, and the party went on afterwards.
fn session_end<'a>(told: &Told<'a>) -> (&'a Event, &'a str) {
    let both = [told.owner(0), told.owner(1)].into_iter().flatten();
    let mut ended = both.filter_map(|owner| {
        let is_its = |event: &&Event| match &event.what {
            What::SessionExpired { records, .. } => records.iter().any(|(_, of)| **of == *owner),
            _ => false,
        };
        Some((told.events().find(is_its)?, owner))
    });
    let (end, owner) = ended.next().expect("the end of a session");
    assert!(told.in_story(end), "{}", told.why);
    let went_on = told.events().any(|event| {
        event.id > end.id
            && match &event.what {
                What::Effect { owner: of, .. } => **of == *owner,
                What::ReleaseInvoked { attempt } | What::BeliefEnded { attempt, .. } => {
                    attempt.to_string() == owner
                }
                What::NodeCrashed { .. } => *event.node == *Told::client(owner),
                _ => false,
            }
    });
    assert!(went_on, "{owner} went on");
    let leader = told
        .events()
        .rfind(|event| event.id < end.id && matches!(event.what, What::Leading { .. }));
    // One server alone leads without saying so.
    let alone = told.plan.topology.zookeeper_nodes();
    let leader = leader.map_or_else(|| alone[0].clone(), |leader| leader.node.to_string());
    assert!(told.why.contains(&leader), "{}", told.why);
    (end, owner)
}

fn servers(plan: &Plan) -> Vec<String> {
    plan.topology.zookeeper_nodes()
}

pub fn its_session_ended(told: &Told<'_>) {
    session_end(told);
}

/// Whether a blamed fault that `is` was at work between the grant and the session's end, and
/// how late it ended.
fn silenced(told: &Told<'_>, is: impl Fn(&FaultKind, &str) -> bool) {
    let (end, owner) = session_end(told);
    let client = Told::client(owner);
    let since_us = told.set(owner).at_us;
    assert!(told.blames(since_us, end.at_us, |kind| is(kind, client)), "{}", told.why);
}

pub fn asleep_when_its_session_ended(told: &Told<'_>) {
    silenced(told, |kind, client| {
        matches!(kind, FaultKind::Pause { group: None, .. }) && is_pause_of(kind, client)
    });
}

pub fn a_group_slept(told: &Told<'_>) {
    silenced(told, |kind, client| match kind {
        FaultKind::Pause { node, group: Some(group) } => node == client && told.why.contains(group),
        _ => false,
    });
}

pub fn cut_off_when_its_session_ended(told: &Told<'_>) {
    let servers = servers(told.plan);
    silenced(told, |kind, client| servers.iter().any(|server| is_cut(kind, client, server)));
}

pub fn slow_when_its_session_ended(told: &Told<'_>) {
    let servers = servers(told.plan);
    silenced(told, |kind, client| {
        matches!(kind, FaultKind::SlowLink { .. })
            && servers.iter().any(|server| between(kind, client, server))
    });
}

pub fn servers_struck(told: &Told<'_>) {
    let servers = servers(told.plan);
    silenced(told, |kind, _| match kind {
        FaultKind::Pause { node, .. }
        | FaultKind::ProcessCrash { node }
        | FaultKind::MachineCrash { node }
        | FaultKind::DiskSlow { node, .. }
        | FaultKind::DiskStall { node }
        | FaultKind::DiskError { node } => servers.contains(node),
        kind => servers.iter().any(|one| servers.iter().any(|two| is_cut(kind, one, two))),
    });
}

pub fn fast_leader(told: &Told<'_>) {
    let (end, _) = session_end(told);
    let (before, _) = told.why.split_once(", which led,").unwrap();
    let leader = before.trim_start_matches("The clock of ");
    assert!(rate_ppm(told, leader, end.at_us) >= 10_000, "{}", told.why);
}

pub fn place_outlived(told: &Told<'_>) {
    assert_eq!(told.finding.kind, Kind::LeakedLock);
}

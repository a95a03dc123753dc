//! The families of faults that strike an ensemble of ZooKeeper servers, and the sessions in
//! it.
//!
//! The first leader is the server with the largest number, and later ones are not known to a
//! plan; so half of the faults strike that one, the others any.

use super::Weather;
use super::families::master;
use crate::draw::Draw;
use crate::plan::{Fault, FaultKind, Operation, Phase};

/// Half of the time the first leader, else any.
fn server(weather: &Weather<'_>, draw: &mut Draw) -> String {
    let servers = weather.plan.topology.zookeeper_nodes();
    let any = draw.pick(&servers).cloned();
    if draw.chance(500) {
        return servers.last().cloned().unwrap_or_else(|| master(weather.plan));
    }
    any.unwrap_or_else(|| master(weather.plan))
}

/// A server dies, at some moment of an acquire, and mostly comes back.
pub(super) fn dies(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = server(weather, draw);
    let machine = draw.chance(500);
    let kind = match machine {
        true => FaultKind::MachineCrash { node },
        false => FaultKind::ProcessCrash { node },
    };
    let lasts = weather.share(draw, 20, 300);
    let comes_back = draw.chance(800);
    vec![Fault { kind, when: weather.begin(draw), lasts: comes_back.then_some(lasts) }]
}

/// A server alone, or with some of the clients, is cut off from the others.
pub(super) fn cut(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let alone = server(weather, draw);
    let (mut from, mut to) = (vec![alone.clone()], plan.topology.zookeeper_nodes());
    to.retain(|node| *node != alone);
    let all_see_it = draw.chance(400);
    let one_way = draw.chance(150);
    for app in plan.topology.app_nodes() {
        let beside = weather.draw("plan/zk-cut", &app).chance(350);
        match (all_see_it, beside) {
            // The clients see both sides: only the servers are parted.
            (true, _) => {}
            (false, true) => from.push(app),
            (false, false) => to.push(app),
        }
    }
    let kind = match to.is_empty() {
        false => FaultKind::Partition { from, to, one_way },
        // Of one server nothing can be cut off but clients.
        true => FaultKind::Pause { node: alone, group: None },
    };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 30, 400)) }]
}

/// A majority of the servers dies at once, and comes back one after the other.
pub(super) fn no_quorum(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let servers = weather.plan.topology.zookeeper_nodes();
    let when = weather.begin(draw);
    let machine = draw.chance(500);
    let majority = servers.len() / 2 + 1;
    let from_the_end = servers.into_iter().rev().take(majority);
    let faults = from_the_end.map(|node| {
        let kind = match machine {
            true => FaultKind::MachineCrash { node },
            false => FaultKind::ProcessCrash { node },
        };
        Fault { kind, when: when.clone(), lasts: Some(weather.share(draw, 20, 250)) }
    });
    faults.collect()
}

/// A server stands still: briefly, or for longer than the others wait for it.
pub(super) fn pause(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let kind = FaultKind::Pause { node: server(weather, draw), group: None };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 5, 400)) }]
}

/// A server's disk is slow, or completes nothing for a while.
pub(super) fn disk(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = server(weather, draw);
    let extra = weather.some(draw, 5_000, 400_000);
    let kind = match draw.chance(600) {
        true => FaultKind::DiskSlow { node, extra },
        false => FaultKind::DiskStall { node },
    };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 20, 250)) }]
}

/// A client stands still, or is cut off, in its critical section, around the time at which
/// its session ends: that is one to one and three eighths of its timeout after the leader
/// last heard of it.
pub(super) fn session_ends(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let timeout_us = plan.lock.lease.0;
    let target = weather.target(draw);
    let lasts = weather.some(draw, timeout_us, timeout_us / 10 * 17);
    let (operation, phase) = match draw.below(4) {
        0 => (Operation::Acquire, Phase::Returned),
        1 => (Operation::Acquire, Phase::Applied),
        _ => (Operation::Read, Phase::Applied),
    };
    let delay = weather.time(draw, 0, 20_000);
    let kind = match draw.chance(700) {
        true => FaultKind::Pause { node: target.client.clone(), group: None },
        false => FaultKind::Partition {
            from: vec![target.client.clone()],
            to: plan.topology.zookeeper_nodes(),
            one_way: false,
        },
    };
    vec![Fault { kind, when: target.after(operation, phase, delay), lasts: Some(lasts) }]
}

//! The families that only the wide draws have.
//!
//! They come after the first ones and have streams of their own, so a seed's first faults
//! are the same by either draws.

use super::families::{Family, has_replica, master, replicas};
use super::{Target, Weather};
use crate::draw::Draw;
use crate::plan::{Fault, FaultKind, Micros, Operation, Phase, STOCK_NODE, When};

/// The families, in the order in which a plan lists their faults.
pub(super) const WIDE_FAMILIES: &[Family] = &[
    Family { name: "plan/burst", at_home: |_| true, in_thousand: |_| 150, strike: burst },
    Family {
        name: "plan/swizzle",
        at_home: |plan| plan.topology.lock_servers().len() > 1,
        in_thousand: |_| 120,
        strike: swizzle,
    },
    Family { name: "plan/reset", at_home: |_| true, in_thousand: |_| 120, strike: reset },
    Family { name: "plan/cancel", at_home: |_| true, in_thousand: |_| 150, strike: cancel },
    Family { name: "plan/hang", at_home: |_| true, in_thousand: |_| 120, strike: hang },
    Family { name: "plan/freeze", at_home: |_| true, in_thousand: |_| 60, strike: freeze },
    Family { name: "plan/slew", at_home: |_| true, in_thousand: |_| 60, strike: slew },
];

/// Several small faults close together, around one event: what each of them leaves half
/// done, the next one meets.
fn burst(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let number = 3 + draw.below(3);
    let faults = (0..number).map(|_| {
        let delay = weather.time(draw, 0, 60_000).min(Micros(weather.plan.duration.0 / 5));
        let when = target.after(Operation::Acquire, Phase::Applied, delay);
        let lasts = Some(weather.some(draw, 20_000, 800_000));
        let kind = small(weather, draw, &target);
        let lasts = if kind.ends_by_itself() { None } else { lasts };
        Fault { kind, when, lasts }
    });
    faults.collect()
}

/// One of the things that a burst is made of.
fn small(weather: &Weather<'_>, draw: &mut Draw, target: &Target) -> FaultKind {
    let plan = weather.plan;
    let servers = plan.topology.lock_servers();
    let server = draw.pick(&servers).cloned().unwrap_or_else(|| master(plan));
    let door = plan.topology.door_of(&server);
    let client = target.client.clone();
    let one_way = draw.chance(300);
    match draw.below(7) {
        0 => FaultKind::Pause { node: client, group: None },
        1 => FaultKind::Pause { node: server, group: None },
        2 => FaultKind::ProcessCrash { node: server },
        3 => FaultKind::Partition { from: vec![client], to: vec![door], one_way },
        4 if has_replica(plan) => {
            FaultKind::Partition { from: vec![master(plan)], to: replicas(plan), one_way }
        }
        4 | 5 => FaultKind::Reset { from: vec![client], to: plan.topology.doors() },
        _ => {
            let extra = weather.some(draw, 5_000, 200_000);
            FaultKind::SlowLink { from: vec![client], to: vec![door], extra }
        }
    }
}

/// The servers are cut off one by one in one order, and come back in another: what
/// FoundationDB calls swizzling.
fn swizzle(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let all = plan.topology.nodes();
    let servers: Vec<String> = all
        .iter()
        .filter(|node| !node.starts_with("app-") && *node != STOCK_NODE)
        .cloned()
        .collect();
    let going = shuffled(&servers, draw);
    let coming = shuffled(&servers, draw);
    // A random part of them, and never nobody.
    let number = usize::try_from(1 + draw.below(servers.len() as u64)).unwrap_or(1);
    let step_us = weather.some(draw, 5_000, 400_000).0;
    let first_us = weather.some(draw, 200_000, 2_000_000).0;
    let faults = going.into_iter().take(number).enumerate().map(|(position, node)| {
        let begins_us = position as u64 * step_us;
        let back = coming.iter().position(|other| *other == node).unwrap_or(0) as u64;
        let ends_us = number as u64 * step_us + first_us + back * step_us;
        let most_us = plan.duration.0 / 5 * 3;
        let others = all.iter().filter(|other| **other != node && *other != STOCK_NODE).cloned();
        let to = others.collect();
        let kind = FaultKind::Partition { from: vec![node], to, one_way: false };
        let delay = Micros(begins_us.min(plan.duration.0 / 4));
        let lasts = Micros(ends_us.saturating_sub(begins_us).clamp(100, most_us));
        let when = target.after(Operation::Acquire, Phase::Applied, delay);
        Fault { kind, when, lasts: Some(lasts) }
    });
    faults.collect()
}

fn shuffled(nodes: &[String], draw: &mut Draw) -> Vec<String> {
    let mut nodes = nodes.to_vec();
    for last in (1..nodes.len()).rev() {
        let other = usize::try_from(draw.below(last as u64 + 1)).unwrap_or(0);
        nodes.swap(last, other);
    }
    nodes
}

/// Connections break: around an event, or exactly where the reply is lost after the
/// request was applied.
fn reset(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(6) {
        0 | 1 => (Operation::Acquire, Phase::Applied),
        2 | 3 => (Operation::Release, Phase::Applied),
        4 => (Operation::Sell, Phase::Applied),
        _ => (Operation::Acquire, Phase::Returned),
    };
    let own = vec![target.client.clone()];
    let (from, to) = match draw.below(5) {
        0 if has_replica(plan) => (vec![master(plan)], replicas(plan)),
        1 => (own, vec![STOCK_NODE.to_owned()]),
        _ => (own, plan.topology.doors()),
    };
    let exactly = draw.chance(600);
    let delay = weather.time(draw, 0, 20_000);
    let delay = if exactly { Micros(0) } else { delay };
    let when = target.after(operation, phase, delay);
    vec![Fault { kind: FaultKind::Reset { from, to }, when, lasts: None }]
}

/// A client drops the future of an acquire or a release half-way.
pub(super) fn cancel(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let number = 1 + draw.below(3);
    let faults = (0..number).map(|_| {
        let target = weather.target(draw);
        let operation = if draw.chance(650) { Operation::Acquire } else { Operation::Release };
        let suspension = u32::try_from(1 + draw.below(4)).unwrap_or(1);
        let delay = weather.time(draw, 0, 3_000);
        let delay = if draw.chance(500) { Micros(0) } else { delay };
        let node = target.client;
        let ordinal = target.ordinal;
        Fault::new(
            FaultKind::Cancel { node, operation, ordinal, suspension, delay },
            When::At(Micros(0)),
        )
    });
    // An operation is dropped once.
    let mut dropped: Vec<Fault> = Vec::new();
    for fault in faults {
        if dropped.iter().all(|other| other.when != fault.when) {
            dropped.push(fault);
        }
    }
    dropped
}

/// A client's work stands still while the rest of its program goes on: around the lease.
fn hang(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let lease_us = weather.plan.lock.lease.0;
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(4) {
        0 => (Operation::Acquire, Phase::Returned),
        1 => (Operation::Sell, Phase::Applied),
        _ => (Operation::Read, Phase::Applied),
    };
    let (from, to) = match draw.below(3) {
        0 => (100, 900),
        1 => (1_000, 1_025),
        _ => (1_025, 1_500),
    };
    let lasts = weather.some(draw, lease_us / 1_000 * from, lease_us / 1_000 * to);
    let when = target.after(operation, phase, Micros(0));
    vec![Fault { kind: FaultKind::Hang { node: target.client }, when, lasts: Some(lasts) }]
}

/// Whose clock goes wrong: mostly the master's, for it ends the leases.
fn clock_of(weather: &Weather<'_>, draw: &mut Draw) -> String {
    let target = weather.target(draw);
    if draw.chance(700) { master(weather.plan) } else { target.client }
}

/// A wall clock stands still, for up to two leases.
fn freeze(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let lease_us = weather.plan.lock.lease.0;
    let node = clock_of(weather, draw);
    let lasts = weather.some(draw, lease_us / 4, lease_us * 2);
    let when = weather.begin(draw);
    let most = Micros(weather.plan.duration.0 / 5 * 2);
    vec![Fault { kind: FaultKind::ClockFreeze { node }, when, lasts: Some(lasts.min(most)) }]
}

/// A clock is slewed, as fast as it may be, for up to half of the storm.
fn slew(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = clock_of(weather, draw);
    let ppm = [500, 10_000, 100_000][usize::try_from(draw.below(3)).unwrap_or(0)];
    let lasts = weather.share(draw, 50, 350);
    let by_us =
        i64::try_from(u128::from(lasts.0) * u128::from(ppm) / 1_000_000).unwrap_or(1).max(1);
    let by_us = if draw.chance(500) { by_us } else { -by_us };
    let when = weather.begin(draw);
    let when = match when {
        When::At(at) => When::At(Micros(at.0.min(weather.plan.duration.0 / 2))),
        anchored => anchored,
    };
    vec![Fault { kind: FaultKind::ClockSlew { node, by_us, ppm }, when, lasts: None }]
}

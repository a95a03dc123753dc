//! Strikes against servers, and clocks.

use super::server;
use crate::draw::Draw;
use crate::plan::draw::families::{master, replicas};
use crate::plan::draw::{Weather, database};
use crate::plan::{Fault, FaultKind, Micros, Operation, POOLER_NODE, Phase, When};

/// Mostly soon after somebody was granted the lock.
fn after_a_grant(weather: &Weather<'_>, draw: &mut Draw) -> When {
    let target = weather.target(draw);
    let phase = if draw.chance(700) { Phase::Returned } else { Phase::Applied };
    target.after(Operation::Acquire, phase, weather.time(draw, 0, 40_000))
}

/// Back before anybody has noticed, or after others have taken over, or not in this storm.
fn away(weather: &Weather<'_>, draw: &mut Draw) -> Option<Micros> {
    let noticed_us = weather.plan.topology.down_after.0;
    let soon = weather.some(draw, noticed_us / 10, noticed_us / 10 * 8);
    let later = weather.share(draw, 150, 400);
    match draw.below(10) {
        0..=4 => Some(soon),
        5..=7 => Some(later),
        _ => None,
    }
}

/// A server's program.
pub(super) fn process_crash(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let kind = FaultKind::ProcessCrash { node: server(weather, draw) };
    vec![Fault { kind, when: after_a_grant(weather, draw), lasts: away(weather, draw) }]
}

/// A server's machine.
pub(super) fn machine_crash(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let kind = FaultKind::MachineCrash { node: server(weather, draw) };
    vec![Fault { kind, when: after_a_grant(weather, draw), lasts: away(weather, draw) }]
}

/// Briefly, or for longer than others wait for it.
pub(super) fn pause(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let kind = FaultKind::Pause { node: server(weather, draw), group: None };
    vec![Fault {
        kind,
        when: after_a_grant(weather, draw),
        lasts: Some(weather.share(draw, 5, 400)),
    }]
}

/// Two sides, each with clients. A database's other side gets a primary of its own.
pub(super) fn split(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let decides = master(plan);
    let (mut from, mut to) = (vec![decides.clone()], plan.topology.lock_servers());
    to.retain(|node| *node != decides);
    if plan.topology.independent {
        // A majority of servers that know nothing of each other can be on either side.
        let second = to.remove(0);
        from.push(second);
    }
    to.extend(plan.topology.sentinel_nodes());
    // Whoever is not with a server behind a pooler is not with the pooler either.
    to.extend((plan.topology.pooler > 0).then(|| POOLER_NODE.to_owned()));
    for app in plan.topology.app_nodes() {
        let with_master =
            weather.draw("plan/alone/split", &app).chance(350) || app == target.client;
        if with_master { from.push(app) } else { to.push(app) }
    }
    let lasts = Some(weather.share(draw, 200, 500));
    let when = target.after(Operation::Acquire, Phase::Returned, weather.time(draw, 0, 20_000));
    let kind = FaultKind::Partition { from, to, one_way: false };
    let mut faults = vec![Fault { kind, when, lasts }];
    let later = weather.some(draw, 100_000, 1_000_000);
    if let Some(standby) = plan.topology.postgres_nodes().into_iter().nth(1) {
        let when = target.after(Operation::Acquire, Phase::Returned, later);
        faults.push(Fault { kind: FaultKind::Promote { node: standby }, when, lasts: None });
    }
    faults
}

/// What keeps the others behind, then the death of the one that decides.
pub(super) fn lagging_failover(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    if plan.topology.postgres > 1 {
        return database::loses_the_primary(weather, draw);
    }
    let target = weather.target(draw);
    let node = master(plan);
    let others = match plan.topology.redis {
        0 => plan.topology.zookeeper_nodes().into_iter().filter(|other| *other != node).collect(),
        _ => replicas(plan),
    };
    let cut = draw.chance(400) || plan.topology.redis == 0;
    let behind = match cut {
        true => FaultKind::Partition { from: vec![node.clone()], to: others, one_way: false },
        false => FaultKind::ReplicationStall { node: node.clone() },
    };
    let lasts = Some(weather.share(draw, 100, 300));
    let delay = weather.time(draw, 500, 40_000);
    let away = weather.share(draw, 200, 400);
    vec![
        Fault {
            kind: behind,
            when: target.after(Operation::Acquire, Phase::Invoked, Micros(0)),
            lasts,
        },
        Fault {
            // With all that its kernel still has: a process crash would send it.
            kind: FaultKind::MachineCrash { node },
            when: target.after(Operation::Acquire, Phase::Returned, delay),
            lasts: Some(away),
        },
    ]
}

/// Mostly the server's, for it ends the leases.
fn clock_of(weather: &Weather<'_>, draw: &mut Draw) -> String {
    let (node, client) = (server(weather, draw), weather.target(draw).client);
    if draw.chance(700) { node } else { client }
}

/// From what must not matter to what breaks whoever trusts it.
pub(super) fn clock_rate(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = clock_of(weather, draw);
    let ppm = draw.pick(&[500, 50_000, 50_000, 200_000]).copied().unwrap_or(500);
    let ppm = if draw.chance(600) { ppm } else { -ppm };
    let when = When::At(Micros(0));
    vec![Fault { kind: FaultKind::ClockRate { node, ppm }, when, lasts: None }]
}

/// By up to a lease and a half, mostly forward.
pub(super) fn clock_step(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let lease_us = weather.plan.lock.lease.0;
    let by = weather.some(draw, lease_us / 20, lease_us / 2 * 3);
    let by_us = i64::try_from(by.0).unwrap_or(i64::MAX);
    let by_us = if draw.chance(700) { by_us } else { -by_us };
    let node = server(weather, draw);
    let when = after_a_grant(weather, draw);
    vec![Fault { kind: FaultKind::ClockStep { node, by_us }, when, lasts: None }]
}

/// As fast as time daemons may, and faster.
pub(super) fn clock_slew(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = clock_of(weather, draw);
    let ppm = draw.pick(&[500_u32, 10_000, 100_000]).copied().unwrap_or(500);
    let lasts = weather.share(draw, 100, 400);
    let by_us = i64::try_from(lasts.0 / 1_000_000 * u64::from(ppm)).unwrap_or(1).max(500);
    let by_us = if draw.chance(600) { by_us } else { -by_us };
    let when = after_a_grant(weather, draw);
    vec![Fault { kind: FaultKind::ClockSlew { node, by_us, ppm }, when, lasts: None }]
}

/// For up to two leases, and no more than two fifths of the storm: time is left for whoever is
/// let in too late.
pub(super) fn clock_freeze(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let lease_us = weather.plan.lock.lease.0;
    let node = server(weather, draw);
    let lasts = weather.some(draw, lease_us / 4, lease_us * 2);
    let lasts = Some(lasts.min(Micros(weather.plan.duration.0 / 5 * 2)));
    vec![Fault { kind: FaultKind::ClockFreeze { node }, when: after_a_grant(weather, draw), lasts }]
}

/// Slow, still or failing.
pub(super) fn disk(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = server(weather, draw);
    let extra = weather.some(draw, 5_000, 400_000);
    let kind = match draw.below(10) {
        0..=4 => FaultKind::DiskSlow { node, extra },
        5..=7 => FaultKind::DiskStall { node },
        _ => FaultKind::DiskError { node },
    };
    vec![Fault {
        kind,
        when: after_a_grant(weather, draw),
        lasts: Some(weather.share(draw, 20, 250)),
    }]
}

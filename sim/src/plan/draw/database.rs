//! The families of faults that strike PostgreSQL servers: the primary dies or is cut off and
//! its standby is promoted, servers restart, stand still, have ill disks, lose connections.

use super::families::master;
use super::{Target, Weather};
use crate::draw::Draw;
use crate::plan::{Fault, FaultKind, Micros, Operation, Phase, Plan, When};

fn standby(plan: &Plan) -> String {
    plan.topology.postgres_nodes().into_iter().nth(1).unwrap_or_else(|| master(plan))
}

/// The standby is promoted after a while in which the primary was behind a cut, dead, or
/// neither: an operator who was wrong.
pub(super) fn fails_over(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let phase = if draw.chance(700) { Phase::Returned } else { Phase::Applied };
    let delay = weather.time(draw, 0, 40_000);
    let later = weather.some(draw, 100_000, 2_000_000);
    let lasts = Some(weather.share(draw, 200, 450));
    let behind = draw.chance(500);
    let mut faults = Vec::new();
    if behind {
        let kind = FaultKind::Partition {
            from: vec![master(plan)],
            to: vec![standby(plan)],
            one_way: false,
        };
        let when = target.after(Operation::Acquire, Phase::Invoked, Micros(0));
        faults.push(Fault { kind, when, lasts });
    }
    let at_primary = match draw.below(10) {
        0..=3 => Some(FaultKind::MachineCrash { node: master(plan) }),
        4..=5 => Some(FaultKind::ProcessCrash { node: master(plan) }),
        6..=7 => Some(cut_from_most(weather, &target)),
        _ => None,
    };
    if let Some(kind) = at_primary {
        let when = target.after(Operation::Acquire, phase, delay);
        faults.push(Fault { kind, when, lasts });
    }
    let promote = FaultKind::Promote { node: standby(plan) };
    let when = target.after(Operation::Acquire, phase, Micros(delay.0 + later.0));
    faults.push(Fault { kind: promote, when, lasts: None });
    faults
}

/// The primary dies behind a cut, and its standby is promoted without what it has not heard.
pub(super) fn loses_the_primary(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let kind =
        FaultKind::Partition { from: vec![master(plan)], to: vec![standby(plan)], one_way: false };
    let lasts = Some(weather.share(draw, 300, 450));
    let cut =
        Fault { kind, when: target.after(Operation::Acquire, Phase::Invoked, Micros(0)), lasts };
    let delay = weather.time(draw, 500, 400_000);
    let dies = Fault {
        kind: FaultKind::MachineCrash { node: master(plan) },
        when: target.after(Operation::Acquire, Phase::Returned, delay),
        lasts,
    };
    let later = Micros(delay.0 + weather.some(draw, 100_000, 1_000_000).0);
    let promote = Fault {
        kind: FaultKind::Promote { node: standby(plan) },
        when: target.after(Operation::Acquire, Phase::Returned, later),
        lasts: None,
    };
    vec![cut, dies, promote]
}

/// The primary and some clients on one side, its standby and the others on the other.
fn cut_from_most(weather: &Weather<'_>, target: &Target) -> FaultKind {
    let plan = weather.plan;
    let (mut from, mut to) = (vec![master(plan)], vec![standby(plan)]);
    for app in plan.topology.app_nodes() {
        let with_primary = weather.draw("plan/pg-cut", &app).chance(350) || app == target.client;
        if with_primary { from.push(app) } else { to.push(app) }
    }
    FaultKind::Partition { from, to, one_way: false }
}

/// A server dies, and comes back with what its log says.
pub(super) fn restart(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = any(weather, draw);
    let kind = match draw.chance(500) {
        true => FaultKind::MachineCrash { node },
        false => FaultKind::ProcessCrash { node },
    };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 5, 200)) }]
}

/// A server stands still.
pub(super) fn pause(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let kind = FaultKind::Pause { node: any(weather, draw), group: None };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 5, 400)) }]
}

/// A server's disk is slow, or completes nothing for a while: no commit returns.
pub(super) fn disk(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let node = any(weather, draw);
    let extra = weather.some(draw, 5_000, 400_000);
    let kind = match draw.chance(600) {
        true => FaultKind::DiskSlow { node, extra },
        false => FaultKind::DiskStall { node },
    };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 20, 250)) }]
}

/// A client's connections to a server are reset: at the server its sessions end, at the
/// client a COMMIT may be without its reply.
pub(super) fn reset(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(3) {
        0 => (Operation::Acquire, Phase::Applied),
        1 => (Operation::Release, Phase::Applied),
        _ => (Operation::Read, Phase::Applied),
    };
    let to = weather.plan.topology.door_of(&any(weather, draw));
    let kind = FaultKind::Reset { from: vec![target.client.clone()], to: vec![to] };
    let when: When = target.after(operation, phase, weather.time(draw, 0, 2_000));
    vec![Fault { kind, when, lasts: None }]
}

/// Mostly the first primary.
fn any(weather: &Weather<'_>, draw: &mut Draw) -> String {
    let servers = weather.plan.topology.postgres_nodes();
    let any = draw.pick(&servers).cloned();
    let first = draw.chance(700);
    any.filter(|_| !first).unwrap_or_else(|| master(weather.plan))
}

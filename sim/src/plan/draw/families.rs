//! The families of faults.
//!
//! A family is an incident with its circumstances: the crash of a master comes with
//! what kept its replicas behind and with what kept the holder inside, because a
//! lock is lost by the three together and hardly ever by one of them.

use super::{Target, Weather, database, ensemble};
use crate::draw::Draw;
use crate::plan::{Fault, FaultKind, Micros, Operation, Phase, Plan, STOCK_NODE, When};

/// One family.
pub(super) struct Family {
    /// The purpose of its draws.
    pub name: &'static str,
    /// Whether such a thing can happen in this topology.
    pub at_home: fn(&Plan) -> bool,
    /// How likely it is in a storm, in a thousand.
    pub in_thousand: fn(&Plan) -> u32,
    /// What it is this time.
    pub strike: fn(&Weather<'_>, &mut Draw) -> Vec<Fault>,
}

/// All families, in the order in which a plan lists their faults.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "plan/master-dies",
        at_home: has_failover,
        in_thousand: |_| 450,
        strike: master_dies,
    },
    Family { name: "plan/split", at_home: has_failover, in_thousand: |_| 180, strike: split },
    Family { name: "plan/pause", at_home: |_| true, in_thousand: |_| 350, strike: pause },
    Family { name: "plan/cut-off", at_home: |_| true, in_thousand: |_| 100, strike: cut_off },
    Family { name: "plan/slow-link", at_home: |_| true, in_thousand: |_| 150, strike: slow_link },
    Family { name: "plan/stall", at_home: has_replica, in_thousand: |_| 80, strike: stall },
    Family {
        name: "plan/replica-restart",
        at_home: has_replica,
        in_thousand: |_| 100,
        strike: replica_restart,
    },
    Family {
        name: "plan/server-restart",
        at_home: |plan| plan.topology.redis > 0 && !has_replica(plan),
        in_thousand: |_| 350,
        strike: server_restart,
    },
    Family {
        name: "plan/bad-clock",
        at_home: |_| true,
        in_thousand: bad_clock_odds,
        strike: bad_clock,
    },
    Family { name: "plan/clock-step", at_home: |_| true, in_thousand: |_| 40, strike: clock_step },
    // Of ensembles, in a module of their own.
    Family {
        name: "plan/zk-dies",
        at_home: has_ensemble,
        in_thousand: |_| 350,
        strike: ensemble::dies,
    },
    Family {
        name: "plan/zk-cut",
        at_home: has_ensemble,
        in_thousand: |_| 250,
        strike: ensemble::cut,
    },
    Family {
        name: "plan/zk-no-quorum",
        at_home: has_ensemble,
        in_thousand: |_| 60,
        strike: ensemble::no_quorum,
    },
    Family {
        name: "plan/zk-pause",
        at_home: has_ensemble,
        in_thousand: |_| 150,
        strike: ensemble::pause,
    },
    Family {
        name: "plan/zk-disk",
        at_home: has_ensemble,
        in_thousand: |_| 150,
        strike: ensemble::disk,
    },
    Family {
        name: "plan/session-ends",
        at_home: has_ensemble,
        in_thousand: |_| 300,
        strike: ensemble::session_ends,
    },
    // Of databases, likewise.
    Family {
        name: "plan/pg-fails-over",
        at_home: |plan| plan.topology.postgres > 1,
        in_thousand: |_| 400,
        strike: database::fails_over,
    },
    Family {
        name: "plan/pg-restart",
        at_home: has_database,
        in_thousand: |_| 250,
        strike: database::restart,
    },
    Family {
        name: "plan/pg-pause",
        at_home: has_database,
        in_thousand: |_| 100,
        strike: database::pause,
    },
    Family {
        name: "plan/pg-disk",
        at_home: has_database,
        in_thousand: |_| 150,
        strike: database::disk,
    },
    Family {
        name: "plan/pg-reset",
        at_home: has_database,
        in_thousand: |_| 200,
        strike: database::reset,
    },
];

fn has_database(plan: &Plan) -> bool {
    plan.topology.postgres > 0
}

fn has_ensemble(plan: &Plan) -> bool {
    plan.topology.zookeeper > 0
}

pub(super) fn has_replica(plan: &Plan) -> bool {
    plan.topology.replicas() > 0
}

fn has_failover(plan: &Plan) -> bool {
    has_replica(plan) && plan.topology.sentinels > 0
}

/// The server that decides at first: the master; of an ensemble whose servers have the same
/// log the one with the largest number is elected.
pub(super) fn master(plan: &Plan) -> String {
    let topology = &plan.topology;
    match topology.redis {
        0 => topology.zookeeper_nodes().pop().unwrap_or_else(|| "pg-1".to_owned()),
        _ => "redis-1".to_owned(),
    }
}

/// Of the first Redis master.
pub(super) fn replicas(plan: &Plan) -> Vec<String> {
    plan.topology.redis_nodes().into_iter().skip(1).collect()
}

/// The master dies just after it granted the lock; before that, something may have
/// kept its replicas behind; and the holder may stay inside until a new master has
/// granted the lock again.
fn master_dies(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let mut faults = Vec::new();
    let behind = what_keeps_replicas_behind(weather, draw, &target);
    let cut = behind.as_ref().is_some_and(|fault| fault.kind.name() == "partition");
    faults.extend(behind);
    // A process crash leaves to the kernel what it already has: behind a cut only
    // the machine's crash takes the write along.
    let machine = draw.chance(500) || cut;
    let phase = if draw.chance(800) { Phase::Returned } else { Phase::Applied };
    let delay = weather.time(draw, 0, 40_000);
    let kind = if machine {
        FaultKind::MachineCrash { node: master(weather.plan) }
    } else {
        FaultKind::ProcessCrash { node: master(weather.plan) }
    };
    let soon = weather.some(draw, plan.topology.down_after.0 / 10, plan.topology.down_after.0);
    let later = weather.share(draw, 150, 400);
    let lasts = match draw.below(10) {
        0 => Some(soon),
        1..=6 => Some(later),
        _ => None,
    };
    faults.push(Fault { kind, when: target.after(Operation::Acquire, phase, delay), lasts });
    let inside =
        weather.some(draw, plan.topology.down_after.0 / 10 * 13, plan.lock.lease.0 / 10 * 9);
    if draw.chance(600) {
        faults.push(Fault {
            kind: FaultKind::Pause { node: target.client.clone(), group: None },
            when: target.after(Operation::Read, Phase::Applied, Micros(0)),
            lasts: Some(inside),
        });
    }
    faults
}

fn what_keeps_replicas_behind(
    weather: &Weather<'_>,
    draw: &mut Draw,
    target: &Target,
) -> Option<Fault> {
    // At the very moment of the grant all earlier records have been replicated and
    // this one has not; from the invocation on, an older holder's may be there too.
    let phase = if draw.chance(700) { Phase::Applied } else { Phase::Invoked };
    let lasts = weather.share(draw, 100, 300);
    let cut = |one_way| FaultKind::Partition {
        from: vec![master(weather.plan)],
        to: replicas(weather.plan),
        one_way,
    };
    let kind = match draw.below(10) {
        0..=4 => FaultKind::ReplicationStall { node: master(weather.plan) },
        5..=6 => cut(false),
        7 => cut(true),
        _ => return None,
    };
    let when = target.after(Operation::Acquire, phase, Micros(0));
    Some(Fault { kind, when, lasts: Some(lasts) })
}

/// The master and some clients on one side, the rest on the other: two masters, each
/// with clients. The stock mostly stays within everybody's reach. Sentinels that stay
/// with the master are a minority, and go on naming it.
fn split(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let (mut from, mut to) = (vec![master(weather.plan)], replicas(plan));
    let majority = plan.topology.quorum();
    for (number, sentinel) in (1..).zip(plan.topology.sentinel_nodes()) {
        let with_master = weather.draw("plan/split", &sentinel).chance(250) && number > majority;
        if with_master { from.push(sentinel) } else { to.push(sentinel) }
    }
    if draw.chance(200) {
        to.push(STOCK_NODE.to_owned());
    }
    for app in plan.topology.app_nodes() {
        let with_master = weather.draw("plan/split", &app).chance(350) || app == target.client;
        if with_master { from.push(app) } else { to.push(app) }
    }
    let kind = FaultKind::Partition { from, to, one_way: draw.chance(100) };
    let when = target.after(Operation::Acquire, Phase::Returned, weather.time(draw, 0, 20_000));
    vec![Fault { kind, when, lasts: Some(weather.share(draw, 150, 450)) }]
}

/// A client stands still around its critical section: briefly, for much of the
/// lease, just past it (so that it wakes up in the next holder's section), or long.
fn pause(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let lease_us = weather.plan.lock.lease.0;
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(8) {
        0 => (Operation::Acquire, Phase::Applied),
        1 => (Operation::Acquire, Phase::Returned),
        2 => (Operation::Sell, Phase::Applied),
        3 => (Operation::Release, Phase::Invoked),
        _ => (Operation::Read, Phase::Applied),
    };
    let (from, to) = match draw.below(10) {
        0..=2 => (10, 200),
        3..=4 => (200, 900),
        5..=8 => (1_000, 1_025),
        _ => (1_025, 1_500),
    };
    let delay = weather.time(draw, 0, 4_000);
    // Half of them strike at the very event.
    let delay = if draw.chance(500) { Micros(0) } else { delay };
    vec![Fault {
        kind: FaultKind::Pause { node: target.client.clone(), group: None },
        when: target.after(operation, phase, delay),
        lasts: Some(weather.some(draw, lease_us / 1_000 * from, lease_us / 1_000 * to)),
    }]
}

/// A client loses sight of the lock's servers, or of the stock.
fn cut_off(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let stock = draw.chance(300);
    let one_way = draw.chance(100);
    let to = if stock { vec![STOCK_NODE.to_owned()] } else { plan.topology.doors() };
    vec![Fault {
        kind: FaultKind::Partition { from: vec![target.client], to, one_way },
        when: weather.begin(draw),
        lasts: Some(weather.share(draw, 10, 300)),
    }]
}

/// A client's link, or the master's to its replicas, becomes slow.
fn slow_link(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let plan = weather.plan;
    let target = weather.target(draw);
    let own = vec![target.client];
    let (from, to) = match draw.below(3) {
        0 if has_replica(plan) => (vec![master(weather.plan)], replicas(plan)),
        0 | 1 => (own, vec![plan.topology.door_of(&master(plan))]),
        _ => (own, vec![STOCK_NODE.to_owned()]),
    };
    let extra = weather.some(draw, 5_000, 400_000);
    vec![Fault {
        kind: FaultKind::SlowLink { from, to, extra },
        when: weather.begin(draw),
        lasts: Some(weather.share(draw, 50, 400)),
    }]
}

/// Replication stands still for a while, and nobody dies of it.
fn stall(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    vec![Fault {
        kind: FaultKind::ReplicationStall { node: master(weather.plan) },
        when: weather.begin(draw),
        lasts: Some(weather.share(draw, 20, 300)),
    }]
}

/// A replica goes down and comes back.
fn replica_restart(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let replicas = replicas(weather.plan);
    let node = draw.pick(&replicas).cloned().unwrap_or_else(|| master(weather.plan));
    let kind = if draw.chance(500) {
        FaultKind::MachineCrash { node }
    } else {
        FaultKind::ProcessCrash { node }
    };
    vec![Fault { kind, when: weather.begin(draw), lasts: Some(weather.share(draw, 20, 300)) }]
}

/// The only server goes down and comes back, without what it had in memory.
fn server_restart(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let kind = if draw.chance(500) {
        FaultKind::MachineCrash { node: master(weather.plan) }
    } else {
        FaultKind::ProcessCrash { node: master(weather.plan) }
    };
    let phase = if draw.chance(700) { Phase::Returned } else { Phase::Applied };
    let delay = weather.time(draw, 0, 40_000);
    vec![Fault {
        kind,
        when: target.after(Operation::Acquire, phase, delay),
        lasts: Some(weather.share(draw, 5, 200)),
    }]
}

/// Over leases of minutes a clock's rate matters; over seconds it hardly does.
fn bad_clock_odds(plan: &Plan) -> u32 {
    if plan.lock.lease >= Micros::from_secs(60) { 350 } else { 30 }
}

/// A clock that is far out of tolerance, from the start.
fn bad_clock(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let node = if draw.chance(700) { master(weather.plan) } else { target.client };
    let ppm = if draw.chance(650) { 50_000 } else { -50_000 };
    vec![Fault { kind: FaultKind::ClockRate { node, ppm }, when: When::At(Micros(0)), lasts: None }]
}

/// A server's wall clock jumps, by up to a lease and a half.
fn clock_step(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let servers = weather.plan.topology.lock_servers();
    let node = draw.pick(&servers).cloned().unwrap_or_else(|| master(weather.plan));
    let lease_us = weather.plan.lock.lease.0;
    let by = weather.some(draw, lease_us / 20, lease_us / 2 * 3);
    let by_us = i64::try_from(by.0).unwrap_or(i64::MAX);
    let by_us = if draw.chance(700) { by_us } else { -by_us };
    let when = weather.begin(draw);
    let lasts = weather.share(draw, 50, 350);
    let lasts = draw.chance(500).then_some(lasts);
    vec![Fault { kind: FaultKind::ClockStep { node, by_us }, when, lasts }]
}

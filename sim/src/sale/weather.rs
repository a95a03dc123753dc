//! What goes wrong with a sale: families of faults, each in or out by a draw of its own, most of
//! them in the rush, where there is most to be lost.

use crate::draw::Draw;
use crate::plan::{Fault, FaultKind, Micros, Plan, When};
use crate::storm::crew::USERS_NODE;

/// A family: the purpose of its draws, how likely it is in a thousand, what it is this time;
/// nothing, where it is not at home.
type Family = (&'static str, u64, fn(&Plan, &mut Draw) -> Vec<Fault>);

const FAMILIES: &[Family] = &[
    ("sale/app-dies", 450, app_dies),
    ("sale/master-dies", 400, master_dies),
    ("sale/split", 100, split),
    ("sale/pg-dies", 300, database_dies),
    ("sale/pg-fails-over", 500, fails_over),
    ("sale/zk-dies", 250, ensemble_server_dies),
    ("sale/pause", 350, pause),
    ("sale/cut", 300, cut),
    ("sale/reset", 300, reset),
    ("sale/slow-link", 150, slow_link),
    ("sale/pg-disk", 120, slow_disk),
    ("sale/clock", 100, clock),
];

/// The faults that the plan's seed draws: at least one.
pub(super) fn faults(plan: &Plan) -> Vec<Fault> {
    let draw = |purpose: &str, entity: &str| Draw::new(plan.seed.0, purpose, entity);
    let is_in = |family: &&Family| draw(family.0, "in").chance(family.1);
    let mut chosen: Vec<&Family> = FAMILIES.iter().filter(is_in).collect();
    if chosen.is_empty() {
        let all: Vec<&Family> = FAMILIES.iter().collect();
        chosen.extend(draw("sale/at-least-one", "").pick(&all));
    }
    let strikes = |family: &&Family| (family.2)(plan, &mut draw(family.0, "what"));
    chosen.iter().flat_map(strikes).collect()
}

/// Mostly in the rush.
fn begin(draw: &mut Draw) -> When {
    let in_rush = draw.chance(750);
    let ms = if in_rush { draw.between(700, 3_000) } else { draw.between(3_000, 5_000) };
    When::At(Micros(ms * 1_000 + draw.below(1_000)))
}

fn lasts(draw: &mut Draw, from_ms: u64, to_ms: u64) -> Option<Micros> {
    Some(Micros::from_millis(draw.between(from_ms, to_ms)))
}

fn later(when: &When, by_ms: u64) -> When {
    match when {
        When::At(at) => When::At(Micros(at.0 + by_ms * 1_000)),
        other => other.clone(),
    }
}

fn app(plan: &Plan, draw: &mut Draw) -> String {
    draw.pick(&plan.topology.app_nodes()).cloned().unwrap_or_default()
}

fn crash(draw: &mut Draw, node: String) -> FaultKind {
    match draw.chance(500) {
        true => FaultKind::MachineCrash { node },
        false => FaultKind::ProcessCrash { node },
    }
}

/// An application node dies, and with it requests, a writer, perhaps the leader.
fn app_dies(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let node = app(plan, draw);
    let kind = crash(draw, node);
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 100, 2_000) }]
}

/// The master of Redis dies; before that, something may have kept its replicas behind.
fn master_dies(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let master = "redis-1".to_owned();
    let when = begin(draw);
    let replicas: Vec<String> = plan.topology.redis_nodes().into_iter().skip(1).collect();
    let behind = match draw.below(10) {
        0..=3 => Some(FaultKind::ReplicationStall { node: master.clone() }),
        4..=6 => {
            Some(FaultKind::Partition { from: vec![master.clone()], to: replicas, one_way: false })
        }
        _ => None,
    };
    let by_ms = draw.between(5, 250);
    let mut faults = Vec::new();
    let dies = if behind.is_some() { later(&when, by_ms) } else { when.clone() };
    faults.extend(behind.map(|kind| Fault { kind, when, lasts: lasts(draw, 800, 2_500) }));
    let kind = match faults.is_empty() {
        true => crash(draw, master),
        // What the kernel has goes out still; behind a cut only the machine's crash takes it.
        false => FaultKind::MachineCrash { node: master },
    };
    faults.push(Fault { kind, when: dies, lasts: lasts(draw, 200, 3_000) });
    faults
}

/// The master of Redis and one application node on one side, all others on the other: two
/// masters, and both sell.
fn split(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let with_master = app(plan, draw);
    let from = vec!["redis-1".to_owned(), with_master.clone()];
    let mut to: Vec<String> = plan.topology.redis_nodes().into_iter().skip(1).collect();
    to.extend(plan.topology.sentinel_nodes());
    to.extend(plan.topology.app_nodes().into_iter().filter(|node| *node != with_master));
    let kind = FaultKind::Partition { from, to, one_way: false };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 500, 2_500) }]
}

fn database_dies(_: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let kind = crash(draw, "pg-1".to_owned());
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 50, 1_500) }]
}

/// The database's standby is promoted, after what was acknowledged did not reach it and the
/// primary died.
fn fails_over(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let Some(standby) = plan.topology.postgres_nodes().into_iter().nth(1) else {
        return Vec::new();
    };
    let (primary, when) = ("pg-1".to_owned(), begin(draw));
    let behind = FaultKind::Partition {
        from: vec![primary.clone()],
        to: vec![standby.clone()],
        one_way: false,
    };
    let (dies_ms, promoted_ms) = (draw.between(20, 400), draw.between(50, 500));
    let dies = later(&when, dies_ms);
    let promoted = later(&dies, promoted_ms);
    let dies = Fault { kind: FaultKind::MachineCrash { node: primary }, when: dies, lasts: None };
    let lasts = lasts(draw, 3_000, 4_000);
    let promoted =
        Fault { kind: FaultKind::Promote { node: standby }, when: promoted, lasts: None };
    vec![Fault { kind: behind, when, lasts }, Fault { lasts, ..dies }, promoted]
}

fn ensemble_server_dies(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let node = draw.pick(&plan.topology.zookeeper_nodes()).cloned().unwrap_or_default();
    let kind = crash(draw, node);
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 200, 2_500) }]
}

/// Somebody stands still: an application node for longer than its office, or a server for
/// longer than a reply may take.
fn pause(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let of_app = app(plan, draw);
    let node = match draw.below(10) {
        0..=5 => of_app,
        6..=7 => "pg-1".to_owned(),
        _ => "redis-1".to_owned(),
    };
    let kind = FaultKind::Pause { node, group: None };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 50, 3_000) }]
}

/// An application node loses sight of a server, or buyers of a node; in one direction only,
/// requests arrive and replies do not.
fn cut(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let node = app(plan, draw);
    let replies_only = draw.chance(500);
    let other = match draw.below(10) {
        0..=3 => plan.topology.redis_nodes(),
        4..=6 => vec!["pg-1".to_owned()],
        7 => plan.topology.zookeeper_nodes(),
        _ => vec![USERS_NODE.to_owned()],
    };
    let kind = FaultKind::Partition { from: other, to: vec![node], one_way: replies_only };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 50, 1_500) }]
}

/// Connections break, several times: what was answered may not be heard.
fn reset(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let times = draw.between(1, 5);
    let one = |_| {
        let node = app(plan, draw);
        let to = match draw.below(3) {
            0 => plan.topology.redis_nodes(),
            1 => vec!["pg-1".to_owned()],
            _ => vec![USERS_NODE.to_owned()],
        };
        let kind = FaultKind::Reset { from: vec![node], to };
        Fault { kind, when: begin(draw), lasts: None }
    };
    (0..times).map(one).collect()
}

fn slow_link(plan: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let from = vec![app(plan, draw)];
    let to = match draw.chance(500) {
        true => plan.topology.redis_nodes(),
        false => vec!["pg-1".to_owned()],
    };
    let extra = Micros::from_millis(draw.between(5, 250));
    let kind = FaultKind::SlowLink { from, to, extra };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 200, 2_000) }]
}

fn slow_disk(_: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let node = "pg-1".to_owned();
    let extra = Micros::from_millis(draw.between(5, 200));
    let kind = match draw.chance(700) {
        true => FaultKind::DiskSlow { node, extra },
        false => FaultKind::DiskStall { node },
    };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 100, 1_500) }]
}

/// The database's clock, by which orders lapse, jumps; or Redis' does.
fn clock(_: &Plan, draw: &mut Draw) -> Vec<Fault> {
    let node = if draw.chance(600) { "pg-1" } else { "redis-1" }.to_owned();
    let by_us = i64::try_from(draw.between(100, 3_000) * 1_000).unwrap_or(0);
    let by_us = if draw.chance(500) { by_us } else { -by_us };
    let kind = FaultKind::ClockStep { node, by_us };
    vec![Fault { kind, when: begin(draw), lasts: lasts(draw, 500, 2_500) }]
}

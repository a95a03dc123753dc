//! Strikes against clients and their links.

use super::server;
use crate::draw::Draw;
use crate::plan::draw::{Weather, wide};
use crate::plan::{Fault, FaultKind, Micros, Operation, Phase, Plan, STOCK_NODE, StockPlace};

/// The task group that keeps the lock of a plan held, if it has one.
fn renewer_of(plan: &Plan) -> Option<&'static str> {
    match plan.lock.name.as_str() {
        "redis-watchdog" | "pg-for-update" | "pg-nowait" | "pg-advisory" | "pg-advisory-xact" => {
            Some("renewer")
        }
        // Its client library pings for it.
        name if name.starts_with("zookeeper") => Some("asyncs"),
        _ => None,
    }
}

/// Whether something keeps the plan's lock held that can stand still alone.
pub(super) fn has_renewer(plan: &Plan) -> bool {
    renewer_of(plan).is_some()
}

/// A moment of a section: mostly when the stock has been read, else just after the grant.
fn inside(draw: &mut Draw) -> (Operation, Phase) {
    match draw.below(4) {
        0 => (Operation::Acquire, Phase::Returned),
        _ => (Operation::Read, Phase::Applied),
    }
}

/// In its section, or just after the grant was applied.
pub(super) fn crash(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(4) {
        0 => (Operation::Acquire, Phase::Applied),
        1 => (Operation::Release, Phase::Invoked),
        _ => inside(draw),
    };
    let node = target.client.clone();
    let kind = match draw.chance(500) {
        true => FaultKind::MachineCrash { node },
        false => FaultKind::ProcessCrash { node },
    };
    let comes_back = draw.chance(700);
    let lasts = weather.share(draw, 20, 300);
    let when = target.after(operation, phase, weather.time(draw, 0, 20_000));
    vec![Fault { kind, when, lasts: comes_back.then_some(lasts) }]
}

/// From just past the lease to twice as long: shorter than the lease it wakes up in its own
/// time, and far beyond it nobody is inside any more.
fn beyond_the_lease(weather: &Weather<'_>, draw: &mut Draw) -> Micros {
    let lease_us = weather.plan.lock.lease.0;
    let (from, to) = match draw.below(3) {
        0 => (1_000, 1_050),
        1 => (1_050, 1_300),
        _ => (1_300, 2_000),
    };
    weather.some(draw, lease_us / 1_000 * from, lease_us / 1_000 * to)
}

/// Stands still as a whole.
pub(super) fn pause(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = inside(draw);
    let lasts = Some(beyond_the_lease(weather, draw));
    let kind = FaultKind::Pause { node: target.client.clone(), group: None };
    vec![Fault { kind, when: target.after(operation, phase, Micros(0)), lasts }]
}

/// Only what renews stands still.
pub(super) fn renewer(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let group = renewer_of(weather.plan).map(str::to_owned);
    let lasts = Some(beyond_the_lease(weather, draw));
    let kind = FaultKind::Pause { node: target.client.clone(), group };
    vec![Fault { kind, when: target.after(Operation::Acquire, Phase::Returned, Micros(0)), lasts }]
}

/// Only the work stands still: past the lease, or until the storm is over.
pub(super) fn hang(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = inside(draw);
    let lasts = beyond_the_lease(weather, draw);
    let for_good = draw.chance(300);
    let kind = FaultKind::Hang { node: target.client.clone() };
    let when = target.after(operation, phase, Micros(0));
    vec![Fault { kind, when, lasts: (!for_good).then_some(lasts) }]
}

/// From the lock's servers, both ways.
pub(super) fn cut_off(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = inside(draw);
    let to = weather.plan.topology.doors();
    let kind = FaultKind::Partition { from: vec![target.client.clone()], to, one_way: false };
    let lasts = Some(weather.share(draw, 20, 400));
    vec![Fault { kind, when: target.after(operation, phase, Micros(0)), lasts }]
}

/// Servers to client.
pub(super) fn one_way(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let (operation, phase) = match draw.below(3) {
        0 => (Operation::Acquire, Phase::Invoked),
        1 => (Operation::Release, Phase::Invoked),
        _ => inside(draw),
    };
    let from = weather.plan.topology.doors();
    let kind = FaultKind::Partition { from, to: vec![target.client.clone()], one_way: true };
    let lasts = Some(weather.share(draw, 10, 300));
    vec![Fault { kind, when: target.after(operation, phase, Micros(0)), lasts }]
}

/// To the lock's servers, or to the stock.
pub(super) fn slow_link(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let target = weather.target(draw);
    let to_stock = draw.chance(400);
    let servers = weather.plan.topology.doors();
    let to = if to_stock || servers.is_empty() { sellers(weather.plan) } else { servers };
    let extra = weather.some(draw, 5_000, 600_000);
    let kind = FaultKind::SlowLink { from: vec![target.client.clone()], to, extra };
    let when = target.after(Operation::Acquire, Phase::Invoked, weather.time(draw, 0, 20_000));
    vec![Fault { kind, when, lasts: Some(weather.share(draw, 100, 500)) }]
}

/// Where the stock is: on a node of its own, or with the lock in the database.
fn sellers(plan: &Plan) -> Vec<String> {
    match plan.workload.stock {
        StockPlace::Memory => vec![STOCK_NODE.to_owned()],
        _ => plan.topology.doors(),
    }
}

/// Whom a client asks in this operation.
fn asked(weather: &Weather<'_>, draw: &mut Draw, operation: Operation) -> Vec<String> {
    let servers = weather.plan.topology.doors();
    let all = draw.chance(600);
    let one = weather.plan.topology.door_of(&server(weather, draw));
    match operation {
        Operation::Sell => sellers(weather.plan),
        _ if all && !servers.is_empty() => servers,
        _ if servers.is_empty() => sellers(weather.plan),
        _ => vec![one],
    }
}

fn reset(weather: &Weather<'_>, draw: &mut Draw, moments: &[(Operation, Phase)]) -> Vec<Fault> {
    let target = weather.target(draw);
    let moment = draw.pick(moments).copied();
    let (operation, phase) = moment.unwrap_or((Operation::Acquire, Phase::Invoked));
    let to = asked(weather, draw, operation);
    let kind = FaultKind::Reset { from: vec![target.client.clone()], to };
    // At the very moment: later the reply is there.
    vec![Fault { kind, when: target.after(operation, phase, Micros(0)), lasts: None }]
}

/// Of an acquire, a release or a sale.
pub(super) fn reply_lost(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let applied = |operation| (operation, Phase::Applied);
    let moments = [Operation::Acquire, Operation::Release, Operation::Sell].map(applied);
    reset(weather, draw, &moments)
}

/// Of an acquire or a release.
pub(super) fn request_lost(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    let invoked = |operation| (operation, Phase::Invoked);
    reset(weather, draw, &[Operation::Acquire, Operation::Release].map(invoked))
}

/// As the wide draws have it.
pub(super) fn cancel(weather: &Weather<'_>, draw: &mut Draw) -> Vec<Fault> {
    wide::cancel(weather, draw)
}

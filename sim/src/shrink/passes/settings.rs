//! Fewer clients and servers, and knobs as the scenario has them.

use crate::plan::{Plan, Struck, scenario};
use crate::shrink::replay::Search;

/// Fewer clients, the last first. Whoever stays keeps its name, and so its draws; gaps are
/// closed at the end, if the plan fails all the same.
pub(super) fn fewer_clients(search: &mut Search<'_>) {
    loop {
        let plan = search.plan().clone();
        let clients = plan.topology.app_nodes();
        let without = clients.iter().rev().filter_map(|client| plan.without_client(client));
        if !without.into_iter().any(|fewer| search.accept(fewer)) {
            break;
        }
    }
    if !search.plan().topology.absent.is_empty() {
        let row = search.plan().with_clients_in_a_row();
        search.accept(row);
    }
}

/// Fewer servers: no failover, fewer replicas, a smaller ensemble.
pub(super) fn fewer_servers(search: &mut Search<'_>) {
    fewer_in_the_ensemble(search);
    let sentinels = search.plan().topology.sentinels;
    let only = |left: u16| {
        move |plan: &mut Plan| {
            plan.topology.sentinels = left;
            (left + 1..=sentinels).for_each(|gone| plan.strip(&format!("sentinel-{gone}")));
        }
    };
    // None or one before many: few plans need a vote.
    let _ = (0..sentinels).any(|left| search.accept_with(only(left)));
    while search.plan().topology.redis > 1 {
        let fewer = |plan: &mut Plan| {
            let last = format!("redis-{}", plan.topology.redis);
            plan.topology.redis -= 1;
            plan.strip(&last);
        };
        if !search.accept_with(fewer) {
            break;
        }
    }
    while search.plan().topology.postgres > 1 {
        let fewer = |plan: &mut Plan| {
            let last = format!("pg-{}", plan.topology.postgres);
            plan.topology.postgres -= 1;
            plan.strip(&last);
        };
        if !search.accept_with(fewer) {
            break;
        }
    }
}

/// An ensemble of one, of three and so on: an even number bears no more losses than the odd
/// one before it. Those that faults or clocks name stay before others do, under the first
/// names; or else the last go, for it is they who are elected.
fn fewer_in_the_ensemble(search: &mut Search<'_>) {
    let plan = search.plan().clone();
    let all = plan.topology.zookeeper_nodes();
    let named = |node: &&String| {
        let in_fault = plan.faults.iter().any(|fault| match fault.kind.struck() {
            Struck::Node(struck) => struck == *node,
            Struck::Sides(from, to) => from.contains(*node) || to.contains(*node),
        });
        in_fault || plan.clocks.iter().any(|clock| clock.node == **node)
    };
    let (mut first, others): (Vec<&String>, Vec<&String>) = all.iter().partition(named);
    first.extend(others);
    let names = first.into_iter().cloned().zip(all.iter().cloned()).collect();
    let fewer = |left: u16, is_renamed: bool| {
        let mut plan = plan.clone();
        if is_renamed {
            plan.rename(&names);
        }
        plan.topology.zookeeper = left;
        all.iter().skip(usize::from(left)).for_each(|gone| plan.strip(gone));
        plan
    };
    let sizes = (1..plan.topology.zookeeper).step_by(2);
    let mut plans = sizes.flat_map(|left| [fewer(left, true), fewer(left, false)]);
    let _ = plans.any(|fewer| search.accept(fewer));
}

/// The knobs that are turned, one at a time.
const KNOBS: [fn(&mut Plan, &Plan); 9] = [
    |plan, default| plan.topology.latency = default.topology.latency,
    |plan, default| plan.topology.latency_sigma_milli = default.topology.latency_sigma_milli,
    |plan, default| plan.topology.down_after = default.topology.down_after,
    |plan, default| plan.lock = default.lock.clone(),
    |plan, default| plan.workload.think = default.workload.think,
    |plan, default| plan.workload.work = default.workload.work,
    |plan, default| plan.workload.patience = default.workload.patience,
    |plan, default| plan.workload.slow_work = default.workload.slow_work,
    |plan, default| plan.workload.deadline_check = default.workload.deadline_check,
];

/// Knobs as the scenario has them, all at once or else each; and no slow work, or else all
/// of it slow, so that no draw decides.
pub(super) fn defaults(search: &mut Search<'_>) {
    let plan = search.plan();
    let fence = plan.fence;
    let Ok(default) = scenario::default_plan(&plan.scenario, &plan.lock.name, fence) else {
        return;
    };
    let all = |plan: &mut Plan| KNOBS.iter().for_each(|turn| turn(plan, &default));
    if !search.accept_with(all) {
        for turn in KNOBS {
            search.accept_with(|plan| turn(plan, &default));
        }
    }
    let usual = default.workload.slow_per_mille;
    let simple = [0, 1_000, usual];
    let has = search.plan().workload.slow_per_mille;
    let better = simple.iter().take_while(|per_mille| **per_mille != has);
    for per_mille in better {
        if search.accept_with(|plan| plan.workload.slow_per_mille = *per_mille) {
            return;
        }
    }
}

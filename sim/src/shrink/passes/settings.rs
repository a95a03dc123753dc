//! Fewer clients and servers, and knobs as the scenario has them.

use crate::plan::{Plan, StruckMut, When, scenario};
use crate::shrink::replay::Search;

/// Fewer clients. The last one goes; where another is to go it changes names with the last.
pub(super) fn fewer_clients(search: &mut Search<'_>) {
    while search.plan().topology.apps > 1 {
        let last = search.plan().topology.apps;
        let readers = search.plan().workload.readers;
        let fewer = |number: u16, readers: u16| {
            move |plan: &mut Plan| {
                let (gone, last) = (format!("app-{number}"), format!("app-{last}"));
                swap(plan, &gone, &last);
                plan.topology.apps -= 1;
                plan.workload.readers = readers;
                strip(plan, &last);
            }
        };
        // The last ones read: a reader less, or with as many a writer less.
        let mut choices = (1..=last).rev().flat_map(|number| {
            let fewest = readers.saturating_sub(1);
            (fewest..=readers).map(move |readers| (number, readers))
        });
        if !choices.any(|(number, readers)| search.accept_with(fewer(number, readers))) {
            return;
        }
    }
}

/// Fewer servers: no failover, fewer replicas, a smaller ensemble.
pub(super) fn fewer_servers(search: &mut Search<'_>) {
    let sentinels = search.plan().topology.sentinels;
    let only = |left: u16| {
        move |plan: &mut Plan| {
            plan.topology.sentinels = left;
            (left + 1..=sentinels).for_each(|gone| strip(plan, &format!("sentinel-{gone}")));
        }
    };
    // None or one before many: few plans need a vote.
    let _ = (0..sentinels).any(|left| search.accept_with(only(left)));
    while search.plan().topology.redis > 1 {
        let fewer = |plan: &mut Plan| {
            let last = format!("redis-{}", plan.topology.redis);
            plan.topology.redis -= 1;
            strip(plan, &last);
        };
        if !search.accept_with(fewer) {
            break;
        }
    }
    while search.plan().topology.postgres > 1 {
        let fewer = |plan: &mut Plan| {
            let last = format!("pg-{}", plan.topology.postgres);
            plan.topology.postgres -= 1;
            strip(plan, &last);
        };
        if !search.accept_with(fewer) {
            break;
        }
    }
    // Of an even number no more may be gone than of the odd one before it.
    while search.plan().topology.zookeeper > 2 {
        let servers = search.plan().topology.zookeeper;
        let left = if servers.is_multiple_of(2) { servers - 1 } else { servers - 2 };
        let fewer = |plan: &mut Plan| {
            let gone = plan.topology.zookeeper_nodes().split_off(usize::from(left));
            plan.topology.zookeeper = left;
            gone.iter().for_each(|gone| strip(plan, gone));
        };
        if !search.accept_with(fewer) {
            return;
        }
    }
}

/// Takes a node that is gone out of clocks and faults; faults of it alone go with it.
fn strip(plan: &mut Plan, gone: &str) {
    plan.clocks.retain(|clock| clock.node != gone);
    plan.faults.retain_mut(|fault| {
        if matches!(&fault.when, When::After { anchor, .. } if anchor.client == gone) {
            return false;
        }
        match fault.kind.struck_mut() {
            StruckMut::Node(node) => node != gone,
            StruckMut::Sides(from, to) => {
                from.retain(|node| node != gone);
                to.retain(|node| node != gone);
                !from.is_empty() && !to.is_empty()
            }
        }
    });
}

/// Two clients change names.
fn swap(plan: &mut Plan, one: &str, other: &str) {
    let renamed = |name: &mut String| {
        if name == one {
            other.clone_into(name);
        } else if name == other {
            one.clone_into(name);
        }
    };
    plan.clocks.iter_mut().for_each(|clock| renamed(&mut clock.node));
    for fault in &mut plan.faults {
        if let When::After { anchor, .. } = &mut fault.when {
            renamed(&mut anchor.client);
        }
        match fault.kind.struck_mut() {
            StruckMut::Node(node) => renamed(node),
            StruckMut::Sides(from, to) => from.iter_mut().chain(to).for_each(renamed),
        }
    }
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

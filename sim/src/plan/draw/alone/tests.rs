use super::*;
use crate::plan::scenario::{LOCKS, SCENARIOS};
use crate::plan::{FaultKind, Fence, STOCK_NODE, StockPlace, file, scenario};

#[test]
fn every_family_draws_possible_plans_for_every_lock_where_it_is_at_home() {
    let (mut drawn, mut at_home) = (0, 0);
    for scenario in SCENARIOS {
        for lock in LOCKS {
            let Ok(base) = scenario::default_plan(scenario.name, lock.name, Fence::Off) else {
                continue;
            };
            for family in LONE_FAMILIES.iter().filter(|family| family.is_at_home(&base)) {
                at_home += 1;
                for seed in 0..12 {
                    let plan = Plan::struck_by(base.clone(), family.name, Seed(seed)).unwrap();
                    assert_eq!(plan.faults.is_empty(), !family.has_faults(), "{family:?}");
                    let read = file::parse("plan", &file::write(&plan)).unwrap_or_else(|error| {
                        panic!("{} {} {} {seed}: {error}", scenario.name, lock.name, family.name)
                    });
                    assert_eq!(read, plan, "{family:?}");
                    drawn += 1;
                }
            }
        }
    }
    assert!(at_home >= 14 * LOCKS.len() && drawn == 12 * at_home, "{at_home}");
}

/// The plans that a family draws for every lock in every scenario where it is at home.
fn drawn_by(family: &'static str, seeds: u64) -> impl Iterator<Item = Plan> {
    let pairs =
        SCENARIOS.iter().flat_map(|scenario| LOCKS.iter().map(move |lock| (scenario, lock)));
    let bases = pairs.filter_map(|(scenario, lock)| {
        scenario::default_plan(scenario.name, lock.name, Fence::Off).ok()
    });
    let at_home = bases.filter(move |base| find_family(family).unwrap().is_at_home(base));
    at_home.flat_map(move |base| {
        (0..seeds).map(move |seed| Plan::struck_by(base.clone(), family, Seed(seed)).unwrap())
    })
}

#[test]
fn who_stands_still_does_so_for_one_lease_to_two() {
    for family in ["holder-pause", "renewer-pause", "holder-hang"] {
        let mut longest: std::collections::BTreeMap<String, u64> = Default::default();
        for plan in drawn_by(family, 24) {
            let lease_us = plan.lock.lease.0;
            let place = format!("{family} {} {}", plan.scenario, plan.lock.name);
            for lasts in plan.faults.iter().filter_map(|fault| fault.lasts) {
                assert!((lease_us..=lease_us * 2).contains(&lasts.0), "{place}: {lasts}");
                let per_mille = longest.entry(place.clone()).or_default();
                *per_mille = (*per_mille).max(lasts.0 / (lease_us / 1_000));
            }
        }
        assert!(!longest.is_empty());
        assert!(longest.values().all(|per_mille| *per_mille > 1_600), "{longest:?}");
    }
}

#[test]
fn what_strikes_at_the_stock_strikes_where_it_is() {
    for family in ["reply-lost", "slow-link"] {
        let mut in_memory = false;
        for plan in drawn_by(family, 24) {
            let strikes_node = plan.faults.iter().any(|fault| match &fault.kind {
                FaultKind::Reset { to, .. } | FaultKind::SlowLink { to, .. } => {
                    to.iter().any(|node| node == STOCK_NODE)
                }
                kind => panic!("{family}: {kind:?}"),
            });
            let is_there = plan.workload.stock == StockPlace::Memory;
            assert!(is_there || !strikes_node, "{family} {}", plan.lock.name);
            in_memory |= strikes_node;
        }
        assert!(in_memory, "{family}");
    }
}

#[test]
fn seeds_vary_what_a_family_does_and_unknown_families_are_guessed() {
    let base = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
    for family in LONE_FAMILIES.iter().filter(|family| family.has_faults()) {
        if !family.is_at_home(&base) {
            continue;
        }
        let plan = |seed| Plan::struck_by(base.clone(), family.name, Seed(seed)).unwrap().faults;
        assert!((1..20).any(|seed| plan(seed) != plan(0)), "{family:?}");
    }
    let error = Plan::struck_by(base, "holder-pauze", Seed(0)).unwrap_err();
    assert!(error.to_string().contains("holder-pause"), "{error}");
}

use super::*;
use crate::plan::scenario::{LOCKS, SCENARIOS};
use crate::plan::{Fence, file, scenario};

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

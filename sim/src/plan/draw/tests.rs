use std::collections::{BTreeMap, BTreeSet};

use super::alone::LONE_FAMILIES;
use super::*;
use crate::plan::rules::first_problem;
use crate::plan::struck::Struck;
use crate::plan::{FaultKind, POOLER_NODE, file};

fn failover(seed: u64) -> Plan {
    Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed)).unwrap()
}

#[test]
fn every_drawn_plan_is_possible_and_survives_its_file() {
    let cases = scenario::SCENARIOS
        .iter()
        .flat_map(|scenario| scenario::LOCKS.iter().map(move |lock| (scenario, lock.name)));
    let fits =
        |scenario: &str, lock: &str| scenario::default_plan(scenario, lock, Fence::Off).is_ok();
    for (scenario, lock) in cases.filter(|(scenario, lock)| fits(scenario.name, lock)) {
        for (seed, draws) in (0..1_000).flat_map(|seed| [(seed, Draws::First), (seed, Draws::Wide)])
        {
            let base = scenario::default_plan(scenario.name, lock, Fence::Off).unwrap();
            let plan = Plan::from_seed_by(draws, base, Seed(seed), &[]).unwrap();
            assert_eq!(first_problem(&plan), Ok(()), "{} {seed}", scenario.name);
            assert!(!plan.faults.is_empty());
            let text = file::write(&plan);
            assert_eq!(file::parse("plan.toml", &text).unwrap(), plan, "{text}");
        }
    }
}

#[test]
fn two_seeds_differ_and_one_does_not() {
    assert_eq!(failover(42), failover(42));
    assert_ne!(failover(42).faults, failover(43).faults);
}

/// Plans of one seed must stay what they are for as long as the generator is not
/// changed on purpose: seed files name seeds.
#[test]
fn the_plan_of_a_seed() {
    insta::assert_snapshot!(file::write(&failover(0x5eed)));
}

#[test]
fn families_do_not_move_each_other() {
    let base = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
    for seed in 0..200 {
        let plan = Plan { seed: Seed(seed), ..base.clone() };
        let weather = Weather { plan: &plan };
        let strike =
            |family: &Family| (family.strike)(&weather, &mut weather.draw(family.name, "what"));
        let forwards: Vec<_> = FAMILIES.iter().map(strike).collect();
        let mut backwards: Vec<_> = FAMILIES.iter().rev().map(strike).collect();
        backwards.reverse();
        assert_eq!(forwards, backwards);
    }
    // Purposes are names: two families of one name would share their draws.
    let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), FAMILIES.len());
}

#[test]
fn wide_draws_begin_with_the_first_ones_and_have_every_kind() {
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..2_000 {
        let first = failover(seed);
        let base = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        let wide = Plan::from_seed_by(Draws::Wide, base, Seed(seed), &[]).unwrap();
        assert!(wide.faults.starts_with(&first.faults), "{seed}");
        assert_eq!((&wide.clocks, &wide.workload), (&first.clocks, &first.workload));
        for fault in &wide.faults[first.faults.len()..] {
            *kinds.entry(fault.kind.name()).or_default() += 1;
        }
    }
    for kind in ["reset", "cancel", "hang", "clock-freeze", "clock-slew", "partition", "pause"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 80), "{kind}: {kinds:?}");
    }
}

#[test]
fn the_swarm_has_every_kind_and_few_faults_at_once() {
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    let mut sizes: BTreeMap<usize, u32> = BTreeMap::new();
    let (mut lost_locks, mut near_lease, mut careless, mut anchored, mut faults) = (0, 0, 0, 0, 0);
    for seed in 0..2_000 {
        let plan = failover(seed);
        *sizes.entry(plan.faults.len()).or_default() += 1;
        let has = |kind: &str| plan.faults.iter().any(|fault| fault.kind.name() == kind);
        let mut behind_then_dead = false;
        for fault in &plan.faults {
            faults += 1;
            *kinds.entry(fault.kind.name()).or_default() += 1;
            anchored += u32::from(matches!(fault.when, When::After { .. }));
            if let FaultKind::Pause { .. } = fault.kind {
                let over = fault.lasts.is_some_and(|lasts| lasts >= plan.lock.lease);
                near_lease += u32::from(over);
                behind_then_dead |= has("machine-crash") || has("process-crash");
            }
        }
        let behind = has("replication-stall") || has("partition");
        lost_locks += u32::from(behind_then_dead && behind);
        careless += u32::from(!plan.workload.deadline_check);
    }
    for kind in ["process-crash", "machine-crash", "pause", "partition", "slow-link"] {
        assert!(kinds[kind] > 100, "{kinds:?}");
    }
    for kind in ["replication-stall", "clock-rate", "clock-step"] {
        assert!(kinds[kind] > 20, "{kinds:?}");
    }
    let few: u32 = (1..=4).filter_map(|size| sizes.get(&size)).sum();
    assert!(few > 1_700, "{sizes:?}");
    assert!(anchored * 10 > faults * 7, "{anchored} of {faults}");
    assert!(lost_locks > 200, "{lost_locks}");
    assert!(near_lease > 100, "{near_lease}");
    assert!((300..700).contains(&careless), "{careless}");
}

/// Behind a pooler clients have no connection to the server: what parted them from it alone
/// would strike nobody.
#[test]
fn whoever_is_parted_from_a_server_behind_a_pooler_is_parted_from_the_pooler() {
    let base = |lock| scenario::default_plan("postgres-pooler", lock, Fence::Off).unwrap();
    let under_redis = [("topology.redis", "1"), ("workload.stock", "sql")];
    let sold_under_redis = base("pg-lock-table").with_changes(Some("redis"), None, &under_redis);
    let mut struck: BTreeMap<&str, u32> = BTreeMap::new();
    for base in [base("pg-lock-table"), base("pg-optimistic"), sold_under_redis.unwrap()] {
        let at_random = (0..1_000)
            .map(|seed| Plan::from_seed_by(Draws::Wide, base.clone(), Seed(seed), &[]).unwrap());
        let families = LONE_FAMILIES.iter().filter(|family| family.is_at_home(&base));
        let alone = families.flat_map(|family| {
            (0..20).map(|seed| Plan::struck_by(base.clone(), family.name, Seed(seed)).unwrap())
        });
        for fault in at_random.chain(alone).flat_map(|plan| plan.faults) {
            let Struck::Sides(from, to) = fault.kind.struck() else { continue };
            let has_app = |side: &[String]| side.iter().any(|node| node.starts_with("app-"));
            let has = |side: &[String], node: &str| side.iter().any(|other| other == node);
            let parts_app_from =
                |node: &str| has_app(from) && has(to, node) || has_app(to) && has(from, node);
            let is_parted = parts_app_from(POOLER_NODE);
            // Where the server is cut off from everybody, its pooler is among these.
            let is_cut_off = has(from, POOLER_NODE) || has(to, POOLER_NODE);
            assert!(!parts_app_from("pg-1") || is_parted || is_cut_off, "{fault:?}");
            *struck.entry(fault.kind.name()).or_default() += u32::from(is_parted);
        }
    }
    assert!(struck.len() == 3 && struck.values().all(|count| *count > 100), "{struck:?}");
}

/// A seed that was told to somebody must stay the storm that it was: what is drawn of
/// faults and clocks is pinned. A change here makes every seed another one.
#[test]
fn what_seeds_draw_does_not_change() {
    let mut pinned = Vec::new();
    for scenario in ["redis-single", "redis-failover", "redis-long-lease"] {
        let mut hasher = blake3::Hasher::new();
        for seed in 0..300 {
            let plan = Plan::from_seed(scenario, "redis", Fence::Off, Seed(seed)).unwrap();
            let text = file::write(&plan);
            let lists = text.find("\n[[").unwrap_or(text.len());
            hasher.update(&text.as_bytes()[lists..]);
        }
        pinned.push(format!("{scenario} {}", &hasher.finalize().to_hex()[..16]));
    }
    insta::assert_snapshot!(pinned.join("\n"));
}

#[test]
fn settings_win_over_draws_and_faults_are_drawn_to_their_measure() {
    let settings = [("lock.lease", "2s"), ("topology.latency", "3ms")];
    for seed in 0..200 {
        let seed = Seed(seed);
        let plan =
            Plan::from_seed_with("redis-failover", "redis", Fence::Off, seed, &settings).unwrap();
        assert_eq!(plan.lock.lease, Micros::from_secs(2));
        assert_eq!(plan.topology.latency, Micros::from_millis(3));
        for fault in &plan.faults {
            if let FaultKind::Pause { .. } = fault.kind {
                assert!(fault.lasts <= Some(Micros::from_secs(3)), "{fault:?}");
            }
        }
    }
}

#[test]
fn small_storms_are_possible_too() {
    for (key, value) in [
        ("duration", "100ms"),
        ("lock.lease", "10ms"),
        ("topology.redis", "2"),
        ("topology.apps", "1"),
        ("topology.sentinels", "0"),
        ("topology.sentinels", "1"),
        ("topology.down-after", "1ms"),
        ("topology.down-after", "24h"),
        ("lock.lease", "24h"),
        ("workload.think", "0s"),
    ] {
        for (seed, draws) in (0..300).flat_map(|seed| [(seed, Draws::First), (seed, Draws::Wide)]) {
            let base = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
            let drawn = Plan::from_seed_by(draws, base, Seed(seed), &[(key, value)]);
            assert!(drawn.is_ok(), "{key}={value} seed {seed}: {}", drawn.unwrap_err());
        }
    }
}

#[test]
fn bad_settings_name_the_flag() {
    let set = |key, value| failover(1).without_faults().with_set(key, value);
    let with_fault = |key, value| {
        let mut plan = failover(1).without_faults();
        plan.faults = failover(2).faults;
        plan.faults[0].when = When::At(Micros::from_secs(6));
        plan.faults[0].lasts = None;
        plan.with_set(key, value)
    };
    let errors = [
        set("lock.leese", "2s"),
        set("lease", "2s"),
        set("lock.lease", "2"),
        set("lock.lease", "1500us"),
        set("lock.lease", "0s"),
        set("lock.margin", "100%"),
        set("lock.name", "redis"),
        set("topology.redis", "two"),
        set("topology.redis", "100000"),
        set("topology.redis", "17"),
        set("workload.units", "5000000000"),
        set("workload.reentries", "101"),
        set("topology.latency-sigma", "5000000"),
        set("topology.redis", "1"),
        set("workload.deadline-check", "yes"),
        set("topology.latency-sigma", "wide"),
        set("fence", "half"),
        with_fault("duration", "5s"),
    ]
    .map(|result| result.unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn without_faults_nothing_is_wrong() {
    let plan = failover(3).without_faults();
    assert!(plan.faults.is_empty() && plan.clocks.is_empty());
    assert_eq!(first_problem(&plan), Ok(()));
}

/// What one flag needs another may bring; what cannot be is told at its flag.
#[test]
fn flags_over_a_plan_are_judged_together() {
    let plan = failover(3).without_faults();
    let refused = |lock, fence, settings| {
        plan.clone().with_changes(lock, fence, settings).unwrap_err().to_string()
    };
    let told = [
        refused(Some("reddis"), None, &[]),
        refused(Some("redlock"), None, &[]),
        refused(Some("pg-advisory"), None, &[]),
        refused(Some("none"), Some(Fence::Full), &[]),
        refused(Some("redis-fair"), None, &[("topology.apps", "0")]),
    ];
    insta::assert_snapshot!(told.join("\n"));
    let independent = [("topology.redis-mode", "independent"), ("topology.sentinels", "0")];
    let changed = plan.clone().with_changes(Some("redlock"), None, &independent).unwrap();
    assert_eq!((changed.lock.name.as_str(), changed.topology.independent), ("redlock", true));
    // What only the old lock had is at its default again.
    let held = plan.clone().with_changes(Some("redis-watchdog"), None, &[("lock.max-hold", "9s")]);
    let back = held.unwrap().with_changes(Some("redis"), Some(Fence::Full), &[]).unwrap();
    assert_eq!(back, Plan { fence: Fence::Full, ..plan });
}

//! What each protection is worth: without it, its fault is found; with it, it is not.

use std::collections::BTreeMap;

use lockstorm_sim::draw::Draw;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::{Fault, FaultKind, Micros, Seed, When};
use lockstorm_sim::sale::campaign::Campaign;
use lockstorm_sim::sale::{Part, SaleStorm, Setup};
use lockstorm_sim::storm::abreast::spread;

use super::{campaign, install_senses};

const SEEDS: u64 = 40;

fn without(parts: &[Part]) -> Campaign {
    campaign(Setup::without(parts), SEEDS, true)
}

fn found(campaign: &Campaign, kind: &str) -> u64 {
    campaign.kinds().get(kind).copied().unwrap_or(0)
}

/// In how many sales each kind of wrong is found, where nothing goes wrong but these faults.
fn struck(
    parts: &[Part],
    faults: impl Fn(&SaleStorm) -> Vec<Fault> + Sync,
) -> BTreeMap<&'static str, u64> {
    install_senses();
    let seeds: Vec<u64> = (0..SEEDS).collect();
    let mut found = BTreeMap::new();
    let kinds = spread(&seeds, 2, |seed: &u64| {
        let mut storm = SaleStorm::calm(Setup::without(parts), Seed(*seed));
        storm.plan.faults = faults(&storm);
        storm.run(&EventEngine).judged.kinds()
    });
    for kind in kinds.into_iter().flatten() {
        *found.entry(kind).or_default() += 1;
    }
    found
}

/// At a moment while the units go.
fn moment(storm: &SaleStorm, entity: &str, from_us: u64) -> When {
    let us =
        Draw::new(storm.plan.seed.0, "test/moment", entity).between(from_us, from_us + 120_000);
    When::At(Micros(us))
}

/// Each application node dies once while the units go.
fn while_nodes_die(parts: &[Part]) -> BTreeMap<&'static str, u64> {
    struck(parts, |storm| {
        let dies = |node: String| Fault {
            when: moment(storm, &node, 1_000_000),
            lasts: Some(Micros::from_millis(400)),
            kind: FaultKind::ProcessCrash { node },
        };
        storm.plan.topology.app_nodes().into_iter().map(dies).collect()
    })
}

/// The master of Redis dies while the units go, and its replicas have not heard of the latest.
fn while_the_master_dies(parts: &[Part]) -> BTreeMap<&'static str, u64> {
    struck(parts, |storm| {
        let node = "redis-1".to_owned();
        let replicas = ["redis-2", "redis-3"].map(str::to_owned).to_vec();
        let cut = FaultKind::Partition { from: vec![node.clone()], to: replicas, one_way: false };
        vec![
            Fault {
                kind: cut,
                when: moment(storm, "behind", 950_000),
                lasts: Some(Micros::from_millis(2_000)),
            },
            Fault {
                kind: FaultKind::MachineCrash { node },
                when: moment(storm, "dies", 1_080_000),
                lasts: Some(Micros::from_millis(3_500)),
            },
        ]
    })
}

/// A unit that was taken by somebody who died before its order was in the queue. Two things
/// help: that it is one step, and the leader, who finds the order that the books do not know.
#[test]
fn a_crash_after_the_deduction_leaves_units_over() {
    let off = while_nodes_die(&[Part::OneStep, Part::Reconciliation]);
    assert!(off.get("undersell").is_some_and(|runs| *runs >= 3), "{off:?}");
    for on in [&[Part::Reconciliation][..], &[Part::OneStep], &[]] {
        assert_eq!(while_nodes_die(on), BTreeMap::new(), "{on:?}");
    }
}

/// An order that was acknowledged before the books had it, and whose writer died. Two things
/// help: to acknowledge late, and the leader.
#[test]
fn an_acknowledgement_before_the_books_leaves_units_over() {
    let off = while_nodes_die(&[Part::LateAcknowledgement, Part::Reconciliation]);
    assert!(off.get("undersell").is_some_and(|runs| *runs >= 3), "{off:?}");
    for on in [&[Part::Reconciliation][..], &[Part::LateAcknowledgement]] {
        assert_eq!(while_nodes_die(on), BTreeMap::new(), "{on:?}");
    }
}

/// An acknowledgement that never came: the order comes again, and takes a second unit that
/// nobody will ever have.
#[test]
fn an_order_that_comes_again_is_written_twice_by_books_that_do_not_know_it() {
    let off = while_nodes_die(&[Part::UniqueOrders]);
    for kind in ["duplicate-order", "undersell"] {
        assert!(off.get(kind).is_some_and(|runs| *runs >= 3), "{kind}: {off:?}");
    }
}

/// A payment and the end of its time: both look, and both write.
#[test]
fn a_payment_races_the_end_of_its_time() {
    let off = without(&[Part::PaymentGuard]);
    assert!(found(&off, "lost-order") >= 3, "{}", off.text());
    assert!(found(&off, "stock-not-conserved") >= 1, "{}", off.text());
}

/// After a failover the shelf sells again what it has forgotten.
#[test]
fn books_that_ask_for_nothing_are_oversold_by_a_failover() {
    let off = while_the_master_dies(&[Part::StockGuard]);
    assert!(off.get("oversell").is_some_and(|runs| *runs >= 3), "{off:?}");
    assert_eq!(while_the_master_dies(&[]), BTreeMap::new());
}

/// What the shelf has acknowledged it may forget.
#[test]
fn an_order_that_only_the_shelf_has_confirmed_may_be_lost() {
    let off = while_the_master_dies(&[Part::Confirmation]);
    assert!(off.get("lost-order").is_some_and(|runs| *runs >= 3), "{off:?}");
}

/// A lock around the naive way parts those who read before others have written, and that is all
/// that it does.
#[test]
fn a_lock_keeps_the_naive_sale_from_overselling_while_nothing_goes_wrong() {
    let rush = Setup { rush_per_second: 1_000, ..Setup::naive() };
    let sales = |lock: Option<&str>| {
        campaign(Setup { lock: lock.map(str::to_owned), ..rush.clone() }, 8, false)
    };
    assert!(found(&sales(None), "oversell") >= 6);
    for lock in ["redis", "zookeeper"] {
        let locked = sales(Some(lock));
        assert_eq!(found(&locked, "oversell"), 0, "{}", locked.text());
    }
}

/// With all of them nothing of this is found: the same seeds.
#[test]
fn with_all_protections_none_of_it_is_found() {
    install_senses();
    let whole = without(&[]);
    assert!(whole.kinds().is_empty(), "{}", whole.text());
}

/// What stays open: a standby that follows asynchronously. The books are the truth of the sale,
/// and a promotion takes back what they have acknowledged; the old primary, once it is back, is
/// found first by whoever connects, and has books of its own. Nothing above them can know.
#[test]
fn a_database_that_forgets_loses_orders_that_were_paid_for() {
    let setup = Setup { has_standby: true, ..Setup::default() };
    let storm = campaign(setup, SEEDS, true);
    assert!(found(&storm, "lost-order") >= 10, "{}", storm.text());
    // Where nothing was promoted all is as ever.
    let others = storm.lines.iter().filter(|line| !line.touched.contains("promote"));
    assert!(others.clone().count() >= 10, "{}", storm.text());
    assert!(others.clone().all(|line| line.broken.is_empty()), "{}", storm.text());
}

//! Does a stock in SQL oversell, deadlock, lose an order? By which statement, and whose fault
//! is it?

mod on_both_engines;

use std::cell::Cell;

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::{OrderAnswer, What};
use lockstorm_sim::storm::{self, Run};

use on_both_engines::{assert_withstood, each, is_struck, plan, told};

const SCARCE: &str = r#"
schema = 1
scenario = "postgres-single"
seed = "0x1"

[lock]
name = "pg-optimistic"

[workload]
units = 20
slow-per-mille = 0
"#;

fn refusals(run: &Run) -> Vec<String> {
    let refusals = run.history.iter().filter_map(|event| match &event.what {
        What::Effect { refusal: Some(why), .. } => Some(why.to_string()),
        _ => None,
    });
    refusals.collect()
}

fn accepted(run: &Run) -> usize {
    let answers = run.history.iter().filter(|event| {
        matches!(event.what, What::OrderReturned { answer: OrderAnswer::Accepted, .. })
    });
    answers.count()
}

#[test]
fn the_statement_as_it_is_taught_oversells_and_corrected_it_does_not() {
    let checked = |check: &str| {
        SCARCE.replace("pg-optimistic\"", &format!("pg-optimistic\"\ncheck = \"{check}\""))
    };
    each(&checked("nothing"), |run| {
        assert!(run.judgement.has_violation(Kind::Oversell), "{}", told(run));
        assert!(accepted(run) > 20, "{}", told(run));
    });
    for check in ["read", "statement"] {
        each(&checked(check), |run| {
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
            assert_eq!(accepted(run), 20, "{}", told(run));
            assert!(!refusals(run).is_empty(), "nobody was in anybody's way: {}", told(run));
        });
    }
}

#[test]
fn each_way_sells_what_there_is() {
    let conditional = SCARCE.replace("pg-optimistic", "pg-conditional");
    let repeatable =
        SCARCE.replace("pg-optimistic\"", "pg-optimistic\"\nisolation = \"repeatable-read\"");
    let pessimistic = SCARCE
        .replace("pg-optimistic", "none")
        .replace("units = 20", "units = 20\nstock = \"sql-for-update\"");
    for text in [conditional, repeatable, pessimistic] {
        each(&text, |run| {
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
            assert_eq!(accepted(run), 20, "{}", told(run));
        });
    }
    let under_lock = SCARCE
        .replace("pg-optimistic", "pg-for-update")
        .replace("units = 20", "units = 20\nstock = \"sql\"");
    each(&under_lock, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert_eq!(accepted(run), 20, "{}", told(run));
    });
    // The same tables, the same statements, and nobody who guards them.
    let without = under_lock.replace("pg-for-update", "none");
    each(&without, |run| {
        assert!(run.judgement.has_violation(Kind::Oversell), "{}", told(run));
    });
}

#[test]
fn two_skus_in_opposite_order_deadlock_and_the_server_ends_one() {
    let two = |text: &str| {
        let busy = "units = 400\nlocks = 2\nthink = \"5ms\"\nwork = \"1ms\"";
        text.replace("units = 20", busy)
    };
    let pessimistic = two(&SCARCE.replace("pg-optimistic", "none"))
        .replace("slow-per", "stock = \"sql-for-update\"\nslow-per");
    let optimistic = two(SCARCE);
    for text in [pessimistic, optimistic] {
        each(&text, |run| {
            let deadlocks = refusals(run).iter().filter(|why| why.starts_with("40P01")).count();
            assert!(deadlocks > 0, "{}: {:?}", told(run), refusals(run).first());
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
        });
    }
}

#[test]
fn a_commit_whose_reply_is_lost_is_settled_by_the_orders_name() {
    // An earlier one may be of a version that somebody has changed.
    let reset = "\n[[fault]]\nkind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"pg-1\"]\n\
                 after = \"app-1 sell 4 applied\"\n";
    for lock in ["pg-optimistic", "pg-conditional"] {
        each(&format!("{}{reset}", SCARCE.replace("pg-optimistic", lock)), |run| {
            assert_withstood(run);
            let told_so = run.history.iter().any(|event| match &event.what {
                What::OrderReturned { order, answer } => {
                    **order == *"app-1/4" && *answer == OrderAnswer::Accepted
                }
                _ => false,
            });
            assert!(told_so, "{}", told(run));
        });
    }
}

/// What its buyer was told of an order, and when, µs.
fn answer(run: &Run, order: &str) -> Option<(u64, OrderAnswer)> {
    run.history.iter().find_map(|event| match &event.what {
        What::OrderReturned { order: whose, answer } if **whose == *order => {
            Some((event.at_us, *answer))
        }
        _ => None,
    })
}

/// Who stands in the books at the end.
fn books(run: &Run) -> Vec<String> {
    let ledger = run.history.iter().rev().find_map(|event| match &event.what {
        What::Ledger { sales, .. } => Some(sales),
        _ => None,
    });
    ledger.into_iter().flatten().map(|(_, order)| order.to_string()).collect()
}

/// The last order of app-1, and when its COMMIT was applied, µs.
fn last_applied(run: &Run) -> (u64, String) {
    let applied = run.history.iter().rev().find_map(|event| match &event.what {
        What::Effect { accepted: true, owner, .. } if owner.starts_with("app-1/") => {
            Some((event.at_us, owner.to_string()))
        }
        _ => None,
    });
    applied.unwrap_or_else(|| panic!("app-1 has bought nothing: {}", told(run)))
}

/// Links of ten milliseconds, so that a fault can be aimed at a message under way.
const FAR: &str = "[topology]\nlatency = \"10ms\"\nlatency-sigma = 0\n\n[workload]";

/// The beginning of a storm is the same with a fault at its end: what happened in calm weather
/// tells when to strike.
fn each_aimed(text: &str, fault: impl Fn(u64) -> String, check: impl Fn(&Run, &str, u64)) {
    for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
        let (applied_us, order) = last_applied(&storm::run(&plan(text), engine));
        for early_us in [3_000, 5_000, 7_000, 9_000] {
            let at_us = applied_us - early_us;
            let run = storm::run(&plan(&format!("{text}{}", fault(at_us))), engine);
            assert_eq!(run.ending.stuck, None, "{}", told(&run));
            check(&run, &order, at_us);
        }
    }
}

#[test]
fn a_commit_that_is_lost_on_its_way_is_settled_by_the_orders_name_too() {
    let reset = |at_us: u64| {
        format!(
            "\n[[fault]]\nkind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"pg-1\"]\nat = \"{at_us}us\"\n"
        )
    };
    for lock in ["pg-optimistic", "pg-conditional"] {
        let text = SCARCE.replace("pg-optimistic", lock).replace("[workload]", FAR);
        let (lost, asked) = (Cell::new(0), Cell::new(0));
        each_aimed(&text, reset, |run, order, at_us| {
            assert_withstood(run);
            let (answered_us, answer) = answer(run, order).unwrap();
            let stands = books(run).iter().filter(|one| *one == order).count();
            // Whatever became of it, its buyer knows, and its unit is nobody's or somebody else's.
            assert_eq!(stands, usize::from(answer == OrderAnswer::Accepted), "{}", told(run));
            assert_ne!(answer, OrderAnswer::Indeterminate, "{}", told(run));
            assert_eq!((accepted(run), books(run).len()), (20, 20), "{}", told(run));
            lost.set(lost.get() + 1 - stands);
            // A connection, BEGIN, the order and ROLLBACK are five times there and back.
            asked.set(asked.get() + usize::from(answered_us > at_us + 90_000));
        });
        assert!(lost.get() >= 4 && asked.get() >= 4, "{lost:?} {asked:?}");
    }
}

#[test]
fn a_server_that_dies_before_it_has_heard_commit_has_nothing_and_its_buyer_does_not_know() {
    let crash = |at_us: u64| {
        format!(
            "\n[[fault]]\nkind = \"process-crash\"\nnode = \"pg-1\"\nat = \"{at_us}us\"\nfor = \"100ms\"\n"
        )
    };
    for lock in ["pg-optimistic", "pg-conditional"] {
        let text = SCARCE.replace("pg-optimistic", lock).replace("[workload]", FAR);
        each_aimed(&text, crash, |run, order, _| {
            assert!(is_struck(run), "{}", told(run));
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
            let (_, answer) = answer(run, order).unwrap();
            assert_ne!(answer, OrderAnswer::Accepted, "{}", told(run));
            let stands = books(run).contains(&order.to_owned());
            assert!(!stands, "{}", told(run));
            assert_eq!(books(run).len(), 20, "{}", told(run));
        });
    }
}

/// The disk takes its time, and the buyer dies while its COMMIT is being written.
#[test]
fn a_buyer_that_dies_in_the_middle_of_its_commit_has_bought() {
    let slow =
        "\n[[fault]]\nkind = \"disk-slow\"\nnode = \"pg-1\"\nextra = \"20ms\"\nat = \"0s\"\n";
    let pessimistic = SCARCE
        .replace("pg-optimistic", "none")
        .replace("units = 20", "units = 20\nstock = \"sql-for-update\"");
    for (text, kind) in [(pessimistic, "process-crash"), (SCARCE.to_owned(), "machine-crash")] {
        let dies = |at_us: u64| {
            format!("\n[[fault]]\nkind = \"{kind}\"\nnode = \"app-1\"\nat = \"{at_us}us\"\n")
        };
        each_aimed(&format!("{text}{slow}"), dies, |run, order, _| {
            assert!(is_struck(run), "{}", told(run));
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
            assert_eq!(answer(run, order), None, "{}", told(run));
            assert!(books(run).contains(&order.to_owned()), "{}", told(run));
            assert_eq!(books(run).len(), 20, "{}", told(run));
        });
    }
}

#[test]
fn a_server_that_restarts_has_every_order_that_it_confirmed() {
    for kind in ["process-crash", "machine-crash"] {
        let crash = format!(
            "\n[[fault]]\nkind = \"{kind}\"\nnode = \"pg-1\"\n\
             after = \"app-1 sell 3 applied\"\nfor = \"500ms\"\n"
        );
        each(&format!("{}{crash}", SCARCE.replace("pg-optimistic", "pg-conditional")), |run| {
            assert!(is_struck(run), "{}", told(run));
            assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
        });
    }
}

/// A primary whose standby is behind a cut, dies, and the standby is promoted.
const FAILOVER: &str = r#"
schema = 1
scenario = "postgres-failover"
seed = "0x1"

[lock]
name = "pg-conditional"

[workload]
slow-per-mille = 0

[[fault]]
kind = "partition"
from = ["pg-1"]
to = ["pg-2"]
after = "app-1 acquire 3 returned"
for = "5s"

[[fault]]
kind = "machine-crash"
node = "pg-1"
after = "app-1 acquire 6 returned"

[[fault]]
kind = "promote"
node = "pg-2"
after = "app-1 acquire 6 returned"
delay = "500ms"
"#;

#[test]
fn an_asynchronous_failover_loses_orders_that_were_confirmed() {
    each(FAILOVER, |run| {
        assert!(is_struck(run), "{}", told(run));
        let lost: Vec<_> =
            run.judgement.violations().filter(|found| found.kind == Kind::LostOrder).collect();
        assert!(!lost.is_empty(), "{}", told(run));
        assert!(lost.iter().all(|found| !found.blame.is_lock_bug()), "{}", told(run));
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
    });
    // Without the cut the standby has all of it.
    let (before, rest) = FAILOVER.split_once("[[fault]]\nkind = \"partition\"").unwrap();
    let (_, after) = rest.split_once("for = \"5s\"").unwrap();
    each(&format!("{before}{after}"), |run| {
        assert!(is_struck(run), "{}", told(run));
        assert_eq!(run.judgement.violations().count(), 0, "{}", told(run));
    });
}

#[test]
fn an_old_primary_that_still_serves_grants_the_lock_a_second_time() {
    let faults = "\n[[fault]]\nkind = \"partition\"\nfrom = [\"pg-1\", \"app-1\"]\n\
                  to = [\"pg-2\", \"app-2\", \"app-3\"]\nafter = \"app-1 acquire 3 returned\"\n\
                  for = \"6s\"\n\n[[fault]]\nkind = \"promote\"\nnode = \"pg-2\"\n\
                  after = \"app-1 acquire 3 returned\"\ndelay = \"200ms\"\n";
    for lock in [
        "pg-for-update",
        "pg-nowait",
        "pg-advisory",
        "pg-advisory-xact",
        "pg-lock-table",
        "pg-lock-table-reentrant",
    ] {
        let (head, _) = FAILOVER.split_once("\n[[fault]]").unwrap();
        let text = format!("{head}{faults}").replace("pg-conditional", lock);
        // Whoever waits at a server that is cut off learns of it when the patience is over.
        let text = text.replace("slow-per-mille", "patience = \"1s\"\nslow-per-mille");
        each(&text, |run| {
            assert!(is_struck(run), "{}", told(run));
            assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
        });
    }
}

//! At which load does a sale in the database alone use its connections up, and what does a gate
//! before it change? Three nodes with ten connections each, a thousand buyers a second.

use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::Seed;
use lockstorm_sim::sale::facts::Connections;
use lockstorm_sim::sale::{GateBy, Part, SaleRun, SaleStorm, Setup, Way};

use super::install_senses;

/// How many connections a node has.
const CONNECTIONS: usize = 10;

fn run(rush_per_second: u32, without: &[Part]) -> SaleRun {
    run_by(GateBy::Count, rush_per_second, without)
}

fn run_by(gate_by: GateBy, rush_per_second: u32, without: &[Part]) -> SaleRun {
    install_senses();
    let setup = Setup {
        units: 100,
        demand: 40,
        rush_per_second,
        way: Way::Pessimistic,
        gate_by,
        without: without.to_vec(),
        ..Setup::default()
    };
    let run = SaleStorm::calm(setup, Seed(0)).run(&EventEngine);
    assert_eq!((run.judged.verdict, run.judged.sold), (Verdict::Safe, 100), "{:?}", run.judged);
    run
}

fn of_nodes(run: &SaleRun) -> Vec<Connections> {
    let connections: Vec<Connections> = run.facts.connections().into_values().collect();
    assert_eq!(connections.len(), 3);
    connections
}

#[test]
fn a_thousand_buyers_a_second_use_up_the_connections() {
    let run = run(1_000, &[Part::Gate]);
    for node in of_nodes(&run) {
        assert_eq!(node.peak, CONNECTIONS, "{node:?}");
        assert!(node.refusals > 1_000, "{node:?}");
        // Whatever else the node wants of the database, it does not get.
        assert!(node.others_failed * 2 > node.others, "{node:?}");
    }
}

#[test]
fn a_gate_keeps_connections_for_everything_else() {
    let run = run(1_000, &[]);
    for node in of_nodes(&run) {
        assert!(node.peak < CONNECTIONS, "{node:?}");
        assert_eq!((node.refusals, node.others_failed), (0, 0), "{node:?}");
        assert!(node.longest_wait.as_millis() < 50 && node.others > 100, "{node:?}");
    }
}

/// It lets all connections be used, and nobody in while somebody waits for one.
#[test]
fn a_gate_that_looks_at_the_wait_for_connections_keeps_it_short() {
    for node in of_nodes(&run_by(GateBy::PoolWait, 1_000, &[])) {
        assert_eq!((node.refusals, node.others_failed), (0, 0), "{node:?}");
        assert!(node.longest_wait.as_millis() < 250 && node.others > 100, "{node:?}");
    }
}

#[test]
fn a_hundred_buyers_a_second_need_no_gate() {
    for node in of_nodes(&run(100, &[Part::Gate])) {
        assert!(node.peak < CONNECTIONS && node.others_failed == 0, "{node:?}");
    }
}

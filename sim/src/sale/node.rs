//! The program of an application node: its door and counter, a writer that takes orders from the
//! queue, a candidate for the office of the leader.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::zookeeper::election::Election;
use lockstorm::lock::zookeeper::switch::Switch as Node;
use lockstorm::sale::Sku;
use lockstorm::sale::admission::{Admission, AdmissionOptions};
use lockstorm::sale::bucket::Rate;
use lockstorm::sale::counter::{ByScript, Counter, Deduction, InTwoSteps, Layers, Locked, Naively};
use lockstorm::sale::door::Door;
use lockstorm::sale::gate::{Gate, Pressure};
use lockstorm::sale::leader::{Leader, LeaderOptions};
use lockstorm::sale::orders::{self, BooksOptions, Guards, OrderBooks};
use lockstorm::sale::pessimistic::InDatabase;
use lockstorm::sale::queue::OrderQueue;
use lockstorm::sale::shelf::{Shelf, ShelfOptions};
use lockstorm::sale::switch::{Mode, Switch, Watched};
use lockstorm::sale::writer::{OrderWriter, WriterOptions};
use lockstorm::stock::sql::{self, SqlStock, SqlStockOptions};

use super::facts::SharedFacts;
use super::{GateBy, Part, SaleStorm, Way};
use crate::plan::Plan;
use crate::storm::locks::{build_named, endpoint, ensemble, sessions};
use crate::storm::postgres::{self, SKUS};

/// The port of a door.
pub(super) const DOOR_PORT: u16 = 8_000;

/// How long an order may stay unpaid.
pub(super) const UNPAID: Duration = Duration::from_millis(1_000);

/// Before something that failed is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// How many connections a node has to the database for selling, where it sells there.
pub(super) const CONNECTIONS: usize = 10;

/// How many requests may be in the database at once behind a gate: fewer than connections, so
/// that something is left for whatever else the node wants of it.
const GATE_OF_DATABASE: u32 = 6;

/// While somebody has waited so long for a connection, a gate by the pool's wait is closed.
const WAIT_FOR_CONNECTION: Duration = Duration::from_millis(20);

/// The name of the switch.
pub(super) const SWITCH: &str = "sale";

pub(super) fn sku() -> Sku {
    // It breaks no rule for names.
    Sku::new("sku-42").unwrap_or_else(|error| unreachable!("{error}"))
}

pub(super) fn shelf(host: &Host, plan: &Plan) -> Result<Shelf, String> {
    let command_timeout = plan.lock.command_timeout.to_duration();
    let options = ShelfOptions { command_timeout, ..ShelfOptions::default() };
    Shelf::new(host.clone(), endpoint(plan), options).map_err(|error| error.to_string())
}

pub(super) fn books(host: &Host, storm: &SaleStorm) -> Result<Arc<OrderBooks>, String> {
    let options = BooksOptions {
        command_timeout: storm.plan.lock.command_timeout.to_duration(),
        unpaid: UNPAID,
        guards: guards(storm),
        ..BooksOptions::default()
    };
    let books = OrderBooks::new(host.clone(), postgres::endpoint(&storm.plan), options);
    books.map(Arc::new).map_err(|error| error.to_string())
}

pub(super) fn switch(host: &Host, plan: &Plan) -> Result<Node, String> {
    let node = Node::new(host.clone(), &ensemble(plan), sessions(plan), SWITCH);
    node.map_err(|error| error.to_string())
}

fn guards(storm: &SaleStorm) -> Guards {
    Guards {
        stock: storm.setup.has(Part::StockGuard),
        unique: storm.setup.has(Part::UniqueOrders),
        state: storm.setup.has(Part::PaymentGuard),
    }
}

/// Runs the node until it dies.
pub(super) async fn run(host: Host, storm: Arc<SaleStorm>, facts: SharedFacts) {
    // A plan's options are possible, or the plan would not have been made.
    let built = match storm.setup.way {
        Way::Pessimistic => in_database(host, storm, facts).await,
        Way::Shelf | Way::Naive => over_shelf(host, storm, facts).await,
    };
    built.unwrap_or_else(|why| panic!("the sale cannot be built: {why}"));
}

async fn over_shelf(host: Host, storm: Arc<SaleStorm>, facts: SharedFacts) -> Result<(), String> {
    let (shelf, books) = (shelf(&host, &storm.plan)?, books(&host, &storm)?);
    let (place, limit) = (postgres::endpoint(&storm.plan), Duration::from_secs(2));
    // As a service's migration, which may be run again and by many.
    while orders::install(&host, &place, limit, guards(&storm)).await.is_err()
        || books.offer(&sku(), storm.setup.units).await.is_err()
    {
        host.sleep(AGAIN).await;
    }
    let election = Election::new(host.clone(), &ensemble(&storm.plan), sessions(&storm.plan));
    let election = Arc::new(election.map_err(|error| error.to_string())?);
    let options = LeaderOptions {
        reconciles: storm.setup.has(Part::Reconciliation),
        ..LeaderOptions::default()
    };
    let funnel = facts.funnel.clone();
    let leader =
        Leader::new(election, shelf.clone(), books.clone(), sku(), funnel.clone(), options);
    host.spawn("leader", leader.run());
    let abandoned = Duration::from_secs(1);
    let queue = OrderQueue::new(shelf.clone(), sku(), host.name(), abandoned);
    let acknowledges_late = storm.setup.has(Part::LateAcknowledgement);
    let options = WriterOptions { acknowledges_late, ..WriterOptions::default() };
    let writer = OrderWriter::new(shelf.clone(), queue, books.clone(), funnel.clone(), options);
    host.spawn("writer", writer.run());
    let deduction: Box<dyn Deduction> = match storm.setup.way {
        Way::Naive => naive(&host, &storm, shelf)?,
        _ if storm.setup.has(Part::OneStep) => Box::new(ByScript(shelf)),
        _ => Box::new(InTwoSteps(shelf)),
    };
    let gate = Gate::new(host.clone(), 16, 64, Duration::from_millis(500));
    open(host, &storm, facts, (gate, deduction), books).await
}

/// The naive way, with a lock around it or without.
fn naive(host: &Host, storm: &SaleStorm, shelf: Shelf) -> Result<Box<dyn Deduction>, String> {
    /// How long a buyer's request waits for the lock.
    const PATIENCE: Duration = Duration::from_millis(500);
    let inner = Naively(shelf);
    let Some(name) = &storm.setup.lock else { return Ok(Box::new(inner)) };
    let lock = build_named(host, &storm.plan, name)?;
    Ok(Box::new(Locked { inner, lock, host: host.clone(), patience: PATIENCE }))
}

/// The pessimistic sale: each request is a transaction that locks the row of the stock.
async fn in_database(host: Host, storm: Arc<SaleStorm>, facts: SharedFacts) -> Result<(), String> {
    let place = postgres::endpoint(&storm.plan);
    let mut options = SqlStockOptions::new(sql::Way::ForUpdate { nowait: false });
    options.command_timeout = storm.plan.lock.command_timeout.to_duration();
    options.connections = CONNECTIONS;
    let stock = SqlStock::new(host.clone(), place.clone(), options);
    let stock = Arc::new(stock.map_err(|error| error.to_string())?);
    while sql::install(&host, &place, Duration::from_secs(2)).await.is_err()
        || stock.offer(SKUS[0], storm.setup.units).await.is_err()
    {
        host.sleep(AGAIN).await;
    }
    host.spawn("others", others(host.clone(), stock.clone(), facts.clone()));
    let gate = gate_of_database(&host, storm.setup.gate_by, &stock);
    let deduction: Box<dyn Deduction> = Box::new(InDatabase { stock, number: SKUS[0] });
    let books = books(&host, &storm)?;
    open(host, &storm, facts, (gate, deduction), books).await
}

fn gate_of_database(host: &Host, by: GateBy, stock: &Arc<SqlStock>) -> Gate {
    match by {
        GateBy::Count => Gate::new(host.clone(), GATE_OF_DATABASE, 20, Duration::from_millis(200)),
        GateBy::PoolWait => {
            let stock = stock.clone();
            let pressure: Pressure = Arc::new(move || stock.pool_wait());
            let gate = Gate::new(host.clone(), u16::MAX.into(), 0, Duration::ZERO);
            gate.closed_beyond(pressure, WAIT_FOR_CONNECTION)
        }
    }
}

/// What else the node wants of the database, through the same connections: it reads how many are
/// left, for the page, ten times a second.
async fn others(host: Host, stock: Arc<SqlStock>, facts: SharedFacts) {
    /// A page that takes longer is given up.
    const PATIENCE: Duration = Duration::from_millis(250);
    loop {
        host.sleep(Duration::from_millis(100)).await;
        let read = host.timeout(PATIENCE, stock.read(&[SKUS[0]])).await;
        let usage = stock.usage();
        facts.used(host.name(), |connections| {
            connections.others += 1;
            connections.others_failed += u64::from(!matches!(read, Ok(Ok(_))));
            connections.peak = connections.peak.max(usage.peak);
            connections.refusals = connections.refusals.max(usage.refusals);
            connections.longest_wait = connections.longest_wait.max(usage.longest_wait);
        });
    }
}

/// Opens the door, for ever.
async fn open(
    host: Host,
    storm: &SaleStorm,
    facts: SharedFacts,
    (gate, deduction): (Gate, Box<dyn Deduction>),
    books: Arc<OrderBooks>,
) -> Result<(), String> {
    let funnel = facts.funnel.clone();
    let layers = layers(&host, storm, gate)?;
    let counter = Counter::new(host.clone(), layers, deduction, funnel.clone());
    let door = Door::new(host, DOOR_PORT, counter, books, sku(), funnel);
    door.run().await.map_err(|error| error.to_string())
}

fn layers(host: &Host, storm: &SaleStorm, gate: Gate) -> Result<Layers, String> {
    let setup = &storm.setup;
    let mut layers = Layers::default();
    if setup.has(Part::Switch) {
        // A sale that must not stop because its switch cannot be asked.
        let watched = Watched::new(switch(host, &storm.plan)?, Mode::On);
        layers.switch = Some(Arc::new(watched) as Arc<dyn Switch>);
    }
    if setup.has(Part::Admission) {
        let options = match setup.way {
            // Not so many that the row is asked for by more than it can serve: that is the gate's.
            Way::Pessimistic => AdmissionOptions { node: None, ..AdmissionOptions::default() },
            _ => AdmissionOptions {
                node: Some(Rate { burst: 60, per_second: 60 }),
                ..AdmissionOptions::default()
            },
        };
        let admission = Admission::new(options, host.monotonic());
        layers.admission = Some(Arc::new(Mutex::new(admission)));
    }
    layers.gate = Some(gate).filter(|_| setup.has(Part::Gate));
    Ok(layers)
}

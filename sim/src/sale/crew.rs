//! The crew of a sale: application nodes, and one node for all buyers, who come and go there;
//! beside them an operator, who may degrade the sale for a while, and an auditor, who looks in
//! the end whether shelf and books agree.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::sale::leader::Leader;
use lockstorm::sale::orders::State;
use lockstorm::sale::switch::DEGRADED;

use super::buyer::{Visit, arrivals};
use super::facts::{Facts, Row, SharedFacts, Truth};
use super::{Part, SaleStorm, Way, node};
use crate::draw::Draw;
use crate::engine::Factory;
use crate::history::{Name, Recorder, What};
use crate::storm::conductor::Patience;
use crate::storm::crew::{Crew, Seat, USERS_NODE};
use crate::storm::postgres::{Cluster, TableRow, field};

/// How long a sale goes on after its faults have ended, µs: sessions expire, a master is
/// replaced, orders lapse, and what comes back is sold.
const DRAIN_US: u64 = 12_000_000;

/// How long everybody may take to come to an end, µs.
const SETTLE_US: u64 = 5_000_000;

/// The crew of one run.
#[derive(Debug)]
pub struct SaleCrew {
    storm: Arc<SaleStorm>,
    facts: SharedFacts,
}

impl SaleCrew {
    /// For `storm`.
    pub fn new(storm: &SaleStorm) -> Arc<SaleCrew> {
        Arc::new(SaleCrew { storm: Arc::new(storm.clone()), facts: Arc::default() })
    }

    /// What is known.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.clone()
    }

    fn buyers(&self, seat: &Seat) -> Factory {
        let (storm, facts, seat) = (self.storm.clone(), self.facts.clone(), seat.clone());
        Arc::new(move |host| {
            let (storm, facts, seat) = (storm.clone(), facts.clone(), seat.clone());
            Box::pin(async move {
                let auditing = audit(host.clone(), storm.clone(), seat.clone(), facts.clone());
                host.spawn("auditor", auditing);
                host.spawn("operator", operate(host.clone(), storm.clone()));
                let ends_us = storm.plan.duration.0 + DRAIN_US;
                for (came_us, number) in arrivals(&storm, ends_us) {
                    let wait_us = came_us.saturating_sub(seat.recorder.now_us());
                    host.sleep(Duration::from_micros(wait_us)).await;
                    if seat.stop.is_stopped() {
                        return;
                    }
                    let (storm, facts, seat) = (storm.clone(), facts.clone(), seat.clone());
                    let visit = Visit { host: host.clone(), storm, seat, facts, number, came_us };
                    host.spawn("buyer", visit.run());
                }
            })
        })
    }
}

impl Crew for SaleCrew {
    fn program(&self, seat: &Seat, name: &Name) -> Factory {
        if **name == *USERS_NODE {
            return self.buyers(seat);
        }
        let (storm, facts) = (self.storm.clone(), self.facts.clone());
        Arc::new(move |host| Box::pin(node::run(host, storm.clone(), facts.clone())))
    }

    fn tell_books(&self, recorder: &Recorder, database: &Cluster) {
        let read = match self.storm.setup.way {
            Way::Pessimistic => of_the_stock(database),
            Way::Shelf | Way::Naive => of_the_orders(database),
        };
        let Some((name, truth)) = read else { return };
        // Units have no numbers here: each order that is paid for has the next.
        let paid = truth.orders.iter().filter(|row| row.state == State::Paid);
        let sales = (1..).zip(paid).map(|(unit, row)| (unit, row.order.as_str().into()));
        recorder.record(&name, What::Ledger { units: truth.units, sales: sales.collect() });
        let reserved = u32::try_from(truth.in_state(State::Unpaid)).unwrap_or(u32::MAX);
        let counted = What::StockCounted { units: truth.units, left: truth.free, reserved };
        recorder.record(&name, counted);
        self.facts.conclude(truth);
    }

    fn patience(&self) -> Patience {
        Patience { takeover_us: DRAIN_US, settle_us: SETTLE_US }
    }
}

fn number<T: std::str::FromStr>(row: &TableRow, name: &str) -> Option<T> {
    field(row, name)?.parse().ok()
}

fn of_the_orders(database: &Cluster) -> Option<(Name, Truth)> {
    let (name, stock) = database.rows("sale_stock")?;
    let stock = stock.first()?;
    let (_, rows) = database.rows("sale_orders")?;
    let order = |row: &TableRow| {
        let text = |name| field(row, name).map(str::to_owned);
        let state = State::named(field(row, "state")?)?;
        Some(Row { order: text("order_name")?, buyer: text("buyer")?, state })
    };
    let mut orders: Vec<Row> = rows.iter().filter_map(order).collect();
    orders.sort();
    Some((name, Truth { units: number(stock, "units")?, free: number(stock, "free")?, orders }))
}

/// Of the stock in SQL: an order there is paid for.
fn of_the_stock(database: &Cluster) -> Option<(Name, Truth)> {
    let (name, stock) = database.rows("stock")?;
    let stock = stock.first()?;
    let (_, rows) = database.rows("orders")?;
    let order = |row: &TableRow| {
        let text = |name| field(row, name).map(str::to_owned);
        Some(Row { order: text("order_key")?, buyer: text("user_id")?, state: State::Paid })
    };
    let mut orders: Vec<Row> = rows.iter().filter_map(order).collect();
    orders.sort();
    Some((name, Truth { units: number(stock, "units")?, free: number(stock, "count")?, orders }))
}

/// Degrades the sale for a while in some storms: buyers are refused, and come again later.
async fn operate(host: Host, storm: Arc<SaleStorm>) {
    let mut draw = Draw::new(storm.plan.seed.0, "sale/operator", "");
    let is_needed = draw.chance(250);
    let (at_ms, lasts_ms) = (draw.between(1_200, 3_000), draw.between(200, 1_200));
    if !is_needed || !storm.setup.has(Part::Switch) {
        return;
    }
    let Ok(switch) = node::switch(&host, &storm.plan) else { return };
    host.sleep(Duration::from_millis(at_ms)).await;
    set(&host, &switch, DEGRADED).await;
    host.sleep(Duration::from_millis(lasts_ms)).await;
    set(&host, &switch, b"on").await;
}

async fn set(host: &Host, switch: &lockstorm::lock::zookeeper::switch::Switch, value: &[u8]) {
    while switch.set(value, None).await.is_err() {
        host.sleep(Duration::from_millis(100)).await;
    }
}

/// Once all faults have ended: waits until all is sold and shelf and books agree, then says that
/// there is nothing more to wait for; in the end, writes down in what they differ.
async fn audit(host: Host, storm: Arc<SaleStorm>, seat: Seat, facts: SharedFacts) {
    if storm.setup.way == Way::Pessimistic {
        return;
    }
    let (Ok(shelf), Ok(books)) = (node::shelf(&host, &storm.plan), node::books(&host, &storm))
    else {
        return;
    };
    host.sleep(storm.plan.duration.to_duration()).await;
    let sku = node::sku();
    let mut agreed = 0;
    while !seat.stop.is_stopped() {
        host.sleep(Duration::from_millis(250)).await;
        let differences = Leader::audit(&shelf, &books, &sku).await;
        let account = books.account(&sku).await;
        let is_sold = account.is_ok_and(|account| {
            let paid = account.orders.iter().filter(|(_, state)| *state == State::Paid);
            paid.count() as u64 >= u64::from(account.units)
        });
        let is_settled = is_sold && differences.is_ok_and(|found| found.is_empty());
        agreed = if is_settled { agreed + 1 } else { 0 };
        if agreed >= 3 {
            seat.is_done();
        }
    }
    let round = seat.stop.round();
    // Whoever was being served is answered first; what was set aside for them is settled.
    for _ in 0..10 {
        host.sleep(Duration::from_millis(300)).await;
        if let Ok(differences) = Leader::audit(&shelf, &books, &sku).await {
            let is_settled = differences.is_empty();
            facts.audited(differences);
            if is_settled {
                break;
            }
        }
    }
    drop(round);
}

//! Where a client of a storm buys: the stock in the memory of `stock-1`, behind its fence, or
//! the one in the database's tables.
//!
//! Of a sale in SQL the servers tell what they commit; what the database refuses (a version
//! that has changed, a deadlock) only its client knows, and tells.

use lockstorm::Host;
use lockstorm::lock::Guard;
use lockstorm::stock::sql::{self, Order, Seen, SellError, SqlStock, SqlStockOptions};
use lockstorm::stock::{Shown, StockClient, StockError};

use super::checkout::Transaction;
use super::connections::Pools;
use super::pooled::NodePool;
use super::postgres::{SKUS, endpoint};
use crate::history::event::DATABASE;
use crate::history::{BeliefEnd, Name, OrderAnswer, Recorder, StockOperation, What};
use crate::plan::{Fence, Isolation, OptimisticCheck, Plan, StockPlace};
use crate::planted;

/// How a client sells.
#[derive(Debug)]
pub enum Selling {
    /// At a shop, under the lock.
    Shop(Shop),
    /// In transactions of its own.
    Transactions(Box<dyn Transaction>),
}

/// Where a client buys.
#[derive(Debug)]
pub enum Shop {
    /// At `stock-1`.
    Memory(StockClient),
    /// In tables.
    Sql(SqlShop),
}

/// The stock in SQL, as one client sees it.
#[derive(Debug)]
pub struct SqlShop {
    stock: SqlStock,
    /// What one order is of, in this client's order.
    skus: Vec<i64>,
    recorder: Recorder,
}

/// What a buyer saw, and may buy.
#[derive(Debug)]
pub enum Offer {
    /// A unit of the stock in memory, if one is left.
    Unit(Option<u32>),
    /// What was read of the stock in SQL.
    Seen(Vec<Seen>),
}

/// How it went wrong: what the buyer is told, and whether the client believes no longer.
pub type Refusal = (OrderAnswer, Option<BeliefEnd>);

impl Selling {
    /// How the client `name` of this plan sells.
    ///
    /// # Errors
    /// When the plan's options cannot work.
    pub fn of(host: &Host, plan: &Plan, name: &str, told: &Recorder) -> Result<Selling, String> {
        match planted::checkout(host, plan) {
            Some(checkout) => Ok(Selling::Transactions(Box::new(checkout))),
            None => Shop::of(host, plan, name, told).map(Selling::Shop),
        }
    }

    /// How each buyer at the client `name` of this plan sells.
    ///
    /// # Errors
    /// When the plan's options cannot work.
    pub fn of_buyers(
        host: &Host,
        plan: &Plan,
        name: &Name,
        told: &Recorder,
        pools: &Pools,
    ) -> Result<Vec<Selling>, String> {
        let buyers = 0..plan.workload.buyers;
        if plan.workload.stock != StockPlace::SqlPooled {
            return buyers.map(|_| Selling::of(host, plan, name, told)).collect();
        }
        let pool = NodePool::new(host, plan, pools.of(name))?;
        Ok(buyers.map(|_| Selling::Transactions(Box::new(pool.buyer()))).collect())
    }
}

impl Shop {
    /// Where the client `name` of this plan buys.
    ///
    /// # Errors
    /// When the plan's options cannot work.
    pub fn of(host: &Host, plan: &Plan, name: &str, recorder: &Recorder) -> Result<Shop, String> {
        let timeout = plan.lock.command_timeout.to_duration();
        if plan.workload.stock == StockPlace::Memory {
            let address = format!("{}:{}", crate::plan::STOCK_NODE, super::scene::STOCK_PORT);
            return Ok(Shop::Memory(StockClient::new(host.clone(), address, timeout)));
        }
        let mut options = SqlStockOptions::new(way(plan));
        options.command_timeout = timeout;
        options.lock_timeout = plan.workload.patience.to_duration();
        options.connections = usize::from(plan.lock.own.connections);
        let stock = SqlStock::new(host.clone(), endpoint(plan), options);
        let stock = stock.map_err(|error| error.to_string())?;
        // Under locks of two names the second guards the buyer's account, not a sku.
        let records = super::locks::has_records(&plan.lock.name);
        let is_of_two = plan.workload.locks > 1 && !records;
        let mut skus = if is_of_two { SKUS.to_vec() } else { vec![SKUS[0]] };
        if super::client::is_turned(name) {
            skus.reverse();
        }
        Ok(Shop::Sql(SqlShop { stock, skus, recorder: recorder.clone() }))
    }

    /// Looks what there is.
    ///
    /// # Errors
    /// The refusal.
    pub async fn look(&mut self, shown: &Shown) -> Result<Offer, Refusal> {
        match self {
            Shop::Memory(stock) => match stock.read(shown).await {
                Ok(level) => Ok(Offer::Unit(level.next_unit)),
                Err(StockError::Refused { .. }) => {
                    Err((OrderAnswer::Refused, Some(BeliefEnd::Told)))
                }
                // Nothing was learnt, nothing will be done.
                Err(StockError::Unreachable { .. } | StockError::Indeterminate { .. }) => {
                    Err((OrderAnswer::Refused, None))
                }
            },
            Shop::Sql(shop) => match shop.stock.read(&shop.skus).await {
                Ok(seen) => Ok(Offer::Seen(seen)),
                Err(_) => Err((OrderAnswer::Refused, None)),
            },
        }
    }

    /// Buys what was seen.
    pub async fn buy(
        &mut self,
        shown: &Shown,
        guard: &Guard,
        offer: Offer,
        order: &str,
    ) -> Refusal {
        match (self, offer) {
            (Shop::Memory(_), Offer::Unit(None)) => (OrderAnswer::SoldOut, None),
            (Shop::Memory(stock), Offer::Unit(Some(unit))) => {
                match stock.sell(shown, unit, order).await {
                    Ok(()) => (OrderAnswer::Accepted, None),
                    Err(StockError::Refused { .. }) => {
                        (OrderAnswer::Refused, Some(BeliefEnd::Told))
                    }
                    Err(StockError::Unreachable { .. }) => (OrderAnswer::Refused, None),
                    // What became of a sale without an answer stands in the stock's books.
                    Err(StockError::Indeterminate { .. }) => (OrderAnswer::Indeterminate, None),
                }
            }
            (Shop::Sql(shop), Offer::Seen(seen)) => (shop.buy(guard, &seen, order).await, None),
            // An offer is its own shop's.
            (Shop::Memory(_), Offer::Seen(_)) | (Shop::Sql(_), Offer::Unit(_)) => {
                (OrderAnswer::Refused, None)
            }
        }
    }
}

impl SqlShop {
    async fn buy(&self, guard: &Guard, seen: &[Seen], order: &str) -> OrderAnswer {
        // Every order is another user's.
        let (key, user, skus) = (order.to_owned(), order.to_owned(), self.skus.clone());
        match self.stock.sell(&Order { key, user, skus }, seen).await {
            Ok(sql::Outcome::Sold { .. }) => OrderAnswer::Accepted,
            Ok(sql::Outcome::SoldOut { .. }) => OrderAnswer::SoldOut,
            Ok(sql::Outcome::Conflict { .. }) => {
                self.refused(guard, order, seen, "it was changed since it was read".to_owned())
            }
            Ok(sql::Outcome::Busy) => {
                self.refused(guard, order, seen, "55P03 it is locked for too long".to_owned())
            }
            Ok(sql::Outcome::BoughtBefore { .. }) => OrderAnswer::Refused,
            Err(SellError::RolledBack { code, message }) => {
                self.refused(guard, order, seen, format!("{code} {message}"))
            }
            Err(SellError::Unreachable { .. }) => OrderAnswer::Refused,
            Err(SellError::Indeterminate { .. }) => OrderAnswer::Indeterminate,
        }
    }

    fn refused(&self, guard: &Guard, order: &str, seen: &[Seen], why: String) -> OrderAnswer {
        refused_by_database(&self.recorder, guard, order, seen, why)
    }
}

/// The database has refused, and changed nothing.
pub(super) fn refused_by_database(
    recorder: &Recorder,
    guard: &Guard,
    order: &str,
    seen: &[Seen],
    why: String,
) -> OrderAnswer {
    let order: Name = order.into();
    let of_sale = seen.iter().find(|seen| seen.sku == SKUS[0]);
    let unit = of_sale.map_or(0, |seen| seen.units - seen.count + 1);
    let refused = What::Effect {
        owner: order.clone(),
        token: guard.token().map(|token| token.0),
        operation: StockOperation::Sell { unit: u32::try_from(unit).unwrap_or(0), order },
        accepted: false,
        refusal: Some(why.into()),
    };
    recorder.record(&DATABASE.into(), refused);
    OrderAnswer::Refused
}

/// How units are taken out of the stock in SQL.
fn way(plan: &Plan) -> sql::Way {
    let own = &plan.lock.own;
    let isolation = match own.isolation {
        Isolation::ReadCommitted => sql::Isolation::ReadCommitted,
        Isolation::RepeatableRead => sql::Isolation::RepeatableRead,
    };
    let check = match own.check {
        OptimisticCheck::Nothing => sql::Check::Nothing,
        OptimisticCheck::Read => sql::Check::Read,
        OptimisticCheck::Statement => sql::Check::Statement,
    };
    match (plan.lock.name.as_str(), plan.workload.stock) {
        ("pg-optimistic", _) => sql::Way::Optimistic { check, isolation },
        ("pg-conditional", _) => sql::Way::Conditional,
        (_, StockPlace::SqlForUpdate) => sql::Way::ForUpdate { nowait: false },
        _ => sql::Way::UnderLock,
    }
}

impl Fence {
    /// As the stock knows it.
    pub fn mode(self) -> lockstorm::stock::FenceMode {
        match self {
            Fence::Off => lockstorm::stock::FenceMode::Off,
            Fence::Write => lockstorm::stock::FenceMode::Write,
            Fence::Full => lockstorm::stock::FenceMode::Full,
        }
    }
}

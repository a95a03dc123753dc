//! Taking a unit in the database alone, with its row locked: right, and what uses the
//! connections up. Whoever waits for the row of a hot sku waits with a connection, so before
//! long all of a node's connections wait for one row, and everything else that the node wants of
//! the database waits behind them. A [gate](super::gate) with fewer places than there are
//! connections keeps that from happening.

use std::sync::Arc;

use super::Wish;
use super::counter::Deduction;
use super::shelf::{ShelfError, Taken};
use crate::host::BoxFuture;
use crate::stock::sql::{Order, Outcome, SellError, SqlStock};

/// Sells out of a stock in SQL; its [way](crate::stock::sql::Way) says how.
#[derive(Clone, Debug)]
pub struct InDatabase {
    /// The stock.
    pub stock: Arc<SqlStock>,
    /// The number of the sku there.
    pub number: i64,
}

impl Deduction for InDatabase {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        Box::pin(async move {
            let order = Order::of_one(wish.order.as_str(), wish.buyer.as_str(), self.number);
            match self.stock.sell(&order, &[]).await {
                Ok(Outcome::Sold { repeated: false, .. }) => Ok(Taken::Sold),
                Ok(Outcome::Sold { repeated: true, .. }) => Ok(Taken::Again),
                Ok(Outcome::SoldOut { .. }) => Ok(Taken::SoldOut),
                Ok(Outcome::BoughtBefore { .. }) => Ok(Taken::OtherOrder),
                Ok(Outcome::Conflict { .. } | Outcome::Busy) => {
                    Err(ShelfError::Unreachable { reason: "somebody else has the row".to_owned() })
                }
                Err(error @ (SellError::Unreachable { .. } | SellError::RolledBack { .. })) => {
                    Err(ShelfError::Unreachable { reason: error.to_string() })
                }
                Err(SellError::Indeterminate { reason }) => {
                    Err(ShelfError::Indeterminate { reason })
                }
            }
        })
    }
}

//! The durable truth once everything is quiet: what the tables say of a sku, in one
//! snapshot.

use tokio_postgres::types::Type;

use super::{Parameter, SellError, SqlStock, nothing_done};
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::pool::Lent;

/// What the tables say of a sku.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// How many units there were, numbered from 1.
    pub units: i64,
    /// How many the counter says are left; below zero is more than oversold.
    pub left: i64,
    /// Every sale, unit and order, by unit and then by order.
    pub sales: Vec<(i64, String)>,
    /// Every order, with its user, by its name.
    pub orders: Vec<(String, String)>,
}

impl SqlStock {
    /// What the tables say of a sku. Sales that are under way are not in it: once
    /// everything is quiet it is the truth.
    ///
    /// # Errors
    /// Any [`SellError`] but `Indeterminate`; a sku that is not on sale is `RolledBack`.
    pub async fn truth(&self, sku: i64) -> Result<Truth, SellError> {
        let lent = self.lend().await?;
        let truth = self.truth_on(&lent, sku).await.map_err(nothing_done)?;
        lent.give_back_if_open();
        Ok(truth)
    }

    async fn truth_on(&self, lent: &Lent, sku: i64) -> Result<Truth, Failure> {
        let limit = self.options.command_timeout;
        lent.tell(limit, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let seen = super::way::read(self, lent, sku, super::way::Locking::No).await?;
        let parameters: [Parameter; 1] = [(&sku, Type::INT8)];
        let sales = "SELECT unit, order_key FROM ledger WHERE sku = $1 ORDER BY unit, order_key";
        let rows = lent.run(limit, lent.client().query_typed(sales, &parameters)).await?;
        let mut sales = Vec::with_capacity(rows.len());
        for row in rows {
            sales.push((column(&row, 0)?, column(&row, 1)?));
        }
        let orders = "SELECT order_key, user_id FROM orders WHERE sku = $1 ORDER BY order_key";
        let rows = lent.run(limit, lent.client().query_typed(orders, &parameters)).await?;
        let mut orders = Vec::with_capacity(rows.len());
        for row in rows {
            orders.push((column(&row, 0)?, column(&row, 1)?));
        }
        lent.tell(limit, "COMMIT").await?;
        Ok(Truth { units: seen.units, left: seen.count, sales, orders })
    }
}

fn column<T>(row: &tokio_postgres::Row, at: usize) -> Result<T, Failure>
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    row.try_get(at).map_err(|error| Failure::of_statement(&error))
}

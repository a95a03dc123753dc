//! The books of a sale in PostgreSQL: each order once, one for each buyer of a sku, and no more
//! of them than there are units.
//!
//! | table | what |
//! |---|---|
//! | `sale_stock` | of each sku: how many units there are (`units`), how many have no order (`free`) |
//! | `sale_orders` | each order: whose, of what, its state, until when it must be paid for |
//!
//! An order takes its unit in the transaction that writes it, and a unit comes back in the
//! transaction that ends its order, so `free` and the orders that have a unit are `units` at
//! every moment, whatever dies. All that is done to an order asks for the state that it must
//! be in, within the statement: a payment and the end of its time meet at the order's row, and
//! one of them finds it changed.
//!
//! | state | has a unit | becomes |
//! |---|---|---|
//! | `unpaid` | yes | `paid`, `lapsed` |
//! | `paid` | yes | |
//! | `lapsed`: not paid for in time | no | |
//! | `refused`: all were sold when it came | no | |
//!
//! A buyer has one order of a sku, however it ended: whoever lets one lapse has had the turn.
//!
//! [`Guards`] are what makes this hold. Each can be left out, which is how it must not be done.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_postgres::types::{ToSql, Type};

use super::books::{Books, BooksError, Recorded};
use super::{Buyer, OrderName, Sku, Wish};
use crate::host::{BoxFuture, Host};
use crate::lock::postgres::connection::Dialer;
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::pool::{Lent, Pool};
use crate::lock::postgres::{Endpoint, InvalidOptions, Usage, schema};

/// What the books ask for before they change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// That a unit is free: without it they write down whatever they are told.
    pub stock: bool,
    /// That the order is not there, nor another of its buyer's: without it an order that is
    /// delivered twice is two orders.
    pub unique: bool,
    /// That the order is unpaid, in the statement that changes it: without it a payment, and
    /// the end of its time, look first and write later.
    pub state: bool,
}

impl Guards {
    /// All of them.
    pub const ALL: Guards = Guards { stock: true, unique: true, state: true };
}

/// Options of the books.
#[derive(Clone, Copy, Debug)]
pub struct BooksOptions {
    /// How long a reply, and separately each step of connecting, may take.
    pub command_timeout: Duration,
    /// How many connections may be open at most, at least 1.
    pub connections: usize,
    /// How long an order may stay unpaid.
    pub unpaid: Duration,
    /// What they ask for.
    pub guards: Guards,
}

impl Default for BooksOptions {
    fn default() -> Self {
        BooksOptions {
            command_timeout: Duration::from_millis(250),
            connections: 4,
            unpaid: Duration::from_secs(900),
            guards: Guards::ALL,
        }
    }
}

/// The state of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has a unit, and time to pay for it.
    Unpaid,
    /// It has a unit, for good.
    Paid,
    /// It was not paid for in time.
    Lapsed,
    /// All were sold when it came.
    Refused,
}

impl State {
    /// As the books have it.
    pub fn name(self) -> &'static str {
        match self {
            State::Unpaid => "unpaid",
            State::Paid => "paid",
            State::Lapsed => "lapsed",
            State::Refused => "refused",
        }
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<State> {
        let all = [State::Unpaid, State::Paid, State::Lapsed, State::Refused];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether an order in it has a unit.
    pub fn has_unit(self) -> bool {
        matches!(self, State::Unpaid | State::Paid)
    }
}

/// How a payment went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// The unit is the buyer's, now or since an earlier try.
    Taken,
    /// There is no unpaid order of this name: it lapsed, was refused, or never was.
    TooLate,
}

/// All that the books say of one sku.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How many units there are.
    pub units: u32,
    /// How many of them have no order; below zero only without [`Guards::stock`].
    pub free: i64,
    /// The orders, by name.
    pub orders: Vec<(Wish, State)>,
}

/// The books; see the module's text.
#[derive(Debug)]
pub struct OrderBooks {
    options: BooksOptions,
    pool: Pool,
}

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

const STOCK: &str = "CREATE TABLE IF NOT EXISTS sale_stock (\
     sku text PRIMARY KEY, \
     units bigint NOT NULL, \
     free bigint NOT NULL)";

fn orders_table(guards: Guards) -> String {
    let (name, buyer) = match guards.unique {
        true => (" PRIMARY KEY", ", UNIQUE (buyer, sku)"),
        false => (" NOT NULL", ""),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS sale_orders (\
         order_name text{name}, \
         buyer text NOT NULL, \
         sku text NOT NULL, \
         state text NOT NULL, \
         pay_by timestamptz NOT NULL{buyer})"
    )
}

/// Makes the tables at `endpoint`, each statement within `limit`; without [`Guards::unique`] a
/// table that allows what it should not.
///
/// # Errors
/// [`BooksError`]; it may be called again.
pub async fn install(
    host: &Host,
    endpoint: &Endpoint,
    limit: Duration,
    guards: Guards,
) -> Result<(), BooksError> {
    let made = schema::run_all(host, endpoint, limit, &[STOCK, &orders_table(guards)]).await;
    made.map_err(|error| BooksError { reason: error.to_string() })
}

impl OrderBooks {
    /// The books at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] of an address that is none, or options that cannot work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: BooksOptions,
    ) -> Result<Self, InvalidOptions> {
        endpoint.check()?;
        if options.command_timeout.is_zero() {
            return Err(InvalidOptions::CommandTimeout);
        }
        if options.connections == 0 {
            return Err(InvalidOptions::NoConnections);
        }
        let dialer = Dialer::new(host, endpoint, options.command_timeout);
        Ok(OrderBooks { options, pool: Pool::new(dialer, options.connections) })
    }

    /// How the connections have been used.
    pub fn usage(&self) -> Usage {
        self.pool.usage()
    }

    /// Puts `units` of `sku` on sale; what is on sale stays as it is.
    ///
    /// # Errors
    /// [`BooksError`]; it may be called again.
    pub async fn offer(&self, sku: &Sku, units: u32) -> Result<(), BooksError> {
        let units = i64::from(units);
        let offer = "INSERT INTO sale_stock (sku, units, free) VALUES ($1, $2, $2) \
             ON CONFLICT DO NOTHING";
        let parameters: [Parameter; 2] = [(&sku.as_str(), Type::TEXT), (&units, Type::INT8)];
        self.alone(offer, &parameters).await.map(drop)
    }

    /// What became of the order; `None` where the books do not know it (yet).
    ///
    /// # Errors
    /// [`BooksError`].
    pub async fn find(&self, order: &OrderName) -> Result<Option<State>, BooksError> {
        let lent = self.lend().await?;
        let state = self.state_of(&lent, order).await;
        lent.give_back_if_open();
        state.map_err(told)
    }

    /// Pays for the order. Asking again for a payment that was taken tells so again.
    ///
    /// # Errors
    /// [`BooksError`]: it may have been taken.
    pub async fn pay(&self, order: &OrderName) -> Result<Payment, BooksError> {
        let lent = self.lend().await?;
        let paid = self.pay_on(&lent, order).await;
        lent.give_back_if_open();
        paid.map_err(told)
    }

    async fn pay_on(&self, lent: &Lent, order: &OrderName) -> Result<Payment, Failure> {
        let parameters: [Parameter; 1] = [(&order.as_str(), Type::TEXT)];
        if self.options.guards.state {
            let pay = "UPDATE sale_orders SET state = 'paid' \
                 WHERE order_name = $1 AND state = 'unpaid' AND pay_by > clock_timestamp()";
            if self.execute(lent, pay, &parameters).await? > 0 {
                return Ok(Payment::Taken);
            }
        } else if self.state_of(lent, order).await? == Some(State::Unpaid) {
            let pay = "UPDATE sale_orders SET state = 'paid' WHERE order_name = $1";
            self.execute(lent, pay, &parameters).await?;
            return Ok(Payment::Taken);
        }
        Ok(match self.state_of(lent, order).await? {
            Some(State::Paid) => Payment::Taken,
            _ => Payment::TooLate,
        })
    }

    /// Ends up to `most` orders of `sku` that were not paid for in time, by the database's
    /// clock, and frees their units. Which they were: a shelf may give the units again.
    ///
    /// # Errors
    /// [`BooksError`]: some may have been ended.
    pub async fn lapse(&self, sku: &Sku, most: u32) -> Result<Vec<Wish>, BooksError> {
        let due = "SELECT order_name, buyer FROM sale_orders \
             WHERE sku = $1 AND state = 'unpaid' AND pay_by <= clock_timestamp() \
             ORDER BY order_name LIMIT $2";
        let most = i64::from(most);
        let parameters: [Parameter; 2] = [(&sku.as_str(), Type::TEXT), (&most, Type::INT8)];
        let lent = self.lend().await?;
        let rows = lent.run(self.limit(), lent.client().query_typed(due, &parameters)).await;
        let mut ended = Vec::new();
        for row in rows.map_err(told)? {
            let text = |at: usize| row.try_get::<_, String>(at).map_err(|error| foreign(&error));
            let wish = wish(&text(0)?, &text(1)?, sku)?;
            if self.transaction(&lent, self.end_on(&lent, &wish)).await.map_err(told)? {
                ended.push(wish);
            }
        }
        lent.give_back_if_open();
        Ok(ended)
    }

    async fn end_on(&self, lent: &Lent, wish: &Wish) -> Result<bool, Failure> {
        let guard = if self.options.guards.state { " AND state = 'unpaid'" } else { "" };
        let end = format!("UPDATE sale_orders SET state = 'lapsed' WHERE order_name = $1{guard}");
        let parameters: [Parameter; 1] = [(&wish.order.as_str(), Type::TEXT)];
        if self.execute(lent, &end, &parameters).await? == 0 {
            return Ok(false);
        }
        let free = "UPDATE sale_stock SET free = free + 1 WHERE sku = $1";
        self.execute(lent, free, &[(&wish.sku.as_str(), Type::TEXT)]).await?;
        Ok(true)
    }

    /// All that the books say of `sku`, as of one moment.
    ///
    /// # Errors
    /// [`BooksError`]; also where it is not on sale.
    pub async fn account(&self, sku: &Sku) -> Result<Account, BooksError> {
        let lent = self.lend().await?;
        let account = self.transaction_of("REPEATABLE READ", &lent, self.account_on(&lent, sku));
        let (stock, orders) = account.await.map_err(told)?;
        lent.give_back_if_open();
        let Some((units, free)) = stock else {
            return Err(BooksError { reason: format!("{sku} is not on sale") });
        };
        let mut account =
            Account { units: u32::try_from(units).unwrap_or(0), free, orders: Vec::new() };
        for [order, buyer, state] in orders {
            let state = State::named(&state)
                .ok_or_else(|| BooksError { reason: format!("an order is `{state}`") })?;
            account.orders.push((wish(&order, &buyer, sku)?, state));
        }
        Ok(account)
    }

    async fn account_on(&self, lent: &Lent, sku: &Sku) -> Result<Rows, Failure> {
        let parameters: [Parameter; 1] = [(&sku.as_str(), Type::TEXT)];
        let stock = "SELECT units, free FROM sale_stock WHERE sku = $1";
        let stock = lent.run(self.limit(), lent.client().query_typed(stock, &parameters)).await?;
        let wrong = |error| Failure::of_statement(&error);
        let stock = match stock.first() {
            Some(row) => Some((row.try_get(0).map_err(wrong)?, row.try_get(1).map_err(wrong)?)),
            None => None,
        };
        let all = "SELECT order_name, buyer, state FROM sale_orders WHERE sku = $1 \
             ORDER BY order_name";
        let rows = lent.run(self.limit(), lent.client().query_typed(all, &parameters)).await?;
        let mut orders = Vec::with_capacity(rows.len());
        for row in rows {
            let text = |at: usize| row.try_get::<_, String>(at).map_err(wrong);
            orders.push([text(0)?, text(1)?, text(2)?]);
        }
        Ok((stock, orders))
    }

    async fn record_on(&self, lent: &Lent, wish: &Wish) -> Result<Option<Recorded>, Failure> {
        let guards = self.options.guards;
        let once = if guards.unique { " ON CONFLICT DO NOTHING" } else { "" };
        let unpaid_ms = self.options.unpaid.as_millis();
        let write = format!(
            "INSERT INTO sale_orders (order_name, buyer, sku, state, pay_by) \
             VALUES ($1, $2, $3, 'unpaid', \
             clock_timestamp() + interval '{unpaid_ms} milliseconds'){once}"
        );
        let (order, buyer, sku) = (wish.order.as_str(), wish.buyer.as_str(), wish.sku.as_str());
        let parameters: [Parameter; 3] =
            [(&order, Type::TEXT), (&buyer, Type::TEXT), (&sku, Type::TEXT)];
        if self.execute(lent, &write, &parameters).await? == 0 {
            return Ok(None);
        }
        let guard = if guards.stock { " AND free > 0" } else { "" };
        let take = format!("UPDATE sale_stock SET free = free - 1 WHERE sku = $1{guard}");
        if self.execute(lent, &take, &[(&sku, Type::TEXT)]).await? > 0 {
            return Ok(Some(Recorded::Now));
        }
        let refuse = "UPDATE sale_orders SET state = 'refused' WHERE order_name = $1";
        self.execute(lent, refuse, &[(&order, Type::TEXT)]).await?;
        Ok(Some(Recorded::SoldOut))
    }

    async fn write(&self, wish: &Wish) -> Result<Recorded, Failure> {
        let lent = self.pool.lend(self.limit()).await?;
        let recorded = match self.transaction(&lent, self.record_on(&lent, wish)).await? {
            Some(recorded) => recorded,
            None => match self.state_of(&lent, &wish.order).await? {
                Some(State::Unpaid | State::Paid) => Recorded::Already,
                Some(State::Lapsed) => Recorded::Lapsed,
                Some(State::Refused) => Recorded::SoldOut,
                None => Recorded::OtherOrder,
            },
        };
        lent.give_back_if_open();
        Ok(recorded)
    }

    async fn state_of(&self, lent: &Lent, order: &OrderName) -> Result<Option<State>, Failure> {
        let find = "SELECT state FROM sale_orders WHERE order_name = $1";
        let parameters: [Parameter; 1] = [(&order.as_str(), Type::TEXT)];
        let rows = lent.run(self.limit(), lent.client().query_typed(find, &parameters)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let state: String = row.try_get(0).map_err(|error| Failure::of_statement(&error))?;
        Ok(State::named(&state))
    }

    async fn transaction<T>(
        &self,
        lent: &Lent,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.transaction_of("READ COMMITTED", lent, work).await
    }

    /// Does the work in a transaction. One that fails is undone: with its connection, where
    /// that must not be used again.
    async fn transaction_of<T>(
        &self,
        level: &str,
        lent: &Lent,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        lent.tell(self.limit(), &format!("BEGIN ISOLATION LEVEL {level}")).await?;
        match work.await {
            Ok(done) => {
                lent.tell(self.limit(), "COMMIT").await.map(|_| done).map_err(Failure::of_commit)
            }
            Err(failure) => {
                if !failure.spoils_connection() {
                    let _ = lent.tell(self.limit(), "ROLLBACK").await;
                }
                Err(failure)
            }
        }
    }

    /// One statement, in a transaction of its own.
    async fn alone(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64, BooksError> {
        let lent = self.lend().await?;
        let changed = self.execute(&lent, sql, parameters).await;
        lent.give_back_if_open();
        changed.map_err(told)
    }

    async fn execute(
        &self,
        lent: &Lent,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, Failure> {
        lent.run(self.limit(), lent.client().execute_typed(sql, parameters)).await
    }

    async fn lend(&self) -> Result<Lent, BooksError> {
        self.pool.lend(self.limit()).await.map_err(told)
    }

    fn limit(&self) -> Duration {
        self.options.command_timeout
    }
}

impl Books for OrderBooks {
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        Box::pin(async move { self.write(wish).await.map_err(told) })
    }
}

/// Units and how many are free; order, buyer and state of each order.
type Rows = (Option<(i64, i64)>, Vec<[String; 3]>);

fn wish(order: &str, buyer: &str, sku: &Sku) -> Result<Wish, BooksError> {
    let wrong = |error: super::InvalidName| BooksError { reason: error.to_string() };
    Ok(Wish {
        order: OrderName::new(order).map_err(wrong)?,
        buyer: Buyer::new(buyer).map_err(wrong)?,
        sku: sku.clone(),
    })
}

fn foreign(error: &tokio_postgres::Error) -> BooksError {
    BooksError { reason: error.to_string() }
}

fn told(failure: Failure) -> BooksError {
    BooksError { reason: failure.to_string() }
}

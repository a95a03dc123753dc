//! The stock in PostgreSQL: units, orders and a ledger in tables, and the ways to sell one.
//!
//! | table | what |
//! |---|---|
//! | `stock` | of each sku: how many are left (`count`), the `version`, how many there were |
//! | `orders` | who ordered what; unique per order and sku, and per user and sku |
//! | `ledger` | which unit went to which order: what an overselling is counted by |
//!
//! A unit's number is one more than how many were sold as its buyer saw it, so two buyers
//! that saw the same have the same unit, and a unit beyond the last never was. Like the
//! stock in memory, the ledger takes both: what protects a unit is the way ([`Way`]), and
//! what it fails to do can be read from the books ([`Truth`]).
//!
//! # Once
//! An order is named by its buyer ([`Order::key`]), and the same order may be asked for
//! again: it is written first, in the sale's transaction, and whoever asks again finds it,
//! or waits for the transaction that is writing it. So a COMMIT whose reply was lost is
//! settled by asking again, on a new connection, whether the order can be written still:
//! if not, it was committed; if so, its transaction is over without it.
//!
//! Order of things: what is sold and how it went, the ways (`way`), and here the sale. It
//! has no fence: a way is a guard of its own, and [`Way::UnderLock`] is as good as its lock.

mod truth;
mod way;

pub use truth::Truth;
pub use way::{Check, Isolation, Way};

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use crate::host::Host;
use crate::lock::LockError;
use crate::lock::postgres::connection::Dialer;
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::pool::{Lent, Pool};
use crate::lock::postgres::{Endpoint, InvalidOptions, Usage, schema};

/// What makes the tables, one statement each. Each may be run again.
pub const STATEMENTS: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS stock (\
     id bigint PRIMARY KEY, \
     count bigint NOT NULL, \
     version bigint NOT NULL, \
     units bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS orders (\
     order_key text NOT NULL, \
     sku bigint NOT NULL, \
     user_id text NOT NULL, \
     PRIMARY KEY (order_key, sku), \
     UNIQUE (user_id, sku))",
    "CREATE TABLE IF NOT EXISTS ledger (\
     sku bigint NOT NULL, \
     unit bigint NOT NULL, \
     order_key text NOT NULL)",
];

/// What somebody buys: one unit of each sku, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its name, unique to it: whoever asks again with it asks for the same order.
    pub key: String,
    /// Who buys. A user buys a sku once.
    pub user: String,
    /// In the order in which they are sold, and so locked.
    pub skus: Vec<i64>,
}

impl Order {
    /// An order of one unit of one sku.
    pub fn of_one(key: impl Into<String>, user: impl Into<String>, sku: i64) -> Self {
        Order { key: key.into(), user: user.into(), skus: vec![sku] }
    }
}

/// What a buyer saw of a sku before buying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub sku: i64,
    /// How many are left; below zero is more than oversold.
    pub count: i64,
    /// How often it has been changed.
    pub version: i64,
    /// How many there were.
    pub units: i64,
}

/// How a sale that was answered went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the books, and committed.
    Sold {
        /// Which unit of each sku, in the order's order.
        units: Vec<i64>,
        /// It was there before: nothing has changed.
        repeated: bool,
    },
    /// One of them is sold out; nothing was sold.
    SoldOut {
        /// Which.
        sku: i64,
    },
    /// The user has bought one of them under another order; nothing was sold.
    BoughtBefore {
        /// Which.
        sku: i64,
    },
    /// Somebody changed one of them since it was read; nothing was sold. Read again.
    Conflict {
        /// Which.
        sku: i64,
    },
    /// Somebody else had one of them locked for as long as we may wait; nothing was sold.
    Busy,
}

/// Why a sale has no answer, or is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SellError {
    /// The database could not be asked, or every connection was in use: nothing was sold.
    #[error("the stock cannot be reached: {reason}")]
    Unreachable {
        /// What went wrong, for people.
        reason: String,
    },
    /// The database undid the transaction: nothing was sold. A deadlock (40P01) and a
    /// transaction that could not be serialized (40001) may go well when asked again.
    #[error("the sale was rolled back: {code} {message}")]
    RolledBack {
        /// PostgreSQL's code.
        code: String,
        /// What it said.
        message: String,
    },
    /// COMMIT was sent, and neither its reply nor an answer to the question came: the sale
    /// may stand. Asking again for the same order is safe and tells.
    #[error("it is not known whether the sale was committed: {reason}")]
    Indeterminate {
        /// What went wrong, for people.
        reason: String,
    },
}

/// Options of the stock in SQL. Make them with [`SqlStockOptions::new`] and change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlStockOptions {
    /// How a unit is taken.
    pub way: Way,
    /// How long a reply, and separately each step of connecting, may take, a wait for a lock
    /// not counted.
    pub command_timeout: Duration,
    /// How long a statement waits at the server for a row that somebody else has locked
    /// (`lock_timeout`, from 1 ms; twice as long behind other waiters), and a sale for a
    /// connection.
    pub lock_timeout: Duration,
    /// How many connections may be open at most.
    pub connections: usize,
}

impl SqlStockOptions {
    /// The defaults for a way: 250 ms for a reply, 2 s for a lock, 10 connections.
    pub fn new(way: Way) -> Self {
        SqlStockOptions {
            way,
            command_timeout: Duration::from_millis(250),
            lock_timeout: Duration::from_secs(2),
            connections: 10,
        }
    }
}

/// A stock in PostgreSQL.
#[derive(Debug)]
pub struct SqlStock {
    options: SqlStockOptions,
    pool: Pool,
}

/// One parameter.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Makes the tables at `endpoint`, each statement within `limit`.
///
/// # Errors
/// As [`schema::install`]; it may be called again.
pub async fn install(host: &Host, endpoint: &Endpoint, limit: Duration) -> Result<(), LockError> {
    schema::run_all(host, endpoint, limit, &STATEMENTS).await
}

const WRITE_ORDER: &str = "INSERT INTO orders (order_key, sku, user_id) VALUES ($1, $2, $3) \
     ON CONFLICT DO NOTHING";
const ENTER: &str = "INSERT INTO ledger (sku, unit, order_key) VALUES ($1, $2, $3)";
const UNIT_OF: &str = "SELECT unit FROM ledger WHERE order_key = $1 AND sku = $2";

impl SqlStock {
    /// A stock at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that cannot
    /// work.
    pub fn new(
        host: Host,
        endpoint: Endpoint,
        options: SqlStockOptions,
    ) -> Result<Self, InvalidOptions> {
        endpoint.check()?;
        if options.command_timeout.is_zero() {
            return Err(InvalidOptions::CommandTimeout);
        }
        if options.connections == 0 {
            return Err(InvalidOptions::NoConnections);
        }
        if !(1..=i32::MAX as u128).contains(&options.lock_timeout.as_millis()) {
            return Err(InvalidOptions::LockTimeout { timeout: options.lock_timeout });
        }
        let dialer = Dialer::new(host, endpoint, options.command_timeout);
        let pool = Pool::new(dialer, options.connections);
        Ok(SqlStock { options, pool })
    }

    /// How the connections have been used.
    pub fn usage(&self) -> Usage {
        self.pool.usage()
    }

    /// How long whoever waits for a connection now has waited, of them the longest; nothing where
    /// nobody does.
    pub fn pool_wait(&self) -> Duration {
        self.pool.wait()
    }

    /// Puts a sku on sale with so many units; one that is there stays as it is.
    ///
    /// # Errors
    /// Any [`SellError`]; it may be called again.
    pub async fn offer(&self, sku: i64, units: u32) -> Result<(), SellError> {
        let lent = self.lend().await?;
        let units = i64::from(units);
        let offer = "INSERT INTO stock (id, count, version, units) VALUES ($1, $2, 0, $2) \
             ON CONFLICT DO NOTHING";
        let parameters: [Parameter; 2] = [(&sku, Type::INT8), (&units, Type::INT8)];
        let answer = self.execute(&lent, offer, &parameters).await;
        lent.give_back_if_open();
        answer.map(drop).map_err(committing)
    }

    /// What is left of the order's skus, each read by itself.
    ///
    /// # Errors
    /// Any [`SellError`] but `Indeterminate`; a sku that is not on sale is `RolledBack`.
    pub async fn read(&self, skus: &[i64]) -> Result<Vec<Seen>, SellError> {
        let lent = self.lend().await?;
        let mut seen = Vec::with_capacity(skus.len());
        for sku in skus {
            match way::read(self, &lent, *sku, way::Locking::No).await {
                Ok(one) => seen.push(one),
                Err(failure) => {
                    lent.give_back_if_open();
                    return Err(nothing_done(failure));
                }
            }
        }
        lent.give_back_if_open();
        Ok(seen)
    }

    /// Sells the order in the stock's way. `seen` is what was read before, for the ways that
    /// go by it; a sku that is missing there is a `Conflict`.
    ///
    /// # Errors
    /// Any [`SellError`].
    pub async fn sell(&self, order: &Order, seen: &[Seen]) -> Result<Outcome, SellError> {
        let lent = self.lend().await?;
        let units = match self.sell_on(&lent, order, seen).await {
            Ok(Ok(units)) => units,
            Ok(Err(outcome)) => {
                // Nothing was committed, whatever becomes of this.
                let rolled_back = lent.tell(self.options.command_timeout, "ROLLBACK").await;
                if rolled_back.is_ok() {
                    lent.give_back_if_open();
                }
                return Ok(outcome);
            }
            Err(failure) => {
                // Dropped, the connection takes the transaction with it.
                if !failure.spoils_connection() {
                    let _ = lent.tell(self.options.command_timeout, "ROLLBACK").await;
                    lent.give_back_if_open();
                }
                return if failure.is_busy() {
                    Ok(Outcome::Busy)
                } else {
                    Err(nothing_done(failure))
                };
            }
        };
        match lent.tell(self.options.command_timeout, "COMMIT").await.map_err(Failure::of_commit) {
            // A transaction that had failed would be rolled back by COMMIT, and say so; ours
            // has not, all its statements were answered well.
            Ok(_) => {
                lent.give_back_if_open();
                Ok(Outcome::Sold { units, repeated: false })
            }
            Err(Failure::NoReply { reason }) => {
                drop(lent);
                self.settle(order, reason).await
            }
            Err(failure) => Err(nothing_done(failure)),
        }
    }

    /// Reads and sells, again after each conflict, up to `attempts` times in all; and how
    /// often it was tried.
    ///
    /// # Errors
    /// Any [`SellError`].
    pub async fn buy(&self, order: &Order, attempts: u32) -> Result<(Outcome, u32), SellError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let seen = match self.options.way {
                Way::ForUpdate { .. } | Way::Conditional => Vec::new(),
                Way::UnderLock | Way::Optimistic { .. } => self.read(&order.skus).await?,
            };
            match self.sell(order, &seen).await? {
                Outcome::Conflict { .. } if tried < attempts => {}
                outcome => return Ok((outcome, tried)),
            }
        }
    }

    /// The order's transaction up to its COMMIT: which units, or why none.
    async fn sell_on(
        &self,
        lent: &Lent,
        order: &Order,
        seen: &[Seen],
    ) -> Result<Result<Vec<i64>, Outcome>, Failure> {
        lent.tell(self.options.command_timeout, &self.begin()).await?;
        let mut units = Vec::with_capacity(order.skus.len());
        for sku in &order.skus {
            if self.write_order(lent, order, *sku).await? == 0 {
                return Ok(Err(self.known(lent, order, *sku).await?));
            }
            let seen = seen.iter().find(|seen| seen.sku == *sku);
            let unit = match way::take(self, lent, *sku, seen).await? {
                Ok(unit) => unit,
                Err(outcome) => return Ok(Err(outcome)),
            };
            let parameters: [Parameter; 3] =
                [(sku, Type::INT8), (&unit, Type::INT8), (&order.key, Type::TEXT)];
            self.execute(lent, ENTER, &parameters).await?;
            units.push(unit);
        }
        Ok(Ok(units))
    }

    fn begin(&self) -> String {
        format!(
            "BEGIN ISOLATION LEVEL {}; SET LOCAL lock_timeout = {}",
            self.options.way.isolation().sql(),
            self.options.lock_timeout.as_millis()
        )
    }

    /// Writes the order down; 0 if it, or another of its user's, is there. Waits for a
    /// transaction that is writing it.
    async fn write_order(&self, lent: &Lent, order: &Order, sku: i64) -> Result<u64, Failure> {
        let parameters: [Parameter; 3] =
            [(&order.key, Type::TEXT), (&sku, Type::INT8), (&order.user, Type::TEXT)];
        self.execute(lent, WRITE_ORDER, &parameters).await
    }

    /// What is known of an order that cannot be written.
    async fn known(&self, lent: &Lent, order: &Order, sku: i64) -> Result<Outcome, Failure> {
        let mut units = Vec::new();
        for sku in &order.skus {
            let parameters: [Parameter; 2] = [(&order.key, Type::TEXT), (sku, Type::INT8)];
            units.extend(self.query::<i64>(lent, UNIT_OF, &parameters).await?.first().copied());
        }
        Ok(if units.len() == order.skus.len() {
            Outcome::Sold { units, repeated: true }
        } else {
            Outcome::BoughtBefore { sku }
        })
    }

    /// Whether an order whose COMMIT was not answered was committed: asked on another
    /// connection, which waits for the first one's transaction to be over.
    async fn settle(&self, order: &Order, reason: String) -> Result<Outcome, SellError> {
        let Some(first) = order.skus.first() else {
            return Ok(Outcome::Sold { units: Vec::new(), repeated: true });
        };
        let asked = async {
            let lent = self.lend().await.ok()?;
            lent.tell(self.options.command_timeout, &self.begin()).await.ok()?;
            let written = self.write_order(&lent, order, *first).await.ok()?;
            let known = match written {
                0 => Some(self.known(&lent, order, *first).await.ok()?),
                _ => None,
            };
            lent.tell(self.options.command_timeout, "ROLLBACK").await.ok()?;
            lent.give_back_if_open();
            Some(known)
        };
        match asked.await {
            Some(Some(Outcome::Sold { units, .. })) => Ok(Outcome::Sold { units, repeated: true }),
            Some(Some(other)) => Ok(other),
            Some(None) => Err(SellError::Unreachable {
                reason: format!("{reason}; it was asked again, and nothing was committed"),
            }),
            None => Err(SellError::Indeterminate { reason }),
        }
    }

    async fn lend(&self) -> Result<Lent, SellError> {
        let limit = self.options.lock_timeout.max(self.options.command_timeout);
        self.pool.lend(limit).await.map_err(nothing_done)
    }

    /// A statement may wait for a lock, and then takes its time. A row's queue has two places
    /// to wait in, each for so long: the tuple's lock, then its holder's transaction.
    fn limit(&self) -> Duration {
        2 * self.options.lock_timeout + self.options.command_timeout
    }

    async fn execute(
        &self,
        lent: &Lent,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, Failure> {
        lent.run(self.limit(), lent.client().execute_typed(sql, parameters)).await
    }

    /// The first column of the rows.
    async fn query<T>(
        &self,
        lent: &Lent,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<T>, Failure>
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let rows = lent.run(self.limit(), lent.client().query_typed(sql, parameters)).await?;
        let values = rows.iter().map(|row| row.try_get(0));
        values.map(|value| value.map_err(|error| Failure::of_statement(&error))).collect()
    }
}

/// What a failure before COMMIT was sent means: a transaction that nobody commits is undone.
fn nothing_done(failure: Failure) -> SellError {
    match failure {
        Failure::Refused { code, message, .. } => SellError::RolledBack { code, message },
        Failure::NotSent { reason }
        | Failure::NoConnection { reason }
        | Failure::NoReply { reason } => SellError::Unreachable { reason },
    }
}

/// The same of a statement that commits itself.
fn committing(failure: Failure) -> SellError {
    match failure.of_commit() {
        Failure::NoReply { reason } => SellError::Indeterminate { reason },
        failure => nothing_done(failure),
    }
}

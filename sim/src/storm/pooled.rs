//! The pessimistic way over a pool: a buyer's transaction locks the row of the stock as it reads
//! it, holds it through the work, and writes. All buyers of a node share the few connections of
//! one pool, as in a service: `deadpool`, over connections of the node's network.
//!
//! Whoever waits for the row has a connection for as long, so the waiters of one hot row use
//! the pool up and everybody else waits for a connection: what
//! [`Connections`](super::connections::Connections) measures.

#[cfg(test)]
pub(crate) mod answering;
mod session;

use std::future::Future;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError};
use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::stock::sql::{Outcome, Seen, SellError};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::checkout::{Item, OF_THE_SALE, Transaction, not_open};
use super::connections::{Lending, PoolWatch};
use super::postgres::dialling::Dialer;
use crate::plan::Plan;
use session::{Sessions, told, told_of_commit};

/// The pool of one node.
#[derive(Clone, Debug)]
pub struct NodePool {
    host: Host,
    pool: Pool<Sessions>,
    watch: PoolWatch,
    /// For a connection, and for the row.
    patience: Duration,
    command_timeout: Duration,
}

/// One buyer's sales.
#[derive(Debug)]
pub struct PooledSale {
    node: NodePool,
    open: Option<Lent>,
}

/// A connection that is lent; dropped, it is back in its pool.
#[derive(Debug)]
struct Lent {
    session: Object<Sessions>,
    _lending: Lending,
}

impl NodePool {
    /// The pool of the node `host` of this plan.
    ///
    /// # Errors
    /// When the plan's options cannot work.
    pub fn new(host: &Host, plan: &Plan, watch: PoolWatch) -> Result<NodePool, String> {
        let dialer = Dialer::new(host, plan);
        let (host, command_timeout) = (host.clone(), dialer.limit);
        // Its own timeouts would go by tokio's clock, which is not the node's.
        let pool =
            Pool::builder(Sessions(dialer)).max_size(usize::from(plan.workload.pool)).build();
        let pool = pool.map_err(|error| error.to_string())?;
        let patience = plan.workload.patience.to_duration();
        Ok(NodePool { host, pool, watch, patience, command_timeout })
    }

    /// A buyer that uses it.
    pub fn buyer(&self) -> PooledSale {
        PooledSale { node: self.clone(), open: None }
    }

    async fn lend(&self) -> Result<Lent, SellError> {
        let began = self.host.monotonic();
        let lent = self.host.timeout(self.patience, self.pool.get()).await;
        let refused = match lent {
            Ok(Ok(session)) => {
                let waited = self.host.monotonic().saturating_sub(began);
                return Ok(Lent { session, _lending: self.watch.lend(waited) });
            }
            Err(_) => {
                self.watch.gave_up();
                let reason = format!("no connection within {:?}", self.patience);
                return Err(SellError::Unreachable { reason });
            }
            Ok(Err(PoolError::Backend(refused))) => refused,
            Ok(Err(error)) => SellError::Unreachable { reason: error.to_string() },
        };
        self.watch.failed();
        Err(refused)
    }

    /// A statement may wait for the row twice: for the tuple's lock, then for its holder.
    async fn answered<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
        told: fn(&Error) -> SellError,
    ) -> Result<T, SellError> {
        let limit = 2 * self.patience + self.command_timeout;
        match self.host.timeout(limit, request).await {
            Ok(answer) => answer.map_err(|error| told(&error)),
            Err(_) => Err(SellError::Unreachable { reason: format!("no reply within {limit:?}") }),
        }
    }
}

impl PooledSale {
    /// Runs statements that answer nothing on the open connection.
    async fn tell(
        &mut self,
        statements: &str,
        told: fn(&Error) -> SellError,
    ) -> Result<(), SellError> {
        let lent = self.taken_out()?;
        let request = lent.session.client().batch_execute(statements);
        let answer = self.node.answered(request, told).await;
        self.put_back(lent, answer)
    }

    /// Runs a statement on the open connection, prepared once.
    async fn rows(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SellError> {
        let lent = self.taken_out()?;
        let request = async {
            let statement = lent.session.prepared(sql).await?;
            lent.session.client().query(&statement, parameters).await
        };
        let answer = self.node.answered(request, told).await;
        self.put_back(lent, answer)
    }

    fn taken_out(&mut self) -> Result<Lent, SellError> {
        self.open.take().ok_or_else(not_open)
    }

    /// What went wrong leaves a connection that nobody else should have: it is closed.
    fn put_back<T>(&mut self, lent: Lent, answer: Result<T, SellError>) -> Result<T, SellError> {
        match &answer {
            Ok(_) => self.open = Some(lent),
            Err(_) => drop(Object::take(lent.session)),
        }
        answer
    }

    async fn begin(&mut self) -> Result<(), SellError> {
        if self.open.is_some() {
            return Ok(());
        }
        self.open = Some(self.node.lend().await?);
        let begin =
            format!("BEGIN; SET LOCAL lock_timeout = {}", self.node.patience.as_millis().max(1));
        self.tell(&begin, told).await
    }

    async fn read_locked(&mut self, sku: i64) -> Result<Seen, SellError> {
        self.begin().await?;
        let select = "SELECT count, version, units FROM stock WHERE id = $1 FOR UPDATE";
        let rows = self.rows(select, &[&sku]).await?;
        let row = rows
            .first()
            .ok_or_else(|| SellError::Unreachable { reason: format!("{sku} is not on sale") })?;
        let column = |at: usize| row.try_get::<_, i64>(at).map_err(|error| told(&error));
        Ok(Seen { sku, count: column(0)?, version: column(1)?, units: column(2)? })
    }

    async fn write(&mut self, seen: &Seen, order: &str) -> Result<Outcome, SellError> {
        let Seen { sku, count, units, .. } = *seen;
        if count <= 0 {
            return Ok(Outcome::SoldOut { sku });
        }
        let unit = units - count + 1;
        let take = "UPDATE stock SET count = $2, version = version + 1 WHERE id = $1";
        self.rows(take, &[&sku, &(count - 1)]).await?;
        let write = "INSERT INTO orders (order_key, sku, user_id) VALUES ($1, $2, $1)";
        self.rows(write, &[&order, &sku]).await?;
        let enter = "INSERT INTO ledger (sku, unit, order_key) VALUES ($1, $2, $3)";
        self.rows(enter, &[&sku, &unit, &order]).await?;
        Ok(Outcome::Sold { units: vec![unit], repeated: false })
    }

    async fn end(&mut self, how: &str, told: fn(&Error) -> SellError) -> Result<(), SellError> {
        let ended = self.tell(how, told).await;
        // It is back in the pool.
        self.open = None;
        ended
    }
}

impl Transaction for PooledSale {
    fn items(&self) -> &'static [Item] {
        &[OF_THE_SALE]
    }

    fn look(&mut self, sku: i64) -> BoxFuture<'_, Result<Seen, SellError>> {
        Box::pin(self.read_locked(sku))
    }

    fn take<'a>(
        &'a mut self,
        seen: &'a Seen,
        order: &'a str,
    ) -> BoxFuture<'a, Result<Outcome, SellError>> {
        Box::pin(self.write(seen, order))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), SellError>> {
        Box::pin(async move {
            if self.open.is_none() {
                return Err(not_open());
            }
            match self.end("COMMIT", told_of_commit).await {
                // No reply came in time: it was sent, and nobody knows what became of it.
                Err(SellError::Unreachable { reason }) => Err(SellError::Indeterminate { reason }),
                ended => ended,
            }
        })
    }

    fn roll_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A connection without an answer is closed, and its transaction ends with it.
            let _ = self.end("ROLLBACK", told).await;
        })
    }
}

#[cfg(test)]
mod tests;

//! The pessimistic way over a pool: a buyer's transaction locks the row of the stock as it reads
//! it, holds it through the work, and writes. All buyers of a node share the few connections of
//! one pool, as in a service: `deadpool-postgres`, with a hook that connects over the node's
//! network.
//!
//! Whoever waits for the row has a connection for as long, so the waiters of one hot row use
//! the pool up and everybody else waits for a connection: what
//! [`Connections`](super::connections::Connections) measures.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, Pool, PoolError};
use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::stock::sql::{Outcome, Seen, SellError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row};

use super::checkout::{Item, OF_THE_SALE, Transaction};
use super::connections::{Lending, PoolWatch};
use super::postgres::endpoint;
use crate::plan::Plan;

/// The pool of one node.
#[derive(Clone, Debug)]
pub struct NodePool {
    host: Host,
    pool: Pool,
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
    client: Object,
    _lending: Lending,
}

impl NodePool {
    /// The pool of the node `host` of this plan.
    ///
    /// # Errors
    /// When the plan's options cannot work.
    pub fn new(host: &Host, plan: &Plan, watch: PoolWatch) -> Result<NodePool, String> {
        let mut config = Config::new();
        config.user("postgres").dbname("postgres").application_name(host.name());
        let (host, command_timeout) = (host.clone(), plan.lock.command_timeout.to_duration());
        let servers = endpoint(plan).servers;
        let hook = Hook { host: host.clone(), servers, command_timeout };
        let manager = Manager::from_connect(config, hook, ManagerConfig::default());
        // Its own timeouts would go by tokio's clock, which is not the node's.
        let pool = Pool::builder(manager).max_size(usize::from(plan.workload.pool)).build();
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
        self.watch.waited(self.host.monotonic().saturating_sub(began));
        match lent {
            Ok(Ok(client)) => Ok(Lent { client, _lending: self.watch.lend() }),
            Ok(Err(PoolError::Backend(error))) => Err(told(&error)),
            Ok(Err(error)) => Err(SellError::Unreachable { reason: error.to_string() }),
            Err(_) => {
                self.watch.gave_up();
                let reason = format!("no connection within {:?}", self.patience);
                Err(SellError::Unreachable { reason })
            }
        }
    }

    /// A statement may wait for the row twice: for the tuple's lock, then for its holder.
    async fn answered<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, SellError> {
        let limit = 2 * self.patience + self.command_timeout;
        match self.host.timeout(limit, request).await {
            Ok(answer) => answer.map_err(|error| told(&error)),
            Err(_) => Err(SellError::Unreachable { reason: format!("no reply within {limit:?}") }),
        }
    }
}

/// Nothing was committed.
fn told(error: &Error) -> SellError {
    match error.as_db_error() {
        Some(told) => SellError::RolledBack {
            code: told.code().code().to_owned(),
            message: told.message().to_owned(),
        },
        None => SellError::Unreachable { reason: error.to_string() },
    }
}

impl PooledSale {
    /// Runs statements that answer nothing on the open connection.
    async fn tell(&mut self, statements: &str) -> Result<(), SellError> {
        let lent = self.taken_out()?;
        let answer = self.node.answered(lent.client.batch_execute(statements)).await;
        self.put_back(lent, answer)
    }

    /// Runs a statement on the open connection, prepared once.
    async fn rows(
        &mut self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SellError> {
        let lent = self.taken_out()?;
        let request = async {
            let statement = lent.client.prepare_cached(sql).await?;
            lent.client.query(&statement, parameters).await
        };
        let answer = self.node.answered(request).await;
        self.put_back(lent, answer)
    }

    fn taken_out(&mut self) -> Result<Lent, SellError> {
        let none = || SellError::Unreachable { reason: "no transaction is open".to_owned() };
        self.open.take().ok_or_else(none)
    }

    /// What went wrong leaves a connection that nobody else should have: it is closed.
    fn put_back<T>(&mut self, lent: Lent, answer: Result<T, SellError>) -> Result<T, SellError> {
        match &answer {
            Ok(_) => self.open = Some(lent),
            Err(_) => drop(Object::take(lent.client)),
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
        self.tell(&begin).await
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

    async fn end(&mut self, how: &str) -> Result<(), SellError> {
        if self.open.is_none() {
            return Ok(());
        }
        let ended = self.tell(how).await;
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
            match self.end("COMMIT").await {
                // It was sent, and nobody knows what became of it.
                Err(SellError::Unreachable { reason }) => Err(SellError::Indeterminate { reason }),
                ended => ended,
            }
        })
    }

    fn roll_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A connection without an answer is closed, and its transaction ends with it.
            let _ = self.end("ROLLBACK").await;
        })
    }
}

/// Connects over the node's network.
struct Hook {
    host: Host,
    /// In the order in which they are tried.
    servers: Vec<String>,
    /// For each server.
    command_timeout: Duration,
}

impl Hook {
    async fn dial(
        &self,
        address: &str,
        config: &Config,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let dialled = async {
            let stream = self.host.connect(address).await?;
            Ok::<_, io::Error>(config.connect_raw(stream, NoTls).await)
        };
        let refused = match self.host.timeout(self.command_timeout, dialled).await {
            Ok(Ok(connected)) => {
                let (client, connection) = connected?;
                let driver = async move {
                    // How it ends is seen by whoever asks.
                    let _ = connection.await;
                };
                return Ok((client, tokio::spawn(driver)));
            }
            Ok(Err(error)) => error,
            Err(_) => io::Error::from(io::ErrorKind::TimedOut),
        };
        // The library alone makes its errors: of a stream that fails so.
        let (client, connection) = config.connect_raw(Failing(Some(refused)), NoTls).await?;
        Ok((client, tokio::spawn(async move { drop(connection) })))
    }

    /// The first server that takes writes; the only one whatever it is.
    async fn dial_primary(&self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        let (last, others) = match self.servers.split_last() {
            Some(split) => split,
            None => (&String::new(), &[][..]),
        };
        for address in others {
            let Ok((client, driver)) = self.dial(address, config).await else { continue };
            let asked = client.query_one("SHOW transaction_read_only", &[]);
            let answer = self.host.timeout(self.command_timeout, asked).await;
            let state = answer.ok().and_then(Result::ok);
            if state.is_some_and(|row| row.try_get::<_, &str>(0).is_ok_and(|state| state == "off"))
            {
                return Ok((client, driver));
            }
        }
        self.dial(last, config).await
    }
}

impl Connect for Hook {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        Box::pin(async move { self.dial_primary(&config).await })
    }
}

/// A stream that fails, for a connection that could not be opened.
struct Failing(Option<io::Error>);

impl Failing {
    fn fail<T>(&mut self) -> Poll<io::Result<T>> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        Poll::Ready(Err(self.0.take().unwrap_or_else(broken)))
    }
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fail()
    }
}

impl AsyncWrite for Failing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.fail()
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }
}

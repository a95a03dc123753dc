//! The node of a client: what a lock is built on.
//!
//! Connections are those of the published client libraries, carried by the network of the
//! storm. Whoever opens one waits no longer than the plan's command timeout; what is asked on
//! it waits as long as its library does.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm::lock::postgres::Endpoint;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};

use super::Failure;
use crate::engine::senses;
use crate::plan::Plan;
use crate::server::redis::sentinel;
use crate::storm::locks::MASTER_NAME;
use crate::storm::postgres as database;
use crate::storm::scene::REDIS_PORT;

/// A client's node.
#[derive(Clone, Debug)]
pub struct Node {
    host: Host,
    plan: Arc<Plan>,
}

impl Node {
    pub(crate) fn new(host: &Host, plan: &Plan) -> Self {
        Node { host: host.clone(), plan: Arc::new(plan.clone()) }
    }

    /// Its name: `app-1`, `app-2` ….
    pub fn name(&self) -> &str {
        self.host.name()
    }

    /// The machine: its clocks, timers, tasks, network and randomness. What asks it is
    /// moved by the faults of the plan; `tokio::time` runs at the true rate.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The plan of this run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The lease of the plan's lock (`lock.lease`).
    pub fn lease(&self) -> Duration {
        self.plan.lock.lease.to_duration()
    }

    /// How long a request may take (`lock.command-timeout`).
    pub fn command_timeout(&self) -> Duration {
        self.plan.lock.command_timeout.to_duration()
    }

    /// The Redis servers of the plan, by name: of one group the first begins as master.
    pub fn redis_servers(&self) -> Vec<String> {
        self.plan.topology.redis_nodes()
    }

    /// A connection to the Redis server of this name. Its reply timeout is the plan's command
    /// timeout.
    ///
    /// # Errors
    /// When it cannot be had within the plan's command timeout.
    pub async fn redis(&self, server: &str) -> Result<MultiplexedConnection, Failure> {
        self.redis_at(&format!("{server}:{REDIS_PORT}")).await
    }

    /// A connection to the Redis master that the sentinels name, or to `redis-1` where the
    /// plan has none.
    ///
    /// # Errors
    /// When no sentinel names one, or it cannot be reached.
    pub async fn redis_master(&self) -> Result<MultiplexedConnection, Failure> {
        let sentinels = self.plan.topology.sentinel_nodes();
        if sentinels.is_empty() {
            return self.redis("redis-1").await;
        }
        let mut reasons = Vec::new();
        for name in sentinels {
            match self.master_named_by(&name).await {
                Ok(address) => return self.redis_at(&address).await,
                Err(error) => reasons.push(format!("{name}: {error}")),
            }
        }
        Err(format!("no sentinel named the master: {}", reasons.join("; ")).into())
    }

    async fn master_named_by(&self, name: &str) -> Result<String, Failure> {
        let mut connection = self.redis_at(&format!("{name}:{}", sentinel::PORT)).await?;
        let mut asked = redis::cmd("SENTINEL");
        asked.arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER_NAME);
        let named: Option<(String, u16)> = asked.query_async(&mut connection).await?;
        let (host, port) = named.ok_or("it knows no master")?;
        Ok(format!("{host}:{port}"))
    }

    async fn redis_at(&self, address: &str) -> Result<MultiplexedConnection, Failure> {
        let limit = self.command_timeout();
        let login = RedisConnectionInfo::default();
        let opening = async {
            let stream = self.host.connect(address).await?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(Some(limit));
            Ok(MultiplexedConnection::new_with_config(&login, stream, config).await?)
        };
        let (connection, driver) = self.within(address, opening).await?;
        self.host.spawn("redis-driver", driver);
        Ok(connection)
    }

    /// A session at the PostgreSQL server of this name.
    ///
    /// # Errors
    /// When it cannot be had within the plan's command timeout.
    pub async fn postgres(&self, server: &str) -> Result<tokio_postgres::Client, Failure> {
        let address = format!("{server}:{}", database::PORT);
        let opening = async {
            let stream = self.host.connect(&address).await?;
            let endpoint = Endpoint::at(&address);
            let mut config = tokio_postgres::Config::new();
            config.user(&endpoint.user).dbname(&endpoint.database);
            config.application_name(self.name());
            Ok(config.connect_raw(stream, tokio_postgres::NoTls).await?)
        };
        let (client, connection) = self.within(&address, opening).await?;
        self.host.spawn("postgres-driver", async move {
            // How it ended is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(client)
    }

    /// A session at the plan's ZooKeeper servers, of the plan's lease.
    ///
    /// # Errors
    /// When none of them answers within the plan's command timeout; in a build without the shims of `zookeeper-client`'s I/O
    /// crates, with what to do about it (`docs/shims.md`).
    pub async fn zookeeper(&self) -> Result<zookeeper_client::Client, Failure> {
        if let Some(refusal) = crate::engine::shims::refusal(senses::are_answered()) {
            return Err(format!("{}: {}", refusal.clause, refusal.mend).into());
        }
        let nodes = self.plan.topology.zookeeper_nodes().into_iter();
        let port = crate::server::zookeeper::CLIENT_PORT;
        let servers: Vec<String> = nodes.map(|node| format!("{node}:{port}")).collect();
        let servers = servers.join(",");
        let connector = zookeeper_client::Client::connector();
        let connector = connector.with_session_timeout(self.lease());
        self.within(&servers, async { Ok(connector.connect(&servers).await?) }).await
    }

    /// A connection to `address`, `name:port`, with nothing on it: for a protocol of one's own.
    ///
    /// # Errors
    /// When it cannot be had within the plan's command timeout.
    pub async fn connect(&self, address: &str) -> Result<Stream, Failure> {
        self.within(address, async { Ok(self.host.connect(address).await?) }).await
    }

    async fn within<T>(
        &self,
        address: &str,
        opening: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.command_timeout();
        match self.host.timeout(limit, opening).await {
            Ok(opened) => opened.map_err(|error| format!("{address}: {error}").into()),
            Err(_) => Err(format!("{address}: no connection within {limit:?}").into()),
        }
    }
}

//! `serve`.

use clap::{Args, Subcommand};

/// `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// A Redis server, or a master with replicas and sentinels.
    Redis(ServeRedis),
    /// A PostgreSQL server.
    Postgres(ServePostgres),
    /// A ZooKeeper server, or an ensemble.
    Zookeeper(ServeZookeeper),
}

/// `serve postgres`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServePostgres {
    /// The port; 0 chooses a free one.
    #[arg(long, default_value_t = 5432)]
    pub port: u16,
    /// The address that is listened on. Anybody who can reach it can do everything: there
    /// are no passwords.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

/// `serve redis`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServeRedis {
    /// The port; replicas take those after it. 0 chooses free ones.
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// So many servers follow it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub replicas: u16,
    /// So many sentinels watch them as `mymaster`, on the ports from 26379 on; with
    /// `--port 0` on free ones.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub sentinels: u16,
    /// The address that is listened on. Anybody who can reach it can do everything: there
    /// are no passwords.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

/// `serve zookeeper`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServeZookeeper {
    /// The port for clients; further servers take those after it. 0 chooses free ones.
    #[arg(long, default_value_t = 2181)]
    pub port: u16,
    /// How many servers are the ensemble; they talk to each other on free ports.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub servers: u8,
    /// The address that is listened on. Anybody who can reach it can do everything that
    /// access lists do not forbid.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

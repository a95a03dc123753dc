//! `redis` for storms: everything is the published crate's, but for [`Client`], which opens
//! its connections from the machine on which the calling code runs.
//!
//! The published client asks tokio for its sockets, and there is no way to hand it others. A
//! library that takes a `redis::Client`, as `rslock` does, would reach for the real network.
//! What of `Client` is not here does not compile: better than a real socket in a storm.

use std::io;
use std::time::Duration;

use published::aio::MultiplexedConnection;

pub use published::*;

/// How long the published client tries to connect, where nothing else is said.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A server's address, and how to log in there.
#[derive(Clone, Debug)]
pub struct Client {
    info: ConnectionInfo,
}

impl Client {
    /// A client of the server that `params` name. Nothing is connected yet.
    ///
    /// # Errors
    /// When the address cannot be read.
    pub fn open<T: IntoConnectionInfo>(params: T) -> RedisResult<Client> {
        Ok(Client { info: params.into_connection_info()? })
    }

    /// A connection of its own, within the published client's default timeout.
    ///
    /// # Errors
    /// What the network says, and that it took too long.
    pub async fn get_multiplexed_async_connection(&self) -> RedisResult<MultiplexedConnection> {
        let ConnectionAddr::Tcp(host, port) = self.info.addr() else {
            return Err(RedisError::from(io::Error::other("only TCP is in storms")));
        };
        let (node, address) = (lockstorm_ground::node(), format!("{host}:{port}"));
        let opening = async {
            let stream = node.connect(&address).await?;
            let config = AsyncConnectionConfig::new();
            let login = self.info.redis_settings();
            let (connection, driver) =
                MultiplexedConnection::new_with_config(login, stream, config).await?;
            node.spawn("redis-driver", Box::pin(driver));
            Ok(connection)
        };
        match tokio::time::timeout(CONNECTION_TIMEOUT, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(RedisError::from(io::Error::from(io::ErrorKind::TimedOut))),
        }
    }
}

//! A pooler before PostgreSQL, in transaction mode: many clients share few sessions of a
//! server, each for a transaction at a time.
//!
//! It does what PgBouncer 1.23 documents for `pool_mode = transaction` and its defaults, but for
//! these: a login that failed is tried again as soon as somebody asks (`server_login_retry = 0`),
//! sessions do not age (`server_lifetime = 0`, `server_idle_timeout = 0`), a session ends if a
//! request to cancel on it is not seen through in time, nobody is asked for a password, and there
//! is no console. Prepared statements are not tracked, which is the default of 1.23
//! (`max_prepared_statements = 0`).
//!
//! A client has a server's session from the first message of a transaction until all that it
//! has asked is answered and no transaction is open, and the next transaction runs in
//! whichever session was used last. What belongs to a session and not to a transaction is
//! therefore not the client's: a session's advisory locks and prepared statements stay behind
//! and are found by whoever comes next, LISTEN hears nothing, and SET is everybody's, but for
//! the six parameters that are tracked ([`TRACKED`]): what a client has of these is set
//! before its transaction where the session has something else. Nothing resets a session
//! between clients.
//!
//! A client that leaves within a transaction takes the session with it, as does one whose
//! session ends; one that leaves while it waits has asked nothing. There is a pool for each user
//! and database.
//!
//! Order of things: the sessions and who waits for one in `pool`, a session at the server in
//! `backend`, a client in `client` with what it has asked in `outstanding`, requests to cancel in
//! `cancel`, bytes on their way in `outlet`.

mod backend;
mod cancel;
mod client;
mod outlet;
mod outstanding;
mod pool;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Listener;

use cancel::Link;
use pool::Pool;

/// The parameters of which a client finds its own in any session.
pub const TRACKED: [&str; 6] = [
    "DateStyle",
    "client_encoding",
    "TimeZone",
    "standard_conforming_strings",
    "application_name",
    "IntervalStyle",
];

/// How a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Settings of a pooler.
#[derive(Clone, Debug)]
pub struct PoolerSettings {
    /// Where it listens.
    pub port: u16,
    /// The server, `name:port`.
    pub server: String,
    /// How many sessions there are for a user and database (`default_pool_size`).
    pub pool_size: usize,
    /// How long a client waits for one (`query_wait_timeout`).
    pub wait_timeout: Duration,
    /// How long connecting to the server, and setting a client's parameters in a session, may
    /// take (`server_connect_timeout`).
    pub connect_timeout: Duration,
    /// How long a client's message may be, bytes.
    pub message_bytes: usize,
}

impl Default for PoolerSettings {
    fn default() -> Self {
        PoolerSettings {
            port: 6_432,
            server: "pg-1:5432".to_owned(),
            pool_size: 20,
            wait_timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(15),
            message_bytes: 16 * 1024 * 1024,
        }
    }
}

/// A pooler that has not been started.
#[derive(Debug)]
pub struct Pooler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Host,
    settings: PoolerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pools: BTreeMap<(String, String), Arc<Pool>>,
    clients: BTreeMap<i32, Key>,
    last_pid: i32,
    /// How often a session was given to a client.
    links: u64,
}

/// What a client was told for cancelling, and whom that would be for.
#[derive(Debug)]
struct Key {
    secret: i32,
    /// The session that it has.
    link: Option<Link>,
}

impl Pooler {
    /// A pooler on the machine `host`.
    pub fn new(host: Host, settings: PoolerSettings) -> Pooler {
        Pooler(Arc::new(Shared { host, settings, state: Mutex::default() }))
    }

    /// Serves until dropped.
    ///
    /// # Errors
    /// When the port cannot be listened on.
    pub async fn run(self) -> io::Result<()> {
        let listener = self.0.host.listen(self.0.settings.port).await?;
        self.run_on(listener).await
    }

    /// Serves on a listener that is there already, for callers that chose port 0.
    ///
    /// # Errors
    /// None yet: it never returns.
    pub async fn run_on(self, listener: Listener) -> io::Result<()> {
        let shared = self.0;
        loop {
            match listener.accept().await {
                Ok(stream) => {
                    let serving = client::serve(shared.clone(), stream);
                    shared.host.spawn("pooler-client", serving);
                }
                // Out of descriptors, or the peer is gone already.
                Err(_) => shared.host.sleep(ACCEPT_RETRY).await,
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, user: &str, database: &str) -> Arc<Pool> {
        let mut state = self.state();
        let made = state
            .pools
            .entry((user.to_owned(), database.to_owned()))
            .or_insert_with(|| Pool::new(self.host.clone(), self.settings.clone(), user, database));
        made.clone()
    }
}

//! What is decided about a server before it starts, and the one line of its
//! configuration file that outlives it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::codec::RequestLimits;
use super::persistence::Persistence;
use lockstorm_machine::disk::Disk;

/// A server's settings. The defaults are those of Redis 7.0, but for limits that
/// keep a simulated server small and for [`sync_delay`](Settings::sync_delay).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port that is listened on; 0 chooses a free one.
    pub port: u16,
    /// What a replica tells its master to call it in `INFO` and `ROLE`
    /// (`replica-announce-ip`): a node's name where addresses mean nothing to people.
    pub announced_name: Option<String>,
    /// How many connections are served at once (`maxclients`).
    pub max_clients: usize,
    /// What one client may send.
    pub requests: RequestLimits,
    /// How much may wait for a client that does not read, bytes; then it is closed.
    pub output_limit_bytes: usize,
    /// How much may wait for a client that is subscribed to channels, bytes; then it is
    /// closed (`client-output-buffer-limit pubsub`, its hard limit).
    pub subscriber_output_limit_bytes: usize,
    /// How much may wait for a replica, bytes; then it is closed
    /// (`client-output-buffer-limit replica`).
    pub replica_output_limit_bytes: usize,
    /// How much of the replication stream is kept for partial resynchronisations,
    /// bytes (`repl-backlog-size`).
    pub backlog_bytes: usize,
    /// How long the master waits for more replicas before a full resynchronisation
    /// (`repl-diskless-sync-delay`; 5 s in Redis, 0 here).
    pub sync_delay: Duration,
    /// After how much silence a replication link is given up (`repl-timeout`).
    pub replication_timeout: Duration,
    /// How often the master pings its replicas (`repl-ping-replica-period`).
    pub ping_period: Duration,
    /// How large a data set a replica accepts, and how much of its master's stream it
    /// keeps before it executes it, bytes.
    pub resync_limit_bytes: usize,
    /// How large the data set of a master may grow, bytes, as this server counts them
    /// (keys, values, 64 a key). Above it commands that may need memory are refused with
    /// OOM, as with `maxmemory` and the policy `noeviction`. Redis has no limit until
    /// `CONFIG SET maxmemory`, which works here too; the lower one holds.
    pub memory_bytes: usize,
    /// The master refuses writes with fewer good replicas (`min-replicas-to-write`).
    pub min_replicas_to_write: usize,
    /// A replica is good if it acknowledged so recently (`min-replicas-max-lag`).
    pub min_replicas_max_lag: Duration,
    /// The machine's disk; without one nothing is kept, and `SAVE` and its like are refused.
    pub disk: Option<Disk>,
    /// What is kept on it. (Redis takes snapshots by default; here nothing is kept.)
    pub persistence: Persistence,
    /// Whether clients may use `DEBUG` (`enable-debug-command`).
    pub debug_command: bool,
    /// How many instructions a script may run. Redis lets it run for ever and
    /// answers BUSY after 5 s; a simulation must end.
    pub script_instructions: u64,
    /// How much memory all scripts may use, bytes.
    pub script_memory_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            port: 6379,
            announced_name: None,
            max_clients: 10_000,
            requests: RequestLimits::default(),
            output_limit_bytes: 64 * 1024 * 1024,
            subscriber_output_limit_bytes: 32 * 1024 * 1024,
            replica_output_limit_bytes: 256 * 1024 * 1024,
            backlog_bytes: 1024 * 1024,
            sync_delay: Duration::ZERO,
            replication_timeout: Duration::from_secs(60),
            ping_period: Duration::from_secs(10),
            resync_limit_bytes: 512 * 1024 * 1024,
            memory_bytes: 256 * 1024 * 1024,
            min_replicas_to_write: 0,
            min_replicas_max_lag: Duration::from_secs(10),
            disk: None,
            persistence: Persistence::none(),
            debug_command: false,
            script_instructions: 10_000_000,
            script_memory_bytes: 8 * 1024 * 1024,
        }
    }
}

/// The `replicaof` line of a server's configuration file: without [`Persistence`] it is
/// all that a restarted server remembers. Shared between the incarnations of a node.
///
/// `REPLICAOF` rewrites it at once. (In Redis that takes a `CONFIG REWRITE`, which
/// Sentinel always sends with it.)
#[derive(Clone, Debug, Default)]
pub struct ConfigFile(Arc<Mutex<Option<Master>>>);

/// A master's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Its name or IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Master {
    /// As `name:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl ConfigFile {
    /// The file of a master.
    pub fn new() -> Self {
        ConfigFile::default()
    }

    /// The file of a replica of `host:port`.
    pub fn replica_of(host: impl Into<String>, port: u16) -> Self {
        let file = ConfigFile::new();
        file.set_master(Some(Master { host: host.into(), port }));
        file
    }

    /// Whom the server is to follow.
    pub fn master(&self) -> Option<Master> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rewrites the line.
    pub fn set_master(&self, master: Option<Master>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = master;
    }
}

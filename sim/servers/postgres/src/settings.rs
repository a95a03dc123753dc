//! What is decided about a server before it starts.

use std::collections::BTreeSet;
use std::time::Duration;

/// A server's settings. The defaults are those of PostgreSQL 15, but for limits that keep
/// a simulated server small.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port that is listened on; 0 chooses a free one.
    pub port: u16,
    /// How many connections are served at once (`max_connections`).
    pub max_connections: usize,
    /// How long a lock is waited for before a deadlock is looked for (`deadlock_timeout`).
    pub deadlock_timeout: Duration,
    /// How often the log of asynchronous commits is written (`wal_writer_delay`).
    pub wal_writer_delay: Duration,
    /// How long a standby is waited for before its connection is given up, and how long a
    /// standby waits for its primary (`wal_sender_timeout`, `wal_receiver_timeout`).
    pub replication_timeout: Duration,
    /// How long a standby waits before it asks its primary again
    /// (`wal_retrieve_retry_interval`).
    pub replication_retry: Duration,
    /// The primary that this server follows when its disk is empty: a standby.
    pub primary: Option<Primary>,
    /// The names of standbys that commits wait for (`synchronous_standby_names`,
    /// `FIRST 1`); `*` is any. Empty: none.
    pub synchronous_standby_names: Vec<String>,
    /// What a standby is called by its primary (`application_name` of its connection).
    pub name: String,
    /// How much one message of a client may hold, bytes.
    pub message_bytes: usize,
    /// How much a result may hold, bytes; a larger one is refused with 53200.
    pub result_bytes: usize,
    /// How much all rows may hold, bytes, as this server counts them, and how much one
    /// statement may make on the way to its result; 53200 beyond.
    pub memory_bytes: usize,
    /// The tables of whose rows observers are told.
    pub observed_tables: BTreeSet<String>,
    /// What statements cost.
    pub costs: Costs,
}

/// Where a primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its name or IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What work costs on the machine, beside what the disk and the network take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Processors that work for all backends.
    pub cores: usize,
    /// A statement that reads.
    pub read: Duration,
    /// A statement that writes or locks rows.
    pub write: Duration,
    /// Any other statement.
    pub other: Duration,
    /// Until a backend that waited for a lock runs again.
    pub wake_up: Duration,
    /// A new connection (the fork of a backend).
    pub connect: Duration,
}

impl Costs {
    /// Nothing costs anything: for servers on real ports, whose machine is real.
    pub const NONE: Costs = Costs {
        cores: 1,
        read: Duration::ZERO,
        write: Duration::ZERO,
        other: Duration::ZERO,
        wake_up: Duration::ZERO,
        connect: Duration::ZERO,
    };

    /// As measured with pgbench on PostgreSQL 15.
    pub const MEASURED: Costs = Costs {
        cores: 4,
        read: Duration::from_micros(60),
        write: Duration::from_micros(120),
        other: Duration::from_micros(50),
        wake_up: Duration::from_micros(150),
        connect: Duration::from_millis(3),
    };
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            port: 5432,
            max_connections: 100,
            deadlock_timeout: Duration::from_secs(1),
            wal_writer_delay: Duration::from_millis(200),
            replication_timeout: Duration::from_secs(60),
            replication_retry: Duration::from_secs(5),
            primary: None,
            synchronous_standby_names: Vec::new(),
            name: "walreceiver".to_owned(),
            message_bytes: 16 * 1024 * 1024,
            result_bytes: 64 * 1024 * 1024,
            memory_bytes: 256 * 1024 * 1024,
            observed_tables: BTreeSet::new(),
            costs: Costs::NONE,
        }
    }
}

//! A plan: everything that decides a run, as a value.
//!
//! A plan is drawn from a seed ([`Plan::from_seed`]), or read from TOML, or built in
//! a test; equal plans give equal runs. Times are written with units (`"250ms"`),
//! seeds in hex.
//!
//! Order of things: the value and its parts here; [`time`], [`rate`] and [`seed`] are
//! its scalars, [`anchor`] names events, [`keys`] is the table of all single
//! settings, [`mod@file`] reads and writes TOML with errors that point ([`mod@error`]),
//! [`capsule`] has a plan on one line, [`scenario`] has the named starting points,
//! [`draw`] draws faults and workloads from a seed, [`groups`] names the task groups of
//! each node, [`struck`] says whom a fault strikes, `without` takes nodes out, [`rules`] says
//! what makes a plan possible.

pub mod anchor;
pub mod capsule;
pub mod complaint;
pub mod draw;
pub mod error;
pub mod file;
pub mod groups;
pub mod keys;
mod limits;
pub mod postgres;
pub mod rate;
mod raw;
pub mod rules;
pub mod scenario;
pub mod seed;
pub mod struck;
pub mod time;
mod without;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use anchor::{Anchor, Operation, Phase, When};
pub use complaint::Complaint;
pub use draw::Draws;
pub use error::PlanError;
pub use postgres::{Expiry, Isolation, OptimisticCheck, StockPlace};
pub use rate::Ppm;
pub use seed::Seed;
pub use struck::{Struck, StruckMut};
pub use time::{Micros, SignedMicros};

/// Scalars of a plan are text in every format, read by `FromStr`.
macro_rules! serde_as_text {
    ($type:ty, $expected:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str($expected)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}
use serde_as_text;

/// Version of the plan schema. Files of other versions are refused.
pub const SCHEMA: u32 = 1;

/// How much of the fence the stock uses; DESIGN's definition in
/// [`lockstorm::stock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fence {
    /// Tokens are neither asked for nor looked at.
    #[default]
    Off,
    /// Only writes show and register tokens: not enough, see the tests.
    Write,
    /// Every guarded operation, reads included, shows and registers its token.
    Full,
}

/// A whole plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The named scenario it started from.
    pub scenario: String,
    /// Decides all draws: latencies, think times, jitter.
    pub seed: Seed,
    /// How long the storm blows; after it everything heals and liveness is checked.
    pub duration: Micros,
    /// How much of the fence is used.
    pub fence: Fence,
    /// The lock under test and its options.
    pub lock: LockPlan,
    /// Who is there.
    pub topology: Topology,
    /// What the clients do.
    pub workload: Workload,
    /// Clocks that are not true from the start.
    pub clocks: Vec<ClockPlan>,
    /// What goes wrong, in order of writing.
    pub faults: Vec<Fault>,
}

/// The lock under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlan {
    /// Its name, such as `redis`, or `none`.
    pub name: String,
    /// How long a grant lasts.
    pub lease: Micros,
    /// How much of the lease the holder leaves unused, parts per million of the lease.
    pub margin_ppm: u32,
    /// After this long without a reply a command has failed.
    pub command_timeout: Micros,
    /// A waiter asks again after a wait drawn between half of this and all of it.
    pub retry: Micros,
    /// What only some locks have.
    pub own: OwnOptions,
}

/// Options that only some locks have; see [`keys`] for which. The others leave them at
/// their defaults, and plans that do not are impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOptions {
    /// For how long at most a watchdog renews; `None` for ever.
    pub max_hold: Option<Micros>,
    /// How Redlock asks its servers.
    pub ask: Ask,
    /// How many replicas must have the record before `redis-wait` grants.
    pub wait_replicas: u16,
    /// How long they may take.
    pub wait_timeout: Micros,
    /// After so much silence a waiter in the queue of `redis-fair` is dead.
    pub waiter_timeout: Micros,
    /// When a row of `pg-lock-table` is over of itself.
    pub expiry: Expiry,
    /// What `pg-optimistic` asks for besides the version.
    pub check: OptimisticCheck,
    /// The isolation level of the transactions of `pg-optimistic`.
    pub isolation: Isolation,
    /// How many connections to the database a client may have open.
    pub connections: u16,
}

/// How many connections a client may have open that is not told.
pub const CONNECTIONS: u16 = 10;

/// How many sessions a PostgreSQL server has that is not told.
pub const MAX_CONNECTIONS: u16 = 100;

impl OwnOptions {
    /// Those of them that the lock of this name has, the others by default: a plan writes
    /// down the options of its own lock alone.
    fn only_of(self, lock: &str) -> OwnOptions {
        let none = OwnOptions::default();
        let waits = lock == "redis-wait";
        OwnOptions {
            max_hold: self.max_hold.filter(|_| lock == "redis-watchdog"),
            ask: if lock == "redlock" { self.ask } else { none.ask },
            wait_replicas: if waits { self.wait_replicas } else { none.wait_replicas },
            wait_timeout: if waits { self.wait_timeout } else { none.wait_timeout },
            waiter_timeout: match lock {
                "redis-fair" => self.waiter_timeout,
                _ => none.waiter_timeout,
            },
            expiry: if lock == "pg-lock-table" { self.expiry } else { none.expiry },
            check: if lock == "pg-optimistic" { self.check } else { none.check },
            isolation: if lock == "pg-optimistic" { self.isolation } else { none.isolation },
            connections: match lock.starts_with("pg-") {
                true => self.connections,
                false => none.connections,
            },
        }
    }
}

impl Default for OwnOptions {
    fn default() -> Self {
        OwnOptions {
            max_hold: None,
            ask: Ask::default(),
            wait_replicas: 1,
            wait_timeout: Micros::from_millis(200),
            waiter_timeout: Micros::from_secs(2),
            expiry: Expiry::default(),
            check: OptimisticCheck::default(),
            isolation: Isolation::default(),
            connections: CONNECTIONS,
        }
    }
}

/// How Redlock asks its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// One after another, always all of them.
    #[default]
    OneAfterAnother,
    /// All at once, until it is decided.
    Parallel,
}

/// What Redis servers keep on their disks, and so have when they start again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisPersistence {
    /// Nothing: a server that starts again is empty.
    #[default]
    None,
    /// Snapshots, by the rules of Redis 7.0: after an hour with one change, five minutes with
    /// a hundred, a minute with ten thousand.
    Rdb,
    /// An append-only file that is synchronised before every reply.
    AofAlways,
    /// An append-only file that is synchronised once a second.
    AofEverySecond,
    /// An append-only file that is synchronised when the kernel likes.
    AofNo,
}

impl RedisPersistence {
    /// All of them.
    pub const ALL: [RedisPersistence; 5] = [
        RedisPersistence::None,
        RedisPersistence::Rdb,
        RedisPersistence::AofAlways,
        RedisPersistence::AofEverySecond,
        RedisPersistence::AofNo,
    ];

    /// As written in plans.
    pub fn name(self) -> &'static str {
        match self {
            RedisPersistence::None => "none",
            RedisPersistence::Rdb => "rdb",
            RedisPersistence::AofAlways => "aof-always",
            RedisPersistence::AofEverySecond => "aof-everysec",
            RedisPersistence::AofNo => "aof-no",
        }
    }
}

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Redis servers `redis-1` (master at first) to `redis-n`.
    pub redis: u16,
    /// Whether they know nothing of each other: all masters, no replicas.
    pub independent: bool,
    /// What Redis servers keep on their disks.
    pub persistence: RedisPersistence,
    /// Sentinels `sentinel-1` to `sentinel-n`, of which a majority decides; none: nobody
    /// replaces a master.
    pub sentinels: u16,
    /// ZooKeeper servers `zk-1` to `zk-n`, of which a majority decides.
    pub zookeeper: u16,
    /// The unit of time of the ZooKeeper servers (`tickTime`).
    pub tick: Micros,
    /// PostgreSQL servers `pg-1` (primary at first) to `pg-n`.
    pub postgres: u16,
    /// How many sessions each of them has at most (`max_connections`).
    pub max_connections: u16,
    /// How many sessions `pooler-1`, a pooler in transaction mode, shares among the clients;
    /// 0: there is none, and clients connect to the server.
    pub pooler: u16,
    /// Clients `app-1` to `app-n`, but for those that are absent.
    pub apps: u16,
    /// The numbers of clients between them that are not there; never the last. What all
    /// others draw hangs on their names, so it is the same without these.
    pub absent: BTreeSet<u16>,
    /// Median one-way latency of every link.
    pub latency: Micros,
    /// Sigma of the lognormal latency, thousandths.
    pub latency_sigma_milli: u32,
    /// How long a sentinel lets an instance be silent before it takes it for down.
    pub down_after: Micros,
}

/// The client of this number.
fn app_node(number: u16) -> String {
    format!("app-{number}")
}

/// The node of the pooler.
pub const POOLER_NODE: &str = "pooler-1";

/// The node of the guarded stock; always there.
pub const STOCK_NODE: &str = "stock-1";

impl Topology {
    /// How many replicas there are at first.
    pub fn replicas(&self) -> u16 {
        if self.independent { 0 } else { self.redis.saturating_sub(1) }
    }

    /// `redis-1` to `redis-n`.
    pub fn redis_nodes(&self) -> Vec<String> {
        (1..=self.redis).map(|number| format!("redis-{number}")).collect()
    }

    /// `sentinel-1` to `sentinel-n`.
    pub fn sentinel_nodes(&self) -> Vec<String> {
        (1..=self.sentinels).map(|number| format!("sentinel-{number}")).collect()
    }

    /// `zk-1` to `zk-n`.
    pub fn zookeeper_nodes(&self) -> Vec<String> {
        (1..=self.zookeeper).map(|number| format!("zk-{number}")).collect()
    }

    /// `pg-1` to `pg-n`.
    pub fn postgres_nodes(&self) -> Vec<String> {
        (1..=self.postgres).map(|number| format!("pg-{number}")).collect()
    }

    /// Every server that may keep a lock: those of Redis, of ZooKeeper, of PostgreSQL.
    pub fn lock_servers(&self) -> Vec<String> {
        let mut servers = self.redis_nodes();
        servers.extend(self.zookeeper_nodes());
        servers.extend(self.postgres_nodes());
        servers
    }

    /// Where clients reach a server: at the pooler, if one stands before it.
    pub fn door_of(&self, server: &str) -> String {
        let is_behind = self.pooler > 0 && server.starts_with("pg-");
        if is_behind { POOLER_NODE.to_owned() } else { server.to_owned() }
    }

    /// Where clients reach the servers that may keep a lock.
    pub fn doors(&self) -> Vec<String> {
        self.lock_servers().iter().map(|server| self.door_of(server)).collect()
    }

    /// So many sentinels must agree that a master is down: a majority of them.
    pub fn quorum(&self) -> u16 {
        self.sentinels / 2 + 1
    }

    /// `app-1` to `app-n`, without those that are absent.
    pub fn app_nodes(&self) -> Vec<String> {
        let there = (1..=self.apps).filter(|number| !self.absent.contains(number));
        there.map(app_node).collect()
    }

    /// Every node: the Redis servers, the sentinels, the servers of ZooKeeper and of
    /// PostgreSQL, their pooler, the stock, the clients.
    pub fn nodes(&self) -> Vec<String> {
        let mut nodes = self.redis_nodes();
        nodes.extend(self.sentinel_nodes());
        nodes.extend(self.zookeeper_nodes());
        nodes.extend(self.postgres_nodes());
        nodes.extend((self.pooler > 0).then(|| POOLER_NODE.to_owned()));
        nodes.push(STOCK_NODE.to_owned());
        nodes.extend(self.app_nodes());
        nodes
    }
}

impl Plan {
    /// Whether the client on this node only reads.
    pub fn reads(&self, node: &str) -> bool {
        let apps = self.topology.app_nodes();
        let writers = apps.len().saturating_sub(usize::from(self.workload.readers));
        apps[writers..].iter().any(|app| app == node)
    }

    /// The same plan with nothing going wrong: no faults, true clocks.
    #[must_use]
    pub fn without_faults(mut self) -> Plan {
        self.faults.clear();
        self.clocks.clear();
        self
    }
}

/// What each client does: think, acquire, read the stock, work, sell a unit,
/// release; until the storm is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Units in stock, numbered from 1.
    pub units: u32,
    /// Between two acquires a client thinks for a time drawn from half of this to
    /// one and a half of it.
    pub think: Micros,
    /// In the critical section it works for a time drawn likewise.
    pub work: Micros,
    /// In so many of a thousand critical sections the work is slow …
    pub slow_per_mille: u32,
    /// … and takes a time drawn likewise around this.
    pub slow_work: Micros,
    /// How long a client waits for a busy lock.
    pub patience: Micros,
    /// Whether a client asks its guard for its own deadline before it sells.
    pub deadline_check: bool,
    /// How often a client acquires the lock again while it holds it, and gives it back as
    /// often: for locks that let their owner in again.
    pub reentries: u32,
    /// How many locks a client takes for one sale: one; or two, and then every second client
    /// takes them in the other order. Where no lock guards the stock in SQL, the orders are of
    /// two skus, in either order.
    pub locks: u32,
    /// Where the stock is.
    pub stock: StockPlace,
    /// How many buyers there are at each client, side by side.
    pub buyers: u16,
    /// How many connections a client's pool has, which its buyers share, where the stock is
    /// [`StockPlace::SqlPooled`].
    pub pool: u16,
    /// How many of the clients only read, of a lock that has a side for readers: the last
    /// ones. The others sell.
    pub readers: u16,
}

/// A clock that is not true from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockPlan {
    /// Whose.
    pub node: String,
    /// How far its wall clock is ahead, µs; negative for behind.
    pub offset_us: i64,
    /// How fast both its clocks run, ppm of deviation.
    pub rate_ppm: i64,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When it begins.
    pub when: When,
    /// How long it lasts; `None` until the storm is over, or for kinds that end by
    /// themselves. A crash lasts until the node is started again.
    pub lasts: Option<Micros>,
}

impl Fault {
    /// A fault of this kind that begins then and lasts until the storm is over, or ends
    /// by itself. A cancellation begins with its operation, whatever `when` says.
    pub fn new(kind: FaultKind, when: When) -> Fault {
        let when = kind.own_begin().unwrap_or(when);
        Fault { kind, when, lasts: None }
    }
}

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The program of a node dies and, when the fault ends, is started again.
    ProcessCrash {
        /// Whose.
        node: String,
    },
    /// The machine of a node dies and, when the fault ends, is started again.
    MachineCrash {
        /// Whose.
        node: String,
    },
    /// A node, or one of its task groups, stands still.
    Pause {
        /// Whose.
        node: String,
        /// One group only, such as `renewer`.
        group: Option<String>,
    },
    /// Messages between two sets of nodes do not arrive.
    Partition {
        /// One side.
        from: Vec<String>,
        /// The other.
        to: Vec<String>,
        /// Only messages from `from` to `to` are stopped.
        one_way: bool,
    },
    /// Messages between two sets of nodes, in both directions, take longer.
    SlowLink {
        /// One side.
        from: Vec<String>,
        /// The other.
        to: Vec<String>,
        /// By how much.
        extra: Micros,
    },
    /// A Redis master's replication output buffer does not drain.
    ReplicationStall {
        /// Whose.
        node: String,
    },
    /// A node's oscillator, and with it both its clocks, runs at another rate.
    ClockRate {
        /// Whose.
        node: String,
        /// Deviation, ppm.
        ppm: i64,
    },
    /// A node's wall clock jumps; when the fault ends it jumps back.
    ClockStep {
        /// Whose.
        node: String,
        /// By how much, µs; negative for backwards.
        by_us: i64,
    },
    /// Every established connection between two sets of nodes is reset. It is over at
    /// once.
    Reset {
        /// One side.
        from: Vec<String>,
        /// The other.
        to: Vec<String>,
    },
    /// A node's wall clock stands still; when the fault ends it is right again. The
    /// monotonic clock goes on.
    ClockFreeze {
        /// Whose.
        node: String,
    },
    /// Both clocks of a node run off their rate until the wall clock has gained, or lost,
    /// an amount: how a time daemon mends an offset. It keeps what it gained.
    ClockSlew {
        /// Whose.
        node: String,
        /// How much it gains, µs; negative for losing.
        by_us: i64,
        /// How fast, ppm of elapsed time.
        ppm: u32,
    },
    /// A client drops the future of one of its operations while it waits for something.
    Cancel {
        /// The client.
        node: String,
        /// `acquire` or `release`.
        operation: Operation,
        /// Which of them, counted as in an [`Anchor`].
        ordinal: u32,
        /// At the how-manieth time that the future is polled and not ready, from 1.
        suspension: u32,
        /// So long after it, by the node's own monotonic clock, unless the operation has
        /// come back by then.
        delay: Micros,
    },
    /// A client's own work stands still; what else runs on its node goes on.
    Hang {
        /// The client.
        node: String,
    },
    /// A standby becomes a primary, whether its primary lives or not, and takes writes from
    /// then on. What it has not received is not there; an old primary that lives goes on.
    Promote {
        /// The standby.
        node: String,
    },
    /// Every synchronisation and read of a node's disk takes longer.
    DiskSlow {
        /// Whose.
        node: String,
        /// By how much.
        extra: Micros,
    },
    /// A node's disk completes nothing.
    DiskStall {
        /// Whose.
        node: String,
    },
    /// Synchronisations of a node's disk fail.
    DiskError {
        /// Whose.
        node: String,
    },
}

impl FaultKind {
    /// The rate of a slew that names none, ppm: that of `adjtime` on Linux.
    pub const SLEW_PPM: u32 = 500;

    /// The operations whose future can be dropped.
    pub const CANCELLABLE: [Operation; 2] = [Operation::Acquire, Operation::Release];

    /// How long a fault of this kind lasts, where that follows from itself: a reset or a
    /// promotion is over at once, a slew when it has gained what it should. `None` for the others.
    pub fn own_length(&self) -> Option<Micros> {
        match self {
            FaultKind::Reset { .. } | FaultKind::Promote { .. } => Some(Micros(0)),
            FaultKind::ClockSlew { by_us, ppm, .. } => {
                let us = u128::from(by_us.unsigned_abs()) * 1_000_000;
                let us = us.div_ceil(u128::from((*ppm).max(1)));
                Some(Micros(u64::try_from(us).unwrap_or(u64::MAX)))
            }
            _ => None,
        }
    }

    /// When a fault of this kind begins, where that follows from itself: a cancellation
    /// with its operation. `None` for the others.
    pub fn own_begin(&self) -> Option<When> {
        let FaultKind::Cancel { node, operation, ordinal, .. } = self else { return None };
        let anchor = Anchor::new(node, *operation, *ordinal, Phase::Invoked);
        Some(When::After { anchor, delay: Micros(0) })
    }

    /// Whether a fault of this kind ends by itself, so that nobody says for how long.
    pub fn ends_by_itself(&self) -> bool {
        self.own_length().is_some() || matches!(self, FaultKind::Cancel { .. })
    }
}

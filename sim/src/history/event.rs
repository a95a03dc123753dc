//! The events of a run, schema version 1. `docs/history.md` tells of each, and
//! [`file`](super::file) reads and writes them.
//!
//! Three views of a lock are kept apart, because the gaps between them are the
//! bugs: the *record* at the server ([`What::RecordSet`] and its kin), the *belief*
//! of the client ([`What::AcquireReturned`], [`What::BeliefEnded`]), and the
//! *effects* at the resource ([`What::Effect`]).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use super::facts::{
    AcquireOutcome, BeliefEnd, FaultFamily, OrderAnswer, RecordLoss, Renewal, StockOperation,
};

/// A name that many events have: of a node (`redis-1`), a lock, an owner, an order. It is
/// shared, not copied.
pub type Name = Arc<str>;

/// The node at which records are that no single server keeps, but an ensemble of them: a
/// majority of the ZooKeeper servers `zk-1`, `zk-2` ….
pub const ENSEMBLE: &str = "zookeeper";

/// Whether the node of this name is one of the [`ENSEMBLE`]'s servers.
pub fn is_of_ensemble(node: &str) -> bool {
    node.starts_with("zk-")
}

/// The node at which units are sold out of a stock in SQL: whichever of the PostgreSQL servers
/// `pg-1`, `pg-2` … commits it.
pub const DATABASE: &str = "postgres";

/// The position of an event in its run, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub u64);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Its position in the run.
    pub id: EventId,
    /// When, in microseconds of true simulated time.
    pub at_us: u64,
    /// Where.
    pub node: Name,
    /// The event that directly led to this one, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventId>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// One client's try for a lock: the n-th acquire of that client, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attempt {
    /// The client, named like its node (`app-1`).
    pub client: Name,
    /// From 1.
    pub ordinal: u32,
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.client, self.ordinal)
    }
}

impl Attempt {
    /// Reads what [`Display`](std::fmt::Display) wrote: `app-1/3`. Owners in a storm
    /// are named so, and this is how a server's record finds its attempt.
    pub fn parse(text: &str) -> Option<Attempt> {
        let (client, ordinal) = text.rsplit_once('/')?;
        let ordinal = ordinal.parse().ok().filter(|ordinal| *ordinal > 0)?;
        if client.is_empty() {
            return None;
        }
        Some(Attempt { client: client.into(), ordinal })
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    // -- the client ---------------------------------------------------------
    /// The client asked for the lock.
    AcquireInvoked {
        /// Who asked. Asking again while it is held is a nested acquire.
        attempt: Attempt,
        /// Which lock.
        key: Name,
        /// Whether it is to be shared with other such (a reader's lock).
        #[serde(default, skip_serializing_if = "is_false")]
        shared: bool,
    },
    /// The acquire came back. `Granted` begins the client's belief.
    AcquireReturned {
        /// Who had asked.
        attempt: Attempt,
        /// Which lock.
        key: Name,
        /// How it went.
        #[serde(flatten)]
        outcome: AcquireOutcome,
    },
    /// The client stopped believing otherwise than by releasing.
    BeliefEnded {
        /// Whose belief.
        attempt: Attempt,
        /// Why.
        reason: BeliefEnd,
    },
    /// The client asked to release: its belief ends here.
    ReleaseInvoked {
        /// Whose grant.
        attempt: Attempt,
    },
    /// The release came back.
    ReleaseReturned {
        /// Whose grant.
        attempt: Attempt,
        /// How it went.
        release: lockstorm::lock::Release,
    },
    /// The client asked to renew.
    RenewInvoked {
        /// Whose grant.
        attempt: Attempt,
    },
    /// The renewal came back.
    RenewReturned {
        /// Whose grant.
        attempt: Attempt,
        /// How it went.
        #[serde(flatten)]
        renewal: Renewal,
    },

    // -- the lock's record at a server ---------------------------------------
    /// A client's request put the record there: the grant is applied.
    RecordSet {
        /// Which lock.
        key: Name,
        /// The owner written into it (an [`Attempt`] as text, for our clients).
        owner: Name,
        /// The lease, µs; `None` for a record that never expires.
        lease_us: Option<u64>,
        /// Whether others may hold such a record at the same time.
        #[serde(default, skip_serializing_if = "is_false")]
        shared: bool,
    },
    /// A transaction writes the owner's record and has still to commit: the lease of the record
    /// that is set by its commit counts from here.
    LeaseBegan {
        /// Which lock.
        key: Name,
        /// Whose.
        owner: Name,
    },
    /// A request waits in the lock's queue: it has reached the server.
    WaitBegan {
        /// Which lock.
        key: Name,
        /// Who waits.
        owner: Name,
    },
    /// A request waits in the lock's queue no more, and was not let in: its place was given
    /// up, or went with its session. Its client may not have heard of it.
    WaitEnded {
        /// Which lock.
        key: Name,
        /// Who waited.
        owner: Name,
    },
    /// A client's request found somebody else's record.
    RecordRefused {
        /// Which lock.
        key: Name,
        /// Who asked.
        owner: Name,
        /// Who has it.
        held_by: Name,
    },
    /// The owner renewed its lease.
    RecordExtended {
        /// Which lock.
        key: Name,
        /// Whose.
        owner: Name,
        /// From now, µs.
        lease_us: u64,
    },
    /// The owner's release removed the record.
    RecordReleased {
        /// Which lock.
        key: Name,
        /// Whose it was.
        owner: Name,
    },
    /// The server's own clock ended the lease and the record is gone.
    RecordExpired {
        /// Which lock.
        key: Name,
        /// Whose it was.
        owner: Name,
    },
    /// A replica applied the record.
    RecordReplicated {
        /// Which lock.
        key: Name,
        /// Whose.
        owner: Name,
    },
    /// A server that was away has read from its disk a record that it was not known to have:
    /// given up or taken away before, or written and told to nobody.
    RecordLoaded {
        /// Which lock.
        key: Name,
        /// Whose.
        owner: Name,
    },
    /// A replica applied the record's removal.
    RecordUnreplicated {
        /// Which lock.
        key: Name,
        /// Whose it was.
        owner: Name,
    },
    /// The record vanished without release or expiry.
    RecordLost {
        /// Which lock.
        key: Name,
        /// Whose it was.
        owner: Name,
        /// How.
        how: RecordLoss,
    },
    /// The server declared a session expired: whatever it held is promised no longer.
    SessionExpired {
        /// Which session.
        session: String,
        /// What it held, as (lock, owner).
        records: Vec<(Name, Name)>,
    },

    // -- the cluster ---------------------------------------------------------
    /// A server became master.
    Promoted {
        /// Its replication offset at that moment, bytes.
        offset: u64,
        /// The lock records that it has, as (lock, owner): whoever holds a lock and
        /// is not here has lost its record.
        records: Vec<(Name, Name)>,
    },
    /// A server was told to follow another.
    Demoted {
        /// Whom it follows now, `name:port`.
        master: String,
    },
    /// A replica took over its master's whole data set.
    Resynchronised {
        /// Its master, `name:port`.
        master: String,
        /// The offset from which it follows, bytes.
        offset: u64,
    },
    /// A sentinel, and with it enough others, gave up on the master (`+odown`).
    MasterDown {
        /// Whom, `name:port`.
        master: String,
    },
    /// A sentinel was elected to replace the master (`+elected-leader`).
    LeaderElected {
        /// In which epoch: of each there is one.
        epoch: u64,
        /// Who voted for it, itself included.
        voters: Vec<String>,
    },
    /// A sentinel names a new master to clients (`+switch-master`).
    MasterSwitched {
        /// Whom, `name:port`.
        from: String,
        /// To whom, `name:port`.
        to: String,
    },

    /// A quorum follows this server of an ensemble: it orders all changes from here on.
    Leading {
        /// Of each epoch there is one leader.
        epoch: u64,
    },
    /// This server of an ensemble leads no more.
    SteppedDown {
        /// Its epoch.
        epoch: u64,
        /// Why, for people.
        how: String,
    },
    /// The servers of an ensemble broke what their broadcast promises: all apply the same
    /// changes in the same order, and none that was acknowledged is lost.
    BroadcastBroken {
        /// How, for people.
        how: String,
    },

    /// How far a server has got in its replication stream.
    ReplicationPosition {
        /// Bytes, or the log's last entry.
        offset: u64,
    },

    // -- the resource ----------------------------------------------------------
    /// A guarded operation reached the stock.
    Effect {
        /// The owner shown (an [`Attempt`] as text).
        owner: Name,
        /// The token shown.
        token: Option<u64>,
        /// What was asked, and for a read, what was answered.
        #[serde(flatten)]
        operation: StockOperation,
        /// Whether the resource accepted it.
        accepted: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<Box<str>>,
    },
    /// The stock's books once everything is quiet: the durable truth.
    Ledger {
        /// How many units there were, numbered from 1.
        units: u32,
        /// Every sale: unit, order.
        sales: Vec<(u32, Name)>,
    },
    /// The stock's own counter once everything is quiet, where it is kept beside the
    /// books.
    StockCounted {
        /// How many units there were.
        units: u32,
        /// How many it says are left; below zero is more than oversold.
        left: i64,
        /// How many are set aside.
        reserved: u32,
    },
    /// A buyer was told what became of an order.
    OrderReturned {
        /// The order's name.
        order: Name,
        /// What the buyer was told.
        answer: OrderAnswer,
    },

    // -- messages ------------------------------------------------------------
    /// A message left the event's node.
    MessageSent {
        /// To whom.
        to: Name,
        /// What it was, for people.
        message: String,
    },
    /// A message arrived at the event's node; its cause is the sending.
    MessageDelivered {
        /// From whom.
        from: Name,
    },
    /// A message will not arrive; its cause is the sending.
    MessageLost {
        /// Why, for people.
        how: String,
    },

    // -- nodes, faults, clocks -----------------------------------------------
    /// A node began (again).
    NodeStarted {
        /// From 1; each start after a crash is a new incarnation.
        incarnation: u32,
    },
    /// A node ended.
    NodeCrashed {
        /// Whether the machine went with it, and with it all bytes in its kernel.
        machine: bool,
    },
    /// A node's program ended by itself, such as a server that cannot write. It stays so until
    /// a crash of its node, or what its disk failed by, is over.
    ProgramEnded {
        /// Why, for people.
        how: String,
    },
    /// The node's clocks run so from here on, against true time.
    ClockChanged {
        /// How far the wall clock is ahead at this moment, µs.
        offset_us: i64,
        /// The deviation of its rate, ppm; -1,000,000 while it stands still, and then
        /// the monotonic clock goes on.
        rate_ppm: i64,
    },
    /// A fault of the plan began. `node` of the event is the fault's first target.
    FaultBegan {
        /// Its position in the plan, from 0.
        fault: usize,
        /// What sort of fault it is: what a checker may blame on it.
        family: FaultFamily,
        /// All nodes that it strikes; for faults of links, both sides.
        targets: Vec<Name>,
        /// For people.
        description: String,
    },
    /// A fault of the plan ended.
    FaultEnded {
        /// Its position in the plan, from 0.
        fault: usize,
    },
    /// A fault had its first observable effect.
    FaultTouched {
        /// Its position in the plan, from 0.
        fault: usize,
        /// What it did, for people.
        how: String,
    },
    /// Every fault has ended: from here on liveness is owed.
    Healed,
}

impl What {
    /// Whether it is one of those that a run has only where it is to be shown
    /// ([`Recorder::aside`](super::Recorder::aside)).
    pub fn is_aside(&self) -> bool {
        self.is_message() || matches!(self, What::ReplicationPosition { .. })
    }

    /// Whether it tells of a message.
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            What::MessageSent { .. } | What::MessageDelivered { .. } | What::MessageLost { .. }
        )
    }
}

/// For fields that are left out when they say nothing new.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

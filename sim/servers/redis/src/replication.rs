//! Replication: the master's stream and its backlog, the replicas' links, and the
//! change of roles.
//!
//! Order of things: [`Replication`] (what a server remembers of its stream, as
//! master and as replica), [`change_role`]; a master's side of a link is in
//! [`leader`], a replica's in [`follower`].
//!
//! As in Redis it is asynchronous: a write is answered before any replica has it,
//! waits in the output buffer of each replica (the program's memory), and is the
//! kernel's once the replica's task has written it.

pub(super) mod follower;
pub(super) mod leader;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::blocking;
use super::keyspace::{Hash, Kind};
use super::observe::Observation;
use super::settings::Master;
use super::state::{Position, Role, Shared, State, random_id};

/// Where an earlier history of this server ends.
#[derive(Debug, Clone)]
pub(super) struct Previous {
    pub(super) id: String,
    /// The first offset that is not of it.
    pub(super) end: u64,
}

/// A replica, as its master knows it.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) ip: String,
    pub(super) port: u16,
    /// What is to be written to it.
    output: Vec<u8>,
    /// What its task has taken and not yet written, bytes.
    in_hand: usize,
    pub(super) acked: u64,
    /// When it was last heard of, on this machine's monotonic clock.
    pub(super) heard_at: Duration,
    /// Whether it has been sent the whole data set.
    pub(super) online: bool,
    wake: Arc<Notify>,
    /// Its link is to be closed.
    closing: bool,
    /// It never says how far it is: nor is it expected to.
    is_old: bool,
}

impl Replica {
    pub(super) fn held_bytes(&self) -> u64 {
        (self.output.len() + self.in_hand) as u64
    }

    /// Has its task close the link.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.output = Vec::new();
        self.wake.notify_one();
    }
}

/// A replica's own link to its master.
#[derive(Debug, Default)]
pub(super) struct FollowerLink {
    /// The stream is being followed.
    pub(super) is_up: bool,
    /// A data set is being received.
    pub(super) is_syncing: bool,
    /// Connected, not yet up.
    is_shaking_hands: bool,
    pub(super) heard_at: Duration,
    pub(super) down_since: Option<Duration>,
}

impl FollowerLink {
    /// As `ROLE` tells it.
    pub(super) fn state_name(&self) -> &'static str {
        match self {
            FollowerLink { is_up: true, .. } => "connected",
            FollowerLink { is_syncing: true, .. } => "sync",
            FollowerLink { is_shaking_hands: true, .. } => "handshake",
            _ => "connect",
        }
    }
}

/// The stream of a server: the commands that made its data set, as bytes.
#[derive(Debug)]
pub(super) struct Replication {
    pub(super) id: String,
    pub(super) previous: Option<Previous>,
    /// Bytes of the stream so far.
    pub(super) offset: u64,
    /// Its last bytes; absent until somebody followed.
    backlog: Option<VecDeque<u8>>,
    backlog_limit: usize,
    pub(super) replicas: BTreeMap<u64, Replica>,
    /// The database that the stream's next command would act on.
    pub(super) selected: Option<usize>,
    /// The stall of the gate that was last told to the observer.
    pub(super) noted_stall: u64,
    is_asking: bool,
    pub(super) full_syncs: u64,
    pub(super) partial_syncs: u64,
    /// The database that the master's stream acts on, for a link that goes on.
    followed_database: usize,
}

impl Replication {
    pub(super) fn new(id: String, backlog_limit: usize) -> Self {
        Replication {
            id,
            previous: None,
            offset: 0,
            backlog: None,
            backlog_limit,
            replicas: BTreeMap::new(),
            selected: None,
            noted_stall: 0,
            is_asking: false,
            full_syncs: 0,
            partial_syncs: 0,
            followed_database: 0,
        }
    }

    /// A master was started again from a snapshot of this history: replicas can go on.
    pub(super) fn follow_on(&mut self, id: String, offset: u64) {
        self.previous = Some(Previous { id, end: offset + 1 });
        self.offset = offset;
        self.backlog = Some(VecDeque::new());
    }

    /// A replica was started again from a snapshot of this history of its master's.
    pub(super) fn resume(&mut self, id: String, offset: u64) {
        self.id = id;
        self.offset = offset;
        self.backlog = Some(VecDeque::new());
    }

    /// Whether the stream is kept: nobody follows a server that never had a replica.
    pub(super) fn is_fed(&self) -> bool {
        self.backlog.is_some()
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let Some(backlog) = &mut self.backlog else { return };
        self.offset += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(self.backlog_limit)..];
        let excess = (backlog.len() + kept.len()).saturating_sub(self.backlog_limit);
        backlog.drain(..excess);
        backlog.extend(kept);
        for replica in self.replicas.values_mut().filter(|replica| !replica.closing) {
            replica.output.extend_from_slice(bytes);
            replica.wake.notify_one();
        }
    }

    /// The offset of the backlog's first byte (the stream's first byte is 1, as in
    /// `INFO`), and its length.
    pub(super) fn backlog_extent(&self) -> (u64, usize) {
        match &self.backlog {
            None => (0, 0),
            Some(backlog) => (self.offset - backlog.len() as u64 + 1, backlog.len()),
        }
    }

    /// What the replica with most output waiting has waiting.
    pub(super) fn most_held_bytes(&self) -> Option<u64> {
        self.replicas.values().map(Replica::held_bytes).max().filter(|held| *held > 0)
    }

    /// How many replicas have acknowledged `offset`.
    pub(super) fn acknowledged(&self, offset: u64) -> usize {
        self.replicas.values().filter(|replica| replica.online && replica.acked >= offset).count()
    }

    /// How many replicas were heard of within `lag`.
    pub(super) fn good_replicas(&self, now: Duration, lag: Duration) -> usize {
        let good = |replica: &&Replica| {
            replica.online && now.saturating_sub(replica.heard_at).as_secs() <= lag.as_secs()
        };
        self.replicas.values().filter(good).count()
    }

    pub(super) fn ask_for_acknowledgement(&mut self) {
        self.is_asking = true;
    }

    /// The question to the replicas, if one is to be asked.
    pub(super) fn take_question(&mut self) -> Vec<u8> {
        if !std::mem::take(&mut self.is_asking) || self.replicas.is_empty() {
            return Vec::new();
        }
        b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n".to_vec()
    }

    /// The part of the stream from `position` on, if this server has all of it and
    /// the follower's history is this server's.
    fn continuation(&self, position: &Position) -> Option<Vec<u8>> {
        let from = position.from?;
        let same_history = position.id == self.id
            || self
                .previous
                .as_ref()
                .is_some_and(|previous| previous.id == position.id && from <= previous.end);
        let (first, length) = self.backlog_extent();
        let backlog = self.backlog.as_ref()?;
        if !same_history || from < first || from > first + length as u64 {
            return None;
        }
        let skipped = usize::try_from(from - first).ok()?;
        Some(backlog.range(skipped..).copied().collect())
    }

    fn close_replicas(&mut self) {
        self.replicas.values_mut().for_each(Replica::close);
    }
}

/// Makes this server a replica of `master`, or a master.
pub(super) fn change_role(shared: &Arc<Shared>, state: &mut State, master: Option<Master>) {
    let was_replica = state.is_replica();
    shared.config.set_master(master.clone());
    if let Some(task) = state.follower_task.take() {
        // Also closes its connection: the old master's stream ends here.
        shared.stop(task);
    }
    match master {
        None if was_replica => promote(shared, state),
        None => {}
        Some(master) => follow(shared, state, master, was_replica),
    }
}

fn promote(shared: &Arc<Shared>, state: &mut State) {
    state.role = Role::Master;
    state.role_epoch += 1;
    let offset = state.replication.offset;
    let id = std::mem::replace(&mut state.replication.id, random_id(&shared.host));
    state.replication.previous = Some(Previous { id, end: offset + 1 });
    // The next write names its database again.
    state.replication.selected = None;
    // Sub-replicas come back and go on under the new id.
    state.replication.close_replicas();
    let strings = strings(&state.databases);
    shared.observer.observe(&Observation::Promoted { offset, strings });
}

fn follow(shared: &Arc<Shared>, state: &mut State, master: Master, was_replica: bool) {
    shared.observer.observe(&Observation::Demoted { master: &master.address() });
    let now = shared.host.monotonic();
    state.role = Role::Replica {
        master: master.clone(),
        link: FollowerLink { heard_at: now, down_since: Some(now), ..FollowerLink::default() },
    };
    state.role_epoch += 1;
    if !was_replica {
        // Whoever waits, waits in vain.
        blocking::refuse_all(state);
        state.replication.followed_database = state.replication.selected.unwrap_or(0);
    }
    state.replication.close_replicas();
    let epoch = state.role_epoch;
    let id = state.draw_id();
    state.follower_task = Some(id);
    shared.spawn("redis-replica", id, follower::run(shared.clone(), master, epoch));
}

/// A lost key and its value, for the observer.
pub(super) type Strings<'a> = Vec<(&'a [u8], &'a [u8])>;

/// All keys, as far as their values are told.
pub(super) fn strings(databases: &[super::keyspace::Database]) -> Strings<'_> {
    let all = databases.iter().flat_map(|database| database.iter());
    all.filter_map(|(key, entry)| Some((&**key, entry.value.told()?))).collect()
}

/// The fields of all hashes: key, field, value.
pub(super) fn fields(databases: &[super::keyspace::Database]) -> Vec<(&[u8], &[u8], &[u8])> {
    let mut fields = Vec::new();
    for (key, entry) in databases.iter().flat_map(|database| database.iter()) {
        if let Some(hash) = Hash::of(&entry.value) {
            fields.extend(hash.iter().map(|(field, value)| (&**key, field, &**value)));
        }
    }
    fields
}

/// The keys of `old` that `new` has not, or has with another value.
fn lost<'a>(
    old: &'a [super::keyspace::Database],
    new: &[super::keyspace::Database],
) -> Strings<'a> {
    let mut lost = Strings::new();
    for (old, new) in old.iter().zip(new) {
        for (key, entry) in old.iter() {
            let value = entry.value.told();
            let kept = new.get(key).is_some_and(|entry| entry.value.told() == value);
            if let Some(value) = value
                && !kept
            {
                lost.push((key, value));
            }
        }
    }
    lost
}

//! Turns what servers observe into history: which of a Redis server's changes are
//! changes of the lock's record, which of the stock's decisions are effects. ZooKeeper's
//! servers are in [`zookeeper`], PostgreSQL's in [`postgres`].

mod broadcast;
mod naming;
pub mod postgres;
pub mod zookeeper;

pub use naming::Namer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use lockstorm::stock::{Decided, Decision, StockObserver};

use super::conductor::Conductor;
use crate::engine::world::{NodeId, World};
use crate::fault::Sign;
use crate::history::names::Names;
use crate::history::{Attempt, Name, RecordLoss, Recorder, StockOperation, What};
use crate::server::redis::observe::{Observation, Observer, Origin};
use crate::server::redis::sentinel::{self, About, SentinelObserver};

/// The queue of a lock: its key in braces, and this.
const QUEUE: &str = "}:queue";

/// How many names a server's watch remembers: a few attempts are under way at once.
const NAMES: usize = 32;

/// The conductor, once there is one: the servers' observers are made before it.
pub type ConductorCell = Arc<OnceLock<Weak<Conductor>>>;

/// Watches one Redis server of a storm, through all its incarnations.
pub struct RedisWatch {
    node: NodeId,
    name: Name,
    world: Arc<World>,
    recorder: Recorder,
    conductor: ConductorCell,
    /// The lock records in the server's memory, key → owner.
    records: Mutex<BTreeMap<Name, Name>>,
    /// The same of hashes. A promotion leaves it as it is: it changes nothing in memory.
    hashes: Mutex<Hashes>,
    names: Mutex<Names>,
    /// Whose is whose, where records do not say so.
    namer: Namer,
    /// Whether how far replication is is noted.
    notes_offsets: bool,
}

/// What is known of locks that are kept in hashes.
#[derive(Default)]
struct Hashes {
    /// How often its owner is inside a lock, by its key.
    counts: BTreeMap<Name, (Name, i64)>,
    /// Who stands in the queue of a lock, by its key.
    queued: BTreeMap<Name, BTreeSet<Name>>,
}

impl RedisWatch {
    /// A watch over `node`.
    pub fn new(
        node: NodeId,
        world: Arc<World>,
        recorder: Recorder,
        conductor: ConductorCell,
        namer: Namer,
    ) -> Self {
        let name = world.name(node);
        let names = Mutex::new(Names::with_room(NAMES));
        let notes_offsets = recorder.keeps_asides();
        RedisWatch {
            node,
            name,
            world,
            recorder,
            conductor,
            records: Mutex::default(),
            hashes: Mutex::default(),
            names,
            namer,
            notes_offsets,
        }
    }

    /// The server's program starts: what an earlier incarnation knew is gone.
    pub fn started(&self) {
        let lost = std::mem::take(&mut *self.lock());
        *self.hashes() = Hashes::default();
        for (key, owner) in lost {
            self.say(What::RecordLost { key, owner, how: RecordLoss::Crash });
        }
    }

    /// The server's program has started and read what an earlier incarnation kept. What is
    /// not in it is gone; what came back was given up by its owner, or taken from it, before.
    fn loaded(&self, strings: &[(&[u8], &[u8])], fields: &[(&[u8], &[u8], &[u8])]) {
        self.replace_hashes(fields);
        let held: BTreeMap<Name, Name> = self.locks_among(strings).into_iter().collect();
        let before = std::mem::replace(&mut *self.lock(), held.clone());
        for (key, owner) in &before {
            if held.get(key) != Some(owner) {
                let (key, owner) = (key.clone(), owner.clone());
                self.say(What::RecordLost { key, owner, how: RecordLoss::Crash });
            }
        }
        for (key, owner) in held {
            if before.get(&key) != Some(&owner) {
                self.say(What::RecordLoaded { key, owner });
            }
        }
    }

    fn say(&self, what: What) {
        self.recorder.record(&self.name, what);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Name>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client at `address` is the one that an owner's name speaks of.
    fn is_owners_own(&self, address: SocketAddr, owner: &str) -> bool {
        let IpAddr::V4(address) = address.ip() else { return false };
        let Some(node) = self.world.node_at(address) else { return false };
        match Attempt::parse(owner) {
            Some(attempt) => attempt.client == self.world.name(node),
            // Foreign owners do not say which client they are.
            None => true,
        }
    }

    fn set(
        &self,
        origin: Origin,
        key: Name,
        previous: Option<Name>,
        owner: Name,
        lease_us: Option<u64>,
    ) {
        self.lock().insert(key.clone(), owner.clone());
        if let (Origin::Client(_), Some(previous)) = (origin, previous)
            && previous != owner
        {
            let how = RecordLoss::Overwritten;
            self.say(What::RecordLost { key: key.clone(), owner: previous, how });
        }
        self.say(match origin {
            Origin::Client(_) => What::RecordSet { key, owner, lease_us, shared: false },
            Origin::Master => What::RecordReplicated { key, owner },
        });
    }

    fn deleted(&self, origin: Origin, key: Name, owner: Name) {
        self.lock().remove(&key);
        self.say(match origin {
            Origin::Master => What::RecordUnreplicated { key, owner },
            Origin::Client(address) if self.is_owners_own(address, &owner) => {
                self.over(&owner);
                What::RecordReleased { key, owner }
            }
            Origin::Client(_) => What::RecordLost { key, owner, how: RecordLoss::Deleted },
        });
    }

    fn hashes(&self) -> std::sync::MutexGuard<'_, Hashes> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A field of a hash was set or removed: an owner's count in a lock's record, a
    /// waiter's place in its queue.
    fn field(&self, origin: Origin, key: &[u8], field: &[u8], value: Option<&[u8]>) {
        if let Some(key) = self.queue_key(key) {
            self.place(origin, key, self.owner(field), value.is_some());
        } else if let Some(key) = self.lock_key(key) {
            let owner = match value {
                Some(_) => self.written(origin, &key, field, None),
                None => self.owner(field),
            };
            self.count(origin, key, owner, value.map_or(0, count_of));
        }
    }

    /// The data set was replaced: what is known of hashes is what it says, and none of it
    /// is news.
    fn replace_hashes(&self, fields: &[(&[u8], &[u8], &[u8])]) {
        let mut new = Hashes::default();
        for (key, field, value) in fields {
            let owner = self.owner(field);
            if let Some(key) = self.queue_key(key) {
                new.queued.entry(key).or_default().insert(owner);
            } else if let Some(key) = self.lock_key(key) {
                new.counts.insert(key, (owner, count_of(value)));
            }
        }
        *self.hashes() = new;
    }

    /// An owner is inside so many times. Coming in is told, as a record that is set (the
    /// lease follows); going out is not, until the record is deleted.
    fn count(&self, origin: Origin, key: Name, owner: Name, count: i64) {
        let before = self.hashes().counts.insert(key.clone(), (owner.clone(), count));
        let before = before.filter(|(known, _)| *known == owner).map_or(0, |(_, count)| count);
        if count > before {
            self.set(origin, key, None, owner, None);
        }
    }

    /// A waiter has a place in the queue, or has none any more.
    fn place(&self, origin: Origin, key: Name, owner: Name, has_one: bool) {
        let mut hashes = self.hashes();
        let queue = hashes.queued.entry(key.clone()).or_default();
        let is_new = if has_one { queue.insert(owner.clone()) } else { !queue.remove(&owner) };
        drop(hashes);
        if has_one && is_new && matches!(origin, Origin::Client(_)) {
            self.say(What::WaitBegan { key, owner });
        }
    }

    /// A key is gone, and with it what it counted.
    fn gone(&self, key: &[u8]) {
        let mut hashes = self.hashes();
        if let Some(key) = self.queue_key(key) {
            hashes.queued.remove(&key);
        } else if let Some(key) = self.lock_key(key) {
            hashes.counts.remove(&key);
        }
    }

    /// The name of a lock, if the key is its queue.
    fn queue_key(&self, key: &[u8]) -> Option<Name> {
        let key = key.strip_prefix(b"{")?.strip_suffix(QUEUE.as_bytes())?;
        self.lock_key(key)
    }

    fn locks_among(&self, strings: &[(&[u8], &[u8])]) -> Vec<(Name, Name)> {
        let locks = strings.iter();
        locks.filter_map(|(key, value)| Some((self.lock_key(key)?, self.owner(value)))).collect()
    }

    fn promoted(&self, offset: u64, strings: &[(&[u8], &[u8])]) {
        let records = self.locks_among(strings);
        *self.lock() = records.iter().cloned().collect();
        self.say(What::Promoted { offset, records });
    }

    fn resynchronised(
        &self,
        master: &str,
        offset: u64,
        lost: &[(&[u8], &[u8])],
        strings: &[(&[u8], &[u8])],
        fields: &[(&[u8], &[u8], &[u8])],
    ) {
        self.replace_hashes(fields);
        let held = self.locks_among(strings);
        *self.lock() = held.iter().cloned().collect();
        self.say(What::Resynchronised { master: master.to_owned(), offset });
        for (key, owner) in self.locks_among(lost) {
            self.say(What::RecordLost { key, owner, how: RecordLoss::Resync });
        }
        for (key, owner) in held {
            self.say(What::RecordReplicated { key, owner });
        }
    }
}

impl Observer for RedisWatch {
    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Set { origin, key, previous, value, expires_at_ms, now_ms } => {
                if let Some(key) = self.lock_key(key) {
                    let lease_us = expires_at_ms.map(|at| lease_us(at, *now_ms));
                    let before = previous.map(|previous| self.recorded(&key, previous));
                    let owner = self.written(*origin, &key, value, lease_us);
                    self.set(*origin, key, before, owner, lease_us);
                }
            }
            Observation::SetRefused { origin, key, value, present } => {
                if let Some(key) = self.lock_key(key) {
                    let held_by = self.recorded(&key, present);
                    let owner = self.asker(*origin, &key, value);
                    self.say(What::RecordRefused { key, owner, held_by });
                }
            }
            Observation::Expiry {
                origin: Origin::Client(_),
                key,
                value,
                expires_at_ms,
                now_ms,
            } => {
                if let (Some(key), Some(owner), Some(at)) =
                    (self.lock_key(key), value, expires_at_ms)
                {
                    let lease_us = lease_us(*at, *now_ms);
                    let owner = self.recorded(&key, owner);
                    self.say(What::RecordExtended { key, owner, lease_us });
                }
            }
            Observation::Field { origin, key, field, value } => {
                self.field(*origin, key, field, *value);
            }
            Observation::Deleted { origin, key, value } => {
                self.gone(key);
                if let (Some(key), Some(owner)) = (self.lock_key(key), value) {
                    let owner = self.recorded(&key, owner);
                    self.deleted(*origin, key, owner);
                }
            }
            Observation::Expired { key, value } => {
                self.gone(key);
                if let (Some(key), Some(owner)) = (self.lock_key(key), value) {
                    let owner = self.recorded(&key, owner);
                    self.lock().remove(&key);
                    self.over(&owner);
                    self.say(What::RecordExpired { key, owner });
                }
            }
            Observation::Evicted { key, value } => {
                self.gone(key);
                if let (Some(key), Some(owner)) = (self.lock_key(key), value) {
                    let owner = self.recorded(&key, owner);
                    self.lock().remove(&key);
                    self.say(What::RecordLost { key, owner, how: RecordLoss::Deleted });
                }
            }
            Observation::Promoted { offset, strings } => self.promoted(*offset, strings),
            Observation::Demoted { master } => {
                self.say(What::Demoted { master: (*master).to_owned() });
            }
            Observation::Resynchronised { master, offset, lost, strings, fields } => {
                self.resynchronised(master, *offset, lost, strings, fields);
            }
            Observation::Loaded { strings, fields } => self.loaded(strings, fields),
            Observation::OutputHeld { .. } => {
                if let Some(conductor) = self.conductor.get().and_then(Weak::upgrade) {
                    conductor.notice(Sign::OutputHeld { node: self.node });
                }
            }
            Observation::Fed { offset } if self.notes_offsets => {
                self.recorder.aside(
                    &self.name,
                    None,
                    What::ReplicationPosition { offset: *offset },
                );
            }
            Observation::Fed { .. } | Observation::Expiry { origin: Origin::Master, .. } => {}
        }
    }
}

/// How often an owner is inside, as a lock's record has it.
fn count_of(value: &[u8]) -> i64 {
    std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn lease_us(expires_at_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(expires_at_ms.saturating_sub(now_ms)).unwrap_or(0).saturating_mul(1_000)
}

/// Watches the stock.
pub struct StockWatch {
    name: Name,
    recorder: Recorder,
}

impl StockWatch {
    /// A watch over the stock on this node.
    pub fn new(name: Name, recorder: Recorder) -> Self {
        StockWatch { name, recorder }
    }
}

impl StockObserver for StockWatch {
    fn decided(&self, decision: &Decision<'_>) {
        let operation = match decision.operation {
            // An answer from the books is no new effect.
            Decided::Sell { repeated: true, .. } => return,
            Decided::Sell { unit, order, .. } => StockOperation::Sell { unit, order: order.into() },
            Decided::Read(level) => StockOperation::Read {
                left: level.map_or(0, |level| level.left),
                next_unit: level.and_then(|level| level.next_unit),
            },
        };
        self.recorder.record(
            &self.name,
            What::Effect {
                owner: decision.shown.owner.as_str().into(),
                token: decision.shown.token.map(|token| token.0),
                operation,
                accepted: decision.accepted(),
                refusal: decision.refusal.clone().map(Into::into),
            },
        );
    }
}

/// Watches one sentinel.
pub struct SentinelWatch {
    name: Name,
    recorder: Recorder,
}

impl SentinelWatch {
    /// A watch over the sentinel on this node.
    pub fn new(name: Name, recorder: Recorder) -> Self {
        SentinelWatch { name, recorder }
    }
}

impl SentinelObserver for SentinelWatch {
    fn happened(&self, event: &sentinel::Event) {
        let what = match event.about.clone() {
            About::Nothing => return,
            About::Down { master } => What::MasterDown { master },
            About::Elected { epoch, voters } => What::LeaderElected { epoch, voters },
            About::Switched { from, to } => What::MasterSwitched { from, to },
        };
        self.recorder.record(&self.name, what);
    }
}

impl std::fmt::Debug for RedisWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RedisWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StockWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StockWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SentinelWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SentinelWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

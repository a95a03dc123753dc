//! What the servers of a ZooKeeper ensemble do, as history: which znodes are places in a
//! lock's queue, whose turn it is, whose session has ended.
//!
//! The record of a grant is the *turn* of a place: it is set when nobody that it waits for is
//! before it any more, and is gone with the place. It stands at the ensemble, not at a server:
//! the node of these events is [`ENSEMBLE`]. What a server is and does (it leads, it steps
//! down) is told at its own node.
//!
//! An ensemble tells of each change of a znode once, by its leader, when it is decided. So one
//! watch for all servers is enough for what the locks do; what each server does with each
//! transaction is looked at by [`Broadcast`]. What an election decided shows in what the new
//! leader begins with: places that came or went without anybody's word are told then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::broadcast::Broadcast;
use crate::history::event::ENSEMBLE;
use crate::history::{Name, RecordLoss, Recorder, What};
use crate::server::zookeeper::observe::{Observation, Observer, Znode};
use crate::storm::served::roll::{Line, Roll};

/// Where the locks are kept: the folders of locks and of elections.
const FOLDERS: [&str; 2] = ["/lockstorm/locks/", "/lockstorm/elections/"];

/// A transaction's number begins with its leader's epoch.
const EPOCH_SHIFT: u32 = 32;

/// A place in a queue.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    /// With whose end it goes.
    session: i64,
    owner: Name,
    shared: bool,
    /// Whether its turn has been told of.
    has_turn: bool,
}

/// What is known of an ensemble.
#[derive(Default)]
struct Known {
    /// The places of each lock, in their order.
    queues: BTreeMap<Name, Vec<Place>>,
    /// Sessions that the leader has given up, until their end is decided.
    expired: BTreeSet<i64>,
    /// The newest leader and its epoch. One that has been replaced and does not know it yet, as
    /// after a pause, tells of what the new one has told already.
    leader: Option<(i64, Name)>,
    broadcast: Broadcast,
}

/// Watches the servers of one ensemble, through all their incarnations.
pub struct EnsembleWatch {
    recorder: Recorder,
    ensemble: Name,
    known: Mutex<Known>,
    /// Who is who, where the clients are programs outside.
    roll: Option<Arc<Roll>>,
}

impl EnsembleWatch {
    /// A watch over an ensemble.
    pub fn new(recorder: Recorder) -> Arc<Self> {
        EnsembleWatch::serving(recorder, None)
    }

    /// A watch over an ensemble whose clients are programs outside, if there is a roll of them.
    pub fn serving(recorder: Recorder, roll: Option<Arc<Roll>>) -> Arc<Self> {
        let (ensemble, known) = (ENSEMBLE.into(), Mutex::default());
        Arc::new(EnsembleWatch { recorder, ensemble, known, roll })
    }

    /// What the server `name` tells.
    pub fn of(self: &Arc<Self>, name: Name) -> Arc<ServerWatch> {
        Arc::new(ServerWatch { ensemble: self.clone(), name })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all of it, in this order. Nothing is locked: an event may set off a fault.
    fn say_all(&self, events: Vec<What>) {
        for what in events {
            self.recorder.record(&self.ensemble, what);
        }
    }

    /// Whether a transaction is of a leader that has been replaced.
    fn is_late(&self, zxid: i64) -> bool {
        self.known().leader.as_ref().is_some_and(|(epoch, _)| zxid >> EPOCH_SHIFT < *epoch)
    }

    fn created(&self, path: &str, data: &[u8], session: i64) {
        let Some((key, shared)) = self.place_of(path) else { return };
        let is_known = |queue: &Vec<Place>| queue.iter().any(|place| place.path == path);
        if self.known().queues.get(&key).is_some_and(is_known) {
            return;
        }
        let taken = self.roll.as_ref();
        let taken = taken.and_then(|roll| roll.place_taken(session, path, &key, shared));
        let owner = taken.unwrap_or_else(|| String::from_utf8_lossy(data).into_owned().into());
        let mut known = self.known();
        let queue = known.queues.entry(key.clone()).or_default();
        let path = path.to_owned();
        queue.push(Place { path, session, owner: owner.clone(), shared, has_turn: false });
        let mut events = self.turns(&key, queue);
        drop(known);
        if events.is_empty() {
            events.push(What::WaitBegan { key, owner });
        }
        self.say_all(events);
    }

    /// A new leader, or a server that stands alone, begins with these znodes and sessions. A
    /// place that is gone went with its session if that is gone too, else was given up; that
    /// nothing is lost in an election is for [`Broadcast`] to see.
    fn inherited(&self, znodes: &[Znode<'_>], sessions: &[i64]) {
        let there: BTreeSet<&str> = znodes.iter().map(|znode| znode.path).collect();
        let mut events = Vec::new();
        {
            let known = &mut *self.known();
            for (key, queue) in &mut known.queues {
                let is_there = |place: &Place| there.contains(&*place.path);
                let (left, gone) = std::mem::take(queue).into_iter().partition(is_there);
                *queue = left;
                for place in gone {
                    self.left(key, &place);
                    let has_ended = sessions.binary_search(&place.session).is_err();
                    let end = if has_ended && known.expired.contains(&place.session) {
                        End::Expired
                    } else {
                        End::GivenUp
                    };
                    events.extend(ended(key, place, end));
                }
                events.extend(self.turns(key, queue));
            }
            // What an earlier leader meant to end and did not begins anew.
            known.expired.clear();
        }
        self.say_all(events);
        if let Some(roll) = &self.roll {
            roll.sessions_live(sessions);
        }
        let mut new: Vec<&Znode<'_>> = znodes.iter().filter(|znode| znode.owner != 0).collect();
        new.sort_by_key(|znode| znode.czxid);
        for znode in new {
            self.created(znode.path, znode.data, znode.owner);
        }
    }

    /// `session` deleted a place of `owner`, or did not outlive it.
    fn deleted(&self, path: &str, session: i64, owner: i64) {
        let Some((key, _)) = self.place_of(path) else { return };
        let mut known = self.known();
        let end = if known.expired.contains(&session) {
            End::Expired
        } else if session == owner {
            End::GivenUp
        } else {
            End::TakenAway
        };
        let Some(queue) = known.queues.get_mut(&key) else { return };
        let Some(position) = queue.iter().position(|place| place.path == path) else { return };
        let place = queue.remove(position);
        self.left(&key, &place);
        let mut events = ended(&key, place, end);
        events.extend(self.turns(&key, queue));
        drop(known);
        self.say_all(events);
    }
}

impl EnsembleWatch {
    /// The turns that have come and were not told of; their clients are to hear of them.
    fn turns(&self, key: &Name, queue: &mut [Place]) -> Vec<What> {
        let before: Vec<bool> = queue.iter().map(|place| place.has_turn).collect();
        let events = turns(key, queue);
        if let Some(roll) = &self.roll {
            let came = queue.iter().zip(before).filter(|(place, had)| place.has_turn && !had);
            came.for_each(|(place, _)| roll.turn_came(place.session, &place.path, key));
        }
        events
    }

    /// A place is gone; nobody asks for the lock with it any more.
    fn left(&self, key: &Name, place: &Place) {
        if let Some(roll) = &self.roll {
            roll.place_left(&place.path, key);
        }
    }

    fn place_of(&self, path: &str) -> Option<(Name, bool)> {
        match self.roll {
            Some(_) => numbered_place(path),
            None => place_of(path),
        }
    }
}

/// How a place ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With its session, whose time was up.
    Expired,
    /// Its own session deleted it, or was closed.
    GivenUp,
    /// Somebody else deleted it.
    TakenAway,
}

/// What is told of a place's end. Whoever waits and is pushed out of the line by somebody else
/// has not left it.
fn ended(key: &Name, place: Place, end: End) -> Vec<What> {
    let Place { session, owner, has_turn, .. } = place;
    let mut events = Vec::new();
    match (end, has_turn) {
        (End::Expired, has_turn) => {
            // Who only waited held nothing.
            let records = has_turn.then(|| (key.clone(), owner.clone())).into_iter().collect();
            events.push(What::SessionExpired { session: format!("{session:#x}"), records });
        }
        (End::GivenUp, true) => {
            events.push(What::RecordReleased { key: key.clone(), owner: owner.clone() });
        }
        (End::TakenAway, true) => {
            let (key, owner) = (key.clone(), owner.clone());
            events.push(What::RecordLost { key, owner, how: RecordLoss::Deleted });
        }
        (End::GivenUp | End::TakenAway, false) => {}
    }
    if !has_turn && end != End::TakenAway {
        events.push(What::WaitEnded { key: key.clone(), owner });
    }
    events
}

/// The places whose turn has come and was not told of.
fn turns(key: &Name, queue: &mut [Place]) -> Vec<What> {
    let mut events = Vec::new();
    let (mut anybody, mut writer) = (false, false);
    for place in queue {
        let is_free = if place.shared { !writer } else { !anybody };
        if is_free && !place.has_turn {
            place.has_turn = true;
            events.push(What::RecordSet {
                key: key.clone(),
                owner: place.owner.clone(),
                lease_us: None,
                shared: place.shared,
            });
        }
        anybody = true;
        writer |= !place.shared;
    }
    events
}

/// The lock in whose queue this path is a place, and whether it is a reader's.
fn place_of(path: &str) -> Option<(Name, bool)> {
    let rest = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))?;
    let (key, name) = rest.split_once('/')?;
    let shared = name.contains("-read-");
    (shared || name.contains("-lock-")).then(|| (key.into(), shared))
}

/// How a sequential znode's name ends.
const DIGITS: usize = 10;

/// How recipes of others mark the places of readers: Curator, kazoo, and this one.
const READERS: [&str; 3] = ["__READ__", "__rlock__", "-read-"];

/// The same of anybody's lock: a numbered znode is a place in the queue of its folder.
fn numbered_place(path: &str) -> Option<(Name, bool)> {
    let (folder, name) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty())?;
    let (_, number) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    let is_numbered = number.bytes().all(|byte| byte.is_ascii_digit());
    let shared = READERS.iter().any(|mark| name.contains(mark));
    is_numbered.then(|| (folder.into(), shared))
}

/// Watches one server.
pub struct ServerWatch {
    ensemble: Arc<EnsembleWatch>,
    name: Name,
}

impl ServerWatch {
    /// The server's program starts.
    pub fn started(&self) {
        self.ensemble.known().broadcast.started(&self.name);
    }

    fn say(&self, what: What) {
        self.ensemble.recorder.record(&self.name, what);
    }
}

impl Observer for ServerWatch {
    fn observe(&self, observation: &Observation<'_>) {
        let breaks = self.ensemble.known().broadcast.observe(&self.name, observation);
        for how in breaks {
            self.say(What::BroadcastBroken { how });
        }
        match observation {
            Observation::Created { zxid, .. }
            | Observation::Deleted { zxid, .. }
            | Observation::SessionClosed { zxid, .. }
                if self.ensemble.is_late(*zxid) => {}
            // Who is outside may number what lasts, too: that is no lock.
            Observation::Created { is_ephemeral: false, .. } if self.ensemble.roll.is_some() => {}
            Observation::Created { path, data, session, .. } => {
                self.ensemble.created(path, data, *session);
            }
            Observation::Attached { session, peer } => {
                if let Some(roll) = &self.ensemble.roll {
                    let line = Line { server: self.name.clone(), peer: *peer };
                    roll.attached(&line, *session);
                }
            }
            Observation::Inherited { znodes, sessions } => {
                self.ensemble.inherited(znodes, sessions);
            }
            Observation::Deleted { path, session, owner, .. } => {
                self.ensemble.deleted(path, *session, *owner);
            }
            Observation::SessionExpired { session } => {
                let known = &mut *self.ensemble.known();
                if known.leader.as_ref().is_none_or(|(_, leader)| *leader == self.name) {
                    known.expired.insert(*session);
                }
            }
            Observation::SessionClosed { session, .. } => {
                self.ensemble.known().expired.remove(session);
                if let Some(roll) = &self.ensemble.roll {
                    roll.session_over(*session);
                }
            }
            Observation::Leading { epoch } => {
                self.ensemble.known().leader = Some((*epoch, self.name.clone()));
                self.say(What::Leading { epoch: u64::try_from(*epoch).unwrap_or(0) });
            }
            Observation::SteppedDown { epoch, why } => {
                let epoch = u64::try_from(*epoch).unwrap_or(0);
                self.say(What::SteppedDown { epoch, how: (*why).to_owned() });
            }
            _ => {}
        }
    }
}

impl std::fmt::Debug for EnsembleWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EnsembleWatch").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ServerWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

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
}

impl EnsembleWatch {
    /// A watch over an ensemble.
    pub fn new(recorder: Recorder) -> Arc<Self> {
        Arc::new(EnsembleWatch { recorder, ensemble: ENSEMBLE.into(), known: Mutex::default() })
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
        let Some((key, shared)) = place_of(path) else { return };
        let owner: Name = String::from_utf8_lossy(data).into_owned().into();
        let mut known = self.known();
        let queue = known.queues.entry(key.clone()).or_default();
        if queue.iter().any(|place| place.path == path) {
            return;
        }
        let path = path.to_owned();
        queue.push(Place { path, session, owner: owner.clone(), shared, has_turn: false });
        let mut events = turns(&key, queue);
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
                    let has_ended = sessions.binary_search(&place.session).is_err();
                    let end = if has_ended && known.expired.contains(&place.session) {
                        End::Expired
                    } else {
                        End::GivenUp
                    };
                    events.extend(ended(key, place, end));
                }
                events.extend(turns(key, queue));
            }
            // What an earlier leader meant to end and did not begins anew.
            known.expired.clear();
        }
        self.say_all(events);
        let mut new: Vec<&Znode<'_>> = znodes.iter().filter(|znode| znode.owner != 0).collect();
        new.sort_by_key(|znode| znode.czxid);
        for znode in new {
            self.created(znode.path, znode.data, znode.owner);
        }
    }

    /// `session` deleted a place of `owner`, or did not outlive it.
    fn deleted(&self, path: &str, session: i64, owner: i64) {
        let Some((key, _)) = place_of(path) else { return };
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
        let mut events = ended(&key, place, end);
        events.extend(turns(&key, queue));
        drop(known);
        self.say_all(events);
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
            Observation::Created { path, data, session, .. } => {
                self.ensemble.created(path, data, *session);
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
mod tests {
    use super::*;

    /// What is told of these observations, shortly.
    fn told(observations: &[Observation<'_>]) -> Vec<String> {
        let recorder = Recorder::new(|| 0);
        let watch = EnsembleWatch::new(recorder.clone()).of("zk-1".into());
        for observation in observations {
            watch.observe(observation);
        }
        let (history, _) = recorder.close();
        let short = |event: &crate::history::Event| match &event.what {
            What::RecordSet { owner, .. } => format!("set {owner}"),
            What::RecordReleased { owner, .. } => format!("released {owner}"),
            What::RecordLost { owner, .. } => format!("lost {owner}"),
            What::WaitBegan { owner, .. } => format!("waits {owner}"),
            What::WaitEnded { owner, .. } => format!("waits no more {owner}"),
            What::SessionExpired { records, .. } => format!("expired {}", records.len()),
            other => format!("{other:?}"),
        };
        history.iter().map(short).collect()
    }

    fn created<'a>(zxid: i64, path: &'a str, owner: &'a str) -> Observation<'a> {
        let (session, is_ephemeral) = (zxid, true);
        Observation::Created { zxid, session, path, data: owner.as_bytes(), is_ephemeral }
    }

    fn deleted(zxid: i64, czxid: i64, path: &str) -> Observation<'_> {
        Observation::Deleted { zxid, session: czxid, path, czxid, owner: czxid }
    }

    const FIRST: &str = "/lockstorm/locks/lock:a/00-lock-0000000000";
    const SECOND: &str = "/lockstorm/locks/lock:a/11-lock-0000000001";
    const THIRD: &str = "/lockstorm/locks/lock:a/22-lock-0000000002";
    const READS: &str = "/lockstorm/locks/lock:a/22-read-0000000002";
    const READS_TOO: &str = "/lockstorm/locks/lock:a/33-read-0000000003";

    #[test]
    fn a_turn_comes_with_the_end_of_the_one_before() {
        let release = told(&[
            created(1, FIRST, "app-1/1"),
            created(2, SECOND, "app-2/1"),
            deleted(3, 1, FIRST),
            deleted(4, 2, SECOND),
        ]);
        let expected =
            ["set app-1/1", "waits app-2/1", "released app-1/1", "set app-2/1", "released app-2/1"];
        assert_eq!(release, expected);
    }

    #[test]
    fn an_expiry_is_told_as_one_and_a_waiter_loses_nothing() {
        let expiry = told(&[
            created(1, FIRST, "app-1/1"),
            created(2, SECOND, "app-2/1"),
            Observation::SessionExpired { session: 2 },
            deleted(3, 2, SECOND),
            Observation::SessionClosed { session: 2, zxid: 3 },
            Observation::SessionExpired { session: 1 },
            deleted(4, 1, FIRST),
        ]);
        let expected =
            ["set app-1/1", "waits app-2/1", "expired 0", "waits no more app-2/1", "expired 1"];
        assert_eq!(expiry, expected);
    }

    #[test]
    fn what_an_election_decided_is_told_by_what_the_new_leader_begins_with() {
        let znode = |path, data: &'static str, czxid| Znode {
            path,
            data: data.as_bytes(),
            czxid,
            owner: czxid,
        };
        let begins = [znode(SECOND, "app-2/1", 2), znode(READS, "app-3/1", 4)];
        let election = told(&[
            created(1, FIRST, "app-1/1"),
            created(2, SECOND, "app-2/1"),
            Observation::SessionExpired { session: 1 },
            Observation::Inherited { znodes: &begins, sessions: &[2, 4] },
            Observation::Inherited { znodes: &begins, sessions: &[2, 4] },
        ]);
        let expected =
            ["set app-1/1", "waits app-2/1", "expired 1", "set app-2/1", "waits app-3/1"];
        assert_eq!(election, expected);
    }

    #[test]
    fn whoever_is_gone_with_the_one_before_has_no_turn_in_between() {
        let begins = [Znode { path: THIRD, data: b"app-3/1", czxid: 3, owner: 3 }];
        let election = told(&[
            created(1, FIRST, "app-1/1"),
            created(2, SECOND, "app-2/1"),
            created(3, THIRD, "app-3/1"),
            Observation::Inherited { znodes: &begins, sessions: &[1, 2, 3] },
        ]);
        let expected = [
            "set app-1/1",
            "waits app-2/1",
            "waits app-3/1",
            "released app-1/1",
            "waits no more app-2/1",
            "set app-3/1",
        ];
        assert_eq!(election, expected);
    }

    #[test]
    fn a_leader_that_does_not_know_that_it_was_replaced_tells_nothing_new() {
        let begins = [Znode { path: FIRST, data: b"app-1/1", czxid: 7, owner: 1 }];
        let release = (2 << EPOCH_SHIFT) | 1;
        let late = told(&[
            Observation::Inherited { znodes: &begins, sessions: &[1] },
            Observation::Leading { epoch: 2 },
            Observation::Deleted { zxid: release, session: 1, path: FIRST, czxid: 7, owner: 1 },
            created(7, FIRST, "app-1/1"),
        ]);
        assert_eq!(late, ["set app-1/1", "Leading { epoch: 2 }", "released app-1/1"]);
    }

    #[test]
    fn a_place_that_somebody_else_deletes_was_not_given_up() {
        let by_another =
            |czxid, path| Observation::Deleted { zxid: 9, session: 9, path, czxid, owner: czxid };
        let pushed = told(&[
            created(1, FIRST, "app-1/1"),
            created(2, SECOND, "app-2/1"),
            by_another(2, SECOND),
            by_another(1, FIRST),
        ]);
        assert_eq!(pushed, ["set app-1/1", "waits app-2/1", "lost app-1/1"]);
    }

    #[test]
    fn readers_have_their_turn_together() {
        let read = told(&[
            created(1, FIRST, "w"),
            created(2, READS, "r"),
            created(3, READS_TOO, "s"),
            deleted(4, 1, FIRST),
        ]);
        assert_eq!(read, ["set w", "waits r", "waits s", "released w", "set r", "set s"]);
    }

    #[test]
    fn other_znodes_are_nobodys() {
        let others =
            ["/lockstorm", "/lockstorm/locks/lock:a", "/zookeeper/x-lock-1", "/a/b-lock-1"];
        let observations: Vec<_> = others.iter().map(|path| created(1, path, "o")).collect();
        assert_eq!(told(&observations), [""; 0]);
    }
}

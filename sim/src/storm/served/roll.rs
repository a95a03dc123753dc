//! Who holds what, where the clients are programs outside: nothing is known of them but what
//! their servers see and what the doors before them let through.
//!
//! A client outside is the app whose door it came through. Its requests for a lock are numbered
//! as its servers see them: from the first that was refused, or from the one that was granted,
//! to the grant it is one *attempt*, named as those of a storm are (`app-1/3`), whatever the
//! client writes into its record. So records have owners that checkers and anchors know.
//!
//! Whether a client was told of its grant shows at the door: the first answer of that server
//! that went out to that app after the grant is taken for it. An answer that was lost on the
//! way told nobody, and what nobody was told of promises nothing. What a client believes after
//! that is not seen, and is written down as unseen.
//!
//! Nothing is recorded while the roll is locked: an event may set off a fault, and that may
//! come back here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::world::World;
use crate::history::event::BeliefEnd;
use crate::history::{AcquireOutcome, Attempt, NO_END, Name, Recorder, What};

/// How many names of owners are remembered: as many as a long sitting of a few clients writes.
const MOST_NAMES: usize = 100_000;

/// An app and one of its servers.
type Link = (Name, Name);

/// Over what the news of a grant travels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    /// From a server to an app.
    Link(Link),
    /// From whichever server has this session of ZooKeeper.
    Session(i64),
}

/// A grant of which its client has still to hear.
#[derive(Clone, Debug)]
struct Untold {
    attempt: Attempt,
    key: Name,
    lease_us: Option<u64>,
}

#[derive(Default)]
struct Known {
    /// How many attempts an app has had.
    ordinals: BTreeMap<Name, u32>,
    /// The attempts that have still to be granted, by their connections or sessions, and locks.
    asking: BTreeMap<(String, Name), Attempt>,
    /// Whose is what was written last under this name.
    names: BTreeMap<Name, Attempt>,
    /// The attempts that are over: the same name is a new attempt.
    over: BTreeSet<Attempt>,
    untold: BTreeMap<Line, Vec<Untold>>,
    /// How many servers have told an attempt of its record.
    answers: BTreeMap<Attempt, usize>,
    /// What an app holds by sessions of a server that end with their connections.
    by_connection: BTreeMap<Link, BTreeSet<Attempt>>,
    /// Where each session of ZooKeeper is.
    sessions: BTreeMap<i64, Link>,
    /// The attempts that have begun and are still to be written down.
    begun: Vec<(Attempt, Name, bool)>,
}

/// See the module.
pub struct Roll {
    world: Arc<World>,
    recorder: Recorder,
    prefix: String,
    quorum: usize,
    known: Mutex<Known>,
}

impl Roll {
    /// A roll of nobody yet. Keys of Redis that begin with `prefix` are locks, and `quorum`
    /// servers make a grant.
    pub fn new(world: Arc<World>, recorder: Recorder, prefix: &str, quorum: u16) -> Arc<Roll> {
        let (prefix, quorum, known) = (prefix.to_owned(), usize::from(quorum), Mutex::default());
        Arc::new(Roll { world, recorder, prefix, quorum, known })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The app whose door this address is behind.
    fn app(&self, peer: SocketAddr) -> Option<Name> {
        let IpAddr::V4(address) = peer.ip() else { return None };
        let name = self.world.name(self.world.node_at(address)?);
        name.starts_with("app-").then_some(name)
    }

    /// Whether a key of Redis is a lock.
    pub fn is_lock(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix.as_bytes())
    }

    /// Whose record it is that names `written`, where that is known.
    pub fn owner(&self, written: &str) -> Option<Name> {
        self.known().names.get(written).map(owner)
    }

    /// A request over this connection was refused, and may be made again.
    pub fn refused(&self, peer: SocketAddr, key: &Name) -> Option<Name> {
        let attempt = self.asks(self.app(peer)?, peer.to_string(), key, false)?;
        self.say_begun();
        Some(owner(&attempt))
    }

    /// A record of this connection's client that names `written` was set at a server of Redis.
    pub fn granted(
        &self,
        (server, peer): (&Name, SocketAddr),
        key: &Name,
        written: &str,
        lease_us: Option<u64>,
    ) -> Option<Name> {
        let app = self.app(peer)?;
        let attempt = match self.living(&app, written) {
            Some(attempt) => attempt,
            None => self.asks(app.clone(), peer.to_string(), key, false)?,
        };
        self.say_begun();
        let known = &mut *self.known();
        known.asking.remove(&(peer.to_string(), key.clone()));
        if known.names.len() >= MOST_NAMES {
            // The oldest are long over; which of them goes decides nothing.
            known.names.pop_first();
        }
        known.names.insert(written.into(), attempt.clone());
        known.over.remove(&attempt);
        let untold = Untold { attempt: attempt.clone(), key: key.clone(), lease_us };
        known.untold.entry(Line::Link((app, server.clone()))).or_default().push(untold);
        Some(owner(&attempt))
    }

    /// The attempt that has this name in its record and is not over.
    fn living(&self, app: &Name, written: &str) -> Option<Attempt> {
        let known = self.known();
        let attempt = known.names.get(written)?;
        (attempt.client == *app && !known.over.contains(attempt)).then(|| attempt.clone())
    }

    /// An owner's record has gone from a server by its release or its time.
    pub fn ended(&self, owner: &str) {
        if let Some(attempt) = Attempt::parse(owner) {
            self.known().over.insert(attempt);
        }
    }

    /// A session of PostgreSQL asks for a lock, or gets it: under what name. That it begins is
    /// written down by [`Roll::say_begun`].
    pub fn session_asks(&self, peer: SocketAddr, key: &Name, shared: bool) -> Option<Name> {
        let attempt = self.asks(self.app(peer)?, peer.to_string(), key, shared)?;
        Some(owner(&attempt))
    }

    /// It got it: it holds it as long as its connection lives.
    pub fn session_granted(&self, server: &Name, peer: SocketAddr, key: &Name) {
        let Some(app) = self.app(peer) else { return };
        let known = &mut *self.known();
        let Some(attempt) = known.asking.remove(&(peer.to_string(), key.clone())) else { return };
        let link = (app, server.clone());
        known.by_connection.entry(link.clone()).or_default().insert(attempt.clone());
        let untold = Untold { attempt, key: key.clone(), lease_us: None };
        known.untold.entry(Line::Link(link)).or_default().push(untold);
    }

    /// A client was let in to a server of ZooKeeper with its session.
    pub fn attached(&self, server: &Name, peer: SocketAddr, session: i64) {
        if let Some(app) = self.app(peer) {
            self.known().sessions.insert(session, (app, server.clone()));
        }
    }

    /// A session of ZooKeeper takes a place in a lock's queue: under what name.
    pub fn place_taken(&self, session: i64, path: &str, key: &Name, shared: bool) -> Option<Name> {
        let app = self.known().sessions.get(&session)?.0.clone();
        let attempt = self.asks(app, path.to_owned(), key, shared)?;
        self.say_begun();
        Some(owner(&attempt))
    }

    /// The turn of a place has come.
    pub fn turn_came(&self, session: i64, path: &str, key: &Name) {
        let known = &mut *self.known();
        let Some(attempt) = known.asking.remove(&(path.to_owned(), key.clone())) else { return };
        let untold = Untold { attempt, key: key.clone(), lease_us: None };
        known.untold.entry(Line::Session(session)).or_default().push(untold);
    }

    /// The attempt under way of whoever asks here, begun if there is none.
    fn asks(&self, app: Name, asker: String, key: &Name, shared: bool) -> Option<Attempt> {
        let known = &mut *self.known();
        let place = (asker, key.clone());
        if let Some(attempt) = known.asking.get(&place) {
            return Some(attempt.clone());
        }
        let ordinal = known.ordinals.entry(app.clone()).or_default();
        *ordinal = ordinal.checked_add(1)?;
        let attempt = Attempt { client: app, ordinal: *ordinal };
        known.asking.insert(place, attempt.clone());
        known.begun.push((attempt.clone(), key.clone(), shared));
        Some(attempt)
    }

    /// Writes down which attempts have begun. Whoever calls holds nothing.
    pub fn say_begun(&self) {
        let begun = std::mem::take(&mut self.known().begun);
        for (attempt, key, shared) in begun {
            let app = attempt.client.clone();
            self.recorder.record(&app, What::AcquireInvoked { attempt, key, shared });
        }
    }

    /// Something that `server` said has gone out to the client behind the door of `app`.
    pub fn told(&self, app: &Name, server: &Name) {
        let told = {
            let known = &mut *self.known();
            let link = (app.clone(), server.clone());
            let mut told = known.untold.remove(&Line::Link(link.clone())).unwrap_or_default();
            let here = known.sessions.iter().filter(|(_, at)| **at == link);
            for session in here.map(|(session, _)| *session).collect::<Vec<_>>() {
                told.extend(known.untold.remove(&Line::Session(session)).unwrap_or_default());
            }
            told.retain(|untold| {
                let answers = known.answers.entry(untold.attempt.clone()).or_default();
                *answers += 1;
                *answers == self.quorum
            });
            told
        };
        for Untold { attempt, key, lease_us } in told {
            let lease_us = lease_us.unwrap_or(NO_END);
            let outcome = AcquireOutcome::Granted { token: None, lease_us, margin_us: 0 };
            let returned = What::AcquireReturned { attempt: attempt.clone(), key, outcome };
            self.recorder.record(app, returned);
            let unseen = What::BeliefEnded { attempt, reason: BeliefEnd::Unseen };
            self.recorder.record(app, unseen);
        }
    }

    /// The client behind the door of `app` has seen its connection to `server` end. What has
    /// not been told over it never will be; where a lock ends with its connection, its holder
    /// knows of that now, if `server` is down.
    pub fn cut_off(&self, app: &Name, server: &Name) {
        let is_down = self.world.find(server).is_some_and(|node| !self.world.is_up(node));
        let lost = {
            let known = &mut *self.known();
            let link = (app.clone(), server.clone());
            match is_down {
                true => {
                    known.untold.remove(&Line::Link(link.clone()));
                    known.by_connection.remove(&link).unwrap_or_default()
                }
                false => BTreeSet::new(),
            }
        };
        for attempt in lost {
            let told = What::BeliefEnded { attempt, reason: BeliefEnd::Told };
            self.recorder.record(app, told);
        }
    }

    /// The connections between `app` and `server` were reset: their answers are lost.
    pub fn reset(&self, app: &Name, server: &Name) {
        self.known().untold.remove(&Line::Link((app.clone(), server.clone())));
    }
}

fn owner(attempt: &Attempt) -> Name {
    attempt.to_string().into()
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Roll").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

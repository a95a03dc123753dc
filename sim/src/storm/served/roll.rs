//! Who holds what, where the clients are programs outside: nothing is known of them but what
//! their servers see and what the doors before them let through.
//!
//! A client outside is the app whose door it came through. What one of its connections (at
//! ZooKeeper: one place in a queue) asks for one lock is an *attempt*, from the first request
//! that was refused, or from the one that was granted, to the grant. An app's attempts are
//! numbered as its servers see them begin, and named as those of a storm are (`app-1/3`),
//! whatever the client writes into its record. So records have owners that checkers and anchors
//! know.
//!
//! Whether a client was told of its grant shows at the door: the first answer after the grant
//! that went out over the connection that asked is taken for it. At ZooKeeper, where a session
//! outlives its connections, it is an answer over whichever connection the session has, but not
//! the one that lets it in. An answer that was lost on the way told nobody, nor does one that is
//! sent to whoever has hung up; and what nobody was told of promises nothing. What a client
//! believes after that is not seen, and is written down as unseen.
//!
//! What is remembered of connections, sessions and places goes with them; of names, requests and
//! answers the oldest are forgotten beyond [`MOST_REMEMBERED`].
//!
//! Nothing is recorded while the roll is locked: an event may set off a fault, and that may
//! come back here.

mod recent;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::world::World;
use crate::history::event::BeliefEnd;
use crate::history::{AcquireOutcome, Attempt, NO_END, Name, Recorder, What};
use recent::Recent;

/// How many names, requests and answers are remembered, each: as many as a long sitting of a few
/// clients makes.
const MOST_REMEMBERED: usize = 100_000;

/// A client's connection to a server, as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The server.
    pub server: Name,
    /// The client's end.
    pub peer: SocketAddr,
}

/// Who asks for a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Line(Line),
    /// A znode of this path.
    Place(String),
}

/// A grant of which its client has still to hear.
#[derive(Clone, Debug)]
struct Untold {
    attempt: Attempt,
    key: Name,
    lease_us: Option<u64>,
}

/// What is known of a connection while it is open.
#[derive(Default)]
struct Open {
    untold: VecDeque<Untold>,
    /// What is held by it, and ends with it.
    held: BTreeSet<Attempt>,
    /// Its session of ZooKeeper, and whether it has heard that it was let in.
    session: Option<(i64, bool)>,
}

/// What is known of a session of ZooKeeper.
struct Session {
    app: Name,
    /// Over which connection it hears.
    line: Line,
    untold: VecDeque<Untold>,
}

struct Known {
    /// How many attempts an app has had.
    ordinals: BTreeMap<Name, u32>,
    /// The attempts that have still to be granted.
    asking: Recent<(Asker, Name), Attempt>,
    /// Whose is what was written last under this name.
    names: Recent<Name, Attempt>,
    /// Those of `names` that are not over: under the name of another begins a new attempt.
    living: BTreeSet<Attempt>,
    /// Which servers have told an attempt of its record.
    answers: Recent<Attempt, BTreeSet<Name>>,
    open: BTreeMap<Line, Open>,
    sessions: BTreeMap<i64, Session>,
    /// The attempts that have begun and are still to be written down.
    begun: Vec<(Attempt, Name, bool)>,
}

impl Known {
    fn new(most: usize) -> Known {
        Known {
            ordinals: BTreeMap::new(),
            asking: Recent::new(most),
            names: Recent::new(most),
            living: BTreeSet::new(),
            answers: Recent::new(most),
            open: BTreeMap::new(),
            sessions: BTreeMap::new(),
            begun: Vec::new(),
        }
    }

    /// A record of this attempt names `written`.
    fn wrote(&mut self, written: &str, attempt: &Attempt) {
        if let Some(gone) = self.names.insert(written.into(), attempt.clone()) {
            self.living.remove(&gone);
        }
        self.living.insert(attempt.clone());
    }

    /// A grant of which the client is to hear over this connection, if it still can.
    fn will_hear(&mut self, line: &Line, untold: Untold) {
        if let Some(open) = self.open.get_mut(line) {
            push(&mut open.untold, untold);
        }
    }

    /// What the client hears of by an answer over this connection.
    fn heard(&mut self, line: &Line) -> VecDeque<Untold> {
        let Some(open) = self.open.get_mut(line) else { return VecDeque::new() };
        let mut heard = std::mem::take(&mut open.untold);
        if let Some((session, is_greeted)) = &mut open.session
            && std::mem::replace(is_greeted, true)
            && let Some(session) = self.sessions.get_mut(session)
            && session.line == *line
        {
            heard.append(&mut session.untold);
        }
        heard
    }

    /// Whether this server's answer makes the quorum whole.
    fn answers(&mut self, attempt: &Attempt, server: &Name, quorum: usize) -> bool {
        let mut servers = self.answers.remove(attempt).unwrap_or_default();
        let is_last = servers.insert(server.clone()) && servers.len() == quorum;
        self.answers.insert(attempt.clone(), servers);
        is_last
    }
}

/// Keeps what is untold; of too much the newest.
fn push(all: &mut VecDeque<Untold>, untold: Untold) {
    if all.len() >= MOST_REMEMBERED {
        all.pop_front();
    }
    all.push_back(untold);
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
        let (prefix, quorum) = (prefix.to_owned(), usize::from(quorum));
        let known = Mutex::new(Known::new(MOST_REMEMBERED));
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
        self.known().names.get(&written.into()).map(owner)
    }

    /// A connection has come through a door. Another may have had its addresses before.
    pub fn opened(&self, line: &Line) {
        let known = &mut *self.known();
        known.open.insert(line.clone(), Open::default());
        let asker = Asker::Line(line.clone());
        let asked = known.asking.keys_from((asker.clone(), "".into()));
        let asked: Vec<_> = asked.take_while(|(one, _)| *one == asker).cloned().collect();
        for place in asked {
            known.asking.remove(&place);
        }
    }

    /// It is over. What has not been told over it never will be.
    pub fn closed(&self, line: &Line) {
        self.known().open.remove(line);
    }

    /// A request over this connection was refused, and may be made again.
    pub fn refused(&self, line: &Line, key: &Name) -> Option<Name> {
        let app = self.app(line.peer)?;
        let attempt = self.asks(app, Asker::Line(line.clone()), key, false)?;
        self.say_begun();
        Some(owner(&attempt))
    }

    /// A record of this connection's client that names `written` was set at a server of Redis.
    pub fn granted(
        &self,
        line: &Line,
        key: &Name,
        written: &str,
        lease_us: Option<u64>,
    ) -> Option<Name> {
        let app = self.app(line.peer)?;
        let asker = Asker::Line(line.clone());
        let attempt = match self.living(&app, written) {
            Some(attempt) => attempt,
            None => self.asks(app, asker.clone(), key, false)?,
        };
        self.say_begun();
        let known = &mut *self.known();
        known.asking.remove(&(asker, key.clone()));
        known.wrote(written, &attempt);
        let untold = Untold { attempt: attempt.clone(), key: key.clone(), lease_us };
        known.will_hear(line, untold);
        Some(owner(&attempt))
    }

    /// The attempt that has this name in its record and is not over.
    fn living(&self, app: &Name, written: &str) -> Option<Attempt> {
        let known = self.known();
        let attempt = known.names.get(&written.into())?;
        (attempt.client == *app && known.living.contains(attempt)).then(|| attempt.clone())
    }

    /// An owner's record has gone from a server by its release or its time.
    pub fn ended(&self, owner: &str) {
        if let Some(attempt) = Attempt::parse(owner) {
            self.known().living.remove(&attempt);
        }
    }

    /// A session of PostgreSQL asks for a lock, or gets it: under what name. That it begins is
    /// written down by [`Roll::say_begun`].
    pub fn session_asks(&self, line: &Line, key: &Name, shared: bool) -> Option<Name> {
        let app = self.app(line.peer)?;
        let attempt = self.asks(app, Asker::Line(line.clone()), key, shared)?;
        Some(owner(&attempt))
    }

    /// It got it: it holds it as long as its connection lives.
    pub fn session_granted(&self, line: &Line, key: &Name) {
        let known = &mut *self.known();
        let place = (Asker::Line(line.clone()), key.clone());
        let Some(attempt) = known.asking.remove(&place) else { return };
        if let Some(open) = known.open.get_mut(line) {
            open.held.insert(attempt.clone());
        }
        known.will_hear(line, Untold { attempt, key: key.clone(), lease_us: None });
    }

    /// It gave back what this owner had.
    pub fn session_gave_back(&self, line: &Line, owner: &str) {
        if let Some(open) = self.known().open.get_mut(line)
            && let Some(attempt) = Attempt::parse(owner)
        {
            open.held.remove(&attempt);
        }
    }

    /// A client was let in to a server of ZooKeeper with its session.
    pub fn attached(&self, line: &Line, session: i64) {
        let Some(app) = self.app(line.peer) else { return };
        let known = &mut *self.known();
        if let Some(open) = known.open.get_mut(line) {
            open.session = Some((session, false));
        }
        let untold = known.sessions.remove(&session).map(|before| before.untold);
        let untold = untold.unwrap_or_default();
        known.sessions.insert(session, Session { app, line: line.clone(), untold });
    }

    /// A session of ZooKeeper has ended.
    pub fn session_over(&self, session: i64) {
        self.known().sessions.remove(&session);
    }

    /// Of the sessions of ZooKeeper these live, in order.
    pub fn sessions_live(&self, living: &[i64]) {
        self.known().sessions.retain(|session, _| living.binary_search(session).is_ok());
    }

    /// A session of ZooKeeper takes a place in a lock's queue: under what name.
    pub fn place_taken(&self, session: i64, path: &str, key: &Name, shared: bool) -> Option<Name> {
        let app = self.known().sessions.get(&session)?.app.clone();
        let attempt = self.asks(app, Asker::Place(path.to_owned()), key, shared)?;
        self.say_begun();
        Some(owner(&attempt))
    }

    /// The turn of a place has come.
    pub fn turn_came(&self, session: i64, path: &str, key: &Name) {
        let known = &mut *self.known();
        let place = (Asker::Place(path.to_owned()), key.clone());
        let Some(attempt) = known.asking.remove(&place) else { return };
        if let Some(session) = known.sessions.get_mut(&session) {
            push(&mut session.untold, Untold { attempt, key: key.clone(), lease_us: None });
        }
    }

    /// A place is gone.
    pub fn place_left(&self, path: &str, key: &Name) {
        self.known().asking.remove(&(Asker::Place(path.to_owned()), key.clone()));
    }

    /// The attempt under way of whoever asks here, begun if there is none.
    fn asks(&self, app: Name, asker: Asker, key: &Name, shared: bool) -> Option<Attempt> {
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

    /// An answer has gone out over this connection to a client that has not hung up.
    pub fn told(&self, line: &Line) {
        let told = {
            let known = &mut *self.known();
            let mut told = known.heard(line);
            told.retain(|untold| known.answers(&untold.attempt, &line.server, self.quorum));
            told
        };
        for Untold { attempt, key, lease_us } in told {
            let app = attempt.client.clone();
            let lease_us = lease_us.unwrap_or(NO_END);
            let outcome = AcquireOutcome::Granted { token: None, lease_us, margin_us: 0 };
            let returned = What::AcquireReturned { attempt: attempt.clone(), key, outcome };
            self.recorder.record(&app, returned);
            let unseen = What::BeliefEnded { attempt, reason: BeliefEnd::Unseen };
            self.recorder.record(&app, unseen);
        }
    }

    /// The client has seen its connection end from the server's side. Where a lock ends with
    /// its connection, its holder knows of that now, if the server is down.
    pub fn cut_off(&self, line: &Line) {
        if self.world.find(&line.server).is_none_or(|node| self.world.is_up(node)) {
            return;
        }
        let lost = match self.known().open.get_mut(line) {
            Some(open) => {
                open.untold.clear();
                std::mem::take(&mut open.held)
            }
            None => return,
        };
        for attempt in lost {
            let app = attempt.client.clone();
            let told = What::BeliefEnded { attempt, reason: BeliefEnd::Told };
            self.recorder.record(&app, told);
        }
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

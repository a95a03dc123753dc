//! What PostgreSQL servers do, as history: which row that a transaction has locked, which
//! advisory lock, which row of the lock table is a grant, and which units were sold.
//!
//! | what the server tells | what it is |
//! |---|---|
//! | a row of `lockstorm_row` locked, a number of ours locked | the record is set |
//! | the session says something | the record is extended by what it may be silent again |
//! | the row lock ends with its transaction, the number is given back | the record is released |
//! | the same because the session ends | the session has expired |
//! | a row of `lockstorm_lock` committed, again, deleted | set, extended, released |
//! | a row of `ledger` committed | a unit is sold |
//!
//! The owner of what a session holds is the session's `application_name`, as `pg_stat_activity`
//! has it; of a row in the lock table it stands in the row. A standby has the rows of the lock
//! table that it has replayed, and nothing of what sessions hold: a promotion forgets that.

mod known;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstorm::lock::postgres::advisory::number_of;

use crate::history::event::DATABASE;
use crate::history::{Name, RecordLoss, Recorder, StockOperation, What};
use crate::server::postgres::observe::{
    AdvisoryKey, Kept, Observation, Observer, Row, RowLockMode, Session,
};
use crate::storm::served::roll::{Line, Roll};
use known::Server;
use table::Change;

/// The table of the rows that transactions lock.
const ROWS: &str = "lockstorm_row";
/// The lock table.
const LOCKS: &str = "lockstorm_lock";
/// The stock's books.
const LEDGER: &str = "ledger";

/// The tables that servers tell of.
pub const TABLES: [&str; 3] = [ROWS, LOCKS, LEDGER];

/// Watches the servers of a storm, through all their incarnations.
pub struct ClusterWatch {
    recorder: Recorder,
    lease_us: u64,
    /// The locks by the numbers that stand for them.
    numbers: BTreeMap<i64, Name>,
    servers: Mutex<BTreeMap<Name, Server>>,
    /// What each commit did to the lock table of the first primary, for its standbys.
    commits: Mutex<BTreeMap<u64, Vec<Change>>>,
    first: Name,
    crowd: Mutex<Crowd>,
    /// Who is who, where the clients are programs outside.
    roll: Option<Arc<Roll>>,
}

/// How many came to the servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    /// The most sessions that one of them had at one time.
    pub peak_sessions: usize,
    /// How many were not let in.
    pub refused: u64,
}

impl ClusterWatch {
    /// A watch over servers of which `first` is the primary at first. Sessions may be silent
    /// for `lease_us` while they hold one of the locks `keys`.
    pub fn new(recorder: Recorder, first: Name, lease_us: u64, keys: &[&str]) -> Arc<Self> {
        ClusterWatch::serving(recorder, first, lease_us, keys, None)
    }

    /// The same of servers whose clients are programs outside, if there is a roll of them.
    pub fn serving(
        recorder: Recorder,
        first: Name,
        lease_us: u64,
        keys: &[&str],
        roll: Option<Arc<Roll>>,
    ) -> Arc<Self> {
        let numbers = keys.iter().map(|key| (number_of(key), Name::from(*key)));
        Arc::new(ClusterWatch {
            recorder,
            lease_us,
            numbers: numbers.collect(),
            servers: Mutex::default(),
            commits: Mutex::default(),
            first,
            crowd: Mutex::default(),
            roll,
        })
    }

    /// What the server `name` tells.
    pub fn of(self: &Arc<Self>, name: Name) -> Arc<ServerWatch> {
        Arc::new(ServerWatch { cluster: self.clone(), name })
    }
}

/// Watches one server.
pub struct ServerWatch {
    cluster: Arc<ClusterWatch>,
    name: Name,
}

impl ServerWatch {
    /// The server's program starts: its sessions, and what they held, are gone.
    pub fn started(&self) {
        let mut servers = self.servers();
        let server = servers.entry(self.name.clone()).or_default();
        server.sessions.clear();
        server.open.clear();
        let lost = std::mem::take(&mut server.held).into_iter();
        let how = RecordLoss::Crash;
        let lost = lost.flat_map(|(key, held)| held.into_iter().map(move |one| (key.clone(), one)));
        let lost = lost.map(|(key, held)| What::RecordLost { key, owner: held.owner, how });
        let lost: Vec<What> = lost.collect();
        drop(servers);
        self.say_all(lost);
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<Name, Server>> {
        self.cluster.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commits(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Change>>> {
        self.cluster.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all of it, in this order. Nothing is locked: an event may set off a fault.
    fn say_all(&self, events: Vec<What>) {
        for what in events {
            self.cluster.recorder.record(&self.name, what);
        }
    }

    /// Tells of units that were sold: at the database, whichever of its servers did it.
    fn say_sold(&self, sales: Vec<(u32, Name)>) {
        for (unit, order) in sales {
            let effect = What::Effect {
                owner: order.clone(),
                token: None,
                operation: StockOperation::Sell { unit, order },
                accepted: true,
                refusal: None,
            };
            self.cluster.recorder.record(&DATABASE.into(), effect);
        }
    }

    /// The connection of a session, for the roll of programs outside.
    fn line(&self, session: Session) -> Line {
        Line { server: self.name.clone(), peer: session.peer }
    }

    /// A session of a program outside asks, as an attempt of its app. One that has the lock
    /// already takes it again as who it is.
    fn name_asker(&self, server: &mut Server, session: Session, key: &Name, shared: bool) {
        let Some(roll) = &self.cluster.roll else { return };
        let held = server.held.get(key).into_iter().flatten();
        let mut mine = held.filter(|held| held.pid == session.pid).map(|held| held.owner.clone());
        let name = mine.next_back().or_else(|| roll.session_asks(&self.line(session), key, shared));
        if let Some(name) = name {
            server.known(session).name = name;
        }
    }

    /// What a session of a program outside has given back ends with its connection no more.
    fn give_up(&self, session: Session, gone: &[What]) {
        let Some(roll) = &self.cluster.roll else { return };
        for what in gone {
            if let What::RecordReleased { owner, .. } = what {
                roll.session_gave_back(&self.line(session), owner);
            }
        }
    }

    fn ended(&self, server: &mut Server, xid: u64, wall_us: i64) -> (Vec<What>, Vec<(u32, Name)>) {
        let Some(open) = server.open.remove(&xid) else { return Default::default() };
        let mut events = Vec::new();
        for change in &open.changes {
            events.extend(server.rows.commit(change, wall_us));
        }
        if self.name == self.cluster.first && !open.changes.is_empty() {
            self.commits().insert(xid, open.changes);
        }
        (events, open.sales)
    }

    fn replayed(&self, server: &mut Server, xid: u64) -> Vec<What> {
        let commits = self.commits();
        let changes = commits.get(&xid).map_or(&[][..], Vec::as_slice);
        changes.iter().filter_map(|change| server.rows.replay(change)).collect()
    }

    /// A row is written; others see it at the commit.
    fn wrote(
        &self,
        server: &mut Server,
        (session, xid, table): (&Session, u64, &str),
        old: Option<Row<'_>>,
        new: Option<Row<'_>>,
    ) -> Option<What> {
        match (table, new) {
            (LOCKS, _) => {
                let by = server.sessions.get(&session.pid).map(|known| known.name.clone());
                let change = Change::of(old, new, &by.unwrap_or_default())?;
                let began = server.rows.began(&change);
                server.open.entry(xid).or_default().changes.push(change);
                return began;
            }
            (LEDGER, Some(new)) if old.is_none() => {
                let unit = table::column(new, "unit").and_then(|unit| unit.parse::<u32>().ok());
                let order = table::column(new, "order_key");
                let sale = unit.zip(order.map(Name::from));
                server.open.entry(xid).or_default().sales.extend(sale);
            }
            _ => {}
        }
        None
    }

    /// What is told of it, and what was sold.
    fn look(
        &self,
        server: &mut Server,
        observation: &Observation<'_>,
    ) -> (Vec<What>, Vec<(u32, Name)>) {
        let mut events = Vec::new();
        match observation {
            Observation::Named { session, name } => {
                server.known(*session).name = (*name).into();
                let mut crowd = self.cluster.crowd_now();
                crowd.peak_sessions = crowd.peak_sessions.max(server.sessions.len());
            }
            Observation::TooManyConnections { .. } => self.cluster.crowd_now().refused += 1,
            Observation::SessionEnding { session, .. } => server.known(*session).is_ending = true,
            Observation::SessionEnded { session } => {
                let known = server.sessions.remove(&session.pid).unwrap_or_default();
                if !known.lost.is_empty() {
                    let session = format!("{}:{}", self.name, session.pid);
                    events.push(What::SessionExpired { session, records: known.lost });
                }
            }
            Observation::Idle { session, limit } => {
                let lease_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
                events.extend(server.heard(session.pid, lease_us));
            }
            Observation::RowLocked {
                session, table: ROWS, mode: RowLockMode::Update, row, ..
            } => {
                if let Some(key) = table::column(row, "key") {
                    let lease_us = Some(self.cluster.lease_us);
                    events.extend(server.took(*session, key.into(), false, lease_us));
                }
            }
            Observation::RowAwaited { session, table: ROWS, row, .. } => {
                if let Some(key) = table::column(row, "key") {
                    events.extend(server.awaits(*session, key.into()));
                }
            }
            Observation::RowReleased { session, table: ROWS, row, .. } => {
                if let Some(key) = table::column(row, "key") {
                    events.extend(server.gave_back(*session, &key.into(), false, 0));
                }
            }
            Observation::AdvisoryLocked { session, key, shared, .. } => {
                if let Some(key) = self.cluster.key_of(*key) {
                    self.name_asker(server, *session, &key, *shared);
                    let lease_us = self.cluster.advisory_lease_us();
                    events.extend(server.took(*session, key.clone(), *shared, lease_us));
                    if let Some(roll) = &self.cluster.roll {
                        roll.session_granted(&self.line(*session), &key);
                    }
                }
            }
            Observation::AdvisoryAwaited { session, key } => {
                if let Some(key) = self.cluster.key_of(*key) {
                    self.name_asker(server, *session, &key, false);
                    events.extend(server.awaits(*session, key));
                }
            }
            Observation::AdvisoryReleased { session, key, shared, left } => {
                if let Some(key) = self.cluster.key_of(*key) {
                    let gone = server.gave_back(*session, &key, *shared, *left);
                    self.give_up(*session, &gone);
                    events.extend(gone);
                }
            }
            Observation::Inserted { session, xid, table, row } => {
                events.extend(self.wrote(server, (session, *xid, *table), None, Some(*row)));
            }
            Observation::Updated { session, xid, table, old, new } => {
                events.extend(self.wrote(server, (session, *xid, *table), Some(*old), Some(*new)));
            }
            Observation::Deleted { session, xid, table, row } => {
                events.extend(self.wrote(server, (session, *xid, *table), Some(*row), None));
            }
            Observation::Committed { xid: Some(xid), wall_us, .. } => {
                return self.ended(server, *xid, *wall_us);
            }
            Observation::Aborted { xid: Some(xid), .. } => {
                server.open.remove(xid);
            }
            Observation::Replayed { xid, .. } => events.extend(self.replayed(server, *xid)),
            Observation::Recovered { rows, .. } => {
                events.extend(server.rows.replace(kept(rows)));
            }
            Observation::Promoted { position, rows, .. } => {
                server.rows.replace(kept(rows));
                let records = server.rows.records();
                events.push(What::Promoted { offset: *position, records });
            }
            _ => {}
        }
        (events, Vec::new())
    }
}

impl ClusterWatch {
    /// How many came.
    pub fn crowd(&self) -> Crowd {
        *self.crowd_now()
    }

    fn crowd_now(&self) -> MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_of(&self, key: AdvisoryKey) -> Option<Name> {
        match key {
            AdvisoryKey::Big(number) if self.roll.is_some() => {
                Some(format!("advisory {number}").into())
            }
            AdvisoryKey::Pair(one, other) if self.roll.is_some() => {
                Some(format!("advisory {one}, {other}").into())
            }
            AdvisoryKey::Big(number) => self.numbers.get(&number).cloned(),
            AdvisoryKey::Pair(..) => None,
        }
    }

    /// How long a session may be silent that holds an advisory lock: of a program outside it
    /// is what the server tells, or no limit.
    fn advisory_lease_us(&self) -> Option<u64> {
        self.roll.is_none().then_some(self.lease_us)
    }
}

/// The rows of the lock table.
fn kept(rows: &[Kept]) -> impl Iterator<Item = &Vec<(String, Option<String>)>> {
    rows.iter().filter(|(table, _)| table == LOCKS).map(|(_, row)| row)
}

impl Observer for ServerWatch {
    fn observe(&self, observation: &Observation<'_>) {
        let mut servers = self.servers();
        let server = servers.entry(self.name.clone()).or_default();
        let (events, sales) = self.look(server, observation);
        drop(servers);
        if let Some(roll) = &self.cluster.roll {
            roll.say_begun();
        }
        self.say_all(events);
        self.say_sold(sales);
    }
}

impl std::fmt::Debug for ClusterWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClusterWatch").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ServerWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The heavyweight locks: on tables, on rows' queues, on transactions, advisory ones.
//!
//! One table for all, after PostgreSQL's lock manager: eight modes, a queue for each lock
//! in order of arrival, and who releases wakes those at the front whom nothing stops.
//! Row locks themselves are in the rows; whoever waits for one waits here, for the
//! transaction that has it.

mod deadlock;

pub(crate) use deadlock::Step;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::catalogue::RelationId;
use super::heap::TupleId;
use super::transaction::{Pid, Xid};

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tag {
    Relation(RelationId),
    /// The queue for a row.
    Tuple(RelationId, TupleId),
    Transaction(Xid),
    /// `pg_advisory_lock(bigint)`.
    AdvisoryBig(i64),
    /// `pg_advisory_lock(int, int)`.
    AdvisoryPair(i32, i32),
}

/// A mode, 1 (ACCESS SHARE) to 8 (ACCESS EXCLUSIVE).
pub(crate) type Mode = u8;

pub(crate) const ACCESS_SHARE: Mode = 1;
pub(crate) const ROW_SHARE: Mode = 2;
pub(crate) const ROW_EXCLUSIVE: Mode = 3;
pub(crate) const SHARE: Mode = 5;
pub(crate) const EXCLUSIVE: Mode = 7;
pub(crate) const ACCESS_EXCLUSIVE: Mode = 8;

/// As messages and `pg_locks` name the modes.
pub(crate) const MODE_NAMES: [&str; 9] = [
    "INVALID",
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
];

type Mask = u16;

/// The modes that each mode excludes.
fn conflicts(mode: Mode) -> Mask {
    let excluded: &[Mode] = match mode {
        1 => &[8],
        2 => &[7, 8],
        3 => &[5, 6, 7, 8],
        4 => &[4, 5, 6, 7, 8],
        5 => &[3, 4, 6, 7, 8],
        6 => &[3, 4, 5, 6, 7, 8],
        7 => &[2, 3, 4, 5, 6, 7, 8],
        _ => &[1, 2, 3, 4, 5, 6, 7, 8],
    };
    excluded.iter().fold(0, |mask, mode| mask | 1 << mode)
}

/// How long a lock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Until it is unlocked as often, or the session ends.
    Session,
    /// Until the end of the transaction, or of its part of this depth if that aborts.
    Transaction(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted,
    /// Somebody has it; nobody was asked to wait.
    Busy,
    /// The session is in the queue.
    Queued,
    /// A waiter in the queue holds what excludes this, and waits for what the session
    /// holds: nobody need wait to see that.
    Deadlock {
        other: Pid,
        other_mode: Mode,
    },
}

#[derive(Debug, Default)]
struct Holding {
    session: u32,
    /// Depths of the transaction that acquired it, each once.
    depths: Vec<usize>,
}

#[derive(Debug, Default)]
struct Lock {
    granted: BTreeMap<Pid, Mask>,
    queue: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    pid: Pid,
    mode: Mode,
    scope: Scope,
}

/// Who waits for what, and since when it has been granted.
#[derive(Debug)]
struct Session {
    signal: Arc<Notify>,
    holdings: BTreeMap<(Tag, Mode), Holding>,
    waiting: Option<(Tag, Mode)>,
}

/// A line of `pg_locks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) tag: Tag,
    pub(crate) pid: Pid,
    pub(crate) mode: Mode,
    pub(crate) granted: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: BTreeMap<Tag, Lock>,
    sessions: BTreeMap<Pid, Session>,
}

impl Locks {
    pub(crate) fn enter(&mut self, pid: Pid, signal: Arc<Notify>) {
        let session = Session { signal, holdings: BTreeMap::new(), waiting: None };
        self.sessions.insert(pid, session);
    }

    pub(crate) fn leave(&mut self, pid: Pid) {
        self.stop_waiting(pid);
        let tags: Vec<(Tag, Mode)> = match self.sessions.get(&pid) {
            Some(session) => session.holdings.keys().copied().collect(),
            None => return,
        };
        for (tag, mode) in tags {
            self.drop_holding(pid, tag, mode);
        }
        self.sessions.remove(&pid);
    }

    pub(crate) fn is_waiting(&self, pid: Pid) -> bool {
        self.sessions.get(&pid).is_some_and(|session| session.waiting.is_some())
    }

    pub(crate) fn waiting_for(&self, pid: Pid) -> Option<(Tag, Mode)> {
        self.sessions.get(&pid)?.waiting
    }

    pub(crate) fn holds(&self, pid: Pid, tag: Tag, mode: Mode) -> bool {
        self.sessions.get(&pid).is_some_and(|session| session.holdings.contains_key(&(tag, mode)))
    }

    /// How many holds of the lock it has: each of the session, and that of the transaction.
    pub(crate) fn holds_of(&self, pid: Pid, tag: Tag, mode: Mode) -> u32 {
        let holding = self.sessions.get(&pid).and_then(|one| one.holdings.get(&(tag, mode)));
        holding.map_or(0, |holding| holding.session + u32::from(!holding.depths.is_empty()))
    }

    /// Takes the lock, or a place in its queue.
    pub(crate) fn acquire(
        &mut self,
        pid: Pid,
        tag: Tag,
        mode: Mode,
        scope: Scope,
        waits: bool,
    ) -> Acquired {
        if self.holds(pid, tag, mode) {
            self.grant(pid, tag, mode, scope);
            return Acquired::Granted;
        }
        let lock = self.locks.entry(tag).or_default();
        let mine = lock.granted.get(&pid).copied().unwrap_or(0);
        let wanted = lock.queue.iter().fold(0, |mask, waiter| mask | 1 << waiter.mode);
        let is_free = !is_blocked(lock, pid, mode);
        if is_free && conflicts(mode) & wanted == 0 {
            self.grant(pid, tag, mode, scope);
            return Acquired::Granted;
        }
        // Whoever holds what a waiter wants goes before it: it could never go after.
        let place = lock.queue.iter().position(|waiter| conflicts(waiter.mode) & mine != 0);
        let ahead: Mask = match place {
            Some(place) => lock.queue[..place].iter().fold(0, |mask, one| mask | 1 << one.mode),
            None => wanted,
        };
        // Only who would wait finds out whether it may go before others (`ProcSleep`).
        if !waits {
            self.forget_if_empty(tag);
            return Acquired::Busy;
        }
        if place.is_some() && is_free && conflicts(mode) & ahead == 0 {
            self.grant(pid, tag, mode, scope);
            return Acquired::Granted;
        }
        let circle = lock.queue.iter().find(|waiter| {
            let held = lock.granted.get(&waiter.pid).copied().unwrap_or(0);
            conflicts(waiter.mode) & mine != 0 && conflicts(mode) & held != 0
        });
        if let Some(waiter) = circle {
            return Acquired::Deadlock { other: waiter.pid, other_mode: waiter.mode };
        }
        let place = place.unwrap_or(lock.queue.len());
        lock.queue.insert(place, Waiter { pid, mode, scope });
        if let Some(session) = self.sessions.get_mut(&pid) {
            session.waiting = Some((tag, mode));
        }
        Acquired::Queued
    }

    fn grant(&mut self, pid: Pid, tag: Tag, mode: Mode, scope: Scope) {
        let lock = self.locks.entry(tag).or_default();
        *lock.granted.entry(pid).or_default() |= 1 << mode;
        let Some(session) = self.sessions.get_mut(&pid) else { return };
        let holding = session.holdings.entry((tag, mode)).or_default();
        match scope {
            Scope::Session => holding.session += 1,
            Scope::Transaction(depth) => {
                if holding.depths.iter().all(|known| *known > depth) {
                    holding.depths.push(depth);
                }
            }
        }
    }

    /// Leaves the queue, if the session is in one.
    pub(crate) fn stop_waiting(&mut self, pid: Pid) {
        let Some(session) = self.sessions.get_mut(&pid) else { return };
        let Some((tag, _)) = session.waiting.take() else { return };
        if let Some(lock) = self.locks.get_mut(&tag) {
            lock.queue.retain(|waiter| waiter.pid != pid);
        }
        self.wake(tag);
        self.forget_if_empty(tag);
    }

    /// Gives up one holding of the session. False: it had none.
    pub(crate) fn release_session(&mut self, pid: Pid, tag: Tag, mode: Mode) -> bool {
        let Some(session) = self.sessions.get_mut(&pid) else { return false };
        let Some(holding) = session.holdings.get_mut(&(tag, mode)) else { return false };
        if holding.session == 0 {
            return false;
        }
        holding.session -= 1;
        if holding.session == 0 && holding.depths.is_empty() {
            self.drop_holding(pid, tag, mode);
        }
        true
    }

    /// Gives up what the session has of a lock, whatever for.
    pub(crate) fn drop_holding(&mut self, pid: Pid, tag: Tag, mode: Mode) {
        if let Some(session) = self.sessions.get_mut(&pid) {
            session.holdings.remove(&(tag, mode));
        }
        if let Some(lock) = self.locks.get_mut(&tag) {
            if let Some(mask) = lock.granted.get_mut(&pid) {
                *mask &= !(1 << mode);
                if *mask == 0 {
                    lock.granted.remove(&pid);
                }
            }
            self.wake(tag);
            self.forget_if_empty(tag);
        }
    }

    /// The advisory locks that the session itself holds.
    pub(crate) fn session_holdings(&self, pid: Pid) -> Vec<(Tag, Mode, u32)> {
        let Some(session) = self.sessions.get(&pid) else { return Vec::new() };
        let kept = session.holdings.iter().filter(|(_, holding)| holding.session > 0);
        kept.map(|((tag, mode), holding)| (*tag, *mode, holding.session)).collect()
    }

    /// The locks that the transaction itself holds.
    pub(crate) fn transaction_holdings(&self, pid: Pid) -> Vec<(Tag, Mode)> {
        let Some(session) = self.sessions.get(&pid) else { return Vec::new() };
        let kept = session.holdings.iter().filter(|(_, holding)| !holding.depths.is_empty());
        kept.map(|(key, _)| *key).collect()
    }

    /// Releases what the transaction holds from `depth` on: 0 is all of it.
    pub(crate) fn release_from(&mut self, pid: Pid, depth: usize) {
        let Some(session) = self.sessions.get_mut(&pid) else { return };
        let mut freed = Vec::new();
        for (key, holding) in &mut session.holdings {
            let had = !holding.depths.is_empty();
            holding.depths.retain(|known| *known < depth);
            if had && holding.depths.is_empty() && holding.session == 0 {
                freed.push(*key);
            }
        }
        for (tag, mode) in freed {
            self.drop_holding(pid, tag, mode);
        }
    }

    /// What was acquired at `depth` belongs to the level above it now.
    pub(crate) fn hand_up(&mut self, pid: Pid, depth: usize) {
        let Some(session) = self.sessions.get_mut(&pid) else { return };
        for holding in session.holdings.values_mut() {
            if let Some(at) = holding.depths.iter().position(|known| *known == depth) {
                holding.depths.remove(at);
                if holding.depths.iter().all(|known| *known >= depth) {
                    holding.depths.push(depth - 1);
                }
            }
        }
    }

    /// Grants what can be granted, in the queue's order.
    fn wake(&mut self, tag: Tag) {
        let Some(lock) = self.locks.get(&tag) else { return };
        let (mut ahead, mut woken) = (0, Vec::new());
        let mut granted = lock.granted.clone();
        for waiter in &lock.queue {
            let others = granted.iter().filter(|(pid, _)| **pid != waiter.pid);
            let held = others.fold(0, |mask, (_, one)| mask | one);
            if conflicts(waiter.mode) & (ahead | held) == 0 {
                *granted.entry(waiter.pid).or_default() |= 1 << waiter.mode;
                woken.push(*waiter);
            } else {
                ahead |= 1 << waiter.mode;
            }
        }
        for waiter in woken {
            if let Some(lock) = self.locks.get_mut(&tag) {
                lock.queue.retain(|other| other.pid != waiter.pid);
            }
            self.grant(waiter.pid, tag, waiter.mode, waiter.scope);
            if let Some(session) = self.sessions.get_mut(&waiter.pid) {
                session.waiting = None;
                session.signal.notify_one();
            }
        }
    }

    fn forget_if_empty(&mut self, tag: Tag) {
        let is_empty = |lock: &Lock| lock.granted.is_empty() && lock.queue.is_empty();
        if self.locks.get(&tag).is_some_and(is_empty) {
            self.locks.remove(&tag);
        }
    }

    /// Whoever keeps `pid` waiting: holders first, then those before it in the queue.
    pub(crate) fn blockers(&self, pid: Pid) -> Vec<Pid> {
        let Some((tag, mode)) = self.waiting_for(pid) else { return Vec::new() };
        let Some(lock) = self.locks.get(&tag) else { return Vec::new() };
        let holders = lock
            .granted
            .iter()
            .filter(|(other, mask)| **other != pid && conflicts(mode) & **mask != 0);
        let mut all: Vec<Pid> = holders.map(|(other, _)| *other).collect();
        for waiter in lock.queue.iter().take_while(|waiter| waiter.pid != pid) {
            if conflicts(mode) & (1 << waiter.mode) != 0 && !all.contains(&waiter.pid) {
                all.push(waiter.pid);
            }
        }
        all
    }

    /// All locks, for `pg_locks`.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (tag, lock) in &self.locks {
            for (pid, mask) in &lock.granted {
                for mode in (1..=8).filter(|mode| mask & (1 << mode) != 0) {
                    lines.push(Line { tag: *tag, pid: *pid, mode, granted: true });
                }
            }
            for waiter in &lock.queue {
                let Waiter { pid, mode, .. } = *waiter;
                lines.push(Line { tag: *tag, pid, mode, granted: false });
            }
        }
        lines
    }
}

/// Whether what others hold stops `pid`.
fn is_blocked(lock: &Lock, pid: Pid, mode: Mode) -> bool {
    let mut others = lock.granted.iter().filter(|(other, _)| **other != pid);
    others.any(|(_, mask)| conflicts(mode) & mask != 0)
}

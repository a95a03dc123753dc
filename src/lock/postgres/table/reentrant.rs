//! The lock `pg-lock-table-reentrant`: its owner may acquire it again while it holds it, and
//! gives it back as often. The row counts, too.
//!
//! # What it guarantees
//! What [`table`](super) guarantees, for owners instead of attempts: an owner that holds the
//! key is let in again at once, with a whole lease for all its guards, and the key is free
//! after as many releases as acquires. An acquire or release that is not answered is set
//! right by saying how often it is held, never by counting up or down: it is the same once
//! or twice. A guard whose row was lost stays lost, also when its owner is let in again: the
//! row's token tells the rows of one owner apart.
//!
//! An owner acquires and releases one at a time, and through one lock value, which knows
//! how many guards it has out.
//!
//! # Takeover
//! As [`table`](super).
//!
//! # How it is known to fail
//! - In all the ways of [`table`](super).
//! - **A release that is not answered** and arrives after its owner was let in again deletes
//!   the new row.
//! - **One owner in two places**: two programs that use one owner's name are one holder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::rows::{Row, Rows, Undo};
use crate::host::{BoxFuture, Host};
use crate::lock::postgres::endpoint::Endpoint;
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::options::{InvalidOptions, Options};
use crate::lock::postgres::pool::Usage;
use crate::lock::postgres::waiting::until_granted;
use crate::lock::{Guard, GuardBackend, Lock, LockError, Owner, Release};

/// The lock `pg-lock-table-reentrant`; see the module's text.
#[derive(Debug)]
pub struct ReentrantTableLock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rows: Arc<Rows>,
    /// What this lock's owners hold, by key and owner.
    holds: Mutex<BTreeMap<Held, Hold>>,
    /// Woken when guards are found to be lost.
    told: Notify,
}

/// Who holds what: the key, and the owner.
type Held = (String, Owner);

/// The guards of an owner that stand on one row.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The row's token.
    token: u64,
    guards: i32,
    /// The end of the lease on the host's monotonic clock, margin taken off.
    deadline: Duration,
}

impl ReentrantTableLock {
    /// A lock kept at `endpoint`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or the part of the endpoint, that
    /// cannot work.
    pub fn new(host: Host, endpoint: Endpoint, options: Options) -> Result<Self, InvalidOptions> {
        let rows = Rows::new(host, endpoint, options)?;
        let (holds, told) = (Mutex::default(), Notify::new());
        Ok(ReentrantTableLock { shared: Arc::new(Shared { rows, holds, told }) })
    }

    /// The options in use: as given, the lease in whole milliseconds.
    pub fn options(&self) -> &Options {
        self.shared.rows.options()
    }

    /// How the connections have been used.
    pub fn usage(&self) -> Usage {
        self.shared.rows.usage()
    }
}

impl Lock for ReentrantTableLock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let (host, options) = (shared.rows.host(), shared.rows.options());
            let held = &(key.to_owned(), owner.clone());
            let row = until_granted(host, options.retry, patience, |_| shared.take(held)).await?;
            let grant = super::grant(key, owner, options, &row);
            let inside = Inside { shared: shared.clone(), held: held.clone(), token: row.token };
            Ok(Guard::new(host.clone(), grant, inside))
        })
    }

    fn takeover_bound(&self) -> Duration {
        self.shared.rows.takeover_bound()
    }
}

impl Shared {
    fn holds(&self) -> std::sync::MutexGuard<'_, BTreeMap<Held, Hold>> {
        // Nothing that can panic runs while it is held.
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks to be let in once; `None` while somebody else is in.
    async fn take(self: &Arc<Self>, held: &Held) -> Result<Option<Row>, Failure> {
        let standing = self.holds().get(held).copied();
        let guards = standing.map_or(0, |hold| hold.guards);
        let undo = Undo::new(self.rows.host(), {
            let (shared, held) = (self.clone(), held.clone());
            move || Box::pin(async move { shared.set_right(&held).await })
        });
        let answer = self.rows.take_or(&held.0, &held.1, guards + 1, undo).await?;
        let mut holds = self.holds();
        let lost = match &answer {
            Some(row) => {
                let deadline = row.asked_at + self.rows.options().usable();
                let same = holds.get(held).filter(|hold| hold.token == row.token).copied();
                let hold = match same {
                    Some(hold) => Hold { guards: hold.guards + 1, deadline, ..hold },
                    None => Hold { token: row.token, guards: 1, deadline },
                };
                let before = holds.insert(held.clone(), hold);
                before.is_some_and(|before| before.token != row.token)
            }
            // Somebody else is in: the guards that are out are lost.
            None => holds.remove(held).is_some(),
        };
        drop(holds);
        if lost {
            self.told.notify_waiters();
        }
        Ok(answer)
    }

    /// A guard was given back: what is left on its row; `None` if it stood on another row
    /// than its owner has now.
    fn leave(&self, held: &Held, token: u64) -> Option<i32> {
        let mut holds = self.holds();
        let hold = holds.get_mut(held).filter(|hold| hold.token == token)?;
        hold.guards -= 1;
        let left = hold.guards;
        if left <= 0 {
            holds.remove(held);
        }
        Some(left)
    }

    /// Best effort: what an attempt without an answer may have left behind.
    async fn set_right(&self, held: &Held) {
        let standing = self.holds().get(held).copied();
        match standing {
            Some(hold) => {
                drop(self.rows.set_holds(&held.0, &held.1, hold.token, hold.guards).await);
            }
            None => drop(self.rows.release(&held.0, &held.1).await),
        }
    }
}

/// One of an owner's holds, behind a guard.
struct Inside {
    shared: Arc<Shared>,
    held: Held,
    /// Of the row it stands on.
    token: u64,
}

impl Inside {
    fn standing(&self) -> Option<Hold> {
        self.shared.holds().get(&self.held).filter(|hold| hold.token == self.token).copied()
    }
}

impl GuardBackend for Inside {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (shared, held, token) = (self.shared.clone(), self.held.clone(), self.token);
        let Some(left) = shared.leave(&held, token) else {
            // What the owner may hold since is not this guard's.
            return Box::pin(std::future::ready(Release::NotHeld));
        };
        Box::pin(async move {
            let rows = &shared.rows;
            if left <= 0 {
                return rows.release(&held.0, &held.1).await;
            }
            match rows.set_holds(&held.0, &held.1, token, left).await {
                Ok(true) => Release::Released,
                Ok(false) => Release::NotHeld,
                Err(failure) => Release::Indeterminate { reason: failure.to_string() },
            }
        })
    }

    fn lost(&self) -> Option<String> {
        self.standing().is_none().then(|| "the row is no longer the one we entered".to_owned())
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        let (shared, held, token) = (self.shared.clone(), self.held.clone(), self.token);
        Box::pin(async move {
            loop {
                let told = shared.told.notified();
                let stands = shared.holds().get(&held).is_some_and(|hold| hold.token == token);
                if !stands {
                    return;
                }
                told.await;
            }
        })
    }

    /// An owner that was let in again has a whole lease for all its holds.
    fn deadline(&self) -> Option<Duration> {
        self.standing().map(|hold| hold.deadline)
    }
}

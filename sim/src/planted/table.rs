//! Bugs of locks in PostgreSQL: a row in the product's lock table, or an advisory lock.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::postgres::advisory::{AdvisoryLock, number_of};
use lockstorm::lock::postgres::table::{Expiry, TableLock};
use lockstorm::lock::postgres::{Fencing, Options};
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Promises, Release};

use super::Half;
use super::database::{Database, Session};
use super::patience::{Asked, grant, margin, until_granted};
use crate::plan::{Fence, LockPlan, Plan};
use crate::storm::postgres;

/// A release that deletes the row of the key, whoever's it is.
pub(super) fn deleted_by_key(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    let planted = Steps { deletes_its_own: false, ..Steps::SOUND };
    planted.lock(host, plan, half)
}

/// occurrent#659: the end of the lease is written by one client's clock and compared
/// with another's.
pub(super) fn expiry_of_clients(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    let planted = Steps { by_the_servers_clock: false, ..Steps::SOUND };
    planted.lock(host, plan, half)
}

/// What is often recommended: insert to lock, delete to unlock, and no end.
pub(super) fn without_expiry(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    let expiry = if half.is_mended() { Expiry::Lease } else { Expiry::Never };
    match TableLock::new(host.clone(), postgres::endpoint(plan), options(plan), expiry) {
        Ok(lock) => Arc::new(lock),
        Err(error) => Arc::new(Impossible(error.to_string())),
    }
}

/// prometheus-postgresql-adapter#91: a leader by an advisory lock does not look again at the
/// connection that holds it.
pub(super) fn connection_not_watched(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    match AdvisoryLock::of_session(host.clone(), postgres::endpoint(plan), options(plan)) {
        Ok(lock) if half.is_mended() => Arc::new(lock),
        Ok(lock) => Arc::new(Deaf { lock: Arc::new(lock), host: host.clone() }),
        Err(error) => Arc::new(Impossible(error.to_string())),
    }
}

/// DistributedLock#230, xxl-job#3086: nothing ends the session of a client whose machine died,
/// nor the lock of that session.
pub(super) fn vanished_client_kept(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    let database = Arc::new(Database::new(host, plan));
    Arc::new(Advisory { database, lock: plan.lock.clone(), half })
}

/// What the product's locks have, as the plan says it.
fn options(plan: &Plan) -> Options {
    let mut options = Options::new(plan.lock.lease.to_duration());
    options.margin = margin(&plan.lock);
    options.command_timeout = plan.lock.command_timeout.to_duration();
    options.retry = plan.lock.retry.to_duration();
    options.connections = usize::from(plan.lock.own.connections);
    if plan.fence != Fence::Off {
        options.fencing = Fencing::Sequence;
    }
    options
}

/// A lock that the plan's numbers do not allow.
struct Impossible(String);

impl Lock for Impossible {
    fn acquire<'a>(
        &'a self,
        _: &'a str,
        _: &'a Owner,
        _: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async { Err(LockError::Backend { reason: self.0.clone() }) })
    }

    fn takeover_bound(&self) -> Duration {
        Duration::ZERO
    }
}

/// The steps that a bug leaves out; a sound lock takes all of them.
#[derive(Clone, Copy)]
struct Steps {
    deletes_its_own: bool,
    by_the_servers_clock: bool,
}

impl Steps {
    const SOUND: Steps = Steps { deletes_its_own: true, by_the_servers_clock: true };

    fn lock(self, host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
        let steps = if half.is_mended() { Steps::SOUND } else { self };
        let database = Arc::new(Database::new(host, plan));
        Arc::new(InTable { database, lock: plan.lock.clone(), steps })
    }
}

/// A row in the lock table.
struct InTable {
    database: Arc<Database>,
    lock: LockPlan,
    steps: Steps,
}

impl InTable {
    /// What time it is, as SQL.
    fn now(&self) -> String {
        if self.steps.by_the_servers_clock {
            return "clock_timestamp()".to_owned();
        }
        let us = self.database.host.wall().as_micros();
        format!("timestamptz '1970-01-01 00:00:00+00' + interval '{us} microseconds'")
    }

    async fn take(&self, key: &str, owner: &Owner) -> Result<bool, LockError> {
        let (now, lease_us, owner) = (self.now(), self.lock.lease.0, owner.as_str());
        let sql = format!(
            "INSERT INTO lockstorm_lock AS held (key, owner, token, holds, expires_at) VALUES \
             ('{key}', '{owner}', nextval('lockstorm_token'), 1, \
             {now} + interval '{lease_us} microseconds') ON CONFLICT (key) DO UPDATE SET \
             owner = EXCLUDED.owner, token = EXCLUDED.token, holds = 1, \
             expires_at = EXCLUDED.expires_at \
             WHERE held.owner = EXCLUDED.owner OR held.expires_at <= {now} RETURNING token"
        );
        Ok(!self.database.ask(&sql).await?.is_empty())
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let host = &self.database.host;
        let ask_once = || async {
            let asked_at = host.monotonic();
            let is_ours = self.take(key, owner).await?;
            Ok(if is_ours { Asked::Granted(asked_at) } else { Asked::Busy })
        };
        let asked_at = until_granted(host, &self.lock, patience, ask_once).await?;
        let grant = grant(&self.lock, key, owner, None, asked_at);
        let whose = match self.steps.deletes_its_own {
            true => format!(" AND owner = '{owner}'", owner = owner.as_str()),
            false => String::new(),
        };
        let delete = format!("DELETE FROM lockstorm_lock WHERE key = '{key}'{whose} RETURNING key");
        let held = Row { database: self.database.clone(), delete };
        Ok(Guard::new(host.clone(), grant, held))
    }
}

impl Lock for InTable {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let (lease, retry) = (self.lock.lease.to_duration(), self.lock.retry.to_duration());
        lease + retry + self.database.two_statements()
    }
}

/// The row behind a guard.
struct Row {
    database: Arc<Database>,
    delete: String,
}

impl GuardBackend for Row {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (database, delete) = (self.database.clone(), self.delete.clone());
        Box::pin(async move {
            match database.ask(&delete).await {
                Ok(rows) if rows.is_empty() => Release::NotHeld,
                Ok(_) => Release::Released,
                Err(error) => Release::Indeterminate { reason: error.to_string() },
            }
        })
    }
}

/// A lock whose holder hears nothing of its loss.
struct Deaf {
    lock: Arc<dyn Lock>,
    host: Host,
}

/// A session keeps a lock for as long as it lives.
const WHILE_IT_LIVES: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

impl Lock for Deaf {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let asked_at = self.host.monotonic();
            let guard = self.lock.acquire(key, owner, patience).await?;
            let grant = Grant {
                key: key.to_owned(),
                owner: owner.clone(),
                token: guard.token(),
                lease: WHILE_IT_LIVES,
                margin: Duration::ZERO,
                asked_at,
            };
            Ok(Guard::new(self.host.clone(), grant, Unheard(Some(guard))))
        })
    }

    fn takeover_bound(&self) -> Duration {
        self.lock.takeover_bound()
    }

    fn promises(&self) -> Promises {
        self.lock.promises()
    }
}

/// A guard that nobody asks.
struct Unheard(Option<Guard>);

impl GuardBackend for Unheard {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        match self.0.take() {
            Some(guard) => Box::pin(guard.release()),
            None => Box::pin(std::future::ready(Release::NotHeld)),
        }
    }
}

/// An advisory lock of a session.
struct Advisory {
    database: Arc<Database>,
    lock: LockPlan,
    half: Half,
}

impl Advisory {
    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let (database, host) = (&self.database, &self.database.host);
        let lease_ms = self.lock.lease.to_duration().as_millis();
        let (number, name) = (number_of(key), owner.as_str());
        let ends = match self.half {
            Half::Mended => format!("SET idle_session_timeout = {lease_ms};"),
            Half::Planted => String::new(),
        };
        let take = format!(
            "SET application_name = '{name}'; {ends} SELECT pg_try_advisory_lock({number})"
        );
        let ask_once = || async {
            // Of its own, since one that is idle may end, and the lock with it.
            let session = database.dial().await?;
            let asked_at = host.monotonic();
            let rows = database.ask_in(&session, &take).await?;
            let is_ours = rows.last().is_some_and(|row| row[..] == [Some("t".to_owned())]);
            Ok(if is_ours { Asked::Granted((session, asked_at)) } else { Asked::Busy })
        };
        let asked = until_granted(host, &self.lock, patience, ask_once);
        let (session, asked_at) = asked.await?;
        let grant = grant(&self.lock, key, owner, None, asked_at);
        let held = HeldBySession {
            database: database.clone(),
            session,
            unlock: format!("SELECT pg_advisory_unlock({number})"),
        };
        Ok(Guard::new(host.clone(), grant, held))
    }
}

impl Lock for Advisory {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let (lease, retry) = (self.lock.lease.to_duration(), self.lock.retry.to_duration());
        lease + retry + self.database.two_statements()
    }
}

/// A session behind a guard.
struct HeldBySession {
    database: Arc<Database>,
    session: Arc<Session>,
    unlock: String,
}

impl GuardBackend for HeldBySession {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (database, session) = (self.database.clone(), self.session.clone());
        let unlock = self.unlock.clone();
        Box::pin(async move {
            match database.ask_in(&session, &unlock).await {
                Ok(rows) if rows == [[Some("t".to_owned())]] => Release::Released,
                Ok(_) => Release::NotHeld,
                Err(error) => Release::Indeterminate { reason: error.to_string() },
            }
        })
    }
}

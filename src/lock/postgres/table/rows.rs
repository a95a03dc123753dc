//! The rows of the lock table, and what can be done to them: take one, set how often it is
//! held, delete it. Each is one statement in a transaction of its own.
//!
//! Every statement may be run twice with the same outcome, so one whose reply is lost is
//! asked again on a new connection. It grants nothing: whether a row is a grant is the
//! lock's to say.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use crate::host::{BoxFuture, Host};
use crate::lock::postgres::connection::Dialer;
use crate::lock::postgres::endpoint::Endpoint;
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::options::{InvalidOptions, Options};
use crate::lock::postgres::pool::{Pool, Usage};
use crate::lock::{Owner, Release};

/// The rows at one primary.
#[derive(Debug)]
pub(super) struct Rows {
    host: Host,
    options: Options,
    pool: Pool,
    servers: u32,
    /// With the lease written into it: of one lock value it is always the same.
    take: String,
}

/// A row that is ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Which row: a number that no other taking of the key has.
    pub(super) token: u64,
    /// The monotonic clock before the statement was sent: the lease cannot have begun
    /// earlier.
    pub(super) asked_at: Duration,
}

/// One parameter.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Of a row that never expires.
const INSERT: &str = "INSERT INTO lockstorm_lock (key, owner, token, holds) \
     VALUES ($1, $2, nextval('lockstorm_token'), 1) RETURNING token";

const SET_HOLDS: &str = "UPDATE lockstorm_lock SET holds = $3 \
     WHERE key = $1 AND owner = $2 AND token = $4 \
     RETURNING expires_at > clock_timestamp()";

const DELETE: &str = "DELETE FROM lockstorm_lock WHERE key = $1 AND owner = $2 \
     RETURNING coalesce(expires_at > clock_timestamp(), true)";

impl Rows {
    /// The rows at `endpoint`. Nothing is connected yet.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Arc<Self>, InvalidOptions> {
        let options = options.checked()?;
        endpoint.check()?;
        let dialer = Dialer::new(host.clone(), endpoint, options.command_timeout);
        let servers = dialer.servers();
        let pool = Pool::new(dialer, options.connections);
        let take = take_statement(options.lease_ms());
        Ok(Arc::new(Rows { host, options, pool, servers, take }))
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn usage(&self) -> Usage {
        self.pool.usage()
    }

    /// The lease, one retry, and twice (a statement may be asked again) a command timeout
    /// for each server that may be tried and for the statement.
    pub(super) fn takeover_bound(&self) -> Duration {
        let steps = self.servers.saturating_add(1).saturating_mul(2);
        self.options.lease + self.options.retry + self.options.command_timeout * steps
    }

    /// Takes the key if it is free, over or the owner's own, and has it held so often;
    /// `None` if it is somebody else's. If this is dropped, or fails, when the statement may
    /// have been sent, a best-effort release of the owner is spawned.
    pub(super) async fn take(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
        holds: i32,
    ) -> Result<Option<Row>, Failure> {
        let undo = Undo::release(self, key, owner);
        self.take_or(key, owner, holds, undo).await
    }

    /// The same, with another undoing.
    pub(super) async fn take_or(
        &self,
        key: &str,
        owner: &Owner,
        holds: i32,
        undo: Undo,
    ) -> Result<Option<Row>, Failure> {
        let owner = owner.as_str();
        let parameters: [Parameter; 3] =
            [(&key, Type::TEXT), (&owner, Type::TEXT), (&holds, Type::INT4)];
        let mut answer = self.taken(&self.take, &parameters).await;
        if matches!(answer, Err(Failure::NoReply { .. })) {
            answer = self.taken(&self.take, &parameters).await;
            if let Err(Failure::NotSent { reason } | Failure::NoConnection { reason }) = answer {
                // The first may have done it all the same.
                answer = Err(Failure::NoReply { reason });
            }
        }
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            undo.settle();
        }
        answer
    }

    /// Puts a row that never expires there; `None` if there is one. A reply that is lost is
    /// asked for by looking whether the row is the owner's.
    pub(super) async fn insert(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
    ) -> Result<Option<Row>, Failure> {
        let undo = Undo::release(self, key, owner);
        let name = owner.as_str();
        let parameters: [Parameter; 2] = [(&key, Type::TEXT), (&name, Type::TEXT)];
        let mut answer = self.taken(INSERT, &parameters).await;
        if matches!(answer, Err(Failure::NoReply { .. })) {
            answer = self.taken(INSERT, &parameters).await;
            if matches!(&answer, Err(failure) if failure.is_duplicate()) {
                let mine = "SELECT token FROM lockstorm_lock WHERE key = $1 AND owner = $2";
                answer = self.taken(mine, &parameters).await;
            }
            if let Err(Failure::NotSent { reason } | Failure::NoConnection { reason }) = answer {
                answer = Err(Failure::NoReply { reason });
            }
        }
        if matches!(&answer, Err(failure) if failure.is_duplicate()) {
            answer = Ok(None);
        }
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            undo.settle();
        }
        answer
    }

    async fn taken(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<Row>, Failure> {
        // The wait for a connection is none of the lease.
        let (sent_at, rows) = self.query::<i64>(sql, parameters).await?;
        match rows.first() {
            None => Ok(None),
            Some(token) if *token > 0 => {
                Ok(Some(Row { token: token.unsigned_abs(), asked_at: sent_at }))
            }
            // Something was done that we do not understand; the lease ends it.
            Some(token) => Err(Failure::NoReply {
                reason: format!("the sequence lockstorm_token gave {token}, no positive number"),
            }),
        }
    }

    /// Sets how often the owner holds this row; whether it is still its own and not over.
    pub(super) async fn set_holds(
        &self,
        key: &str,
        owner: &Owner,
        token: u64,
        holds: i32,
    ) -> Result<bool, Failure> {
        let (owner, token) = (owner.as_str(), token.cast_signed());
        let parameters: [Parameter; 4] =
            [(&key, Type::TEXT), (&owner, Type::TEXT), (&holds, Type::INT4), (&token, Type::INT8)];
        let mut answer = self.query::<bool>(SET_HOLDS, &parameters).await;
        if matches!(answer, Err(Failure::NoReply { .. })) {
            answer = self.query::<bool>(SET_HOLDS, &parameters).await;
        }
        Ok(answer?.1.first() == Some(&true))
    }

    /// Deletes the owner's row.
    pub(super) async fn release(&self, key: &str, owner: &Owner) -> Release {
        let owner = owner.as_str();
        let parameters: [Parameter; 2] = [(&key, Type::TEXT), (&owner, Type::TEXT)];
        let unanswered = match self.query::<bool>(DELETE, &parameters).await {
            Ok((_, rows)) => return told(rows.first() == Some(&true)),
            Err(failure) => failure,
        };
        match self.query::<bool>(DELETE, &parameters).await {
            Ok((_, rows)) if !rows.is_empty() => told(rows.first() == Some(&true)),
            Ok(_) if matches!(unanswered, Failure::NoReply { .. }) => {
                let reason = format!("{unanswered}; a second release found nothing, it is free");
                Release::Indeterminate { reason }
            }
            Ok(_) => Release::NotHeld,
            Err(failure) => Release::Indeterminate { reason: failure.to_string() },
        }
    }

    /// Runs a statement and takes the first column of its rows; and when it was sent.
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<(Duration, Vec<T>), Failure>
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let limit = self.options.command_timeout;
        let lent = self.pool.lend(limit * self.servers).await?;
        let sent_at = self.host.monotonic();
        let answer = lent.run(limit, lent.client().query_typed(sql, parameters)).await;
        lent.give_back_if_open();
        let mut values = Vec::new();
        for row in answer? {
            let value = row.try_get(0).map_err(|error| Failure::of_statement(&error))?;
            values.push(value);
        }
        Ok((sent_at, values))
    }
}

fn told(was_held: bool) -> Release {
    if was_held { Release::Released } else { Release::NotHeld }
}

/// Takes a key that is free, over, or the owner's own. The row of an owner that comes again
/// before its lease is over stays the same row, which its token says.
fn take_statement(lease_ms: u64) -> String {
    let end = format!("clock_timestamp() + interval '{lease_ms} milliseconds'");
    let mine = "held.owner = EXCLUDED.owner AND held.expires_at > clock_timestamp()";
    format!(
        "INSERT INTO lockstorm_lock AS held (key, owner, token, holds, expires_at) \
         VALUES ($1, $2, nextval('lockstorm_token'), $3, {end}) \
         ON CONFLICT (key) DO UPDATE SET \
         owner = EXCLUDED.owner, \
         token = CASE WHEN {mine} THEN held.token ELSE EXCLUDED.token END, \
         holds = CASE WHEN {mine} THEN EXCLUDED.holds ELSE 1 END, \
         expires_at = {end} \
         WHERE held.owner = EXCLUDED.owner OR held.expires_at <= clock_timestamp() \
         RETURNING token"
    )
}

/// What is undone, as a task, unless it is settled: a taking whose answer is not known, or
/// whose caller lost interest.
pub(super) struct Undo {
    host: Host,
    /// `None` once it is settled.
    undoing: Option<Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>>,
}

impl Undo {
    pub(super) fn new(
        host: &Host,
        undoing: impl FnOnce() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Undo { host: host.clone(), undoing: Some(Box::new(undoing)) }
    }

    fn release(rows: &Arc<Rows>, key: &str, owner: &Owner) -> Self {
        let (kept, key, owner) = (rows.clone(), key.to_owned(), owner.clone());
        Undo::new(&rows.host, move || {
            Box::pin(async move {
                // Best effort: the lease ends what this cannot.
                let _ = kept.release(&key, &owner).await;
            })
        })
    }

    /// Nothing is to be undone.
    pub(super) fn settle(mut self) {
        self.undoing = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(undoing) = self.undoing.take() {
            self.host.spawn("release", undoing());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_takes_what_is_free_and_what_is_over() {
        let statement = take_statement(5_000);
        assert_eq!(statement.matches("interval '5000 milliseconds'").count(), 2);
        assert!(!statement.contains("now()"));
    }
}

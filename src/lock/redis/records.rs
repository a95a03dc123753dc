//! The records at one Redis, and what can be done to them: take one, renew it, release
//! it, take an unanswered request back.
//!
//! It grants nothing: whether a record is a grant is the lock's to say.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::connection::{Connection, Live, Unanswered};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, Options};
use super::script::{self, Scripts};
use super::unsettled::Unsettled;
use crate::host::{BoxFuture, Host};
use crate::lock::{FencingToken, Grant, Owner, Release};

/// The records at one Redis, over one connection.
#[derive(Debug)]
pub(super) struct Records {
    host: Host,
    options: Options,
    connection: Connection,
    scripts: Scripts,
}

/// A record that is ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) token: Option<FencingToken>,
    /// The monotonic clock before the request was sent: the lease cannot have begun
    /// earlier.
    pub(super) asked_at: Duration,
}

impl Records {
    /// The records at `endpoint`. Nothing is connected yet.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Arc<Self>, InvalidOptions> {
        let options = options.checked()?;
        endpoint.check()?;
        let connection = Connection::new(
            host.clone(),
            endpoint,
            options.credentials.as_ref(),
            options.command_timeout,
        );
        Ok(Arc::new(Records { host, options, connection, scripts: Scripts::new() }))
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// As given, the lease in whole milliseconds.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// What a lock that keeps one record here declares: the lease, one retry, and four
    /// command timeouts (a command on a connection that turns out dead, asking a
    /// sentinel, connecting, the command). With sentinels one more, for asking the server
    /// its role, and one for each further sentinel, which may be dead.
    pub(super) fn takeover_bound(&self) -> Duration {
        let steps = 4 + self.connection.sentinels();
        self.options.lease + self.options.retry + steps * self.options.command_timeout
    }

    /// The facts of a grant that stands on one record here.
    pub(super) fn grant(&self, key: &str, owner: &Owner, taken: Taken) -> Grant {
        Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: taken.token,
            lease: self.options.lease,
            margin: self.options.margin,
            asked_at: taken.asked_at,
        }
    }

    /// Asks for the record once; `None` if somebody else's is in place. If this is
    /// dropped, or fails, when the request may have been sent, one best-effort release
    /// of the owner is spawned.
    pub(super) async fn take(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
    ) -> Result<Option<Taken>, Failure> {
        self.take_and(key, owner, |_| std::future::ready(Ok(()))).await
    }

    /// [`take`](Records::take), and then what must be done on the same connection before
    /// the record counts. If that fails, or is dropped, the record is taken back too.
    pub(super) async fn take_and<F>(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
        then: impl FnOnce(Arc<Live>) -> F,
    ) -> Result<Option<Taken>, Failure>
    where
        F: Future<Output = Result<(), Failure>>,
    {
        let live = self.connection.ready().await?;
        let mut unsettled = Unsettled::new(&self.host, {
            let (records, live) = (self.clone(), live.clone());
            let (key, owner) = (key.to_owned(), owner.clone());
            move || -> BoxFuture<'static, ()> {
                Box::pin(async move {
                    let _ = records.take_back(live, &key, &owner).await;
                })
            }
        });
        let answer = self.take_on(&live, key, owner).await;
        if !matches!(answer, Err(Failure::NoReply { .. }) | Ok(Some(_))) {
            unsettled.settle();
        }
        let Some(taken) = answer? else { return Ok(None) };
        then(live).await?;
        let usable = self.options.lease.saturating_sub(self.options.margin);
        if self.host.monotonic() >= taken.asked_at + usable {
            // It would be lost before its holder could act. Dropped, it is taken back.
            let reason = "the lease was over before the grant was sure".to_owned();
            return Err(Failure::NotSent { reason });
        }
        unsettled.settle();
        Ok(Some(taken))
    }

    /// Asks for the record once and does nothing about it if no answer comes but to keep
    /// where it was `unanswered`.
    pub(super) async fn take_unsettled(
        &self,
        key: &str,
        owner: &Owner,
        unanswered: &Unanswered,
    ) -> Result<Option<Taken>, Failure> {
        let live = self.connection.ready().await?;
        unanswered.set(Some(live.clone()));
        let answer = self.take_on(&live, key, owner).await;
        if !matches!(answer, Err(Failure::NoReply { .. })) {
            unanswered.set(None);
        }
        answer
    }

    /// Deletes the record if it still names `owner`, as a future of its own: behind the
    /// request for it, if that is `unanswered`.
    pub(super) fn taking_back(
        records: &Arc<Records>,
        key: &str,
        owner: &Owner,
        unanswered: &Unanswered,
    ) -> BoxFuture<'static, ()> {
        let (records, key, owner) = (records.clone(), key.to_owned(), owner.clone());
        let unanswered = unanswered.clone();
        Box::pin(async move {
            match unanswered.take() {
                Some(live) => drop(records.take_back(live, &key, &owner).await),
                None => drop(records.release(&key, &owner).await),
            }
        })
    }

    async fn take_on(
        &self,
        live: &Arc<Live>,
        key: &str,
        owner: &Owner,
    ) -> Result<Option<Taken>, Failure> {
        let asked_at = self.host.monotonic();
        let reply = self.connection.run(live, self.request(live, key, owner)).await;
        reply.and_then(|value| self.read_answer(value, asked_at))
    }

    /// The request that takes the record, and with [`Fencing::Counter`] the token.
    async fn request(&self, live: &Live, key: &str, owner: &Owner) -> RedisResult<Value> {
        let mut multiplexed = live.multiplexed();
        let lease_ms = self.options.lease_ms();
        match self.options.fencing {
            Fencing::None => {
                redis::cmd("SET")
                    .arg(key)
                    .arg(owner.as_str())
                    .arg("NX")
                    .arg("PX")
                    .arg(lease_ms)
                    .query_async(&mut multiplexed)
                    .await
            }
            Fencing::Counter => {
                self.scripts
                    .acquire
                    .key(key)
                    .key(script::token_key(key))
                    .arg(owner.as_str())
                    .arg(lease_ms)
                    .invoke_async(&mut multiplexed)
                    .await
            }
        }
    }

    fn read_answer(&self, value: Value, asked_at: Duration) -> Result<Option<Taken>, Failure> {
        match (self.options.fencing, value) {
            (_, Value::Nil) => Ok(None),
            (Fencing::None, Value::Okay) => Ok(Some(Taken { token: None, asked_at })),
            (Fencing::Counter, Value::Int(token)) if token > 0 => {
                let token = Some(FencingToken(token.unsigned_abs()));
                Ok(Some(Taken { token, asked_at }))
            }
            // Something was done that we do not understand; the lease ends it.
            (_, other) => Err(Failure::NoReply {
                reason: format!("an answer that makes no sense: {other:?}"),
            }),
        }
    }

    /// Lets the record live for `lease` from now, if it still names `owner`; whether it
    /// does.
    pub(super) async fn renew(
        &self,
        key: &str,
        owner: &Owner,
        lease: Duration,
    ) -> Result<bool, Failure> {
        let live = self.connection.ready().await?;
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.scripts.renew.key(key);
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        invocation.arg(owner.as_str()).arg(lease_ms);
        let request = invocation.invoke_async::<i64>(&mut multiplexed);
        Ok(self.connection.run(&live, request).await? == 1)
    }

    /// Waits until `replicas` have acknowledged everything that was written on this
    /// connection, for at most `limit`; how many have.
    pub(super) async fn wait_for_replicas(
        &self,
        live: &Arc<Live>,
        replicas: u16,
        limit: Duration,
    ) -> Result<u64, Failure> {
        let mut multiplexed = live.multiplexed();
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let mut command = redis::cmd("WAIT");
        command.arg(replicas).arg(limit_ms);
        self.connection.run(live, command.query_async::<u64>(&mut multiplexed)).await
    }

    /// Deletes the record if it still names `owner`, as a future of its own.
    pub(super) fn releasing(
        records: &Arc<Records>,
        key: &str,
        owner: &Owner,
    ) -> BoxFuture<'static, Release> {
        let (records, key, owner) = (records.clone(), key.to_owned(), owner.clone());
        Box::pin(async move { records.release(&key, &owner).await })
    }

    /// Deletes the record if it still names `owner`.
    pub(super) async fn release(&self, key: &str, owner: &Owner) -> Release {
        let mut released = self.release_once(key, owner).await;
        if matches!(&released, Err(failure) if failure.is_read_only()) {
            // Refused by a master that was demoted meanwhile: nothing happened, and a
            // new connection may find the new one.
            released = self.release_once(key, owner).await;
        }
        match released {
            Ok(true) => Release::Released,
            Ok(false) => Release::NotHeld,
            Err(failure) => Release::Indeterminate { reason: failure.to_string() },
        }
    }

    async fn release_once(&self, key: &str, owner: &Owner) -> Result<bool, Failure> {
        let live = self.connection.ready().await?;
        let mut multiplexed = live.multiplexed();
        let mut invocation = self.scripts.release.key(key);
        let request = invocation.arg(owner.as_str()).invoke_async::<i64>(&mut multiplexed);
        Ok(self.connection.run(&live, request).await? == 1)
    }

    /// Takes an unanswered request back, as a best effort: on the connection it went
    /// out on, where the release cannot overtake it, or, if that has broken, on
    /// another, which may still find the record.
    async fn take_back(&self, live: Arc<Live>, key: &str, owner: &Owner) -> Result<(), Failure> {
        let live = if live.is_open() { live } else { self.connection.ready().await? };
        let mut multiplexed = live.multiplexed();
        let command = script::release_in_one(key, owner.as_str());
        let request = command.query_async::<i64>(&mut multiplexed);
        self.connection.run(&live, request).await.map(drop)
    }
}

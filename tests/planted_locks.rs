//! Is a bug found that only a cancelled operation brings out, or only a reply that is lost
//! after its request was applied?
//!
//! Each lock here is planted: it is sound in calm weather. Its mended twin differs from it
//! in the one thing, and is sound in the storm as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};
use lockstorm_sim::check::{Finding, Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::{self, Run};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult};

/// Three clients that leave the lock free for hardly a moment.
fn plan(fault: &str) -> Plan {
    let text = format!(
        r#"
schema = 1
scenario = "redis-single"
seed = "0x7"
duration = "6s"

[topology]
apps = 3

[lock]
retry = "5ms"

[workload]
think = "20ms"
work = "60ms"
slow-per-mille = 0
{fault}"#
    );
    file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"))
}

const CANCEL: &str = r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 4
await = 1
delay = "10ms"
"#;

const RESET: &str = r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
after = "app-1 release 3 applied"
"#;

fn on_both(fault: &str, lock: &LockFactory, check: impl Fn(&Run)) {
    for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
        let run = storm::run_with(&plan(fault), engine, lock);
        assert_eq!(run.ending.stuck, None, "{}", run.engine);
        check(&run);
    }
}

/// The planted lock is sound without the fault; its twin is with it.
fn only_brings_out(fault: &str, planted: &LockFactory, mended: &LockFactory, kinds: &[Kind]) {
    on_both("", planted, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}: {:#?}", run.engine, run.judgement);
    });
    on_both(fault, planted, |run| {
        for kind in kinds {
            assert!(run.judgement.has_violation(*kind), "{kind}: {:#?}", run.judgement);
        }
        let blamed =
            |finding: &Finding| finding.blame.faults.iter().any(|blamed| blamed.fault == 0);
        assert!(run.judgement.violations().any(blamed), "{}: {:#?}", run.engine, run.judgement);
    });
    on_both(fault, mended, |run| {
        assert_eq!(run.judgement.goals.touched, [0], "{:#?}", run.judgement);
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}: {:#?}", run.engine, run.judgement);
    });
}

/// A reentrant lock: who is inside already is let in again without asking the server.
struct Reentrant {
    lock: Arc<dyn Lock>,
    host: Host,
    inside: Inside,
    /// It notes that it is inside before the server has said so. A caller that loses
    /// interest meanwhile leaves the note behind.
    hasty: bool,
}

type Inside = Arc<AtomicBool>;

impl Lock for Reentrant {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            if self.inside.load(Ordering::Relaxed) {
                return Ok(self.guard(key, owner, None));
            }
            self.inside.store(self.hasty, Ordering::Relaxed);
            let result = self.lock.acquire(key, owner, patience).await;
            self.inside.store(result.is_ok(), Ordering::Relaxed);
            Ok(self.guard(key, owner, Some(result?)))
        })
    }

    fn takeover_bound(&self) -> Duration {
        self.lock.takeover_bound()
    }
}

impl Reentrant {
    fn guard(&self, key: &str, owner: &Owner, outer: Option<Guard>) -> Guard {
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: None,
            lease: Duration::from_secs(5),
            margin: Duration::ZERO,
            asked_at: self.host.monotonic(),
        };
        Guard::new(self.host.clone(), grant, Entered { outer, inside: self.inside.clone() })
    }
}

/// What a guard of [`Reentrant`] gives back; without a guard of its own it is a nested one.
struct Entered {
    outer: Option<Guard>,
    inside: Inside,
}

impl GuardBackend for Entered {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (outer, inside) = (self.outer.take(), self.inside.clone());
        Box::pin(async move {
            inside.store(false, Ordering::Relaxed);
            match outer {
                Some(guard) => guard.release().await,
                None => Release::Released,
            }
        })
    }
}

fn reentrant(hasty: bool) -> LockFactory {
    locks::made_by(move |host, plan| {
        let (lock, host) = (locks::build(host, plan)?, host.clone());
        Ok(Arc::new(Reentrant { lock, host, inside: Inside::default(), hasty }))
    })
}

#[test]
fn a_reentrant_lock_that_counts_before_it_is_granted_is_found_by_a_cancellation() {
    let kinds = [Kind::EffectInterleaved];
    only_brings_out(CANCEL, &reentrant(true), &reentrant(false), &kinds);
}

/// A lock that asks again when a reply is lost, as libraries do.
struct Retrying {
    shared: Arc<Shared>,
}

struct Shared {
    host: Host,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// It deletes the record whosever it is. Nobody else's can be there: it is released
    /// in time. But asked for the second time, it may be the next holder's.
    careless: bool,
}

const LEASE: Duration = Duration::from_secs(5);
const BACKOFF: Duration = Duration::from_millis(30);
const DELETE_OWN: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
                          redis.call('del', KEYS[1]) else return 0 end";

impl Shared {
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let open = self.connection.lock().unwrap().clone();
        if let Some(open) = open {
            return Ok(open);
        }
        let stream = self.host.connect("redis-1:6379").await?;
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let info = RedisConnectionInfo::default();
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        self.host.spawn("redis-driver", driver);
        *self.connection.lock().unwrap() = Some(connection.clone());
        Ok(connection)
    }

    /// Asks until there is a reply.
    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        loop {
            if let Ok(mut connection) = self.connect().await
                && let Ok(reply) = command.query_async(&mut connection).await
            {
                return reply;
            }
            *self.connection.lock().unwrap() = None;
            self.host.sleep(BACKOFF).await;
        }
    }

    async fn release(&self, key: &str, owner: &Owner) -> Release {
        let mut command = redis::cmd(if self.careless { "DEL" } else { "EVAL" });
        match self.careless {
            true => command.arg(key),
            false => command.arg(DELETE_OWN).arg(1).arg(key).arg(owner.as_str()),
        };
        match self.ask(&command).await {
            1 => Release::Released,
            _ => Release::NotHeld,
        }
    }
}

impl Lock for Retrying {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let host = &self.shared.host;
            let began = host.monotonic();
            let mut set = redis::cmd("SET");
            set.arg(key).arg(owner.as_str()).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
            loop {
                let asked_at = host.monotonic();
                let granted: Option<String> = self.shared.ask(&set).await;
                if granted.is_some() {
                    let (key, owner) = (key.to_owned(), owner.clone());
                    let record = Record { lock: self.shared.clone(), key, owner };
                    return Ok(Guard::new(host.clone(), record.grant(asked_at), record));
                }
                if host.monotonic() - began >= patience {
                    return Err(LockError::TimedOut);
                }
                host.sleep(host.random_duration("retry", BACKOFF / 10, BACKOFF / 5)).await;
            }
        })
    }

    fn takeover_bound(&self) -> Duration {
        LEASE + BACKOFF
    }
}

struct Record {
    lock: Arc<Shared>,
    key: String,
    owner: Owner,
}

impl Record {
    fn grant(&self, asked_at: Duration) -> Grant {
        let (key, owner) = (self.key.clone(), self.owner.clone());
        Grant { key, owner, token: None, lease: LEASE, margin: Duration::ZERO, asked_at }
    }
}

impl GuardBackend for Record {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (lock, key, owner) = (self.lock.clone(), self.key.clone(), self.owner.clone());
        Box::pin(async move { lock.release(&key, &owner).await })
    }
}

fn retrying(careless: bool) -> LockFactory {
    locks::made_by(move |host, _| {
        let host = host.clone();
        let shared = Shared { host, connection: Mutex::default(), careless };
        Ok(Arc::new(Retrying { shared: Arc::new(shared) }))
    })
}

#[test]
fn a_release_that_is_asked_for_again_is_found_by_a_lost_reply() {
    let kinds = [Kind::WrongRelease, Kind::DoubleGrant, Kind::EffectInterleaved];
    only_brings_out(RESET, &retrying(true), &retrying(false), &kinds);
}

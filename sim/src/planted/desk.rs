//! The connection of a planted lock, and the sound steps of a lock in one Redis.
//!
//! A bug replaces one step and takes the others from here, so that its twin differs by
//! the mend alone. The steps are those of the product's lock `redis`: the record and its
//! expiry in one command, a request without an answer taken back on its connection, a
//! release that compares and deletes in one script.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;
use lockstorm::lock::{LockError, Owner, Release};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo,
};
use tokio::sync::Notify;

use crate::plan::{Fence, LockPlan, Plan};
use crate::storm::scene::REDIS_PORT;

/// The master of the scenarios with one Redis.
const MASTER: &str = "redis-1";

/// Deletes the record only while it names the owner.
pub(super) const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// Writes the record and counts the grant.
const TAKE_WITH_TOKEN: &str = "\
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
return redis.call('INCR', KEYS[2])";

/// Why a command was not answered with success.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Nothing was sent.
    NotSent(String),
    /// Something may have been.
    NoReply(String),
    /// The server refused.
    Refused(String),
}

impl From<Failure> for LockError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoReply(reason) => LockError::Indeterminate { reason },
            Failure::NotSent(reason) | Failure::Refused(reason) => LockError::Backend { reason },
        }
    }
}

/// One acquire, or the grant that came of it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub key: String,
    pub owner: Owner,
}

/// How one try went.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Granted { token: Option<u64>, asked_at: Duration },
    Busy,
}

/// A lock's connection and options. Cheap to clone.
#[derive(Clone)]
pub(super) struct Desk {
    pub host: Host,
    pub lock: LockPlan,
    /// Whether grants carry tokens.
    pub tokens: bool,
    address: Arc<str>,
    current: Arc<Mutex<Option<Arc<Live>>>>,
}

/// A connection of its own on which a channel is listened to.
pub(super) struct Listening {
    /// Woken by each message.
    pub heard: Arc<Notify>,
    _live: Arc<Live>,
}

/// An open connection, with its driver.
pub(super) struct Live {
    multiplexed: MultiplexedConnection,
    driver: Task,
    ended: Arc<AtomicBool>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Desk {
    /// At the one master.
    pub fn new(host: Host, plan: &Plan) -> Desk {
        Desk::at(host, plan, MASTER)
    }

    /// At this server.
    pub fn at(host: Host, plan: &Plan, node: &str) -> Desk {
        let tokens = plan.fence != Fence::Off;
        let address = format!("{node}:{REDIS_PORT}").into();
        Desk { host, lock: plan.lock.clone(), tokens, address, current: Arc::default() }
    }

    pub fn lease(&self) -> Duration {
        self.lock.lease.to_duration()
    }

    pub fn lease_ms(&self) -> u64 {
        self.lock.lease.0 / 1_000
    }

    pub fn margin(&self) -> Duration {
        super::patience::margin(&self.lock)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection; opens one if there is none.
    pub async fn ready(&self) -> Result<Arc<Live>, Failure> {
        if let Some(live) = self.slot().clone().filter(|live| live.is_open()) {
            return Ok(live);
        }
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let live = self.dial(login, AsyncConnectionConfig::new()).await?;
        *self.slot() = Some(live.clone());
        Ok(live)
    }

    /// Opens a connection of its own, on which `channel` is listened to.
    pub async fn listen(&self, channel: &str) -> Result<Listening, Failure> {
        let heard = Arc::new(Notify::new());
        let pushed = heard.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Message {
                pushed.notify_one();
            }
            Ok::<(), redis::aio::SendError>(())
        });
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let live = self.dial(login.set_protocol(ProtocolVersion::RESP3), config).await?;
        let mut multiplexed = live.multiplexed();
        self.within(&live, multiplexed.subscribe(channel)).await?;
        Ok(Listening { heard, _live: live })
    }

    async fn dial(
        &self,
        login: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Arc<Live>, Failure> {
        let address = &*self.address;
        let opening = async {
            let stream = self.host.connect(address).await.map_err(|error| error.to_string())?;
            let config = config.set_response_timeout(None).set_connection_timeout(None);
            MultiplexedConnection::new_with_config(&login, stream, config)
                .await
                .map_err(|error| error.to_string())
        };
        let opened = self.host.timeout(self.lock.command_timeout.to_duration(), opening).await;
        let opened = opened.unwrap_or_else(|_| Err(format!("no connection to {address} in time")));
        let (multiplexed, driver) = opened.map_err(Failure::NotSent)?;
        let ended = Arc::new(AtomicBool::new(false));
        let driver = self.host.spawn("redis-driver", {
            let ended = ended.clone();
            async move {
                driver.await;
                ended.store(true, Ordering::Relaxed);
            }
        });
        Ok(Arc::new(Live { multiplexed, driver, ended }))
    }

    /// Sends a command and awaits its reply, within the command timeout.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        let live = self.ready().await?;
        self.ask_on(&live, command).await
    }

    /// Likewise on this connection.
    pub async fn ask_on<T: FromRedisValue>(
        &self,
        live: &Arc<Live>,
        command: &Cmd,
    ) -> Result<T, Failure> {
        let mut multiplexed = live.multiplexed.clone();
        self.within(live, command.query_async(&mut multiplexed)).await
    }

    /// Awaits what was asked on `live`, within the command timeout.
    pub async fn within<T>(
        &self,
        live: &Arc<Live>,
        reply: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, Failure> {
        let failure = match self.host.timeout(self.lock.command_timeout.to_duration(), reply).await
        {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::Server(_) | ErrorKind::Extension => {
                    return Err(Failure::Refused(error.to_string()));
                }
                _ => Failure::NoReply(error.to_string()),
            },
            Err(_) => Failure::NoReply("no reply in time".to_owned()),
        };
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            *slot = None;
        }
        Err(failure)
    }

    /// Takes the record, and with tokens the token, in one step.
    pub async fn take(&self, ask: &Ask) -> Result<Answer, Failure> {
        let command = self.take_command(ask);
        self.taking(ask, &command).await
    }

    fn take_command(&self, ask: &Ask) -> Cmd {
        let mut command;
        if self.tokens {
            command = redis::cmd("EVAL");
            command.arg(TAKE_WITH_TOKEN).arg(2).arg(&ask.key).arg(token_key(&ask.key));
            command.arg(ask.owner.as_str()).arg(self.lease_ms());
        } else {
            command = redis::cmd("SET");
            command.arg(&ask.key).arg(ask.owner.as_str()).arg("NX").arg("PX").arg(self.lease_ms());
        }
        command
    }

    /// Sends a command that takes the record. Answers: nil or 0 is busy, an integer is the
    /// token where there are tokens. A request without an answer is taken back.
    pub async fn taking(&self, ask: &Ask, command: &Cmd) -> Result<Answer, Failure> {
        let live = self.ready().await?;
        let mut unsettled = self.unsettled(ask, &live);
        let asked_at = self.host.monotonic();
        let reply = self.ask_on(&live, command).await;
        unsettled.settle_unless_unanswered(&reply);
        Ok(match reply? {
            redis::Value::Nil | redis::Value::Int(0) => Answer::Busy,
            redis::Value::Int(token) if self.tokens => {
                Answer::Granted { token: u64::try_from(token).ok(), asked_at }
            }
            _ => Answer::Granted { token: None, asked_at },
        })
    }

    /// What takes a request back, unless it is settled.
    pub fn unsettled(&self, ask: &Ask, live: &Arc<Live>) -> Unsettled {
        Unsettled { desk: self.clone(), ask: ask.clone(), live: Some(live.clone()) }
    }

    /// Deletes the record if it names the owner.
    pub async fn give_back(&self, ask: &Ask) -> Release {
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_DELETE).arg(1).arg(&ask.key).arg(ask.owner.as_str());
        released(self.ask(&command).await)
    }
}

/// What a count of deleted records means.
pub(super) fn released(deleted: Result<i64, Failure>) -> Release {
    match deleted {
        Ok(0) => Release::NotHeld,
        Ok(_) => Release::Released,
        Err(failure) => Release::Indeterminate { reason: format!("{failure:?}") },
    }
}

/// The counter of a lock.
pub(super) fn token_key(key: &str) -> String {
    format!("{{{key}}}:token")
}

impl Live {
    fn is_open(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    /// A handle to send through.
    pub fn multiplexed(&self) -> MultiplexedConnection {
        self.multiplexed.clone()
    }
}

/// A request that may have been sent: dropped unsettled, it is taken back, on its
/// connection where that is open, so that the release cannot overtake it.
pub(super) struct Unsettled {
    desk: Desk,
    ask: Ask,
    live: Option<Arc<Live>>,
}

impl Unsettled {
    /// The answer is known, unless there is none.
    pub fn settle_unless_unanswered<T>(&mut self, reply: &Result<T, Failure>) {
        if !matches!(reply, Err(Failure::NoReply(_))) {
            self.live = None;
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let (desk, ask) = (self.desk.clone(), self.ask.clone());
        self.desk.host.spawn("release", async move {
            let mut command = redis::cmd("EVAL");
            command.arg(COMPARE_AND_DELETE).arg(1).arg(&ask.key).arg(ask.owner.as_str());
            let live = if live.is_open() { Ok(live) } else { desk.ready().await };
            if let Ok(live) = live {
                // Best effort.
                let _ = desk.ask_on::<i64>(&live, &command).await;
            }
        });
    }
}

//! A bug of waiters that a message wakes.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Listening, released};
use super::patience::grant;

/// Deletes the record only while it names the owner, and tells who waits.
const GIVE_BACK_AND_TELL: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PUBLISH', ARGV[2], 'free')
return redis.call('DEL', KEYS[1])";

/// A waiter that looks again without being told does so after so many retries.
const POLLS: u32 = 10;

/// redisson#3891, redisson#763: who waits is woken by a message and by nothing else. One that
/// is published before the subscription is there, one that a broken connection loses, and one
/// that nobody publishes, because the holder died, are waited for.
pub(super) fn by_message_alone(desk: Desk, half: Half) -> Arc<dyn Lock> {
    Arc::new(Woken { desk, half })
}

struct Woken {
    desk: Desk,
    half: Half,
}

fn channel(key: &str) -> String {
    format!("{{{key}}}:free")
}

impl Woken {
    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let (desk, host) = (&self.desk, &self.desk.host);
        let ask = Ask { key: key.to_owned(), owner: owner.clone() };
        let began = host.monotonic();
        let mut listening: Option<Listening> = None;
        loop {
            if let Answer::Granted { asked_at, .. } = desk.take(&ask).await? {
                return Ok(self.guard(ask, asked_at));
            }
            let left = patience.saturating_sub(host.monotonic().saturating_sub(began));
            if left.is_zero() {
                return Err(LockError::TimedOut);
            }
            if listening.is_none() {
                listening = Some(desk.listen(&channel(key)).await?);
                if self.half.is_mended() {
                    // It may have been given back in between.
                    continue;
                }
            }
            let wait = match self.half {
                Half::Planted => left,
                Half::Mended => left.min(POLLS * desk.lock.retry.to_duration()),
            };
            if let Some(Listening { heard, .. }) = &listening {
                // Woken or out of time, it looks again.
                let _ = host.timeout(wait, heard.notified()).await;
            }
        }
    }

    fn guard(&self, ask: Ask, asked_at: Duration) -> Guard {
        let desk = &self.desk;
        let grant = grant(&desk.lock, &ask.key, &ask.owner, None, asked_at);
        Guard::new(desk.host.clone(), grant, Telling { desk: desk.clone(), ask })
    }
}

impl Lock for Woken {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let lock = &self.desk.lock;
        let polls = POLLS * lock.retry.to_duration();
        self.desk.lease() + polls + 4 * lock.command_timeout.to_duration()
    }
}

/// A record behind a guard.
struct Telling {
    desk: Desk,
    ask: Ask,
}

impl GuardBackend for Telling {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (desk, ask) = (self.desk.clone(), self.ask.clone());
        Box::pin(async move {
            let mut command = redis::cmd("EVAL");
            command.arg(GIVE_BACK_AND_TELL).arg(1).arg(&ask.key);
            command.arg(ask.owner.as_str()).arg(channel(&ask.key));
            released(desk.ask(&command).await)
        })
    }
}

//! A task that keeps a record alive: every third of the lease it asks for a whole one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::host::{BoxFuture, Task};

use super::desk::{Ask, Desk, Failure};

/// Gives the record a whole lease, if it names the owner: 1, else 0.
const COMPARE_AND_EXPIRE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// One renewal: whether the record was there to be renewed.
pub(super) type Renew = fn(Desk, Ask) -> BoxFuture<'static, Result<bool, Failure>>;

/// How records are renewed; the default is sound.
#[derive(Clone, Copy)]
pub(super) struct Renewer {
    pub renew: Renew,
    /// Whether a renewal that failed is tried again while the lease lasts.
    pub retries: bool,
    /// Whether the holder is told that the record is another's, or that the lease is over.
    pub tells: bool,
}

impl Default for Renewer {
    fn default() -> Self {
        Renewer { renew: compare_and_expire, retries: true, tells: true }
    }
}

/// The sound renewal.
pub(super) fn compare_and_expire(
    desk: Desk,
    ask: Ask,
) -> BoxFuture<'static, Result<bool, Failure>> {
    Box::pin(async move { renew_by(&desk, &ask, COMPARE_AND_EXPIRE).await })
}

/// Renews by a script of a key, an owner and a lease in ms.
pub(super) async fn renew_by(desk: &Desk, ask: &Ask, script: &str) -> Result<bool, Failure> {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(1).arg(&ask.key).arg(ask.owner.as_str()).arg(desk.lease_ms());
    Ok(desk.ask::<i64>(&command).await? == 1)
}

struct State {
    deadline: Duration,
    lost: Option<String>,
}

/// A renewal under way.
pub(super) struct Renewal {
    state: Arc<Mutex<State>>,
    task: Task,
}

impl Renewal {
    /// Renews the record of `ask`, which was asked for at `asked_at`. `missed` is called
    /// when a renewal has found no record of ours.
    pub fn begin(
        desk: &Desk,
        ask: &Ask,
        asked_at: Duration,
        renewer: Renewer,
        missed: impl Fn() + Send + 'static,
    ) -> Arc<Renewal> {
        let deadline = asked_at + desk.lease().saturating_sub(desk.margin());
        let state = Arc::new(Mutex::new(State { deadline, lost: None }));
        let renewing = renew(desk.clone(), ask.clone(), renewer, state.clone(), missed);
        Arc::new(Renewal { state, task: desk.host.spawn("renewer", renewing) })
    }

    /// Renews no more.
    pub fn end(&self) {
        self.task.abort();
    }

    pub fn deadline(&self) -> Duration {
        lock(&self.state).deadline
    }

    pub fn lost(&self) -> Option<String> {
        lock(&self.state).lost.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn renew(
    desk: Desk,
    ask: Ask,
    renewer: Renewer,
    state: Arc<Mutex<State>>,
    missed: impl Fn() + Send + 'static,
) {
    let tell = |why: &str| {
        if renewer.tells {
            lock(&state).lost = Some(why.to_owned());
        }
    };
    let mut pause = desk.lease() / 3;
    loop {
        desk.host.sleep(pause).await;
        let asked_at = desk.host.monotonic();
        match (renewer.renew)(desk.clone(), ask.clone()).await {
            Ok(true) => {
                let whole = desk.lease().saturating_sub(desk.margin());
                lock(&state).deadline = asked_at + whole;
                pause = desk.lease() / 3;
            }
            Ok(false) => {
                tell("a renewal found the record gone");
                return missed();
            }
            Err(_) if !renewer.retries => return,
            Err(_) => {
                if desk.host.monotonic() >= lock(&state).deadline {
                    return tell("no renewal came through while the lease lasted");
                }
                pause = desk.lock.retry.to_duration();
            }
        }
    }
}

//! Locks that a session holds, with a transaction around it or without: taken by one batch
//! of statements, watched while they are held, given back by another.
//!
//! The server gives such a lock back when the session ends. So the connection is the
//! lock's, its end is the lock's loss and told to the holder at once, and silence is
//! bounded on both sides: the server ends a session that says nothing for a lease, and a
//! task of the holder's says something each third of it ([`Watch`]).
//!
//! Order of things: what a lock says ([`Claim`]), asking for it ([`Sessions`]), the guard's
//! backend ([`Holding`]), the watch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::SimpleQueryMessage;

use super::connection::{Dialer, Live, Shared, first_text};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, LONGEST_SETTING, Options};
use super::pool::{Lent, Pool, Usage};
use super::waiting::until_granted;
use crate::host::{BoxFuture, Host, Task};
use crate::lock::{FencingToken, Grant, Guard, GuardBackend, LockError, Owner, Release};

/// What a lock says to take a key, and to give it back.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Settings and the taking, in one batch.
    pub take: String,
    /// What the last row of the answer must say; `None` where any row is a grant.
    pub granted_by: Option<&'static str>,
    /// Makes the session clean after it was refused without an error.
    pub after_refusal: &'static str,
    /// Makes the session clean after an error.
    pub after_error: Option<&'static str>,
    /// Gives the lock back and makes the session clean.
    pub give_back: String,
    /// What the first row of that answer must say; `None` where there is no row.
    pub given_back_by: Option<&'static str>,
    /// Makes what is claimed, if the claim finds it missing.
    pub make: Option<String>,
}

/// How waiters wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiters {
    /// At the server, on a connection of their own.
    Queue,
    /// By asking again.
    Poll,
}

/// What a claim is told: how long to wait at the server. `None`: not at all.
pub(super) type Wait = Option<Duration>;

/// The sessions of one lock value.
#[derive(Debug)]
pub(super) struct Sessions {
    host: Host,
    options: Options,
    pool: Pool,
    /// For what must not wait for a connection of the pool, nor be in the transaction that
    /// holds the lock: tokens, rows that are missing.
    clerk: Shared,
    servers: u32,
}

impl Sessions {
    /// Sessions at `endpoint`. Nothing is connected yet.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        options: Options,
    ) -> Result<Arc<Self>, InvalidOptions> {
        let options = options.checked()?;
        endpoint.check()?;
        let dialer = Dialer::new(host.clone(), endpoint, options.command_timeout);
        let servers = dialer.servers();
        let pool = Pool::new(dialer.clone(), options.connections);
        Ok(Arc::new(Sessions { host, options, pool, clerk: Shared::new(dialer), servers }))
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn usage(&self) -> Usage {
        self.pool.usage()
    }

    /// The server's limit of silence, one retry, and for each server that may be tried a
    /// command timeout, with three more: a statement on a connection that turns out dead,
    /// the claim, the token.
    pub(super) fn takeover_bound(&self) -> Duration {
        let steps = self.servers.saturating_add(3);
        self.options.lease + self.options.retry + self.options.command_timeout * steps
    }

    /// Within that a holder is told, or is past its own deadline: a third of the lease to
    /// the next word, and the time for its answer, but never longer than the lease.
    pub(super) fn loss_notice_bound(&self) -> Duration {
        self.options.lease
    }

    /// Takes the key, as `claim` says.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        key: &str,
        owner: &Owner,
        patience: Duration,
        waiters: Waiters,
        claim: impl Fn(Wait) -> Claim,
    ) -> Result<Guard, LockError> {
        let claim = &claim;
        let (host, retry) = (&self.host, self.options.retry);
        let taken = until_granted(host, retry, patience, |left| {
            let waits = waiters == Waiters::Queue && left >= Duration::from_millis(1);
            self.take(left, waits.then_some(left), claim)
        });
        let Taken { lent, asked_at, token, claim } = taken.await?;
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token,
            lease: self.options.lease,
            margin: self.options.margin,
            asked_at,
        };
        let watch = Watch::start(self, lent.live(), asked_at);
        let holding = Holding { sessions: self.clone(), lent: Some(lent), claim, watch };
        Ok(Guard::new(self.host.clone(), grant, holding))
    }

    /// Asks once; `None` if somebody else has it. `left` is how long a connection may be
    /// waited for.
    async fn take(
        &self,
        left: Duration,
        wait: Wait,
        claim: impl Fn(Wait) -> Claim,
    ) -> Result<Option<Taken>, Failure> {
        let limit = self.options.command_timeout;
        let began = self.host.monotonic();
        let lent = self.pool.lend(left.max(limit * self.servers)).await?;
        let waited = self.host.monotonic().saturating_sub(began);
        let wait = wait.map(|wait| wait.saturating_sub(waited).max(Duration::from_millis(1)));
        let claim = claim(wait.map(|wait| wait.min(LONGEST_SETTING)));
        let mut asked_at = self.host.monotonic();
        let mut answer = lent.tell(wait.unwrap_or_default() + limit, &claim.take).await;
        if let (Ok(rows), Some(make)) = (&answer, &claim.make)
            && last_text(rows).is_none()
        {
            // Once in the life of a key.
            lent.tell(limit, claim.after_refusal).await?;
            self.clerk_tell(make).await?;
            asked_at = self.host.monotonic();
            answer = lent.tell(wait.unwrap_or_default() + limit, &claim.take).await;
        }
        let refused = match answer {
            Ok(rows) if claim.grants(&rows) => None,
            Ok(_) => {
                lent.tell(limit, claim.after_refusal).await?;
                Some(Ok(None))
            }
            Err(failure @ Failure::NoReply { .. }) => return Err(failure),
            Err(failure) => {
                if !failure.spoils_connection()
                    && let Some(after_error) = claim.after_error
                {
                    lent.tell(limit, after_error).await?;
                }
                let is_over = wait.is_some() && failure.is_cancelled();
                Some(if is_over || failure.is_busy() { Ok(None) } else { Err(failure) })
            }
        };
        if let Some(refused) = refused {
            lent.give_back_if_open();
            return refused;
        }
        // The server counts silence from its answer, and a wait at the server is none. One
        // more word, and both count from there.
        let now = self.host.monotonic();
        if now.saturating_sub(asked_at) > self.options.lease / 4 {
            asked_at = now;
            lent.tell(limit, STILL_HERE).await?;
        }
        let token = match self.options.fencing {
            Fencing::None => None,
            Fencing::Sequence => Some(self.token().await?),
        };
        if self.host.monotonic() >= asked_at + self.options.usable() {
            // It would be lost before its holder could act. Dropped, it is given back.
            let reason = "the lease was over before the grant was sure".to_owned();
            return Err(Failure::NotSent { reason });
        }
        Ok(Some(Taken { lent, asked_at, token, claim }))
    }

    /// A token of a transaction that has committed: the statement's own.
    async fn token(&self) -> Result<FencingToken, Failure> {
        let rows = self.clerk_tell("SELECT nextval('lockstorm_token')").await?;
        let token = first_text(&rows).and_then(|text| text.parse::<u64>().ok());
        token.map(FencingToken).ok_or_else(|| Failure::Refused {
            code: "XX000".to_owned(),
            message: "the sequence lockstorm_token gave no positive number".to_owned(),
            fatal: false,
        })
    }

    /// A statement of its own transaction. What became of an unanswered one does not matter:
    /// the lock that it was for is given back.
    async fn clerk_tell(&self, statement: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
        let live = self.clerk.ready().await?;
        match live.tell(self.options.command_timeout, statement).await {
            Err(Failure::NoReply { reason }) => Err(Failure::NotSent { reason }),
            answer => answer,
        }
    }
}

/// A statement that says only that the holder lives.
const STILL_HERE: &str = "SELECT 1";

impl Claim {
    fn grants(&self, rows: &[SimpleQueryMessage]) -> bool {
        match (last_text(rows), self.granted_by) {
            (Some(text), Some(word)) => text == word,
            (text, None) => text.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// The first column of the last row: settings come before the taking, and have none.
fn last_text(rows: &[SimpleQueryMessage]) -> Option<&str> {
    rows.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default()),
        _ => None,
    })
}

/// A lock that is ours.
struct Taken {
    lent: Lent,
    asked_at: Duration,
    token: Option<FencingToken>,
    claim: Claim,
}

/// A lock behind a guard.
struct Holding {
    sessions: Arc<Sessions>,
    /// `None` once the release has begun.
    lent: Option<Lent>,
    claim: Claim,
    watch: Watch,
}

impl GuardBackend for Holding {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let lost = self.watch.lost();
        let limit = self.sessions.options.command_timeout;
        let (lent, claim) = (self.lent.take(), self.claim.clone());
        Box::pin(async move {
            let Some(lent) = lent.filter(|_| lost.is_none()) else { return Release::NotHeld };
            if !lent.live().is_open() {
                return Release::NotHeld;
            }
            match lent.tell(limit, &claim.give_back).await {
                Ok(rows) => {
                    let told = first_text(&rows);
                    let was_held = claim.given_back_by.is_none_or(|word| told == Some(word));
                    lent.give_back();
                    if was_held { Release::Released } else { Release::NotHeld }
                }
                // The session was ended before it heard of the release.
                Err(Failure::Refused { fatal: true, .. }) => Release::NotHeld,
                Err(failure) => Release::Indeterminate { reason: failure.to_string() },
            }
        })
    }

    fn lost(&self) -> Option<String> {
        self.watch.lost()
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        self.watch.told()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.watch.deadline())
    }
}

/// The task that keeps a session from being silent, and learns of its end. It stops when
/// this is dropped.
struct Watch {
    course: Arc<Course>,
    task: Task,
}

/// What the task writes and the guard reads.
struct Course {
    standing: Mutex<Standing>,
    /// Woken when the lock is lost.
    told: Notify,
}

struct Standing {
    /// The end of the lease on the host's monotonic clock, margin taken off.
    deadline: Duration,
    lost: Option<String>,
}

impl Watch {
    fn start(sessions: &Arc<Sessions>, live: &Arc<Live>, asked_at: Duration) -> Watch {
        let deadline = asked_at + sessions.options.usable();
        let standing = Mutex::new(Standing { deadline, lost: None });
        let course = Arc::new(Course { standing, told: Notify::new() });
        let end = sessions.options.max_hold.map(|longest| asked_at + longest);
        let (sessions, live, watched) = (sessions.clone(), live.clone(), course.clone());
        let task = sessions.host.clone().spawn("renewer", async move {
            let reason = watch(&sessions, &live, &watched, asked_at, end).await;
            // The server gives the lock back when it sees this, if it has not.
            live.close();
            watched.standing().lost = Some(reason);
            watched.told.notify_waiters();
        });
        Watch { course, task }
    }

    fn deadline(&self) -> Duration {
        self.course.standing().deadline
    }

    fn lost(&self) -> Option<String> {
        self.course.standing().lost.clone()
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        let course = self.course.clone();
        Box::pin(async move {
            let told = course.told.notified();
            if course.standing().lost.is_none() {
                told.await;
            }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Course {
    fn standing(&self) -> std::sync::MutexGuard<'_, Standing> {
        // Nothing that can panic runs while it is held.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says something after each third of the lease; why the lock is lost.
async fn watch(
    sessions: &Sessions,
    live: &Live,
    course: &Course,
    asked_at: Duration,
    end: Option<Duration>,
) -> String {
    let (host, options) = (&sessions.host, &sessions.options);
    let mut next = asked_at + options.lease / 3;
    loop {
        let deadline = course.standing().deadline;
        let until = end.map_or(next, |end| next.min(end)).min(deadline);
        let rest = until.saturating_sub(host.monotonic());
        if let Ok(why) = host.timeout(rest, live.end()).await {
            return format!("the session ended, and with it the lock: {why}");
        }
        let now = host.monotonic();
        if now >= deadline {
            return "the server was silent for so long that it may have ended the session".into();
        }
        if end.is_some_and(|end| now >= end) {
            return "it was held for as long as it may be".to_owned();
        }
        // Not its own limit: a late answer is an answer, up to the deadline.
        match live.tell(deadline.saturating_sub(now), STILL_HERE).await {
            Ok(_) => {
                course.standing().deadline = now + options.usable();
                next = now + options.lease / 3;
            }
            Err(failure) => return format!("the session is not ours any more: {failure}"),
        }
    }
}

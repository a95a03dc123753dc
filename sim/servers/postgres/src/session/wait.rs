//! Waiting: for locks, for time, and for what others do to the session meanwhile.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Session;
use crate::error::{SqlError, SqlResult};
use crate::evaluate::{Environment, Need};
use crate::locks::{Acquired, MODE_NAMES, Mode, Scope, Step, Tag};
use crate::transaction::Pid;
use crate::value::Value;

impl Session {
    /// What has been asked of the session by others, or by the clock.
    pub(crate) fn check_interrupts(&mut self) -> SqlResult<()> {
        {
            let mut state = self.shared.lock();
            let Some(backend) = state.backends.get_mut(&self.core.pid) else { return Ok(()) };
            if backend.terminated {
                let told = "terminating connection due to administrator command";
                return Err(SqlError::fatal("57P01", told));
            }
            if std::mem::take(&mut backend.cancelled) {
                return Err(SqlError::new("57014", "canceling statement due to user request"));
            }
        }
        let now = self.shared.host.monotonic();
        if self.core.statement_deadline.is_some_and(|deadline| now >= deadline) {
            self.core.statement_deadline = None;
            return Err(SqlError::new("57014", "canceling statement due to statement timeout"));
        }
        Ok(())
    }

    /// Waits until somebody signals, or the given moment of the monotonic clock.
    ///
    /// # Errors
    /// When the statement is cancelled, its time is over, or the session is to end.
    pub(crate) async fn pause(&mut self, until: Option<Duration>) -> SqlResult<()> {
        self.check_interrupts()?;
        if let Some(instant) = &self.core.visits {
            let told = format!("lockstorm: the world stands still {instant}");
            let hint = "What this waits for does not come while no time passes.";
            return Err(SqlError::new("55P03", told).hint(hint));
        }
        let now = self.shared.host.monotonic();
        let interval = self.core.parameters.time("client_connection_check_interval");
        if let Some(interval) = interval
            && self.core.next_check.is_none_or(|next| next < now)
        {
            self.core.next_check = Some(now + interval);
        }
        let check = interval.and(self.core.next_check);
        let moments = [until, self.core.statement_deadline, check];
        let wake = moments.into_iter().flatten().min();
        let signal = self.signal.clone();
        let mut signalled = pin!(signal.notified());
        let mut sleep = wake.map(|wake| self.shared.host.sleep(wake.saturating_sub(now)));
        std::future::poll_fn(|context: &mut Context<'_>| {
            if signalled.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            match &mut sleep {
                Some(sleep) => sleep.as_mut().poll(context),
                None => Poll::Pending,
            }
        })
        .await;
        if check.is_some_and(|check| self.shared.host.monotonic() >= check) {
            self.core.next_check = None;
            let stream = &mut self.stream;
            let is_gone = std::future::poll_fn(|context| {
                Poll::Ready(stream.poll_peer_closed(context).is_ready())
            })
            .await;
            if is_gone {
                return Err(SqlError::fatal("08006", "connection to client lost"));
            }
        }
        self.check_interrupts()
    }

    /// What a function needs, and its value.
    pub(crate) async fn satisfy(&mut self, need: Need) -> SqlResult<Value> {
        match need {
            Need::Sleep(until) => {
                self.set_wait(Some(("Timeout", "PgSleep")));
                let slept = loop {
                    if self.shared.host.monotonic() >= until {
                        break Ok(Value::Void);
                    }
                    if let Err(error) = self.pause(Some(until)).await {
                        break Err(error);
                    }
                };
                self.set_wait(None);
                slept
            }
            Need::Lock { tag, mode, scope } => {
                self.wait_in_queue(tag).await?;
                let shared = self.shared.clone();
                let mut state = shared.lock();
                let environment =
                    Environment { shared: &shared, state: &mut state, core: &mut self.core };
                environment.tell_advisory(tag, mode, scope);
                Ok(Value::Void)
            }
            Need::Deadlock { tag, mode, other, other_mode } => {
                Err(self.early_deadlock(tag, mode, (other, other_mode)))
            }
            Need::Promotion => loop {
                {
                    let state = self.shared.lock();
                    if !state.is_standby {
                        break Ok(Value::Bool(true));
                    }
                }
                let next = self.shared.host.monotonic() + Duration::from_millis(10);
                self.pause(Some(next)).await?;
            },
        }
    }

    fn set_wait(&mut self, wait: Option<(&'static str, &'static str)>) {
        if let Some(backend) = self.shared.lock().backends.get_mut(&self.core.pid) {
            backend.wait = wait;
        }
    }

    /// Takes a lock, waiting for it if need be.
    pub(crate) async fn lock(&mut self, tag: Tag, mode: Mode, scope: Scope) -> SqlResult<()> {
        let acquired = self.shared.lock().locks.acquire(self.core.pid, tag, mode, scope, true);
        match acquired {
            Acquired::Queued => self.wait_in_queue(tag).await,
            Acquired::Deadlock { other, other_mode } => {
                Err(self.early_deadlock(tag, mode, (other, other_mode)))
            }
            _ => Ok(()),
        }
    }

    /// Waits in the queue where the session stands until the lock is its own.
    async fn wait_in_queue(&mut self, tag: Tag) -> SqlResult<()> {
        let name = match tag {
            Tag::Relation(_) => "relation",
            Tag::Tuple(..) => "tuple",
            Tag::Transaction(_) => "transactionid",
            _ => "advisory",
        };
        self.set_wait(Some(("Lock", name)));
        let waited = self.wait_granted().await;
        if waited.is_err() {
            self.shared.lock().locks.stop_waiting(self.core.pid);
        }
        self.set_wait(None);
        let wake_up = self.shared.settings.costs.wake_up;
        if waited.is_ok() && !wake_up.is_zero() {
            self.shared.host.sleep(wake_up).await;
        }
        waited
    }

    async fn wait_granted(&mut self) -> SqlResult<()> {
        let began = self.shared.host.monotonic();
        let default = self.shared.settings.deadlock_timeout;
        let patience = match self.core.parameters.is("deadlock_timeout", "1s") {
            true => default,
            false => self.core.parameters.time("deadlock_timeout").unwrap_or(default),
        };
        let mut look = Some(began + patience);
        let limit = self.core.parameters.time("lock_timeout").map(|limit| began + limit);
        loop {
            if !self.shared.lock().locks.is_waiting(self.core.pid) {
                return Ok(());
            }
            let now = self.shared.host.monotonic();
            if limit.is_some_and(|limit| now >= limit) {
                return Err(SqlError::new("55P03", "canceling statement due to lock timeout"));
            }
            if look.is_some_and(|look| now >= look) {
                look = None;
                self.look_for_deadlock()?;
                continue;
            }
            let until = [look, limit].into_iter().flatten().min();
            self.pause(until).await?;
        }
    }

    fn look_for_deadlock(&mut self) -> SqlResult<()> {
        let mut state = self.shared.lock();
        match state.locks.deadlock(self.core.pid) {
            None => Ok(()),
            Some(circle) => Err(deadlock(&circle)),
        }
    }

    /// A circle of two that was seen without waiting.
    pub(crate) fn early_deadlock(&self, tag: Tag, mode: Mode, other: (Pid, Mode)) -> SqlError {
        let pid = self.core.pid;
        deadlock(&[
            Step { pid, tag, mode, blocker: other.0 },
            Step { pid: other.0, tag, mode: other.1, blocker: pid },
        ])
    }
}

fn deadlock(circle: &[Step]) -> SqlError {
    let lines: Vec<String> = circle
        .iter()
        .map(|step| {
            let mode = MODE_NAMES[usize::from(step.mode)];
            let (pid, what, blocker) = (step.pid, described(step.tag), step.blocker);
            format!("Process {pid} waits for {mode} on {what}; blocked by process {blocker}.")
        })
        .collect();
    SqlError::new("40P01", "deadlock detected")
        .detail(lines.join("\n"))
        .hint("See server log for query details.")
}

/// The number of the database in what describes locks.
pub(crate) const DATABASE_ID: u32 = 5;

/// A lock as messages describe it.
fn described(tag: Tag) -> String {
    match tag {
        Tag::Relation(id) => format!("relation {id} of database {DATABASE_ID}"),
        Tag::Tuple(id, tuple) => {
            format!("tuple (0,{tuple}) of relation {id} of database {DATABASE_ID}")
        }
        Tag::Transaction(xid) => format!("transaction {xid}"),
        Tag::AdvisoryBig(key) => {
            let (high, low) = ((key >> 32) as u32, key as u32);
            format!("advisory lock [{DATABASE_ID},{high},{low},1]")
        }
        Tag::AdvisoryPair(one, other) => {
            format!("advisory lock [{DATABASE_ID},{},{},2]", one as u32, other as u32)
        }
    }
}

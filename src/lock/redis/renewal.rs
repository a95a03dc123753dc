//! Renewal: a task that lets a record live on while its guard is held, and knows when it
//! could not.
//!
//! It renews after each third of the lease. A renewal that fails is tried again after the
//! retry time, until the holder's own deadline: then the grant is lost. The task ends
//! with the guard, and with the loss.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::records::Records;
use crate::host::{BoxFuture, Task};
use crate::lock::Owner;

/// A renewal under way. It stops when this is dropped.
#[derive(Debug)]
pub(super) struct Renewal {
    course: Arc<Course>,
    task: Task,
}

/// How the renewal goes: what the renewer writes and the guard reads.
#[derive(Debug)]
struct Course {
    standing: Mutex<Standing>,
    /// Woken when the grant is lost.
    told: Notify,
}

#[derive(Debug)]
struct Standing {
    /// The end of the lease on the host's monotonic clock, margin taken off.
    deadline: Duration,
    lost: Option<String>,
}

impl Renewal {
    /// Renews the record of `owner`, which was asked for at `asked_at`; never beyond
    /// `max_hold` after that.
    pub(super) fn start(
        records: &Arc<Records>,
        key: &str,
        owner: &Owner,
        asked_at: Duration,
        max_hold: Option<Duration>,
    ) -> Renewal {
        let options = records.options();
        let deadline = asked_at + options.lease.saturating_sub(options.margin);
        let standing = Mutex::new(Standing { deadline, lost: None });
        let course = Arc::new(Course { standing, told: Notify::new() });
        let renewer = Renewer {
            records: records.clone(),
            key: key.to_owned(),
            owner: owner.clone(),
            course: course.clone(),
            end: max_hold.map(|longest| asked_at + longest),
        };
        let task = records.host().spawn("renewer", renewer.renew(asked_at));
        Renewal { course, task }
    }

    /// Where it has moved the holder's deadline.
    pub(super) fn deadline(&self) -> Duration {
        self.course.standing().deadline
    }

    /// Why the grant is lost, if it is.
    pub(super) fn lost(&self) -> Option<String> {
        self.course.standing().lost.clone()
    }

    /// Completes once the grant is lost.
    pub(super) fn told(&self) -> BoxFuture<'static, ()> {
        let course = self.course.clone();
        Box::pin(async move {
            let told = course.told.notified();
            if course.standing().lost.is_none() {
                told.await;
            }
        })
    }
}

impl Drop for Renewal {
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

/// The task's own.
struct Renewer {
    records: Arc<Records>,
    key: String,
    owner: Owner,
    course: Arc<Course>,
    /// Beyond this no lease is asked for.
    end: Option<Duration>,
}

impl Renewer {
    async fn renew(self, asked_at: Duration) {
        let (host, options) = (self.records.host(), self.records.options());
        let period = options.lease / 3;
        let mut next = asked_at + period;
        let mut failed: Option<String> = None;
        loop {
            let deadline = self.course.standing().deadline;
            host.sleep(next.min(deadline).saturating_sub(host.monotonic())).await;
            let now = host.monotonic();
            if now >= deadline {
                let why = failed.map(|reason| format!(": {reason}")).unwrap_or_default();
                return self.lose(format!("the lease ran out before it could be renewed{why}"));
            }
            let lease = self.lease_at(now);
            if lease.is_zero() || now + lease <= deadline + options.margin {
                return self.hold_no_longer(deadline).await;
            }
            let asked = self.records.renew(&self.key, &self.owner, lease);
            match host.timeout(deadline.saturating_sub(now), asked).await {
                Ok(Ok(true)) => {
                    failed = None;
                    self.course.standing().deadline = now + lease.saturating_sub(options.margin);
                    next = now + period;
                }
                Ok(Ok(false)) => return self.lose("the record is no longer ours".to_owned()),
                Ok(Err(failure)) => {
                    failed = Some(failure.to_string());
                    next = host.monotonic() + options.retry;
                }
                // The deadline has come.
                Err(_) => failed = Some("no reply".to_owned()),
            }
        }
    }

    /// The lease to ask for: whole, or what is left of the longest hold.
    fn lease_at(&self, now: Duration) -> Duration {
        lease_until(self.end, self.records.options().lease, now)
    }

    /// Nothing is left to ask for: the lease that there is runs out.
    async fn hold_no_longer(self, deadline: Duration) {
        let host = self.records.host();
        host.sleep(deadline.saturating_sub(host.monotonic())).await;
        self.lose("it was held for as long as it may be".to_owned());
    }

    fn lose(&self, reason: String) {
        self.course.standing().lost = Some(reason);
        self.course.told.notify_waiters();
    }
}

/// A lease that does not reach beyond `end`, in the whole milliseconds that Redis counts;
/// zero when less than one is left.
fn lease_until(end: Option<Duration>, lease: Duration, now: Duration) -> Duration {
    let left = end.map_or(lease, |end| lease.min(end.saturating_sub(now)));
    Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_with_the_longest_hold_in_whole_milliseconds() {
        let lease = Duration::from_secs(10);
        let at = |now_us| {
            let end = Some(Duration::from_secs(12));
            lease_until(end, lease, Duration::from_micros(now_us))
        };
        assert_eq!(at(1_000_000), lease);
        assert_eq!(at(11_000_500), Duration::from_millis(999));
        assert_eq!(at(11_999_500), Duration::ZERO);
        assert_eq!(at(13_000_000), Duration::ZERO);
        assert_eq!(lease_until(None, lease, Duration::from_secs(99)), lease);
    }
}

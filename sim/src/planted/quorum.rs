//! Bugs of Redlock: a record at each of several servers, held while most have it.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::redis::OWNER_NUMBER_SEPARATOR;
use lockstorm::lock::{Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::patience::{Asked, grant, until_granted};
use crate::plan::Plan;

/// How votes are counted.
#[derive(Clone, Copy)]
struct Count {
    /// Half of the servers are enough, rounded down.
    half_is_enough: bool,
    /// What the round took is not taken off the lease.
    from_the_last_vote: bool,
}

const SOUND: Count = Count { half_is_enough: false, from_the_last_vote: false };

/// redisson#624: the lease is counted from the last vote, when early ones have lapsed.
pub(super) fn from_the_last_vote(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    lock(host, plan, half, Count { from_the_last_vote: true, ..SOUND })
}

/// A majority that is `servers / 2`: of five servers two clients can have two each.
pub(super) fn half_is_enough(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    lock(host, plan, half, Count { half_is_enough: true, ..SOUND })
}

fn lock(host: &Host, plan: &Plan, half: Half, planted: Count) -> Arc<dyn Lock> {
    let servers = plan.topology.redis_nodes();
    let desks = servers.iter().map(|server| Desk::at(host.clone(), plan, server)).collect();
    let count = if half.is_mended() { SOUND } else { planted };
    Arc::new(ByMajority { desks: Arc::new(desks), host: host.clone(), count })
}

struct ByMajority {
    desks: Arc<Vec<Desk>>,
    host: Host,
    count: Count,
}

impl ByMajority {
    fn needed(&self) -> usize {
        let half = self.desks.len() / 2;
        if self.count.half_is_enough { half } else { half + 1 }
    }

    /// Asks all servers, one after another: from when on the lease counts, if it is granted.
    async fn round(&self, desk: &Desk, ask: &Ask) -> Result<Option<Duration>, Failure> {
        let began = self.host.monotonic();
        let (mut votes, mut unanswered, mut failure) = (0, 0, None);
        for desk in self.desks.iter() {
            match desk.take(ask).await {
                Ok(Answer::Granted { .. }) => votes += 1,
                Ok(Answer::Busy) => {}
                Err(failed) => {
                    unanswered += usize::from(matches!(failed, Failure::NoReply(_)));
                    failure = Some(failed);
                }
            }
        }
        let now = self.host.monotonic();
        let from = if self.count.from_the_last_vote { now } else { began };
        let is_in_time = now.saturating_sub(from) < desk.lease().saturating_sub(desk.margin());
        if votes >= self.needed() && is_in_time {
            return Ok(Some(from));
        }
        for desk in self.desks.iter() {
            desk.give_back(ask).await;
        }
        match failure {
            Some(failure) if votes + unanswered >= self.needed() => Err(failure),
            _ => Ok(None),
        }
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let Some(desk) = self.desks.first() else { return Err(LockError::Busy) };
        let mut round = 0;
        let ask_once = || {
            let ask = Ask { key: key.to_owned(), owner: voter(owner, round) };
            round += 1;
            async move {
                let asked_at = self.round(desk, &ask).await?;
                Ok(asked_at.map_or(Asked::Busy, |asked_at| Asked::Granted((ask, asked_at))))
            }
        };
        let asked = until_granted(&self.host, &desk.lock, patience, ask_once);
        let (ask, asked_at) = asked.await?;
        let grant = grant(&desk.lock, key, owner, None, asked_at);
        let votes = Votes { desks: self.desks.clone(), ask, needed: self.needed() };
        Ok(Guard::new(self.host.clone(), grant, votes))
    }
}

/// Who asks in a round: a release of an earlier round that the network holds up must do nothing
/// to the votes of a later one. No planted lock's owner has a number of its own.
fn voter(owner: &Owner, round: u32) -> Owner {
    match round {
        0 => owner.clone(),
        _ => Owner::named(format!("{}{OWNER_NUMBER_SEPARATOR}{round}", owner.as_str())),
    }
}

impl Lock for ByMajority {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let Some(Desk { lock, .. }) = self.desks.first() else { return Duration::ZERO };
        let rounds = 4 * (self.desks.len() as u32 + 1);
        let (lease, retry) = (lock.lease.to_duration(), lock.retry.to_duration());
        lease + 2 * retry + rounds * lock.command_timeout.to_duration()
    }
}

/// The records behind a guard.
struct Votes {
    desks: Arc<Vec<Desk>>,
    ask: Ask,
    needed: usize,
}

impl GuardBackend for Votes {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let (desks, ask, needed) = (self.desks.clone(), self.ask.clone(), self.needed);
        Box::pin(async move {
            let (mut released, mut unknown) = (0, None);
            for desk in desks.iter() {
                match desk.give_back(&ask).await {
                    Release::Released => released += 1,
                    Release::NotHeld => {}
                    answer => unknown = Some(answer),
                }
            }
            match unknown {
                _ if released >= needed => Release::Released,
                Some(unknown) => unknown,
                None => Release::NotHeld,
            }
        })
    }
}

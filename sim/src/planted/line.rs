//! Bugs of locks in ZooKeeper: a place each in a queue, whoever is first holds.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};
use zookeeper_client::Error;

use super::Half;
use super::ensemble::{Ensemble, Place, Session, is_lost, refused, sequence};
use crate::plan::Plan;

/// The steps that a bug leaves out; a sound lock takes all of them.
#[derive(Clone, Copy)]
struct Steps {
    /// A holder asks whether its session lasts.
    minds_its_session: bool,
    /// A request whose reply was lost is looked for, and not sent again.
    finds_its_place: bool,
    /// Whoever gives up deletes its place.
    leaves: bool,
    /// Whoever stood before this one is gone: who is first now is looked at.
    looks_again: bool,
    /// The own place is found by its name.
    finds_by_name: bool,
    /// A waiter watches the place before its own, and not the whole queue.
    watches_one: bool,
}

impl Steps {
    const SOUND: Steps = Steps {
        minds_its_session: true,
        finds_its_place: true,
        leaves: true,
        looks_again: true,
        finds_by_name: true,
        watches_one: true,
    };

    fn lock(self, host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
        let steps = if half.is_mended() { Steps::SOUND } else { self };
        Arc::new(InLine { ensemble: Arc::new(Ensemble::new(host, plan)), steps })
    }
}

/// curator#727 (206), curator#1211 (696): the session ends, and nobody tells the holder.
pub(super) fn session_ignored(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { minds_its_session: false, ..Steps::SOUND }.lock(host, plan, half)
}

/// go-zookeeper#229, zk-ruby#54: the reply to a create is lost, another place is asked for, and
/// the first, which nobody knows, stands before it.
pub(super) fn stands_behind_itself(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { finds_its_place: false, ..Steps::SOUND }.lock(host, plan, half)
}

/// zk-ruby#49, curator#600 (79): whoever gives up, or is interrupted, leaves its place behind.
pub(super) fn place_left_behind(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { leaves: false, ..Steps::SOUND }.lock(host, plan, half)
}

/// After ZOOKEEPER-3162, where the wrong one was watched: the one before is gone, so it must be
/// our turn, but it stood in the middle.
pub(super) fn gone_means_ours(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { looks_again: false, ..Steps::SOUND }.lock(host, plan, half)
}

/// zookeeper-async 5.0, `recipes/shared_lock.rs`: the queue is sorted by sequence, and searched
/// for a name as if it were sorted by that. Whoever is not found dies of it, and its place
/// stays.
pub(super) fn searched_unsorted(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { finds_by_name: false, ..Steps::SOUND }.lock(host, plan, half)
}

/// The herd that the recipe of the ZooKeeper documentation warns of: all waiters watch the
/// queue, and each release wakes all of them.
pub(super) fn parent_watched(host: &Host, plan: &Plan, half: Half) -> Arc<dyn Lock> {
    Steps { watches_one: false, ..Steps::SOUND }.lock(host, plan, half)
}

struct InLine {
    ensemble: Arc<Ensemble>,
    steps: Steps,
}

/// Why an attempt ended without a grant.
enum Ended {
    Busy,
    /// The program died of it: nothing was tidied up.
    Died(String),
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Failed(error)
    }
}

impl InLine {
    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let host = &self.ensemble.host;
        let limit = patience.max(self.ensemble.command_timeout);
        let began = host.monotonic();
        let session = match host.timeout(limit, self.ensemble.session()).await {
            Ok(session) => session.map_err(|error| refused(&error))?,
            Err(_) => return Err(LockError::Backend { reason: "no session in time".to_owned() }),
        };
        let mut place = Place::new(session.clone(), key);
        if !self.steps.leaves {
            // Until it is granted: then the guard gives it back.
            place.keep();
        }
        let left = limit.saturating_sub(host.monotonic().saturating_sub(began));
        let stood = host.timeout(left, self.stand(&place, owner, patience)).await;
        match stood {
            Err(_) => return Err(LockError::TimedOut),
            Ok(Err(Ended::Busy)) => return Err(LockError::Busy),
            Ok(Err(Ended::Failed(error))) => return Err(refused(&error)),
            Ok(Err(Ended::Died(reason))) => {
                place.keep();
                return Err(LockError::Backend { reason });
            }
            Ok(Ok(())) => {}
        }
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: None,
            lease: WHILE_IT_LIVES,
            margin: Duration::ZERO,
            asked_at: began,
        };
        let (minds, patience) = (self.steps.minds_its_session, self.ensemble.command_timeout);
        let held = InHand { place: Some(place), session, minds, patience };
        Ok(Guard::new(host.clone(), grant, held))
    }

    /// Stands in the queue until it is this place's turn.
    async fn stand(&self, place: &Place, owner: &Owner, patience: Duration) -> Result<(), Ended> {
        let own = place.take(owner.as_str(), self.steps.finds_its_place).await?;
        let client = &place.session().client;
        loop {
            let mut queue = match client.list_children(place.folder()).await {
                Err(error) if is_lost(&error) => continue,
                listed => listed?,
            };
            queue.sort_by_key(|name| sequence(name));
            let position = match self.steps.finds_by_name {
                true => queue.iter().position(|name| *name == own),
                false => queue.binary_search(&own).ok(),
            };
            let Some(position) = position else {
                return Err(Ended::Died(format!("{own} is not in the queue")));
            };
            let Some(before) = position.checked_sub(1).and_then(|before| queue.get(before)) else {
                return Ok(());
            };
            if patience.is_zero() {
                return Err(Ended::Busy);
            }
            let watched = match self.steps.watches_one {
                true => {
                    let path = format!("{}/{before}", place.folder());
                    client.get_and_watch_data(&path).await.map(|(_, _, watcher)| watcher)
                }
                false => self.watch_queue(place, &queue).await,
            };
            match watched {
                Ok(watcher) => drop(watcher.changed().await),
                Err(Error::NoNode) => continue,
                Err(error) if is_lost(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            if !self.steps.looks_again {
                return Ok(());
            }
        }
    }

    /// Watches the whole queue; one that has changed meanwhile is told as if it were not there.
    async fn watch_queue(
        &self,
        place: &Place,
        queue: &[String],
    ) -> Result<zookeeper_client::OneshotWatcher, Error> {
        let client = &place.session().client;
        let (mut now, watcher) = client.list_and_watch_children(place.folder()).await?;
        now.sort_by_key(|name| sequence(name));
        if now == queue { Ok(watcher) } else { Err(Error::NoNode) }
    }
}

/// A place is kept for as long as its session lives.
const WHILE_IT_LIVES: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

impl Lock for InLine {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        self.ensemble.takeover_bound()
    }
}

/// A place whose turn it is, in its holder's hands.
struct InHand {
    /// `None` once it is given back.
    place: Option<Place>,
    session: Arc<Session>,
    minds: bool,
    /// For how long a release may take.
    patience: Duration,
}

impl GuardBackend for InHand {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        match self.place.take() {
            Some(place) => place.leave(self.patience),
            None => Box::pin(std::future::ready(Release::NotHeld)),
        }
    }

    fn lost(&self) -> Option<String> {
        self.session.lost().filter(|_| self.minds).map(str::to_owned)
    }

    fn deadline(&self) -> Option<Duration> {
        self.minds.then(|| self.session.deadline())
    }
}

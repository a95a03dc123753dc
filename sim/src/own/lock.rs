//! A test's own lock, and how a storm takes it.
//!
//! The storm's clients know [`Lock`]: they ask with patience, believe until a deadline, and
//! give back a guard. [`OwnLock`] asks for less, and what it lacks is done here: asking again
//! while somebody else has it, the deadline of the plan's lease, building the lock anew once
//! it has failed.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{FencingToken, Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::section::Section;
use super::{Failure, Node};
use crate::plan::{Fence, Plan};
use crate::storm::locks::{LockFactory, UnderTest};

/// A lock of a test's own. What must be said is how it is taken and given back.
pub trait OwnLock: Send + Sync + 'static {
    /// What its holder needs to give it back.
    type Held: Send + Sync + 'static;

    /// Takes the lock `key`; `None` while somebody else has it. It may wait for its turn
    /// itself, or not: after `None` it is asked again until the client's patience is over.
    ///
    /// # Errors
    /// When it cannot be known whether it is held. Then the lock is built anew.
    fn acquire(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Option<Self::Held>, Failure>> + Send;

    /// Gives it back, and says whether it was still held.
    ///
    /// # Errors
    /// When it cannot be known. Then the lock is built anew.
    fn release(
        &self,
        key: &str,
        held: Self::Held,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// The fencing token of the grant, where it has one: it is shown to the resource, and a
    /// storm with a fence needs it.
    fn token(&self, _held: &Self::Held) -> Option<u64> {
        None
    }

    /// How much of its lease is left, where the lock renews it or knows better than that
    /// the plan's lease counts from when it was asked for.
    fn left(&self, _held: &Self::Held) -> Option<Duration> {
        None
    }

    /// Whether the lock has found out that it is lost. It is asked when the client looks at its
    /// deadline, and does not wake one that works.
    fn is_lost(&self, _held: &Self::Held) -> bool {
        false
    }
}

/// Builds a lock on a node.
type Build<L> = Arc<dyn Fn(Node) -> BoxFuture<'static, Result<L, Failure>> + Send + Sync>;

/// The lock that `build` makes, for whoever runs plans himself
/// ([`run_with`](crate::storm::run_with)).
pub fn factory<L, F, B>(build: B) -> LockFactory
where
    L: OwnLock,
    F: Future<Output = Result<L, Failure>> + Send + 'static,
    B: Fn(Node) -> F + Send + Sync + 'static,
{
    let build: Build<L> = Arc::new(move |node| Box::pin(build(node)));
    Arc::new(Own { build })
}

/// The same lock; what clients do inside is `section`.
pub(crate) fn with_section(lock: LockFactory, section: Section) -> LockFactory {
    Arc::new(Inhabited { lock, section })
}

struct Inhabited {
    lock: LockFactory,
    section: Section,
}

impl UnderTest for Inhabited {
    fn lock(&self, host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
        self.lock.lock(host, plan)
    }

    fn section(&self) -> Option<Section> {
        Some(self.section.clone())
    }
}

struct Own<L> {
    build: Build<L>,
}

impl<L: OwnLock> UnderTest for Own<L> {
    fn lock(&self, host: &Host, plan: &Plan) -> Result<Arc<dyn Lock>, String> {
        let node = Node::new(host, plan);
        Ok(Arc::new(OnNode { node, build: self.build.clone(), current: Current::default() }))
    }
}

/// The lock on one node.
struct OnNode<L> {
    node: Node,
    build: Build<L>,
    current: Current<L>,
}

/// What was built; `None` before it is first asked, and after it has failed.
struct Current<L>(Arc<Mutex<Option<Arc<L>>>>);

impl<L> Current<L> {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<L>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has failed: whoever asks next builds another, unless somebody has.
    fn give_up(&self, failed: &Arc<L>) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, failed)) {
            *slot = None;
        }
    }
}

impl<L> Default for Current<L> {
    fn default() -> Self {
        Current(Arc::default())
    }
}

impl<L> Clone for Current<L> {
    fn clone(&self) -> Self {
        Current(self.0.clone())
    }
}

impl<L: OwnLock> OnNode<L> {
    async fn ready(&self) -> Result<Arc<L>, LockError> {
        if let Some(lock) = self.current.slot().clone() {
            return Ok(lock);
        }
        let limit = self.limit();
        let building = (self.build)(self.node.clone());
        let reason = match self.node.host().timeout(limit, building).await {
            Ok(Ok(lock)) => {
                let lock = Arc::new(lock);
                *self.current.slot() = Some(lock.clone());
                return Ok(lock);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it was not built within {limit:?}"),
        };
        Err(LockError::Backend { reason })
    }

    fn give_up(&self, failed: &Arc<L>, reason: String) -> LockError {
        self.current.give_up(failed);
        LockError::Indeterminate { reason }
    }

    /// Longer than any answer may take: a lock that is not heard of by then hangs.
    fn limit(&self) -> Duration {
        4 * self.node.command_timeout()
    }

    async fn ask(&self, key: &str, owner: &Owner, patience: Duration) -> Result<Guard, LockError> {
        let host = self.node.host();
        let until = host.monotonic() + patience;
        loop {
            let lock = self.ready().await?;
            let asked_at = host.monotonic();
            let limit = until.saturating_sub(asked_at) + self.limit();
            let held = match host.timeout(limit, lock.acquire(key)).await {
                Ok(Ok(held)) => held,
                Ok(Err(error)) => return Err(self.give_up(&lock, error.to_string())),
                Err(_) => return Err(self.give_up(&lock, format!("no answer within {limit:?}"))),
            };
            if let Some(held) = held {
                if self.node.plan().fence != Fence::Off && lock.token(&held).is_none() {
                    let reason = "a storm behind a fence needs the token of each grant: say which \
                                  it is (`.token(…)`)";
                    return Err(self.give_up(&lock, reason.to_owned()));
                }
                return Ok(self.guard(lock, key, owner, asked_at, held));
            }
            if host.monotonic() >= until {
                let asked_once = patience.is_zero();
                return Err(if asked_once { LockError::Busy } else { LockError::TimedOut });
            }
            let retry = self.node.plan().lock.retry.to_duration();
            host.sleep(host.random_duration("own retry", retry / 2, retry * 3 / 2)).await;
        }
    }

    fn guard(
        &self,
        lock: Arc<L>,
        key: &str,
        owner: &Owner,
        asked_at: Duration,
        held: L::Held,
    ) -> Guard {
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: lock.token(&held).map(FencingToken),
            lease: self.node.lease(),
            margin: Duration::ZERO,
            asked_at,
        };
        let (node, current, limit) = (self.node.clone(), self.current.clone(), self.limit());
        let holding = Holding { node, current, lock, key: key.to_owned(), limit, held: Some(held) };
        Guard::new(self.node.host().clone(), grant, holding)
    }
}

impl<L: OwnLock> Lock for OnNode<L> {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.ask(key, owner, patience))
    }

    /// A lease, and what its waiters may need to hear of its end: two retries, and the
    /// longest answers to one request and to one connection.
    fn takeover_bound(&self) -> Duration {
        self.node.lease() + 2 * self.node.plan().lock.retry.to_duration() + 2 * self.limit()
    }
}

struct Holding<L: OwnLock> {
    node: Node,
    current: Current<L>,
    lock: Arc<L>,
    key: String,
    limit: Duration,
    /// `None` once it is given back.
    held: Option<L::Held>,
}

impl<L: OwnLock> GuardBackend for Holding<L> {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        let Some(held) = self.held.take() else {
            return Box::pin(std::future::ready(Release::NotHeld));
        };
        let (host, lock) = (self.node.host().clone(), self.lock.clone());
        let (current, key, limit) = (self.current.clone(), self.key.clone(), self.limit);
        Box::pin(async move {
            let reason = match host.timeout(limit, lock.release(&key, held)).await {
                Ok(Ok(true)) => return Release::Released,
                Ok(Ok(false)) => return Release::NotHeld,
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {limit:?}"),
            };
            current.give_up(&lock);
            Release::Indeterminate { reason }
        })
    }

    fn lost(&self) -> Option<String> {
        let held = self.held.as_ref()?;
        self.lock.is_lost(held).then(|| "the lock says so".to_owned())
    }

    fn deadline(&self) -> Option<Duration> {
        let left = self.lock.left(self.held.as_ref()?)?;
        Some(self.node.host().monotonic() + left)
    }
}

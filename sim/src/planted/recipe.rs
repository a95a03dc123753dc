//! A lock made of steps, of which a bug replaces one.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, GuardBackend, Lock, LockError, Owner, Release};

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::patience::{Asked, grant, until_granted};
use super::renewal::Renewal;

/// The steps; each default is sound.
pub(super) trait Recipe: Send + Sync + 'static {
    /// Asks once.
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(desk.take(ask))
    }

    /// Whether to ask again after this failure.
    fn may_pass(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::NotSent(_))
    }

    /// What the holder keeps; asked once, when the lock was granted.
    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        let _ = asked_at;
        Held::plain(desk, ask)
    }

    /// What comes of an acquire that came to nothing.
    fn refused(&self, desk: &Desk, error: LockError) -> Result<Answer, LockError> {
        let _ = desk;
        Err(error)
    }
}

/// How long a holder believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// Until the lease ends, as renewed.
    UntilTheDeadline,
    /// Until it is told otherwise.
    UntilTold,
}

/// What a holder keeps: how to give back, and what keeps the record alive.
pub(super) struct Held {
    pub give_back: Box<dyn FnMut() -> BoxFuture<'static, Release> + Send + Sync>,
    pub renewal: Option<Arc<Renewal>>,
    /// Whether the renewal ends when the holder gives back.
    pub renewal_ends: bool,
    pub belief: Belief,
    pub desk: Desk,
}

impl Held {
    /// A record that nobody renews, given back by compare-and-delete.
    pub fn plain(desk: &Desk, ask: &Ask) -> Held {
        let (at, ask) = (desk.clone(), ask.clone());
        Held::given_back_by(desk, move || {
            let (desk, ask) = (at.clone(), ask.clone());
            Box::pin(async move { desk.give_back(&ask).await })
        })
    }

    /// A record that nobody renews, given back so.
    pub fn given_back_by(
        desk: &Desk,
        give_back: impl FnMut() -> BoxFuture<'static, Release> + Send + Sync + 'static,
    ) -> Held {
        Held {
            give_back: Box::new(give_back),
            renewal: None,
            renewal_ends: true,
            belief: Belief::UntilTheDeadline,
            desk: desk.clone(),
        }
    }
}

/// Behind a guard.
struct Behind(Held);

impl GuardBackend for Behind {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        (self.0.give_back)()
    }

    fn lost(&self) -> Option<String> {
        self.0.renewal.as_ref()?.lost()
    }

    fn deadline(&self) -> Option<Duration> {
        match self.0.belief {
            Belief::UntilTold => Some(self.0.desk.host.monotonic() + self.0.desk.lease()),
            Belief::UntilTheDeadline => Some(self.0.renewal.as_ref()?.deadline()),
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Some(renewal) = self.0.renewal.take().filter(|_| self.0.renewal_ends) {
            renewal.end();
        }
    }
}

/// A lock whose bug is in how it is taken. The mend of all of them is the sound step: the
/// record, its expiry and its token in one command.
pub(super) struct Taken {
    pub half: Half,
    pub take: for<'a> fn(&'a Desk, &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>>,
}

impl Recipe for Taken {
    fn take<'a>(&'a self, desk: &'a Desk, ask: &'a Ask) -> BoxFuture<'a, Result<Answer, Failure>> {
        match self.half {
            Half::Planted => (self.take)(desk, ask),
            Half::Mended => Box::pin(desk.take(ask)),
        }
    }
}

/// A lock by this recipe.
pub(super) fn lock(desk: Desk, recipe: impl Recipe) -> Arc<dyn Lock> {
    Arc::new(ByRecipe { desk, recipe })
}

struct ByRecipe<R> {
    desk: Desk,
    recipe: R,
}

impl<R: Recipe> ByRecipe<R> {
    async fn ask_until_granted(&self, ask: &Ask, patience: Duration) -> Result<Answer, LockError> {
        let ask_once = || async {
            match self.recipe.take(&self.desk, ask).await {
                Ok(Answer::Busy) => Ok(Asked::Busy),
                Ok(granted) => Ok(Asked::Granted(granted)),
                Err(failure) if self.recipe.may_pass(&failure) => Ok(Asked::Failed(failure.into())),
                Err(failure) => Err(failure.into()),
            }
        };
        until_granted(&self.desk.host, &self.desk.lock, patience, ask_once).await
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let ask = Ask { key: key.to_owned(), owner: owner.clone() };
        let answer = match self.ask_until_granted(&ask, patience).await {
            Err(error) => self.recipe.refused(&self.desk, error),
            granted => granted,
        };
        let Answer::Granted { token, asked_at } = answer? else { return Err(LockError::Busy) };
        let held = self.recipe.held(&self.desk, &ask, asked_at);
        let grant = grant(&self.desk.lock, key, owner, token, asked_at);
        Ok(Guard::new(self.desk.host.clone(), grant, Behind(held)))
    }
}

impl<R: Recipe> Lock for ByRecipe<R> {
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
        (self.desk.lease() + lock.retry.to_duration()) + 4 * lock.command_timeout.to_duration()
    }
}

//! The counter of an application node: asks the layers in their order, and answers.
//!
//! How a unit is taken is a [`Deduction`]: by the shelf's script, in two steps, naively, naively
//! with a lock around it, or [in the database](super::pessimistic). Everything before it can be left out, so that what each layer is
//! worth can be measured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Wish;
use super::admission::{Admission, Turned};
use super::funnel::{Funnel, Step};
use super::gate::Gate;
use super::page::Answer;
use super::shelf::{Shelf, ShelfError, Taken};
use super::switch::{Mode, Switch};
use crate::host::{BoxFuture, Host};
use crate::lock::{Lock, LockError, Owner, Release};

/// How a unit is taken.
pub trait Deduction: Send + Sync {
    /// Takes a unit for `wish`.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>>;
}

/// In one step, by a script.
#[derive(Clone, Debug)]
pub struct ByScript(pub Shelf);

impl Deduction for ByScript {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        Box::pin(self.0.take(wish))
    }
}

/// In two steps: the unit first, then its order. Whoever dies in between has taken a unit for
/// nobody.
#[derive(Clone, Debug)]
pub struct InTwoSteps(pub Shelf);

impl Deduction for InTwoSteps {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        Box::pin(self.0.take_in_two_steps(wish))
    }
}

impl Deduction for Box<dyn Deduction> {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        (**self).take(wish)
    }
}

/// Reading, then writing: what oversells.
#[derive(Clone, Debug)]
pub struct Naively(pub Shelf);

impl Deduction for Naively {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        Box::pin(self.0.take_naively(wish))
    }
}

/// Any way, with a lock around it. The unit is taken only while the lock is held, as far
/// as its holder can know.
pub struct Locked<D> {
    /// The way.
    pub inner: D,
    /// The lock; its key is the sku.
    pub lock: Arc<dyn Lock>,
    /// The node.
    pub host: Host,
    /// How long a buyer waits for the lock.
    pub patience: Duration,
}

impl<D: Deduction> Deduction for Locked<D> {
    fn take<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Taken, ShelfError>> {
        Box::pin(async move {
            let owner = Owner::unique(&self.host);
            let guard = self.lock.acquire(wish.sku.as_str(), &owner, self.patience).await;
            let guard = guard.map_err(|error| not_entered(&error))?;
            if let Err(lost) = guard.check() {
                let _: Release = guard.release().await;
                return Err(not_entered(&lost));
            }
            let taken = self.inner.take(wish).await;
            let _: Release = guard.release().await;
            taken
        })
    }
}

impl<D: std::fmt::Debug> std::fmt::Debug for Locked<D> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Locked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Without the lock nothing was taken, whatever became of the lock.
fn not_entered(error: &LockError) -> ShelfError {
    ShelfError::Unreachable { reason: error.to_string() }
}

/// The layers before the deduction; those that are `None` are left out.
#[derive(Clone, Default)]
pub struct Layers {
    /// Whether the sale is on.
    pub switch: Option<Arc<dyn Switch>>,
    /// Who may ask.
    pub admission: Option<Arc<Mutex<Admission>>>,
    /// How many at once.
    pub gate: Option<Gate>,
}

impl std::fmt::Debug for Layers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Layers")
            .field("switch", &self.switch.as_ref().map(|switch| switch.mode()))
            .field("admission", &self.admission.is_some())
            .field("gate", &self.gate)
            .finish()
    }
}

/// The counter of one node.
#[derive(Debug)]
pub struct Counter<D> {
    host: Host,
    layers: Layers,
    deduction: D,
    funnel: Funnel,
}

/// Under way at the admission, until it is dropped.
struct UnderWay<'a>(&'a Mutex<Admission>, &'a Wish);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        locked(self.0).done(&self.1.order);
    }
}

fn locked(admission: &Mutex<Admission>) -> MutexGuard<'_, Admission> {
    admission.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Deduction> Counter<D> {
    /// Opens it.
    pub fn new(host: Host, layers: Layers, deduction: D, funnel: Funnel) -> Self {
        Counter { host, layers, deduction, funnel }
    }

    /// Serves one request. What became of it is one of the [`Step`]s of an answer.
    pub async fn serve(&self, wish: &Wish) -> Step {
        self.funnel.count(Step::Asked);
        let step = self.answer(wish).await;
        self.funnel.count(step);
        step
    }

    async fn answer(&self, wish: &Wish) -> Step {
        if self.layers.switch.as_ref().is_some_and(|switch| switch.mode() == Mode::Degraded) {
            return Step::Degraded;
        }
        let _under_way = match &self.layers.admission {
            Some(admission) => {
                let entered = locked(admission).enter(wish, self.host.monotonic());
                match entered {
                    Ok(()) => Some(UnderWay(admission, wish)),
                    Err(Turned::Repeated) => return Step::Repeated,
                    Err(Turned::TooOften) => return Step::TooOften,
                    Err(Turned::Busy) => return Step::Busy,
                }
            }
            None => None,
        };
        let _pass = match &self.layers.gate {
            Some(gate) => match gate.enter().await {
                Ok(pass) => Some(pass),
                Err(_) => return Step::Full,
            },
            None => None,
        };
        match self.deduction.take(wish).await {
            Ok(Taken::Sold) => Step::Sold,
            Ok(Taken::Again) => Step::Again,
            Ok(Taken::OtherOrder) => Step::Taken,
            Ok(Taken::SoldOut | Taken::Closed) => Step::SoldOut,
            Err(ShelfError::Indeterminate { .. }) => Step::Indeterminate,
            Err(ShelfError::Unreachable { .. } | ShelfError::Foreign { .. }) => Step::Failed,
        }
    }
}

/// What an answer of a counter means to the page that gets it.
pub fn answer(step: Step) -> Answer {
    match step {
        Step::Sold | Step::Again | Step::Taken | Step::SoldOut | Step::Degraded => Answer::Final,
        _ => Answer::NotNow,
    }
}

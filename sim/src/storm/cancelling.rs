//! A client's operations, of which a fault may drop the future half-way.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Weak;
use std::task::{Context, Poll};

use lockstorm::Host;
use lockstorm::host::BoxFuture;

use super::observe::ConductorCell;
use crate::fault::Sign;
use crate::fault::cancel::{Cancellations, DropPoint, Ended, Occasion};
use crate::plan::Micros;

/// What a client's code knows of an operation that it has dropped.
pub(super) const DROPPED: &str = "the client dropped it half-way";

/// Runs operations to their end, or to where a fault has them dropped.
#[derive(Clone)]
pub struct Cancelling {
    cancellations: Cancellations,
    conductor: ConductorCell,
}

impl Cancelling {
    /// Looks for what to drop in `cancellations`, and tells the conductor.
    pub fn new(cancellations: Cancellations, conductor: ConductorCell) -> Self {
        Cancelling { cancellations, conductor }
    }

    /// What the operation came to; `None` if its future was dropped.
    pub async fn run<T>(
        &self,
        host: &Host,
        occasion: Occasion,
        operation: impl Future<Output = T>,
    ) -> Option<T> {
        let Some(DropPoint { suspension, delay }) = self.cancellations.take(&occasion) else {
            return Some(operation.await);
        };
        let outcome = {
            // Dropped with this block: before anybody is told.
            let operation = pin!(operation);
            let grace = None;
            Until { host, operation, suspensions_left: suspension, delay, grace }.await
        };
        let ended = Ended { occasion, dropped: outcome.is_none() };
        if let Some(conductor) = self.conductor.get().and_then(Weak::upgrade) {
            conductor.notice(Sign::Operation(ended));
        }
        outcome
    }
}

/// Polls an operation until it is ready, or has been not ready so many times.
struct Until<'a, 'f, F> {
    host: &'a Host,
    operation: Pin<&'f mut F>,
    suspensions_left: u32,
    delay: Micros,
    /// What is left of the delay, once the last suspension has come.
    grace: Option<BoxFuture<'static, ()>>,
}

impl<F: Future> Future for Until<'_, '_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.operation.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        self.suspensions_left = self.suspensions_left.saturating_sub(1);
        if self.suspensions_left > 0 {
            return Poll::Pending;
        }
        if self.delay == Micros(0) {
            return Poll::Ready(None);
        }
        let (host, delay) = (self.host, self.delay);
        let grace = self.grace.get_or_insert_with(|| host.sleep(delay.to_duration()));
        grace.as_mut().poll(context).map(|()| None)
    }
}

impl std::fmt::Debug for Cancelling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Cancelling").field(&self.cancellations).finish()
    }
}

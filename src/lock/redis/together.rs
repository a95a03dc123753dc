//! Requests to several servers at the same time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::host::BoxFuture;

/// Futures that run at the same time; their outputs as they come, those that are ready
/// together in the order in which they were given.
pub(super) struct Together<'a, T> {
    open: Vec<BoxFuture<'a, T>>,
}

impl<'a, T> Together<'a, T> {
    pub(super) fn of<F: Future<Output = T> + Send + 'a>(futures: impl Iterator<Item = F>) -> Self {
        Together { open: futures.map(|future| Box::pin(future) as BoxFuture<'a, T>).collect() }
    }

    /// The next output; `None` when all have ended.
    pub(super) async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|context: &mut Context<'_>| {
            if self.open.is_empty() {
                return Poll::Ready(None);
            }
            for at in 0..self.open.len() {
                if let Poll::Ready(output) = Pin::new(&mut self.open[at]).poll(context) {
                    drop(self.open.remove(at));
                    return Poll::Ready(Some(output));
                }
            }
            Poll::Pending
        })
        .await
    }
}

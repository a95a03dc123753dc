//! What must be undone unless it is settled: a request whose answer is not known, a place
//! in a queue.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::host::{BoxFuture, Host};

/// Something that may have been done and is not settled. Dropped unsettled, be it for want
/// of a reply or because the caller lost interest, it spawns its undoing, a best effort.
pub(super) struct Unsettled<U: FnOnce() -> BoxFuture<'static, ()>> {
    host: Host,
    /// `None` once it is settled.
    undo: Option<U>,
}

impl<U: FnOnce() -> BoxFuture<'static, ()>> Unsettled<U> {
    pub(super) fn new(host: &Host, undo: U) -> Self {
        Unsettled { host: host.clone(), undo: Some(undo) }
    }

    /// Nothing is to be undone.
    pub(super) fn settle(&mut self) {
        self.undo = None;
    }

    /// Undoes it now. If what this returns is dropped before it is done, it goes on as a
    /// task.
    pub(super) fn undo(mut self) -> Undoing {
        Undoing { host: self.host.clone(), undoing: self.undo.take().map(|undo| undo()) }
    }
}

impl<U: FnOnce() -> BoxFuture<'static, ()>> Drop for Unsettled<U> {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.host.spawn("release", undo());
        }
    }
}

/// An undoing that is finished as a task if nobody waits for it.
pub(super) struct Undoing {
    host: Host,
    /// `None` once it is done.
    undoing: Option<BoxFuture<'static, ()>>,
}

impl Future for Undoing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(undoing) = self.undoing.as_mut() {
            std::task::ready!(undoing.as_mut().poll(context));
            self.undoing = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Undoing {
    fn drop(&mut self) {
        if let Some(undoing) = self.undoing.take() {
            self.host.spawn("release", undoing);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn an_undoing_that_is_dropped_half_way_is_finished() {
        let host = Host::tokio("app-1");
        let done = Arc::new(Notify::new());
        let unsettled = Unsettled::new(&host, {
            let (host, done) = (host.clone(), done.clone());
            move || -> BoxFuture<'static, ()> {
                Box::pin(async move {
                    host.sleep(Duration::from_millis(20)).await;
                    done.notify_one();
                })
            }
        });
        host.timeout(Duration::from_millis(1), unsettled.undo()).await.unwrap_err();
        done.notified().await;
    }
}

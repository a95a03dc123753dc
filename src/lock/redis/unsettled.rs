//! What must be undone unless it is settled: a request whose answer is not known, a place
//! in a queue.

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

    /// Undoes it now, and waits for that.
    pub(super) async fn undo(mut self) {
        if let Some(undo) = self.undo.take() {
            undo().await;
        }
    }
}

impl<U: FnOnce() -> BoxFuture<'static, ()>> Drop for Unsettled<U> {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.host.spawn("release", undo());
        }
    }
}

//! The gate between a master's output buffers and its kernel.
//!
//! While the gate is stalled, what the master has for its replicas stays in the
//! memory of the program: a process crash loses it, as it loses what a busy Redis
//! has not written yet. What went through the gate is the kernel's and survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Stops and opens the draining of a server's replication output. Clones share it;
/// it outlives the server's incarnations.
#[derive(Clone, Debug, Default)]
pub struct ReplicationGate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stalls: AtomicU32,
    epoch: AtomicU64,
    opened: Notify,
}

impl ReplicationGate {
    /// An open gate.
    pub fn new() -> Self {
        ReplicationGate::default()
    }

    /// Stops draining. Stalls nest.
    pub fn stall(&self) {
        if self.0.stalls.fetch_add(1, Ordering::SeqCst) == 0 {
            self.0.epoch.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Ends one [`stall`](Self::stall). Nothing if there is none.
    pub fn open(&self) {
        let before = self
            .0
            .stalls
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |stalls| stalls.checked_sub(1));
        if before == Ok(1) {
            self.0.opened.notify_waiters();
        }
    }

    /// Whether draining is stopped.
    pub fn is_stalled(&self) -> bool {
        self.0.stalls.load(Ordering::SeqCst) > 0
    }

    /// The number of the current or last stall, from 1.
    pub(super) fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::SeqCst)
    }

    /// Completes at the next opening after this call.
    pub(super) fn opened(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.opened.notified()
    }
}

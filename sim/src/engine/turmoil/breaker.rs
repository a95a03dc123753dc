//! Resets that turmoil has no means for: a mark on both ends of a connection, which
//! [`Socket`](super::socket::Socket) reads before it says what turmoil says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

/// One end's mark.
#[derive(Default)]
pub(super) struct Breaker {
    struck: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
    watcher: Option<Waker>,
}

/// What a program waits for.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    Read,
    Write,
    PeerClosed,
}

impl Breaker {
    /// Whether the connection was reset.
    pub(super) fn is_struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }

    /// Resets the connection at this end. True if it was not reset before; the wakers
    /// are to be woken.
    pub(super) fn strike(&self) -> (bool, Vec<Waker>) {
        let is_first = !self.struck.swap(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *self.lock());
        let wakers = [waiting.reader, waiting.writer, waiting.watcher];
        (is_first, wakers.into_iter().flatten().collect())
    }

    /// Whether the program waits for room to write.
    pub(super) fn waits_for_room(&self) -> bool {
        self.lock().writer.is_some()
    }

    /// The program has written: it waits no more.
    pub(super) fn has_written(&self) {
        self.lock().writer = None;
    }

    /// Has the program woken by a reset.
    pub(super) fn keep(&self, wait: Wait, context: &Context<'_>) {
        let waiting = &mut *self.lock();
        let place = match wait {
            Wait::Read => &mut waiting.reader,
            Wait::Write => &mut waiting.writer,
            Wait::PeerClosed => &mut waiting.watcher,
        };
        if !place.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *place = Some(context.waker().clone());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Several futures in one task, each woken by itself: one is not polled because another was
//! woken. What counts polls, such as a fault at an operation's third await, counts those of its
//! own.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Futures that are not over yet, polled in their order.
pub struct Beside<F>(Vec<One<F>>);

struct One<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

/// That one future was woken, and whom to tell of it.
struct Woken {
    is_set: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Relaxed);
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

impl<F> Beside<F> {
    /// All of these.
    pub fn of(futures: impl IntoIterator<Item = F>) -> Beside<F> {
        let one = |future| {
            // Each is polled once before anybody can wake it.
            let (is_set, task) = (AtomicBool::new(true), Mutex::new(Waker::noop().clone()));
            One { future: Box::pin(future), woken: Arc::new(Woken { is_set, task }) }
        };
        Beside(futures.into_iter().map(one).collect())
    }
}

impl<F: Future<Output = ()>> Future for Beside<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.retain_mut(|One { future, woken }| {
            let mut task = woken.task.lock().unwrap_or_else(PoisonError::into_inner);
            task.clone_from(context.waker());
            drop(task);
            if !woken.is_set.swap(false, Ordering::Relaxed) {
                return true;
            }
            let waker = Waker::from(woken.clone());
            future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        if self.0.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<F> std::fmt::Debug for Beside<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Beside").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use tokio::sync::Notify;

    use super::*;

    /// Is over at its third wake; counts its polls.
    async fn third(wake: &Notify, polls: &AtomicU32) {
        for _ in 0..3 {
            let mut woken = std::pin::pin!(wake.notified());
            std::future::poll_fn(|context| {
                polls.fetch_add(1, Ordering::Relaxed);
                woken.as_mut().poll(context)
            })
            .await;
        }
    }

    #[tokio::test]
    async fn who_is_not_woken_is_not_polled() {
        let wakes: [Notify; 2] = Default::default();
        let polls: [AtomicU32; 2] = Default::default();
        let mut beside = Beside::of((0..2).map(|at| third(&wakes[at], &polls[at])));
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = || Pin::new(&mut beside).poll(&mut context).is_ready();
        let polled = || [0, 1].map(|at: usize| polls[at].load(Ordering::Relaxed));
        assert!(!turn() && polled() == [1, 1]);
        // Somebody else has the task polled.
        assert!(!turn() && polled() == [1, 1]);
        for wakes_of_the_first in 1..3 {
            wakes[0].notify_one();
            assert!(!turn());
            assert_eq!(polled(), [1 + 2 * wakes_of_the_first, 1]);
        }
        wakes[0].notify_one();
        assert!(!turn() && polled() == [6, 1]);
        for _ in 0..3 {
            wakes[1].notify_one();
            let is_over = turn();
            assert_eq!(is_over, polled() == [6, 6], "{:?}", polled());
        }
    }
}

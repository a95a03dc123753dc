//! The machine whose program runs on this thread now, for code that nobody can hand a
//! handle to it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Node;

/// Finds the machine whose program runs on the calling thread.
pub type Finder = fn() -> Option<Arc<dyn Node>>;

thread_local! {
    static FINDER: Cell<Option<Finder>> = const { Cell::new(None) };
}

/// The machine whose program runs on this thread now; `None` outside of a simulated run.
///
/// On a run's thread there is always an answer: code that belongs to no node (an action of
/// a fault, say) gets a machine that refuses, so that it does not reach for a real network.
pub fn current() -> Option<Arc<dyn Node>> {
    // A thread that is being torn down runs no program.
    let find = FINDER.try_with(Cell::get).ok().flatten()?;
    find()
}

/// Has `find` answer [`current`] on this thread until the result is dropped; for engines.
/// It is asked only when somebody asks: a run pays nothing for it when a task is polled.
pub fn answer(find: Finder) -> Answering {
    let before = FINDER.with(|place| place.replace(Some(find)));
    Answering { before, of_this_thread: PhantomData }
}

/// While it lives, [`current`] has an answer on this thread.
#[derive(Debug)]
#[must_use = "dropping it takes the answer away"]
pub struct Answering {
    before: Option<Finder>,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        // On a thread that is being torn down nobody asks any more.
        let _ = FINDER.try_with(|place| place.set(self.before));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::{BoxFuture, Connection};

    /// Known by the reading of its clock.
    struct Numbered(u64);

    impl Node for Numbered {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0)
        }

        fn sleep(&self, _duration: Duration) -> BoxFuture<()> {
            Box::pin(std::future::pending())
        }

        fn spawn(&self, _group: &'static str, future: BoxFuture<()>) {
            drop(future);
        }

        fn connect(&self, _address: &str) -> BoxFuture<io::Result<Box<dyn Connection>>> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn there_is_an_answer_on_this_thread_until_the_guard_goes() {
        let number = || current().map(|node| node.monotonic().as_secs());
        assert_eq!(number(), None);
        let outer = answer(|| Some(Arc::new(Numbered(1))));
        let inner = answer(|| Some(Arc::new(Numbered(2))));
        assert_eq!(number(), Some(2));
        let elsewhere = std::thread::spawn(|| current().is_none());
        assert!(elsewhere.join().unwrap(), "another thread is no part of the run");
        drop(inner);
        assert_eq!(number(), Some(1));
        drop(outer);
        assert_eq!(number(), None);
    }
}

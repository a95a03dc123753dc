//! The machine whose program runs on this thread now, for code that nobody can hand a
//! [`Host`]: shims that stand in for a third-party library's I/O crates.
//!
//! Locks and servers do not ask here: they are given their host. In production there is
//! no answer, and whoever asked does what it always did.

use std::cell::Cell;
use std::marker::PhantomData;

use super::Host;

/// Finds the machine whose program runs on the calling thread.
pub type Finder = fn() -> Option<Host>;

thread_local! {
    static FINDER: Cell<Option<Finder>> = const { Cell::new(None) };
}

/// The machine whose program runs on this thread now; `None` outside of a simulated run.
///
/// On a run's thread there is always an answer: code that belongs to no node (an action of
/// a fault, say) gets a host that refuses, so that it does not reach for a real network.
pub fn current() -> Option<Host> {
    // A thread that is being torn down runs no program.
    let find = FINDER.try_with(Cell::get).ok().flatten()?;
    find()
}

/// Has `find` answer [`current`] on this thread until the result is dropped; for engines.
/// It is asked only when somebody asks: a run pays nothing for it when a task is polled.
pub fn answer_current(find: Finder) -> Answering {
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
    use super::*;

    #[test]
    fn there_is_an_answer_on_this_thread_until_the_guard_goes() {
        let name = || current().map(|host| host.name().to_owned());
        assert_eq!(name(), None);
        let outer = answer_current(|| Some(Host::tokio("outer")));
        let inner = answer_current(|| Some(Host::tokio("inner")));
        assert_eq!(name().as_deref(), Some("inner"));
        let elsewhere = std::thread::spawn(|| current().is_none());
        assert!(elsewhere.join().unwrap(), "another thread is no part of the run");
        drop(inner);
        assert_eq!(name().as_deref(), Some("outer"));
        drop(outer);
        assert_eq!(name(), None);
    }
}

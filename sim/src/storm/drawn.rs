//! Whose a record is whose lock calls its owners what it likes.
//!
//! Locks of ours write the name of the attempt into their records; another's lock draws a
//! number, or writes the name of its machine, or nothing at all. But it writes while a client
//! of its node asks for it, and over a connection of that node. So what a node writes while
//! exactly one of its attempts is under way is that attempt's; and what it wrote is known from
//! then on, wherever it is met again (on a replica, in a data set that was read from a disk).
//!
//! What arrives when nobody of its node asks (held up by the network, or by a holder) is the
//! latest attempt's. Where a node's buyers ask side by side nobody can say whose it is: it is a
//! stranger's, and promises of such a run are not judged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::history::{Attempt, Name};

/// What is known of a run's records.
#[derive(Debug, Default)]
pub struct Drawn(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Who asks, by the client's node.
    under_way: BTreeMap<Name, Vec<Attempt>>,
    /// Who asked last, by the client's node.
    latest: BTreeMap<Name, Attempt>,
    /// Whose was written last under what name.
    names: BTreeMap<Name, Name>,
}

impl Drawn {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client begins to ask.
    pub fn begins(&self, attempt: &Attempt) {
        let mut known = self.known();
        known.under_way.entry(attempt.client.clone()).or_default().push(attempt.clone());
        known.latest.insert(attempt.client.clone(), attempt.clone());
    }

    /// A client has its answer, or gave up.
    pub fn ends(&self, attempt: &Attempt) {
        if let Some(under_way) = self.known().under_way.get_mut(&attempt.client) {
            under_way.retain(|other| other != attempt);
        }
    }

    /// A client's node has crashed: nobody of it asks any more.
    pub fn crashed(&self, node: &str) {
        self.known().under_way.remove(node);
    }

    /// Who of this node asks, or asked last; a name that is no attempt's, and the same in every
    /// run, where that is not one alone.
    pub fn asks(&self, node: &str) -> Name {
        let known = self.known();
        let attempt = match known.under_way.get(node).map(Vec::as_slice) {
            Some([attempt]) => Some(attempt),
            None | Some([]) => known.latest.get(node),
            Some(_) => None,
        };
        attempt.map_or_else(|| format!("{node}/?").into(), |attempt| attempt.to_string().into())
    }

    /// `written` is this owner's from here on.
    pub fn note(&self, written: Name, owner: Name) {
        self.known().names.insert(written, owner);
    }

    /// Whose `written` is, where that is known.
    pub fn owner(&self, written: &str) -> Option<Name> {
        self.known().names.get(written).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(text: &str) -> Attempt {
        Attempt::parse(text).unwrap()
    }

    #[test]
    fn what_is_written_while_one_asks_is_its_own() {
        let drawn = Drawn::default();
        drawn.begins(&attempt("app-1/1"));
        assert_eq!(&*drawn.asks("app-1"), "app-1/1");
        drawn.note("b1946ac9".into(), "app-1/1".into());
        drawn.ends(&attempt("app-1/1"));
        assert_eq!(drawn.owner("b1946ac9").as_deref(), Some("app-1/1"));
        assert_eq!(drawn.owner("591785b7"), None);
    }

    #[test]
    fn what_comes_late_is_the_latest_ones() {
        let drawn = Drawn::default();
        drawn.begins(&attempt("app-1/1"));
        drawn.ends(&attempt("app-1/1"));
        assert_eq!(&*drawn.asks("app-1"), "app-1/1");
        drawn.begins(&attempt("app-1/2"));
        drawn.crashed("app-1");
        assert_eq!(&*drawn.asks("app-1"), "app-1/2");
    }

    #[test]
    fn of_two_that_ask_nobody_can_say_whose_it_is() {
        let drawn = Drawn::default();
        drawn.begins(&attempt("app-1/1"));
        drawn.begins(&attempt("app-1/2"));
        assert_eq!(Attempt::parse(&drawn.asks("app-1")), None);
        assert_eq!(Attempt::parse(&drawn.asks("app-2")), None);
        drawn.ends(&attempt("app-1/1"));
        assert_eq!(&*drawn.asks("app-1"), "app-1/2");
    }

    #[test]
    fn a_name_that_is_used_again_is_the_latest_ones() {
        let drawn = Drawn::default();
        drawn.note("app-1".into(), "app-1/1".into());
        drawn.note("app-1".into(), "app-1/2".into());
        assert_eq!(drawn.owner("app-1").as_deref(), Some("app-1/2"));
    }
}

//! What the owners of one lock value hold, as far as it knows: guards that are out, and
//! attempts that are under way.
//!
//! An attempt counts from before it is sent. Otherwise a release that comes late, of the
//! guard before, would say that nothing is left and delete what the attempt was granted.
//!
//! Guards that stand on one record are a *generation*. When the record is found to have
//! begun anew, the guards before it are lost for good, and a new generation begins.
//!
//! It asks no server.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lock::Owner;

/// Who holds what: the key, and the owner.
pub(super) type Held = (String, Owner);

/// Which guards stand on one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// All that owners hold, by key and owner.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// No number is given twice.
    last: u64,
    holds: BTreeMap<Held, Hold>,
}

/// What an owner holds of a key.
#[derive(Clone, Copy, Debug)]
struct Hold {
    generation: Generation,
    /// How many guards of this generation are out.
    guards: u64,
    /// How many attempts may have been sent and are not settled.
    entering: u64,
    /// The end of the lease on the host's monotonic clock, margin taken off. Means nothing
    /// without guards.
    deadline: Duration,
}

impl Holds {
    /// An attempt is about to be sent.
    pub(super) fn enter(&mut self, held: &Held) {
        self.hold(held).entering += 1;
    }

    /// An attempt was refused, or is being undone.
    pub(super) fn turn_back(&mut self, held: &Held) {
        if let Some(hold) = self.holds.get_mut(held) {
            hold.entering = hold.entering.saturating_sub(1);
        }
        self.forget_if_empty(held);
    }

    /// Somebody else is in: the guards that are out are lost. Whether there were any.
    pub(super) fn lose(&mut self, held: &Held) -> bool {
        let generation = Generation(self.last + 1);
        let Some(hold) = self.holds.get_mut(held).filter(|hold| hold.guards > 0) else {
            return false;
        };
        (hold.guards, hold.generation) = (0, generation);
        self.last += 1;
        self.forget_if_empty(held);
        true
    }

    /// An attempt was granted and is a guard from `now` on, until `deadline`: of which
    /// generation, and whether that made older guards lost. They are if the server has
    /// counted fewer than are out, or if they were past their own deadline: what has told
    /// its holder that it is lost does not come back to life. More may be counted, while a
    /// release is on its way.
    pub(super) fn entered(
        &mut self,
        held: &Held,
        count: u64,
        now: Duration,
        deadline: Duration,
    ) -> (Generation, bool) {
        let stale = |hold: &Hold| count < hold.guards + 1 || now >= hold.deadline;
        let lost = self.holds.get(held).is_some_and(stale) && self.lose(held);
        let hold = self.hold(held);
        let before = if hold.guards == 0 { Duration::ZERO } else { hold.deadline };
        hold.entering = hold.entering.saturating_sub(1);
        (hold.guards, hold.deadline) = (hold.guards + 1, deadline.max(before));
        (hold.generation, lost)
    }

    /// A guard is given back: whether its record may still be there.
    pub(super) fn leave(&mut self, held: &Held, generation: Generation) -> bool {
        let Some(hold) = self.holds.get_mut(held).filter(|hold| hold.generation == generation)
        else {
            return false;
        };
        hold.guards = hold.guards.saturating_sub(1);
        self.forget_if_empty(held);
        true
    }

    /// How many holds the server should count: guards, and attempts under way.
    pub(super) fn left(&self, held: &Held) -> u64 {
        self.holds.get(held).map_or(0, |hold| hold.guards + hold.entering)
    }

    /// The deadline of the guards of a generation; `None` if they are lost.
    pub(super) fn deadline(&self, held: &Held, generation: Generation) -> Option<Duration> {
        let hold = self.holds.get(held).filter(|hold| hold.generation == generation);
        hold.map(|hold| hold.deadline)
    }

    /// The owner's hold, of a generation of its own if there is none.
    fn hold(&mut self, held: &Held) -> &mut Hold {
        let last = &mut self.last;
        self.holds.entry(held.clone()).or_insert_with(|| {
            *last += 1;
            let generation = Generation(*last);
            Hold { generation, guards: 0, entering: 0, deadline: Duration::ZERO }
        })
    }

    fn forget_if_empty(&mut self, held: &Held) {
        if self.left(held) == 0 {
            self.holds.remove(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn held() -> Held {
        ("stock:42".to_owned(), Owner::named("a"))
    }

    /// Enters at once, at this second; the server counts so many.
    fn enter(holds: &mut Holds, count: u64, second: u64) -> (Generation, bool) {
        let now = Duration::from_secs(second);
        holds.enter(&held());
        holds.entered(&held(), count, now, now + LEASE)
    }

    #[test]
    fn a_late_release_leaves_what_is_being_entered() {
        let mut holds = Holds::default();
        let (first, _) = enter(&mut holds, 1, 0);
        assert!(holds.leave(&held(), first));
        assert_eq!(holds.left(&held()), 0);
        holds.enter(&held());
        // The release of the first is sent now: after it the server counts one.
        assert_eq!(holds.left(&held()), 1);
        let (second, lost) = holds.entered(&held(), 2, Duration::ZERO, LEASE);
        assert!(!lost && holds.deadline(&held(), second) == Some(LEASE));
        assert_eq!(holds.left(&held()), 1);
    }

    #[test]
    fn an_attempt_that_is_undone_leaves_nothing() {
        let mut holds = Holds::default();
        holds.enter(&held());
        holds.turn_back(&held());
        assert_eq!((holds.left(&held()), holds.holds.len()), (0, 0));
    }

    #[test]
    fn guards_of_one_record_have_one_lease() {
        let mut holds = Holds::default();
        let (outer, _) = enter(&mut holds, 1, 0);
        let (inner, lost) = enter(&mut holds, 2, 5);
        assert!(outer == inner && !lost);
        assert_eq!(holds.deadline(&held(), outer), Some(Duration::from_secs(15)));
        assert!(holds.leave(&held(), inner) && holds.left(&held()) == 1);
    }

    #[test]
    fn a_count_that_began_anew_loses_older_guards() {
        let mut holds = Holds::default();
        let (outer, _) = enter(&mut holds, 1, 0);
        // A failover forgot the record.
        let (inner, lost) = enter(&mut holds, 1, 5);
        assert!(outer != inner && lost);
        assert_eq!(holds.deadline(&held(), outer), None);
        assert_eq!(holds.deadline(&held(), inner), Some(Duration::from_secs(15)));
        // The lost guard takes nothing from the other.
        assert!(!holds.leave(&held(), outer));
        assert_eq!(holds.left(&held()), 1);
    }

    #[test]
    fn a_guard_past_its_deadline_does_not_come_back_to_life() {
        let mut holds = Holds::default();
        let (outer, _) = enter(&mut holds, 1, 0);
        let (inner, lost) = enter(&mut holds, 2, 10);
        assert!(lost && holds.deadline(&held(), outer).is_none());
        assert_eq!(holds.deadline(&held(), inner), Some(Duration::from_secs(20)));
    }

    #[test]
    fn somebody_else_inside_means_that_ours_are_lost() {
        let mut holds = Holds::default();
        let (outer, _) = enter(&mut holds, 1, 0);
        holds.enter(&held());
        assert!(holds.lose(&held()));
        holds.turn_back(&held());
        assert_eq!(holds.deadline(&held(), outer), None);
        let (after, lost) = enter(&mut holds, 1, 1);
        assert!(after != outer && !lost);
        assert!(!holds.leave(&held(), outer) && holds.leave(&held(), after));
    }
}

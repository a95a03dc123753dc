//! Sessions: how they get their numbers and passwords, and, where it is decided, when they
//! end (`SessionTrackerImpl`, `ExpiryQueue`).
//!
//! Only the leader, or a server that stands alone, has a [`Tracker`]. It reckons in whole
//! milliseconds of its machine's monotonic clock: a session ends at the first multiple of the
//! tick that is later than its timeout after it was last heard of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::code::Code;

/// What passwords are made with, beside the session's number (`ZooKeeperServer.superSecret`).
const SECRET: i64 = 0xB341_5C00;

/// The first number of the sessions that the server `server` opens from `now` on.
pub(super) fn first_session(server: u8, now: Duration) -> i64 {
    let milliseconds = now.as_millis() as i64;
    ((milliseconds << 24) as u64 >> 8) as i64 | i64::from(server) << 56
}

/// A session's password: Java's generator, seeded with the number and the secret.
pub(super) fn password(session: i64) -> [u8; 16] {
    const MULTIPLIER: i64 = 0x5_DEEC_E66D;
    const MASK: i64 = (1 << 48) - 1;
    let mut seed = (session ^ SECRET ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for chunk in password.chunks_exact_mut(4) {
        seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        chunk.copy_from_slice(&((seed >> 16) as i32).to_le_bytes());
    }
    password
}

/// Through whom a session reaches the leader: a session that moved has another owner, and
/// what comes late through the old one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A connection to this server.
    Me,
    /// The follower behind this link.
    Link(u64),
}

#[derive(Clone, Debug)]
struct Tracked {
    is_closing: bool,
    owner: Option<Owner>,
    /// When it ends, ms of the monotonic clock.
    expires_ms: u64,
}

/// When sessions end.
#[derive(Debug)]
pub(super) struct Tracker {
    tick_ms: u64,
    sessions: BTreeMap<i64, Tracked>,
    /// Which sessions end when.
    buckets: BTreeMap<u64, BTreeSet<i64>>,
    /// The next multiple of the tick.
    next_ms: u64,
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Tracker {
    /// One that gives every session of `sessions` (with timeouts, ms) its whole timeout from now.
    pub(super) fn new(tick: Duration, now: Duration, sessions: &BTreeMap<i64, i32>) -> Self {
        let tick_ms = milliseconds(tick).max(1);
        let mut tracker = Tracker {
            tick_ms,
            sessions: BTreeMap::new(),
            buckets: BTreeMap::new(),
            next_ms: (milliseconds(now) / tick_ms + 1) * tick_ms,
        };
        for (session, timeout_ms) in sessions {
            tracker.track(*session, *timeout_ms, now);
        }
        tracker
    }

    /// Begins to watch over a session, or hears of it.
    pub(super) fn track(&mut self, session: i64, timeout_ms: i32, now: Duration) {
        self.sessions.entry(session).or_insert(Tracked {
            is_closing: false,
            owner: None,
            expires_ms: 0,
        });
        self.update(session, timeout_ms, now);
    }

    fn update(&mut self, session: i64, timeout_ms: i32, now: Duration) {
        let due_ms = milliseconds(now) + u64::from(timeout_ms.max(0).unsigned_abs());
        let expires_ms = (due_ms / self.tick_ms + 1) * self.tick_ms;
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        let before_ms = std::mem::replace(&mut tracked.expires_ms, expires_ms);
        if before_ms != expires_ms {
            self.leave_bucket(before_ms, session);
            self.buckets.entry(expires_ms).or_default().insert(session);
        }
    }

    fn leave_bucket(&mut self, expires_ms: u64, session: i64) {
        if let Some(bucket) = self.buckets.get_mut(&expires_ms) {
            bucket.remove(&session);
            if bucket.is_empty() {
                self.buckets.remove(&expires_ms);
            }
        }
    }

    /// A session was heard of: false if it is not, or no more, one.
    pub(super) fn touch(&mut self, session: i64, timeout_ms: i32, now: Duration) -> bool {
        let lives = self.sessions.get(&session).is_some_and(|tracked| !tracked.is_closing);
        if lives {
            self.update(session, timeout_ms, now);
        }
        lives
    }

    /// A session is being closed: nothing more is taken from it.
    pub(super) fn set_closing(&mut self, session: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.is_closing = true;
        }
    }

    /// A session has ended.
    pub(super) fn remove(&mut self, session: i64) {
        if let Some(tracked) = self.sessions.remove(&session) {
            self.leave_bucket(tracked.expires_ms, session);
        }
    }

    /// Whether `owner` may ask for this session.
    pub(super) fn check(&mut self, session: i64, owner: Option<Owner>) -> Result<(), Code> {
        let Some(tracked) = self.sessions.get_mut(&session) else {
            return Err(Code::UNKNOWN_SESSION);
        };
        if tracked.is_closing {
            return Err(Code::SESSION_EXPIRED);
        }
        match tracked.owner {
            None => {
                tracked.owner = owner;
                Ok(())
            }
            known if known == owner => Ok(()),
            Some(_) => Err(Code::SESSION_MOVED),
        }
    }

    /// The session is now reached through `owner`; tells through whom before, if that is
    /// somebody else.
    pub(super) fn set_owner(&mut self, session: i64, owner: Option<Owner>) -> Option<Owner> {
        let tracked = self.sessions.get_mut(&session).filter(|tracked| !tracked.is_closing)?;
        let before = std::mem::replace(&mut tracked.owner, owner);
        before.filter(|before| Some(*before) != owner)
    }

    /// How long until sessions may end.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        Duration::from_millis(self.next_ms).saturating_sub(now)
    }

    /// The sessions whose time has come with the tick that is due, in order; they are closing
    /// from now on.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<i64> {
        if milliseconds(now) < self.next_ms {
            return Vec::new();
        }
        let due = self.buckets.remove(&self.next_ms).unwrap_or_default();
        self.next_ms += self.tick_ms;
        for session in &due {
            self.set_closing(*session);
        }
        due.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn sessions_end_at_the_tick_after_their_timeout() {
        let mut tracker = Tracker::new(at(2_000), at(500), &BTreeMap::from([(1, 4_000)]));
        tracker.track(2, 5_600, at(500));
        assert!(tracker.touch(1, 4_000, at(1_999)));
        let mut ended = Vec::new();
        for now_ms in (0..20).map(|half| half * 1_000) {
            for session in tracker.expire(at(now_ms)) {
                ended.push((session, now_ms));
            }
        }
        // 5,999 is before the tick of 6,000; 6,100 is after it.
        assert_eq!(ended, [(1, 6_000), (2, 8_000)]);
        assert!(!tracker.touch(1, 4_000, at(6_000)), "it is closing");
        assert_eq!(tracker.check(1, None), Err(Code::SESSION_EXPIRED));
        tracker.remove(1);
        assert_eq!(tracker.check(1, None), Err(Code::UNKNOWN_SESSION));
    }

    #[test]
    fn a_session_that_is_due_at_a_tick_has_until_the_next() {
        let mut tracker = Tracker::new(at(2_000), at(0), &BTreeMap::from([(1, 4_000)]));
        assert!(tracker.expire(at(2_000)).is_empty());
        assert!(tracker.expire(at(4_000)).is_empty());
        assert_eq!(tracker.wait(at(4_500)), at(1_500));
        assert_eq!(tracker.expire(at(6_000)), [1]);
    }

    #[test]
    fn a_session_that_moved_is_not_served_where_it_was() {
        let mut tracker = Tracker::new(at(2_000), at(0), &BTreeMap::from([(1, 4_000)]));
        assert_eq!(tracker.check(1, Some(Owner::Link(3))), Ok(()));
        assert_eq!(tracker.check(1, Some(Owner::Me)), Err(Code::SESSION_MOVED));
        assert_eq!(tracker.set_owner(1, Some(Owner::Me)), Some(Owner::Link(3)));
        assert_eq!(tracker.check(1, Some(Owner::Link(3))), Err(Code::SESSION_MOVED));
    }

    #[test]
    fn passwords_are_those_of_javas_generator() {
        // java.util.Random of the seed 42: its first int is −1170105035.
        assert_eq!(password(42 ^ SECRET)[..4], (-1_170_105_035_i32).to_le_bytes());
        assert_eq!(first_session(3, at(1)), 3 << 56 | 1 << 16);
    }
}

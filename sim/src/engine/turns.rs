//! Whose turn it is: the last task that ran, and how often tasks ran while time stood
//! still.
//!
//! A program that never waits (a loop that yields, two tasks that wake each other) would
//! keep a run at one instant for ever. After [`TURNS_OF_AN_INSTANT`] turns at one instant
//! nobody gets another: the engine finds no task ready, and ends the run with the
//! [`verdict`](Turns::stuck) that names who kept it. A program that does not come back
//! from its turn at all (a blocking call, an endless loop) cannot be stopped from inside;
//! whoever watches from outside asks here [`where`](Turns::place) it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::world::NodeId;

/// So many turns may be taken at one instant. A standard storm takes a few dozen at its
/// busiest; a thousand nodes that all start at once take some thousand.
pub const TURNS_OF_AN_INSTANT: u32 = 100_000;
/// So many of the last turns are looked at to say who took them.
const SAMPLE: u32 = 1_000;

/// A task: its node, and its group there.
pub type Place = (NodeId, &'static str);

/// Counts turns.
#[derive(Debug, Default)]
pub struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    at_us: u64,
    taken: u32,
    last: Option<Place>,
    sample: BTreeMap<Place, u32>,
}

impl Turns {
    /// Takes a turn for a task. False when there are no more at this instant, or in this
    /// run: the task must not run.
    pub fn take(&self, now_us: u64, place: Place) -> bool {
        let state = &mut *self.lock();
        if state.taken >= TURNS_OF_AN_INSTANT {
            return false;
        }
        if state.at_us != now_us {
            state.at_us = now_us;
            state.taken = 0;
        }
        state.taken += 1;
        state.last = Some(place);
        if state.taken >= TURNS_OF_AN_INSTANT - SAMPLE {
            *state.sample.entry(place).or_default() += 1;
        }
        true
    }

    /// When the last turn was taken (simulated, µs), and by whom.
    pub fn place(&self) -> Option<(u64, Place)> {
        let state = self.lock();
        state.last.map(|last| (state.at_us, last))
    }

    /// If the turns of an instant are used up: the instant, and who took the last of them,
    /// the most frequent first.
    pub fn stuck(&self) -> Option<(u64, Vec<Place>)> {
        let state = self.lock();
        if state.taken < TURNS_OF_AN_INSTANT {
            return None;
        }
        let mut places: Vec<(Place, u32)> =
            state.sample.iter().map(|(place, count)| (*place, *count)).collect();
        places.sort_by_key(|(place, count)| (std::cmp::Reverse(*count), *place));
        Some((state.at_us, places.into_iter().map(|(place, _)| place).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Place = (NodeId(0), "main");
    const B: Place = (NodeId(1), "echo");

    #[test]
    fn time_that_passes_gives_new_turns() {
        let turns = Turns::default();
        for now_us in 0..3 {
            for _ in 0..TURNS_OF_AN_INSTANT - 1 {
                assert!(turns.take(now_us, A));
            }
        }
        assert_eq!(turns.stuck(), None);
        assert_eq!(turns.place(), Some((2, A)));
    }

    #[test]
    fn an_instant_without_end_names_who_kept_it() {
        let turns = Turns::default();
        for turn in 0..TURNS_OF_AN_INSTANT {
            assert!(turns.take(7, if turn % 3 == 0 { B } else { A }));
        }
        assert!(!turns.take(7, A));
        assert!(!turns.take(8, A), "not even later: the run is over");
        assert_eq!(turns.stuck(), Some((7, vec![A, B])));
    }
}

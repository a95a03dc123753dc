//! Clocks of simulated nodes.
//!
//! A node has one oscillator that drives two clocks: the monotonic clock, which
//! runs at the oscillator's rate, and the wall clock, which besides can be off, can
//! step, and can stand still for a while. True simulated time is nobody's clock.
//!
//! Everything is integer microseconds; a rate is parts per million of deviation
//! (+50,000 ppm: five percent fast). Readings are piecewise linear: each change
//! starts a new piece at the reading of the moment, so nothing but a step jumps.

use serde::{Deserialize, Serialize};

/// 2026-01-01T00:00:00Z: where every wall clock stands when a storm begins, so that
/// nothing depends on the day on which it is run. µs since the Unix epoch.
pub const WALL_ORIGIN_US: i64 = 1_767_225_600_000_000;

/// A change to a node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockChange {
    /// From now on both clocks run this much fast (or slow), parts per million.
    Rate {
        /// Deviation, ppm; above -1,000,000.
        ppm: i64,
    },
    /// The wall clock jumps by this much, µs.
    Step {
        /// Forwards when positive.
        by_us: i64,
    },
    /// The wall clock stands still. A step moves what it shows. Nothing if it does
    /// already.
    Freeze,
    /// The wall clock shows again what it would show if it had not stood still.
    Thaw,
}

/// How a node's wall clock is off at some moment, against true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// How far it is ahead, µs.
    pub offset_us: i64,
    /// How fast it runs, ppm of deviation; [`STANDS_STILL_PPM`] while it is frozen.
    pub rate_ppm: i64,
}

/// The rate of a clock that stands still.
pub const STANDS_STILL_PPM: i64 = -1_000_000;

/// One node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// True time at which the present piece began, µs.
    since_us: u64,
    /// The monotonic reading at that moment, µs.
    monotonic_us: u64,
    /// Wall minus monotonic reading, µs.
    wall_ahead_us: i64,
    /// Deviation of the oscillator, ppm.
    ppm: i64,
    /// What the wall clock shows while it stands still, µs since the Unix epoch.
    frozen_us: Option<i64>,
}

const MILLION: i128 = 1_000_000;

impl Default for NodeClock {
    fn default() -> Self {
        NodeClock {
            since_us: 0,
            monotonic_us: 0,
            wall_ahead_us: WALL_ORIGIN_US,
            ppm: 0,
            frozen_us: None,
        }
    }
}

impl NodeClock {
    /// The monotonic reading at `true_us`, µs.
    pub fn monotonic_us(&self, true_us: u64) -> u64 {
        let elapsed_us = true_us.saturating_sub(self.since_us);
        // Nearly all clocks, and no division of 128 bits.
        if self.ppm == 0 {
            return self.monotonic_us.saturating_add(elapsed_us);
        }
        let gained = i128::from(elapsed_us) * (MILLION + i128::from(self.ppm)) / MILLION;
        self.monotonic_us.saturating_add(u64::try_from(gained).unwrap_or(0))
    }

    /// The wall reading at `true_us`, µs since the Unix epoch.
    pub fn wall_us(&self, true_us: u64) -> i64 {
        if let Some(frozen_us) = self.frozen_us {
            return frozen_us;
        }
        let monotonic = i64::try_from(self.monotonic_us(true_us)).unwrap_or(i64::MAX);
        monotonic.saturating_add(self.wall_ahead_us)
    }

    /// How the wall clock is off at `true_us`.
    pub fn deviation(&self, true_us: u64) -> Deviation {
        let truth_us = WALL_ORIGIN_US.saturating_add_unsigned(true_us);
        Deviation {
            offset_us: self.wall_us(true_us).saturating_sub(truth_us),
            rate_ppm: if self.frozen_us.is_some() { STANDS_STILL_PPM } else { self.ppm },
        }
    }

    /// The earliest true time at which the monotonic clock shows `monotonic_us` or
    /// more, if it keeps its rate, µs.
    pub fn true_us_of(&self, monotonic_us: u64) -> u64 {
        let ahead_us = monotonic_us.saturating_sub(self.monotonic_us);
        if self.ppm == 0 {
            return self.since_us.saturating_add(ahead_us);
        }
        let rate = MILLION + i128::from(self.ppm);
        let elapsed = (i128::from(ahead_us) * MILLION + rate - 1) / rate;
        self.since_us.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Applies a change at `true_us`.
    pub fn change(&mut self, true_us: u64, change: ClockChange) {
        match change {
            ClockChange::Rate { ppm } => {
                self.monotonic_us = self.monotonic_us(true_us);
                self.since_us = true_us;
                // A clock that stands still or runs backwards is not a rate.
                // Plans that ask for less are refused.
                self.ppm = ppm.max(-999_999);
            }
            ClockChange::Step { by_us } => {
                self.wall_ahead_us = self.wall_ahead_us.saturating_add(by_us);
                self.frozen_us = self.frozen_us.map(|us| us.saturating_add(by_us));
            }
            ClockChange::Freeze => self.frozen_us = Some(self.wall_us(true_us)),
            ClockChange::Thaw => self.frozen_us = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plus_200_ppm_for_1000_s_is_200_ms_ahead() {
        let mut clock = NodeClock::default();
        clock.change(0, ClockChange::Rate { ppm: 200 });
        assert_eq!(clock.monotonic_us(1_000_000_000), 1_000_200_000);
        assert_eq!(clock.wall_us(1_000_000_000), WALL_ORIGIN_US + 1_000_200_000);
    }

    #[test]
    fn a_step_moves_the_wall_and_not_the_monotonic_clock() {
        let mut clock = NodeClock::default();
        clock.change(5_000, ClockChange::Step { by_us: -3_000_000 });
        assert_eq!(clock.monotonic_us(10_000), 10_000);
        assert_eq!(clock.wall_us(10_000), WALL_ORIGIN_US + 10_000 - 3_000_000);
    }

    #[test]
    fn a_timer_fires_at_the_first_true_time_that_shows_its_deadline() {
        for ppm in [-50_000, -500, -1, 0, 1, 500, 50_000] {
            let mut clock = NodeClock::default();
            clock.change(777, ClockChange::Rate { ppm });
            for deadline in [778_u64, 1_000, 10_000_001, 3_600_000_000] {
                let at = clock.true_us_of(deadline);
                assert!(clock.monotonic_us(at) >= deadline, "ppm {ppm} deadline {deadline}");
                assert!(clock.monotonic_us(at - 1) < deadline, "ppm {ppm} deadline {deadline}");
            }
        }
    }

    #[test]
    fn a_frozen_wall_clock_stands_still_and_is_right_again_when_it_thaws() {
        let mut clock = NodeClock::default();
        clock.change(0, ClockChange::Rate { ppm: 1_000 });
        clock.change(1_000_000, ClockChange::Freeze);
        let shown = clock.wall_us(1_000_000);
        assert_eq!(clock.wall_us(9_000_000), shown);
        assert_eq!(clock.monotonic_us(9_000_000), 9_009_000, "the monotonic clock goes on");
        let expected = Deviation { offset_us: 1_000 - 8_000_000, rate_ppm: STANDS_STILL_PPM };
        assert_eq!(clock.deviation(9_000_000), expected);
        clock.change(9_000_000, ClockChange::Step { by_us: 500 });
        assert_eq!(clock.wall_us(9_500_000), shown + 500, "it can be set and stands still");
        clock.change(9_500_000, ClockChange::Freeze);
        assert_eq!(clock.wall_us(9_500_000), shown + 500, "frozen is frozen");
        clock.change(10_000_000, ClockChange::Thaw);
        assert_eq!(clock.wall_us(10_000_000), WALL_ORIGIN_US + 10_010_500);
        assert_eq!(clock.deviation(10_000_000), Deviation { offset_us: 10_500, rate_ppm: 1_000 });
    }

    #[test]
    fn a_change_of_rate_does_not_jump() {
        let mut clock = NodeClock::default();
        let before = clock.monotonic_us(1_234_567);
        clock.change(1_234_567, ClockChange::Rate { ppm: 50_000 });
        assert_eq!(clock.monotonic_us(1_234_567), before);
    }
}

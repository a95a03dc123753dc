//! Fits turmoil's latencies to the stage's.
//!
//! The stage asks for a lognormal latency; turmoil draws an exponential one, in whole
//! milliseconds, cut off at a maximum, and delivers on ticks. The fit keeps the
//! median, takes the lognormal's tenth percentile as the minimum and its 99th as the
//! maximum, all rounded to ticks and never below one: a message that took no tick
//! would arrive in the same tick at hosts that run later and in the next at hosts
//! that run earlier. Links of a few hundred microseconds thus become links of exactly
//! one tick, without any variance.

use crate::engine::Links;

/// Distances of the tenth and 99th percentile of a normal from its mean, in sigmas.
const TENTH: f64 = -1.281_552;
const NINETY_NINTH: f64 = 2.326_348;

/// Latency of a message as turmoil is told it. Whole ticks, µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) min_us: u64,
    pub(super) median_us: u64,
    pub(super) max_us: u64,
    /// Lambda of the exponential that is spread over the range.
    pub(super) curve: f64,
}

impl Latency {
    pub(super) fn fit(links: Links, tick_us: u64) -> Self {
        let ticks = |us: f64| (libm::round(us / tick_us as f64) as u64).max(1);
        let percentile = |sigmas: f64| {
            let sigma = links.sigma_milli as f64 / 1_000.0;
            ticks(links.median_us as f64 * libm::exp(sigma * sigmas)) * tick_us
        };
        let median_us = percentile(0.0);
        let min_us = percentile(TENTH).min(median_us);
        let max_us = percentile(NINETY_NINTH).max(median_us);
        // The median of min + floor(range * X) is where X = ln 2 / lambda; half a
        // millisecond makes up for the floor.
        let range_ms = (max_us - min_us) as f64 / 1_000.0;
        let above_min_ms = (median_us - min_us) as f64 / 1_000.0 + 0.5;
        let curve = (range_ms * std::f64::consts::LN_2 / above_min_ms).max(1.0);
        Latency { min_us, median_us, max_us, curve }
    }
}

/// The first tick at or after `us`, µs.
pub(super) fn round_up_us(us: u64, tick_us: u64) -> u64 {
    us.div_ceil(tick_us).saturating_mul(tick_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(median_us: u64, sigma_milli: u64, tick_us: u64) -> (u64, u64, u64) {
        let latency = Latency::fit(Links { median_us, sigma_milli }, tick_us);
        (latency.min_us, latency.median_us, latency.max_us)
    }

    #[test]
    fn a_fast_link_takes_exactly_one_tick() {
        assert_eq!(fit(250, 400, 1_000), (1_000, 1_000, 1_000));
        assert_eq!(fit(250, 400, 10_000), (10_000, 10_000, 10_000));
        assert_eq!(fit(0, 0, 1_000), (1_000, 1_000, 1_000));
    }

    #[test]
    fn a_slow_link_keeps_its_median_and_its_spread() {
        assert_eq!(fit(5_000, 400, 1_000), (3_000, 5_000, 13_000));
        assert_eq!(fit(400_000, 0, 1_000), (400_000, 400_000, 400_000));
        // Half of the messages below the median: 10 * ln 2 / 2.5.
        let latency = Latency::fit(Links { median_us: 5_000, sigma_milli: 400 }, 1_000);
        assert!((latency.curve - 2.772_588).abs() < 1e-5, "{}", latency.curve);
    }

    #[test]
    fn rounding_up_stays_on_a_tick_and_does_not_overflow() {
        assert_eq!(round_up_us(1, 1_000), 1_000);
        assert_eq!(round_up_us(2_000, 1_000), 2_000);
        assert_eq!(round_up_us(2_001, 10_000), 10_000);
        assert_eq!(round_up_us(u64::MAX, 1_000), u64::MAX);
    }
}

//! Random draws, keyed.
//!
//! Every draw in a storm is ChaCha8 with the storm's seed as key, a stream chosen
//! by *what for* and *who*, and the position counted by that entity alone. So taking
//! one client out of a plan moves no other client's draws, and a new purpose moves
//! nobody's.
//!
//! A run can be *reseeded*: once [`reseed`] is called on a run's thread, every stream of
//! that thread goes on from its beginning under another seed. What was drawn before stays
//! as it was, so many futures of one past can be tried
//! (`run_reseeded` of `lockstorm-sim`).
//!
//! Reals never reach a history: what is drawn here are integers, and the one
//! transcendental function (of the lognormal latency) comes from the `libm` crate,
//! which computes the same bits on every machine.

use std::cell::Cell;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

thread_local! {
    /// The seed that all streams of this thread go on with, and the how-manieth it is.
    /// One run has one thread, so this is a run's.
    static RESEEDED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// From here on every stream of this thread goes on under `seed`. For the thread of one
/// run; the run must have the thread for itself.
pub fn reseed(seed: u64) {
    let times = RESEEDED.get().0.wrapping_add(1).max(1);
    RESEEDED.set((times, seed));
    // Third-party code draws from this one without asking us; see `engine::senses`.
    fastrand::seed(Draw::new(seed, "fastrand", "").bits());
}

/// The draws of one entity for one purpose.
#[derive(Clone, Debug)]
pub struct Draw {
    generator: ChaCha8Rng,
    /// At which [`reseed`] it begins; 0 before the first.
    since: u32,
}

impl Draw {
    /// The stream of draws for `purpose` by `entity` in the storm of `seed`.
    pub fn new(seed: u64, purpose: &str, entity: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(purpose.as_bytes());
        hasher.update(&[0]);
        hasher.update(entity.as_bytes());
        let mut stream = [0u8; 8];
        stream.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        let (since, reseeded) = RESEEDED.get();
        let seed = if since == 0 { seed } else { reseeded };
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(u64::from_le_bytes(stream));
        Draw { generator, since }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let (since, seed) = RESEEDED.get();
        if since != self.since {
            let stream = self.generator.get_stream();
            self.generator = ChaCha8Rng::seed_from_u64(seed);
            self.generator.set_stream(stream);
            self.since = since;
        }
        self.generator.next_u64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0. One draw, always.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `from..to`; `from` when the range is empty. One draw, always.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from))
    }

    /// True with a probability of `in_thousand` in a thousand. One draw, always.
    pub fn chance(&mut self, in_thousand: u64) -> bool {
        self.below(1_000) < in_thousand
    }

    /// One of `choices`; `None` of an empty slice. One draw, always.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let index = self.below(choices.len() as u64);
        choices.get(usize::try_from(index).ok()?)
    }

    /// A lognormal latency: `median_us` times e to the power of a normal with
    /// standard deviation `sigma_milli` / 1000, at least 1 µs. Two draws, always.
    pub fn lognormal_us(&mut self, median_us: u64, sigma_milli: u64) -> u64 {
        const UNIT: f64 = 1.0 / 9_007_199_254_740_992.0;
        // In (0, 1]: the logarithm needs more than zero.
        let first = ((self.bits() >> 11) + 1) as f64 * UNIT;
        let second = (self.bits() >> 11) as f64 * UNIT;
        let normal =
            libm::sqrt(-2.0 * libm::log(first)) * libm::cos(std::f64::consts::TAU * second);
        let factor = libm::exp(normal * sigma_milli as f64 / 1_000.0);
        ((median_us as f64 * factor) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_do_not_move_each_other() {
        let alone: Vec<u64> = {
            let mut draw = Draw::new(7, "hold", "app-2");
            (0..4).map(|_| draw.bits()).collect()
        };
        let mut other = Draw::new(7, "hold", "app-1");
        other.bits();
        let mut draw = Draw::new(7, "hold", "app-2");
        let beside: Vec<u64> = (0..4).map(|_| draw.bits()).collect();
        assert_eq!(alone, beside);
        assert_ne!(alone, (0..4).map(|_| other.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn a_reseeded_thread_goes_on_with_the_other_seed_and_others_do_not() {
        let drawn = |reseed_to: Option<u64>| {
            std::thread::spawn(move || {
                let mut old = Draw::new(7, "hold", "app-1");
                let before = old.bits();
                reseed_to.into_iter().for_each(reseed);
                let mut new = Draw::new(7, "hold", "app-2");
                [before, old.bits(), old.bits(), new.bits()]
            })
            .join()
            .unwrap()
        };
        let of = |seed, entity| Draw::new(seed, "hold", entity).bits();
        let (kept, reseeded) = (drawn(None), drawn(Some(9)));
        assert_eq!(kept[0], reseeded[0], "the past stays");
        assert_eq!(reseeded[1], of(9, "app-1"));
        assert_eq!(reseeded[3], of(9, "app-2"));
        assert_eq!(kept[3], of(7, "app-2"));
        assert_ne!(kept[2], reseeded[2]);
        assert_ne!(drawn(Some(10))[1], reseeded[1]);
    }

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let mut draw = Draw::new(0x5eed, "latency", "redis-1");
        let drawn: Vec<u64> = (0..4).map(|_| draw.lognormal_us(250, 400)).collect();
        insta::assert_debug_snapshot!(drawn);
    }

    #[test]
    fn bounds_hold() {
        let mut draw = Draw::new(1, "bounds", "");
        for _ in 0..1_000 {
            assert!((5..9).contains(&draw.between(5, 9)));
        }
        assert_eq!(draw.below(0), 0);
        assert_eq!(draw.between(3, 3), 3);
        assert!(!draw.chance(0));
        assert!(draw.chance(1_000));
    }
}

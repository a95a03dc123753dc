//! The random numbers of scripts: the 48-bit linear congruential generator of
//! `lrand48`, which Redis brings itself so that scripts draw the same everywhere.

/// The generator. The default is how a server begins; scripts go on from where the
/// last one left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random48(u64);

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
const RANGE: u32 = i32::MAX as u32;

impl Random48 {
    pub(super) fn new(seed: i64) -> Self {
        // Only 32 bits of the seed count.
        Random48(u64::from(seed as u32) << 16 | 0x330E)
    }

    /// In [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        let drawn = (self.0 >> 17) as u32;
        f64::from(drawn % RANGE) / f64::from(RANGE)
    }
}

impl Default for Random48 {
    fn default() -> Self {
        // What `lrand48` begins with when nobody has called `srand48`.
        Random48(0x1234_ABCD_330E)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_as_redis_does() {
        // `return math.random(1000000)` on Redis 7.0.15 gives 396465.
        assert_eq!((Random48::default().unit() * 1_000_000.0).floor() as u32 + 1, 396_465);
        // `math.randomseed(5) return math.random(100000)` gives 52484.
        assert_eq!((Random48::new(5).unit() * 100_000.0).floor() as u32 + 1, 52_484);
    }
}

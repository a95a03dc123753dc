//! A token bucket: so many at once, and so many each second after that.
//!
//! It is asked with the time, so it reads no clock; times come from a host's monotonic
//! clock and do not go back (one that does gives nothing).

use std::time::Duration;

/// How many, how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many may come at once, at least 1.
    pub burst: u32,
    /// How many more each second.
    pub per_second: u32,
}

/// A bucket of tokens.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    /// Millionths of a token.
    tokens_micro: u64,
    /// When they were counted.
    at: Duration,
}

const TOKEN: u64 = 1_000_000;

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Duration) -> Self {
        TokenBucket { rate, tokens_micro: u64::from(rate.burst.max(1)) * TOKEN, at: now }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Duration) -> bool {
        self.fill(now);
        match self.tokens_micro.checked_sub(TOKEN) {
            Some(left) => {
                self.tokens_micro = left;
                true
            }
            None => false,
        }
    }

    /// Puts back a token that was taken for nothing.
    pub fn put_back(&mut self) {
        let full = u64::from(self.rate.burst.max(1)) * TOKEN;
        self.tokens_micro = full.min(self.tokens_micro + TOKEN);
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        // A microsecond brings as many millionths as a second brings tokens.
        let brought = passed.as_micros().saturating_mul(u128::from(self.rate.per_second));
        let full = u128::from(self.rate.burst.max(1)) * u128::from(TOKEN);
        let filled = full.min(u128::from(self.tokens_micro).saturating_add(brought));
        self.tokens_micro = u64::try_from(filled).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, per_second: 2 };

    fn at_ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(RATE, at_ms(0));
        let given =
            |bucket: &mut TokenBucket, ms| (0..10).filter(|_| bucket.take(at_ms(ms))).count();
        assert_eq!(given(&mut bucket, 0), 3);
        assert_eq!(given(&mut bucket, 499), 0);
        assert_eq!(given(&mut bucket, 500), 1);
        assert_eq!(given(&mut bucket, 60_000), 3);
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut bucket = TokenBucket::new(RATE, at_ms(1_000));
        while bucket.take(at_ms(1_000)) {}
        assert!(!bucket.take(at_ms(0)));
        assert!(!bucket.take(at_ms(1_400)));
        assert!(bucket.take(at_ms(1_500)));
    }

    #[test]
    fn what_was_taken_for_nothing_comes_back() {
        let mut bucket = TokenBucket::new(Rate { burst: 1, per_second: 0 }, at_ms(0));
        assert!(bucket.take(at_ms(0)));
        bucket.put_back();
        bucket.put_back();
        assert!(bucket.take(at_ms(0)));
        assert!(!bucket.take(at_ms(u64::MAX / 1_000_000)));
    }
}

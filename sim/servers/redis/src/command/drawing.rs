//! Members drawn by chance: keyed draws of the server's machine.

use super::{Call, Failure};

/// How many members a negative count may ask for: Redis answers for as long as it takes.
const MOST: u64 = 1 << 20;

impl Call<'_> {
    fn below(&self, bound: usize) -> usize {
        (self.shared.host.random("redis-random") % bound.max(1) as u64) as usize
    }

    /// One of these.
    pub(super) fn drawn<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len())) }
    }

    /// So many of these: different ones, or each time any of them where the count is negative.
    ///
    /// # Errors
    /// When a negative count is out of range.
    pub(super) fn sample<T: Clone>(&self, all: &[T], count: i64) -> Result<Vec<T>, Failure> {
        let wanted = count.unsigned_abs();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        if count < 0 {
            if wanted > MOST {
                return Err("ERR value is out of range".into());
            }
            return Ok((0..wanted).filter_map(|_| self.drawn(all).cloned()).collect());
        }
        let mut all = all.to_vec();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(all.len());
        if wanted < all.len() {
            for place in 0..wanted {
                let other = place + self.below(all.len() - place);
                all.swap(place, other);
            }
            all.truncate(wanted);
        }
        Ok(all)
    }
}

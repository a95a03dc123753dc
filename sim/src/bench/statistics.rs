//! What several hunts say: medians that know of censored hunts, their intervals by order
//! statistics, and how often one strategy is ahead of another (Vargha and Delaney's A12).

use serde::Serialize;

/// A number of executions, or more than that: censored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needed {
    /// So many.
    Found(u64),
    /// More than were made.
    Censored(u64),
}

impl std::fmt::Display for Needed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Needed::Found(number) => write!(formatter, "{number}"),
            Needed::Censored(number) => write!(formatter, ">{number}"),
        }
    }
}

/// A median and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Median<T> {
    /// The lower median.
    pub median: T,
    /// The interval's lower end, one of the values.
    pub from: T,
    /// Its upper end.
    pub to: T,
    /// How surely the true median lies in it, in a thousand; 950 or more where there are
    /// values enough, else what all of them give.
    pub coverage: u32,
}

/// The median of `values` and its narrowest symmetric interval of 95 %; `None` of nothing.
pub fn median<T: Ord + Copy>(values: &[T]) -> Option<Median<T>> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let number = sorted.len();
    let middle = *sorted.get(number.checked_sub(1)? / 2)?;
    let mut coverages = (0..number.div_ceil(2)).map(|rank| (rank, coverage(number, rank)));
    let narrowest = coverages.rfind(|(_, coverage)| *coverage >= 950);
    let (rank, coverage) = narrowest.unwrap_or((0, coverage(number, 0)));
    let (from, to) = (sorted[rank], sorted[number - 1 - rank]);
    Some(Median { median: middle, from, to, coverage })
}

/// How surely the median lies between the values of ranks `rank` and `number - 1 - rank`,
/// counted from 0, in a thousand: 1 - 2 P(at most `rank` of `number` coins are heads).
fn coverage(number: usize, rank: usize) -> u32 {
    // Beyond what a bench runs the binomials no longer fit; the interval is sure there.
    let Ok(number) = u32::try_from(number.min(120)) else { return 0 };
    let mut outside: u128 = 0;
    let mut binomial: u128 = 1;
    for heads in 0..=u32::try_from(rank).unwrap_or(0).min(number) {
        outside += binomial;
        binomial = binomial * u128::from(number - heads) / u128::from(heads + 1);
    }
    let all = 1_u128 << number;
    let inside = all.saturating_sub(outside.saturating_mul(2));
    u32::try_from(inside.saturating_mul(1_000) / all).unwrap_or(0)
}

/// How often a value of `ours` is smaller than one of `theirs`, ties counted half, in a
/// thousand: 500 is no difference, more is better. `None` where one has no values.
pub fn a12<T: Ord>(ours: &[T], theirs: &[T]) -> Option<u32> {
    let pairs = ours.len() * theirs.len();
    if pairs == 0 {
        return None;
    }
    let points = |a: &T, b: &T| match a.cmp(b) {
        std::cmp::Ordering::Less => 2,
        std::cmp::Ordering::Equal => 1,
        std::cmp::Ordering::Greater => 0,
    };
    let all = ours.iter().flat_map(|a| theirs.iter().map(move |b| points(a, b)));
    let sum: usize = all.sum();
    u32::try_from(sum * 500 / pairs).ok()
}

#[cfg(test)]
mod tests {
    use super::Needed::{Censored, Found};
    use super::*;

    #[test]
    fn censored_hunts_come_after_all_that_found() {
        let needed = [Found(3), Censored(100), Found(70), Found(5), Censored(100)];
        let told = median(&needed).unwrap();
        assert_eq!((told.median, told.from, told.to), (Found(70), Found(3), Censored(100)));
        assert_eq!(told.coverage, 937, "1 - 2/2^5");
        assert_eq!(told.to.to_string(), ">100");
    }

    #[test]
    fn intervals_are_as_narrow_as_order_statistics_allow() {
        // Conover, Practical Nonparametric Statistics: of 10 values the 2nd and the 9th
        // give 97.9 %, of 20 the 6th and the 15th 95.9 %.
        let ten: Vec<u64> = (1..=10).collect();
        let told = median(&ten).unwrap();
        assert_eq!((told.median, told.from, told.to, told.coverage), (5, 2, 9, 978));
        let twenty: Vec<u64> = (1..=20).collect();
        let told = median(&twenty).unwrap();
        assert_eq!((told.median, told.from, told.to, told.coverage), (10, 6, 15, 958));
        assert_eq!(median(&[7]).unwrap().coverage, 0, "one value says nothing");
        assert_eq!(median::<u64>(&[]), None);
    }

    #[test]
    fn a12_is_the_share_of_pairs_in_which_we_are_ahead() {
        assert_eq!(a12(&[1, 2], &[3, 4]), Some(1_000));
        assert_eq!(a12(&[3, 4], &[1, 2]), Some(0));
        assert_eq!(a12(&[1, 2], &[1, 2]), Some(500));
        assert_eq!(a12(&[1], &[]), None::<u32>);
    }
}

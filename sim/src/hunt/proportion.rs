//! How many of how many, and between which probabilities that leaves the truth.

use serde::{Deserialize, Serialize};

/// So many of so many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Proportion {
    /// In so many it happened …
    pub count: u64,
    /// … of these.
    pub of: u64,
}

/// The quantile of the normal distribution for 95 % on both sides.
const Z: f64 = 1.959_963_984_540_054;

impl Proportion {
    /// Of these counts; `count` is no more than `of`.
    pub fn new(count: u64, of: u64) -> Proportion {
        Proportion { count, of }
    }

    /// The share, per mille, rounded; 0 of nothing.
    pub fn per_mille(self) -> u64 {
        let (count, of) = (u128::from(self.count), u128::from(self.of.max(1)));
        u64::try_from((count * 2_000 + of) / (2 * of)).unwrap_or(1_000)
    }

    /// Wilson's interval at 95 %, per mille, rounded outwards: all of 0 to 1,000 where
    /// nothing was tried. It covers the truth in 95 % of cases *on average* over what the truth
    /// may be, and for some truths near 0 and 1 in fewer: of ten runs at a truth of 0.0169 in
    /// 84 %. Where nothing was found in ten runs or more its upper end alone holds 95 %: at
    /// such a truth so many clean runs come in fewer than 5 % of cases. The textbook's normal
    /// interval has no width there at all.
    pub fn interval_per_mille(self) -> (u64, u64) {
        if self.of == 0 {
            return (0, 1_000);
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
        let (count, of) = (self.count as f64, self.of as f64);
        let share = count / of;
        let denominator = 1.0 + Z * Z / of;
        let middle = (share + Z * Z / (2.0 * of)) / denominator;
        let inner = share * (1.0 - share) / of + Z * Z / (4.0 * of * of);
        let half = Z * inner.sqrt() / denominator;
        // An end that is 0 or 1 in truth is so exactly, whatever the last bits say.
        let low = if self.count == 0 { 0.0 } else { (1_000.0 * (middle - half)).floor() };
        let high = if self.count == self.of { 1_000.0 } else { (1_000.0 * (middle + half)).ceil() };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0 to 1,000"
        )]
        let whole = |per_mille: f64| per_mille.clamp(0.0, 1_000.0) as u64;
        (whole(low), whole(high))
    }

    /// `30.0 % (18.0–45.5 %)`.
    pub fn percent(self) -> String {
        let (low, high) = self.interval_per_mille();
        let share = match self.per_mille() {
            // What happened is never told as 0.
            0 if self.count > 0 => "< 0.1".to_owned(),
            per_mille => decimal(per_mille),
        };
        format!("{share} % ({}–{} %)", decimal(low), decimal(high))
    }

    /// The upper end of the interval, `8.8 %`.
    pub fn upper(self) -> String {
        format!("{} %", decimal(self.interval_per_mille().1))
    }
}

/// `45.5` of 455; whole numbers without their `.0`.
fn decimal(per_mille: u64) -> String {
    match per_mille % 10 {
        0 => (per_mille / 10).to_string(),
        tenths => format!("{}.{tenths}", per_mille / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_wilsons() {
        // As the R function `binom::binom.wilson` and tables have them.
        for (count, of, low, high) in [
            (0, 10, 0, 278),
            (10, 10, 722, 1_000),
            (5, 10, 236, 764),
            (1, 40, 4, 129),
            (0, 40, 0, 88),
            (20, 100, 133, 289),
            (0, 0, 0, 1_000),
        ] {
            let proportion = Proportion::new(count, of);
            assert_eq!(proportion.interval_per_mille(), (low, high), "{count} of {of}");
        }
    }

    /// How often the interval of so many runs has `truth` in it.
    fn coverage(of: u64, truth: f64) -> f64 {
        let (mut covered, mut chance) = (0.0, (1.0 - truth).powi(of as i32));
        for count in 0..=of {
            let (low, high) = Proportion::new(count, of).interval_per_mille();
            if (low as f64..=high as f64).contains(&(1_000.0 * truth)) {
                covered += chance;
            }
            chance *= (of - count) as f64 / (count + 1) as f64 * truth / (1.0 - truth);
        }
        covered
    }

    #[test]
    fn they_hold_their_level_on_average_and_above_none_found() {
        for of in [10, 12, 40] {
            let truths = (0..1_000).map(|number| (f64::from(number) + 0.5) / 1_000.0);
            let average = truths.map(|truth| coverage(of, truth)).sum::<f64>() / 1_000.0;
            assert!((0.95..0.96).contains(&average), "{of}: {average}");
        }
        let worst = coverage(10, 0.0169);
        assert!((0.84..0.85).contains(&worst), "{worst}");
        for of in 10..2_000 {
            let (_, high) = Proportion::new(0, of).interval_per_mille();
            let clean = (1.0 - high as f64 / 1_000.0).powi(of as i32);
            assert!(clean < 0.05, "{of}: {clean}");
        }
    }

    #[test]
    fn they_are_told_in_percent() {
        assert_eq!(Proportion::new(12, 40).percent(), "30 % (18–45.5 %)");
        assert_eq!(Proportion::new(0, 40).upper(), "8.8 %");
        assert_eq!(Proportion::new(0, 0).percent(), "0 % (0–100 %)");
        assert_eq!(Proportion::new(1, 3_000).percent(), "< 0.1 % (0–0.2 %)");
    }
}

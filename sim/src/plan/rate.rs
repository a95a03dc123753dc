//! Rates and shares: parts per million inside, `"+500ppm"` or `"-5%"` outside.

use std::fmt;
use std::str::FromStr;

use super::complaint::{Complaint, quoted};
use super::time::{DecimalFault, decimal_times, unsigned};

/// A share or a deviation in parts per million; its text always has a sign, except
/// for none at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppm(pub i64);

const PERCENT_PPM: u64 = 10_000;

impl Ppm {
    /// The text without a plus, for shares that cannot be negative.
    pub fn without_plus(self) -> String {
        self.to_string().trim_start_matches('+').to_owned()
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.0 {
            0 => return formatter.write_str("0ppm"),
            1.. => '+',
            _ => '-',
        };
        let magnitude = self.0.unsigned_abs();
        if magnitude.is_multiple_of(PERCENT_PPM) {
            write!(formatter, "{sign}{}%", magnitude / PERCENT_PPM)
        } else {
            write!(formatter, "{sign}{magnitude}ppm")
        }
    }
}

impl FromStr for Ppm {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        const EXAMPLES: &str = "write parts per million or percent, such as \"+500ppm\" or \"-5%\"";
        let (negative, magnitude) = unsigned(text);
        let (number, factor) = if let Some(number) = magnitude.strip_suffix("ppm") {
            (number, 1)
        } else if let Some(number) = magnitude.strip_suffix('%') {
            (number, PERCENT_PPM)
        } else {
            return Err(Complaint::new(format!("the rate {} has no unit", quoted(text)), EXAMPLES));
        };
        let ppm = decimal_times(number, factor).map_err(|fault| match fault {
            DecimalFault::Malformed => {
                Complaint::new(format!("{} is not a rate", quoted(text)), EXAMPLES)
            }
            DecimalFault::TooFine => Complaint::new(
                format!("the rate {} is finer than a millionth", quoted(text)),
                "round it to whole ppm",
            ),
            DecimalFault::TooLarge => too_large(text),
        })?;
        let ppm = i128::from(ppm) * if negative { -1 } else { 1 };
        i64::try_from(ppm).map(Ppm).map_err(|_| too_large(text))
    }
}

fn too_large(text: &str) -> Complaint {
    Complaint::new(
        format!("the rate {} is more than can be counted", quoted(text)),
        "write a smaller one",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_their_canonical_forms() {
        for (text, ppm, canonical) in [
            ("+500ppm", 500, "+500ppm"),
            ("500ppm", 500, "+500ppm"),
            ("-5%", -50_000, "-5%"),
            ("0.02%", 200, "+200ppm"),
            ("1%", 10_000, "+1%"),
            ("0%", 0, "0ppm"),
        ] {
            assert_eq!(text.parse(), Ok(Ppm(ppm)), "{text}");
            assert_eq!(Ppm(ppm).to_string(), canonical);
        }
        assert_eq!(Ppm(10_000).without_plus(), "1%");
    }

    #[test]
    fn errors_say_the_mend() {
        let errors: Vec<String> = ["", "5", "fast", "0.00001%", "%", "99999999999999999999ppm"]
            .iter()
            .map(|text| format!("{text:?}: {}", text.parse::<Ppm>().unwrap_err()))
            .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(ppm: i64) {
            prop_assert_eq!(Ppm(ppm).to_string().parse(), Ok(Ppm(ppm)));
        }
    }
}

//! Durations in plans: microseconds inside, text with a unit outside.
//!
//! The text is a decimal number and a unit, `"250ms"`, `"1.5s"`, `"2m"`, `"1h"`,
//! `"300us"`; it is read exactly, without floating point, and a value finer than a
//! microsecond is refused. The canonical text uses the largest unit in which the
//! value is a whole number, except that above a second it is a decimal of seconds.

use std::fmt;
use std::str::FromStr;

use super::complaint::{Complaint, quoted};

/// A duration of whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// A duration with a direction, whole microseconds: `"-250ms"`, `"+2s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignedMicros(pub i64);

/// Units in text and their lengths, µs.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("µs", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];

const ALLOWED_UNITS: &str = "us, ms, s, m, h";

impl Micros {
    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Micros(millis * 1_000)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Micros(secs * 1_000_000)
    }

    /// As the standard library's duration.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0;
        for (unit, size_us) in [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)] {
            if us >= size_us && us.is_multiple_of(size_us) {
                return write!(formatter, "{}{unit}", us / size_us);
            }
        }
        if us == 0 {
            formatter.write_str("0s")
        } else if us > 1_000_000 {
            let fraction = format!("{:06}", us % 1_000_000);
            write!(formatter, "{}.{}s", us / 1_000_000, fraction.trim_end_matches('0'))
        } else if us.is_multiple_of(1_000) {
            write!(formatter, "{}ms", us / 1_000)
        } else {
            write!(formatter, "{us}us")
        }
    }
}

impl FromStr for Micros {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if text.starts_with(['-', '+']) {
            return Err(Complaint::new(
                format!("the time {} has a sign", quoted(text)),
                "write a duration from 0s, such as \"250ms\"",
            ));
        }
        let number = text.len()
            - text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.')).len();
        let (number, unit) = text.split_at(number);
        if number.is_empty() {
            return Err(Complaint::new(
                format!("{} is not a time", quoted(text)),
                "write a number and a unit, such as \"250ms\", \"1.5s\" or \"2m\"",
            ));
        }
        if unit.is_empty() {
            return Err(Complaint::new(
                format!("the time {} has no unit", quoted(text)),
                format!(
                    "write for example {}; units: {ALLOWED_UNITS}",
                    quoted(&format!("{number}ms"))
                ),
            ));
        }
        let Some((_, unit_us)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(Complaint::new(
                format!("the time {} has the unknown unit {}", quoted(text), quoted(unit)),
                format!("units: {ALLOWED_UNITS}, directly after the number"),
            ));
        };
        decimal_times(number, *unit_us).map(Micros).map_err(|fault| match fault {
            DecimalFault::Malformed => Complaint::new(
                format!("{} is not a number", quoted(number)),
                "write digits with at most one point, such as \"1.5s\"",
            ),
            DecimalFault::TooFine => Complaint::new(
                format!("the time {} is finer than a microsecond", quoted(text)),
                "round it to whole microseconds",
            ),
            DecimalFault::TooLarge => Complaint::new(
                format!("the time {} is more than can be counted", quoted(text)),
                "write a shorter time; storms last hours, not ages",
            ),
        })
    }
}

impl fmt::Display for SignedMicros {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => {}
            1.. => formatter.write_str("+")?,
            _ => formatter.write_str("-")?,
        }
        Micros(self.0.unsigned_abs()).fmt(formatter)
    }
}

impl FromStr for SignedMicros {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let (negative, magnitude) = unsigned(text);
        let Micros(us) = magnitude.parse()?;
        let us = i128::from(us) * if negative { -1 } else { 1 };
        i64::try_from(us).map(SignedMicros).map_err(|_| {
            Complaint::new(
                format!("the time {} is more than can be counted", quoted(text)),
                "write a shorter time",
            )
        })
    }
}

/// Whether `text` begins with a minus, and the text without its sign.
pub(super) fn unsigned(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Why a decimal could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecimalFault {
    /// Not digits with at most one point between them.
    Malformed,
    /// The product is no whole number.
    TooFine,
    /// The product does not fit.
    TooLarge,
}

/// The decimal `number` times `factor`, exactly.
pub(super) fn decimal_times(number: &str, factor: u64) -> Result<u64, DecimalFault> {
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(DecimalFault::Malformed),
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(DecimalFault::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| DecimalFault::TooLarge)?;
    let mut total = whole.checked_mul(factor).ok_or(DecimalFault::TooLarge)?;
    if !fraction.is_empty() {
        // Every factor of ours has at most 11 decimal places to give.
        let places = u32::try_from(fraction.len()).map_err(|_| DecimalFault::TooFine)?;
        let scale = 10u128.checked_pow(places).ok_or(DecimalFault::TooFine)?;
        let numerator: u128 = fraction.parse().map_err(|_| DecimalFault::TooFine)?;
        let product = numerator.checked_mul(u128::from(factor)).ok_or(DecimalFault::TooFine)?;
        if !product.is_multiple_of(scale) {
            return Err(DecimalFault::TooFine);
        }
        let part = u64::try_from(product / scale).map_err(|_| DecimalFault::TooLarge)?;
        total = total.checked_add(part).ok_or(DecimalFault::TooLarge)?;
    }
    Ok(total)
}

super::serde_as_text!(Micros, "a time with a unit, such as \"250ms\"");
super::serde_as_text!(SignedMicros, "a time with a sign and a unit, such as \"-250ms\"");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_their_canonical_forms() {
        for (text, us, canonical) in [
            ("0s", 0, "0s"),
            ("0us", 0, "0s"),
            ("300us", 300, "300us"),
            ("300µs", 300, "300us"),
            ("1.5ms", 1_500, "1500us"),
            ("250ms", 250_000, "250ms"),
            ("1000ms", 1_000_000, "1s"),
            ("1.50s", 1_500_000, "1.5s"),
            ("1.234567s", 1_234_567, "1.234567s"),
            ("90s", 90_000_000, "90s"),
            ("1.5m", 90_000_000, "90s"),
            ("120s", 120_000_000, "2m"),
            ("60m", 3_600_000_000, "1h"),
            ("0.000000000001h", 0, ""),
        ] {
            match text.parse::<Micros>() {
                Ok(Micros(read)) => {
                    assert_eq!(read, us, "{text}");
                    assert_eq!(Micros(read).to_string(), canonical, "{text}");
                }
                Err(_) => assert_eq!(canonical, "", "{text}"),
            }
        }
    }

    #[test]
    fn errors_say_the_mend() {
        let errors: Vec<String> = [
            "",
            "250",
            "-250ms",
            "1.s",
            ".5s",
            "1..2s",
            "5 ms",
            "5 sec",
            "ms",
            "0.5us",
            "99999999999999h",
            "184467440737095516150s",
            "1e3s",
        ]
        .iter()
        .map(|text| format!("{text:?}: {}", text.parse::<Micros>().unwrap_err()))
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(us: u64) {
            prop_assert_eq!(Micros(us).to_string().parse::<Micros>(), Ok(Micros(us)));
        }

        #[test]
        fn what_is_written_with_a_sign_is_read_back(us: i64) {
            prop_assert_eq!(SignedMicros(us).to_string().parse(), Ok(SignedMicros(us)));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|[0-9.]{0,60}(us|ms|s|m|h)") {
            let _ = text.parse::<Micros>();
            let _ = text.parse::<SignedMicros>();
        }
    }
}

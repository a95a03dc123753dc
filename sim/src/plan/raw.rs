//! A value as it stands in a file or on the command line, and what it can be read as.

use super::complaint::{Complaint, quoted};
use super::keys::milli_text;
use super::limits;
use super::time::{DecimalFault, Micros, decimal_times};

/// A value as it stands in a file or after `--set key=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// A string of a file.
    Text(&'a str),
    /// An integer of a file; `None` if it is beyond 64 bits.
    Integer(Option<i64>),
    /// A real of a file, as written.
    Real(&'a str),
    /// A boolean of a file.
    Flag(bool),
    /// Something else of a file, by the name of its type.
    Other(&'static str),
    /// What stands after `--set key=`: of whatever type is wanted.
    Bare(&'a str),
}

impl<'a> Raw<'a> {
    fn described(&self) -> String {
        match self {
            Raw::Text(text) | Raw::Bare(text) => format!("the text {}", quoted(text)),
            Raw::Integer(Some(number)) => format!("the integer {number}"),
            Raw::Integer(None) => "an integer beyond 64 bits".to_owned(),
            Raw::Real(text) => format!("the number {text}"),
            Raw::Flag(flag) => format!("the boolean {flag}"),
            Raw::Other(kind) => (*kind).to_owned(),
        }
    }

    fn expected(&self, what: &str, mend: impl Into<String>) -> Complaint {
        Complaint::new(format!("expected {what}, found {}", self.described()), mend)
    }

    /// As text.
    pub fn text(self) -> Result<&'a str, Complaint> {
        match self {
            Raw::Text(text) | Raw::Bare(text) => Ok(text),
            _ => Err(self.expected("text", "write it in quotation marks")),
        }
    }

    /// As anything that is written as text, such as a time; `example` is one.
    pub fn parsed<T>(self, noun: &str, example: &str) -> Result<T, Complaint>
    where
        T: std::str::FromStr<Err = Complaint>,
    {
        match self {
            Raw::Text(text) | Raw::Bare(text) => text.parse(),
            _ => Err(self.expected(noun, format!("write it as text, such as {}", quoted(example)))),
        }
    }

    /// As a duration.
    pub fn time(self) -> Result<Micros, Complaint> {
        self.parsed("a time with a unit", "250ms")
    }

    /// As a whole number up to `most`.
    pub fn count(self, most: u32) -> Result<u32, Complaint> {
        let Some(number) = self.whole() else {
            let mend = format!("write a number from 0 to {most}");
            return Err(self.expected("a whole number", mend));
        };
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number <= most).ok_or_else(|| self.beyond(&most))
    }

    /// The whole number that it is: `Some(None)` of one beyond 64 bits, `None` of what is none.
    fn whole(self) -> Option<Option<i64>> {
        match self {
            Raw::Integer(number) => Some(number),
            Raw::Bare(text) => {
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                let is_whole = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
                is_whole.then(|| text.parse().ok())
            }
            _ => None,
        }
    }

    /// Whether it is a whole number above `most`, or below 0.
    pub(super) fn is_beyond(self, most: u32) -> bool {
        self.whole().is_some_and(|number| {
            number.is_none_or(|number| !(0..=i64::from(most)).contains(&number))
        })
    }

    /// A number that is one, and that no plan can have: `most` is the most that one can.
    pub(super) fn beyond(self, most: &dyn std::fmt::Display) -> Complaint {
        let shown = match self {
            Raw::Integer(None) => "the integer".to_owned(),
            Raw::Integer(Some(number)) => number.to_string(),
            Raw::Real(text) | Raw::Bare(text) if text.len() <= 30 => text.to_owned(),
            _ => "the number".to_owned(),
        };
        Complaint::new(
            format!("{shown} is beyond the limits"),
            format!("write a number from 0 to {most}"),
        )
    }

    /// As true or false.
    pub fn flag(self) -> Result<bool, Complaint> {
        match self {
            Raw::Flag(flag) => Ok(flag),
            Raw::Bare("true") => Ok(true),
            Raw::Bare("false") => Ok(false),
            _ => {
                Err(self.expected("true or false", "write true or false, without quotation marks"))
            }
        }
    }

    /// As thousandths: a number with up to three decimals.
    pub(super) fn milli(self) -> Result<u32, Complaint> {
        let written = match self {
            Raw::Integer(Some(number)) => number.to_string(),
            Raw::Real(text) | Raw::Bare(text) => text.to_owned(),
            _ => String::new(),
        };
        let milli = decimal_times(&written, 1_000)
            .and_then(|milli| u32::try_from(milli).map_err(|_| DecimalFault::TooLarge));
        milli.map_err(|fault| match fault {
            DecimalFault::TooLarge => self.beyond(&milli_text(limits::LATENCY_SIGMA_MILLI)),
            DecimalFault::Malformed | DecimalFault::TooFine => self.expected(
                "a number with at most three decimals",
                "write it without quotation marks, such as 0.4",
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_exact() {
        for (raw, milli) in [(Raw::Real("0.4"), 400), (Raw::Integer(Some(1)), 1_000)] {
            assert_eq!(raw.milli(), Ok(milli));
        }
        assert_eq!(milli_text(400), "0.4");
        assert_eq!(milli_text(1_000), "1.0");
        for bad in [Raw::Real("0.0001"), Raw::Real("nan"), Raw::Real("-0.4"), Raw::Real("4e-1")] {
            assert!(bad.milli().is_err());
        }
    }

    /// A number beyond its limit is one all the same, and is not told as none.
    #[test]
    fn what_is_beyond_its_limit_is_told_so() {
        let long = "9".repeat(40);
        let told = [
            Raw::Bare("101").count(100),
            Raw::Integer(Some(70_000)).count(65_535),
            Raw::Integer(Some(-1)).count(100),
            Raw::Bare("-1").count(100),
            Raw::Integer(None).count(100),
            Raw::Bare(&long).count(100),
            Raw::Bare("two").count(100),
            Raw::Bare("-").count(100),
            Raw::Text("7").count(100),
            Raw::Real("99999999999999999999.5").milli(),
            Raw::Bare("5000000").milli(),
        ];
        let told = told.map(|read| {
            let complaint = read.unwrap_err();
            format!("{}; {}", complaint.what, complaint.mend)
        });
        insta::assert_snapshot!(told.join("\n"));
        assert_eq!([Raw::Bare("100").count(100), Raw::Bare("0").count(0)], [Ok(100), Ok(0)]);
    }
}

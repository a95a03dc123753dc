//! Seeds: 64 bits inside, hex outside.
//!
//! Text and not a number, because 64 bits survive neither JSON readers nor TOML's
//! signed integers.

use std::fmt;
use std::str::FromStr;

use super::complaint::{Complaint, quoted};

/// What decides a storm's draws. Written `0x5eed00000000002a`; decimal is read too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(pub u64);

impl fmt::Display for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#018x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, radix) = hex.map_or((text, 10), |hex| (hex, 16));
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err(Complaint::new(
                format!("{} is not a seed", quoted(text)),
                "write hex with 0x, such as \"0x2a\", or a decimal number",
            ));
        }
        u64::from_str_radix(digits, radix).map(Seed).map_err(|_| {
            Complaint::new(
                format!("the seed {} has more than 64 bits", quoted(text)),
                "write at most 16 hex digits",
            )
        })
    }
}

super::serde_as_text!(Seed, "a seed, such as \"0x2a\"");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hex_and_decimal_are_read_and_hex_is_written() {
        assert_eq!("0x2a".parse(), Ok(Seed(42)));
        assert_eq!("42".parse(), Ok(Seed(42)));
        assert_eq!(Seed(42).to_string(), "0x000000000000002a");
        for bad in
            ["", "0x", "2a", "-1", "+1", "0x1_0", "0x10000000000000000", "18446744073709551616"]
        {
            assert!(bad.parse::<Seed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn json_holds_text() {
        let json = serde_json::to_string(&Seed(7)).unwrap();
        assert_eq!(json, "\"0x0000000000000007\"");
        assert_eq!(serde_json::from_str::<Seed>(&json).unwrap(), Seed(7));
        assert!(serde_json::from_str::<Seed>("7").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits: u64) {
            prop_assert_eq!(Seed(bits).to_string().parse(), Ok(Seed(bits)));
            prop_assert_eq!(bits.to_string().parse(), Ok(Seed(bits)));
        }
    }
}

//! The 80-bit doubles of x86, in which Redis counts `INCRBYFLOAT`: read, added and printed
//! with the same digits.
//!
//! A number is a sign, 64 bits of mantissa and a power of two. Only numbers between 2^-63 and
//! 2^63 in size are exact here; what is larger or smaller counts as an ordinary double.

/// A number in extended precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extended(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `mantissa / 2^shift`; the topmost bit of the mantissa is set, but for zero.
    Exact {
        is_negative: bool,
        mantissa: u64,
        shift: u32,
    },
    Double(f64),
}

/// 17 decimals, as `%.17Lf` prints.
const DECIMALS: usize = 17;
const SCALE: u128 = 100_000_000_000_000_000;

/// The largest `shift` with which `mantissa × SCALE` is still printed exactly.
const SHIFT_MAX: u32 = 126;

/// Divides and rounds to the nearest, half to even.
fn divide(dividend: u128, divisor: u128) -> u128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    let is_up = match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient % 2 == 1,
    };
    quotient + u128::from(is_up)
}

/// `numerator / (denominator × 2^shift)`, rounded to 64 bits.
fn exact(is_negative: bool, numerator: u128, denominator: u128) -> Option<Kind> {
    if numerator == 0 {
        return Some(Kind::Exact { is_negative, mantissa: 0, shift: 0 });
    }
    // The power that puts the quotient between 2^63 and 2^64.
    let mut shift = 63 + denominator.ilog2() - numerator.ilog2().min(63 + denominator.ilog2());
    loop {
        let scaled = numerator.checked_shl(shift).filter(|scaled| scaled >> shift == numerator)?;
        let mantissa = divide(scaled, denominator);
        if mantissa < 1 << 63 {
            shift += 1;
        } else {
            return match u64::try_from(mantissa) {
                Ok(mantissa) => Some(Kind::Exact { is_negative, mantissa, shift }),
                Err(_) if shift > 0 => exact_at(is_negative, numerator, denominator, shift - 1),
                Err(_) => None,
            };
        }
        if shift > SHIFT_MAX {
            return None;
        }
    }
}

fn exact_at(is_negative: bool, numerator: u128, denominator: u128, shift: u32) -> Option<Kind> {
    let mantissa = u64::try_from(divide(numerator.checked_shl(shift)?, denominator)).ok()?;
    Some(Kind::Exact { is_negative, mantissa, shift })
}

impl Extended {
    /// Nothing.
    pub const ZERO: Extended = Extended(Kind::Exact { is_negative: false, mantissa: 0, shift: 0 });

    /// Reads a number as Redis does: the whole text, neither NaN nor out of range.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        let double = super::number::parse_double(text)?;
        Some(Extended(decimal(text).unwrap_or(Kind::Double(double))))
    }

    fn double(self) -> f64 {
        match self.0 {
            Kind::Double(double) => double,
            Kind::Exact { is_negative, mantissa, shift } => {
                let size = mantissa as f64 / 2f64.powi(shift as i32);
                if is_negative { -size } else { size }
            }
        }
    }

    /// Whether it is neither of the infinities.
    pub fn is_finite(self) -> bool {
        match self.0 {
            Kind::Double(double) => double.is_finite(),
            Kind::Exact { .. } => true,
        }
    }

    /// The sum; `None` if it is not a finite number.
    pub fn sum(self, other: Extended) -> Option<Extended> {
        if let (Kind::Exact { .. }, Kind::Exact { .. }) = (self.0, other.0)
            && let Some(sum) = exact_sum(self.0, other.0)
        {
            return Some(Extended(sum));
        }
        let sum = self.double() + other.double();
        sum.is_finite().then_some(Extended(Kind::Double(sum)))
    }

    /// With at most 17 decimals and no zeros at their end.
    pub fn text(self) -> String {
        let (is_negative, scaled) = match self.0 {
            Kind::Double(double) => {
                let text = format!("{double:.DECIMALS$}");
                return trimmed(&text).to_owned();
            }
            Kind::Exact { is_negative, mantissa, shift } => {
                (is_negative, divide(u128::from(mantissa) * SCALE, 1 << shift))
            }
        };
        let (whole, decimals) = (scaled / SCALE, scaled % SCALE);
        let sign = if is_negative && scaled > 0 { "-" } else { "" };
        let text = format!("{sign}{whole}.{decimals:0DECIMALS$}");
        trimmed(&text).to_owned()
    }
}

fn trimmed(text: &str) -> &str {
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0",
        trimmed => trimmed,
    }
}

/// The sum of two exact numbers, rounded once.
fn exact_sum(left: Kind, right: Kind) -> Option<Kind> {
    let (
        Kind::Exact { is_negative: left_sign, mantissa: left, shift: left_shift },
        Kind::Exact { is_negative: right_sign, mantissa: right, shift: right_shift },
    ) = (left, right)
    else {
        return None;
    };
    // What of the smaller one is too small to count is kept as one bit.
    let dropped = left_shift.abs_diff(right_shift).saturating_sub(62);
    let shift = left_shift.max(right_shift) - dropped;
    let aligned = |sign: bool, mantissa: u64, from: u32| {
        let size = if from > shift {
            let kept = mantissa.checked_shr(from - shift).unwrap_or(0);
            let lost = kept.checked_shl(from - shift).unwrap_or(0) != mantissa;
            i128::from(kept | u64::from(lost))
        } else {
            i128::from(mantissa) << (shift - from)
        };
        if sign { -size } else { size }
    };
    let sum = aligned(left_sign, left, left_shift) + aligned(right_sign, right, right_shift);
    let (is_negative, mut size) = (sum < 0, sum.unsigned_abs());
    if size == 0 {
        return Some(Kind::Exact { is_negative: false, mantissa: 0, shift: 0 });
    }
    let mut shift = shift;
    let excess = (size.ilog2() + 1).saturating_sub(64);
    if excess > 0 {
        size = divide(size, 1 << excess);
        shift = shift.checked_sub(excess)?;
        if size >> 64 != 0 {
            size >>= 1;
            shift = shift.checked_sub(1)?;
        }
    }
    let missing = 63 - size.ilog2();
    let mantissa = u64::try_from(size << missing).ok()?;
    let shift = shift + missing;
    (shift <= SHIFT_MAX).then_some(Kind::Exact { is_negative, mantissa, shift })
}

/// A decimal number of moderate size without an exponent.
fn decimal(text: &[u8]) -> Option<Kind> {
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > 19 || decimals.len() > DECIMALS {
        return None;
    }
    let all = format!("{whole}{decimals}");
    let numerator: u128 = if all.is_empty() { return None } else { all.parse().ok()? };
    exact(is_negative, numerator, 10u128.pow(decimals.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> String {
        let parse = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        parse(left).sum(parse(right)).unwrap().text()
    }

    #[test]
    fn sums_as_redis_prints_them() {
        // What `INCRBYFLOAT` of Redis 7.0.15 answers.
        for (left, right, expected) in [
            ("10.50", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("3", "1.1", "4.1"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "-1", "0"),
            ("-9223372036854775808", "0.5", "-9223372036854775807.5"),
            ("-1.5", "0.25", "-1.25"),
            ("0", "-0.00001", "-0.00001"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
        assert!(Extended::parse(b"nan").is_none() && Extended::parse(b"").is_none());
    }
}

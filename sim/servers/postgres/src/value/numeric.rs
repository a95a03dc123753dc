//! Decimal numbers of up to 38 digits: what sums of bigint and constants with a point need.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::error::{SqlError, SqlResult};

/// The type `numeric`, within 38 digits; beyond them it is refused.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Numeric {
    units: i128,
    /// Digits after the point.
    scale: u8,
}

const MAX_SCALE: u8 = 18;

fn beyond() -> SqlError {
    SqlError::new("0A000", "the simulated server does not have numeric beyond 38 digits")
}

impl Numeric {
    pub(crate) fn from_int(value: i64) -> Numeric {
        Numeric { units: i128::from(value), scale: 0 }
    }

    pub(crate) fn parse(text: &str) -> Option<SqlResult<Numeric>> {
        let text = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty())
            || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let mut scale = fraction.len() as i64 - i64::from(exponent);
        let mut digits = format!("{whole}{fraction}");
        if scale < 0 && scale > -40 {
            digits.extend(std::iter::repeat_n('0', -scale as usize));
            scale = 0;
        }
        let units: i128 = match digits.parse() {
            Ok(units) => units,
            Err(_) => return Some(Err(beyond())),
        };
        let Some(scale) = u8::try_from(scale).ok().filter(|scale| *scale <= MAX_SCALE) else {
            return Some(Err(beyond()));
        };
        Some(Ok(Numeric { units: if is_negative { -units } else { units }, scale }))
    }

    fn at_scale(self, scale: u8) -> SqlResult<i128> {
        let factor = 10i128.checked_pow(u32::from(scale - self.scale)).ok_or_else(beyond)?;
        self.units.checked_mul(factor).ok_or_else(beyond)
    }

    fn both(self, other: Numeric) -> SqlResult<(i128, i128, u8)> {
        let scale = self.scale.max(other.scale);
        Ok((self.at_scale(scale)?, other.at_scale(scale)?, scale))
    }

    pub(crate) fn plus(self, other: Numeric) -> SqlResult<Numeric> {
        let (left, right, scale) = self.both(other)?;
        Ok(Numeric { units: left.checked_add(right).ok_or_else(beyond)?, scale })
    }

    pub(crate) fn minus(self, other: Numeric) -> SqlResult<Numeric> {
        self.plus(other.negative())
    }

    pub(crate) fn negative(self) -> Numeric {
        Numeric { units: -self.units, scale: self.scale }
    }

    pub(crate) fn times(self, other: Numeric) -> SqlResult<Numeric> {
        let units = self.units.checked_mul(other.units).ok_or_else(beyond)?;
        let scale = self.scale + other.scale;
        if scale > MAX_SCALE {
            return Err(beyond());
        }
        Ok(Numeric { units, scale })
    }

    pub(crate) fn remainder(self, other: Numeric) -> SqlResult<Numeric> {
        let (left, right, scale) = self.both(other)?;
        if right == 0 {
            return Err(SqlError::new("22012", "division by zero"));
        }
        Ok(Numeric { units: left % right, scale })
    }

    pub(crate) fn to_float(self) -> f64 {
        self.to_text().parse().unwrap_or(f64::NAN)
    }

    pub(crate) fn from_float(value: f64) -> SqlResult<Numeric> {
        // PostgreSQL keeps 15 digits.
        let text = format!("{value:.14e}");
        let (mantissa, exponent) = text.split_once('e').ok_or_else(beyond)?;
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        Numeric::parse(&format!("{mantissa}e{exponent}")).ok_or_else(beyond)?
    }

    /// Rounded, halves away from zero.
    pub(crate) fn to_int(self) -> Option<i64> {
        let factor = 10i128.pow(u32::from(self.scale));
        let half = self.units.signum() * (factor / 2);
        i64::try_from(self.units.checked_add(half)? / factor).ok()
    }

    pub(crate) fn to_text(self) -> String {
        let sign = if self.units < 0 { "-" } else { "" };
        let digits = self.units.unsigned_abs().to_string();
        let scale = usize::from(self.scale);
        if scale == 0 {
            return format!("{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }

    /// Base 10,000 digits, the weight of the first, the sign, the scale: the wire's form.
    pub(crate) fn to_groups(self) -> (Vec<i16>, i16, bool, i16) {
        let scale = usize::from(self.scale);
        let padded = scale.div_ceil(4) * 4;
        let mut digits = self.units.unsigned_abs().to_string();
        digits.extend(std::iter::repeat_n('0', padded - scale));
        let width = digits.len().div_ceil(4) * 4;
        let digits = format!("{digits:0>width$}");
        let mut groups: Vec<i16> =
            (0..width / 4).map(|at| digits[at * 4..at * 4 + 4].parse().unwrap_or(0)).collect();
        let mut weight = (width / 4) as i16 - (padded / 4) as i16 - 1;
        while groups.first() == Some(&0) {
            groups.remove(0);
            weight -= 1;
        }
        while groups.last() == Some(&0) {
            groups.pop();
        }
        if groups.is_empty() {
            weight = 0;
        }
        (groups, weight, self.units < 0, i16::from(self.scale))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        match self.both(*other) {
            Ok((left, right, _)) => left.cmp(&right),
            Err(_) => self.to_float().total_cmp(&other.to_float()),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

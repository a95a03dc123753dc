//! Integers as Redis reads and writes them.

/// Reads a signed 64-bit integer as Redis' `string2ll` does: no spaces, no `+`, no
/// leading zeros, no `-0`, no overflow. Strict, so that text → number → text is
/// the identity.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits fit into 64 bits without a sign.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// What C sees of a text: all before the first NUL.
pub fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What stands behind the blanks that C's readers of numbers take.
fn behind_blanks(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t'..=b'\r');
    &text[text.iter().take_while(is_blank).count()..]
}

/// Reads an unsigned number as C's `strtoull` reads the whole of a C string: blanks and a sign
/// may stand before it, and a minus counts down from 2^64.
pub fn parse_c_unsigned(text: &[u8]) -> Option<u64> {
    let text = behind_blanks(c_string(text));
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for digit in digits {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number = number.checked_mul(10)?.checked_add(value)?;
    }
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// Appends an integer as decimal text.
pub fn append_integer(bytes: &mut Vec<u8>, integer: i64) {
    bytes.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
}

/// Reads a double as Redis does: the whole text as C's `strtod` takes it, without blanks
/// before it, neither NaN nor out of range.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    read_double(text).and_then(|(double, is_in_range)| is_in_range.then_some(double))
}

/// Reads a double as C's `strtod` reads the whole of a C string: blanks may stand before it, and
/// nothing at all is 0. What is out of range is infinite or 0, which the second value tells.
pub fn parse_c_double(text: &[u8]) -> Option<(f64, bool)> {
    let text = c_string(text);
    if text.is_empty() { Some((0.0, true)) } else { read_double(behind_blanks(text)) }
}

/// A double, and whether it is in range.
fn read_double(text: &[u8]) -> Option<(f64, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let first = digits.bytes().next()?;
    if let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return Some((sign * parse_hexadecimal(hexadecimal)?, true));
    }
    if digits.eq_ignore_ascii_case("inf") || digits.eq_ignore_ascii_case("infinity") {
        return Some((sign * f64::INFINITY, true));
    }
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    let double: f64 = digits.parse().ok()?;
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    // What is too large or too small is out of range.
    Some((sign * double, double.is_finite() && (double != 0.0 || is_zero)))
}

/// `1f.8p3`, without a prefix.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut double = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        double = double * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let double = double * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32));
    double.is_finite().then_some(double)
}

/// A double as C's `%.17g` prints it: what Redis sends for doubles.
pub fn format_double(double: f64) -> String {
    if double.is_nan() {
        return "nan".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    general(double, 17)
}

/// C's `%.{precision}g` of a finite double.
pub fn general(double: f64, precision: usize) -> String {
    let scientific = format!("{double:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(precision as i32 - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{double:.decimals$}")).to_owned()
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_strict() {
        for text in ["0", "7", "-7", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_integer(text.as_bytes()), text.parse().ok(), "{text}");
        }
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_integer(b"-9223372036854775809"), None);
        assert_eq!(parse_integer(b"99999999999999999999"), None);
    }

    #[test]
    fn unsigned_numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            (&b"0"[..], 0),
            (b"007", 7),
            (b"+7", 7),
            (b"\t\n 7", 7),
            (b"7\0x", 7),
            (b"-1", u64::MAX),
            (b"18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_c_unsigned(text), Some(number), "{}", text.escape_ascii());
        }
        for text in [&b""[..], b"\0", b"\x007", b"-", b"+ 7", b"7 ", b"x", b"18446744073709551616"]
        {
            assert_eq!(parse_c_unsigned(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(c_string(b"nx\0and more"), b"nx");
        for (text, read) in [
            (&b""[..], Some((0.0, true))),
            (b"\x001", Some((0.0, true))),
            (b" \x0b-1.5\0x", Some((-1.5, true))),
            (b"-1e999", Some((f64::NEG_INFINITY, false))),
            (b"1e-999", Some((0.0, false))),
            (b" ", None),
            (b"1 ", None),
            (b"nan", None),
        ] {
            assert_eq!(parse_c_double(text), read, "{}", text.escape_ascii());
        }
        assert_eq!(parse_double(b"1e999"), None);
    }

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, double) in [
            ("1", 1.0),
            ("+1.5", 1.5),
            ("-.5", -0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0e999", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(double), "{text}");
        }
        for text in ["", " 1", "1 ", "nan", "-", ".", "1e999", "1e-999", "x", "0x", "--1", "1.2.3"]
        {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles_are_as_c_prints_them() {
        for (double, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (3.1, "3.1000000000000001"),
            (1e20, "1e+20"),
            (1e16, "10000000000000000"),
            (1e-5, "1.0000000000000001e-05"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(double), text);
        }
        assert_eq!(general(3.99, 14), "3.99");
    }

    proptest! {
        #[test]
        fn every_integer_survives_its_text(integer: i64) {
            let mut bytes = Vec::new();
            append_integer(&mut bytes, integer);
            prop_assert_eq!(parse_integer(&bytes), Some(integer));
        }
    }
}

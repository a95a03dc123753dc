//! Values as text, both ways.

use super::calendar::{date_of, days_in, days_of};
use super::{Interval, Numeric, Type, Value};
use crate::error::{SqlError, SqlResult};

const DAY: i64 = 86_400_000_000;

/// As clients see it; NULL has no text.
pub(crate) fn write(value: &Value) -> String {
    match value {
        Value::Null | Value::Void => String::new(),
        Value::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float(*value),
        Value::Numeric(value) => value.to_text(),
        Value::Text(text) => text.to_string(),
        Value::Timestamp(us) => timestamp(*us),
        Value::Interval(interval) => interval.to_text(),
        Value::Array(elements) => array(elements),
    }
}

/// The shortest text that is this number, with an exponent where PostgreSQL has one.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..15).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn timestamp(us: i64) -> String {
    match us {
        i64::MAX => return "infinity".to_owned(),
        i64::MIN => return "-infinity".to_owned(),
        _ => {}
    }
    let (days, time) = (us.div_euclid(DAY), us.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let mut text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text.push_str("+00");
    text.push_str(era);
    text
}

fn array(elements: &[Value]) -> String {
    let mut text = String::from("{");
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let shown = write(element);
        let is_bare = !shown.is_empty()
            && !shown.eq_ignore_ascii_case("null")
            && !shown.contains(|letter: char| {
                letter.is_ascii_whitespace() || "{}\",\\".contains(letter)
            });
        match element {
            Value::Null => text.push_str("NULL"),
            _ if is_bare => text.push_str(&shown),
            _ => {
                text.push('"');
                text.push_str(&shown.replace('\\', "\\\\").replace('"', "\\\""));
                text.push('"');
            }
        }
    }
    text.push('}');
    text
}

fn invalid(data_type: Type, text: &str) -> SqlError {
    let name = data_type.name();
    SqlError::new("22P02", format!("invalid input syntax for type {name}: \"{text}\""))
}

/// The value of a type that a text is.
///
/// # Errors
/// 22P02, 22003, 22007, 22008 as PostgreSQL.
pub(crate) fn read(data_type: Type, text: &str) -> SqlResult<Value> {
    Ok(match data_type {
        Type::Text | Type::Varchar | Type::Unknown => Value::text(text),
        Type::Bool => Value::Bool(boolean(text).ok_or_else(|| invalid(data_type, text))?),
        Type::Int2 | Type::Int4 | Type::Int8 => Value::Int(integer(data_type, text)?),
        Type::Oid | Type::Xid => {
            let number = text.trim().parse::<u32>().map_err(|_| invalid(data_type, text))?;
            Value::Int(i64::from(number))
        }
        Type::Float8 => Value::Float(read_float(text)?),
        Type::Numeric => match Numeric::parse(text) {
            Some(number) => Value::Numeric(number?),
            None => return Err(invalid(data_type, text)),
        },
        Type::Timestamptz => Value::Timestamp(read_timestamp(text)?),
        Type::Interval => {
            let wrong = format!("invalid input syntax for type interval: \"{text}\"");
            let interval = Interval::parse(text);
            Value::Interval(interval.ok_or_else(|| SqlError::new("22007", wrong))?)
        }
        Type::Int4Array | Type::Int8Array | Type::TextArray => read_array(data_type, text)?,
        Type::Void => Value::Void,
    })
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.trim_matches(|letter: char| letter.is_ascii_whitespace()).to_ascii_lowercase();
    if text.is_empty() {
        return None;
    }
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn integer(data_type: Type, text: &str) -> SqlResult<i64> {
    let digits = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
    let bare = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if bare.is_empty() || !bare.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(data_type, text));
    }
    let number: Option<i64> = digits.parse().ok();
    number.filter(|number| in_range(data_type, *number)).ok_or_else(|| {
        let name = data_type.name();
        SqlError::new("22003", format!("value \"{text}\" is out of range for type {name}"))
    })
}

pub(crate) fn in_range(data_type: Type, number: i64) -> bool {
    match data_type {
        Type::Int2 => i16::try_from(number).is_ok(),
        Type::Int4 => i32::try_from(number).is_ok(),
        Type::Oid | Type::Xid => u32::try_from(number).is_ok(),
        _ => true,
    }
}

fn read_float(text: &str) -> SqlResult<f64> {
    let trimmed = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
    let number: f64 = trimmed.parse().map_err(|_| invalid(Type::Float8, text))?;
    let is_named = trimmed.contains(|letter: char| "iInN".contains(letter));
    if number.is_infinite() && !is_named {
        let out = format!("\"{text}\" is out of range for type double precision");
        return Err(SqlError::new("22003", out));
    }
    Ok(number)
}

fn read_timestamp(text: &str) -> SqlResult<i64> {
    let wrong = || {
        let told = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
        SqlError::new("22007", told)
    };
    let trimmed = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
    match trimmed.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        "epoch" => return Ok(-super::EPOCH_US),
        "now" | "today" | "tomorrow" | "yesterday" => {
            let told = "the simulated server does not have times named relative to now";
            return Err(SqlError::new("0A000", told));
        }
        _ => {}
    }
    let (date, rest) = match trimmed.find([' ', 'T', 't']) {
        Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
        None => (trimmed, ""),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return Err(wrong()) };
    let number = |text: &str| text.parse::<u32>().map(i64::from).map_err(|_| wrong());
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let out = || {
        let told = format!("date/time field value out of range: \"{text}\"");
        SqlError::new("22008", told)
    };
    if !(1..=294_276).contains(&year) || !(1..=12).contains(&month) {
        return Err(out());
    }
    if day < 1 || day > days_in(year, month) {
        return Err(out());
    }
    let time_us = read_time(rest).ok_or_else(wrong)?.ok_or_else(out)?;
    Ok(days_of(year, month, day) * DAY + time_us)
}

/// A time of day with its zone, as microseconds of UTC. Inner `None`: a field is too large.
fn read_time(text: &str) -> Option<Option<i64>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Some(0));
    }
    let zone_at = text.find(['+', '-', 'Z', 'z', 'U', 'u', 'G', 'g']).unwrap_or(text.len());
    let (time, zone) = (text[..zone_at].trim(), &text[zone_at..]);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let parts: Vec<i64> = time
        .split(':')
        .map(|part| part.parse::<u32>().map(i64::from))
        .collect::<Result<_, _>>()
        .ok()?;
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut fraction_us: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    if fraction.as_bytes().get(6).is_some_and(|digit| *digit >= b'5') {
        fraction_us += 1;
    }
    let shift = match zone.to_ascii_lowercase().as_str() {
        "" | "z" | "utc" | "gmt" => 0,
        zone => zone_seconds(zone)?,
    };
    let is_in = hour < 24 && minute < 60 && second <= 60 || (hour, minute, second) == (24, 0, 0);
    if !is_in {
        return Some(None);
    }
    Some(Some((hour * 3600 + minute * 60 + second - shift) * 1_000_000 + fraction_us))
}

fn zone_seconds(zone: &str) -> Option<i64> {
    let is_west = zone.starts_with('-');
    let digits = &zone[1..];
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at(2),
        None => (digits, "0"),
    };
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    if hours > 15 || minutes > 59 {
        return None;
    }
    let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
    Some(if is_west { -seconds } else { seconds })
}

fn read_array(data_type: Type, text: &str) -> SqlResult<Value> {
    let malformed = || SqlError::new("22P02", format!("malformed array literal: \"{text}\""));
    let element_type = data_type.element().ok_or_else(malformed)?;
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(malformed)?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Ok(Value::Array(elements.into()));
    }
    let mut letters = inner.chars().peekable();
    loop {
        while letters.peek().is_some_and(char::is_ascii_whitespace) {
            letters.next();
        }
        let (mut element, is_quoted) = (String::new(), letters.peek() == Some(&'"'));
        if is_quoted {
            letters.next();
            loop {
                match letters.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => element.push(letters.next().ok_or_else(malformed)?),
                    letter => element.push(letter),
                }
            }
            while letters.peek().is_some_and(char::is_ascii_whitespace) {
                letters.next();
            }
        } else {
            while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                if "{}\"\\".contains(letter) {
                    return Err(malformed());
                }
                element.push(letter);
            }
            element.truncate(element.trim_end().len());
            if element.is_empty() {
                return Err(malformed());
            }
        }
        elements.push(match !is_quoted && element.eq_ignore_ascii_case("null") {
            true => Value::Null,
            false => read(element_type, &element)?,
        });
        match letters.next() {
            None => return Ok(Value::Array(elements.into())),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use crate::value::Type;

    #[test]
    fn texts_are_read_and_written() {
        let cases = [
            (Type::Bool, "tr", "t"),
            (Type::Int4, " 12 ", "12"),
            (Type::Float8, "1e15", "1e+15"),
            (Type::Float8, "0.0001", "0.0001"),
            (Type::Numeric, "-12.50", "-12.50"),
            (Type::Timestamptz, "2026-11-30 04:05:06.5+02", "2026-11-30 02:05:06.5+00"),
            (Type::Timestamptz, "1999-12-31T23:59:59Z", "1999-12-31 23:59:59+00"),
            (Type::TextArray, "{a,\"b c\",NULL,\"x\\\"y\"}", "{a,\"b c\",NULL,\"x\\\"y\"}"),
            (Type::Int4Array, "{}", "{}"),
        ];
        for (data_type, text, expected) in cases {
            assert_eq!(write(&read(data_type, text).unwrap()), expected);
        }
        let wrong = [
            (Type::Int4, "2147483648", "22003"),
            (Type::Int4, "x", "22P02"),
            (Type::Bool, "o", "22P02"),
            (Type::Timestamptz, "2026-02-30", "22008"),
            (Type::Timestamptz, "tea", "22007"),
            (Type::Int4Array, "{1,", "22P02"),
        ];
        for (data_type, text, code) in wrong {
            assert_eq!(read(data_type, text).unwrap_err().code(), code, "{text}");
        }
    }
}

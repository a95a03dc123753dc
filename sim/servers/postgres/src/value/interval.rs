//! Spans of time: months, days and microseconds, each by itself.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::calendar::{date_of, days_in, days_of};
use crate::error::{SqlError, SqlResult};

/// The type `interval`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) us: i64,
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

impl Interval {
    /// For comparisons a month is 30 days, a day 24 hours.
    fn span(self) -> i128 {
        i128::from(self.us)
            + (i128::from(self.days) + 30 * i128::from(self.months)) * i128::from(DAY)
    }

    pub(crate) fn plus(self, other: Interval) -> SqlResult<Interval> {
        let out = || SqlError::new("22008", "interval out of range");
        Ok(Interval {
            months: self.months.checked_add(other.months).ok_or_else(out)?,
            days: self.days.checked_add(other.days).ok_or_else(out)?,
            us: self.us.checked_add(other.us).ok_or_else(out)?,
        })
    }

    pub(crate) fn negative(self) -> SqlResult<Interval> {
        let out = || SqlError::new("22008", "interval out of range");
        Ok(Interval {
            months: self.months.checked_neg().ok_or_else(out)?,
            days: self.days.checked_neg().ok_or_else(out)?,
            us: self.us.checked_neg().ok_or_else(out)?,
        })
    }

    /// What is not a whole month or day goes to the smaller unit.
    pub(crate) fn times(self, factor: f64) -> SqlResult<Interval> {
        let out = || SqlError::new("22008", "interval out of range");
        let months = f64::from(self.months) * factor;
        let days = f64::from(self.days) * factor;
        let month_days = (months - months.trunc()) * 30.0;
        let whole = days.trunc() + month_days.trunc();
        let rest = (days - days.trunc()) + (month_days - month_days.trunc());
        let us = (self.us as f64 * factor + rest * DAY as f64).round_ties_even();
        let is_in = |value: f64, limit: f64| value.abs() < limit;
        if !is_in(months, 2_147_483_647.0) || !is_in(whole, 2_147_483_647.0) || !is_in(us, 9.2e18) {
            return Err(out());
        }
        Ok(Interval { months: months.trunc() as i32, days: whole as i32, us: us as i64 })
    }

    /// A moment so much later.
    pub(crate) fn after(self, moment: i64) -> SqlResult<i64> {
        let out = || SqlError::new("22008", "timestamp out of range");
        if moment == i64::MAX || moment == i64::MIN {
            return Ok(moment);
        }
        let mut moment = moment;
        if self.months != 0 {
            let (days, time) = (moment.div_euclid(DAY), moment.rem_euclid(DAY));
            let (year, month, day) = date_of(days);
            let months = year * 12 + month - 1 + i64::from(self.months);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            let days = days_of(year, month, day.min(days_in(year, month)));
            moment = days.checked_mul(DAY).and_then(|us| us.checked_add(time)).ok_or_else(out)?;
        }
        let days = i64::from(self.days).checked_mul(DAY).ok_or_else(out)?;
        moment.checked_add(days).and_then(|us| us.checked_add(self.us)).ok_or_else(out)
    }

    pub(crate) fn seconds(self) -> f64 {
        // As `extract(epoch from …)` counts: a year is 365.25 days.
        let years = f64::from(self.months / 12) * 365.25 * 86_400.0;
        let months = f64::from(self.months % 12) * 30.0 * 86_400.0;
        years + months + f64::from(self.days) * 86_400.0 + self.us as f64 / SECOND as f64
    }

    /// PostgreSQL's own style.
    pub(crate) fn to_text(self) -> String {
        let mut parts = Vec::new();
        let mut is_before_negative = false;
        let mut part = |count: i32, unit: &str| {
            if count != 0 {
                let plural = if count == 1 { "" } else { "s" };
                let sign = if is_before_negative && count > 0 { "+" } else { "" };
                parts.push(format!("{sign}{count} {unit}{plural}"));
                is_before_negative = count < 0;
            }
        };
        part(self.months / 12, "year");
        part(self.months % 12, "mon");
        part(self.days, "day");
        if self.us != 0 || parts.is_empty() {
            let sign = match self.us {
                us if us < 0 => "-",
                _ if is_before_negative => "+",
                _ => "",
            };
            let us = self.us.unsigned_abs();
            let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let mut time = format!("{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60);
            if fraction != 0 {
                time.push_str(format!(".{fraction:06}").trim_end_matches('0'));
            }
            parts.push(time);
        }
        parts.join(" ")
    }

    pub(crate) fn parse(text: &str) -> Option<Interval> {
        let mut interval = Interval::default();
        let words = words(text)?;
        let mut index = 0;
        if words.is_empty() {
            return None;
        }
        while index < words.len() {
            let word = &words[index];
            if word.contains(':') {
                interval.us = interval.us.checked_add(clock(word)?)?;
                index += 1;
                continue;
            }
            if index + 1 == words.len() && word == "ago" && index > 0 {
                return interval.negative().ok();
            }
            let (whole, fraction_us) = decimal(word)?;
            // A bare number is seconds.
            let unit = words.get(index + 1).map_or("second", String::as_str);
            index += 2;
            let unit = unit.strip_suffix('s').filter(|unit| unit.len() > 1).unwrap_or(unit);
            interval.add(unit, whole, fraction_us)?;
        }
        Some(interval)
    }

    fn add(&mut self, unit: &str, whole: i64, fraction_us: i64) -> Option<()> {
        let us = match unit {
            "us" | "usec" | "microsecond" => return self.add_us(whole, 1),
            "m" if fraction_us == 0 => return self.add_us(whole, 60 * SECOND),
            "ms" | "msec" | "millisecond" | "m_s" => (1_000, 0, 0),
            "s" | "sec" | "second" => (SECOND, 0, 0),
            "min" | "minute" | "m" => (60 * SECOND, 0, 0),
            "h" | "hr" | "hour" => (3_600 * SECOND, 0, 0),
            "d" | "day" => (0, 1, 0),
            "w" | "week" => (0, 7, 0),
            "mon" | "month" => (0, 0, 1),
            "y" | "yr" | "year" => (0, 0, 12),
            _ => return None,
        };
        let (us, days, months) = us;
        if us > 0 {
            self.add_us(whole, us)?;
            let part = i128::from(fraction_us) * i128::from(us) / i128::from(SECOND);
            self.us = self.us.checked_add(i64::try_from(part).ok()?)?;
            return Some(());
        }
        if fraction_us != 0 && days == 0 {
            // Fractions of months and years: rounded as PostgreSQL does only by its own rules.
            return None;
        }
        let fraction = i128::from(fraction_us) * i128::from(DAY) * i128::from(days.max(1));
        self.us = self.us.checked_add(i64::try_from(fraction / i128::from(SECOND)).ok()?)?;
        let whole = i32::try_from(whole).ok()?;
        self.days = self.days.checked_add(whole.checked_mul(days)?)?;
        self.months = self.months.checked_add(whole.checked_mul(months)?)?;
        Some(())
    }

    fn add_us(&mut self, count: i64, unit: i64) -> Option<()> {
        self.us = self.us.checked_add(count.checked_mul(unit)?)?;
        Some(())
    }
}

/// Numbers apart from letters, in lower case.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut was_letter = None;
    for letter in text.to_ascii_lowercase().chars() {
        if letter.is_ascii_whitespace() {
            was_letter = None;
            continue;
        }
        let is_letter = letter.is_ascii_alphabetic();
        if !is_letter && !letter.is_ascii_digit() && !".:+-".contains(letter) {
            return None;
        }
        match words.last_mut() {
            Some(word) if was_letter == Some(is_letter) => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        was_letter = Some(is_letter);
    }
    Some(words)
}

/// A number as its whole part and its millionths, both signed.
fn decimal(word: &str) -> Option<(i64, i64)> {
    let (is_negative, digits) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty())
        || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(if is_negative { (-whole, -fraction) } else { (whole, fraction) })
}

/// `[-]HH:MM[:SS[.ffffff]]` as microseconds.
fn clock(word: &str) -> Option<i64> {
    let (is_negative, word) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let parts: Vec<&str> = word.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, *seconds),
        _ => return None,
    };
    let hours: i64 = hours.parse().ok()?;
    let minutes: i64 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
    let (seconds, fraction) = decimal(seconds).filter(|(seconds, _)| (0..60).contains(seconds))?;
    let whole = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    let us = whole.checked_mul(SECOND)?.checked_add(fraction)?;
    Some(if is_negative { -us } else { us })
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Interval {}

#[cfg(test)]
mod tests {
    use super::Interval;

    #[test]
    fn spans_are_read_and_written() {
        let cases = [
            ("5 seconds", "00:00:05"),
            ("1.5s", "00:00:01.5"),
            ("100 ms", "00:00:00.1"),
            ("1 day 02:03:04", "1 day 02:03:04"),
            ("14 months", "1 year 2 mons"),
            ("-1 day +2 hours", "-1 days +02:00:00"),
            ("3 hours ago", "-03:00:00"),
            ("30", "00:00:30"),
        ];
        for (text, expected) in cases {
            let interval = Interval::parse(text).unwrap();
            assert_eq!(interval.to_text(), expected, "{text}");
        }
        for text in ["", "x", "5 parsecs", "1:99", "5 5 5x"] {
            assert!(Interval::parse(text).is_none(), "{text}");
        }
    }
}

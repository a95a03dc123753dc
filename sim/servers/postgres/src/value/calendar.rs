//! Days and dates of the Gregorian calendar, reckoned without a table.

/// The days from 2000-01-01 to a date.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 730_425
}

/// The year, month and day that is so many days after 2000-01-01.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(super) fn days_in(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_of(next.0, next.1, 1) - days_of(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::{date_of, days_of};

    #[test]
    fn dates_and_days_are_inverse() {
        assert_eq!(days_of(2000, 1, 1), 0);
        assert_eq!(days_of(1970, 1, 1), -10_957);
        assert_eq!(days_of(2026, 11, 30), 9_830);
        for days in (-800_000..800_000).step_by(37) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
        }
    }
}

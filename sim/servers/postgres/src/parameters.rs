//! Configuration parameters: what a session may set, and what its clients are told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::{SqlError, SqlResult};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Bool,
    /// Milliseconds.
    Time,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Only these are right here; others PostgreSQL has, and this server has not.
    Only(&'static [&'static str]),
    /// It cannot be set.
    Fixed,
}

/// Name, kind, default, and whether clients are told of it at once.
type Known = (&'static str, Kind, &'static str, bool);

const LEVELS: Kind = Kind::Choice(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
]);
const ISOLATIONS: Kind =
    Kind::Choice(&["serializable", "repeatable read", "read committed", "read uncommitted"]);

/// In the order of their names without regard to case: that of the startup.
#[rustfmt::skip]
const KNOWN: &[Known] = &[
    ("application_name", Kind::Text, "", true),
    ("bytea_output", Kind::Only(&["hex"]), "hex", false),
    ("client_connection_check_interval", Kind::Time, "0", false),
    ("client_encoding", Kind::Only(&["UTF8", "UTF-8", "unicode"]), "UTF8", true),
    ("client_min_messages", LEVELS, "notice", false),
    ("DateStyle", Kind::Only(&["ISO, MDY", "ISO", "ISO, YMD", "ISO, DMY"]), "ISO, MDY", true),
    ("deadlock_timeout", Kind::Time, "1s", false),
    ("default_transaction_isolation", ISOLATIONS, "read committed", false),
    ("default_transaction_read_only", Kind::Bool, "off", true),
    ("extra_float_digits", Kind::Only(&["1", "2", "3"]), "1", false),
    ("idle_in_transaction_session_timeout", Kind::Time, "0", false),
    ("idle_session_timeout", Kind::Time, "0", false),
    ("in_hot_standby", Kind::Fixed, "off", true),
    ("integer_datetimes", Kind::Fixed, "on", true),
    ("IntervalStyle", Kind::Only(&["postgres"]), "postgres", true),
    ("is_superuser", Kind::Fixed, "on", true),
    ("jit", Kind::Bool, "on", false),
    ("lc_collate", Kind::Fixed, "C", false),
    ("lock_timeout", Kind::Time, "0", false),
    ("max_connections", Kind::Fixed, "100", false),
    ("search_path", Kind::Text, "\"$user\", public", false),
    ("server_encoding", Kind::Fixed, "UTF8", true),
    ("server_version", Kind::Fixed, super::VERSION, true),
    ("server_version_num", Kind::Fixed, super::VERSION_NUMBER, false),
    ("session_authorization", Kind::Fixed, "postgres", true),
    ("standard_conforming_strings", Kind::Only(&["on", "true", "1"]), "on", true),
    ("statement_timeout", Kind::Time, "0", false),
    ("synchronous_commit", Kind::Choice(&["on", "off", "local", "remote_write", "remote_apply"]), "on", false),
    ("tcp_keepalives_count", Kind::Text, "9", false),
    ("tcp_keepalives_idle", Kind::Text, "7200", false),
    ("tcp_keepalives_interval", Kind::Text, "75", false),
    ("tcp_user_timeout", Kind::Text, "0", false),
    ("TimeZone", Kind::Only(&["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Universal", "Z"]), "Etc/UTC", true),
    ("transaction_isolation", ISOLATIONS, "read committed", false),
    ("transaction_read_only", Kind::Bool, "off", false),
];

/// The values that a session has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    values: BTreeMap<String, String>,
    /// What RESET goes back to: given at the startup.
    given: BTreeMap<String, String>,
    /// Names whose new values the client is to be told.
    changed: Vec<&'static str>,
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(name))
}

fn invalid(name: &str, value: &str) -> SqlError {
    let told = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new("22023", told)
}

fn missing(name: &str) -> SqlError {
    SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}

/// A time with its unit, milliseconds if none, as PostgreSQL reads it.
fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let number: f64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1_000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let number = (number * factor).round_ties_even();
    (number <= 2_147_483_647.0).then_some(number as u64)
}

/// As SHOW tells it: in the largest unit that divides it.
fn with_unit(milliseconds: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    for (factor, unit) in units {
        if milliseconds > 0 && milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    if milliseconds == 0 { "0".to_owned() } else { format!("{milliseconds}ms") }
}

fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// The value as it is kept, if it is one.
fn canonical(known: &Known, value: &str) -> SqlResult<String> {
    let (name, kind, ..) = known;
    match kind {
        Kind::Fixed => {
            let told = format!("parameter \"{name}\" cannot be changed");
            Err(SqlError::new("55P02", told))
        }
        Kind::Text => Ok(value.to_owned()),
        Kind::Bool => {
            let value = boolean(value).ok_or_else(|| {
                SqlError::new("22023", format!("parameter \"{name}\" requires a Boolean value"))
            })?;
            Ok(if value { "on" } else { "off" }.to_owned())
        }
        Kind::Time => {
            let found = milliseconds(value).ok_or_else(|| match value.trim().starts_with('-') {
                true => {
                    let told = format!("{value} ms is outside the valid range for parameter \"{name}\" (0 .. 2147483647)");
                    SqlError::new("22023", told)
                }
                false => invalid(name, value),
            })?;
            Ok(with_unit(found))
        }
        Kind::Choice(choices) => {
            let value = boolean_alias(choices, value);
            let found = choices.iter().find(|choice| choice.eq_ignore_ascii_case(&value));
            let found = found.ok_or_else(|| {
                let list = choices.join(", ");
                invalid(name, &value).hint(format!("Available values: {list}."))
            })?;
            Ok((*found).to_owned())
        }
        Kind::Only(choices) => {
            let found = choices.iter().find(|choice| choice.eq_ignore_ascii_case(value));
            let found = found.ok_or_else(|| {
                let told = format!("the simulated server does not have {name} {value}");
                SqlError::new("0A000", told)
            })?;
            Ok(match (*name, *found) {
                ("DateStyle", "ISO") => "ISO, MDY".to_owned(),
                ("client_encoding", _) => "UTF8".to_owned(),
                ("standard_conforming_strings", _) => "on".to_owned(),
                _ => (*found).to_owned(),
            })
        }
    }
}

/// `synchronous_commit = true` is `on`.
fn boolean_alias(choices: &[&str], value: &str) -> String {
    match boolean(value) {
        Some(is_on) if choices.contains(&"on") => if is_on { "on" } else { "off" }.to_owned(),
        _ => value.to_owned(),
    }
}

impl Parameters {
    /// A value; of one with a prefix whatever was set.
    pub(crate) fn get(&self, name: &str) -> SqlResult<String> {
        match known(name) {
            Some((name, _, default, _)) => {
                Ok(self.values.get(*name).map_or(*default, String::as_str).to_owned())
            }
            None if name.contains('.') => {
                self.values.get(name).cloned().ok_or_else(|| missing(name))
            }
            None => Err(missing(name)),
        }
    }

    fn value(&self, name: &'static str) -> &str {
        let default = known(name).map_or("", |known| known.2);
        self.values.get(name).map_or(default, String::as_str)
    }

    pub(crate) fn time(&self, name: &'static str) -> Option<Duration> {
        let found = milliseconds(self.value(name)).unwrap_or(0);
        (found > 0).then(|| Duration::from_millis(found))
    }

    pub(crate) fn is_on(&self, name: &'static str) -> bool {
        self.value(name) == "on"
    }

    pub(crate) fn number(&self, name: &'static str) -> u64 {
        self.value(name).parse().unwrap_or(0)
    }

    pub(crate) fn is(&self, name: &'static str, value: &str) -> bool {
        self.value(name) == value
    }

    /// Sets a value, or puts the default back, and gives what was there.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> SqlResult<(String, Option<String>)> {
        let Some(entry) = known(name) else {
            if !name.contains('.') {
                return Err(missing(name));
            }
            let before = self.values.get(name).cloned();
            match value {
                Some(value) => self.values.insert(name.to_owned(), value.to_owned()),
                None => self.values.insert(name.to_owned(), String::new()),
            };
            return Ok((name.to_owned(), before));
        };
        let value = match value {
            Some(value) => Some(canonical(entry, value)?),
            None => self.given.get(entry.0).cloned(),
        };
        let before = self.values.get(entry.0).cloned();
        self.restore(entry.0, value);
        Ok((entry.0.to_owned(), before))
    }

    /// What the server itself knows better than any default.
    pub(crate) fn fix(&mut self, name: &'static str, value: &str) {
        if self.value(name) != value {
            self.values.insert(name.to_owned(), value.to_owned());
            if known(name).is_some_and(|known| known.3) {
                self.changed.push(name);
            }
        }
    }

    /// A value of the startup message: RESET goes back to it.
    pub(crate) fn give(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let (name, _) = self.set(name, Some(value))?;
        if let Some(value) = self.values.get(&name) {
            self.given.insert(name, value.clone());
        }
        Ok(())
    }

    /// Puts back what was there before.
    pub(crate) fn restore(&mut self, name: &str, value: Option<String>) {
        let before = self.values.get(name).cloned();
        if before == value {
            return;
        }
        match value {
            Some(value) => self.values.insert(name.to_owned(), value),
            None => self.values.remove(name),
        };
        if let Some((name, _, _, true)) = known(name) {
            self.changed.push(name);
        }
    }

    /// The names that have a value of this session's.
    pub(crate) fn names(&self) -> Vec<String> {
        self.values.keys().cloned().collect()
    }

    pub(crate) fn is_known(name: &str) -> bool {
        known(name).is_some() || name.contains('.')
    }

    /// What the client is told at its startup.
    pub(crate) fn reported(&mut self) -> Vec<(&'static str, String)> {
        self.changed.clear();
        let told = KNOWN.iter().filter(|known| known.3);
        told.map(|known| (known.0, self.value(known.0).to_owned())).collect()
    }

    /// What has changed since, of that.
    pub(crate) fn take_changed(&mut self) -> Vec<(&'static str, String)> {
        let mut names = std::mem::take(&mut self.changed);
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| (name, self.value(name).to_owned())).collect()
    }

    /// All, for `pg_settings` and SHOW ALL.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        KNOWN.iter().map(|known| (known.0.to_owned(), self.value(known.0).to_owned())).collect()
    }
}

//! Numbers and switches that `CONFIG SET` changes while the server runs, and what they are
//! then. What is set holds until the server starts again.

use std::time::Duration;

use super::super::codec::number::parse_integer;
use super::super::settings::Settings;
use super::super::state::State;
use super::{Failure, word};

/// What may be set.
#[derive(Clone, Copy)]
enum Form {
    Number { least: i64 },
    Switch,
}

/// By name; with the name that it had before Redis 7, if another.
const TUNED: &[(&str, &str, Form)] = &[
    (BUSY, "lua-time-limit", Form::Number { least: 0 }),
    (LAG, "min-slaves-max-lag", Form::Number { least: 0 }),
    (REPLICAS, "min-slaves-to-write", Form::Number { least: 0 }),
    (PING, "repl-ping-slave-period", Form::Number { least: 1 }),
    (SILENCE, "", Form::Number { least: 1 }),
    (STALE, "slave-serve-stale-data", Form::Switch),
];

const BUSY: &str = "busy-reply-threshold";
const LAG: &str = "min-replicas-max-lag";
const REPLICAS: &str = "min-replicas-to-write";
const PING: &str = "repl-ping-replica-period";
const SILENCE: &str = "repl-timeout";
const STALE: &str = "replica-serve-stale-data";

/// Redis' `busy-reply-threshold`.
const BUSY_AFTER_MS: u64 = 5_000;

fn refusal(given: &str, why: &str) -> Failure {
    format!("ERR CONFIG SET failed (possibly related to argument '{given}') - {why}").into()
}

/// The name and the value of a change, if it is one of these settings.
///
/// # Errors
/// When the value is none.
pub(super) fn parse(given: &[u8], value: &[u8]) -> Result<Option<(&'static str, String)>, Failure> {
    let is = |name: &str| !name.is_empty() && given.eq_ignore_ascii_case(name.as_bytes());
    let Some((name, _, form)) = TUNED.iter().find(|(name, old, _)| is(name) || is(old)) else {
        return Ok(None);
    };
    let given = String::from_utf8_lossy(given);
    let value = match form {
        Form::Number { least } => {
            let number = parse_integer(value)
                .ok_or_else(|| refusal(&given, "argument couldn't be parsed into an integer"))?;
            let most = i64::from(i32::MAX);
            if !(*least..=most).contains(&number) {
                let why = format!("argument must be between {least} and {most} inclusive");
                return Err(refusal(&given, &why));
            }
            number.to_string()
        }
        Form::Switch => match word(value).as_slice() {
            known @ (b"yes" | b"no") => String::from_utf8_lossy(known).into_owned(),
            _ => return Err(refusal(&given, "argument must be 'yes' or 'no'")),
        },
    };
    Ok(Some((*name, value)))
}

/// All of them under both names, as they are.
pub(super) fn all(state: &State, settings: &Settings) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (name, old, _) in TUNED {
        let value = match *name {
            BUSY => state.busy_after().as_millis().to_string(),
            LAG => state.replicas_to_write(settings).1.as_secs().to_string(),
            REPLICAS => state.replicas_to_write(settings).0.to_string(),
            PING => state.ping_period(settings).as_secs().to_string(),
            SILENCE => state.replication_timeout(settings).as_secs().to_string(),
            _ => if state.serves_stale() { "yes" } else { "no" }.to_owned(),
        };
        all.push((*name, value.clone()));
        if !old.is_empty() {
            all.push((*old, value));
        }
    }
    all
}

impl State {
    fn tuned(&self, name: &str) -> Option<u64> {
        self.parameters.get(name)?.parse().ok()
    }

    /// How many good replicas a write takes, and how recently they must have been heard of.
    pub(in super::super) fn replicas_to_write(&self, settings: &Settings) -> (usize, Duration) {
        let count = self.tuned(REPLICAS).and_then(|count| usize::try_from(count).ok());
        let lag = self.tuned(LAG).map(Duration::from_secs);
        let count = count.unwrap_or(settings.min_replicas_to_write);
        let lag = lag.unwrap_or(settings.min_replicas_max_lag);
        // Without a lag the rule is off, as in Redis.
        (if lag.is_zero() { 0 } else { count }, lag)
    }

    /// How often a master pings its replicas.
    pub(in super::super) fn ping_period(&self, settings: &Settings) -> Duration {
        self.tuned(PING).map_or(settings.ping_period, Duration::from_secs)
    }

    /// After how much silence a link is given up.
    pub(in super::super) fn replication_timeout(&self, settings: &Settings) -> Duration {
        self.tuned(SILENCE).map_or(settings.replication_timeout, Duration::from_secs)
    }

    /// Whether a replica answers while it has no master.
    pub(super) fn serves_stale(&self) -> bool {
        self.parameters.get(STALE).is_none_or(|word| word == "yes")
    }

    /// How long a script runs before others are told so.
    pub(in super::super) fn busy_after(&self) -> Duration {
        Duration::from_millis(self.tuned(BUSY).unwrap_or(BUSY_AFTER_MS))
    }
}

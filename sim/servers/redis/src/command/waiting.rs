//! What commands that wait for keys have in common: how long, and for what.

use std::time::Duration;

use super::super::blocking::{Blocked, Wanted, block};
use super::super::codec::number::{parse_double, parse_integer};
use super::super::codec::{Arguments, OwnedArguments};
use super::super::state::Next;
use super::{Call, Failure};

/// Longer than this is for ever.
const LONGEST_MS: f64 = 1e14;

/// How long a client wants to wait; `None`: for ever.
pub(super) type Timeout = Option<Duration>;

/// A timeout in seconds, with a fraction.
pub(super) fn seconds(argument: &[u8]) -> Result<Timeout, Failure> {
    let seconds = parse_double(argument).ok_or("ERR timeout is not a float or out of range")?;
    let milliseconds = (seconds * 1_000.0).ceil();
    // What is too large for an integer is negative in C.
    if !(0.0..9_223_372_036_854_775_808.0).contains(&milliseconds) {
        return Err("ERR timeout is negative".into());
    }
    Ok((milliseconds > 0.0 && milliseconds < LONGEST_MS)
        .then(|| Duration::from_millis(milliseconds as u64)))
}

/// A timeout in milliseconds.
pub(super) fn milliseconds(argument: &[u8]) -> Result<Timeout, Failure> {
    let milliseconds =
        parse_integer(argument).ok_or("ERR timeout is not an integer or out of range")?;
    let milliseconds = u64::try_from(milliseconds).map_err(|_| "ERR timeout is negative")?;
    Ok((milliseconds > 0 && (milliseconds as f64) < LONGEST_MS)
        .then(|| Duration::from_millis(milliseconds)))
}

impl Call<'_> {
    /// Whether a command that may wait is to look at this key now.
    pub(super) fn looks_at(&self, key: &[u8]) -> bool {
        self.ready.is_none_or(|ready| ready == key)
    }

    /// Lets the client wait for one of these keys. Whoever calls this may block.
    pub(super) fn wait_for(&mut self, keys: Arguments<'_>, wanted: Wanted, timeout: Timeout) {
        let command = self.arguments.to_owned();
        self.wait_as(command, keys, wanted, timeout);
    }

    /// As [`wait_for`](Self::wait_for), with the command that is to run again.
    pub(super) fn wait_as(
        &mut self,
        command: OwnedArguments,
        keys: Arguments<'_>,
        wanted: Wanted,
        timeout: Timeout,
    ) {
        self.client.next = Some(Next::Block { timeout });
        if self.ready.is_some() {
            // It waits already, and goes on doing so.
            return;
        }
        let database = self.client.database;
        let blocked = Blocked::Keys {
            command,
            keys: keys.iter().map(|key| (database, key.into())).collect(),
            wanted,
        };
        block(&mut self.state.waiting, self.client, blocked);
    }
}

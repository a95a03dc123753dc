//! A history on disk: NDJSON, plain or gzip, for this and for other programs.
//!
//! The first line is the [`Header`], every other line an event. Field names are
//! snake_case with their unit last (`at_us`), values of enumerations kebab-case; times
//! are whole microseconds, and equal histories are equal bytes. `docs/history.md` tells
//! of every event and `docs/history.schema.json` is the schema.
//!
//! Order of things: [`lines`] cuts a stream into lines and bounds it, [`row`] is one
//! line and the event it stands for, [`mod@read`] and [`mod@write`] do whole files, [`error`]
//! is what bad input gives. Nothing that a file holds panics, and what is kept of it is
//! bounded ([`lines::MOST_LINE_BYTES`], [`lines::MOST_BYTES`], [`read::MOST_EVENTS`]).

pub mod error;
pub mod lines;
pub mod read;
mod row;
#[cfg(test)]
mod tests;
pub mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::FileError;
pub use read::{read, read_from};
pub use write::{save, write};

use super::SCHEMA;

/// What the header's `format` says.
pub const FORMAT: &str = "lockstorm-history";

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The schema's version, [`SCHEMA`].
    pub schema: u32,
    /// The version of lockstorm that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockstorm: Option<String>,
    /// How many events there are, where the writer knew it: a file that has fewer was
    /// cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// When the run ended, µs; else with its last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_us: Option<u64>,
    /// How far each host's clock may be from true time, µs, either way.
    #[serde(default, skip_serializing_if = "ClockUncertainty::is_none")]
    pub clock_uncertainty_us: ClockUncertainty,
    /// What is known of the lock and the resource; the checkers read it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub setting: Value,
    /// Which run of ours it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Origin>,
}

/// The run of ours that a history comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The scenario.
    pub scenario: String,
    /// The lock under test.
    pub lock: String,
    /// The seed, hex.
    pub seed: String,
    /// The engine.
    pub engine: String,
    /// The trace hash, 64 bits, hex.
    pub trace: String,
    /// Why the run came to no end, if it did not: its history is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// The whole plan as TOML.
    pub plan: String,
}

impl Default for Header {
    fn default() -> Self {
        Header {
            format: FORMAT.to_owned(),
            schema: SCHEMA,
            lockstorm: None,
            events: None,
            ended_us: None,
            clock_uncertainty_us: ClockUncertainty::default(),
            setting: Value::Null,
            run: None,
        }
    }
}

/// How far the clock behind an event may be from true time, by the event's node.
///
/// In JSON a number for all, or an object of nodes, in which `*` is everybody else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Uncertainty", into = "Uncertainty")]
pub struct ClockUncertainty {
    /// Of nodes that are not named, µs.
    pub others_us: u64,
    /// By node, µs.
    pub nodes_us: BTreeMap<String, u64>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected whole µs for all hosts, or an object of hosts")]
enum Uncertainty {
    All(u64),
    Each(BTreeMap<String, u64>),
}

const EVERYBODY_ELSE: &str = "*";

impl From<Uncertainty> for ClockUncertainty {
    fn from(uncertainty: Uncertainty) -> Self {
        match uncertainty {
            Uncertainty::All(others_us) => ClockUncertainty { others_us, ..Self::default() },
            Uncertainty::Each(mut nodes_us) => {
                let others_us = nodes_us.remove(EVERYBODY_ELSE).unwrap_or(0);
                ClockUncertainty { others_us, nodes_us }
            }
        }
    }
}

impl From<ClockUncertainty> for Uncertainty {
    fn from(clocks: ClockUncertainty) -> Self {
        if clocks.nodes_us.is_empty() {
            return Uncertainty::All(clocks.others_us);
        }
        let mut nodes_us = clocks.nodes_us;
        if clocks.others_us > 0 {
            nodes_us.insert(EVERYBODY_ELSE.to_owned(), clocks.others_us);
        }
        Uncertainty::Each(nodes_us)
    }
}

impl ClockUncertainty {
    /// Whether every time is exact, as in a simulation.
    pub fn is_none(&self) -> bool {
        self.others_us == 0 && self.nodes_us.values().all(|us| *us == 0)
    }

    /// Of this node, µs.
    pub fn of(&self, node: &str) -> u64 {
        self.nodes_us.get(node).copied().unwrap_or(self.others_us)
    }
}

/// A history with what its file says beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The first line.
    pub header: Header,
    /// The events, numbered anew from 0.
    pub history: super::History,
    /// The line of each event; empty where event `n` is on line `n + 2`.
    pub lines: Vec<u64>,
}

impl Recorded {
    /// The line of the file on which an event stands.
    pub fn line_of(&self, event: super::EventId) -> u64 {
        let position = usize::try_from(event.0).unwrap_or(usize::MAX);
        // The header is line 1, the event 0 on line 2.
        self.lines.get(position).copied().unwrap_or(event.0.saturating_add(2))
    }
}

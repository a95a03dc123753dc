//! What happened in a run, as typed events in one global order.
//!
//! Everything the checkers judge and the reports tell is read from here; nothing
//! else leaves a run. Times are integer microseconds of true simulated time (no
//! node's clock), ties are broken by the event's id.
//!
//! Order of things: [`event`] says what can happen and [`facts`] how, [`recorder`]
//! writes it down and hashes it ([`names`] are shared), [`History`] is the result, [`mod@file`] keeps it on disk
//! for other programs and reads what they wrote, and [`edn`] reads what Jepsen wrote.

pub mod edn;
pub mod event;
pub mod facts;
pub mod file;
pub mod names;
pub mod recorder;

use serde::{Deserialize, Serialize};

pub use event::{Attempt, Event, EventId, Name, What};
pub use facts::{
    AcquireOutcome, BeliefEnd, FaultFamily, NO_END, OrderAnswer, RecordLoss, Renewal,
    StockOperation,
};
pub use recorder::Recorder;

/// Version of the event schema. Readers refuse what they do not know.
pub const SCHEMA: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct History {
    /// In order of occurrence; `events[i].id == i`.
    pub events: Vec<Event>,
    /// When the run ended, µs.
    pub ended_us: u64,
    /// How far the clocks behind its times may be from true time: not at all in a
    /// simulation.
    #[serde(default, skip_serializing_if = "file::ClockUncertainty::is_none")]
    pub clock_uncertainty: file::ClockUncertainty,
}

impl History {
    /// The events with their times, ids and causes.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.events.iter()
    }

    /// The event of this id.
    pub fn get(&self, id: EventId) -> Option<&Event> {
        self.events.get(usize::try_from(id.0).ok()?)
    }
}

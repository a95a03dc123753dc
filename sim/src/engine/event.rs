//! The event engine: one queue of events in microseconds, a network of messages,
//! one tokio runtime with paused time. It screens thousands of plans; what it finds
//! is confirmed by the reference engine.
//!
//! Order of things: [`queue`] orders what is to come, [`network`] decides what
//! becomes of a segment, [`socket`] is a connection in a program's hands, [`timer`]
//! its timers, [`core`] holds them together, [`control`] strikes, [`driver`] turns
//! the crank from tokio's park hook.
//!
//! It is not a byte-level TCP: segments are what a program wrote at once, there are
//! no acknowledgements on the wire and no congestion. docs/engines.md says what
//! that leaves out.

mod control;
mod core;
mod driver;
mod network;
mod queue;
mod socket;
mod timer;

use std::sync::Arc;

use super::{Ending, Engine, Stage};
use crate::plan::Plan;

/// The event engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventEngine;

impl Engine for EventEngine {
    fn name(&self) -> &'static str {
        "event"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"))
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        let core = core::Core::new(&stage);
        driver::drive(&Arc::clone(&core), stage);
        core.ending()
    }
}

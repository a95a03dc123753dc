//! The event engine with another engine's idea of the network, to tell whether a failure
//! hangs on it: where it goes away here under all the same draws, that engine cannot show it.

use super::network::Wire;
use super::{Manner, run};
use crate::engine::{Ending, Engine, Stage};
use crate::plan::Plan;

/// What of madsim is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImitatingEventEngine {
    /// A message of a connection takes a millisecond at least, and as much after the one before
    /// it.
    pub messages: bool,
    /// A cut is asked when a message leaves. What it kept is tried again after a millisecond,
    /// and then at twice the time, up to ten seconds.
    pub cuts: bool,
}

impl ImitatingEventEngine {
    fn wire(self) -> Wire {
        let wire = Wire::default();
        let wire = if self.messages { Wire { apart_us: 1_000, ..wire } } else { wire };
        match self.cuts {
            true => Wire { rto_us: (1_000, 10_000_000), catches: false, ..wire },
            false => wire,
        }
    }
}

impl Engine for ImitatingEventEngine {
    fn name(&self) -> &'static str {
        "event-as-madsim"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", with the network of madsim")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner { wire: self.wire(), ..Manner::default() })
    }
}

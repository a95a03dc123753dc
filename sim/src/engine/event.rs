//! The event engine: one queue of events in microseconds, a network of messages,
//! one tokio runtime with paused time. It screens thousands of plans; what it finds
//! is confirmed by the reference engine.
//!
//! Order of things: [`queue`] orders what is to come, [`network`] decides what
//! becomes of a segment, [`socket`] is a connection in a program's hands, [`timer`]
//! its timers, [`core`] holds them together, [`control`] strikes, [`driver`] turns
//! the crank from tokio's park hook and asks [`readiness`], [`attribution`] knows the
//! tasks of third-party code, [`strangers`] counts them where tokio does not tell.
//! [`real_time`] turns it at the pace of the real clock, [`imitation`] is it with another engine's network.
//!
//! It is not a byte-level TCP: segments are what a program wrote at once, there are
//! no acknowledgements on the wire and no congestion. docs/engines.md says what
//! that leaves out.

#[cfg(tokio_unstable)]
mod attribution;
mod control;
mod core;
mod driver;
mod imitation;
mod network;
mod queue;
mod readiness;
mod real_time;
mod socket;
mod strangers;
mod timer;

pub use imitation::ImitatingEventEngine;

use std::sync::Arc;

use network::Wire;

use super::{Ending, Engine, Stage};
use crate::plan::Plan;

/// The event engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventEngine;

/// The event engine with turmoil's idea of a heal: what a cut held arrives with the
/// heal, where a kernel would wait for its retransmission timer. It tells whether a
/// failure hangs on that wait, which turmoil has no means for.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptEventEngine;

/// The event engine without a seed for tokio and without senses for third-party code:
/// what a program gets that links no interposer. It shows that the determinism check
/// finds what it is there for.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnseededEventEngine;

/// The event engine as a build without `--cfg tokio_unstable` has it: tokio chooses as it
/// likes, and tasks that were spawned past their host belong to nobody. In such a build
/// the ordinary engine is the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainEventEngine;

/// The event engine that runs the tasks which are ready at one instant in a drawn order, of
/// each node by itself. The ordinary one runs them as they were woken, so what hangs on two
/// tasks that are swapped never happens there.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShuffledEventEngine;

/// How an event engine differs from the ordinary one.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// What a cut held arrives with the heal.
    prompt: bool,
    wire: Wire,
    /// tokio chooses as it likes, third-party code senses the real clock and entropy.
    unseeded: bool,
    /// Nothing is asked of tokio that it has with `--cfg tokio_unstable` only.
    plain: bool,
    /// Tasks that are ready at one instant run in a drawn order.
    shuffled: bool,
}

impl Default for Manner {
    fn default() -> Self {
        let plain = cfg!(not(tokio_unstable));
        Manner { prompt: false, wire: Wire::default(), unseeded: false, plain, shuffled: false }
    }
}

/// The event engine with turmoil's idea of a heal, and with messages that take whole
/// milliseconds, as turmoil's do. It tells whether a failure hangs on messages that are
/// faster than turmoil's tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoarseEventEngine;

impl Engine for CoarseEventEngine {
    fn name(&self) -> &'static str {
        "event-coarse"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", prompt after a heal, in milliseconds")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        let wire = Wire { tick_us: 1_000, ..Wire::default() };
        run(stage, Manner { prompt: true, wire, ..Manner::default() })
    }
}

impl Engine for ShuffledEventEngine {
    fn name(&self) -> &'static str {
        "event-shuffled"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", in a drawn order of tasks")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner { shuffled: true, ..Manner::default() })
    }
}

impl Engine for UnseededEventEngine {
    fn name(&self) -> &'static str {
        "event-unseeded"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", unseeded")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn gives_senses(&self) -> bool {
        false
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner { unseeded: true, ..Manner::default() })
    }
}

impl Engine for PlainEventEngine {
    fn name(&self) -> &'static str {
        "event-plain"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", without tokio_unstable")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner { plain: true, ..Manner::default() })
    }
}

impl Engine for PromptEventEngine {
    fn name(&self) -> &'static str {
        "event-prompt"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", prompt after a heal")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner { prompt: true, ..Manner::default() })
    }
}

fn run(stage: Stage, manner: Manner) -> Ending {
    if manner.shuffled {
        stage.world.draw_order();
    }
    let core = core::Core::new(&stage, &manner);
    driver::drive(&Arc::clone(&core), stage, &manner);
    core.ending()
}

/// The event engine at the pace of real time, with real sockets beside its own: nodes of a
/// plan for programs outside. Its runs are not the same twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServingEngine;

impl Engine for ServingEngine {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn title(&self) -> &'static str {
        concat!("event ", env!("CARGO_PKG_VERSION"), ", in real time")
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn gives_senses(&self) -> bool {
        false
    }

    fn run(&self, stage: Stage) -> Ending {
        let manner = Manner { unseeded: true, plain: false, ..Manner::default() };
        let core = core::Core::new(&stage, &manner);
        real_time::drive(&core, stage);
        core.ending()
    }
}

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

    fn tells_messages(&self) -> bool {
        true
    }

    fn run(&self, stage: Stage) -> Ending {
        run(stage, Manner::default())
    }
}

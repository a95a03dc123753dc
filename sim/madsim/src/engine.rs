//! The engine, on madsim 0.2.
//!
//! Every node of the stage is a node of madsim, with its address there. madsim supplies the
//! scheduler (of the tasks that are ready, a drawn one runs next, and each turn takes 50 to
//! 100 ns), the time, the death of machines, and the way of messages: their latency, their
//! order within a connection, links that are cut in one direction, and the tries after a cut
//! until the link is open again. Pauses, clocks, incarnations and draws are the
//! [`World`](lockstorm_sim::engine::world::World)'s, as on every engine.
//!
//! What madsim's own `TcpStream` leaves out of TCP (half-closes, resets, backpressure,
//! backlogs, the silence of a dead machine) is a kernel's work, and here done by ours, over
//! the channels on which that `TcpStream` stands itself ([`madsim::net::Endpoint`]).
//! docs/engines.md says what of Linux is still missing.
//!
//! Order of things: [`core`] is what all parts share; [`links`] keeps cuts and slow links,
//! [`connection`] what two kernels know of a connection, [`transport`] is the way between
//! them, [`kernel`] receives; [`connect`] and [`socket`] are for programs, [`library`] is
//! what their libraries have of tokio, [`substrate`] the engine as its nodes see it,
//! [`control`] strikes, [`driver`] runs all of it.

mod connect;
mod connection;
mod control;
mod core;
mod driver;
mod kernel;
mod library;
mod links;
mod socket;
mod substrate;
mod transport;

pub use driver::carry;

use std::sync::Arc;

use lockstorm_sim::engine::{Ending, Engine, Stage};
use lockstorm_sim::plan::Plan;

/// The engine `madsim`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Madsim {
    /// Draws another order of tasks and other latencies for the same plan: 0 is the plan's
    /// own, every other number a run that differs in nothing else.
    pub reseed: u64,
}

impl Engine for Madsim {
    fn name(&self) -> &'static str {
        "madsim"
    }

    fn title(&self) -> &'static str {
        "madsim 0.2"
    }

    fn cannot_express(&self, _plan: &Plan) -> Option<String> {
        None
    }

    fn answers_libraries(&self) -> bool {
        true
    }

    fn reseeded(&self, reseed: u64) -> Option<Arc<dyn Engine>> {
        Some(Arc::new(Madsim { reseed }))
    }

    fn run(&self, stage: Stage) -> Ending {
        driver::drive(*self, stage)
    }
}

//! A crew: programs on the application nodes that are not the clients of one lock, such as
//! those of a whole sale. Servers, faults, clocks and the end of a run are the storm's as ever.
//!
//! In the place of the stock's node is one for whoever uses the applications, [`USERS_NODE`].

use std::fmt;
use std::sync::Arc;

use super::conductor::{Patience, Stop};
use super::observe::ConductorCell;
use super::postgres::Cluster;
use crate::engine::Factory;
use crate::history::{Name, Recorder};
use crate::plan::{Plan, STOCK_NODE};

/// The node of those who use the applications.
pub const USERS_NODE: &str = "buyers-1";

/// Programs of a crew.
pub trait Crew: Send + Sync + fmt::Debug {
    /// The program of an application node, or of [`USERS_NODE`].
    fn program(&self, seat: &Seat, name: &Name) -> Factory;

    /// Tells the durable truth once everything is quiet.
    fn tell_books(&self, recorder: &Recorder, database: &Cluster);

    /// How long the run goes on after its faults have ended.
    fn patience(&self) -> Patience;
}

/// What a crew's programs know of their storm.
#[derive(Clone)]
pub struct Seat {
    /// Where they say what they do.
    pub recorder: Recorder,
    /// When to stop.
    pub stop: Arc<Stop>,
    /// Who may be told that there is nothing more to wait for.
    pub conductor: ConductorCell,
}

impl Seat {
    /// There is nothing more to wait for: the run ends once everybody is idle. Nothing before
    /// all faults have ended.
    pub fn is_done(&self) {
        if let Some(conductor) = self.conductor.get().and_then(std::sync::Weak::upgrade) {
            conductor.is_done();
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// The nodes of `plan`, with a crew or without.
pub(super) fn nodes(plan: &Plan, has_crew: bool) -> Vec<String> {
    let mut nodes = plan.topology.nodes();
    for node in nodes.iter_mut().filter(|node| has_crew && *node == STOCK_NODE) {
        USERS_NODE.clone_into(node);
    }
    nodes
}

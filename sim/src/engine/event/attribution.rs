//! Tasks that were spawned past their host, by third-party code that calls
//! `tokio::spawn` itself: whose they are, and whether they ran when they should not.
//!
//! tokio's hooks tell of every task's birth, turns and end. A task that is born while a
//! node's program runs, and not through its host, is that node's. Nothing can hold it: a
//! pause of its node would let it run on, and a client might learn of its disconnection
//! while it "sleeps". So the run is declared not expressible as soon as such a task runs
//! while its node stands still. After a crash such tasks live on without a network.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::Id;

use crate::engine::senses::{self, Program};
use crate::engine::world::World;

/// The foreign tasks of a run.
pub(super) struct Attribution {
    world: Arc<World>,
    tasks: Mutex<BTreeMap<Id, (Program, &'static Location<'static>)>>,
}

impl Attribution {
    pub(super) fn new(world: Arc<World>) -> Attribution {
        Attribution { world, tasks: Mutex::default() }
    }

    /// A task was spawned on this thread.
    pub(super) fn born(&self, id: Id, at: &'static Location<'static>) {
        // A host spawns its tasks as nobody: they know themselves whose they are.
        if let Some(program) = senses::program() {
            self.lock().insert(id, (program, at));
        }
    }

    /// A task is about to be polled.
    pub(super) fn begins(&self, id: Id) {
        let foreign = self.lock().get(&id).copied();
        let Some((program, at)) = foreign else { return };
        senses::set_program(Some(program));
        let (node, _) = program;
        if self.world.is_paused(node) {
            let name = self.world.name(node);
            self.world.declare_not_expressible(format!(
                "a pause of {name}, where a task spawned past its host at {at} runs on"
            ));
        }
    }

    /// A task was polled.
    pub(super) fn ends(&self) {
        senses::set_program(None);
    }

    /// A task is over.
    pub(super) fn died(&self, id: Id) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, (Program, &'static Location<'static>)>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

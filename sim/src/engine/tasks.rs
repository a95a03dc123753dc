//! Where the tasks of nodes run: on tokio's current runtime, or where an engine says.

use std::fmt;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::scoped::Scoped;
use super::senses::Program;

/// A scheduler of an engine's own.
pub trait Spawner: Send + Sync {
    /// Runs a task of a program; `None` if the run is over.
    fn spawn(&self, program: Program, task: Scoped) -> Option<Running>;
}

/// A task that can be ended from outside.
pub trait Abort: Send + Sync {
    /// Has it dropped before its next turn.
    fn abort(&self);

    /// Whether it has ended.
    fn is_finished(&self) -> bool;
}

/// A task of a node that was spawned.
#[derive(Clone)]
pub enum Running {
    /// On a runtime of tokio.
    Tokio(AbortHandle),
    /// In a scheduler of an engine's own.
    Elsewhere(Arc<dyn Abort>),
}

impl Running {
    /// Has it dropped before its next turn.
    pub fn abort(&self) {
        match self {
            Running::Tokio(task) => task.abort(),
            Running::Elsewhere(task) => task.abort(),
        }
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        match self {
            Running::Tokio(task) => task.is_finished(),
            Running::Elsewhere(task) => task.is_finished(),
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finished = self.is_finished();
        formatter.debug_struct("Running").field("finished", &finished).finish_non_exhaustive()
    }
}

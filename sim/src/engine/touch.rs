//! Touches: the first signs that faults do something, from whoever notices them.

use std::sync::Arc;

use super::world::NodeId;

/// The first sign that a fault did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// A message could not cross a cut.
    Cut {
        /// Sender.
        from: NodeId,
        /// Receiver.
        to: NodeId,
    },
    /// A message took a slowed link.
    Slowed {
        /// Sender.
        from: NodeId,
        /// Receiver.
        to: NodeId,
    },
    /// A connection was reset.
    Reset {
        /// One end.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// A task of a paused node was due and did not run.
    Frozen {
        /// The node.
        node: NodeId,
        /// The task's group.
        group: &'static str,
    },
    /// A program read a clock that is not true, or waited by it.
    Clock {
        /// The node.
        node: NodeId,
        /// Whether it was the wall clock that was read.
        wall: bool,
    },
}

/// Hears of touches.
pub type TouchListener = Arc<dyn Fn(Touch) + Send + Sync>;

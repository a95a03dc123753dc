//! What a client does inside, where that is not to sell a unit.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Guard;

use super::{Failure, Node};
use crate::history::{EventId, Name, Recorder, StockOperation, What};

/// The node at which a test's own effects are: the resource that its lock guards.
pub const RESOURCE: &str = "resource";

type Run = Arc<dyn Fn(Inside) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// What is done inside.
#[derive(Clone)]
pub struct Section(Run);

impl Section {
    /// `run` is done inside, by each client each time.
    pub fn new<F, R>(run: R) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
        R: Fn(Inside) -> F + Send + Sync + 'static,
    {
        Section(Arc::new(move |inside| Box::pin(run(inside))))
    }

    pub(crate) fn run(&self, inside: Inside) -> BoxFuture<'static, Result<(), Failure>> {
        (self.0)(inside)
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Section")
    }
}

/// A client that was let in.
#[derive(Clone, Debug)]
pub struct Inside {
    node: Node,
    guard: Arc<Guard>,
    recorder: Recorder,
    granted: EventId,
}

impl Inside {
    pub(crate) fn new(node: Node, guard: Arc<Guard>, recorder: Recorder, granted: EventId) -> Self {
        Inside { node, guard, recorder, granted }
    }

    /// The client's node: its clocks, timers and connections.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The grant that it was let in by: its owner, its token, what is left of it.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Says that the client did `what` to the resource that the lock guards, here and now.
    /// Reads count: of two clients whose effects are in turns, two were inside at once
    /// (`effect-interleaved`). It is the client's word, at the client's time: of a resource across
    /// a network it is not what the resource saw, and no fence sees it.
    pub fn effect(&self, what: impl Into<Name>) {
        let effect = What::Effect {
            owner: self.guard.owner().as_str().into(),
            token: self.guard.token().map(|token| token.0),
            operation: StockOperation::Act { name: what.into() },
            accepted: true,
            refusal: None,
        };
        self.recorder.record_caused(&RESOURCE.into(), Some(self.granted), effect);
    }

    /// Whether the client may still act, as far as it can know.
    ///
    /// # Errors
    /// When the lease is over by its own clock, or the lock has told of its loss.
    pub fn check(&self) -> Result<(), Failure> {
        Ok(self.guard.check()?)
    }
}

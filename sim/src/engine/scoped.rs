//! A task of one incarnation of one node, in whoever's runtime it runs.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use lockstorm::host::BoxFuture;

use super::senses;
use super::world::{NodeId, Panic, Touch, World, panic_message};

/// May a task run?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Run,
    Frozen,
    Dead,
    /// Another one that is ready first.
    Later,
    /// The run is stuck and about to be ended.
    NoTurn,
}

/// A task of one incarnation of one node.
pub struct Scoped {
    world: Arc<World>,
    node: NodeId,
    incarnation: u32,
    group: &'static str,
    future: Option<BoxFuture<'static, ()>>,
    living: Option<Arc<AtomicUsize>>,
}

impl Scoped {
    /// Runs `future` as part of this incarnation of a node.
    pub(super) fn new(
        world: Arc<World>,
        (node, incarnation): (NodeId, u32),
        group: &'static str,
        future: BoxFuture<'static, ()>,
    ) -> Scoped {
        Scoped { world, node, incarnation, group, future: Some(future), living: None }
    }
}

impl Scoped {
    /// Counts it in `living` until it is dropped.
    pub(super) fn counted(mut self, living: &Arc<AtomicUsize>) -> Scoped {
        living.fetch_add(1, Ordering::Relaxed);
        self.living = Some(living.clone());
        self
    }
}

impl Future for Scoped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let id = (self.node, self.incarnation);
        match self.world.admit(id, self.group, context.waker()) {
            Admission::Dead => {
                self.end();
                Poll::Ready(())
            }
            Admission::NoTurn => Poll::Pending,
            Admission::Later => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Admission::Frozen => {
                self.world.touch(Touch::Frozen { node: self.node, group: self.group });
                Poll::Pending
            }
            Admission::Run => {
                let poll = self.run(context);
                self.world.turn_is_over();
                poll
            }
        }
    }
}

impl Scoped {
    fn run(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let program = (self.node, self.incarnation);
        let Some(future) = self.future.as_mut() else { return Poll::Ready(()) };
        let poll = || senses::of_program(program, || future.as_mut().poll(context));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(poll) => poll,
            Err(payload) => {
                let message = panic_message(&*payload);
                self.world.panicked(Panic { node: self.node, group: self.group, message });
                self.end();
                Poll::Ready(())
            }
        }
    }

    /// Drops the future as a part of its program: what its destructors ask of their host,
    /// they ask of a dead one.
    fn end(&mut self) {
        if let Some(future) = self.future.take() {
            senses::of_program((self.node, self.incarnation), || drop(future));
        }
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        self.end();
        if let Some(living) = &self.living {
            living.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Scoped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Scoped")
            .field("node", &self.node)
            .field("incarnation", &self.incarnation)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

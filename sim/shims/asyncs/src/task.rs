//! Tasks: spawn, join, cancel.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockstorm_ground::Node;

// What is defined here comes before what comes with the star.
pub use spawns_core::*;

/// The group of tasks that have no name.
const GROUP: &str = "asyncs";

/// Spawns a task of the machine on which the calling code runs.
///
/// # Panics
/// Outside of a run, when there is nobody who would run it, as with the published one.
pub fn spawn<T, F>(future: F) -> JoinHandle<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(future)
}

/// A task with a name, which is also its group for pauses if it is a constant.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<Cow<'static, str>>,
}

impl Builder {
    /// This one stands in for the published one. `lockstorm-sim` asks, and is answered by a
    /// trait of its own where the published one is linked.
    #[doc(hidden)]
    pub fn is_of_lockstorm() -> bool {
        true
    }

    /// A task without a name.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Names the task.
    pub fn name(self, name: impl Into<Cow<'static, str>>) -> Self {
        Builder { name: Some(name.into()) }
    }

    /// Spawns it; see [`spawn`].
    ///
    /// # Panics
    /// As [`spawn`].
    pub fn spawn<T, F>(self, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let builder = spawns_core::Builder::new();
        let builder = match self.name {
            Some(name) => builder.name(name),
            None => builder,
        };
        let Some(node) = lockstorm_ground::current() else { return builder.spawn(future) };
        let node = OnNode(node);
        let _scope = enter(&node);
        builder.spawn(future)
    }
}

/// Where tasks of a simulated node go.
struct OnNode(Arc<dyn Node>);

impl Spawn for OnNode {
    fn spawn(&self, task: Task) {
        let Task { name, future, .. } = task;
        let group = match name.into() {
            Some(Cow::Borrowed(name)) => name,
            Some(Cow::Owned(_)) | None => GROUP,
        };
        self.0.spawn(group, Box::into_pin(future));
    }
}

/// Lets other tasks run.
pub async fn yield_now() {
    YieldNow { yielded: false }.await;
}

struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

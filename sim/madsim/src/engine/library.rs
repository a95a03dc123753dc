//! What the libraries of one program have of tokio: a runtime of their own, in which every
//! task of the program is polled. So their timers run on madsim's time (which answers the C
//! library's clock), what they spawn is their program's, and an unbiased `select!` is of the
//! seed.
//!
//! madsim cannot know when tokio's next timer is due, so it looks every millisecond, which
//! is as fine as tokio's timers are. While the node stands still nobody looks: then tasks
//! that were spawned past the host stand still too, and their timers are late and not lost.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockstorm_sim::draw::Draw;
use lockstorm_sim::engine::scoped::Scoped;
use lockstorm_sim::engine::senses;
use lockstorm_sim::engine::world::NodeId;
#[cfg(tokio_unstable)]
use tokio::runtime::RngSeed;
use tokio::runtime::{Builder, Runtime};

use super::core::Core;

/// How often tokio's timers are looked at, µs.
const PERIOD_US: u64 = 1_000;

/// A program's tokio.
pub(super) struct Library(Runtime);

impl Library {
    fn new(core: &Core, node: NodeId, incarnation: u32) -> io::Result<Library> {
        let mut builder = Builder::new_current_thread();
        builder.enable_time();
        let entity = format!("{} {incarnation}", core.world.name(node));
        let seed = Draw::new(core.world.seed(), "tokio", &entity).bits();
        #[cfg(tokio_unstable)]
        builder.rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()));
        let _ = seed;
        builder.build().map(Library)
    }

    /// Polls a task of the program, and then what the program has spawned past its host.
    fn poll<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        self.0.block_on(async {
            let polled = poll();
            if self.0.metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
            polled
        })
    }

    /// Looks at the timers, and polls what was spawned past the host.
    fn look(&self) {
        self.0.block_on(tokio::task::yield_now());
    }
}

/// Gives a new incarnation its tokio.
///
/// # Errors
/// When it cannot be built.
pub(super) fn begin(core: &Arc<Core>, node: NodeId, incarnation: u32) -> io::Result<()> {
    let library = Arc::new(Library::new(core, node, incarnation)?);
    let state = &mut *core.lock();
    let machine = &mut state.machines[node.index()];
    let before = machine.library.replace(library.clone());
    machine.handle.spawn(look_on(core.clone(), (node, incarnation), library));
    state.buried.extend(before);
    Ok(())
}

/// Looks at a program's tokio as long as the program lives.
async fn look_on(core: Arc<Core>, program: (NodeId, u32), library: Arc<Library>) {
    loop {
        core.until(core.now_us() + PERIOD_US).await;
        core.follow();
        if !core.world.is_alive(program.0, program.1) || core.is_finished() {
            return core.bury(library);
        }
        if !core.world.is_paused(program.0) {
            senses::of_program(program, || library.look());
        }
    }
}

impl Core {
    /// Keeps a program's tokio for the driver to drop.
    fn bury(&self, library: Arc<Library>) {
        self.lock().buried.push(library);
        self.wake_driver();
    }
}

/// A task of a program, in madsim's scheduler and in its program's tokio.
pub(super) struct Turn {
    pub(super) core: Arc<Core>,
    pub(super) program: (NodeId, u32),
    pub(super) task: Scoped,
}

impl Future for Turn {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Turn { core, program, task } = self.get_mut();
        core.follow();
        let library = core.lock().machine(program.0).library.clone();
        let is_alive = core.world.is_alive(program.0, program.1);
        let poll = match library.filter(|_| is_alive && !core.world.is_paused(program.0)) {
            Some(library) => {
                senses::of_program(*program, || library.poll(|| Pin::new(&mut *task).poll(context)))
            }
            // The world says what becomes of a task of the dead or the paused.
            None => Pin::new(task).poll(context),
        };
        if core.world.is_halted() {
            core.wake_driver();
        }
        poll
    }
}

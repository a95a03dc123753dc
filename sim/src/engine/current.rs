//! What [`lockstorm::host::current`] answers on the thread of a run: the host of the node
//! whose program runs, found when somebody asks. Tasks that were spawned past their host
//! count as their node's, as [`senses`] has it.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{Answering, BoxFuture, Listener, Machine, Stream, Task, answer_current};

use super::machine::{SimulatedMachine, Substrate};
use super::senses;
use super::world::World;

/// What a run's thread needs to make a host: the nodes, and what carries them.
type Run = (Arc<World>, Arc<dyn Substrate>);

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Ends the answers when dropped.
#[derive(Debug)]
pub(super) struct Entered {
    _answering: Answering,
}

/// A run begins on this thread.
pub(super) fn enter(world: &Arc<World>, substrate: Arc<dyn Substrate>) -> Entered {
    RUN.with(|place| *place.borrow_mut() = Some((world.clone(), substrate)));
    Entered { _answering: answer_current(find) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let run = RUN.try_with(|place| place.borrow_mut().take());
        drop(run);
    }
}

fn find() -> Option<Host> {
    // Nothing stays borrowed: a host may ask for another.
    let run = RUN.try_with(|place| place.borrow().clone());
    let (world, substrate) = run.ok().flatten()?;
    Some(match senses::program() {
        Some((node, incarnation)) => SimulatedMachine::host(world, substrate, node, incarnation),
        None => nobody(world),
    })
}

/// The host of whoever is on none of the nodes: true simulated time, keyed draws, and
/// neither network nor tasks.
pub(crate) fn nobody(world: Arc<World>) -> Host {
    Host::new(Nobody { world })
}

/// See [`nobody`].
struct Nobody {
    world: Arc<World>,
}

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "this code runs on the thread of a storm but on none of its nodes; give it to a node's task",
    )
}

impl Machine for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.world.now_us())
    }

    fn wall(&self) -> Duration {
        let origin_us = super::clock::WALL_ORIGIN_US.unsigned_abs();
        Duration::from_micros(origin_us.saturating_add(self.world.now_us()))
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        drop(future);
        Task::new(|| ())
    }

    fn connect(&self, _address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        Box::pin(std::future::ready(Err(refused())))
    }

    fn listen(&self, _port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        Box::pin(std::future::ready(Err(refused())))
    }

    fn random(&self, purpose: &'static str) -> u64 {
        crate::draw::Draw::new(self.world.seed(), purpose, "nobody").bits()
    }
}

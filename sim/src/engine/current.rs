//! Who runs on the thread of a run: the host of the node whose program it is, found when
//! somebody asks; and the same for third-party code on the shims, which ask
//! [`lockstorm_ground`]. Tasks that were spawned past their host count as their node's, as
//! [`senses`] has it.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Listener, Machine, Stream, Task};
use lockstorm_ground::{Answering, Connection, Node};

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
pub struct Entered {
    _answering: Answering,
}

/// A run begins on this thread; for engines.
pub fn enter(world: &Arc<World>, substrate: Arc<dyn Substrate>) -> Entered {
    RUN.with(|place| *place.borrow_mut() = Some((world.clone(), substrate)));
    Entered { _answering: lockstorm_ground::answer(node) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let run = RUN.try_with(|place| place.borrow_mut().take());
        drop(run);
    }
}

/// The host of the node whose program runs on this thread now; `None` outside of a run.
///
/// On a run's thread there is always an answer: code that belongs to no node (an action of
/// a fault, say) gets a host that refuses, so that it does not reach for a real network.
pub fn host() -> Option<Host> {
    // Nothing stays borrowed: a host may ask for another.
    let run = RUN.try_with(|place| place.borrow().clone());
    let (world, substrate) = run.ok().flatten()?;
    Some(match senses::program() {
        Some((node, incarnation)) => SimulatedMachine::host(world, substrate, node, incarnation),
        None => nobody(world),
    })
}

/// What the shims of third-party I/O crates are told.
fn node() -> Option<Arc<dyn Node>> {
    Some(Arc::new(OnHost(host()?)))
}

/// A host, as third-party code uses it.
struct OnHost(Host);

impl Node for OnHost {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn(group, future);
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let (host, address) = (self.0.clone(), address.to_owned());
        Box::pin(async move {
            let stream = host.connect(&address).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
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

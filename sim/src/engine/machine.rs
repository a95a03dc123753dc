//! The [`Host`] of a simulated node: the node's clocks and draws from the
//! [`World`], timers and network from the engine's [`Substrate`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Listener, Machine, Stream, Task};

use super::world::{NodeId, World};
use crate::history::Name;

/// What an engine supplies to its nodes.
pub trait Substrate: Send + Sync + 'static {
    /// Completes at `true_us`, or earlier when the clock of `node` changes (the
    /// caller then computes its deadline anew).
    fn sleep_until(&self, node: NodeId, true_us: u64) -> BoxFuture<'static, ()>;

    /// Connects from this incarnation of `node` to `port` at `to`.
    fn connect(
        &self,
        node: NodeId,
        incarnation: u32,
        to: NodeId,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Stream>>;

    /// Listens on `port` of this incarnation of `node`.
    fn listen(
        &self,
        node: NodeId,
        incarnation: u32,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Listener>>;
}

/// One incarnation of a simulated node.
pub struct SimulatedMachine {
    world: Arc<World>,
    substrate: Arc<dyn Substrate>,
    name: Name,
    node: NodeId,
    incarnation: u32,
}

impl SimulatedMachine {
    /// The host of this incarnation of `node`.
    pub fn host(
        world: Arc<World>,
        substrate: Arc<dyn Substrate>,
        node: NodeId,
        incarnation: u32,
    ) -> Host {
        let name = world.name(node);
        Host::new(SimulatedMachine { world, substrate, name, node, incarnation })
    }

    /// Resolves `name:port`; numeric addresses are the world's.
    fn resolve(&self, address: &str) -> io::Result<(NodeId, u16)> {
        let malformed = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{address}` is not of the form name:port"),
            )
        };
        let (name, port) = address.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let node = match name.parse() {
            Ok(numeric) => self.world.node_at(numeric),
            Err(_) => self.world.find(name),
        };
        let node = node.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("no node is called `{name}`"))
        })?;
        Ok((node, port))
    }
}

impl Machine for SimulatedMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.world.monotonic_us(self.node))
    }

    fn wall(&self) -> Duration {
        // A wall clock that was stepped before 1970 reads as 1970, as on a real host.
        Duration::from_micros(u64::try_from(self.world.wall_us(self.node)).unwrap_or(0))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (world, substrate, node) = (self.world.clone(), self.substrate.clone(), self.node);
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = world.monotonic_us(node).saturating_add(duration_us);
        Box::pin(async move {
            let mut expected_us = None;
            loop {
                let true_us = world.true_us_of(node, deadline_us);
                if expected_us.replace(true_us).is_some_and(|expected| expected != true_us) {
                    // Its clock has changed while it waited by it.
                    world.wait_moved(node);
                }
                if true_us <= world.now_us() {
                    return;
                }
                substrate.sleep_until(node, true_us).await;
            }
        })
    }

    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        match self.world.spawn(self.node, self.incarnation, group, future) {
            Some(abort) => Task::new(move || abort.abort()),
            None => Task::new(|| ()),
        }
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        match self.resolve(address) {
            Ok((to, port)) => self.substrate.connect(self.node, self.incarnation, to, port),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        self.substrate.listen(self.node, self.incarnation, port)
    }

    fn random(&self, purpose: &'static str) -> u64 {
        self.world.random(self.node, purpose)
    }
}

impl std::fmt::Debug for SimulatedMachine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SimulatedMachine")
            .field("name", &self.name)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

//! The [`Host`] of a simulated node: the node's clocks and draws from the
//! [`World`], timers and network from the engine's [`Substrate`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, HasWork, Listener, Machine, Stream, Task};

use super::world::{NodeId, World};
use crate::history::Name;

/// A timer that goes on by itself while there is nothing to do.
pub struct Tick {
    /// Whose.
    pub node: NodeId,
    /// When it is due, on the node's monotonic clock, µs.
    pub deadline_us: u64,
    /// How long after it looked it looks again, µs.
    pub period_us: u64,
    /// Whether there is anything to do.
    pub has_work: HasWork,
}

impl std::fmt::Debug for Tick {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tick { node, deadline_us, period_us, .. } = self;
        let mut told = formatter.debug_struct("Tick");
        told.field("node", node).field("deadline_us", deadline_us);
        told.field("period_us", period_us).finish_non_exhaustive()
    }
}

/// What an engine supplies to its nodes.
pub trait Substrate: Send + Sync + 'static {
    /// Completes at `true_us`, or earlier when the clock of `node` changes (the
    /// caller then computes its deadline anew).
    fn sleep_until(&self, node: NodeId, true_us: u64) -> BoxFuture<'static, ()>;

    /// Whether it has [`tick`](Substrate::tick).
    fn ticks(&self) -> bool {
        false
    }

    /// Completes at the deadline of `tick`, or, while its node may run and it has nothing to
    /// do, one or more periods later; gives the deadline that it has come to. Like
    /// [`sleep_until`](Substrate::sleep_until) it completes earlier when the node's clock
    /// changes. For engines that have it.
    fn tick(&self, tick: Tick) -> BoxFuture<'static, u64> {
        Box::pin(std::future::ready(tick.deadline_us))
    }

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
            loop {
                let true_us = world.true_us_of(node, deadline_us);
                if true_us <= world.now_us() {
                    return;
                }
                substrate.sleep_until(node, true_us).await;
            }
        })
    }

    fn sleep_while_idle(
        &self,
        period: Duration,
        has_work: HasWork,
    ) -> Option<BoxFuture<'static, ()>> {
        if !self.substrate.ticks() {
            return None;
        }
        let (world, substrate, node) = (self.world.clone(), self.substrate.clone(), self.node);
        let period_us = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        let mut deadline_us = world.monotonic_us(node).saturating_add(period_us);
        Some(Box::pin(async move {
            loop {
                if world.true_us_of(node, deadline_us) > world.now_us() {
                    let has_work = has_work.clone();
                    deadline_us =
                        substrate.tick(Tick { node, deadline_us, period_us, has_work }).await;
                } else if has_work() {
                    return;
                } else {
                    deadline_us = world.monotonic_us(node).saturating_add(period_us);
                }
            }
        }))
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

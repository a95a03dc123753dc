//! The engine as its nodes see it.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use lockstorm::host::{BoxFuture, Listener, Stream};
use lockstorm_sim::engine::machine::Substrate;
use lockstorm_sim::engine::scoped::Scoped;
use lockstorm_sim::engine::senses::Program;
use lockstorm_sim::engine::tasks::{Abort, Running, Spawner};
use lockstorm_sim::engine::world::NodeId;
use madsim::task::AbortHandle;

use super::connect;
use super::core::Core;
use super::library::Turn;
use super::socket;

pub(super) struct MadsimSubstrate(pub(super) Arc<Core>);

impl Substrate for MadsimSubstrate {
    fn sleep_until(&self, node: NodeId, true_us: u64) -> BoxFuture<'static, ()> {
        let core = self.0.clone();
        Box::pin(async move {
            let mut changed = pin!(core.clocks[node.index()].notified());
            let mut timer = core.until(true_us);
            std::future::poll_fn(|context: &mut Context<'_>| {
                if changed.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                Pin::new(&mut timer).poll(context)
            })
            .await;
        })
    }

    fn connect(
        &self,
        node: NodeId,
        incarnation: u32,
        to: NodeId,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Stream>> {
        let core = self.0.clone();
        if !core.world.is_alive(node, incarnation) {
            return Box::pin(std::future::ready(Err(io::ErrorKind::NotConnected.into())));
        }
        Box::pin(connect::connect(core, (node, incarnation), to, port))
    }

    fn listen(
        &self,
        node: NodeId,
        incarnation: u32,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Listener>> {
        let result = match self.0.world.is_alive(node, incarnation) {
            true => socket::listen(&self.0, (node, incarnation), port),
            false => Err(io::ErrorKind::NotConnected.into()),
        };
        Box::pin(std::future::ready(result))
    }
}

/// Has the world's tasks run by madsim, on their nodes.
pub(super) struct OnMadsim(pub(super) Weak<Core>);

impl Spawner for OnMadsim {
    fn spawn(&self, program: Program, task: Scoped) -> Option<Running> {
        let core = self.0.upgrade()?;
        let turn = Turn { core: core.clone(), program, task };
        let spawned = core.lock().machine(program.0).handle.spawn(turn);
        Some(Running::Elsewhere(Arc::new(OfMadsim(spawned.abort_handle()))))
    }
}

struct OfMadsim(AbortHandle);

impl Abort for OfMadsim {
    fn abort(&self) {
        self.0.abort();
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

//! The engine as its nodes see it.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use lockstorm::host::{BoxFuture, Listener, Stream};

use super::connect;
use super::latency::round_up_us;
use super::listener;
use super::network::Network;
use crate::engine::machine::Substrate;
use crate::engine::world::NodeId;

pub(super) struct TurmoilSubstrate(pub(super) Arc<Network>);

impl Substrate for TurmoilSubstrate {
    fn sleep_until(&self, node: NodeId, true_us: u64) -> BoxFuture<'static, ()> {
        let network = self.0.clone();
        Box::pin(async move {
            let mut changed = pin!(network.clocks[node.index()].notified());
            let mut tick = pin!(until(&network, true_us));
            std::future::poll_fn(|context: &mut Context<'_>| {
                if changed.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(());
                }
                tick.as_mut().poll(context)
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
        let network = self.0.clone();
        if !network.world.is_alive(node, incarnation) {
            return Box::pin(std::future::ready(Err(io::ErrorKind::NotConnected.into())));
        }
        Box::pin(connect::connect(network, (node, incarnation), to, port))
    }

    fn listen(
        &self,
        node: NodeId,
        incarnation: u32,
        port: u16,
    ) -> BoxFuture<'static, io::Result<Listener>> {
        let network = self.0.clone();
        if !network.world.is_alive(node, incarnation) {
            return Box::pin(std::future::ready(Err(io::ErrorKind::NotConnected.into())));
        }
        Box::pin(listener::listen(network, node, incarnation, port))
    }
}

/// Completes on the first tick at or after `true_us`. Call it from inside a host.
pub(super) fn until(network: &Network, true_us: u64) -> tokio::time::Sleep {
    let at_us = round_up_us(true_us, network.tick_us);
    // Within a coarse tick the host's clock may be ahead of the world's.
    let now_us = match ::turmoil::sim_elapsed() {
        Some(elapsed) => elapsed.as_micros() as u64,
        None => network.world.now_us(),
    };
    // Never nothing: a sleeper that was woken before the world's clock reached its
    // time would come straight back, for ever.
    tokio::time::sleep(Duration::from_micros(at_us.saturating_sub(now_us).max(1_000)))
}

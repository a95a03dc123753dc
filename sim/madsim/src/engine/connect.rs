//! Connecting, as a kernel does it.
//!
//! A connect of madsim's fails at once, at no cost of time, where a link is cut, a machine
//! is dead or nobody listens. So it is asked only when it can succeed: into a cut, to a dead
//! machine or to a full backlog, a SYN meets silence and is repeated; to a port that nobody
//! listens on, a refusal comes back after a round trip.

use std::io;
use std::sync::Arc;

use lockstorm::host::Stream;
use lockstorm_sim::engine::world::{NodeId, Touch};

use super::connection::{Connection, End};
use super::core::Core;
use super::kernel;
use super::socket::Socket;
use super::transport::Content;

/// Where a node's ephemeral ports begin.
pub(super) const EPHEMERAL_FIRST: u16 = 49_152;

/// What a SYN meets.
enum Prospect {
    Silence,
    Refusal,
    Handshake,
}

pub(super) async fn connect(
    core: Arc<Core>,
    owner: (NodeId, u32),
    to: NodeId,
    port: u16,
) -> io::Result<Stream> {
    let node = owner.0;
    let mut repeat_us = core.now_us();
    for repeats in 0..=core.kernel.syn_repeats() {
        boots(&core, to).await;
        let sent_us = core.now_us();
        let round_trip_us = core.change(|state, effects| {
            core.count(state, (node, to), effects);
            core.latency_us(state, node, to) + core.latency_us(state, to, node)
        });
        match prospect(&core, node, to, port) {
            Prospect::Silence => {}
            Prospect::Refusal => {
                core.until(sent_us + round_trip_us).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Prospect::Handshake => {
                if let Some(socket) = open(&core, owner, to, port).await {
                    if sent_us + round_trip_us > core.now_us() {
                        core.until(sent_us + round_trip_us).await;
                    }
                    return Ok(socket);
                }
            }
        }
        repeat_us += core.kernel.syn_wait_us(repeats);
        if repeat_us > core.now_us() {
            core.until(repeat_us).await;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// A SYN to a machine that boots takes as long as that: a millisecond or two.
async fn boots(core: &Core, to: NodeId) {
    loop {
        let booted = core.booted.notified();
        let is_booting = {
            let state = core.lock();
            let machine = state.machine(to);
            !machine.is_dead && machine.endpoint.is_none()
        };
        if !is_booting {
            return;
        }
        booted.await;
    }
}

fn prospect(core: &Core, node: NodeId, to: NodeId, port: u16) -> Prospect {
    core.change(|state, effects| {
        if let Some((from, to)) = state.links.first_cut(node, to) {
            effects.touch(Touch::Cut { from, to });
            return Prospect::Silence;
        }
        if state.machine(to).is_dead {
            return Prospect::Silence;
        }
        match state.listening.get(&(to, port)) {
            None => Prospect::Refusal,
            Some(listening) => {
                match core.kernel.is_full(listening.ready.len() + listening.coming) {
                    true => Prospect::Silence,
                    false => Prospect::Handshake,
                }
            }
        }
    })
}

/// Opens a channel of madsim's. `None` if the way was closed meanwhile.
async fn open(core: &Arc<Core>, owner: (NodeId, u32), to: NodeId, port: u16) -> Option<Stream> {
    let node = owner.0;
    let endpoint = core.lock().machine(node).endpoint.clone()?;
    let (wire, messages) = endpoint.connect1(Core::address(to)).await.ok()?;
    let id = core.change(|state, effects| {
        let id = state.number_connection();
        let machine = &mut state.machines[node.index()];
        let local = machine.next_port;
        machine.next_port = local.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        let (life, there) = (machine.life, state.machine(to).life);
        let ends = [End::new(node, life, Some(wire)), End::new(to, there, None)];
        state.connections.insert(id, Connection { ends, ports: [local, port] });
        core.send(state, (id, 0), Content::Open, effects);
        if let Some(listening) = state.listening.get_mut(&(to, port)) {
            listening.coming += 1;
        }
        let receiving = kernel::receive(core.clone(), (id, 0), messages);
        state.machine(node).handle.spawn(receiving);
        id
    });
    Some(Socket::stream(core.clone(), owner, (id, 0)))
}

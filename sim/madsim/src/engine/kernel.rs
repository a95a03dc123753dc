//! A machine's kernel: a task of madsim's node that lives as long as the machine. It
//! completes handshakes, receives for all connections, and outlives every program.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use lockstorm_sim::engine::world::{NodeId, Touch};
use madsim::net::{Endpoint, Receiver, Sender};

use super::connection::{End, Place};
use super::core::{Core, Effects, State};
use super::transport::{Content, Frame};

/// The kernel of a machine that boots now.
pub(super) async fn run(core: Arc<Core>, node: NodeId) {
    core.follow();
    let Ok(endpoint) = Endpoint::bind(Core::address(node)).await else {
        // madsim refuses an address that is taken, and each node has its own.
        return std::future::pending().await;
    };
    core.follow();
    let endpoint = Arc::new(endpoint);
    core.lock().machines[node.index()].endpoint = Some(endpoint.clone());
    core.booted.notify_waiters();
    // It never fails: the endpoint is here.
    while let Ok((wire, messages, _)) = endpoint.accept1().await {
        core.follow();
        madsim::task::spawn(welcome(core.clone(), node, wire, messages));
    }
}

/// Receives for a connection that another kernel has opened.
async fn welcome(core: Arc<Core>, node: NodeId, wire: Sender, mut messages: Receiver) {
    let Some(Frame { connection, .. }) = next(&core, &mut messages).await else { return };
    let place = (connection, 1);
    let is_known = core.change(|state, effects| {
        let life = state.machine(node).life;
        let Some(connection) = state.connections.get_mut(&place.0) else { return false };
        let sender = &mut connection.ends[0];
        sender.under_way = sender.under_way.saturating_sub(1);
        let port = connection.ports[1];
        connection.ends[1] = End::new(node, life, Some(wire));
        match state.listening.get_mut(&(node, port)) {
            Some(listening) => {
                listening.ready.push_back(place.0);
                listening.coming = listening.coming.saturating_sub(1);
                effects.wake(&mut listening.acceptor);
            }
            None => core.abort(state, place, effects),
        }
        true
    });
    if is_known {
        core.trace(place, Content::Open.code());
        receive(core, place, messages).await;
    }
}

/// Receives for one end of a connection, until it is over.
pub(super) async fn receive(core: Arc<Core>, place: Place, mut messages: Receiver) {
    while let Some(frame) = next(&core, &mut messages).await {
        let is_over = core.change(|state, effects| {
            if !state.connections.contains_key(&place.0) {
                return true;
            }
            core.trace(place, frame.content.code());
            core.arrive(state, place, frame, effects);
            state.forget_if_over(place.0);
            false
        });
        if is_over {
            return;
        }
    }
}

/// The next message; `None` when the other kernel has no more.
async fn next(core: &Core, messages: &mut Receiver) -> Option<Frame> {
    let message = messages.next().await?.ok()?;
    core.follow();
    let frame = *message.downcast::<Frame>().ok()?;
    if frame.not_before_us > core.now_us() {
        core.until(frame.not_before_us).await;
        core.follow();
    }
    Some(frame)
}

impl State {
    /// Forgets a connection that neither end needs any more.
    pub(super) fn forget_if_over(&mut self, id: u64) {
        if self.connections.get(&id).is_some_and(|connection| connection.is_over()) {
            self.connections.remove(&id);
        }
    }
}

impl Core {
    /// A message reaches the kernel of this end.
    fn arrive(
        self: &Arc<Self>,
        state: &mut State,
        place: Place,
        frame: Frame,
        effects: &mut Effects,
    ) {
        let (id, side) = place;
        let Some(connection) = state.connections.get_mut(&id) else { return };
        let sender = &mut connection.ends[1 - side];
        sender.under_way = sender.under_way.saturating_sub(1);
        let (sender_is_broken, sender_at) = (sender.broken, sender.node);
        // What a cut has kept is lost with the end that it was kept by.
        if frame.is_kept && (sender_is_broken || !state.lives(sender_at, frame.life)) {
            return;
        }
        let Some(connection) = state.connections.get_mut(&id) else { return };
        let end = &mut connection.ends[side];
        match frame.content {
            Content::Open => {}
            Content::Data(bytes) => {
                if !end.take_data(bytes, effects) {
                    // Nobody will read it: tell the sender, and be done with this end.
                    end.break_with(io::ErrorKind::ConnectionReset, effects);
                    self.send(state, place, Content::Reset, effects);
                }
            }
            Content::Fin => end.take_end(effects),
            Content::Reset => end.break_with(io::ErrorKind::ConnectionReset, effects),
        }
    }

    /// A program hands bytes to its kernel.
    pub(super) fn give(
        self: &Arc<Self>,
        state: &mut State,
        place: Place,
        bytes: &[u8],
        effects: &mut Effects,
    ) {
        self.send(state, place, Content::Data(Bytes::copy_from_slice(bytes)), effects);
    }

    /// Closes the sending direction.
    pub(super) fn shutdown(
        self: &Arc<Self>,
        state: &mut State,
        place: Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = state.connections.get_mut(&place.0) else { return };
        let end = &mut connection.ends[place.1];
        if !end.broken && !std::mem::replace(&mut end.finished, true) {
            self.send(state, place, Content::Fin, effects);
        }
    }

    /// A program lets go of its socket, or dies.
    pub(super) fn close(self: &Arc<Self>, state: &mut State, place: Place, effects: &mut Effects) {
        let Some(connection) = state.connections.get_mut(&place.0) else { return };
        let end = &mut connection.ends[place.1];
        if !std::mem::replace(&mut end.held, false) {
            return;
        }
        match end.has_unread() {
            true => self.abort(state, place, effects),
            false => self.shutdown(state, place, effects),
        }
        state.forget_if_over(place.0);
    }

    /// Closes abortively.
    pub(super) fn abort(self: &Arc<Self>, state: &mut State, place: Place, effects: &mut Effects) {
        let Some(connection) = state.connections.get_mut(&place.0) else { return };
        let end = &mut connection.ends[place.1];
        end.held = false;
        if !end.broken {
            end.break_with(io::ErrorKind::ConnectionAborted, effects);
            self.send(state, place, Content::Reset, effects);
        }
        state.forget_if_over(place.0);
    }

    /// Nobody listens on this port any more: what waits there is reset.
    pub(super) fn stop_listening(
        self: &Arc<Self>,
        state: &mut State,
        at: (NodeId, u16),
        effects: &mut Effects,
    ) {
        let Some(mut listening) = state.listening.remove(&at) else { return };
        effects.wake(&mut listening.acceptor);
        for id in listening.ready {
            self.abort(state, (id, 1), effects);
        }
    }

    /// A node's program is dead: its kernel closes what it held.
    pub(super) fn end_program(
        self: &Arc<Self>,
        state: &mut State,
        node: NodeId,
        effects: &mut Effects,
    ) {
        let ports: Vec<_> = state.listening.keys().filter(|(at, _)| *at == node).copied().collect();
        for at in ports {
            self.stop_listening(state, at, effects);
        }
        for place in state.places_of(node) {
            self.close(state, place, effects);
        }
        let library = state.machines[node.index()].library.take();
        state.buried.extend(library);
        effects.wake(&mut state.driver);
    }

    /// A node's machine is dead: it says nothing more, and what was on its way there has met
    /// nobody.
    pub(super) fn end_machine(
        self: &Arc<Self>,
        state: &mut State,
        node: NodeId,
        effects: &mut Effects,
    ) {
        let machine = &mut state.machines[node.index()];
        machine.is_dead = true;
        machine.life += 1;
        machine.endpoint = None;
        let library = machine.library.take();
        state.buried.extend(library);
        effects.wake(&mut state.driver);
        state.listening.retain(|(at, _), _| *at != node);
        for (id, side) in state.places_of(node) {
            let Some(connection) = state.connections.get_mut(&id) else { continue };
            connection.ends[side].forget(effects);
            let peer = &mut connection.ends[1 - side];
            if std::mem::take(&mut peer.under_way) > 0 && !peer.broken {
                self.repeat(state, (id, 1 - side));
            }
            state.forget_if_over(id);
        }
    }

    /// Resets what is established between two nodes, at both ends.
    pub(super) fn reset_all(&self, state: &mut State, a: NodeId, b: NodeId, effects: &mut Effects) {
        let mut over = Vec::new();
        for (id, connection) in &mut state.connections {
            let nodes = (connection.ends[0].node, connection.ends[1].node);
            let is_between = nodes == (a, b) || nodes == (b, a);
            if !is_between || connection.ends.iter().all(|end| end.broken) {
                continue;
            }
            for end in &mut connection.ends {
                end.break_with(io::ErrorKind::ConnectionReset, effects);
            }
            effects.touch(Touch::Reset { a, b });
            over.push(*id);
        }
        over.into_iter().for_each(|id| state.forget_if_over(id));
    }
}

impl State {
    /// The ends of connections at a node.
    fn places_of(&self, node: NodeId) -> Vec<Place> {
        let all = self.connections.iter().flat_map(|(id, connection)| {
            (0..2).filter(|side| connection.ends[*side].node == node).map(|side| (*id, side))
        });
        all.collect()
    }
}

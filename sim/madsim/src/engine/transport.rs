//! The way between two kernels: madsim's channels, and what is sent into them.
//!
//! A channel keeps the order of its messages, draws each one's latency, and tries again what
//! was sent into a cut until the link is open (after 1 ms, doubling to 10 s). A message is
//! lost only with a machine at one of its ends. Then the other end's kernel sends again,
//! after Linux's times, until somebody answers: the restarted machine, with a reset.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use lockstorm_sim::engine::world::{NodeId, Touch};

use super::connection::Place;
use super::core::{Core, Effects, State};

/// When a kernel sends again what has met nobody: at first, and at the latest, µs.
const RTO_MIN_US: u64 = 200_000;
const RTO_MAX_US: u64 = 120_000_000;

/// What travels.
pub(super) enum Content {
    /// The first of a connection.
    Open,
    Data(Bytes),
    Fin,
    Reset,
}

impl Content {
    /// A number for the trace.
    pub(super) fn code(&self) -> u8 {
        match self {
            Content::Open => 1,
            Content::Data(_) => 2,
            Content::Fin => 3,
            Content::Reset => 4,
        }
    }
}

/// A message of madsim's.
pub(super) struct Frame {
    pub(super) connection: u64,
    pub(super) content: Content,
    /// The life of the machine that sent it.
    pub(super) life: u32,
    /// Whether it was sent into a cut: it is still with its sender.
    pub(super) is_kept: bool,
    /// When it arrives at the earliest, µs: its link is slow.
    pub(super) not_before_us: u64,
}

impl Core {
    /// Sends from one end of a connection to the other. What meets nobody is sent again.
    pub(super) fn send(
        self: &Arc<Self>,
        state: &mut State,
        (id, side): Place,
        content: Content,
        effects: &mut Effects,
    ) {
        let Some(connection) = state.connections.get(&id) else { return };
        let (from, there) = (connection.ends[side].node, &connection.ends[1 - side]);
        let (to, is_there) = (there.node, state.lives(there.node, there.life));
        let is_kept = self.count(state, (from, to), effects);
        let is_reset = matches!(content, Content::Reset);
        if is_kept && is_reset {
            return;
        }
        let not_before_us = match state.links.extra_us(from, to) {
            0 => 0,
            _ => self.now_us() + self.latency_us(state, from, to),
        };
        let life = state.machine(from).life;
        let frame = Frame { connection: id, content, life, is_kept, not_before_us };
        let Some(connection) = state.connections.get_mut(&id) else { return };
        let end = &mut connection.ends[side];
        let sent = match &end.wire {
            Some(wire) if is_there => now(wire.send(Box::new(frame))).is_some_and(|it| it.is_ok()),
            _ => false,
        };
        match sent {
            true => end.under_way += 1,
            // Whether a reset is heard is nobody's worry.
            false if is_reset => {}
            false => self.repeat(state, (id, side)),
        }
    }

    /// Has an end's kernel send again from now on, unless it does already.
    pub(super) fn repeat(self: &Arc<Self>, state: &mut State, place: Place) {
        let Some(connection) = state.connections.get_mut(&place.0) else { return };
        let end = &mut connection.ends[place.1];
        if !end.broken && !std::mem::replace(&mut end.repeats, true) {
            let node = end.node;
            state.machine(node).handle.spawn(repeating(self.clone(), place));
        }
    }

    /// Whether a kernel at `to` would answer `from` now; if a cut keeps it from that, the
    /// cut has had an effect.
    fn is_answered(&self, from: NodeId, to: NodeId) -> bool {
        self.change(|state, effects| {
            let cut = state.links.first_cut(from, to);
            if let Some((from, to)) = cut {
                effects.touch(Touch::Cut { from, to });
            }
            cut.is_none() && state.machine(to).endpoint.is_some()
        })
    }
}

/// Sends again, until somebody answers, which can only be with a reset, or it is given up.
async fn repeating(core: Arc<Core>, place: Place) {
    core.follow();
    let begun_us = core.now_us();
    let ends = |state: &mut State| {
        let connection = state.connections.get(&place.0)?;
        let (end, peer) = (&connection.ends[place.1], &connection.ends[1 - place.1]);
        let lasts = !end.broken && state.lives(end.node, end.life);
        lasts.then_some((end.node, peer.node, end.held))
    };
    let Some((from, to, _)) = core.change(|state, _| ends(state)) else { return };
    let round_trip_us =
        core.change(|state, _| core.latency_us(state, from, to) + core.latency_us(state, to, from));
    let (mut wait_us, mut rto_us) = (round_trip_us, RTO_MIN_US);
    loop {
        core.until(core.now_us() + wait_us).await;
        core.follow();
        let Some((_, _, is_held)) = core.change(|state, _| ends(state)) else { return };
        let is_over = core.now_us() - begun_us > core.kernel.retransmit_for_us(!is_held);
        let why = match core.is_answered(from, to) {
            true => io::ErrorKind::ConnectionReset,
            false if is_over => io::ErrorKind::TimedOut,
            false => {
                wait_us = rto_us;
                rto_us = (2 * rto_us).min(RTO_MAX_US);
                continue;
            }
        };
        return core.change(|state, effects| {
            if let Some(connection) = state.connections.get_mut(&place.0) {
                connection.ends[place.1].break_with(why, effects);
            }
            state.forget_if_over(place.0);
        });
    }
}

/// What a future gives that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    let future = std::pin::pin!(future);
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

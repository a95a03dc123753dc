//! The network: what becomes of a segment on its way, and what the kernels at both
//! ends do about it.
//!
//! A connection has two ends. Each direction numbers its segments; a segment is, at
//! any time, in exactly one place: on the wire (a scheduled [`Packet`]), undelivered
//! at its sender's kernel (to be retransmitted), or at the receiver's kernel. A
//! receiver takes segments in order, so retransmission cannot reorder.
//!
//! Rules, after Linux: SYNs are repeated after 1, 3, 7, 15 … s and given up after
//! about two minutes; data and FIN that were not delivered are retransmitted after
//! 200 ms, doubling to 120 s, for about 15 minutes; RST is never repeated. How long is
//! the stage's [`Kernel`]. A message crosses unless its link is cut when it leaves or
//! when it arrives. A kernel outlives its program: it closes the program's connections
//! (RST if there was unread data, FIN otherwise) and still delivers what it was given.
//! A machine's death takes the kernel along, in silence; a restarted machine answers
//! strangers with RST, and so does every kernel for connections that it has ended.
//!
//! Acknowledgements are not on the wire: what arrives is acknowledged at once, unless
//! the way back is cut at that moment. Then it stays with its sender as well, is sent
//! again until an acknowledgement can come back, and ends the connection if none does.
//!
//! [`connection`] is what programs do, [`listening`] who listens, [`wire`] sends and
//! delivers, [`retransmission`] and [`probe`] are the kernels' timers, [`told`] notes messages
//! where somebody wants to see them.

mod connection;
mod listening;
mod probe;
mod retransmission;
mod told;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::core::Effects;
use crate::draw::Draw;
use crate::engine::kernel::{RTO_MAX_US, RTO_MIN_US};
use crate::engine::world::{NodeId, Touch, World};
use crate::engine::{Kernel, Links};
use crate::history::Recorder;
use crate::history::recorder::AsideId;

pub(super) use connection::{Handshake, Place};

/// What a direction of a connection may have written and not yet been read, bytes.
pub(super) const WINDOW_BYTES: usize = 64 * 1024;
/// The same in segments: small ones cost their kernel more than their bytes.
pub(super) const WINDOW_SEGMENTS: usize = 4_096;
const EPHEMERAL_FIRST: u16 = 49_152;

/// What travels.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Syn,
    SynAck,
    Refuse,
    /// A numbered segment of the stream.
    Segment(u64, Segment),
    Reset,
    /// A keepalive probe.
    Probe,
    /// The kernel's answer to a probe.
    Answer,
}

impl Content {
    /// A number for the trace.
    pub(super) fn code(&self) -> u8 {
        match self {
            Content::Syn => 1,
            Content::SynAck => 2,
            Content::Refuse => 3,
            Content::Segment(_, Segment::Established) => 4,
            Content::Segment(_, Segment::Data(_)) => 5,
            Content::Segment(_, Segment::Fin) => 6,
            Content::Reset => 7,
            Content::Probe => 8,
            Content::Answer => 9,
        }
    }
}

/// What is numbered.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// The third step of the handshake.
    Established,
    Data(Bytes),
    Fin,
}

/// Something on the wire.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) connection: u32,
    generation: u32,
    /// Which end it goes to: 0 connected, 1 listened.
    pub(super) to_side: u8,
    pub(super) content: Content,
    /// What was noted when it left, if messages are noted.
    sent: Option<AsideId>,
}

/// A program's side of a connection, as its kernel keeps it.
struct End {
    node: NodeId,
    /// The machine's life in which this end exists; a machine crash begins a new one.
    life: u32,
    /// Whether a program still holds the socket.
    held: bool,
    /// Since when no program holds it, µs.
    left_at_us: u64,
    /// Whether the connection is over at this end, other than by FINs.
    broken: bool,
    /// Why it is over, until a program has been told: kernels tell an error once.
    error: Option<io::ErrorKind>,
    /// When the peer's kernel was last heard, µs.
    heard_at_us: u64,
    probing: Option<Probing>,
    /// How often probing was set, to tell the timers apart.
    probings: u32,
    /// After what time of being unacknowledged it is over, µs.
    user_timeout_us: Option<u64>,

    // Receiving.
    expected: u64,
    early: BTreeMap<u64, Segment>,
    unread: VecDeque<Bytes>,
    peer_finished: bool,
    reader: Option<Waker>,
    watcher: Option<Waker>,

    // Sending.
    numbered: u64,
    /// Written here and not yet read there, bytes.
    outstanding: usize,
    /// The same in segments.
    outstanding_segments: usize,
    /// Since when `outstanding` has filled the window, µs.
    full_since_us: Option<u64>,
    /// Not delivered, or delivered and not acknowledged.
    undelivered: BTreeMap<u64, Segment>,
    retransmission: Option<Retransmission>,
    /// How often retransmission began, to tell the timers apart.
    retransmissions: u32,
    last_arrival_us: u64,
    finished: bool,
    writer: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Retransmission {
    /// Which of the end's retransmissions it is.
    number: u32,
    /// When something was first sent again, µs.
    first_us: Option<u64>,
    rto_us: u64,
}

/// Probing of a peer that says nothing.
#[derive(Clone, Copy)]
struct Probing {
    idle_us: u64,
    interval_us: u64,
    count: u32,
    unanswered: u32,
}

struct Connection {
    generation: u32,
    handshake: Handshake,
    /// The connecting end's ephemeral port and the listening end's port.
    ports: [u16; 2],
    ends: [End; 2],
    connector: Option<Waker>,
    /// The listener that answered the SYN.
    listener: Option<u64>,
}

struct Listening {
    /// Which of the run's listeners it is.
    number: u64,
    ready: VecDeque<(u32, u32)>,
    acceptor: Option<Waker>,
}

/// How messages travel; as on Linux by default.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    /// Messages take whole multiples of this, µs.
    pub(super) tick_us: u64,
    /// A message of a connection arrives so long after it was sent, and after the one before
    /// it, at the earliest, µs.
    pub(super) apart_us: u64,
    /// When a kernel sends again what was not acknowledged: at first, and at the latest, µs.
    pub(super) rto_us: (u64, u64),
    /// Whether a cut also catches what is under way.
    pub(super) catches: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Wire { tick_us: 1, apart_us: 0, rto_us: (RTO_MIN_US, RTO_MAX_US), catches: true }
    }
}

/// All connections of a run.
pub(super) struct Network {
    connections: Vec<Option<Connection>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    listening: BTreeMap<(NodeId, u16), Listening>,
    /// How many listeners there have been.
    listeners: u64,
    links: Links,
    wire: Wire,
    kernel: Kernel,
    nodes: usize,
    names: Vec<Arc<str>>,
    seed: u64,
    /// By direction, `from * nodes + to`.
    latencies: Vec<Option<Draw>>,
    cuts: Vec<u32>,
    extra_us: Vec<u64>,
    lives: Vec<u32>,
    /// Whether a machine is dead: its kernel answers nothing.
    dead: Vec<bool>,
    ephemeral: Vec<u16>,
    messages: u64,
    /// Where messages are noted, if they are.
    notes: Option<Recorder>,
}

impl End {
    /// Whether the window has no room.
    fn is_full(&self) -> bool {
        self.outstanding >= WINDOW_BYTES || self.outstanding_segments >= WINDOW_SEGMENTS
    }
}

impl Network {
    pub(super) fn new(world: &World, links: Links, kernel: Kernel, wire: Wire) -> Self {
        let nodes = world.len();
        Network {
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            listening: BTreeMap::new(),
            listeners: 0,
            links,
            wire,
            kernel,
            nodes,
            names: (0..nodes).map(|index| world.name(NodeId(index as u16))).collect(),
            seed: world.seed(),
            latencies: vec![None; nodes * nodes],
            cuts: vec![0; nodes * nodes],
            extra_us: vec![0; nodes * nodes],
            lives: vec![0; nodes],
            dead: vec![false; nodes],
            ephemeral: vec![EPHEMERAL_FIRST; nodes],
            messages: 0,
            notes: None,
        }
    }

    /// Notes messages with `recorder`, if it keeps asides.
    pub(super) fn note_with(&mut self, recorder: &Recorder) {
        self.notes = recorder.keeps_asides().then(|| recorder.clone());
    }

    /// Takes all connections and listeners, for dropping at the end of a run.
    pub(super) fn dismantle(&mut self) -> impl Sized + use<> {
        (std::mem::take(&mut self.connections), std::mem::take(&mut self.listening))
    }

    /// Segments and their like sent so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    // -- links ---------------------------------------------------------------

    fn link(&self, from: NodeId, to: NodeId) -> usize {
        from.index() * self.nodes + to.index()
    }

    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts[self.link(from, to)] > 0
    }

    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        let link = self.link(from, to);
        self.cuts[link] += 1;
    }

    pub(super) fn heal(&mut self, from: NodeId, to: NodeId) {
        let link = self.link(from, to);
        self.cuts[link] = self.cuts[link].saturating_sub(1);
    }

    /// The ends at `from` that have something undelivered for `to`, each with the number
    /// of its retransmission.
    pub(super) fn waiting(&self, from: NodeId, to: NodeId) -> Vec<(Place, u32)> {
        let mut waiting = Vec::new();
        for (index, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection else { continue };
            for side in 0..2_u8 {
                let (end, peer) = (usize::from(side), usize::from(1 - side));
                let is_here = connection.ends[end].node == from && connection.ends[peer].node == to;
                if is_here && let Some(state) = connection.ends[end].retransmission {
                    waiting.push(((index as u32, connection.generation, side), state.number));
                }
            }
        }
        waiting
    }

    pub(super) fn slow(&mut self, from: NodeId, to: NodeId, extra_us: u64) {
        let link = self.link(from, to);
        self.extra_us[link] = extra_us;
    }

    /// Every established connection between two nodes is reset at both ends.
    pub(super) fn reset_all(&mut self, a: NodeId, b: NodeId, effects: &mut Effects) {
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else { continue };
            let nodes = (connection.ends[0].node, connection.ends[1].node);
            let is_between = nodes == (a, b) || nodes == (b, a);
            if !is_between || connection.handshake != Handshake::Established {
                continue;
            }
            if connection.ends.iter().all(|end| end.broken) {
                continue;
            }
            for end in &mut connection.ends {
                end.break_with(io::ErrorKind::ConnectionReset, effects);
            }
            effects.touch(Touch::Reset { a, b });
            if connection.is_over() {
                self.remove(index as u32);
            }
        }
    }

    fn latency_us(&mut self, from: NodeId, to: NodeId) -> u64 {
        let link = self.link(from, to);
        let Links { median_us, sigma_milli } = self.links;
        let draw = match &mut self.latencies[link] {
            Some(draw) => draw,
            empty => {
                let direction = format!("{}>{}", self.names[from.index()], self.names[to.index()]);
                empty.insert(Draw::new(self.seed, "latency", &direction))
            }
        };
        let us = draw.lognormal_us(median_us, sigma_milli) + self.extra_us[link];
        us.next_multiple_of(self.wire.tick_us)
    }

    /// Whether the machine of this end has died since the end came to be.
    fn has_lost_its_kernel(&self, end: &End) -> bool {
        end.life != self.lives[end.node.index()]
    }

    // -- machines and programs -------------------------------------------------

    /// The program of a node dies: its kernel closes what it held.
    pub(super) fn end_program(
        &mut self,
        queue: &mut super::queue::Queue<super::core::Step>,
        world: &World,
        node: NodeId,
        effects: &mut Effects,
    ) {
        self.stop_listening_all(queue, world, node, effects);
        for index in 0..self.connections.len() as u32 {
            for side in 0..2u8 {
                let holds = self.connections[index as usize].as_ref().is_some_and(|connection| {
                    let end = &connection.ends[usize::from(side)];
                    end.node == node && end.held
                });
                if holds {
                    let generation = self.generations[index as usize];
                    self.close(queue, world, (index, generation, side), effects);
                }
            }
        }
    }

    /// The machine of a node dies: its kernel forgets everything, in silence.
    pub(super) fn end_machine(&mut self, node: NodeId, effects: &mut Effects) {
        self.dead[node.index()] = true;
        self.lives[node.index()] += 1;
        let ports: Vec<u16> =
            self.listening.keys().filter(|(at, _)| *at == node).map(|(_, port)| *port).collect();
        for port in ports {
            if let Some(listening) = self.listening.remove(&(node, port)) {
                effects.wake(listening.acceptor);
            }
        }
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else { continue };
            for end in connection.ends.iter_mut().filter(|end| end.node == node) {
                end.forget(effects);
            }
            if connection.is_over() {
                self.remove(index as u32);
            }
        }
    }

    /// The machine is back, with an empty kernel.
    pub(super) fn start_machine(&mut self, node: NodeId) {
        self.dead[node.index()] = false;
    }
}

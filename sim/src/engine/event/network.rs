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
//! 200 ms, doubling to 120 s, for about 15 minutes; RST is never repeated. A message
//! crosses unless its link is cut when it leaves or when it arrives. A kernel
//! outlives its program: it closes the program's connections (RST if there was unread
//! data, FIN otherwise) and still delivers what it was given. A machine's death takes
//! the kernel along, in silence; a restarted machine answers strangers with RST.

mod connection;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::core::Effects;
use crate::draw::Draw;
use crate::engine::Links;
use crate::engine::world::{NodeId, World};

pub(super) use connection::{Handshake, Place};

/// What a direction of a connection may have written and not yet been read, bytes.
pub(super) const WINDOW_BYTES: usize = 64 * 1024;
/// Connections that a listener's kernel completes before the program accepts them.
const BACKLOG: usize = 128;
const FIRST_RTO_US: u64 = 200_000;
const RTO_MAX_US: u64 = 120_000_000;
/// How long undelivered data is retransmitted before the connection dies
/// (tcp_retries2 = 15).
const RETRANSMIT_FOR_US: u64 = 924_600_000;
/// SYNs are repeated after 1, 2, 4, 8, 16, 32 s (tcp_syn_retries = 6); then the
/// connect fails.
const SYN_REPEATS: u32 = 6;
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
}

/// A program's side of a connection, as its kernel keeps it.
struct End {
    node: NodeId,
    /// The machine's life in which this end exists; a machine crash begins a new one.
    life: u32,
    /// Whether a program still holds the socket.
    held: bool,
    /// Why the connection is over, at this end.
    broken: Option<io::ErrorKind>,

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
    undelivered: BTreeMap<u64, Segment>,
    retransmission: Option<Retransmission>,
    last_arrival_us: u64,
    finished: bool,
    writer: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Retransmission {
    since_us: u64,
    rto_us: u64,
}

struct Connection {
    generation: u32,
    handshake: Handshake,
    /// The connecting end's ephemeral port and the listening end's port.
    ports: [u16; 2],
    ends: [End; 2],
    connector: Option<Waker>,
}

#[derive(Default)]
struct Listening {
    ready: VecDeque<(u32, u32)>,
    acceptor: Option<Waker>,
}

/// All connections of a run.
pub(super) struct Network {
    connections: Vec<Option<Connection>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    listening: BTreeMap<(NodeId, u16), Listening>,
    links: Links,
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
}

impl Network {
    pub(super) fn new(world: &World, links: Links) -> Self {
        let nodes = world.len();
        Network {
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            listening: BTreeMap::new(),
            links,
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
        }
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

    pub(super) fn slow(&mut self, from: NodeId, to: NodeId, extra_us: u64) {
        let link = self.link(from, to);
        self.extra_us[link] = extra_us;
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
        draw.lognormal_us(median_us, sigma_milli) + self.extra_us[link]
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

//! What the parts of the engine share: the links, who listens where, whose machine is
//! silent, and what is to be done to turmoil between two steps.
//!
//! Locking: one mutex, never held while turmoil, the world or a closure is called.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use turmoil::net::TcpStream;

use super::breaker::Breaker;
use super::latency::Latency;
use super::link::{self, Inside, Links};
use super::listener::Backlog;
use super::socket::Connection;
use crate::engine::world::{NodeId, Touch, World};
use crate::engine::{Kernel, Stage};

/// Something that a fault or the storm wants done at a time.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// What turmoil can only be told of a link between two steps.
pub(super) enum LinkOperation {
    /// It is to be held or free, as the table of links says.
    Set(NodeId, NodeId),
    /// Its latency is to be as the table of links says.
    SetLatency(NodeId, NodeId),
    /// It was just cut: has that caught anything on the wire?
    LookAt(NodeId, NodeId),
    /// What a dead machine had on its links to these nodes, which were cut, is lost.
    ForgetHeld(NodeId, Vec<NodeId>),
}

/// What turmoil can only be told of a host between two steps.
pub(super) enum HostOperation {
    /// The program died: its tasks are dropped, its kernel lives on.
    EndProgram(NodeId),
    /// The machine died: nothing of it runs.
    EndMachine(NodeId),
    /// A new incarnation begins.
    Launch(NodeId, u32),
}

impl HostOperation {
    fn node(&self) -> NodeId {
        match *self {
            HostOperation::EndProgram(node)
            | HostOperation::EndMachine(node)
            | HostOperation::Launch(node, _) => node,
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) links: Links,
    pub(super) listening: BTreeMap<(NodeId, u16), Arc<Backlog>>,
    /// Machines that are down.
    pub(super) silent: BTreeSet<NodeId>,
    /// Sockets of dead programs, by node and in the order in which they were opened.
    buried: BTreeMap<(NodeId, u64), TcpStream>,
    /// The open sockets, by number: their addresses, here and there, and their marks.
    breakers: BTreeMap<u64, (Pair, Arc<Breaker>)>,
    /// The incarnation that a host's software is to run when turmoil starts it.
    pub(super) incarnations: Vec<Option<u32>>,
    pub(super) link_operations: VecDeque<LinkOperation>,
    host_operations: VecDeque<(u64, HostOperation)>,
    agenda: BTreeMap<(u64, u64), Action>,
    scheduled: u64,
}

/// The longest backlog: well below the number of SYNs at which turmoil panics.
const BACKLOG_MAX: usize = 512;

/// Addresses of a connection, here and there.
type Pair = (SocketAddr, SocketAddr);

/// Marks one end as reset and wakes its program. True if it was not reset before.
fn strike(breaker: &Breaker) -> bool {
    let (is_first, wakers) = breaker.strike();
    for waker in wakers {
        waker.wake();
    }
    is_first
}

pub(super) struct Network {
    pub(super) world: Arc<World>,
    pub(super) latency: Latency,
    pub(super) tick_us: u64,
    pub(super) kernel: Kernel,
    /// One for each node, told when its clock changes.
    pub(super) clocks: Vec<Notify>,
    /// Told when a link heals.
    pub(super) healed: Notify,
    state: Mutex<State>,
    /// Whether any link is cut or slowed: spares the ordinary write a look.
    disturbed: AtomicBool,
    finished: AtomicBool,
    steps: AtomicU64,
    messages: AtomicU64,
    sockets: AtomicU64,
}

impl Network {
    pub(super) fn new(stage: &Stage, tick_us: u64) -> Arc<Network> {
        let nodes = stage.world.len();
        Arc::new(Network {
            world: stage.world.clone(),
            latency: Latency::fit(stage.links, tick_us),
            tick_us,
            kernel: stage.kernel,
            clocks: (0..nodes).map(|_| Notify::new()).collect(),
            healed: Notify::new(),
            state: Mutex::new(State { incarnations: vec![None; nodes], ..State::default() }),
            disturbed: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            sockets: AtomicU64::new(0),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Steps begun.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(super) fn begin_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.clocks.len()).map(|index| NodeId(index as u16))
    }

    // -- the agenda ------------------------------------------------------------

    /// Has `action` run once `delay_us` have passed, between two steps.
    pub(super) fn schedule(&self, delay_us: u64, action: Action) {
        let at_us = self.world.now_us().saturating_add(delay_us);
        let state = &mut *self.lock();
        state.scheduled += 1;
        state.agenda.insert((at_us, state.scheduled), action);
    }

    /// Runs what is due. What these actions schedule for now waits for the next call.
    pub(super) fn run_due(&self) {
        let due = {
            let agenda = &mut self.lock().agenda;
            let later = agenda.split_off(&(self.world.now_us() + 1, 0));
            std::mem::replace(agenda, later)
        };
        for action in due.into_values() {
            action();
        }
    }

    /// Takes everything that could still call back into the run, for dropping at its end.
    pub(super) fn dismantle(&self) -> impl Sized + use<> {
        let state = &mut *self.lock();
        let sockets = (take(&mut state.buried), take(&mut state.breakers));
        (take(&mut state.agenda), take(&mut state.listening), sockets)
    }

    // -- links -----------------------------------------------------------------

    pub(super) fn cut(&self, from: NodeId, to: NodeId) {
        if self.change_links(|links| links.cut(from, to)) {
            self.set_link(from, to);
            self.lock().link_operations.push_back(LinkOperation::LookAt(from, to));
        }
    }

    pub(super) fn heal(&self, from: NodeId, to: NodeId) {
        if self.change_links(|links| links.heal(from, to)) {
            self.set_link(from, to);
            self.healed.notify_waiters();
        }
    }

    pub(super) fn slow(&self, from: NodeId, to: NodeId, extra_us: u64) {
        self.change_links(|links| links.slow(from, to, extra_us));
        self.lock().link_operations.push_back(LinkOperation::SetLatency(from, to));
    }

    fn change_links<R>(&self, change: impl FnOnce(&mut Links) -> R) -> R {
        let links = &mut self.lock().links;
        let result = change(links);
        self.disturbed.store(links.are_disturbed(), Ordering::Relaxed);
        result
    }

    /// Tells turmoil at once if that can be done from here, or else before its next step.
    fn set_link(&self, a: NodeId, b: NodeId) {
        if ::turmoil::in_simulation() {
            let is_held = self.is_held(a, b);
            link::set(&Inside, is_held, a, b);
        } else {
            self.lock().link_operations.push_back(LinkOperation::Set(a, b));
        }
    }

    pub(super) fn is_held(&self, a: NodeId, b: NodeId) -> bool {
        self.disturbed.load(Ordering::Relaxed) && self.lock().links.is_held(a, b)
    }

    /// One-way latency of the link at its median, µs.
    pub(super) fn latency_us(&self, a: NodeId, b: NodeId) -> u64 {
        let extra_us = match self.disturbed.load(Ordering::Relaxed) {
            true => self.lock().links.extra_us(a, b),
            false => 0,
        };
        self.latency.median_us + extra_us
    }

    /// Counts a message and tells which faults it met.
    pub(super) fn sent(&self, from: NodeId, to: NodeId) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        if !self.disturbed.load(Ordering::Relaxed) {
            return;
        }
        let (is_held, is_slow) = {
            let links = &self.lock().links;
            (links.is_held(from, to), links.extra_us(from, to) > 0)
        };
        if is_held {
            self.world.touch(Touch::Cut { from, to });
        }
        if is_slow {
            self.world.touch(Touch::Slowed { from, to });
        }
    }

    // -- machines --------------------------------------------------------------

    /// The node's program is gone: nobody listens there.
    pub(super) fn end_program(&self, node: NodeId) {
        // The sockets that wait in a backlog must be dropped by their own host, which
        // still has the other handle to it; what is dropped here is the lesser one.
        let gone: Vec<_> = {
            let listening = &mut self.lock().listening;
            let ports: Vec<_> = listening.keys().filter(|(at, _)| *at == node).copied().collect();
            ports.into_iter().filter_map(|port| listening.remove(&port)).collect()
        };
        drop(gone);
    }

    /// The node's machine is gone: it will say nothing more.
    pub(super) fn end_machine(&self, node: NodeId) {
        self.lock().silent.insert(node);
        self.end_program(node);
        // Which links are cut is asked now: a heal may follow before turmoil is told.
        let peers = self.nodes().filter(|peer| *peer != node && self.is_held(node, *peer));
        let peers: Vec<_> = peers.collect();
        if ::turmoil::in_simulation() {
            self.forget_held(&Inside, node, &peers);
        } else {
            self.lock().link_operations.push_back(LinkOperation::ForgetHeld(node, peers));
        }
    }

    pub(super) fn is_silent(&self, node: NodeId) -> bool {
        self.lock().silent.contains(&node)
    }

    /// What a dead machine's kernel wanted to send and a cut has kept is lost with it.
    pub(super) fn forget_held(
        &self,
        switches: &dyn link::Switches,
        node: NodeId,
        peers: &[NodeId],
    ) {
        for peer in peers {
            link::forget(switches, node, *peer);
            link::set(switches, self.is_held(node, *peer), node, *peer);
        }
    }

    // -- hosts -----------------------------------------------------------------

    /// Has turmoil's host crashed or started, soon.
    pub(super) fn operate(&self, operation: HostOperation) {
        let steps = self.steps();
        self.lock().host_operations.push_back((steps, operation));
    }

    /// Takes what can be done to hosts now, in the order in which it was asked for. The
    /// end of a program waits until its host has run once more: in that step the
    /// program's tasks, which the world has aborted, are dropped one by one in the order
    /// of their birth. What then is left is dropped with the runtime, and tokio does
    /// that in an order that depends on how many tasks this process has ever had.
    pub(super) fn ready_operations(&self) -> Vec<HostOperation> {
        let steps = self.steps();
        let queue = &mut self.lock().host_operations;
        let (mut ready, mut waiting) = (Vec::new(), BTreeSet::new());
        for (asked, operation) in std::mem::take(queue) {
            let node = operation.node();
            let is_end = !matches!(operation, HostOperation::Launch(..));
            if waiting.contains(&node) || (is_end && asked >= steps) {
                waiting.insert(node);
                queue.push_back((asked, operation));
            } else {
                ready.push(operation);
            }
        }
        ready
    }

    /// The number of a new socket.
    pub(super) fn number_socket(&self) -> u64 {
        self.sockets.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a backlog of so many connections takes no more.
    pub(super) fn is_full(&self, backlog: usize) -> bool {
        self.kernel.is_full(backlog) || backlog >= BACKLOG_MAX
    }

    /// Keeps the mark of a socket that was opened now.
    pub(super) fn open(&self, stream: TcpStream) -> Connection {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let here = stream.local_addr().unwrap_or(nowhere);
        let there = stream.peer_addr().unwrap_or(nowhere);
        let (number, breaker) = (self.number_socket(), Arc::new(Breaker::default()));
        self.lock().breakers.insert(number, ((here, there), breaker.clone()));
        Connection { stream, number, breaker }
    }

    /// The node of an address.
    fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        match address.ip() {
            IpAddr::V4(ip) => self.world.node_at(ip),
            IpAddr::V6(_) => None,
        }
    }

    /// Resets all connections between two nodes.
    pub(super) fn reset(&self, a: NodeId, b: NodeId) {
        let between = {
            let mut all: Vec<_> = self.lock().breakers.values().cloned().collect();
            all.retain(|((here, there), _)| {
                let nodes = (self.node_at(*here), self.node_at(*there));
                nodes == (Some(a), Some(b)) || nodes == (Some(b), Some(a))
            });
            all
        };
        for (_, breaker) in between {
            if strike(&breaker) {
                self.world.touch(Touch::Reset { a, b });
            }
        }
    }

    /// Sends a reset to the other end of a socket. It travels as fast as anything on its
    /// link: behind it comes turmoil's FIN, which is not to be heard. A cut eats it.
    pub(super) fn send_reset(self: &Arc<Self>, number: u64) {
        let Some((here, there)) = self.lock().breakers.get(&number).map(|(pair, _)| *pair) else {
            return;
        };
        let (Some(from), Some(to)) = (self.node_at(here), self.node_at(there)) else { return };
        self.sent(from, to);
        if self.is_held(from, to) {
            return;
        }
        let delay_us = match from == to {
            true => self.tick_us,
            false => self.latency_us(from, to) - self.latency.median_us + self.latency.min_us,
        };
        let network = self.clone();
        let arrive = move || {
            if network.is_held(from, to) {
                network.world.touch(Touch::Cut { from, to });
            } else if let Some(breaker) = network.breaker_of((there, here)) {
                strike(&breaker);
            }
        };
        self.schedule(delay_us, Box::new(arrive));
    }

    fn breaker_of(&self, pair: Pair) -> Option<Arc<Breaker>> {
        let breakers = &self.lock().breakers;
        let mut found = breakers.values().filter(|(of, _)| *of == pair);
        found.next().map(|(_, breaker)| breaker.clone())
    }

    /// The other ends of the node's sockets that wait for room will be reset, for there
    /// is something that was not read. turmoil resets them too, and does not wake them.
    pub(super) fn reset_waiting_writers(self: &Arc<Self>, node: NodeId) {
        let all: Vec<_> =
            self.lock().breakers.iter().map(|(number, (pair, _))| (*number, pair.0)).collect();
        let of_node = all.into_iter().filter(|(_, here)| self.node_at(*here) == Some(node));
        for (number, _) in of_node {
            self.reset_waiting_writer(number);
        }
    }

    fn reset_waiting_writer(self: &Arc<Self>, number: u64) {
        let pair = self.lock().breakers.get(&number).map(|((here, there), _)| (*there, *here));
        let other = pair.and_then(|pair| self.breaker_of(pair));
        if other.is_some_and(|other| other.waits_for_room()) {
            self.send_reset(number);
        }
    }

    /// Closes a socket. Those of a dead program are kept for its host to close, in the
    /// order of their numbers.
    pub(super) fn close(
        self: &Arc<Self>,
        (node, incarnation): (NodeId, u32),
        number: u64,
        stream: TcpStream,
    ) {
        if self.world.is_alive(node, incarnation) {
            self.reset_waiting_writer(number);
        }
        let breaker = self.lock().breakers.remove(&number);
        drop(breaker);
        if !self.world.is_alive(node, incarnation) {
            self.lock().buried.insert((node, number), stream);
        }
    }

    /// The sockets of the node's dead program, to be dropped by its own host: none as
    /// long as its machine is dead, for that would be heard.
    pub(super) fn exhume(&self, node: NodeId) -> Vec<TcpStream> {
        let state = &mut *self.lock();
        if state.silent.contains(&node) {
            return Vec::new();
        }
        let mut of_node = state.buried.split_off(&(node, 0));
        state.buried.append(&mut of_node.split_off(&(NodeId(node.0 + 1), 0)));
        of_node.into_values().collect()
    }
}

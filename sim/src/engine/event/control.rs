//! What faults do to a running stage on the event engine.

use std::sync::Arc;

use super::core::{Core, EventSubstrate, Step};
use crate::engine::clock::ClockChange;
use crate::engine::machine::SimulatedMachine;
use crate::engine::world::NodeId;
use crate::engine::{Control, Factory};

pub(super) struct EventControl {
    core: Arc<Core>,
    substrate: Arc<EventSubstrate>,
    factories: Arc<[Factory]>,
}

impl EventControl {
    pub(super) fn new(
        core: Arc<Core>,
        substrate: Arc<EventSubstrate>,
        factories: Arc<[Factory]>,
    ) -> Self {
        EventControl { core, substrate, factories }
    }

    /// Starts the node's program in a new incarnation, unless it is up.
    pub(super) fn start_node(&self, node: NodeId) {
        let world = &self.core.world;
        let Some(incarnation) = world.start(node) else { return };
        self.core.lock().network.start_machine(node);
        let substrate = self.substrate.clone();
        let host = SimulatedMachine::host(world.clone(), substrate, node, incarnation);
        let program = (self.factories[node.index()])(host);
        world.spawn(node, incarnation, "main", program);
    }

    /// Declares what strikes this node not expressible beside tasks that nobody knows.
    fn strike(&self, fault: &str, node: NodeId) {
        let (core, world) = (&self.core, &self.core.world);
        let Some(strangers) = &core.strangers else { return };
        if let Some(clause) = strangers.object(core, fault, &world.name(node)) {
            world.declare_not_expressible(clause);
        }
    }
}

impl Control for EventControl {
    fn crash_process(&self, node: NodeId) {
        if self.core.world.is_up(node) {
            self.strike("a crash", node);
        }
        if self.core.world.crash(node) {
            self.core.change(|state, effects| {
                let network = &mut state.network;
                network.end_program(&mut state.queue, &self.core.world, node, effects);
            });
        }
    }

    fn crash_machine(&self, node: NodeId) {
        if self.core.world.is_machine_up(node) {
            self.strike("a crash", node);
        }
        if self.core.world.crash_machine(node) {
            self.core.change(|state, effects| state.network.end_machine(node, effects));
        }
    }

    fn start(&self, node: NodeId) {
        self.start_node(node);
    }

    fn pause(&self, node: NodeId, group: Option<&str>) {
        // A group's pause is of tasks that were spawned through their host.
        if group.is_none() && self.core.world.is_up(node) {
            self.strike("a pause", node);
        }
        self.core.world.pause(node, group);
    }

    fn resume(&self, node: NodeId, group: Option<&str>) {
        self.core.world.resume(node, group);
    }

    fn cut(&self, from: NodeId, to: NodeId) {
        self.core.lock().network.cut(from, to);
    }

    fn heal(&self, from: NodeId, to: NodeId) {
        let state = &mut *self.core.lock();
        state.network.heal(from, to);
        if self.core.prompt {
            for (place, number) in state.network.waiting(from, to) {
                let (connection, generation, side) = place;
                let step = Step::Retransmit { connection, generation, side, number };
                state.queue.push(self.core.now_us(), step);
            }
        }
    }

    fn slow(&self, from: NodeId, to: NodeId, extra_us: u64) {
        self.core.lock().network.slow(from, to, extra_us);
    }

    fn reset(&self, a: NodeId, b: NodeId) {
        self.core.change(|state, effects| state.network.reset_all(a, b, effects));
    }

    fn change_clock(&self, node: NodeId, change: ClockChange) {
        self.core.world.change_clock(node, change);
        let wakers = self.core.lock().timers.fire_all_of(node);
        for waker in wakers {
            waker.wake();
        }
    }

    fn after(&self, delay_us: u64, action: Box<dyn FnOnce() + Send>) {
        let at_us = self.core.now_us() + delay_us;
        self.core.lock().queue.push(at_us, Step::Action(action));
    }

    fn finish(&self) {
        self.core.finish();
    }
}

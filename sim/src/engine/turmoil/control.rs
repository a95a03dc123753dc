//! What faults do to a running stage on turmoil.
//!
//! The world hears of a fault at once. turmoil's links too; its hosts are crashed and
//! started between two steps, in the order in which it was asked for, and what is
//! left of a step runs without the dead: the world polls none of their tasks.

use std::sync::Arc;

use super::network::{HostOperation, Network};
use crate::engine::Control;
use crate::engine::clock::ClockChange;
use crate::engine::world::NodeId;

pub(super) struct TurmoilControl(pub(super) Arc<Network>);

impl Control for TurmoilControl {
    fn crash_process(&self, node: NodeId) {
        if self.0.world.crash(node) {
            self.0.reset_waiting_writers(node);
            self.0.end_program(node);
            self.0.operate(HostOperation::EndProgram(node));
        }
    }

    fn crash_machine(&self, node: NodeId) {
        if self.0.world.is_machine_up(node) {
            self.0.end_machine(node);
            self.0.world.crash_machine(node);
            self.0.operate(HostOperation::EndMachine(node));
        }
    }

    fn start(&self, node: NodeId) {
        if let Some(incarnation) = self.0.world.start(node) {
            self.0.operate(HostOperation::Launch(node, incarnation));
        }
    }

    fn pause(&self, node: NodeId, group: Option<&str>) {
        self.0.world.pause(node, group);
    }

    fn resume(&self, node: NodeId, group: Option<&str>) {
        self.0.world.resume(node, group);
    }

    fn cut(&self, from: NodeId, to: NodeId) {
        self.0.cut(from, to);
    }

    fn heal(&self, from: NodeId, to: NodeId) {
        self.0.heal(from, to);
    }

    fn slow(&self, from: NodeId, to: NodeId, extra_us: u64) {
        self.0.slow(from, to, extra_us);
    }

    fn reset(&self, a: NodeId, b: NodeId) {
        self.0.reset(a, b);
    }

    fn change_clock(&self, node: NodeId, change: ClockChange) {
        self.0.world.change_clock(node, change);
        self.0.clocks[node.index()].notify_waiters();
    }

    fn after(&self, delay_us: u64, action: Box<dyn FnOnce() + Send>) {
        self.0.schedule(delay_us, action);
    }

    fn finish(&self) {
        self.0.finish();
    }
}

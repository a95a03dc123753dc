//! What faults do to a running stage on madsim.

use std::sync::Arc;

use lockstorm_sim::engine::clock::ClockChange;
use lockstorm_sim::engine::machine::SimulatedMachine;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Factory};
use madsim::net::NetSim;
use madsim::runtime::Handle;

use super::core::Core;
use super::library;
use super::substrate::MadsimSubstrate;

pub(super) struct MadsimControl {
    core: Arc<Core>,
    substrate: Arc<MadsimSubstrate>,
    factories: Arc<[Factory]>,
    madsim: Handle,
    network: Arc<NetSim>,
}

impl MadsimControl {
    /// Of the runtime of madsim that runs on this thread.
    pub(super) fn new(core: Arc<Core>, factories: Arc<[Factory]>) -> Self {
        let substrate = Arc::new(MadsimSubstrate(core.clone()));
        let (madsim, network) = (Handle::current(), NetSim::current());
        MadsimControl { core, substrate, factories, madsim, network }
    }

    /// Starts the machine if it is dead, and the program as soon as there is a kernel.
    fn launch(&self, node: NodeId, incarnation: u32) {
        let core = &self.core;
        if core.lock().machine(node).is_dead {
            let id = core.lock().machine(node).handle.id();
            self.madsim.restart(id);
            let handle = self.madsim.get_node(id);
            let machine = &mut core.lock().machines[node.index()];
            machine.is_dead = false;
            if let Some(handle) = handle {
                machine.handle = handle;
            }
        }
        if let Err(error) = library::begin(core, node, incarnation) {
            return core.get_stuck(format!("tokio's runtime did not start: {error}"));
        }
        let (world, substrate) = (core.world.clone(), self.substrate.clone());
        let host = SimulatedMachine::host(world, substrate, node, incarnation);
        let (factory, booting) = (self.factories[node.index()].clone(), core.clone());
        let program = async move {
            booting.until_booted(node).await;
            factory(host).await;
        };
        core.world.spawn(node, incarnation, "main", Box::pin(program));
    }

    fn link(&self, from: NodeId, to: NodeId) -> (madsim::task::NodeId, madsim::task::NodeId) {
        let state = self.core.lock();
        (state.machine(from).handle.id(), state.machine(to).handle.id())
    }
}

impl Control for MadsimControl {
    fn crash_process(&self, node: NodeId) {
        if self.core.world.crash(node) {
            let core = &self.core;
            core.change(|state, effects| core.end_program(state, node, effects));
        }
    }

    fn crash_machine(&self, node: NodeId) {
        if self.core.world.crash_machine(node) {
            let core = &self.core;
            core.change(|state, effects| core.end_machine(state, node, effects));
            let id = core.lock().machine(node).handle.id();
            self.madsim.kill(id);
        }
    }

    fn start(&self, node: NodeId) {
        if let Some(incarnation) = self.core.world.start(node) {
            self.launch(node, incarnation);
        }
    }

    fn pause(&self, node: NodeId, group: Option<&str>) {
        self.core.world.pause(node, group);
    }

    fn resume(&self, node: NodeId, group: Option<&str>) {
        self.core.world.resume(node, group);
    }

    fn cut(&self, from: NodeId, to: NodeId) {
        if self.core.lock().links.cut(from, to) {
            let (from, to) = self.link(from, to);
            self.network.clog_link(from, to);
        }
    }

    fn heal(&self, from: NodeId, to: NodeId) {
        if self.core.lock().links.heal(from, to) {
            let (from, to) = self.link(from, to);
            self.network.unclog_link(from, to);
        }
    }

    fn slow(&self, from: NodeId, to: NodeId, extra_us: u64) {
        self.core.lock().links.slow(from, to, extra_us);
    }

    fn reset(&self, a: NodeId, b: NodeId) {
        self.core.change(|state, effects| self.core.reset_all(state, a, b, effects));
    }

    fn change_clock(&self, node: NodeId, change: ClockChange) {
        self.core.world.change_clock(node, change);
        self.core.clocks[node.index()].notify_waiters();
    }

    fn after(&self, delay_us: u64, action: Box<dyn FnOnce() + Send>) {
        self.core.schedule(delay_us, action);
    }

    fn finish(&self) {
        self.core.finish();
    }
}

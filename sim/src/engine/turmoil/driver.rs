//! Turns the crank: builds turmoil's simulation, steps it tick by tick, and does
//! between two steps what cannot be done within one.
//!
//! Order of things around a step: the hosts run at the tick's time; then what was
//! scheduled for no delay, still at that time; then turmoil's links are set and its
//! hosts crashed and started; then the clock moves to the next tick, what is due there
//! is done, and links and hosts once more, before any host runs.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use turmoil::{Builder, Sim};

use super::Turmoil;
use super::control::TurmoilControl;
use super::latency::round_up_us;
use super::link;
use super::network::{HostOperation, LinkOperation, Network};
use super::substrate::TurmoilSubstrate;
use crate::draw::Draw;
use crate::engine::clock::WALL_ORIGIN_US;
use crate::engine::machine::SimulatedMachine;
use crate::engine::world::{NodeId, Touch, panic_message};
use crate::engine::{Ending, Factory, Stage};
use crate::engine::{current, senses};

/// Segments that a direction of a connection holds before its writer must wait, and
/// SYNs that a listener holds; turmoil has one number for both, and panics when the
/// second overflows. (Backlogs are bounded by ours, far below.)
const TCP_CAPACITY: usize = 1_024;

/// Runs the stage to its end.
pub(super) fn drive(engine: Turmoil, stage: Stage) -> Ending {
    let _senses = senses::enter(&stage.world);
    let network = Network::new(&stage, engine.tick_us());
    let _current = current::enter(&network.world, Arc::new(TurmoilSubstrate(network.clone())));
    let recorder = stage.recorder.clone();
    (stage.opening)(Arc::new(TurmoilControl(network.clone())));
    for node in network.nodes() {
        let incarnation = network.world.start(node);
        network.lock().incarnations[node.index()] = incarnation;
    }
    let mut sim = build(engine, &network, stage.ends_at_us);
    for (node, factory) in network.nodes().zip(stage.factories) {
        register(&mut sim, &network, node, factory);
    }
    let stuck = loop {
        operate_links(&mut sim, &network);
        operate_hosts(&mut sim, &network);
        if network.is_finished() || network.world.now_us() >= stage.ends_at_us {
            break None;
        }
        if let Err(why) = step(&mut sim, &network) {
            break Some(why);
        }
        network.run_due();
        operate_links(&mut sim, &network);
        operate_hosts(&mut sim, &network);
        network.world.set_now_us(sim.elapsed().as_micros() as u64);
        network.run_due();
    };
    recorder.stop();
    let steps = network.steps();
    // As in a crash, tasks are dropped in order; one of them may well panic at that.
    let torn = catch_unwind(AssertUnwindSafe(|| {
        for node in network.nodes() {
            network.world.crash(node);
        }
        let last = if stuck.is_none() { sim.step().map(|_| ()) } else { Ok(()) };
        drop(sim);
        last.is_ok()
    }));
    drop(network.dismantle());
    network.world.let_go();
    let stuck = stuck.or_else(|| {
        let payload = torn.err()?;
        Some(format!("a task panicked as it was dropped: {}", panic_message(&*payload)))
    });
    let not_expressible = network.world.not_expressible().is_some();
    Ending { steps, messages: network.messages(), stuck, not_expressible, mend: None }
}

fn build<'a>(engine: Turmoil, network: &Network, ends_at_us: u64) -> Sim<'a> {
    let latency = network.latency;
    let mut seed = Draw::new(network.world.seed(), "turmoil", &engine.reseed.to_string());
    let epoch = Duration::from_micros(WALL_ORIGIN_US.unsigned_abs());
    let sim = Builder::new()
        .rng_seed(seed.bits())
        .epoch(SystemTime::UNIX_EPOCH + epoch)
        .tick_duration(Duration::from_micros(network.tick_us))
        // Ours is the end of the run; turmoil's only must not come before it.
        .simulation_duration(Duration::from_micros(ends_at_us) + Duration::from_secs(60))
        .min_message_latency(Duration::from_micros(latency.min_us))
        .max_message_latency(Duration::from_micros(latency.max_us))
        .tcp_capacity(TCP_CAPACITY)
        .build();
    sim.set_message_latency_curve(latency.curve);
    sim
}

/// Makes a node a host. Its software is a kernel that never ends and in which, if the
/// node is up, the program runs.
fn register(sim: &mut Sim<'_>, network: &Arc<Network>, node: NodeId, factory: Factory) {
    let substrate = Arc::new(TurmoilSubstrate(network.clone()));
    let (name, network) = (network.world.name(node), network.clone());
    sim.host(&*name, move || {
        let incarnation = network.lock().incarnations[node.index()];
        // Here turmoil acts for this host.
        drop(network.exhume(node));
        let (network, substrate, factory) = (network.clone(), substrate.clone(), factory.clone());
        async move {
            if let Some(incarnation) = incarnation {
                let world = network.world.clone();
                let host = SimulatedMachine::host(world.clone(), substrate, node, incarnation);
                let program: lockstorm::host::BoxFuture<'static, ()> =
                    Box::pin(async move { factory(host).await });
                world.spawn(node, incarnation, "main", program);
            }
            std::future::pending().await
        }
    });
}

/// One tick. What goes wrong in it is told with the name of the node.
fn step(sim: &mut Sim<'_>, network: &Network) -> Result<(), String> {
    network.begin_step();
    let result = catch_unwind(AssertUnwindSafe(|| sim.step()));
    if let Some(why) = network.world.stuck() {
        return Err(why);
    }
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("turmoil stopped: {error}")),
        Err(payload) => Err(blame(sim, network, &*payload)),
    }
}

/// Finds the host whose runtime was shut down by a panic of a task that was spawned
/// past the host: the simulation steps again once that host is out of the way.
fn blame(sim: &mut Sim<'_>, network: &Network, payload: &(dyn Any + Send)) -> String {
    let message = panic_message(payload);
    for node in network.nodes() {
        network.world.crash(node);
    }
    for node in network.nodes() {
        let crashed = catch_unwind(AssertUnwindSafe(|| {
            sim.crash(link::address(node));
            sim.step().is_ok()
        }));
        if matches!(crashed, Ok(true)) {
            return format!("a task of {} panicked: {message}", network.world.name(node));
        }
    }
    format!("a task panicked: {message}")
}

/// Does what was asked of links.
fn operate_links(sim: &mut Sim<'_>, network: &Network) {
    loop {
        // A statement of its own: the lock must be free again when the operation runs.
        let operation = network.lock().link_operations.pop_front();
        match operation {
            Some(LinkOperation::Set(a, b)) => link::set(sim, network.is_held(a, b), a, b),
            Some(LinkOperation::SetLatency(a, b)) => set_latency(sim, network, a, b),
            Some(LinkOperation::LookAt(a, b)) => look_at(sim, network, a, b),
            Some(LinkOperation::ForgetHeld(node, peers)) => network.forget_held(sim, node, &peers),
            None => return,
        }
    }
}

/// Does what was asked of hosts and can be done now.
fn operate_hosts(sim: &mut Sim<'_>, network: &Network) {
    for operation in network.ready_operations() {
        match operation {
            HostOperation::EndProgram(node) => restart(sim, network, node, None),
            HostOperation::EndMachine(node) => sim.crash(link::address(node)),
            HostOperation::Launch(node, incarnation) => launch(sim, network, node, incarnation),
        }
    }
}

/// Drops all that runs on a host and starts its software anew.
fn restart(sim: &mut Sim<'_>, network: &Network, node: NodeId, incarnation: Option<u32>) {
    network.lock().incarnations[node.index()] = incarnation;
    sim.bounce(link::address(node));
}

/// Starts a node's next incarnation, unless that has died already.
fn launch(sim: &mut Sim<'_>, network: &Network, node: NodeId, incarnation: u32) {
    if !network.world.is_alive(node, incarnation) {
        return;
    }
    let was_silent = network.lock().silent.remove(&node);
    if !was_silent {
        return restart(sim, network, node, Some(incarnation));
    }
    // The dead machine has gone without a word: what turmoil still has of it is closed
    // while nobody can hear it.
    let peers: Vec<_> = network.nodes().filter(|peer| *peer != node).collect();
    for peer in &peers {
        link::forget(sim, node, *peer);
    }
    restart(sim, network, node, Some(incarnation));
    for peer in peers {
        link::set(sim, network.is_held(node, peer), node, peer);
    }
}

fn set_latency(sim: &mut Sim<'_>, network: &Network, a: NodeId, b: NodeId) {
    let extra_us = round_up_us(network.lock().links.extra_us(a, b), network.tick_us);
    let (a, b) = (link::address(a), link::address(b));
    let after = |us: u64| Duration::from_micros(us + extra_us);
    // The first sets both ends of the range.
    sim.set_link_latency(a, b, after(network.latency.min_us));
    sim.set_link_max_message_latency(a, b, after(network.latency.max_us));
}

/// Tells whether a cut has caught anything that was on the wire.
fn look_at(sim: &mut Sim<'_>, network: &Network, a: NodeId, b: NodeId) {
    let mut caught = BTreeSet::new();
    let pair = (link::address(a), link::address(b));
    sim.links(|links| {
        for link in links.filter(|link| link.pair() == pair || link.pair() == (pair.1, pair.0)) {
            caught.extend(link.map(|sent| sent.pair().0.ip() == pair.0));
        }
    });
    for is_from_a in caught {
        let (from, to) = if is_from_a { (a, b) } else { (b, a) };
        network.world.touch(Touch::Cut { from, to });
    }
}

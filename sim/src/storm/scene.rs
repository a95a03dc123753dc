//! Builds a plan's nodes and lets an engine run them.

mod nodes;
mod setting;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockstorm::lock::Promises;
use lockstorm::stock::Stock;

use super::Manner;
use super::conductor::{Conductor, Patience, Stop};
use super::connections::{Connections, Pools};
use super::drawn::Drawn;
use super::frozen::Freezing;
use super::locks::{self, LockFactory};
use super::observe::ConductorCell;
use super::observe::zookeeper::EnsembleWatch;
use super::place;
use super::postgres::Cluster;
use super::reseed::Lull;
use super::served::Served;
use super::served::roll::Roll;
use crate::check::Setting;
use crate::disk::{self, Disk};
use crate::engine::clock::ClockChange;
use crate::engine::world::{NodeId, World};
use crate::engine::{Control, Ending, Engine, Kernel, Links, Stage};
use crate::engine::{current, senses};
use crate::fault::Ground;
use crate::fault::cancel::Cancellations;
use crate::history::recorder::TraceHash;
use crate::history::{History, Name, Recorder, What};
use crate::plan::scenario::OWN_LOCK;
use crate::plan::{Plan, StockPlace};
use crate::server::redis::ReplicationGate;
use crate::server::zookeeper;

/// The port of every Redis server.
pub const REDIS_PORT: u16 = 6_379;
/// Longer than anybody serves, µs.
const FOR_EVER_US: u64 = u64::MAX / 4;
/// The port of the stock.
pub const STOCK_PORT: u16 = 7_000;

/// What running a scene gave.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// Its fingerprint.
    pub trace_hash: TraceHash,
    /// What the checkers must know beside it.
    pub setting: Setting,
    /// What it cost, or how it got stuck.
    pub ending: Ending,
    /// How the connections were used, where buyers share pools of them.
    pub connections: Option<Connections>,
}

/// Programs outside: where they come in, and who of them holds what.
type Outside = (Arc<Served>, Arc<Roll>);

/// Everything the nodes of one run share.
struct Scene {
    plan: Plan,
    world: Arc<World>,
    recorder: Recorder,
    stop: Arc<Stop>,
    stock: Arc<Mutex<Stock>>,
    gates: Arc<BTreeMap<NodeId, ReplicationGate>>,
    disks: Arc<BTreeMap<NodeId, Disk>>,
    cancellations: Cancellations,
    conductor: ConductorCell,
    ensemble: Arc<EnsembleWatch>,
    database: Arc<Cluster>,
    pools: Pools,
    lull: Lull,
    lock_factory: LockFactory,
    /// Whose records are whose, of a lock that is not ours.
    drawn: Option<Arc<Drawn>>,
    /// Programs outside, in the place of the clients, and who of them holds what.
    served: Option<Outside>,
    /// Who looks into the servers once they stand still.
    freezing: Option<Arc<Freezing>>,
    /// Why a node could not even begin.
    failure: Arc<OnceLock<String>>,
}

/// Runs `plan` on `engine`, on this thread, which is this run's alone, in this `manner`.
///
/// # Errors
/// When the lock cannot be built.
pub(super) fn run(
    plan: &Plan,
    engine: &dyn Engine,
    lock_factory: &LockFactory,
    manner: Manner,
) -> Result<Outcome, String> {
    let names: Vec<Name> = plan.topology.nodes().into_iter().map(Name::from).collect();
    let world = World::new(plan.seed.0, names.iter().cloned());
    place::begin(&world);
    let _senses = engine.gives_senses().then(|| senses::enter(&world));
    let clock = world.clone();
    let recorder = Recorder::new(move || clock.now_us());
    let served = manner.served.map(|served| enrolled(plan, served, &world, &recorder));
    if manner.asides {
        recorder.keep_asides();
    }
    let lull = Lull::default();
    if let Some(reseed) = manner.reseed {
        // Before anybody else listens: what an event sets off is its future.
        reseed.wait(&recorder, lull.clone());
    }
    if let Some(freezing) = &manner.freezing {
        freezing.begin(&world, &recorder);
    }
    let with = With { lull, served, freezing: manner.freezing };
    let scene = Scene::of(plan, &world, &recorder, with, lock_factory);
    let (promises, patience, ends_at_us) = match scene.served {
        // Nothing is known of what they promise, or how patient they are.
        Some(_) => (Promises::default(), Patience::NONE, FOR_EVER_US),
        None => {
            let (bound, promises) = declared(&scene)?;
            let patience = patience(plan, bound);
            (promises, patience, plan.duration.0 + patience.takeover_us + 2 * patience.settle_us)
        }
    };
    let factories = names.iter().enumerate().map(|(index, name)| {
        let node = NodeId(index as u16);
        scene.announced(name, scene.factory(node, name))
    });
    let (opening, held) = opening(&scene, patience);
    let ending = engine.run(Stage {
        world,
        factories: factories.collect(),
        links: Links {
            median_us: plan.topology.latency.0,
            sigma_milli: u64::from(plan.topology.latency_sigma_milli),
        },
        kernel: Kernel::default(),
        ends_at_us,
        recorder: recorder.clone(),
        opening,
    });
    drop(held);
    let (history, trace_hash) = recorder.close();
    let unserved = scene.served.as_ref().and_then(|(served, _)| served.failure());
    if let Some(why) = scene.failure.get().or(unserved) {
        return Err(why.clone());
    }
    let setting = setting::of(&scene, &history, patience, promises);
    Ok(Outcome { history, trace_hash, setting, ending, connections: connections(&scene) })
}

/// How the connections were used, where buyers share pools of them.
fn connections(scene: &Scene) -> Option<Connections> {
    let workload = &scene.plan.workload;
    (workload.stock == StockPlace::SqlPooled)
        .then(|| Connections::of(workload.pool, &scene.pools, scene.database.crowd()))
}

/// What the lock declares: its takeover bound, with the time in which sentinels
/// replace a master or servers their leader, and what else it promises.
fn declared(scene: &Scene) -> Result<(Duration, Promises), String> {
    // It is a matter of options, not of a node. The production machine has no place
    // here: what a lock draws or reads as it is made would come from outside of the seed.
    let host = current::nobody(scene.world.clone());
    let lock = scene.lock_factory.lock(&host, &scene.plan)?;
    let topology = &scene.plan.topology;
    let mut failover = match topology.sentinels {
        0 => Duration::ZERO,
        _ => Duration::from_micros(topology.down_after.0) + Duration::from_secs(4),
    };
    if topology.zookeeper > 1 {
        // Followers find out that their leader is silent (syncLimit), elect another, and
        // it gives every session its whole timeout anew.
        let limit = zookeeper::Settings::default().sync_limit + 1;
        failover += topology.tick.to_duration() * limit + Duration::from_secs(2);
    }
    // Whoever never looks cannot be told.
    let listens = scene.plan.workload.deadline_check;
    let mut promises = lock.promises();
    promises.loss_notice_bound = promises.loss_notice_bound.filter(|_| listens);
    let planted = crate::planted::find(&scene.plan.lock.name);
    promises.ordered_tokens |= planted.is_some_and(|(bug, _)| bug.ordered_tokens);
    Ok((lock.takeover_bound() + failover, promises))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn patience(plan: &Plan, bound: Duration) -> Patience {
    let workload = &plan.workload;
    let round_us = workload.patience.0 + 2 * workload.slow_work.0 + 2 * workload.work.0;
    Patience { takeover_us: micros(bound), settle_us: round_us + 20 * plan.lock.command_timeout.0 }
}

/// A server's program has come to an end of its own: it could not listen, or not keep what
/// it must. Its node is down from here on, until a crash of it, or its disk's failure, is over.
pub(super) fn ended(recorder: &Recorder, name: &Name, result: io::Result<()>) {
    let how = result.map_or_else(|error| error.to_string(), |()| "it was shut down".to_owned());
    recorder.record(name, What::ProgramEnded { how });
}

/// Sets the clocks, then lets the conductor take its place. The second value keeps
/// the conductor alive until the run is over.
#[expect(clippy::type_complexity, reason = "one use, told by its names")]
fn opening(
    scene: &Arc<Scene>,
    patience: Patience,
) -> (Box<dyn FnOnce(Arc<dyn Control>) + Send>, Arc<OnceLock<Arc<Conductor>>>) {
    let held: Arc<OnceLock<Arc<Conductor>>> = Arc::default();
    let (scene, keep) = (scene.clone(), held.clone());
    let opening = move |control: Arc<dyn Control>| {
        let rates = scene.plan.clocks.iter().filter(|clock| clock.rate_ppm != 0);
        let rates =
            rates.filter_map(|clock| Some((scene.world.find(&clock.node)?, clock.rate_ppm)));
        let ground = Ground {
            world: scene.world.clone(),
            control,
            recorder: scene.recorder.clone(),
            gates: scene.gates.clone(),
            controls: scene.database.controls(),
            rates_ppm: Arc::new(rates.collect()),
            disks: scene.disks.clone(),
            cancellations: scene.cancellations.clone(),
        };
        set_clocks(&scene.plan, &ground);
        let stock = scene.stock.clone();
        let units = scene.plan.workload.units;
        let node: Name = "stock-1".into();
        let database =
            (scene.plan.workload.stock != StockPlace::Memory).then(|| scene.database.clone());
        let is_served = scene.served.is_some();
        let books = move |recorder: &Recorder| {
            if let Some(database) = &database {
                return database.tell_books(recorder);
            }
            if is_served {
                // Nobody sells at it.
                return;
            }
            let stock = stock.lock().unwrap_or_else(PoisonError::into_inner);
            let (sales, left) = (stock.ledger(), i64::from(stock.left()));
            drop(stock);
            let sales = sales.into_iter().map(|(unit, order)| (unit, order.into())).collect();
            recorder.record(&node, What::Ledger { units, sales });
            recorder.record(&node, What::StockCounted { units, left, reserved: 0 });
        };
        let (stop, lull) = (scene.stop.clone(), scene.lull.clone());
        let (control, seat) = (ground.control.clone(), scene.conductor.clone());
        let plan = scene.plan.clone();
        let begin = move || {
            let conductor = Conductor::open(ground, &plan, patience, (stop, lull), books);
            // Set once, here: neither cell can be full.
            let _ = seat.set(Arc::downgrade(&conductor));
            let _ = keep.set(conductor);
        };
        match &scene.served {
            Some((served, _)) => served.open(control, scene.conductor.clone(), Box::new(begin)),
            None => begin(),
        }
    };
    (Box::new(opening), held)
}

/// Makes the clocks untrue that are so from the start.
fn set_clocks(plan: &Plan, ground: &Ground) {
    for clock in &plan.clocks {
        let Some(node) = ground.world.find(&clock.node) else { continue };
        if clock.rate_ppm != 0 {
            ground.control.change_clock(node, ClockChange::Rate { ppm: clock.rate_ppm });
        }
        if clock.offset_us != 0 {
            ground.control.change_clock(node, ClockChange::Step { by_us: clock.offset_us });
        }
        if clock.rate_ppm != 0 || clock.offset_us != 0 {
            ground.note_clock(node);
        }
    }
}

/// Who holds what of the programs outside.
fn enrolled(plan: &Plan, served: Arc<Served>, world: &Arc<World>, recorder: &Recorder) -> Outside {
    recorder.listen(served.news());
    let quorum = locks::quorum(plan);
    let roll = Roll::new(world.clone(), recorder.clone(), served.locks(), quorum);
    (served, roll)
}

/// What a run may have beside its plan.
struct With {
    lull: Lull,
    served: Option<Outside>,
    freezing: Option<Arc<Freezing>>,
}

impl Scene {
    fn of(
        plan: &Plan,
        world: &Arc<World>,
        recorder: &Recorder,
        with: With,
        lock_factory: &LockFactory,
    ) -> Arc<Scene> {
        let names = plan.topology.nodes().into_iter();
        let nodes: Vec<(NodeId, String)> =
            names.enumerate().map(|(index, name)| (NodeId(index as u16), name)).collect();
        let redis = nodes.iter().filter(|(_, name)| name.starts_with("redis-"));
        let gates = redis.map(|(node, _)| (*node, ReplicationGate::default()));
        let disks = nodes
            .iter()
            .map(|(node, name)| (*node, Disk::new(disk::Settings::default(), plan.seed.0, name)));
        let With { lull, served, freezing } = with;
        let roll = served.as_ref().map(|(_, roll)| roll.clone());
        Arc::new(Scene {
            plan: plan.clone(),
            world: world.clone(),
            recorder: recorder.clone(),
            stop: Arc::default(),
            stock: Arc::new(Mutex::new(Stock::new(plan.workload.units, plan.fence.mode()))),
            gates: Arc::new(gates.collect()),
            disks: Arc::new(disks.collect()),
            cancellations: Cancellations::default(),
            conductor: Arc::default(),
            ensemble: EnsembleWatch::serving(recorder.clone(), roll.clone()),
            database: Cluster::new(plan, recorder, roll),
            pools: Pools::default(),
            lull,
            lock_factory: lock_factory.clone(),
            drawn: (plan.lock.name == OWN_LOCK.name && served.is_none()).then(Arc::default),
            served,
            freezing,
            failure: Arc::default(),
        })
    }
}

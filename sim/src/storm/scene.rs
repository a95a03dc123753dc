//! Builds a plan's nodes and lets an engine run them.

mod setting;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockstorm::lock::Promises;
use lockstorm::stock::{Stock, StockServer};

use super::Manner;
use super::cancelling::Cancelling;
use super::client::Client;
use super::conductor::{Conductor, Patience, Stop};
use super::connections::{Connections, Pools};
use super::crew::{self, Crew, Seat};
use super::drawn::Drawn;
use super::frozen::{Freezing, Window};
use super::locks::{self, LockFactory};
use super::observe::zookeeper::EnsembleWatch;
use super::observe::{ConductorCell, Namer, RedisWatch, StockWatch};
use super::place;
use super::postgres::Cluster;
use super::reseed::Lull;
use super::sentinels;
use super::served::Served;
use super::served::roll::Roll;
use super::shop::Selling;
use crate::check::Setting;
use crate::disk::{self, Disk};
use crate::engine::clock::ClockChange;
use crate::engine::world::{NodeId, World};
use crate::engine::{Control, Ending, Engine, Factory, Kernel, Links, Stage};
use crate::engine::{current, senses};
use crate::fault::Ground;
use crate::fault::cancel::Cancellations;
use crate::history::recorder::TraceHash;
use crate::history::{History, Name, Recorder, What};
use crate::plan::scenario::OWN_LOCK;
use crate::plan::{Plan, RedisPersistence, StockPlace};
use crate::server::redis::{
    AppendFsync, ConfigFile, Persistence, ReplicationGate, Server, Settings,
};
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
    /// Programs in the place of the clients.
    crew: Option<Arc<dyn Crew>>,
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
    let names = crew::nodes(plan, manner.crew.is_some());
    let names: Vec<Name> = names.into_iter().map(Name::from).collect();
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
    let with = With { lull, served, freezing: manner.freezing, crew: manner.crew };
    let scene = Scene::of(plan, &world, &recorder, with, lock_factory);
    let (promises, patience, ends_at_us) = match scene.served {
        // Nothing is known of what they promise, or how patient they are.
        Some(_) => (Promises::default(), Patience::NONE, FOR_EVER_US),
        None => {
            let (bound, promises) = declared(&scene)?;
            let patience = match &scene.crew {
                Some(crew) => crew.patience(),
                None => patience(plan, bound),
            };
            (promises, patience, plan.duration.0 + patience.takeover_us + 2 * patience.settle_us)
        }
    };
    let factories = names.iter().enumerate().map(|(index, name)| {
        let node = NodeId(index as u16);
        announced(&scene, name, scene.factory(node, name))
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
    if let Some(why) = scene.failure.get() {
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
/// it must. Its node is down from here on, until a crash of it is over.
pub(super) fn ended(recorder: &Recorder, name: &Name, result: io::Result<()>) {
    let how = result.map_or_else(|error| error.to_string(), |()| "it was shut down".to_owned());
    recorder.record(name, What::ProgramEnded { how });
}

/// Each start of a node is an event.
fn announced(scene: &Arc<Scene>, name: &Name, factory: Factory) -> Factory {
    let (scene, name) = (scene.clone(), name.clone());
    Arc::new(move |host| {
        let node = scene.world.find(&name);
        let incarnation = node.map_or(0, |node| scene.world.incarnation(node));
        scene.recorder.record(&name, What::NodeStarted { incarnation });
        factory(host)
    })
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
        let (is_served, crew) = (scene.served.is_some(), scene.crew.clone());
        let cluster = scene.database.clone();
        let books = move |recorder: &Recorder| {
            if let Some(crew) = &crew {
                return crew.tell_books(recorder, &cluster);
            }
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

/// As the servers know it.
fn persistence(kept: RedisPersistence) -> Persistence {
    match kept {
        RedisPersistence::None => Persistence::none(),
        RedisPersistence::Rdb => Persistence::snapshots(),
        RedisPersistence::AofAlways => Persistence::append_only(AppendFsync::Always),
        RedisPersistence::AofEverySecond => Persistence::append_only(AppendFsync::EverySecond),
        RedisPersistence::AofNo => Persistence::append_only(AppendFsync::No),
    }
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
    crew: Option<Arc<dyn Crew>>,
}

impl Scene {
    fn of(
        plan: &Plan,
        world: &Arc<World>,
        recorder: &Recorder,
        with: With,
        lock_factory: &LockFactory,
    ) -> Arc<Scene> {
        let With { lull, served, freezing, crew } = with;
        let names = crew::nodes(plan, crew.is_some()).into_iter();
        let nodes: Vec<(NodeId, String)> =
            names.enumerate().map(|(index, name)| (NodeId(index as u16), name)).collect();
        let redis = nodes.iter().filter(|(_, name)| name.starts_with("redis-"));
        let gates = redis.map(|(node, _)| (*node, ReplicationGate::default()));
        let disks = nodes
            .iter()
            .map(|(node, name)| (*node, Disk::new(disk::Settings::default(), plan.seed.0, name)));
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
            crew,
            failure: Arc::default(),
        })
    }

    fn factory(self: &Arc<Self>, node: NodeId, name: &Name) -> Factory {
        if name.starts_with("redis-") {
            self.redis(node, name)
        } else if name.starts_with("sentinel-") {
            sentinels::factory(&self.plan, name, &self.disks[&node], &self.recorder, &self.freezing)
        } else if name.starts_with("zk-") {
            self.zookeeper(node, name)
        } else if name.starts_with("pg-") {
            self.database.factory(name, &self.disks[&node], &self.freezing)
        } else if name.starts_with("pooler-") {
            self.database.pooler_factory(name)
        } else if let Some(crew) = &self.crew {
            let (recorder, stop) = (self.recorder.clone(), self.stop.clone());
            let seat = Seat { recorder, stop, conductor: self.conductor.clone() };
            crew.program(&seat, name)
        } else if name.starts_with("stock-") {
            self.stock_server(name)
        } else if let Some((served, roll)) = &self.served {
            served.factory(name, roll)
        } else {
            self.app(name)
        }
    }

    fn roll(&self) -> Option<Arc<Roll>> {
        self.served.as_ref().map(|(_, roll)| roll.clone())
    }

    fn redis(self: &Arc<Self>, node: NodeId, name: &Name) -> Factory {
        let config = match &**name {
            "redis-1" => ConfigFile::new(),
            _ if self.plan.topology.independent => ConfigFile::new(),
            _ => ConfigFile::replica_of("redis-1", REDIS_PORT),
        };
        let announced_name = Some(name.to_string());
        let gate = self.gates[&node].clone();
        let disk = self.disks[&node].clone();
        let persistence = persistence(self.plan.topology.persistence);
        let watch = Arc::new(RedisWatch::new(
            node,
            self.world.clone(),
            self.recorder.clone(),
            self.conductor.clone(),
            Namer { drawn: self.drawn.clone(), roll: self.roll() },
        ));
        let (recorder, name) = (self.recorder.clone(), name.clone());
        let freezing = self.freezing.clone();
        Arc::new(move |host| {
            // What it kept it tells once it has read it.
            if persistence == Persistence::none() {
                watch.started();
            }
            let announced_name = announced_name.clone();
            let settings = Settings {
                port: REDIS_PORT,
                announced_name,
                disk: Some(disk.clone()),
                persistence: persistence.clone(),
                ..Settings::default()
            };
            let server = Server::new(host, settings, config.clone(), gate.clone(), watch.clone());
            if let Some(freezing) = &freezing {
                freezing.enter(&name, Window::Redis(server.window()));
            }
            let (recorder, name) = (recorder.clone(), name.clone());
            Box::pin(async move { ended(&recorder, &name, server.run().await) })
        })
    }

    fn zookeeper(self: &Arc<Self>, node: NodeId, name: &Name) -> Factory {
        let topology = &self.plan.topology;
        let hosts = topology.zookeeper_nodes();
        let settings = zookeeper::Settings {
            tick: topology.tick.to_duration(),
            ..zookeeper::Settings::default()
        };
        let position = hosts.iter().position(|host| **host == **name).unwrap_or(0);
        let me = u8::try_from(position + 1).unwrap_or(u8::MAX);
        let ensemble = zookeeper::Ensemble::of(me, &hosts);
        let (disk, watch) = (self.disks[&node].clone(), self.ensemble.of(name.clone()));
        let (recorder, name) = (self.recorder.clone(), name.clone());
        let freezing = self.freezing.clone();
        Arc::new(move |host| {
            watch.started();
            let files = disk.mount(&host);
            let (settings, ensemble) = (settings.clone(), ensemble.clone());
            let server = zookeeper::Server::new(host, settings, ensemble, files, watch.clone());
            if let Some(freezing) = &freezing {
                freezing.enter(&name, Window::Zookeeper(server.window()));
            }
            let (recorder, name) = (recorder.clone(), name.clone());
            Box::pin(async move { ended(&recorder, &name, server.run().await) })
        })
    }

    fn stock_server(self: &Arc<Self>, name: &Name) -> Factory {
        let watch = Arc::new(StockWatch::new(name.clone(), self.recorder.clone()));
        let stock = self.stock.clone();
        Arc::new(move |host| {
            let server = StockServer::new(host, STOCK_PORT, stock.clone(), watch.clone());
            Box::pin(async move {
                let _ = server.run().await;
            })
        })
    }

    fn app(self: &Arc<Self>, name: &Name) -> Factory {
        let scene = self.clone();
        let client = Client {
            name: name.clone(),
            workload: self.plan.workload.clone(),
            reads: self.plan.reads(name),
            recorder: self.recorder.clone(),
            stop: self.stop.clone(),
            attempts: Arc::new(AtomicU32::new(0)),
            has_locks: locks::has_records(&self.plan.lock.name)
                || self.plan.workload.stock == StockPlace::Memory,
            cancelling: Cancelling::new(self.cancellations.clone(), self.conductor.clone()),
            section: self.lock_factory.section(),
            plan: self.plan.clone(),
            drawn: self.drawn.clone(),
        };
        Arc::new(move |host| {
            if let Some(drawn) = &client.drawn {
                drawn.crashed(&client.name);
            }
            let (scene, client) = (scene.clone(), client.clone());
            Box::pin(async move {
                let lock = match scene.lock_factory.lock(&host, &scene.plan) {
                    Ok(lock) => lock,
                    Err(why) => {
                        let _ = scene.failure.set(why);
                        return;
                    }
                };
                let (plan, recorder) = (&scene.plan, &scene.recorder);
                match Selling::of_buyers(&host, plan, &client.name, recorder, &scene.pools) {
                    Ok(buyers) => client.run_all(host, lock, buyers).await,
                    Err(why) => {
                        let _ = scene.failure.set(why);
                    }
                }
            })
        })
    }
}

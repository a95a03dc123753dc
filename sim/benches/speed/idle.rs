//! Idle clusters: real servers with their crons, heartbeats and sentinels, and nobody who
//! asks them anything.

use std::sync::Arc;

use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Name, Recorder};
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::sentinel::{self, MasterSettings, Sentinel};
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};
use lockstorm_sim::server::{postgres, zookeeper};

use super::seconds;

const SIMULATED_SECONDS: u64 = 60;
const PORT: u16 = 6_379;
/// One master, three replicas, one sentinel; or five servers of an ensemble; or a primary and
/// four standbys.
const CLUSTER: u16 = 5;

/// As many clusters as make so many nodes.
pub fn clusters() {
    println!("idle clusters, {SIMULATED_SECONDS} simulated s\n");
    println!("each of                                      nodes   event ×real   steps");
    let redis = "a Redis master, three replicas, a sentinel";
    for nodes in [10_u16, 100] {
        measure(redis, (0..nodes).map(|node| (name(node), factory(node))).collect());
    }
    for nodes in [10_u16, 100] {
        measure("five ZooKeeper servers", (0..nodes).map(member).collect());
    }
    for nodes in [10_u16, 100] {
        measure("a PostgreSQL primary, four standbys", (0..nodes).map(database).collect());
    }
    println!();
}

fn measure(what: &str, nodes: Vec<(String, Factory)>) {
    let number = nodes.len();
    let (names, factories): (Vec<String>, Vec<Factory>) = nodes.into_iter().unzip();
    let world = World::new(1, names.into_iter().map(Name::from));
    let clock = world.clone();
    let stage = Stage {
        world,
        factories,
        links: Links { median_us: 250, sigma_milli: 400 },
        kernel: Kernel::default(),
        ends_at_us: SIMULATED_SECONDS * 1_000_000,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(|_| ()),
    };
    let mut steps = 0;
    let elapsed_s = seconds(|| {
        steps = std::thread::scope(|scope| {
            let run = scope.spawn(|| EventEngine.run(stage).steps);
            run.join().unwrap_or(0)
        });
    });
    let speed = SIMULATED_SECONDS as f64 / elapsed_s;
    println!("{what:<43}  {number:>5}   {speed:>11.0}   {steps:>5}");
}

/// A server of an ensemble of [`CLUSTER`], and its name.
fn member(node: u16) -> (String, Factory) {
    let name = |place: u16| format!("zk-{}-{place}", node / CLUSTER);
    let hosts: Vec<String> = (0..CLUSTER).map(name).collect();
    let me = u8::try_from(node % CLUSTER + 1).unwrap_or(1);
    let name = name(node % CLUSTER);
    let disk = Disk::new(disk::Settings::default(), 1, &name);
    let factory: Factory = Arc::new(move |host| {
        let ensemble = zookeeper::Ensemble::of(me, &hosts);
        let (settings, files) = (zookeeper::Settings::default(), disk.mount(&host));
        let observer = Arc::new(zookeeper::observe::Unobserved);
        let server = zookeeper::Server::new(host, settings, ensemble, files, observer);
        Box::pin(async move {
            let _ = server.run().await;
        })
    });
    (name, factory)
}

/// A primary, or one of its standbys, and its name.
fn database(node: u16) -> (String, Factory) {
    let name = |place: u16| format!("pg-{}-{place}", node / CLUSTER);
    let mut settings = postgres::Settings::default();
    if !node.is_multiple_of(CLUSTER) {
        settings.primary = Some(postgres::Primary { host: name(0), port: settings.port });
    }
    let name = name(node % CLUSTER);
    settings.name.clone_from(&name);
    let disk = Disk::new(disk::Settings::default(), 1, &name);
    let factory: Factory = Arc::new(move |host| {
        let (settings, files) = (settings.clone(), disk.mount(&host));
        let observer = Arc::new(postgres::observe::Unobserved);
        let server = postgres::Server::new(host, settings, files, observer);
        Box::pin(async move {
            let _ = server.run().await;
        })
    });
    (name, factory)
}

fn name(node: u16) -> String {
    match node % CLUSTER {
        4 => format!("sentinel-{}", node / CLUSTER),
        place => format!("redis-{}-{place}", node / CLUSTER),
    }
}

fn factory(node: u16) -> Factory {
    let cluster = node / CLUSTER;
    if node % CLUSTER == 4 {
        let mut servers = (0..4).map(|place| format!("redis-{cluster}-{place}:{PORT}"));
        let mut master = MasterSettings::new("mymaster", servers.next().unwrap_or_default(), 1);
        master.replicas = servers.collect();
        let mut settings = sentinel::Settings::new(name(node));
        settings.masters = vec![master];
        return Arc::new(move |host| {
            let sentinel = Sentinel::new(host, settings.clone(), Arc::new(sentinel::Unobserved));
            Box::pin(async move {
                let _ = sentinel.run().await;
            })
        });
    }
    let config = match node % CLUSTER {
        0 => ConfigFile::new(),
        _ => ConfigFile::replica_of(format!("redis-{cluster}-0"), PORT),
    };
    Arc::new(move |host| {
        let settings =
            Settings { port: PORT, announced_name: Some(name(node)), ..Settings::default() };
        let gate = ReplicationGate::new();
        let server = Server::new(host, settings, config.clone(), gate, Arc::new(Unobserved));
        Box::pin(async move {
            let _ = server.run().await;
        })
    })
}

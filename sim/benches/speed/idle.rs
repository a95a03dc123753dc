//! Idle clusters: real servers with their crons, replication heartbeats and sentinels, and
//! nobody who asks them anything.

use std::sync::Arc;

use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Name, Recorder};
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::sentinel::{self, MasterSettings, Sentinel};
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};

use super::seconds;

const SIMULATED_SECONDS: u64 = 60;
const PORT: u16 = 6_379;
/// One master, three replicas, one sentinel.
const CLUSTER: u16 = 5;

/// As many clusters as make so many nodes.
pub fn clusters() {
    println!(
        "idle clusters: a Redis master, three replicas and a sentinel each, \
         {SIMULATED_SECONDS} simulated s\n"
    );
    println!("nodes   event ×real   steps");
    for nodes in [10_u16, 100] {
        let names = (0..nodes).map(|node| Name::from(name(node)));
        let world = World::new(1, names);
        let clock = world.clone();
        let stage = Stage {
            world,
            factories: (0..nodes).map(factory).collect(),
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
        println!("{nodes:>5}   {:>11.0}   {steps:>5}", SIMULATED_SECONDS as f64 / elapsed_s);
    }
    println!();
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

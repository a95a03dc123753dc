//! What the nodes of a scene run: servers, the stock, clients.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lockstorm::stock::StockServer;

use super::{REDIS_PORT, STOCK_PORT, Scene, ended};
use crate::engine::Factory;
use crate::engine::world::NodeId;
use crate::history::{Name, What};
use crate::plan::{RedisPersistence, StockPlace};
use crate::server::redis::{AppendFsync, ConfigFile, Persistence, Server, Settings};
use crate::server::zookeeper;
use crate::storm::cancelling::Cancelling;
use crate::storm::client::Client;
use crate::storm::frozen::Window;
use crate::storm::locks;
use crate::storm::observe::{Namer, RedisWatch, StockWatch};
use crate::storm::sentinels;
use crate::storm::served::roll::Roll;
use crate::storm::shop::Selling;

impl Scene {
    /// Each start of a node is an event.
    pub(super) fn announced(self: &Arc<Self>, name: &Name, factory: Factory) -> Factory {
        let (scene, name) = (self.clone(), name.clone());
        Arc::new(move |host| {
            let node = scene.world.find(&name);
            let incarnation = node.map_or(0, |node| scene.world.incarnation(node));
            scene.recorder.record(&name, What::NodeStarted { incarnation });
            factory(host)
        })
    }

    /// What a node runs.
    pub(super) fn factory(self: &Arc<Self>, node: NodeId, name: &Name) -> Factory {
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

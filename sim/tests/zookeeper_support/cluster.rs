//! Servers of ours in a simulated network, and a script beside them that writes, cuts and
//! crashes.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm_sim::disk::{self, Ailment, Disk};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::world::{NodeId, World};
use lockstorm_sim::engine::{Control, Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Recorder, What};
use lockstorm_sim::server::zookeeper::observe::{Means, Observation, Observer};
use lockstorm_sim::server::zookeeper::{Ensemble, Server, ServerId, Settings};
use lockstorm_sim::storm::observe::zookeeper::{EnsembleWatch, ServerWatch};

use super::wire::{Hello, Wire};

/// What a server told, as far as tests ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    Recovered {
        zxid: i64,
    },
    Leading {
        epoch: i64,
    },
    SteppedDown {
        why: String,
    },
    Following {
        leader: ServerId,
    },
    Left {
        why: String,
    },
    Synchronised {
        means: Means,
        zxid: i64,
        lost: Vec<i64>,
    },
    Expired {
        session: i64,
    },
    Closed {
        session: i64,
    },
    Snapshot {
        zxid: i64,
    },
    Throttled,
    /// Its program ended: its disk failed.
    Ended,
}

/// Which server saw what when, µs of true time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at_us: u64,
    pub server: ServerId,
    pub saw: Saw,
}

/// How servers are set up.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub servers: ServerId,
    /// Machines beside the servers: `app-1` and so on. The script is the program of the first.
    pub apps: u8,
    pub settings: Settings,
    pub disk: disk::Settings,
    pub seed: u64,
    pub links: Links,
    pub ends_at: Duration,
}

/// What came of a script.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What the script came to; `None` if it had no end.
    pub result: Option<T>,
    pub seen: Vec<Seen>,
    /// What the checker of the broadcast told.
    pub breaks: Vec<String>,
    pub ended_us: u64,
}

impl Cluster {
    /// So many servers with a tick of 200 ms, on links and disks that always take a
    /// millisecond.
    pub fn new(servers: ServerId) -> Cluster {
        let settings = Settings { tick: Duration::from_millis(200), ..Settings::default() };
        let disk = disk::Settings { sigma_milli: 0, ..disk::Settings::default() };
        let links = Links { median_us: 1_000, sigma_milli: 0 };
        let ends_at = Duration::from_secs(60);
        Cluster { servers, apps: 1, settings, disk, seed: 1, links, ends_at }
    }

    /// Runs a script beside the servers on a thread of its own.
    pub fn run<T, F>(&self, script: impl Fn(Arc<Place>) -> F + Send + Sync + 'static) -> Outcome<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        std::thread::scope(|scope| scope.spawn(|| self.run_here(script)).join().unwrap())
    }

    fn run_here<T, F>(&self, script: impl Fn(Arc<Place>) -> F + Send + Sync + 'static) -> Outcome<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let hosts: Vec<String> = (1..=self.servers).map(|me| format!("zk-{me}")).collect();
        let apps = (1..=self.apps).map(|app| format!("app-{app}"));
        let names: Vec<String> = hosts.iter().cloned().chain(apps).collect();
        let world = World::new(self.seed, names.iter().map(|name| name.as_str().into()));
        let clock = world.clone();
        let recorder = Recorder::new(move || clock.now_us());
        let place = Arc::new(Place {
            world: world.clone(),
            control: OnceLock::new(),
            hosts: Mutex::default(),
            servers: self.servers,
            disks: hosts.iter().map(|host| Disk::new(self.disk, self.seed, host)).collect(),
            seen: Mutex::default(),
        });
        let watch = EnsembleWatch::new(recorder.clone());
        let mut factories: Vec<Factory> = Vec::new();
        for me in 1..=self.servers {
            let ensemble = match self.servers {
                1 => Ensemble::alone(lockstorm_sim::server::zookeeper::CLIENT_PORT),
                _ => Ensemble::of(me, &hosts),
            };
            let watch = watch.of(hosts[usize::from(me) - 1].as_str().into());
            factories.push(place.server(me, ensemble, self.settings.clone(), watch));
        }
        let result: Arc<Mutex<Option<T>>> = Arc::default();
        let script = Arc::new(script);
        for app in 1..=self.apps {
            let (place, script, result) = (place.clone(), script.clone(), result.clone());
            factories.push(Arc::new(move |host: Host| -> BoxFuture<'static, ()> {
                let (place, script, result) = (place.clone(), script.clone(), result.clone());
                place.hosts.lock().unwrap().insert(app, host);
                Box::pin(async move {
                    if app == 1 {
                        let ended = script(place.clone()).await;
                        *result.lock().unwrap() = Some(ended);
                        place.control().finish();
                    }
                    std::future::pending().await
                })
            }));
        }
        let opened = place.clone();
        let ending = EventEngine.run(Stage {
            world: world.clone(),
            factories,
            links: self.links,
            kernel: Kernel::default(),
            ends_at_us: self.ends_at.as_micros() as u64,
            recorder: recorder.clone(),
            opening: Box::new(move |control| {
                let _ = opened.control.set(control);
            }),
        });
        assert_eq!(ending.stuck, None, "seed {}", self.seed);
        let (history, _) = recorder.close();
        let breaks = history.iter().filter_map(|event| match &event.what {
            What::BroadcastBroken { how } => Some(format!("{}: {how}", event.node)),
            _ => None,
        });
        let breaks = breaks.collect();
        let result = result.lock().unwrap().take();
        let seen = std::mem::take(&mut *place.seen.lock().unwrap());
        Outcome { result, seen, breaks, ended_us: world.now_us() }
    }
}

/// Where a script is: it can look at the servers and do things to them.
pub struct Place {
    world: Arc<World>,
    control: OnceLock<Arc<dyn Control>>,
    hosts: Mutex<BTreeMap<u8, Host>>,
    pub servers: ServerId,
    disks: Vec<Disk>,
    seen: Mutex<Vec<Seen>>,
}

/// Tells the place and the checker of the broadcast.
struct Both {
    place: Arc<Place>,
    me: ServerId,
    watch: Arc<ServerWatch>,
}

impl Observer for Both {
    fn observe(&self, observation: &Observation<'_>) {
        self.watch.observe(observation);
        let saw = match observation {
            Observation::Recovered { zxid, .. } => Saw::Recovered { zxid: *zxid },
            Observation::Leading { epoch } => Saw::Leading { epoch: *epoch },
            Observation::SteppedDown { why, .. } => Saw::SteppedDown { why: (*why).to_owned() },
            Observation::Following { leader, .. } => Saw::Following { leader: *leader },
            Observation::Left { why, .. } => Saw::Left { why: (*why).to_owned() },
            Observation::Synchronised { means, zxid, lost, .. } => {
                Saw::Synchronised { means: *means, zxid: *zxid, lost: lost.to_vec() }
            }
            Observation::SessionExpired { session } => Saw::Expired { session: *session },
            Observation::SessionClosed { session, .. } => Saw::Closed { session: *session },
            Observation::Snapshot { zxid } => Saw::Snapshot { zxid: *zxid },
            Observation::Throttled { .. } => Saw::Throttled,
            _ => return,
        };
        self.place.note(self.me, saw);
    }
}

impl Place {
    fn server(
        self: &Arc<Self>,
        me: ServerId,
        ensemble: Ensemble,
        settings: Settings,
        watch: Arc<ServerWatch>,
    ) -> Factory {
        let place = self.clone();
        Arc::new(move |host: Host| -> BoxFuture<'static, ()> {
            watch.started();
            let files = place.disks[usize::from(me) - 1].mount(&host);
            let both = Arc::new(Both { place: place.clone(), me, watch: watch.clone() });
            let server = Server::new(host, settings.clone(), ensemble.clone(), files, both);
            let place = place.clone();
            Box::pin(async move {
                if server.run().await.is_err() {
                    place.note(me, Saw::Ended);
                }
            })
        })
    }

    fn note(&self, server: ServerId, saw: Saw) {
        let at_us = self.world.now_us();
        self.seen.lock().unwrap().push(Seen { at_us, server, saw });
    }

    pub fn control(&self) -> Arc<dyn Control> {
        self.control.get().expect("it is open").clone()
    }

    /// The machine `app-N`.
    pub fn app(&self, number: u8) -> Host {
        self.hosts.lock().unwrap()[&number].clone()
    }

    /// The machine that the script runs on.
    pub fn host(&self) -> Host {
        self.app(1)
    }

    pub fn now_us(&self) -> u64 {
        self.world.now_us()
    }

    pub async fn sleep_ms(&self, ms: u64) {
        self.host().sleep(Duration::from_millis(ms)).await;
    }

    pub fn node(&self, server: ServerId) -> NodeId {
        NodeId(u16::from(server) - 1)
    }

    /// The node of the machine `app-N`.
    pub fn app_node(&self, number: u8) -> NodeId {
        NodeId(u16::from(self.servers) + u16::from(number) - 1)
    }

    pub fn is_up(&self, server: ServerId) -> bool {
        self.world.is_up(self.node(server))
    }

    pub fn crash_process(&self, server: ServerId) {
        self.control().crash_process(self.node(server));
    }

    /// What was not synchronised is lost, but for a drawn part of it.
    pub fn crash_machine(&self, server: ServerId) {
        self.control().crash_machine(self.node(server));
        self.disks[usize::from(server) - 1].lose_power();
    }

    pub fn start(&self, server: ServerId) {
        self.control().start(self.node(server));
    }

    pub fn set_ailment(&self, server: ServerId, ailment: Ailment) {
        self.disks[usize::from(server) - 1].set_ailment(ailment);
    }

    /// Cuts a server off from all other servers, or heals that.
    pub fn isolate(&self, server: ServerId, cut: bool) {
        for other in (1..=self.servers).filter(|other| *other != server) {
            self.cut(server, other, cut);
            self.cut(other, server, cut);
        }
    }

    /// Cuts one direction, or heals one cut of it.
    pub fn cut(&self, from: ServerId, to: ServerId, cut: bool) {
        let (from, to) = (self.node(from), self.node(to));
        match cut {
            true => self.control().cut(from, to),
            false => self.control().heal(from, to),
        }
    }

    /// Everything that was seen so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Who leads, as far as the servers know.
    pub fn leader(&self) -> Option<ServerId> {
        let seen = self.seen.lock().unwrap();
        let last = seen.iter().rev().find(|seen| matches!(seen.saw, Saw::Leading { .. }))?;
        let server = last.server;
        let after = seen.iter().rev().take_while(|seen| *seen != last);
        let ended = after.filter(|seen| seen.server == server).any(|seen| {
            matches!(seen.saw, Saw::SteppedDown { .. } | Saw::Recovered { .. } | Saw::Ended)
        });
        (!ended && self.is_up(server)).then_some(server)
    }

    /// Waits until a condition holds, which is looked at every 5 ms.
    pub async fn until(&self, what: &str, condition: impl Fn(&Place) -> bool) {
        let limit_us = self.now_us() + 60_000_000;
        while !condition(self) {
            assert!(self.now_us() < limit_us, "waited a minute for {what}: {:?}", self.seen());
            self.sleep_ms(5).await;
        }
    }

    /// A client of this server with a session of its own.
    pub async fn open(&self, server: ServerId, timeout_ms: i32) -> io::Result<Wire> {
        self.greet(server, &Hello::new(timeout_ms)).await
    }

    pub async fn greet(&self, server: ServerId, hello: &Hello) -> io::Result<Wire> {
        let host = self.host();
        let address = format!("zk-{server}:2181");
        let opened = host.timeout(Duration::from_secs(2), Wire::open(&host, &address, hello));
        opened.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The same as soon as the server takes it.
    pub async fn come_to(&self, server: ServerId) -> Wire {
        loop {
            if let Ok(wire) = self.open(server, 4_000).await {
                return wire;
            }
            self.sleep_ms(20).await;
        }
    }
}

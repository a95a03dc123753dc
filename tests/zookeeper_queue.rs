//! In the queue of a lock on ZooKeeper: how many does a release wake, is the next let in at
//! once however the release meets its watch, and how many may come from one address?

#[path = "../sim/tests/stage/mod.rs"]
mod stage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::zookeeper::{Options, ZooKeeperLock};
use lockstorm::lock::{Lock, LockError, Owner};
use lockstorm_interpose::Senses;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::{Engine, senses};
use lockstorm_sim::server::zookeeper::observe::{Observation, Observer};
use lockstorm_sim::server::zookeeper::{CLIENT_PORT, Ensemble, Server, Settings};
use stage::{Log, Scene, ms, note};
use zookeeper_client::{Acls, Client, CreateMode, Error};

const SESSION: Duration = Duration::from_secs(6);

fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// Counts what servers do for their clients.
#[derive(Default)]
struct Counter {
    notified: AtomicUsize,
    /// How many are attached to a server of a name from an address, and the most ever.
    attached: Mutex<std::collections::BTreeMap<(String, std::net::IpAddr), (usize, usize)>>,
}

impl Counter {
    fn notified(&self) -> usize {
        self.notified.load(Ordering::Relaxed)
    }

    /// The most connections that each server had from each address.
    fn most_attached(&self) -> Vec<usize> {
        self.attached.lock().unwrap().values().map(|(_, most)| *most).collect()
    }
}

/// Counts for one server.
struct OfServer(String, Arc<Counter>);

impl Observer for OfServer {
    fn observe(&self, observation: &Observation<'_>) {
        let OfServer(server, counter) = self;
        match observation {
            Observation::Notified { .. } => {
                counter.notified.fetch_add(1, Ordering::Relaxed);
            }
            Observation::Attached { peer, .. } => {
                let mut attached = counter.attached.lock().unwrap();
                let (now, most) = attached.entry((server.clone(), peer.ip())).or_default();
                *now += 1;
                *most = (*most).max(*now);
            }
            Observation::Detached { peer, .. } => {
                let mut attached = counter.attached.lock().unwrap();
                attached.entry((server.clone(), peer.ip())).or_default().0 -= 1;
            }
            _ => {}
        }
    }
}

/// The program of a server among `servers`.
fn server(
    servers: &'static [&'static str],
    counter: &Arc<Counter>,
) -> impl Fn(Host, Log) -> BoxFuture<'static, ()> + Send + Sync + use<> {
    let counter = counter.clone();
    move |host: Host, _| {
        let name = host.name().to_owned();
        let me = 1 + servers.iter().position(|server| *server == name).unwrap();
        let hosts: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
        let files = Disk::new(disk::Settings::default(), 1, &name).mount(&host);
        let observer = Arc::new(OfServer(name, counter.clone()));
        let ensemble = Ensemble::of(u8::try_from(me).unwrap(), &hosts);
        let server = Server::new(host, Settings::default(), ensemble, files, observer);
        Box::pin(async move { server.run().await.unwrap() })
    }
}

fn addresses(servers: &[&str]) -> Vec<String> {
    servers.iter().map(|server| format!("{server}:{CLIENT_PORT}")).collect()
}

fn lock(host: &Host, servers: &[&str]) -> ZooKeeperLock {
    ZooKeeperLock::new(host.clone(), &addresses(servers), Options::new(SESSION)).unwrap()
}

const CROWD: u64 = 8;
const ALONE: &[&str] = &["zk-1"];
const THREE: &[&str] = &["zk-1", "zk-2", "zk-3"];

/// How many were told of something when each of the crowd, one after another, gave the lock
/// back. Each has a session of its own and asks 100 ms after the one before it; the first
/// gives it back when all of them wait.
fn woken_by_each_release<F>(
    engine: &dyn Engine,
    buyer: impl Fn(Host, Turnstile) -> F + Clone + Send + Sync + 'static,
) -> Vec<usize>
where
    F: Future<Output = ()> + Send + 'static,
{
    install_senses();
    let counter = Arc::new(Counter::default());
    let woken = Arc::new(Mutex::new(Vec::new()));
    let turnstile = Turnstile { counter: counter.clone(), woken: woken.clone() };
    Scene::new(&["zk-1", "app-1"])
        .ends_at(ms(8_000))
        .node(server(ALONE, &counter))
        .node(move |host: Host, _| {
            let (buyer, turnstile) = (buyer.clone(), turnstile.clone());
            async move {
                for _ in 0..CROWD {
                    host.spawn("buyer", buyer(host.clone(), turnstile.clone()));
                    host.sleep(ms(100)).await;
                }
                std::future::pending::<()>().await;
            }
        })
        .run(engine, |_| {});
    let woken = woken.lock().unwrap();
    woken.clone()
}

/// Through which whoever holds the lock goes out.
#[derive(Clone)]
struct Turnstile {
    counter: Arc<Counter>,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Turnstile {
    /// Holds the lock until everybody waits, gives it back, and notes how many heard of it.
    async fn leave(&self, host: &Host, release: impl Future<Output = ()>) {
        let all_wait = ms(100 * CROWD + 1_000);
        host.sleep(all_wait.saturating_sub(host.monotonic()).max(ms(200))).await;
        let before = self.counter.notified();
        release.await;
        host.sleep(ms(50)).await;
        self.woken.lock().unwrap().push(self.counter.notified() - before);
    }
}

#[test]
fn a_release_wakes_the_one_behind_it_and_nobody_else() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for engine in engines {
        let woken = woken_by_each_release(engine, |host, turnstile| async move {
            let lock = lock(&host, ALONE);
            let owner = Owner::unique(&host);
            let guard = lock.acquire("stock:42", &owner, ms(60_000)).await.unwrap();
            turnstile.leave(&host, async { drop(guard.release().await) }).await;
        });
        assert_eq!(woken, [1, 1, 1, 1, 1, 1, 1, 0], "{}", engine.title());
    }
}

/// The same lock as the recipe that everybody writes first: all watch the folder.
async fn everybody_watches_the_folder(host: Host, turnstile: Turnstile) {
    let client = Client::connect(&addresses(ALONE)[0]).await.unwrap();
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let made = client.mkdir("/herd", &persistent).await;
    assert!(matches!(made, Ok(()) | Err(Error::NodeExists)), "{made:?}");
    let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = client.create("/herd/place-", &[], &ephemeral).await.unwrap();
    let own = format!("place-{sequence}");
    loop {
        let (children, watcher) = client.list_and_watch_children("/herd").await.unwrap();
        if children.iter().min() == Some(&own) {
            break;
        }
        watcher.changed().await;
    }
    let path = format!("/herd/{own}");
    turnstile.leave(&host, async { client.delete(&path, None).await.unwrap() }).await;
}

#[test]
fn where_all_watch_the_folder_a_release_wakes_all_that_wait() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for engine in engines {
        let woken = woken_by_each_release(engine, everybody_watches_the_folder);
        assert_eq!(woken, [7, 6, 5, 4, 3, 2, 1, 0], "{}", engine.title());
    }
}

const ROUNDS: u64 = 60;
const ROUND_MS: u64 = 100;
/// The servers have elected a leader, and both clients have a session.
const BEGIN_MS: u64 = 4_000;

async fn until(host: &Host, round: u64, after: Duration) {
    let at = ms(BEGIN_MS + round * ROUND_MS) + after;
    host.sleep(at.saturating_sub(host.monotonic())).await;
}

/// How long each wait went on after the release had come back, or after it was asked if that
/// was later, µs. In each round the holder releases a tenth of a millisecond later.
fn waits_us(engine: &dyn Engine) -> Vec<u64> {
    install_senses();
    let counter = Arc::new(Counter::default());
    let mut scene = Scene::new(&["zk-1", "zk-2", "zk-3", "app-1", "app-2"])
        .latency_us(500)
        .sigma_milli(400)
        .ends_at(ms(BEGIN_MS + ROUNDS * ROUND_MS + 1_000));
    for _ in THREE {
        scene = scene.node(server(THREE, &counter));
    }
    let log = scene
        .node(|host: Host, log: Log| async move {
            let lock = lock(&host, THREE);
            host.sleep(ms(BEGIN_MS - 500)).await;
            for round in 0..ROUNDS {
                let owner = Owner::unique(&host);
                let guard = lock.acquire("stock:42", &owner, ms(90)).await.unwrap();
                // Asked at 30 ms into the round, it is watched some milliseconds later.
                until(&host, round, ms(30) + Duration::from_micros(100 * round)).await;
                guard.release().await;
                note(&log, &host, &format!("{round}"));
                until(&host, round, ms(80)).await;
            }
        })
        .node(|host: Host, log: Log| async move {
            let lock = lock(&host, THREE);
            host.sleep(ms(BEGIN_MS - 500)).await;
            // The session is opened, and by nothing that waits here.
            drop(lock.acquire("stock:1", &Owner::unique(&host), ms(1_000)).await.unwrap());
            for round in 0..ROUNDS {
                until(&host, round, ms(30)).await;
                note(&log, &host, &format!("{round}"));
                let owner = Owner::unique(&host);
                let guard = lock.acquire("stock:42", &owner, ms(60_000)).await.unwrap();
                note(&log, &host, &format!("{round}"));
                guard.release().await;
            }
        })
        .run(engine, |_| {});
    let at_us = |who: &str, round: u64| {
        let lines = log.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        let lines = lines.filter(|line| line[0] == who && line[2] == round.to_string());
        lines.map(|line| line[1].parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let waits = (0..ROUNDS).map(|round| {
        let (released, asked) = (at_us("app-1", round), at_us("app-2", round));
        let [released_us] = released[..] else { panic!("round {round}: {released:?}") };
        let [asked_us, granted_us] = asked[..] else { panic!("round {round}: {asked:?}") };
        granted_us.saturating_sub(released_us.max(asked_us))
    });
    waits.collect()
}

#[test]
fn however_a_release_meets_the_watch_the_waiter_is_let_in_at_once() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for engine in engines {
        let waits = waits_us(engine);
        let longest_us = waits.iter().max().unwrap();
        // Two round trips to a server and one from there to the leader.
        assert!(*longest_us < 30_000, "{}: {waits:?}", engine.title());
    }
}

const BUYERS: usize = 1_000;
const APPS: [&str; 3] = ["app-1", "app-2", "app-3"];

/// How many of a thousand buyers on three nodes are let in, each to a lock of its own, and
/// the most connections from an address to a server; with a session for each buyer, or with
/// one for all of a node.
fn let_in(servers: &'static [&'static str], is_shared: bool) -> (usize, Vec<usize>) {
    install_senses();
    let counter = Arc::new(Counter::default());
    let names: Vec<&'static str> = servers.iter().chain(&APPS).copied().collect();
    let mut scene = Scene::new(&names).ends_at(ms(15_000));
    for _ in servers {
        scene = scene.node(server(servers, &counter));
    }
    for first in 0..APPS.len() {
        scene = scene.node(move |host: Host, log: Log| async move {
            // The servers have elected a leader.
            host.sleep(ms(3_000)).await;
            let shared = Arc::new(lock(&host, servers));
            for buyer in (first..BUYERS).step_by(APPS.len()) {
                let own = Arc::new(lock(&host, servers));
                let lock = if is_shared { shared.clone() } else { own };
                host.spawn("buyer", buy(host.clone(), log.clone(), lock, buyer));
            }
            std::future::pending::<()>().await;
        });
    }
    let log = scene.run(&EventEngine, |_| {});
    assert_eq!(log.len(), BUYERS, "everybody hears how it went");
    let told = |what: &str| log.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(told("let in") + told("refused"), BUYERS, "{log:?}");
    (told("let in"), counter.most_attached())
}

async fn buy(host: Host, log: Log, lock: Arc<ZooKeeperLock>, buyer: usize) {
    let owner = Owner::named(format!("buyer-{buyer}"));
    match lock.acquire(&format!("order:{buyer}"), &owner, ms(5_000)).await {
        Ok(guard) => {
            note(&log, &host, "let in");
            let _ = guard.lost().await;
        }
        Err(LockError::Backend { reason }) if reason.contains("no session could be opened") => {
            note(&log, &host, "refused");
        }
        Err(other) => note(&log, &host, &other.to_string()),
    }
}

#[test]
fn sixty_sessions_an_address_and_server_are_let_in_and_shared_ones_are_enough() {
    let (let_in_alone, attached) = let_in(ALONE, false);
    assert_eq!((let_in_alone, attached), (180, vec![60; 3]));
    let (let_in_by_three, attached) = let_in(THREE, false);
    assert_eq!((let_in_by_three, attached), (540, vec![60; 9]));
    let (let_in_shared, attached) = let_in(THREE, true);
    assert_eq!(let_in_shared, BUYERS);
    assert_eq!(attached.iter().sum::<usize>(), 3, "one for each node: {attached:?}");
}

//! How long things take and where limits are: when an ephemeral znode goes, when writes go on
//! after a leader, what a write costs, how many connections and open requests there may be.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::zookeeper_support::cluster::{Cluster, Outcome, Place, Saw};
use super::zookeeper_support::wire::{self, Hello, Wire};
use lockstorm::Host;
use lockstorm_sim::disk::Ailment;
use lockstorm_sim::server::zookeeper::ServerId;
use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::records::Access;

/// Debian's tick.
const TICK: Duration = Duration::from_secs(2);
const TIMEOUT_MS: i32 = 4_000;
const MS: u64 = 1_000;
/// How many sessions end by themselves.
const SESSIONS: usize = 40;
/// So many sessions later, at 97 ms and more each, a session is touched for the last time.
const BEFORE_THE_TOUCH: usize = 13;

fn cluster(servers: ServerId) -> Cluster {
    let mut cluster = Cluster::new(servers);
    cluster.settings.tick = TICK;
    cluster.ends_at = Duration::from_secs(120);
    cluster
}

/// How long after its session was last heard of each ephemeral znode went, ms.
///
/// A new session is touched once more, whatever its client does: each follower names it in its
/// next answer to the leader's ping (`LearnerSessionTracker.commitSession`). So the last touch
/// that counts comes later than half a tick after it was opened; or, with `is_silent`, the
/// client says nothing after it has created its znode.
fn lives_ms(servers: ServerId, at: ServerId, is_silent: bool) -> Vec<u64> {
    let outcome: Outcome<BTreeMap<i64, u64>> = cluster(servers).run(move |place| async move {
        let mut touched = BTreeMap::new();
        let mut wires: Vec<Wire> = Vec::new();
        place.come_to(at).await;
        assert_eq!(place.leader().unwrap_or(1), servers);
        for number in 0..SESSIONS + BEFORE_THE_TOUCH {
            if number < SESSIONS {
                let mut wire = place.open(at, TIMEOUT_MS).await.unwrap();
                assert_eq!(wire.timeout_ms, TIMEOUT_MS);
                touched.insert(wire.session, place.now_us());
                wire.create(&format!("/{number}"), b"", 1).await.unwrap();
                wires.push(wire);
            }
            if is_silent {
                place.sleep_ms(97).await;
                continue;
            }
            if let Some(wire) = number.checked_sub(BEFORE_THE_TOUCH).map(|old| &mut wires[old]) {
                touched.insert(wire.session, place.now_us());
                wire.ping().await.unwrap();
            }
            // Its client is there and says nothing more.
            place.sleep_ms(97).await;
        }
        place.sleep_ms(10_000).await;
        let mut wire = place.open(at, TIMEOUT_MS).await.unwrap();
        for number in 0..SESSIONS {
            let looked = wire.look(kind::EXISTS, &format!("/{number}"), false).await.unwrap();
            assert_ne!(looked.code, 0, "/{number} is still there");
        }
        touched
    });
    assert_eq!(outcome.breaks, [""; 0]);
    let touched = outcome.result.unwrap();
    let ended = outcome.seen.iter().filter_map(|seen| match seen.saw {
        Saw::Closed { session } => Some((seen.at_us - touched.get(&session)?) / MS),
        _ => None,
    });
    ended.collect()
}

#[test]
fn an_ephemeral_znode_goes_within_its_window() {
    let tick_ms = TICK.as_millis() as u64;
    // Alone, or at the leader, every touch counts at once: timeout and up to a tick. A follower
    // tells what it has heard twice in a tick. The last touch is up to 10 ms after ours here.
    // Of a session that says nothing more, the touch of the creation is the last one, or that of
    // a follower half a tick later.
    for (servers, at, is_silent, more_ms) in [
        (1, 1, false, tick_ms),
        (3, 3, false, tick_ms),
        (3, 1, false, tick_ms * 3 / 2),
        (1, 1, true, tick_ms),
        (3, 3, true, tick_ms * 3 / 2),
        (3, 1, true, tick_ms * 3 / 2),
    ] {
        let lives = lives_ms(servers, at, is_silent);
        let (least, most) = (*lives.iter().min().unwrap(), *lives.iter().max().unwrap());
        let what = if is_silent { "creation" } else { "last touch" };
        println!("server {at} of {servers}: ephemerals went {least} to {most} ms after the {what}");
        assert_eq!(lives.len(), SESSIONS);
        let least_ms = TIMEOUT_MS as u64;
        assert!(least > least_ms, "{lives:?}");
        assert!(most <= least_ms + more_ms + 20, "{lives:?}");
        // The window is used, not just kept to.
        assert!(most - least > tick_ms * 3 / 4, "{lives:?}");
    }
}

/// Writes at one server after another until one answers.
async fn write_somewhere(place: &Place, name: &str) {
    for server in (1..=place.servers).cycle() {
        let writing = async {
            let mut wire = place.open(server, TIMEOUT_MS).await?;
            wire.create(name, b"", 0).await
        };
        let limit = Duration::from_millis(500);
        if let Ok(Ok(reply)) = place.host().timeout(limit, writing).await {
            assert_eq!(reply.code, 0);
            return;
        }
        place.sleep_ms(10).await;
    }
}

#[test]
fn writes_go_on_about_a_second_after_a_leader_was_seen_to_die() {
    for servers in [3, 5] {
        let outcome = cluster(servers).run(|place| async move {
            let mut took_ms = Vec::new();
            for round in 0..6 {
                write_somewhere(&place, &format!("/before-{round}")).await;
                let leader = place.leader().unwrap();
                place.sleep_ms(137 * round).await;
                place.crash_process(leader);
                let died_us = place.now_us();
                write_somewhere(&place, &format!("/after-{round}")).await;
                took_ms.push((place.now_us() - died_us) / MS);
                place.start(leader);
                place.sleep_ms(3_000).await;
            }
            took_ms
        });
        assert_eq!(outcome.breaks, [""; 0]);
        let took_ms = outcome.result.unwrap();
        println!("{servers} servers: first write after a leader's end, ms: {took_ms:?}");
        assert!(took_ms.iter().all(|took| (200..=1_500).contains(took)), "{took_ms:?}");
    }
}

/// How long a write and a read of a lone client take, µs.
fn alone_us(servers: ServerId, at: ServerId) -> (u64, u64) {
    let outcome = cluster(servers).run(move |place| async move {
        let mut wire = place.come_to(at).await;
        wire.create("/a", b"", 0).await.unwrap();
        place.sleep_ms(50).await;
        let began_us = place.now_us();
        wire.set("/a", b"x").await.unwrap();
        let written_us = place.now_us();
        wire.look(kind::GET_DATA, "/a", false).await.unwrap();
        (written_us - began_us, place.now_us() - written_us)
    });
    outcome.result.unwrap()
}

/// How many writes of so many clients a second brings.
fn writes_a_second(servers: ServerId, clients: u64) -> u64 {
    let outcome = cluster(servers).run(move |place| async move {
        let mut wires = Vec::new();
        let mut first = place.come_to(place.servers).await;
        first.create("/a", b"", 0).await.unwrap();
        for client in 0..clients {
            wires.push(
                place
                    .open(1 + (client % u64::from(place.servers)) as ServerId, 40_000)
                    .await
                    .unwrap(),
            );
        }
        let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
        for mut wire in wires {
            let done = done.clone();
            place.host().spawn("client", async move {
                while wire.set("/a", b"x").await.is_ok() {
                    done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        place.sleep_ms(2_000).await;
        done.load(std::sync::atomic::Ordering::Relaxed) / 2
    });
    outcome.result.unwrap()
}

/// Links take 1 ms one way, disks 1 ms a synchronisation, always.
#[test]
fn a_write_costs_its_round_trips_and_one_synchronisation_of_a_quorum() {
    // To the server and back, and its disk.
    assert_eq!(alone_us(1, 1), (3_000, 2_000));
    // Beside that the proposal to a follower, its disk, its word.
    assert_eq!(alone_us(3, 3), (5_000, 2_000));
    // And through a follower the way to the leader and back.
    assert_eq!(alone_us(3, 1), (7_000, 2_000));
    assert_eq!(alone_us(5, 1), (7_000, 2_000));
    // Synchronisations are shared by whoever waits: writes grow with clients, disks do not.
    let rates = [1, 10, 50].map(|clients| writes_a_second(3, clients));
    println!("writes a second of 1, 10, 50 clients of three servers: {rates:?}");
    assert!((130..=200).contains(&rates[0]), "{rates:?}");
    assert!(rates[1] >= 8 * rates[0] && rates[2] >= 30 * rates[0], "{rates:?}");
}

/// Everything that many clients send at once: how long until all of it was answered, ms, the
/// codes of the answers, and how often the server stopped reading.
fn flood(limit: usize) -> (u64, BTreeMap<i32, usize>, usize) {
    const CLIENTS: usize = 20;
    const EACH: usize = 100;
    let mut cluster = cluster(1);
    cluster.settings.outstanding_limit = limit;
    let outcome = cluster.run(|place| async move {
        let mut first = place.come_to(1).await;
        first.create("/a", b"", 0).await.unwrap();
        let mut wires = Vec::new();
        for _ in 0..CLIENTS {
            wires.push(place.open(1, 40_000).await.unwrap());
        }
        place.set_ailment(1, Ailment { extra_us: 100 * MS, ..Ailment::default() });
        let began_us = place.now_us();
        for wire in &mut wires {
            for _ in 0..EACH {
                let body = wire::create("/a/n-", Some(b""), &[Access::open()], 2);
                wire.send(kind::CREATE, &body).await.unwrap();
            }
        }
        let mut codes = BTreeMap::new();
        for wire in &mut wires {
            for _ in 0..EACH {
                *codes.entry(wire.reply().await.unwrap().code).or_insert(0) += 1;
            }
        }
        ((place.now_us() - began_us) / MS, codes)
    });
    let throttled = outcome.seen.iter().filter(|seen| seen.saw == Saw::Throttled).count();
    let (took_ms, codes) = outcome.result.unwrap();
    (took_ms, codes, throttled)
}

#[test]
fn above_the_outstanding_limit_clients_wait_and_none_is_refused() {
    let (free_ms, codes, throttled) = flood(100_000);
    assert_eq!((codes, throttled), (BTreeMap::from([(0, 2_000)]), 0));
    let (default_ms, codes, at_default) = flood(1_000);
    assert_eq!(codes, BTreeMap::from([(0, 2_000)]));
    let (narrow_ms, codes, throttled) = flood(100);
    assert_eq!(codes, BTreeMap::from([(0, 2_000)]));
    println!(
        "2,000 writes at once took {free_ms} ms without a limit, {default_ms} ms at 1,000 \
         ({at_default} times a client waited), {narrow_ms} ms at 100 ({throttled} times)"
    );
    assert!(at_default > 0 && throttled > at_default);
    assert!(narrow_ms > 2 * free_ms, "{free_ms} {narrow_ms}");
}

/// A session of its own from this machine; refused, it is an error.
async fn open_from(host: &Host) -> io::Result<Wire> {
    Wire::open(host, "zk-1:2181", &Hello::new(40_000)).await
}

#[test]
fn an_address_has_sixty_connections() {
    let mut cluster = cluster(1);
    cluster.apps = 3;
    let outcome = cluster.run(|place| async move {
        drop(place.come_to(1).await);
        place.sleep_ms(50).await;
        // A thousand buyers with a session each, on three machines.
        let mut wires = Vec::new();
        let (mut let_in, mut refused) = (0, 0);
        for buyer in 0..1_000 {
            match open_from(&place.app(1 + (buyer % 3) as u8)).await {
                Ok(wire) => {
                    let_in += 1;
                    wires.push(wire);
                }
                Err(_) => refused += 1,
            }
        }
        // Who leaves makes room.
        wires.pop().unwrap().close_session().await.unwrap();
        place.sleep_ms(50).await;
        let mut again = 0;
        for app in 1..=3 {
            again += usize::from(open_from(&place.app(app)).await.is_ok());
        }
        drop(wires);
        place.sleep_ms(50).await;
        // With a session for each machine nobody is refused.
        let mut served = 0;
        for app in 1..=3 {
            let mut wire = open_from(&place.app(app)).await.unwrap();
            for buyer in 0..334 {
                let created = wire.create(&format!("/{app}-{buyer}"), b"", 1).await.unwrap();
                served += usize::from(created.code == 0);
            }
        }
        (let_in, refused, again, served)
    });
    assert_eq!(outcome.result.unwrap(), (180, 820, 1, 1_002));
}

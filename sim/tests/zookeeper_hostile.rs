//! Hostile bytes: whatever comes over a connection, the server refuses it, closes if it must,
//! keeps serving others, and does not grow. And many of everything: sessions, znodes.

mod zookeeper_support;

#[path = "zookeeper_hostile/corpus.rs"]
mod corpus;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::server::zookeeper::Settings;
use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::codec::{Reader, Writer};
use lockstorm_sim::server::zookeeper::observe::Unobserved;
use lockstorm_sim::server::zookeeper::records::{Access, Identity, write_multi_header};
use tokio::time::Instant;
use zookeeper_support::ask::Drawer;
use zookeeper_support::cluster::{Cluster, Saw};
use zookeeper_support::draw::Draw;
use zookeeper_support::on_tokio;
use zookeeper_support::servers::{Ours, Real, settings};
use zookeeper_support::wire::{self, Hello, Wire, event_of, reply_of, request};

/// How long a server that says nothing is listened to.
const QUIET: Duration = Duration::from_millis(250);
/// How long something that should come is waited for, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server does with these bytes on this connection: each frame that it answers, and
/// whether it closes. So many things are `awaited`, with patience; then it is listened to for
/// a little while.
async fn answer(mut wire: Wire, bytes: &[u8], pieces: usize, awaited: usize) -> Vec<String> {
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        // The server may close before it has read everything.
        if wire.write(piece).await.is_err() {
            break;
        }
        if pieces > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut told = Vec::new();
    loop {
        let limit = if told.len() < awaited { PATIENCE } else { QUIET };
        match wire.frame_within(limit).await {
            None => return told,
            Some(None) => {
                told.push("closed".to_owned());
                return told;
            }
            Some(Some(frame)) => told.push(match reply_of(&frame) {
                Some(reply) if event_of(&reply).is_some() => "event".to_owned(),
                // Protocol 0: no request of ours is called so, and each session has a number.
                // The time-out comes next.
                Some(reply) if reply.xid == 0 => format!("welcome, {} ms", reply.zxid >> 32),
                Some(reply) => format!("{} {}", reply.xid, reply.code),
                None => format!("{} bytes", frame.len()),
            }),
        }
    }
}

fn hello() -> Vec<u8> {
    Hello::new(10_000).frame()
}

/// A whole conversation: a session, some requests, in order.
fn conversation(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = hello();
    let mut drawer = Drawer { draw, root: "/h", is_ensemble: false };
    for xid in 1..=6 {
        let ask = drawer.in_turn();
        bytes.extend(request(ask.fixed_xid().unwrap_or(xid), ask.kind(), &ask.body(0)));
    }
    bytes
}

/// Bytes with something wrong about them.
fn mutated(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = conversation(draw);
    for _ in 0..1 + draw.below(4) {
        let at = draw.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match draw.below(7) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << draw.below(8),
            2 => {
                let length = draw.of(&[i32::MAX, i32::MIN, -1, 0, 1, 0xf_ffff, 0x10_0000, 44]);
                let end = (at + 4).min(bytes.len());
                bytes.splice(at..end, length.to_be_bytes());
            }
            3 => {
                let part: Vec<u8> = bytes[at..].iter().take(40).copied().collect();
                bytes.extend(part);
            }
            4 => {
                let end = (at + 1 + draw.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => bytes.rotate_left(at),
            _ => {
                bytes.extend((0..draw.below(60)).map(|_| draw.below(256) as u8).collect::<Vec<_>>())
            }
        }
    }
    bytes
}

/// The server still serves whoever is civil.
async fn serves(address: &str) {
    let host = Host::tokio("client");
    let mut wire = Wire::open(&host, address, &Hello::new(10_000)).await.unwrap();
    assert_eq!(wire.look(kind::GET_DATA, "/", false).await.unwrap().code, 0);
    assert_eq!(wire.create("/civil-", b"", 3).await.unwrap().code, 0);
    assert_eq!(wire.close_session().await.unwrap().code, 0);
}

#[test]
fn random_and_mutated_bytes_harm_nobody() {
    let cases = std::env::var("ZOOKEEPER_HOSTILE_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(150);
    for servers in [1, 3] {
        on_tokio(async {
            let ours = Ours::start(servers).await;
            for seed in 0..cases {
                let draw = &mut Draw::new(seed, "hostile");
                let bytes = match draw.below(3) {
                    0 => (0..draw.below(200)).map(|_| draw.below(256) as u8).collect(),
                    _ => mutated(draw),
                };
                let address = &ours.addresses[seed as usize % ours.addresses.len()];
                let pieces = draw.of(&[1, 1, 3, 40]);
                let wire = Wire::connect(&Host::tokio("client"), address).await.unwrap();
                let exchange = answer(wire, &bytes, pieces, 0);
                let exchange = tokio::time::timeout(PATIENCE, exchange).await;
                assert!(exchange.is_ok(), "seed {seed}: no end");
                if seed % 10 == 0 {
                    serves(address).await;
                }
            }
            for address in &ours.addresses {
                serves(address).await;
            }
            assert!(ours.are_alive());
        });
    }
}

/// What three sessions hear of a znode that only the first and the third may read, after each
/// has asked to be told of it: how many events.
async fn heard_of_a_secret(address: &str) -> [usize; 3] {
    let host = Host::tokio("client");
    let mut wires = Vec::new();
    for may_read in [true, false, true] {
        let mut wire = Wire::open(&host, address, &Hello::new(30_000)).await.unwrap();
        if may_read {
            let mut body = Writer::new();
            body.int(0).text("digest").buffer(Some(b"a:b"));
            wire.write(&request(-4, kind::AUTH, body.bytes())).await.unwrap();
            assert_eq!(wire.reply().await.unwrap().code, 0);
        }
        wires.push(wire);
    }
    let list = [Access { permissions: 31, who: Identity::new("auth", "") }];
    let body = wire::create("/secret", Some(b""), &list, 0);
    assert_eq!(wires[0].call(kind::CREATE, &body).await.unwrap().code, 0);
    for wire in &mut wires {
        // Whether it is there is no secret, what becomes of it is.
        assert_eq!(wire.look(kind::EXISTS, "/secret", true).await.unwrap().code, 0);
    }
    assert_eq!(wires[0].set("/secret", b"1").await.unwrap().code, 0);
    assert_eq!(wires[0].delete("/secret").await.unwrap().code, 0);
    let mut heard = [0; 3];
    for (wire, heard) in wires.iter_mut().zip(&mut heard) {
        assert_eq!(wire.sync().await.unwrap().code, 0);
        *heard = wire.events.len();
    }
    heard
}

#[test]
fn who_may_not_read_a_znode_is_told_nothing_of_it() {
    on_tokio(async {
        let ours = Ours::start(1).await;
        assert_eq!(heard_of_a_secret(&ours.addresses[0]).await, [1, 0, 1]);
        let real = tokio::task::spawn_blocking(|| Real::start(1)).await.unwrap();
        let Some(real) = &real else { return };
        assert_eq!(heard_of_a_secret(&real.addresses[0]).await, [1, 0, 1]);
    });
}

/// Two requests of which a real server never answers: no sequence has them, ours does not hang.
#[test]
fn what_a_real_server_leaves_unanswered_is_answered() {
    on_tokio(async {
        let mut check = Writer::new();
        check.text("/").int(-1);
        for servers in [1, 3] {
            let ours = Ours::start(servers).await;
            for address in &ours.addresses {
                let host = Host::tokio("client");
                let mut wire = Wire::open(&host, address, &Hello::new(30_000)).await.unwrap();
                let checked = wire.call(kind::CHECK, check.bytes()).await.unwrap();
                assert_eq!((checked.code, checked.body.len()), (0, 0));
                let nothing = wire.call(kind::RECONFIG, &[]).await.unwrap();
                assert_eq!(nothing.code, -5);
                serves(address).await;
            }
        }
    });
}

#[test]
fn the_ports_of_the_members_take_no_harm_either() {
    on_tokio(async {
        let ours = Ours::start(3).await;
        for seed in 0..60 {
            let draw = &mut Draw::new(seed, "hostile-member");
            let (quorum, election) = &ours.peers[draw.below(3)];
            let bytes: Vec<u8> = match draw.below(4) {
                0 => (0..draw.below(300)).map(|_| draw.below(256) as u8).collect(),
                1 => {
                    // A follower that is none, or has a strange epoch.
                    let mut info = Writer::new();
                    info.int(11).long(draw.of(&[0, -1, 1 << 62, 7]));
                    info.int(draw.of(&[20, 4, i32::MAX])).long(draw.of(&[9, -1, 1 << 40]));
                    info.int(0x1_0000).long(0).int(-1);
                    info.into_bytes()
                }
                2 => {
                    let mut greeting = Writer::new();
                    greeting.long(-65_536).long(draw.of(&[9, 0, -1, 300]));
                    greeting.int(draw.of(&[3, i32::MAX, -1, 2_048])).raw(b"a:1");
                    greeting.into_bytes()
                }
                _ => i32::MAX.to_be_bytes().repeat(1 + draw.below(40)),
            };
            let port = if draw.one_in(2) { quorum } else { election };
            let host = Host::tokio("client");
            let mut wire = Wire::connect(&host, port).await.unwrap();
            let _ = wire.write(&bytes).await;
            if draw.one_in(3) {
                let _ = wire.frame_within(Duration::from_millis(20)).await;
            }
        }
        for address in &ours.addresses {
            serves(address).await;
        }
        assert!(ours.are_alive());
    });
}

/// Whether a server closes a connection on which this is asked for, again and again, and
/// nothing read.
async fn is_closed(wire: &mut Wire, bytes: &[u8]) -> bool {
    for _ in 0..10_000 {
        if wire.write(bytes).await.is_err() {
            return true;
        }
    }
    // What it did write it wrote before.
    while let Some(Some(_)) = wire.frame_within(Duration::from_secs(5)).await {}
    wire.write(bytes).await.is_err()
        || wire.frame_within(Duration::from_secs(5)).await == Some(None)
}

/// Small requests with large answers, large requests, many of both.
#[test]
fn nothing_grows_beyond_its_limit() {
    on_tokio(async {
        let settings = Settings {
            output_limit_bytes: 4 << 20,
            watch_limit: 2_000,
            tree_limit_bytes: 8 << 20,
            ..settings()
        };
        let ours = Ours::start_with(1, settings, Arc::new(Unobserved)).await;
        let address = &ours.addresses[0];
        let host = Host::tokio("client");
        let open = || async { Wire::open(&host, address, &Hello::new(40_000)).await.unwrap() };
        let began = Instant::now();
        let mut wire = open().await;
        // One byte more than jute.maxbuffer is not even read.
        let mut large = open().await;
        let _ = large.write(&0x10_0000_i32.to_be_bytes()).await;
        assert_eq!(large.frame_within(QUIET).await, Some(None));
        // The tree is full at some time, and can be emptied.
        let data = vec![7; 1_000_000];
        assert_eq!(wire.create("/large", &data, 0).await.unwrap().code, 0);
        let mut codes = Vec::new();
        for number in 0..10 {
            codes.push(wire.create(&format!("/l{number}"), &data, 0).await.unwrap().code);
        }
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 7, "{codes:?}");
        assert!(codes.iter().all(|code| matches!(code, 0 | -125)), "{codes:?}");
        for number in 0..7 {
            assert_eq!(wire.delete(&format!("/l{number}")).await.unwrap().code, 0);
        }
        // Access lists count as well.
        let list: Vec<Access> = (0..20_000)
            .map(|id| Access { permissions: 31, who: Identity::new("digest", format!("{id}:x")) })
            .collect();
        let mut refused = 0;
        for number in 0..20 {
            let body = wire::create(&format!("/a{number}"), Some(b""), &list, 0);
            refused += usize::from(wire.call(kind::CREATE, &body).await.unwrap().code == -125);
        }
        assert!(refused > 0);
        // Twenty bytes ask for a megabyte, forty thousand times in one request.
        let mut many = Writer::new();
        for _ in 0..40_000 {
            write_multi_header(&mut many, kind::GET_DATA, false, -1);
            many.text("/large").boolean(false);
        }
        write_multi_header(&mut many, -1, true, -1);
        let mut greedy = open().await;
        greedy.write(&request(1, kind::MULTI_READ, many.bytes())).await.unwrap();
        assert_eq!(greedy.frame_within(Duration::from_secs(20)).await, Some(None));
        // And one by one, behind a write.
        let mut body = Writer::new();
        body.text("/large").boolean(false);
        let flood = request(2, kind::GET_DATA, body.bytes()).repeat(20_000);
        let mut greedy = open().await;
        let write = request(1, kind::CREATE, &wire::create("/f", Some(b""), &[Access::open()], 0));
        let _ = greedy.write(&[write, flood].concat()).await;
        assert!(is_closed(&mut greedy, &request(3, kind::PING, &[])).await);
        // Watches of long paths.
        let long = format!("/{}", "x".repeat(100_000));
        let mut watching = open().await;
        let mut closed_after = 0;
        for number in 0..1_000 {
            let mut watch = Writer::new();
            watch.text(&format!("{long}{number}")).int(0);
            if watching.call(kind::ADD_WATCH, watch.bytes()).await.is_err() {
                closed_after = number;
                break;
            }
        }
        assert!((1..50).contains(&closed_after), "{closed_after}");
        // Identities, one after another.
        let mut somebody = open().await;
        let mut taken = 0;
        for number in 0..20_000 {
            let mut body = Writer::new();
            body.int(0).text("digest").buffer(Some(format!("u{number}:p").as_bytes()));
            if somebody.write(&request(-4, kind::AUTH, body.bytes())).await.is_err() {
                break;
            }
            match somebody.reply().await {
                Ok(reply) if reply.code == 0 => taken += 1,
                _ => break,
            }
        }
        assert!(taken < 20_000, "{taken}");
        // A list that says the same forty thousand times.
        let mut twice = vec![Access::open(); 40_000];
        twice.push(Access { permissions: 1, who: Identity::new("world", "anyone") });
        let body = wire::create("/twice", Some(b""), &twice, 0);
        assert_eq!(wire.call(kind::CREATE, &body).await.unwrap().code, 0);
        serves(address).await;
        assert!(ours.are_alive());
        eprintln!("{:?} for all of it", began.elapsed());
    });
}

#[test]
fn ten_thousand_sessions_come_and_go() {
    const SESSIONS: usize = 10_000;
    const TASKS: usize = 50;
    for servers in [1, 3] {
        let mut cluster = Cluster::new(servers);
        cluster.settings.connections_per_address = 0;
        cluster.settings.tick = Duration::from_secs(2);
        let began = Instant::now();
        let outcome = cluster.run(|place| async move {
            place.come_to(1).await;
            let wires: Arc<Mutex<Vec<Wire>>> = Arc::default();
            for task in 0..TASKS {
                let (there, wires) = (place.clone(), wires.clone());
                place.host().spawn("buyer", async move {
                    for _ in 0..SESSIONS / TASKS {
                        let server = 1 + (task % usize::from(there.servers)) as u8;
                        let mut wire = there.open(server, 8_000).await.unwrap();
                        wire.create("/s-", b"", 3).await.unwrap();
                        wires.lock().unwrap().push(wire);
                    }
                });
            }
            place.until("all to come", |_| wires.lock().unwrap().len() == SESSIONS).await;
            let mut watcher = place.open(1, 40_000).await.unwrap();
            watcher.sync().await.unwrap();
            let there = watcher.look(kind::GET_CHILDREN, "/", true).await.unwrap();
            let there = Reader::new(&there.body).texts().unwrap().len();
            wires.lock().unwrap().clear();
            // They end by themselves.
            place.sleep_ms(14_000).await;
            let left = watcher.look(kind::GET_CHILDREN, "/", false).await.unwrap();
            (there, Reader::new(&left.body).texts().unwrap().len())
        });
        assert_eq!(outcome.breaks, [""; 0]);
        let closed = outcome.seen.iter().filter(|seen| matches!(seen.saw, Saw::Closed { .. }));
        eprintln!("{SESSIONS} sessions of {servers} servers: {:?}", began.elapsed());
        // Beside them /zookeeper.
        assert_eq!(outcome.result.unwrap(), (SESSIONS + 1, 1));
        assert!(closed.count() >= SESSIONS);
    }
}

#[test]
fn a_hundred_thousand_znodes_are_kept_listed_and_handed_on() {
    const FOLDERS: usize = 100;
    const EACH: usize = 1_000;
    let mut cluster = Cluster::new(3);
    // So that it takes the whole tree to bring a follower to where the others are.
    cluster.settings.commit_log_count = 20;
    cluster.settings.snapshot_count = 50;
    let began = Instant::now();
    let outcome = cluster.run(|place| async move {
        let mut wire = place.come_to(3).await;
        place.crash_process(1);
        wire.create("/all", b"", 0).await.unwrap();
        for folder in 0..FOLDERS {
            let mut body = Writer::new();
            for number in 0..EACH {
                write_multi_header(&mut body, kind::CREATE, false, -1);
                let name = format!("/all/{folder:03}-{number:04}");
                body.raw(&wire::create(&name, Some(b"data"), &[Access::open()], 0));
            }
            write_multi_header(&mut body, -1, true, -1);
            let made = wire.call(kind::MULTI, body.bytes()).await.unwrap();
            assert_eq!(made.code, 0);
        }
        place.start(1);
        let mut back = place.come_to(1).await;
        back.sync().await.unwrap();
        let children = back.look(kind::GET_CHILDREN2, "/all", false).await.unwrap();
        let children = Reader::new(&children.body).texts().unwrap().len();
        for server in 1..=3 {
            place.crash_machine(server);
        }
        for server in 1..=3 {
            place.start(server);
        }
        let mut wire = place.come_to(2).await;
        let mut path = Writer::new();
        path.text("/all");
        let count = wire.call(kind::GET_ALL_CHILDREN_NUMBER, path.bytes()).await.unwrap();
        (children, Reader::new(&count.body).int().unwrap())
    });
    assert_eq!(outcome.breaks, [""; 0]);
    eprintln!("100,000 znodes: {:?}", began.elapsed());
    let all = FOLDERS * EACH;
    assert_eq!(outcome.result.unwrap(), (all, all as i32));
}

//! What several ZooKeeper servers promise together, over the simulated network: who leads,
//! how those who were away come back, what is kept. [`broadcast`] is the campaign of drawn
//! storms, [`measures`] what takes how long and where limits are, [`switch`]
//! a value that is followed.

mod zookeeper_support;

#[path = "zookeeper_ensemble/broadcast.rs"]
mod broadcast;
#[path = "zookeeper_ensemble/measures.rs"]
mod measures;
#[path = "zookeeper_ensemble/switch.rs"]
mod switch;

use std::time::Duration;

use lockstorm_sim::server::zookeeper::ServerId;
use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::observe::Means;
use lockstorm_sim::server::zookeeper::records::Access;
use zookeeper_support::cluster::{Cluster, Outcome, Place, Saw};
use zookeeper_support::wire::{self, Hello, Wire};

const NO_NODE: i32 = -101;

/// How often a server has come to follow.
fn followings(place: &Place, server: ServerId) -> usize {
    let seen = place.seen();
    let of_it = seen.iter().filter(|seen| seen.server == server);
    of_it.filter(|seen| matches!(seen.saw, Saw::Following { .. })).count()
}

/// How a server was brought to where its leader is, each time, and what it lost.
fn ways_of<T>(outcome: &Outcome<T>, server: ServerId) -> Vec<(Means, usize)> {
    let of_it = outcome.seen.iter().filter(|seen| seen.server == server);
    let ways = of_it.filter_map(|seen| match &seen.saw {
        Saw::Synchronised { means, lost, .. } => Some((*means, lost.len())),
        _ => None,
    });
    ways.collect()
}

fn leaders<T>(outcome: &Outcome<T>) -> Vec<(ServerId, i64)> {
    let leading = outcome.seen.iter().filter_map(|seen| match seen.saw {
        Saw::Leading { epoch } => Some((seen.server, epoch)),
        _ => None,
    });
    leading.collect()
}

/// The result of a script that broke no promise of the broadcast.
fn sound<T>(outcome: &mut Outcome<T>) -> T {
    assert_eq!(outcome.breaks, [""; 0]);
    outcome.result.take().expect("the script came to its end")
}

/// Whether `/name` is there on a server.
async fn has(wire: &mut Wire, name: &str) -> bool {
    wire.sync().await.unwrap();
    wire.look(kind::EXISTS, name, false).await.unwrap().code == 0
}

/// Starts a server again and waits until it follows.
async fn come_back(place: &Place, server: ServerId) -> Wire {
    let before = followings(place, server);
    place.start(server);
    place.until("a follower", |place| followings(place, server) > before).await;
    place.come_to(server).await
}

#[test]
fn the_largest_leads_and_all_serve() {
    for servers in [3, 5] {
        let mut outcome = Cluster::new(servers).run(|place| async move {
            for server in 1..=place.servers {
                let mut wire = place.come_to(server).await;
                let name = format!("/{server}");
                assert_eq!(wire.create(&name, b"", 0).await.unwrap().code, 0);
            }
            let mut wire = place.come_to(1).await;
            for server in 1..=place.servers {
                assert!(has(&mut wire, &format!("/{server}")).await);
            }
            place.now_us()
        });
        assert_eq!(leaders(&outcome), [(servers, 1)]);
        assert!(sound(&mut outcome) < 3_000_000, "an election takes well under a second");
    }
}

#[test]
fn a_follower_that_was_away_for_short_is_sent_what_it_lacks() {
    let mut outcome = Cluster::new(3).run(|place| async move {
        let mut wire = place.come_to(3).await;
        wire.create("/before", b"", 0).await.unwrap();
        place.crash_process(1);
        for number in 0..10 {
            wire.create(&format!("/{number}"), b"", 0).await.unwrap();
        }
        let mut back = come_back(&place, 1).await;
        has(&mut back, "/before").await && has(&mut back, "/9").await
    });
    assert!(sound(&mut outcome));
    assert_eq!(ways_of(&outcome, 1), [(Means::Difference, 0); 2]);
}

#[test]
fn a_follower_that_was_away_for_long_is_sent_the_tree() {
    let mut cluster = Cluster::new(3);
    cluster.settings.commit_log_count = 20;
    let mut outcome = cluster.run(|place| async move {
        let mut wire = place.come_to(3).await;
        place.crash_process(1);
        for number in 0..60 {
            wire.create(&format!("/{number}"), b"some data", 0).await.unwrap();
        }
        let mut back = come_back(&place, 1).await;
        assert!(has(&mut back, "/0").await && has(&mut back, "/59").await);
        // It has the tree on its disk, and goes on from there.
        place.crash_machine(1);
        let mut back = come_back(&place, 1).await;
        has(&mut back, "/0").await && has(&mut back, "/59").await
    });
    assert!(sound(&mut outcome));
    let ways = ways_of(&outcome, 1);
    assert_eq!(ways, [(Means::Difference, 0), (Means::Snapshot, 0), (Means::Difference, 0)]);
}

/// Has the leader, server 3, log something that nobody else hears of; tells the new leader.
async fn leave_behind(place: &Place) -> ServerId {
    let mut wire = place.come_to(3).await;
    wire.create("/kept", b"", 0).await.unwrap();
    place.isolate(3, true);
    let lost = wire::create("/lost", Some(b""), &[Access::open()], 0);
    wire.send(kind::CREATE, &lost).await.unwrap();
    place.until("another leader", |place| matches!(place.leader(), Some(1 | 2))).await;
    place.leader().unwrap()
}

#[test]
fn what_only_an_old_leader_logged_is_cut_off() {
    let mut outcome = Cluster::new(3).run(|place| async move {
        leave_behind(&place).await;
        place.isolate(3, false);
        place.until("a follower", |place| followings(place, 3) > 0).await;
        let mut wire = place.come_to(3).await;
        assert!(has(&mut wire, "/kept").await);
        let code = wire.look(kind::EXISTS, "/lost", false).await.unwrap().code;
        // Not from its disk either.
        place.crash_machine(3);
        let mut wire = come_back(&place, 3).await;
        assert!(has(&mut wire, "/kept").await && !has(&mut wire, "/lost").await);
        code
    });
    assert_eq!(sound(&mut outcome), NO_NODE);
    assert_eq!(ways_of(&outcome, 3)[0], (Means::Truncation, 1));
}

/// The same with a server that cuts nothing off: the checker sees it at the next transaction.
#[test]
fn what_an_old_leader_does_not_cut_off_is_found() {
    let mut cluster = Cluster::new(3);
    cluster.settings.bugs.forget_truncation = true;
    let outcome = cluster.run(|place| async move {
        let leader = leave_behind(&place).await;
        place.isolate(3, false);
        place.until("a follower", |place| followings(place, 3) > 0).await;
        let mut wire = place.come_to(leader).await;
        wire.create("/later", b"", 0).await.unwrap();
        place.sleep_ms(100).await;
    });
    assert_eq!(ways_of(&outcome, 3)[0], (Means::Truncation, 0));
    assert!(outcome.breaks[0].contains("which nobody decided"), "{:?}", outcome.breaks);
}

#[test]
fn an_old_leader_that_is_behind_in_its_epoch_is_sent_the_tree() {
    let mut outcome = Cluster::new(3).run(|place| async move {
        let leader = leave_behind(&place).await;
        // The new epoch has a transaction: a log is not cut across epochs.
        let mut wire = place.come_to(leader).await;
        wire.create("/later", b"", 0).await.unwrap();
        place.isolate(3, false);
        place.until("a follower", |place| followings(place, 3) > 0).await;
        let mut wire = place.come_to(3).await;
        assert!(has(&mut wire, "/kept").await && has(&mut wire, "/later").await);
        assert!(!has(&mut wire, "/lost").await);
        place.crash_machine(3);
        let mut wire = come_back(&place, 3).await;
        assert!(has(&mut wire, "/later").await);
        has(&mut wire, "/lost").await
    });
    assert!(!sound(&mut outcome));
    assert_eq!(ways_of(&outcome, 3)[0].0, Means::Snapshot);
}

#[test]
fn what_was_acknowledged_outlives_the_power_of_all() {
    for servers in [1, 3, 5] {
        let mut cluster = Cluster::new(servers);
        cluster.settings.snapshot_count = 40;
        let mut outcome = cluster.run(|place| async move {
            let mut wire = place.come_to(place.servers).await;
            for number in 0..50 {
                wire.create(&format!("/{number}"), b"", i32::from(number % 10 == 0)).await.unwrap();
            }
            let hello = wire.resumption();
            (1..=place.servers).for_each(|server| place.crash_machine(server));
            place.sleep_ms(500).await;
            (1..=place.servers).for_each(|server| place.start(server));
            let mut there = 0;
            for server in 1..=place.servers {
                let mut wire = place.come_to(server).await;
                for number in 0..50 {
                    there += usize::from(has(&mut wire, &format!("/{number}")).await);
                }
            }
            // The session is one of the things that are kept, with what belongs to it.
            let mut wire = place.greet(1, &hello).await.unwrap();
            wire.close_session().await.unwrap();
            let mut wire = place.come_to(1).await;
            assert!(has(&mut wire, "/1").await && !has(&mut wire, "/0").await);
            there
        });
        assert_eq!(sound(&mut outcome), usize::from(servers) * 50);
        let snapshots = outcome.seen.iter().filter(|seen| matches!(seen.saw, Saw::Snapshot { .. }));
        assert!(snapshots.count() > 0);
    }
}

#[test]
fn an_isolated_leader_reads_what_is_old_and_soon_nothing() {
    let mut cluster = Cluster::new(3);
    cluster.settings.tick = Duration::from_secs(1);
    let mut outcome = cluster.run(|place| async move {
        let mut old = place.come_to(3).await;
        old.create("/a", b"old", 0).await.unwrap();
        place.isolate(3, true);
        let cut_us = place.now_us();
        place.until("another leader", |place| matches!(place.leader(), Some(1 | 2))).await;
        let elected_us = place.now_us();
        let mut new = place.come_to(place.leader().unwrap()).await;
        new.set("/a", b"new").await.unwrap();
        let stale = old.look(kind::GET_DATA, "/a", false).await;
        // It is a leader no more: its clients are let go, and a new one is not taken.
        while old.look(kind::GET_DATA, "/a", false).await.is_ok() {
            place.sleep_ms(10).await;
        }
        let closed_us = place.now_us();
        assert!(place.open(3, 4_000).await.is_err());
        let is_stale = stale.is_ok_and(|reply| reply.body.windows(3).any(|part| part == b"old"));
        (is_stale, elected_us - cut_us, closed_us - cut_us)
    });
    let (is_stale, elected_us, closed_us) = sound(&mut outcome);
    // Followers wait for syncLimit ticks, five; the leader looks once in a tick whom it has
    // heard within as many.
    assert!((5_000_000..6_500_000).contains(&elected_us), "{elected_us}");
    assert!((5_000_000..8_000_000).contains(&closed_us), "{closed_us}");
    assert!(is_stale || closed_us < elected_us + 1_000_000, "{elected_us} {closed_us}");
}

#[test]
fn without_a_quorum_there_is_no_service_and_afterwards_there_is() {
    let mut outcome = Cluster::new(5).run(|place| async move {
        let mut wire = place.come_to(5).await;
        wire.create("/a", b"", 0).await.unwrap();
        for server in [1, 2] {
            place.crash_machine(server);
        }
        wire.create("/with-three", b"", 0).await.unwrap();
        place.crash_machine(3);
        let began_us = place.now_us();
        while wire.ping().await.is_ok() {
            place.sleep_ms(5).await;
        }
        let let_go_ms = (place.now_us() - began_us) / 1_000;
        place.sleep_ms(2_000).await;
        for server in [4, 5] {
            assert!(place.open(server, 4_000).await.is_err(), "no quorum, no session");
        }
        let mut wire = come_back(&place, 1).await;
        assert!(has(&mut wire, "/with-three").await);
        assert_eq!(wire.create("/again", b"", 0).await.unwrap().code, 0);
        let_go_ms
    });
    // The links end with the machines only when they are missed: syncLimit ticks and one.
    let let_go_ms = sound(&mut outcome);
    assert!((800..=1_400).contains(&let_go_ms), "{let_go_ms}");
    assert!(leaders(&outcome).len() >= 2);
}

#[test]
fn a_session_goes_on_at_another_server_and_through_an_election() {
    let mut outcome = Cluster::new(3).run(|place| async move {
        let mut wire = place.come_to(3).await;
        wire.create("/mine", b"", 1).await.unwrap();
        let hello = wire.resumption();
        let mut moved = place.greet(1, &hello).await.unwrap();
        assert!(has(&mut moved, "/mine").await);
        // Through the old server nothing goes any more.
        assert!(wire.create("/late", b"", 0).await.is_err());
        place.crash_process(3);
        place.until("another leader", |place| matches!(place.leader(), Some(1 | 2))).await;
        let mut wire = loop {
            match place.greet(2, &hello).await {
                Ok(wire) => break wire,
                Err(_) => place.sleep_ms(20).await,
            }
        };
        assert!(has(&mut wire, "/mine").await && !has(&mut wire, "/late").await);
        // A wrong password is an ended session's answer.
        let stranger = Hello { password: vec![1; 16], ..hello };
        assert!(place.greet(1, &stranger).await.is_err());
        wire.close_session().await.unwrap().code
    });
    assert_eq!(sound(&mut outcome), 0);
}

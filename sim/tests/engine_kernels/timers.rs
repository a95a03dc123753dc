//! Retransmission, keepalive, user timeouts.

use lockstorm::host::Keepalive;

use super::*;

#[test]
fn a_connection_dies_after_a_quarter_of_an_hour_of_a_cut() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(writes_at_100_ms)
        .ends_at(ms(2_000_000))
        .run(&EventEngine, |control| at(&control, 50, cut));
    // 200 ms doubled ten times, then every 120 s.
    assert_eq!(log, ["server 3000 accepted", "client 924700000 timed out"]);
}

#[test]
fn the_bytes_of_a_dead_program_are_given_up_after_100_seconds() {
    for (healed_at_ms, expected) in [
        // The last time that it sends them again is after 51 s; after 102 s it gives up.
        (51_000, &["server 3000 accepted", "server 51101000 hi", "server 51101000 end"][..]),
        (52_000, &["server 3000 accepted"][..]),
    ] {
        let log = Scene::new(&["server", "client"])
            .node(reader)
            .node(writes_at_100_ms)
            .ends_at(ms(2_000_000))
            .run(&EventEngine, move |control| {
                at(&control, 50, cut);
                at(&control, 200, |control| control.crash_process(CLIENT));
                at(&control, healed_at_ms, heal);
            });
        assert_eq!(log, expected, "healed at {healed_at_ms} ms");
    }
}

#[test]
fn new_kernels_repeat_syns_every_second_and_give_up_after_131() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let error = host.connect("server:7").await.unwrap_err();
            note(&log, &host, &error.kind().to_string());
        })
        .kernel(Kernel { syn_linear_timeouts: 4, ..Kernel::default() })
        .ends_at(ms(200_000))
        .run(&EventEngine, cut_at_once);
    assert_eq!(log, ["client 131000000 timed out"]);
}

fn cut_at_once(control: Arc<dyn Control>) {
    cut(&*control);
}

/// A client that probes after 10 s, every 5 s, and gives up after three probes.
async fn probes(host: Host, log: Log) {
    let mut stream = host.connect("server:7").await.unwrap();
    let (idle, interval) = (ms(10_000), ms(5_000));
    stream.set_keepalive(Some(Keepalive { idle, interval, count: 3 })).unwrap();
    reads(&host, &log, &mut stream).await;
}

#[test]
fn keepalive_counts_as_linux_does() {
    // Connected at 2 ms. Probes at 10.002 s (answered at 10.004), 20.004, 25.004 and
    // 30.004; over at 35.004.
    let log = Scene::new(&["server", "client"]).node(reader).node(probes).ends_at(ms(100_000)).run(
        &EventEngine,
        |control| {
            at(&control, 12_000, |control| control.crash_machine(SERVER));
        },
    );
    assert_eq!(log, ["server 3000 accepted", "client 35004000 timed out"]);
    // Restarted in between, it answers the probe of 25.004 s with a reset.
    let log = Scene::new(&["server", "client"]).node(reader).node(probes).ends_at(ms(100_000)).run(
        &EventEngine,
        |control| {
            at(&control, 12_000, |control| control.crash_machine(SERVER));
            at(&control, 22_000, |control| control.start(SERVER));
        },
    );
    assert_eq!(log, ["server 3000 accepted", "client 25006000 connection reset"]);
}

#[test]
fn a_quiet_connection_with_keepalive_lives() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(probes)
        .ends_at(ms(3_600_000))
        .run(&EventEngine, |control| {
            // Two probes are lost, the third is answered.
            at(&control, 1_000_000, cut);
            at(&control, 1_009_000, heal);
        });
    assert_eq!(log, ["server 3000 accepted"]);
}

#[test]
fn a_user_timeout_counts_from_the_first_retransmission() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            stream.set_user_timeout(Some(ms(3_000))).unwrap();
            host.sleep(ms(98)).await;
            stream.write_all(b"hi").await.unwrap();
            reads(&host, &log, &mut stream).await;
        })
        .run(&EventEngine, |control| at(&control, 50, cut));
    assert_eq!(log, ["server 3000 accepted", "client 3300000 timed out"]);
}

#[test]
fn the_end_of_a_handshake_that_is_lost_comes_with_the_first_data_or_after_a_second() {
    for (writes, expected) in [
        (false, vec!["server 1003000 accepted"]),
        (true, vec!["server 501000 accepted", "server 501000 hi"]),
    ] {
        let log = Scene::new(&["server", "client"])
            .node(reader)
            .node(move |host, log| async move {
                let mut stream = host.connect("server:7").await.unwrap();
                // Nothing that this could end is on its way yet.
                stream.set_user_timeout(Some(ms(100))).unwrap();
                host.sleep(ms(498)).await;
                if writes {
                    stream.write_all(b"hi").await.unwrap();
                }
                reads(&host, &log, &mut stream).await;
            })
            .run(&EventEngine, |control| {
                // After the SYN has crossed, before the SYN-ACK is answered.
                at_us(&control, 1_500, |control| control.cut(CLIENT, SERVER));
                at(&control, 300, |control| control.heal(CLIENT, SERVER));
            });
        assert_eq!(log, expected, "writes: {writes}");
    }
}

#[test]
fn a_handshake_is_its_listeners_and_not_the_next_programs() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            note(&log, &host, "connected");
            reads(&host, &log, &mut stream).await;
        })
        .run(&EventEngine, |control| {
            // The SYN was answered at 1 ms; the end of the handshake arrives at 3 ms.
            at_us(&control, 1_500, |control| control.crash_process(SERVER));
            at_us(&control, 1_600, |control| control.start(SERVER));
        });
    assert_eq!(log, ["client 2000 connected", "client 4000 connection reset"]);
}

#[test]
fn what_arrives_unacknowledged_arrives_once() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(98)).await;
            stream.write_all(b"a").await.unwrap();
            host.sleep(ms(10)).await;
            stream.write_all(b"b").await.unwrap();
            host.sleep(ms(390)).await;
            // Its kernel has sent again what was not acknowledged, and now sends no more.
            stream.write_all(b"c").await.unwrap();
            reads(&host, &log, &mut stream).await;
        })
        .run(&EventEngine, |control| {
            at(&control, 50, |control| control.cut(SERVER, CLIENT));
            at(&control, 1_000, |control| control.heal(SERVER, CLIENT));
        });
    // Sent again at 301, 701 and 1,501 ms.
    let expected =
        ["server 3000 accepted", "server 101000 a", "server 111000 b", "server 1502000 c"];
    assert_eq!(log, expected);
}

#[test]
fn ten_segments_arrive_unacknowledged_and_the_others_wait() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(98)).await;
            for letter in b'a'..=b'n' {
                stream.write_all(&[letter]).await.unwrap();
                host.sleep(ms(2)).await;
            }
            reads(&host, &log, &mut stream).await;
        })
        .run(&EventEngine, |control| {
            at(&control, 50, |control| control.cut(SERVER, CLIENT));
            at(&control, 250, |control| control.heal(SERVER, CLIENT));
        });
    let read: Vec<_> = log.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(read.len(), 15, "{log:?}");
    assert_eq!((read[1], read[10]), ("101000 a", "119000 j"));
    // With the first retransmission, 200 ms after the first of them.
    assert_eq!(read[11..], ["302000 k", "302000 l", "302000 m", "302000 n"]);
}

#[test]
fn a_cut_of_acknowledgements_touches_them() {
    let log = Scene::new(&["server", "client"])
        .node(reader)
        .node(writes_at_100_ms)
        .tells_touches()
        .ends_at(ms(250))
        .run(&EventEngine, |control| at(&control, 50, |control| control.cut(SERVER, CLIENT)));
    assert_eq!(
        log,
        [
            "server 3000 accepted",
            "- 101000 Cut { from: NodeId(0), to: NodeId(1) }",
            "server 101000 hi"
        ]
    );
}

#[test]
fn a_reset_strikes_both_ends_at_once_and_is_inert_without_a_connection() {
    let run = |reset_at_ms| {
        let scene = Scene::new(&["server", "client"]).node(reader).node(writes_at_100_ms);
        scene.tells_touches().run(&EventEngine, move |control| {
            // No cut keeps a middlebox from it.
            at(&control, 150, cut);
            at(&control, reset_at_ms, |control| control.reset(CLIENT, SERVER));
        })
    };
    let log = run(200);
    assert_eq!(
        log[2..],
        [
            "- 200000 Reset { a: NodeId(1), b: NodeId(0) }",
            "client 200000 connection reset",
            "server 200000 connection reset",
        ]
    );
    assert!(run(0).iter().all(|line| !line.contains("Reset")), "{log:?}");
}

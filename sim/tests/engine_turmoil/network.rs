//! Links, connections, timers.

use std::io;
use std::time::Duration;

use lockstorm::host::Keepalive;

use super::*;

#[test]
fn an_echo_takes_two_latencies_after_a_handshake_of_two_wherever_the_hosts_stand() {
    let client = |host: Host, log: Log| async move {
        let mut stream = host.connect("server:7").await.unwrap();
        note(&log, &host, &format!("connected to {}", stream.peer_addr()));
        stream.write_all(b"hi").await.unwrap();
        let mut buffer = [0; 2];
        stream.read_exact(&mut buffer).await.unwrap();
        note(&log, &host, "echoed");
    };
    let log = Scene::new(&["server", "client"]).node(echo()).node(client).run(&ENGINE, |_| {});
    assert_eq!(log, ["client 2000 connected to 192.168.0.1:7", "client 4000 echoed"]);
    let late = move |host: Host, log: Log| async move {
        // A server that is not stepped before the client.
        host.sleep(ms(10)).await;
        client(host, log).await;
    };
    let log = Scene::new(&["client", "server"]).node(late).node(echo()).run(&ENGINE, |_| {});
    assert_eq!(log, ["client 12000 connected to 192.168.0.2:7", "client 14000 echoed"]);
}

#[test]
fn timers_of_ours_and_of_tokio_end_on_the_next_tick() {
    for (tick_ms, expected) in [(1, [4_000, 5_000]), (10, [10_000, 10_000])] {
        let engine = Turmoil { tick_ms, ..ENGINE };
        let log = Scene::new(&["a", "b"])
            .node(|host, log| async move {
                host.sleep(Duration::from_micros(3_331)).await;
                note(&log, &host, "ours");
            })
            .node(|host, log| async move {
                tokio::time::sleep(Duration::from_micros(3_331)).await;
                let raw = host.clone();
                raw.sleep(Duration::from_micros(1)).await;
                note(&log, &host, "a short one after tokio's");
            })
            .run(&engine, |_| {});
        let times: Vec<u64> =
            log.iter().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
        assert_eq!(times, expected, "{log:?}");
    }
}

#[test]
fn what_was_sent_into_a_two_way_cut_arrives_after_the_heal() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(98)).await;
            stream.write_all(b"hi").await.unwrap();
            note(&log, &host, "sent");
            stream.read_exact(&mut [0; 2]).await.unwrap();
            note(&log, &host, "echoed");
        })
        .run(&ENGINE, |control| {
            at(&control, 50, cut);
            at(&control, 500, heal);
        });
    // Delivered with the heal itself: there is no retransmission timer.
    assert_eq!(log, ["client 100000 sent", "client 501000 echoed"]);
}

#[test]
fn a_segment_on_the_wire_is_caught_by_a_cut_and_order_is_kept() {
    let log = Scene::new(&["server", "client"])
        .latency_us(5_000)
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(87)).await;
            for piece in [b"a", b"b", b"c", b"d"] {
                stream.write_all(piece).await.unwrap();
                host.sleep(ms(1)).await;
            }
            let mut buffer = [0; 4];
            stream.read_exact(&mut buffer).await.unwrap();
            note(&log, &host, &String::from_utf8_lossy(&buffer));
        })
        .run(&ENGINE, |control| {
            at(&control, 99, cut);
            at(&control, 150, heal);
        });
    assert_eq!(log, ["client 155000 abcd"]);
}

#[test]
fn a_connect_into_a_cut_is_silent_until_it_is_healed_and_a_syn_repeated() {
    let connecting = |host: Host, log: Log| async move {
        let result = host.connect("server:7").await;
        note(&log, &host, &result.map_or_else(|error| error.kind().to_string(), |_| "open".into()));
    };
    let log =
        Scene::new(&["server", "client"]).node(echo()).node(connecting).run(&ENGINE, |control| {
            cut(&*control);
            at(&control, 1_500, heal);
        });
    assert_eq!(log, ["client 3002000 open"]);
    let scene = Scene::new(&["server", "client"]).node(echo()).node(connecting);
    let log = scene.ends_at(ms(130_000)).run(&ENGINE, |control| cut(&*control));
    assert_eq!(log, ["client 127000000 timed out"]);
}

#[test]
fn connects_that_are_refused_or_meet_silence_take_no_port_with_them() {
    // turmoil has 16,384 local ports for each host, and panics without.
    let log = Scene::new(&["server", "client"])
        .node(|_, _| std::future::pending())
        .node(|host, log| async move {
            for _ in 0..10_000 {
                let refused = host.connect("server:7").await.unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            }
            note(&log, &host, "refused");
            for _ in 0..10_000 {
                host.timeout(ms(1), host.connect("server:7")).await.unwrap_err();
            }
            note(&log, &host, "given up");
        })
        .ends_at(ms(31_000))
        .run(&ENGINE, |control| at(&control, 20_000, |control| control.crash_machine(SERVER)));
    assert_eq!(log, ["client 20000000 refused", "client 30000000 given up"]);
}

#[test]
fn a_port_is_free_again_at_once_and_taken_while_it_is_listened_on() {
    let log = Scene::new(&["server", "client"])
        .node(|host, log| async move {
            let first = host.listen(7).await.unwrap();
            let taken = host.listen(7).await.unwrap_err();
            note(&log, &host, &taken.kind().to_string());
            drop(first);
            let again = host.listen(7).await.unwrap();
            let free = host.listen(0).await.unwrap();
            note(&log, &host, &format!("{} {}", again.port(), free.port() >= 49_152));
            let accepted = free.accept();
            let connected = host.connect(&format!("server:{}", free.port())).await.unwrap();
            note(&log, &host, &format!("to myself: {}", connected.peer_addr().ip()));
            drop(connected);
            let refused = host.connect("server:9").await.unwrap_err();
            note(&log, &host, &refused.kind().to_string());
            let end = accepted.await.unwrap().read(&mut [0; 1]).await.unwrap();
            note(&log, &host, &format!("read {end}"));
        })
        .node(|_, _| std::future::pending())
        .run(&ENGINE, |_| {});
    // A refusal takes time even here: who tries again at once must get somewhere.
    assert!(log[3].starts_with("server 2000 "), "{log:?}");
    let said: Vec<_> = log.iter().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(
        said,
        ["address in use", "7 true", "to myself: 192.168.0.1", "connection refused", "read 0"]
    );
}

#[test]
fn the_end_of_the_peer_is_known_without_reading() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            std::future::poll_fn(|context| stream.poll_peer_closed(context)).await;
            note(&log, &host, "the server is gone");
        })
        .run(&ENGINE, |control| at(&control, 100, |control| control.crash_process(SERVER)));
    assert_eq!(log, ["client 101000 the server is gone"]);
}

#[test]
fn a_half_closed_connection_still_brings_the_answer() {
    let log = Scene::new(&["server", "client"])
        .node(|host, _| async move {
            let listener = host.listen(7).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            stream.write_all(b"all of it").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            note(&log, &host, &text);
        })
        .run(&ENGINE, |_| {});
    assert_eq!(log, ["client 4000 all of it"]);
}

#[test]
fn a_latency_with_a_spread_keeps_the_median_of_the_stage() {
    let log = Scene::new(&["server", "client"])
        .latency_us(5_000)
        .sigma_milli(400)
        .node(|host, log| async move {
            let listener = host.listen(7).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            while stream.read_exact(&mut [0; 1]).await.is_ok() {
                let ms = host.monotonic().as_millis() % 100;
                note(&log, &host, &format!("{ms:02}"));
            }
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            for round in 1..=400 {
                host.sleep(ms(100 * round) - host.monotonic()).await;
                stream.write_all(b"x").await.unwrap();
            }
            drop(log);
        })
        .ends_at(ms(40_050))
        .run(&ENGINE, |_| {});
    let mut latencies: Vec<&str> = log.iter().map(|line| &line[line.len() - 2..]).collect();
    latencies.sort_unstable();
    assert_eq!(latencies.len(), 400);
    // Tenth percentile and 99th of the lognormal are the ends of turmoil's range.
    let found = [latencies[0], latencies[199], latencies[399]];
    assert_eq!(found, ["03", "05", "13"]);
}

#[test]
fn an_abort_is_a_reset_that_overtakes_nothing_on_a_link_of_one_latency() {
    let log = Scene::new(&["server", "client"])
        .latency_us(5_000)
        .node(reads_to_the_end)
        .node(|host, _| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(90)).await;
            stream.write_all(b"last").await.unwrap();
            stream.abort();
            std::future::pending::<()>().await;
        })
        .run(&ENGINE, |_| {});
    assert_eq!(log, ["server 105000 4 bytes, false"]);
}

#[test]
fn a_reset_strikes_both_ends_in_the_same_tick() {
    let log = Scene::new(&["server", "client"])
        .node(reads_to_the_end)
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            let error = stream.read(&mut [0; 1]).await.unwrap_err();
            note(&log, &host, &error.kind().to_string());
        })
        .run(&ENGINE, |control| {
            at(&control, 50, cut);
            at(&control, 100, |control| control.reset(SERVER, CLIENT));
        });
    assert_eq!(log, ["server 100000 0 bytes, false", "client 100000 connection reset"]);
}

#[test]
fn keepalive_and_user_timeouts_are_refused_and_not_left_out() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            let second = Duration::from_secs(1);
            let keepalive = Keepalive { idle: second, interval: second, count: 3 };
            let error = stream.set_keepalive(Some(keepalive)).unwrap_err();
            note(&log, &host, &error.to_string());
            let error = stream.set_user_timeout(Some(second)).unwrap_err();
            note(&log, &host, &error.to_string());
            stream.set_keepalive(None).unwrap();
            stream.set_user_timeout(None).unwrap();
        })
        .run(&ENGINE, |_| {});
    let reason = |what| {
        format!(
            "client 2000 turmoil's TCP has no means for {what}; use timeouts of the program's own"
        )
    };
    assert_eq!(log, [reason("keepalive probes"), reason("a user timeout")]);
}

/// Every way in which turmoil's own connect fails at once.
#[test]
fn failed_connects_let_time_pass() {
    let log = Scene::new(&["server", "client"])
        .node(|host, _| async move {
            // A listener that comes and goes, so that connects meet it half open.
            loop {
                let listener = host.listen(7).await.unwrap();
                host.sleep(ms(1)).await;
                drop(listener);
                host.sleep(ms(2)).await;
            }
        })
        .node(|host, log| async move {
            let mut failed = 0;
            while host.monotonic() < ms(1_000) {
                let start = host.monotonic();
                if host.connect("server:7").await.is_err() {
                    failed += 1;
                }
                assert!(host.monotonic() > start, "a connect that took no time");
            }
            note(&log, &host, &format!("done, some failed: {}", failed > 10));
        })
        .run(&ENGINE, |_| {});
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].ends_with("done, some failed: true"), "{log:?}");
}

/// Deviations: what turmoil has no means for.
#[test]
fn an_abort_into_a_cut_is_heard_as_an_ordinary_close() {
    let log = Scene::new(&["server", "client"])
        .node(reads_to_the_end)
        .node(|host, _| async move {
            let stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(98)).await;
            stream.abort();
            std::future::pending::<()>().await;
        })
        .run(&ENGINE, |control| {
            at(&control, 50, cut);
            at(&control, 500, heal);
        });
    assert_eq!(log, ["server 500000 0 bytes, true"]);
}

#[test]
fn a_writer_waits_after_1024_segments_and_not_after_64_kib() {
    let log = Scene::new(&["server", "client"])
        .node(|host, _| async move {
            let listener = host.listen(7).await.unwrap();
            let _unread = listener.accept().await.unwrap();
            std::future::pending::<()>().await;
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            stream.write_all(&vec![7; 1_000_000]).await.unwrap();
            note(&log, &host, "a million bytes written");
            let mut segments = 62;
            while host.timeout(ms(10), stream.write_all(b"x")).await.is_ok() {
                segments += 1;
            }
            note(&log, &host, &format!("{segments} segments"));
        })
        .run(&ENGINE, |_| {});
    assert_eq!(log, ["client 2000 a million bytes written", "client 12000 1024 segments"]);
}

#[test]
fn a_slow_link_is_slow_in_both_directions_and_recovers() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            for _ in 0..3 {
                let start = host.monotonic();
                stream.write_all(b"hi").await.unwrap();
                stream.read_exact(&mut [0; 2]).await.unwrap();
                note(&log, &host, &format!("{:?}", host.monotonic() - start));
                host.sleep(ms(100)).await;
            }
        })
        .run(&ENGINE, |control| {
            at(&control, 50, |control| {
                control.slow(CLIENT, SERVER, 20_000);
                control.slow(SERVER, CLIENT, 20_000);
            });
            at(&control, 200, |control| {
                control.slow(CLIENT, SERVER, 0);
                control.slow(SERVER, CLIENT, 0);
            });
        });
    assert_eq!(log, ["client 4000 2ms", "client 146000 42ms", "client 248000 2ms"]);
}

#[test]
fn this_ends_address_is_what_the_other_end_has_for_its_peer() {
    let log = Scene::new(&["server", "client"])
        .node(|host, log| async move {
            let stream = host.listen(7).await.unwrap().accept().await.unwrap();
            note(&log, &host, &format!("{} {}", stream.local_addr().unwrap(), stream.peer_addr()));
            std::future::pending::<()>().await;
        })
        .node(|host, log| async move {
            host.sleep(ms(1)).await;
            let stream = host.connect("server:7").await.unwrap();
            note(&log, &host, &format!("{} {}", stream.peer_addr(), stream.local_addr().unwrap()));
            std::future::pending::<()>().await;
        })
        .run(&ENGINE, |_| {});
    let seen: Vec<&str> = log.iter().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    assert_eq!(seen.len(), 2, "{log:?}");
    assert_eq!(seen[0], seen[1]);
}

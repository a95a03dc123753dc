//! Does the event engine's network look to a program like a network?

mod stage;

use std::time::Duration;

use lockstorm_sim::engine::clock::ClockChange;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::world::NodeId;
use stage::{Log, Scene, echo, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);

#[test]
fn an_echo_takes_two_latencies_after_a_handshake_of_two() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            note(&log, &host, "connected");
            stream.write_all(b"hi").await.unwrap();
            let mut buffer = [0; 2];
            stream.read_exact(&mut buffer).await.unwrap();
            note(&log, &host, "echoed");
        })
        .run(&EventEngine, |_| {});
    assert_eq!(log, ["client 2000 connected", "client 4000 echoed"]);
}

#[test]
fn microsecond_events_and_millisecond_timers_are_both_exact() {
    let log: Vec<String> = Scene::new(&["a", "b"])
        .latency_us(250)
        .node(|host, log| timers(host, log, 3_331))
        .node(|host, log| timers(host, log, 777))
        .run(&EventEngine, |_| {});
    assert_eq!(log.len(), 2, "{log:?}");
    assert!(log.iter().all(|line| line.ends_with("all exact")), "{log:?}");
}

/// Twenty concurrent tasks, half with timers of ours, half with tokio's.
async fn timers(host: lockstorm::Host, log: Log, odd_us: u64) {
    let late = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20_u64 {
        let (host, late) = (host.clone(), late.clone());
        tasks.spawn(async move {
            for round in 0..200_u64 {
                let us = 1 + (task * 131 + round * odd_us) % 5_000;
                let start = host.monotonic();
                let due = if task % 2 == 0 {
                    host.sleep(Duration::from_micros(us)).await;
                    start + Duration::from_micros(us)
                } else {
                    tokio::time::sleep(Duration::from_micros(us)).await;
                    let due_us = (start.as_micros() as u64 + us).div_ceil(1_000) * 1_000;
                    Duration::from_micros(due_us)
                };
                if host.monotonic() != due {
                    late.lock().unwrap().push((task, host.monotonic(), due));
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    let verdict = match late.lock().unwrap().as_slice() {
        [] => "all exact".to_owned(),
        late => format!("{} late, first {:?}", late.len(), late[0]),
    };
    note(&log, &host, &verdict);
}

#[test]
fn a_pause_makes_timers_late_and_loses_nothing() {
    let log = Scene::new(&["server", "client"])
        .node(|host, log| async move {
            let listener = host.listen(7).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let mut buffer = [0; 64];
            loop {
                let count = stream.read(&mut buffer).await.unwrap();
                if count == 0 {
                    return;
                }
                note(&log, &host, &format!("read {count}"));
            }
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            for _ in 0..4 {
                host.sleep(ms(100)).await;
                stream.write_all(b"ab").await.unwrap();
            }
            note(&log, &host, "sent");
            host.sleep(ms(10_000)).await;
        })
        .run(&EventEngine, |control| {
            let (pausing, resuming) = (control.clone(), control.clone());
            control.after(150_000, Box::new(move || pausing.pause(SERVER, None)));
            control.after(600_000, Box::new(move || resuming.resume(SERVER, None)));
        });
    assert_eq!(log, ["server 103000 read 2", "client 402000 sent", "server 600000 read 6"]);
}

#[test]
fn a_process_crash_is_told_by_its_kernel() {
    let log = Scene::new(&["server", "client"]).node(echo()).node(probe).ends_at(ms(1_300)).run(
        &EventEngine,
        |control| {
            let (crashing, starting) = (control.clone(), control.clone());
            control.after(100_000, Box::new(move || crashing.crash_process(SERVER)));
            control.after(900_000, Box::new(move || starting.start(SERVER)));
        },
    );
    let expected = [
        "client 2000 connected",
        "client 4000 echoed",
        "client 204000 end of file",
        "client 404000 connect: connection refused",
        "client 606000 connect: connection refused",
        "client 808000 connect: connection refused",
        "client 1010000 connected",
        "client 1012000 echoed",
        "client 1214000 echoed",
    ];
    assert_eq!(log.iter().filter(|line| line.contains("echoed")).count(), 3, "{log:?}");
    assert_eq!(log.len(), expected.len(), "{log:?}");
    for (line, expected) in log.iter().zip(expected) {
        let (line, expected) =
            (line.split_once(' ').unwrap().1, expected.split_once(' ').unwrap().1);
        assert_eq!(line.split_once(' ').unwrap().1, expected.split_once(' ').unwrap().1, "{log:?}");
    }
}

#[test]
fn a_machine_crash_is_told_by_nobody_until_it_is_back() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(198)).await;
            stream.write_all(b"hi").await.unwrap();
            let mut buffer = [0; 2];
            let read = host.timeout(ms(500), stream.read_exact(&mut buffer)).await;
            note(&log, &host, if read.is_err() { "silence" } else { "an answer" });
            // The restarted machine knows nothing of this connection.
            let read = stream.read_exact(&mut buffer).await;
            note(&log, &host, &read.unwrap_err().kind().to_string());
        })
        .run(&EventEngine, |control| {
            let (crashing, starting) = (control.clone(), control.clone());
            control.after(100_000, Box::new(move || crashing.crash_machine(SERVER)));
            control.after(900_000, Box::new(move || starting.start(SERVER)));
        });
    // Sent at 200 ms, found lost at 201, sent again at 401, 801 and 1601 ms.
    assert_eq!(log, ["client 700000 silence", "client 1603000 connection reset"]);
}

/// Connects, echoes every 200 ms, waits at most 200 ms for anything, says what came.
async fn probe(host: lockstorm::Host, log: Log) {
    loop {
        let mut stream = match host.timeout(ms(200), host.connect("server:7")).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                note(&log, &host, &format!("connect: {}", error.kind()));
                host.sleep(ms(200)).await;
                continue;
            }
            Err(_) => {
                note(&log, &host, "connect: silence");
                continue;
            }
        };
        note(&log, &host, "connected");
        loop {
            let mut buffer = [0; 2];
            let _ = stream.write_all(b"hi").await;
            match host.timeout(ms(200), stream.read_exact(&mut buffer)).await {
                Ok(Ok(_)) => note(&log, &host, "echoed"),
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    note(&log, &host, "end of file");
                    break;
                }
                Ok(Err(error)) => {
                    note(&log, &host, &error.kind().to_string());
                    break;
                }
                Err(_) => {
                    note(&log, &host, "silence");
                    break;
                }
            }
            host.sleep(ms(200)).await;
        }
        host.sleep(ms(200)).await;
    }
}

#[test]
fn what_was_sent_into_a_cut_arrives_after_the_heal() {
    for one_way in [false, true] {
        let log = Scene::new(&["server", "client"])
            .node(echo())
            .node(|host, log| async move {
                let mut stream = host.connect("server:7").await.unwrap();
                host.sleep(ms(98)).await;
                stream.write_all(b"hi").await.unwrap();
                note(&log, &host, "sent");
                let mut buffer = [0; 2];
                stream.read_exact(&mut buffer).await.unwrap();
                note(&log, &host, "echoed");
            })
            .run(&EventEngine, move |control| {
                let (cutting, healing) = (control.clone(), control.clone());
                let cut = move || {
                    cutting.cut(CLIENT, SERVER);
                    if !one_way {
                        cutting.cut(SERVER, CLIENT);
                    }
                };
                let heal = move || {
                    healing.heal(CLIENT, SERVER);
                    healing.heal(SERVER, CLIENT);
                };
                control.after(50_000, Box::new(cut));
                control.after(500_000, Box::new(heal));
            });
        // Sent at 100 ms into the cut, again at 300 (still cut) and at 700 ms.
        assert_eq!(log, ["client 100000 sent", "client 702000 echoed"], "one way: {one_way}");
    }
}

#[test]
fn a_segment_on_the_wire_is_caught_by_a_cut_and_order_is_kept() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(Duration::from_micros(97_600)).await;
            for piece in [b"a", b"b", b"c", b"d"] {
                stream.write_all(piece).await.unwrap();
                host.sleep(Duration::from_micros(600)).await;
            }
            let mut buffer = [0; 4];
            stream.read_exact(&mut buffer).await.unwrap();
            note(&log, &host, &String::from_utf8_lossy(&buffer));
        })
        .run(&EventEngine, |control| {
            let (cutting, healing) = (control.clone(), control.clone());
            control.after(100_000, Box::new(move || cutting.cut(CLIENT, SERVER)));
            control.after(150_000, Box::new(move || healing.heal(CLIENT, SERVER)));
        });
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].ends_with(" abcd"), "{log:?}");
}

#[test]
fn bytes_handed_to_the_kernel_survive_the_process_and_not_the_machine() {
    for machine in [false, true] {
        let log = Scene::new(&["server", "client"])
            .node(|host, log| async move {
                let listener = host.listen(7).await.unwrap();
                let mut stream = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                let end = stream.read_to_end(&mut bytes).await;
                note(&log, &host, &format!("{} bytes, {}", bytes.len(), end.is_ok()));
            })
            .node(|host, _| async move {
                let mut stream = host.connect("server:7").await.unwrap();
                host.sleep(ms(98)).await;
                stream.write_all(b"last").await.unwrap();
                std::future::pending::<()>().await;
            })
            .run(&EventEngine, move |control| {
                let (cutting, crashing, healing) =
                    (control.clone(), control.clone(), control.clone());
                let crash = move || match machine {
                    true => crashing.crash_machine(CLIENT),
                    false => crashing.crash_process(CLIENT),
                };
                control.after(50_000, Box::new(move || cutting.cut(CLIENT, SERVER)));
                control.after(200_000, Box::new(crash));
                control.after(500_000, Box::new(move || healing.heal(CLIENT, SERVER)));
            });
        let expected: &[&str] = if machine { &[] } else { &["server 701000 4 bytes, true"] };
        assert_eq!(log, expected, "machine: {machine}");
    }
}

#[test]
fn a_writer_waits_for_a_reader_that_does_not_read() {
    let log = Scene::new(&["server", "client"])
        .node(|host, _| async move {
            let listener = host.listen(7).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            host.sleep(ms(497)).await;
            let mut bytes = vec![0; 100_000];
            stream.read_exact(&mut bytes).await.unwrap();
            std::future::pending::<()>().await;
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            stream.write_all(&vec![7; 100_000]).await.unwrap();
            note(&log, &host, "written");
            std::future::pending::<()>().await;
        })
        .run(&EventEngine, |_| {});
    assert_eq!(log, ["client 500000 written"]);
}

#[test]
fn a_fast_clock_shortens_timers_also_those_under_way() {
    let sleeper = |host: lockstorm::Host, log: Log| async move {
        host.sleep(ms(1_050)).await;
        note(&log, &host, "slept 1050 ms of my own");
    };
    let log = Scene::new(&["server", "client"]).node(sleeper).node(sleeper).run(
        &EventEngine,
        |control| {
            control.change_clock(SERVER, ClockChange::Rate { ppm: 50_000 });
            let changing = control.clone();
            let change = move || changing.change_clock(CLIENT, ClockChange::Rate { ppm: 50_000 });
            control.after(525_000, Box::new(change));
        },
    );
    assert_eq!(
        log,
        ["server 1000000 slept 1050 ms of my own", "client 1025000 slept 1050 ms of my own"]
    );
}

#[test]
fn a_connect_into_silence_ends_after_two_minutes() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let error = host.connect("server:7").await.unwrap_err();
            note(&log, &host, &error.kind().to_string());
        })
        .ends_at(ms(200_000))
        .run(&EventEngine, |control| control.cut(CLIENT, SERVER));
    assert_eq!(log, ["client 127000000 timed out"]);
}

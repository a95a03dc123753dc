//! Pauses, crashes, clocks.

use std::sync::Mutex;

use lockstorm_sim::engine::clock::ClockChange;

use super::*;

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
                let due = host.monotonic() + ms(100);
                host.sleep(ms(100)).await;
                let late = (host.monotonic() - due).as_millis();
                note(&log, &host, &format!("timer late by {late} ms"));
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
        .ends_at(ms(800))
        .run(&ENGINE, |control| {
            at(&control, 150, |control| control.pause(SERVER, None));
            at(&control, 600, |control| control.resume(SERVER, None));
        });
    assert_eq!(
        log,
        [
            "server 103000 read 2",
            "client 402000 sent",
            "server 600000 timer late by 397 ms",
            // turmoil hands out one segment for each read.
            "server 600000 read 2",
            "server 700000 timer late by 0 ms",
            "server 700000 read 2",
        ]
    );
}

#[test]
fn a_paused_program_has_a_kernel_that_accepts() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            host.sleep(ms(100)).await;
            let mut stream = host.connect("server:7").await.unwrap();
            note(&log, &host, "connected");
            stream.write_all(b"hi").await.unwrap();
            stream.read_exact(&mut [0; 2]).await.unwrap();
            note(&log, &host, "echoed");
        })
        .run(&ENGINE, |control| {
            at(&control, 50, |control| control.pause(SERVER, None));
            at(&control, 600, |control| control.resume(SERVER, None));
        });
    assert_eq!(log, ["client 102000 connected", "client 601000 echoed"]);
}

/// Connects, echoes every 200 ms, waits at most 200 ms for anything, says what came.
async fn probe(host: Host, log: Log) {
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
fn a_process_crash_is_told_by_its_kernel() {
    let scene = Scene::new(&["server", "client"]).node(echo()).node(probe);
    let log = scene.ends_at(ms(1_300)).run(&ENGINE, |control| {
        at(&control, 100, |control| control.crash_process(SERVER));
        at(&control, 900, |control| control.start(SERVER));
    });
    assert_eq!(
        log,
        [
            "client 2000 connected",
            "client 4000 echoed",
            "client 204000 unexpected end of file",
            "client 406000 connect: connection refused",
            "client 608000 connect: connection refused",
            "client 810000 connect: connection refused",
            "client 1012000 connected",
            "client 1014000 echoed",
            "client 1216000 echoed",
        ]
    );
}

#[test]
fn a_dead_process_has_a_kernel_that_resets() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            host.sleep(ms(200)).await;
            // FIN has come; the first write is answered with a reset, the second fails.
            stream.write_all(b"hi").await.unwrap();
            host.sleep(ms(5)).await;
            let error = stream.write_all(b"hi").await.unwrap_err();
            note(&log, &host, &error.kind().to_string());
        })
        .run(&ENGINE, |control| at(&control, 100, |control| control.crash_process(SERVER)));
    assert_eq!(log, ["client 207000 broken pipe"]);
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
        .run(&ENGINE, |control| {
            at(&control, 100, |control| control.crash_machine(SERVER));
            at(&control, 900, |control| control.start(SERVER));
        });
    // The segment waits at the dead machine's door: no retransmission timer is awaited.
    assert_eq!(log, ["client 700000 silence", "client 901000 connection reset"]);
}

#[test]
fn a_dead_machine_answers_no_connect_and_works_after_its_restart() {
    let scene = Scene::new(&["server", "client"]).node(echo()).node(probe);
    let log = scene.ends_at(ms(1_100)).run(&ENGINE, |control| {
        at(&control, 100, |control| control.crash_machine(SERVER));
        at(&control, 1_000, |control| control.start(SERVER));
    });
    assert_eq!(
        log,
        [
            "client 2000 connected",
            "client 4000 echoed",
            "client 404000 silence",
            "client 804000 connect: silence",
            "client 1004000 connect: silence",
            "client 1006000 connected",
            "client 1008000 echoed",
        ]
    );
}

#[test]
fn a_crash_asked_for_inside_a_task_strikes_within_the_tick() {
    for machine in [false, true] {
        let control = Arc::new(Mutex::new(None::<Arc<dyn Control>>));
        let (given, used) = (control.clone(), control);
        let log = Scene::new(&["server", "victim"])
            .node(move |host, log| {
                let control = used.lock().unwrap().clone().unwrap();
                async move {
                    let listener = host.listen(7).await.unwrap();
                    let mut stream = listener.accept().await.unwrap();
                    stream.read_exact(&mut [0; 2]).await.unwrap();
                    // The victim would run later in this very tick.
                    match machine {
                        true => control.crash_machine(CLIENT),
                        false => control.crash_process(CLIENT),
                    }
                    let read = host.timeout(ms(100), stream.read(&mut [0; 2])).await;
                    note(&log, &host, &format!("{:?}", read.map(Result::unwrap)));
                }
            })
            .node(|host, log| async move {
                let mut stream = host.connect("server:7").await.unwrap();
                let ticking = host.clone();
                host.spawn("ticker", async move {
                    for _ in 0..4 {
                        note(&log, &ticking, "lives");
                        ticking.sleep(ms(1)).await;
                    }
                });
                stream.write_all(b"hi").await.unwrap();
                std::future::pending::<()>().await;
            })
            .run(&ENGINE, move |control| *given.lock().unwrap() = Some(control));
        let end = match machine {
            true => "server 103000 Err(Elapsed)",
            false => "server 5000 Ok(0)",
        };
        assert_eq!(log, ["victim 2000 lives", end], "machine: {machine}");
    }
}

#[test]
fn bytes_handed_to_the_kernel_survive_the_process_and_not_the_machine() {
    for machine in [false, true] {
        let log = Scene::new(&["server", "client"]).node(reads_to_the_end).node(sends_last).run(
            &ENGINE,
            move |control| {
                at(&control, 50, cut);
                at(&control, 200, move |control| match machine {
                    true => control.crash_machine(CLIENT),
                    false => control.crash_process(CLIENT),
                });
                at(&control, 500, heal);
            },
        );
        let expected: &[&str] = if machine { &[] } else { &["server 500000 4 bytes, true"] };
        assert_eq!(log, expected, "machine: {machine}");
    }
}

#[test]
fn what_is_on_the_wire_arrives_whatever_dies_behind_it() {
    for machine in [false, true] {
        let log = Scene::new(&["server", "client"])
            .latency_us(400_000)
            .node(|host, log| async move {
                let listener = host.listen(7).await.unwrap();
                let mut stream = listener.accept().await.unwrap();
                let mut buffer = [0; 64];
                loop {
                    let count = stream.read(&mut buffer).await.unwrap();
                    note(&log, &host, &format!("read {count}"));
                    if count == 0 {
                        return;
                    }
                }
            })
            .node(sends_last)
            .run(&ENGINE, move |control| {
                at(&control, 1_000, move |control| match machine {
                    true => control.crash_machine(CLIENT),
                    false => control.crash_process(CLIENT),
                });
            });
        let expected = ["server 1298000 read 4", "server 1400000 read 0"];
        assert_eq!(log, expected[..if machine { 1 } else { 2 }], "machine: {machine}");
    }
}

/// Sends four bytes 98 ms after it is connected, and stays.
async fn sends_last(host: Host, _: Log) {
    let mut stream = host.connect("server:7").await.unwrap();
    host.sleep(ms(98)).await;
    stream.write_all(b"last").await.unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn a_fast_clock_shortens_timers_also_those_under_way() {
    let sleeper = |host: Host, log: Log| async move {
        host.sleep(ms(1_050)).await;
        note(&log, &host, "slept 1050 ms of my own");
    };
    let scene = Scene::new(&["server", "client"]).node(sleeper).node(sleeper);
    let log = scene.run(&ENGINE, |control| {
        control.change_clock(SERVER, ClockChange::Rate { ppm: 50_000 });
        at(&control, 525, |control| {
            control.change_clock(CLIENT, ClockChange::Rate { ppm: 50_000 });
        });
    });
    assert_eq!(
        log,
        ["server 1000000 slept 1050 ms of my own", "client 1025000 slept 1050 ms of my own"]
    );
}

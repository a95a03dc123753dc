//! Does turmoil, as our reference engine, look to a program like a network? What it
//! cannot do is asserted too: docs/engines.md lists it.

mod stage;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::engine::clock::ClockChange;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::{NodeId, Touch, World};
use lockstorm_sim::engine::{Control, Ending, Engine, Factory, Links, Stage};
use lockstorm_sim::history::Recorder;
use stage::{Log, Scene, echo, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const ENGINE: Turmoil = Turmoil { reseed: 0, tick_ms: 1 };

fn at(control: &Arc<dyn Control>, after_ms: u64, act: impl FnOnce(&dyn Control) + Send + 'static) {
    let acting = control.clone();
    control.after(after_ms * 1_000, Box::new(move || act(&*acting)));
}

fn cut(control: &dyn Control) {
    control.cut(CLIENT, SERVER);
    control.cut(SERVER, CLIENT);
}

fn heal(control: &dyn Control) {
    control.heal(CLIENT, SERVER);
    control.heal(SERVER, CLIENT);
}

/// Runs two programs on a thread of their own; what the engine says of it, and the
/// faults' touches.
fn run_raw(
    engine: Turmoil,
    factories: [Factory; 2],
    opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
) -> (Ending, Vec<Touch>) {
    let run = move || {
        let world = World::new(1, ["server", "client"].map(Into::into));
        let touches = Arc::new(Mutex::new(Vec::new()));
        let (clock, seen) = (world.clone(), touches.clone());
        world.on_touch(Some(Arc::new(move |touch| {
            let seen = &mut *seen.lock().unwrap();
            if !seen.contains(&touch) {
                seen.push(touch);
            }
        })));
        let ending = engine.run(Stage {
            world,
            factories: factories.into(),
            links: Links { median_us: 1_000, sigma_milli: 0 },
            ends_at_us: 2_000_000,
            recorder: Recorder::new(move || clock.now_us()),
            opening: Box::new(opening),
        });
        let touches = touches.lock().unwrap().clone();
        (ending, touches)
    };
    std::thread::spawn(run).join().unwrap()
}

fn factory<F>(program: impl Fn(Host) -> F + Send + Sync + 'static) -> Factory
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |host| Box::pin(program(host)))
}

async fn asks_every_50_ms(host: Host) {
    let mut stream = host.connect("server:7").await.unwrap();
    let mut buffer = [0; 2];
    loop {
        stream.write_all(b"hi").await.unwrap();
        stream.read_exact(&mut buffer).await.unwrap();
        host.sleep(ms(50)).await;
    }
}

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
    for (tick_ms, expected) in [(1, [4_000, 4_000, 4_000]), (10, [10_000, 10_000, 10_000])] {
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
        let after_tokio = if tick_ms == 1 { 5_000 } else { 10_000 };
        assert_eq!(times, [expected[0], after_tokio], "{log:?}");
    }
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
    let log = Scene::new(&["server", "client"]).node(echo()).node(probe).ends_at(ms(3_000)).run(
        &ENGINE,
        |control| {
            at(&control, 100, |control| control.crash_machine(SERVER));
            at(&control, 1_000, |control| control.start(SERVER));
        },
    );
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
        ][..6]
            .iter()
            .copied()
            .chain(log.iter().skip(6).map(String::as_str))
            .collect::<Vec<_>>()
    );
    assert!(log.iter().skip(6).all(|line| line.ends_with("echoed")), "{log:?}");
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
            false => "server 4000 Ok(0)",
        };
        assert_eq!(log, ["victim 2000 lives", end], "machine: {machine}");
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
fn a_cut_of_one_direction_alone_changes_nothing() {
    let (ending, touches) = run_raw(ENGINE, [echo_factory(), factory(asks_every_50_ms)], |control| {
        control.cut(CLIENT, SERVER);
    });
    assert_eq!((ending.stuck, touches), (None, vec![]));
    assert!(ending.messages > 70, "{}", ending.messages);
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
fn bytes_handed_to_the_kernel_survive_the_process_and_not_the_machine() {
    for machine in [false, true] {
        let log = Scene::new(&["server", "client"])
            .node(reads_to_the_end)
            .node(sends_last)
            .run(&ENGINE, move |control| {
                at(&control, 50, cut);
                at(&control, 200, move |control| match machine {
                    true => control.crash_machine(CLIENT),
                    false => control.crash_process(CLIENT),
                });
                at(&control, 500, heal);
            });
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

async fn reads_to_the_end(host: Host, log: Log) {
    let listener = host.listen(7).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    note(&log, &host, &format!("{} bytes, {}", bytes.len(), end.is_ok()));
}

/// Sends four bytes 98 ms after it is connected, and stays.
async fn sends_last(host: Host, _: Log) {
    let mut stream = host.connect("server:7").await.unwrap();
    host.sleep(ms(98)).await;
    stream.write_all(b"last").await.unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn a_connect_into_a_cut_is_silent_until_it_is_healed_and_a_syn_repeated() {
    let connecting = |host: Host, log: Log| async move {
        let result = host.connect("server:7").await;
        note(&log, &host, &result.map_or_else(|error| error.kind().to_string(), |_| "open".into()));
    };
    let log = Scene::new(&["server", "client"]).node(echo()).node(connecting).run(&ENGINE, |control| {
        cut(&*control);
        at(&control, 1_500, heal);
    });
    assert_eq!(log, ["client 3002000 open"]);
    let scene = Scene::new(&["server", "client"]).node(echo()).node(connecting);
    let log = scene.ends_at(ms(130_000)).run(&ENGINE, |control| cut(&*control));
    assert_eq!(log, ["client 127000000 timed out"]);
}

#[test]
fn connects_that_fail_or_are_given_up_take_no_port_with_them() {
    // turmoil has 16,384 local ports for each host, and panics without.
    let log = Scene::new(&["server", "client"])
        .node(|_, _| std::future::pending())
        .node(|host, log| async move {
            for _ in 0..20_000 {
                let refused = host.connect("server:7").await.unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            }
            note(&log, &host, "done");
        })
        .ends_at(ms(41_000))
        .run(&ENGINE, |_| {});
    assert_eq!(log, ["client 40000000 done"]);
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

#[test]
fn faults_tell_when_they_touch_something() {
    let cases: [(fn(&dyn Control), &[Touch]); 4] = [
        (cut, &[Touch::Cut { from: CLIENT, to: SERVER }]),
        (
            |control| control.slow(CLIENT, SERVER, 5_000),
            &[
                Touch::Slowed { from: CLIENT, to: SERVER },
                Touch::Slowed { from: SERVER, to: CLIENT },
            ],
        ),
        (|control| control.pause(SERVER, None), &[Touch::Frozen { node: SERVER }]),
        (
            |control| control.change_clock(CLIENT, ClockChange::Step { by_us: 1 }),
            &[Touch::Clock { node: CLIENT }],
        ),
    ];
    for (strike, expected) in cases {
        let factories = [echo_factory(), factory(asks_every_50_ms)];
        let (_, touches) = run_raw(ENGINE, factories, move |control| at(&control, 100, strike));
        assert_eq!(touches, expected);
    }
}

#[test]
fn a_cut_touches_what_is_on_the_wire() {
    let once = |host: Host| async move {
        let mut stream = host.connect("server:7").await.unwrap();
        host.sleep(ms(98)).await;
        stream.write_all(b"hi").await.unwrap();
        std::future::pending::<()>().await;
    };
    let factories = [echo_factory(), factory(once)];
    let (_, touches) = run_raw(ENGINE, factories, |control| at(&control, 100, |control| {
        // Runs before the hosts of this tick; what they send now is on the wire later.
        control.slow(CLIENT, SERVER, 50_000);
    }));
    assert!(touches.contains(&Touch::Slowed { from: CLIENT, to: SERVER }));
    let factories = [echo_factory(), factory(once)];
    let (_, touches) = run_raw(ENGINE, factories, |control| {
        control.slow(CLIENT, SERVER, 50_000);
        at(&control, 230, cut);
    });
    assert!(touches.contains(&Touch::Cut { from: CLIENT, to: SERVER }), "{touches:?}");
}

fn echo_factory() -> Factory {
    let program = echo();
    Arc::new(move |host| program(host, Log::default()))
}

#[test]
fn a_panic_ends_the_run_and_names_the_node() {
    let fine = || factory(|_| std::future::pending());
    let ours = factory(|host: Host| async move {
        let failing = host.clone();
        host.spawn("worker", async move {
            failing.sleep(ms(5)).await;
            panic!("out of units");
        });
    });
    let (ending, _) = run_raw(ENGINE, [fine(), ours], |_| {});
    assert_eq!(ending.stuck.unwrap(), "a task of client (worker) panicked: out of units");
    assert_eq!(ending.steps, 5);
    let past_the_host = factory(|host: Host| async move {
        host.sleep(ms(5)).await;
        tokio::spawn(async { panic!("somebody else's") });
        std::future::pending::<()>().await;
    });
    let (ending, _) = run_raw(ENGINE, [past_the_host, fine()], |_| {});
    assert!(ending.stuck.unwrap().starts_with("a task of server panicked: "));
}

#[test]
fn the_end_is_where_the_stage_or_a_fault_says() {
    let idle = || factory(|_| std::future::pending());
    let (ending, _) = run_raw(ENGINE, [idle(), idle()], |_| {});
    assert_eq!(ending, Ending { steps: 2_000, messages: 0, stuck: None });
    let (ending, _) = run_raw(ENGINE, [idle(), idle()], |control| {
        at(&control, 700, |control| control.finish());
    });
    assert_eq!(ending.steps, 700);
    let coarse = Turmoil { tick_ms: 10, ..ENGINE };
    let (ending, _) = run_raw(coarse, [idle(), idle()], |_| {});
    assert_eq!(ending.steps, 200);
}

fn storm(reseed: u64, seed: u64) -> Vec<String> {
    let client = |host: Host, log: Log| async move {
        for _ in 0..200 {
            let Ok(Ok(mut stream)) = host.timeout(ms(300), host.connect("server:7")).await else {
                note(&log, &host, "not connected");
                host.sleep(host.random_duration("again", ms(10), ms(60))).await;
                continue;
            };
            for _ in 0..10 {
                let ask = async {
                    stream.write_all(b"hi").await?;
                    stream.read_exact(&mut [0; 2]).await
                };
                match host.timeout(ms(100), ask).await {
                    Ok(Ok(_)) => note(&log, &host, "echoed"),
                    other => {
                        note(&log, &host, &format!("{:?}", other.map(|done| done.is_ok())));
                        break;
                    }
                }
                host.sleep(host.random_duration("think", ms(1), ms(30))).await;
            }
        }
    };
    let scene = Scene::new(&["server", "a", "b", "c"]).node(echo());
    scene
        .node(client)
        .node(client)
        .node(client)
        .latency_us(4_000)
        .sigma_milli(500)
        .seed(seed)
        .ends_at(ms(3_000))
        .run(&Turmoil { reseed, tick_ms: 1 }, |control| {
            at(&control, 300, |control| control.pause(SERVER, None));
            at(&control, 500, |control| control.resume(SERVER, None));
            at(&control, 700, |control| control.crash_process(SERVER));
            at(&control, 900, |control| control.start(SERVER));
            at(&control, 1_200, cut);
            at(&control, 1_400, |control| control.crash_machine(SERVER));
            at(&control, 1_600, heal);
            at(&control, 1_800, |control| control.start(SERVER));
        })
}

#[test]
fn the_same_seed_gives_the_same_run_and_a_reseed_another() {
    let first = storm(0, 7);
    assert!(first.len() > 200, "{}", first.len());
    assert_eq!(first, storm(0, 7));
    assert_ne!(first, storm(1, 7));
    assert_ne!(first, storm(0, 8));
}

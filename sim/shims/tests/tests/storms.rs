//! Does a third-party client, which never heard of a host, behave on the shims as a part of
//! its node: over the run's network, by the node's clock, still in a pause, dead after a
//! crash?

#[path = "../../../tests/stage/mod.rs"]
mod stage;

use std::time::{Duration, Instant};

use async_io::Timer;
use async_net::TcpStream;
use asyncs::task;
use futures_lite::future;
use lockstorm::Host;
use lockstorm_interpose::Senses;
use lockstorm_shims_tests::{Listener, chat, say, within};
use lockstorm_sim::engine::clock::ClockChange;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Engine, senses};
use stage::{Log, Scene, echo, ms, note};

const CLIENT: NodeId = NodeId(1);

/// Writes down what a client on a node does.
#[derive(Clone)]
struct Ear {
    log: Log,
    host: Host,
}

impl Listener for Ear {
    fn hear(&self, what: &str) {
        note(&self.log, &self.host, what);
    }
}

fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// An echo and a client that says something every 100 ms.
fn conversation() -> Scene {
    install_senses();
    Scene::new(&["server", "client"]).ends_at(ms(2_000)).node(echo()).node(
        |host: Host, log: Log| async move {
            let ear = Ear { log, host };
            let talk = chat(("server", 7), ms(100), 10, ear.clone()).await.unwrap();
            let heard = talk.await.unwrap();
            ear.hear(&format!("heard {heard}"));
        },
    )
}

/// The times of the client's lines, ms.
fn times_ms(log: &[String]) -> Vec<u64> {
    let ours = log.iter().filter(|line| line.starts_with("client "));
    ours.map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 1_000).collect()
}

fn engines() -> [Box<dyn Engine>; 2] {
    [Box::new(EventEngine), Box::new(Turmoil::default())]
}

#[test]
fn it_talks_over_the_network_of_the_run() {
    let log = conversation().run(&EventEngine, |_| {});
    let mut expected = vec!["client 2000 connected".to_owned()];
    expected.extend((1..=10).map(|tick| format!("client {} echoed", tick * 100_000 + 4_000)));
    expected.push("client 1004000 heard 10".to_owned());
    assert_eq!(log, expected);
}

#[test]
fn it_talks_under_turmoil_as_well() {
    let log = conversation().run(&Turmoil::default(), |_| {});
    assert_eq!(log.len(), 12, "{log:?}");
    assert!(log[11].ends_with(" heard 10"), "{log:?}");
}

#[test]
fn twice_it_leaves_the_same_trace() {
    for engine in engines() {
        let run = |seed| conversation().seed(seed).sigma_milli(500).run(&*engine, |_| {});
        assert_eq!(run(1), run(1), "{}", engine.name());
        assert_ne!(run(1), run(2), "{}", engine.name());
    }
}

#[test]
fn a_pause_freezes_its_tasks_and_is_expressible() {
    for engine in engines() {
        let log = conversation().tells_touches().run(&*engine, |control| {
            let (pausing, resuming) = (control.clone(), control.clone());
            control.after(250_000, Box::new(move || pausing.pause(CLIENT, None)));
            control.after(750_000, Box::new(move || resuming.resume(CLIENT, None)));
        });
        let times_ms = times_ms(&log);
        let within = |from, to| times_ms.iter().filter(|at| (from..to).contains(*at)).count();
        assert_eq!((within(0, 250), within(250, 750)), (3, 0), "{}: {log:?}", engine.name());
        assert!(log.iter().any(|line| line.contains("Frozen")), "{log:?}");
        // The ticks that were missed come one after the other.
        assert!(within(750, 800) >= 5, "{}: {log:?}", engine.name());
        assert!(log.last().unwrap().ends_with(" heard 10"), "{log:?}");
    }
}

#[test]
fn the_name_of_a_task_is_its_group() {
    let log = conversation().run(&EventEngine, |control| {
        let (pausing, resuming) = (control.clone(), control.clone());
        control.after(250_000, Box::new(move || pausing.pause(CLIENT, Some("chat"))));
        control.after(750_000, Box::new(move || resuming.resume(CLIENT, Some("chat"))));
    });
    assert!(!times_ms(&log).iter().any(|at| (250..750).contains(at)), "{log:?}");
}

#[test]
fn a_crash_ends_its_tasks() {
    for engine in engines() {
        let log = conversation().run(&*engine, |control| {
            let crashing = control.clone();
            control.after(250_000, Box::new(move || crashing.crash_process(CLIENT)));
        });
        assert_eq!(times_ms(&log).len(), 3, "{}: {log:?}", engine.name());
    }
}

/// Does something in the background when it goes, as a lock does that is dropped.
struct Will(Ear);

impl Drop for Will {
    fn drop(&mut self) {
        let ear = self.0.clone();
        ear.hear("dropped");
        asyncs::spawn(async move { ear.hear("executed") });
    }
}

#[test]
fn what_a_destructor_spawns_lives_and_dies_with_the_program() {
    let heirs = |crashes: bool| {
        move |engine: &dyn Engine| {
            install_senses();
            Scene::new(&["server", "client"])
                .node(echo())
                .node(|host: Host, log: Log| async move {
                    let will = Will(Ear { log, host });
                    asyncs::spawn(async move {
                        Timer::after(ms(200)).await;
                        drop(will);
                    });
                    future::pending::<()>().await;
                })
                .run(engine, move |control| {
                    let crashing = control.clone();
                    if crashes {
                        control.after(100_000, Box::new(move || crashing.crash_process(CLIENT)));
                    }
                })
        }
    };
    for engine in engines() {
        let lived = heirs(false)(&*engine);
        assert_eq!(lived.len(), 2, "{}: {lived:?}", engine.name());
        let crashed = heirs(true)(&*engine);
        assert_eq!(crashed.len(), 1, "{}: {crashed:?}", engine.name());
        assert!(crashed[0].ends_with("dropped"), "{crashed:?}");
    }
}

/// Waits for a second in each way that there is, and tells when it is over.
async fn wait_a_second(host: Host, log: Log) {
    let (ear, second) = (Ear { log, host }, ms(1_000));
    // Changed by then: instants are the node's.
    Timer::after(ms(100)).await;
    #[expect(clippy::disallowed_methods, reason = "the published API is written in it")]
    let start = Instant::now();
    Timer::at(start + second).await;
    ear.hear("at");
    Timer::after(second).await;
    ear.hear("after");
    assert!(within(second, future::pending::<()>()).await.is_none());
    ear.hear("delay");
    assert_eq!(start.elapsed(), second * 3);
}

#[test]
fn timers_follow_the_clock_of_their_node() {
    install_senses();
    let log = Scene::new(&["true", "fast"])
        .node(wait_a_second)
        .node(wait_a_second)
        .run(&EventEngine, |control| {
            control.change_clock(NodeId(1), ClockChange::Rate { ppm: 250_000 })
        });
    let expected = [
        "fast 880000 at",
        "true 1100000 at",
        "fast 1680000 after",
        "true 2100000 after",
        "fast 2480000 delay",
        "true 3100000 delay",
    ];
    assert_eq!(log, expected);
}

#[test]
fn what_is_beyond_all_clocks_never_comes() {
    install_senses();
    let log = Scene::new(&["a"]).node(|host: Host, log: Log| async move {
        for timer in [Timer::after(Duration::MAX), Timer::interval(Duration::MAX), Timer::never()] {
            assert!(!timer.will_fire());
            assert!(within(ms(1), timer).await.is_none());
        }
        // A whole microsecond is waited for what is less than one.
        let mut ticks = Timer::interval(Duration::from_nanos(1));
        futures_lite::StreamExt::next(&mut ticks).await.unwrap();
        note(&log, &host, "over");
    });
    assert_eq!(log.run(&EventEngine, |_| {}), ["a 3001 over"]);
}

#[test]
fn a_task_that_was_spawned_past_its_host_finds_its_node() {
    install_senses();
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host: Host, log: Log| async move {
            let ear = Ear { log, host };
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(("server", 7)).await.unwrap();
                say(&mut stream, "word", ms(100)).await.unwrap();
                ear.hear("echoed");
            });
        })
        .run(&EventEngine, |_| {});
    assert_eq!(log, ["client 4000 echoed"]);
}

#[test]
fn nobodys_code_on_the_thread_of_a_run_is_refused() {
    for engine in engines() {
        let log = Log::default();
        let told = log.clone();
        let scene = Scene::new(&["server"]).node(echo());
        scene.run(&*engine, move |control| {
            let action = move || {
                let connecting = TcpStream::connect(("server", 7));
                let error = future::block_on(connecting).unwrap_err();
                told.lock().unwrap().push(error.to_string());
                let task = task::spawn(async { 1 });
                assert!(future::block_on(task).is_err(), "it never ran");
            };
            control.after(100_000, Box::new(action));
        });
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 1, "{}", engine.name());
        assert!(log[0].contains("on none of its nodes"), "{log:?}");
    }
}

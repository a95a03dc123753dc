//! What do a node's clocks, pauses and disk do to the programs on it? The same on both
//! engines, seen by programs of a few lines.

mod stage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm_sim::engine::clock::{ClockChange, WALL_ORIGIN_US};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Engine};
use lockstorm_sim::server::redis::Server;
use stage::{Log, Scene, ms, note};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

const FIRST: NodeId = NodeId(0);
const SECOND: NodeId = NodeId(1);

/// A scene is told the same by both engines.
fn on_both(
    scene: impl Fn() -> Scene,
    opening: impl Fn(Arc<dyn Control>) + Clone + Send + 'static,
) -> Vec<String> {
    let on = |engine: &dyn Engine| scene().run(engine, opening.clone());
    let told = on(&EventEngine);
    assert_eq!(on(&Turmoil::default()), told, "turmoil tells it otherwise");
    told
}

fn at(control: &Arc<dyn Control>, at_ms: u64, strike: impl FnOnce(&dyn Control) + Send + 'static) {
    let inner = control.clone();
    control.after(at_ms * 1_000, Box::new(move || strike(&*inner)));
}

#[test]
fn two_hundred_ppm_are_a_fifth_of_a_second_ahead_after_a_thousand() {
    let scene = || {
        Scene::new(&["node", "truth"])
            .node(|host, log| async move {
                host.sleep(Duration::from_micros(1_000_200_000)).await;
                let wall_us = host.wall().as_micros() as i64 - WALL_ORIGIN_US;
                let monotonic_us = host.monotonic().as_micros();
                note(&log, &host, &format!("monotonic {monotonic_us} wall {wall_us}"));
            })
            .node(|host, log| async move {
                host.sleep(Duration::from_secs(1_000)).await;
                note(&log, &host, "a thousand seconds");
            })
            .ends_at(Duration::from_secs(1_001))
    };
    let fast = |control: Arc<dyn Control>| {
        control.change_clock(FIRST, ClockChange::Rate { ppm: 200 });
    };
    let expected = [
        "node 1000000000 monotonic 1000200000 wall 1000200000",
        "truth 1000000000 a thousand seconds",
    ];
    for engine in [&EventEngine as &dyn Engine, &Turmoil { tick_ms: 100, ..Turmoil::default() }] {
        let mut told = scene().run(engine, fast);
        told.sort();
        assert_eq!(told, expected, "{}", engine.name());
    }
}

/// Asks a server of Redis one command.
async fn ask(stream: &mut Stream, command: &str) -> String {
    stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    let mut buffer = [0; 64];
    let count = stream.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..count]).trim_end().to_owned()
}

#[test]
fn a_step_of_the_wall_moves_the_expiry_of_redis_and_no_timer() {
    let scene = || {
        Scene::new(&["redis-1", "app-1"])
            .node(|host, log| async move {
                let timer = host.clone();
                host.spawn("timer", async move {
                    timer.sleep(ms(3_000)).await;
                    note(&log, &timer, "the timer of three seconds");
                });
                Server::alone(host).run().await.unwrap();
            })
            .node(|host, log| async move {
                host.sleep(ms(100)).await;
                let mut stream = host.connect("redis-1:6379").await.unwrap();
                assert_eq!(ask(&mut stream, "SET lock app-1 PX 3000").await, "+OK");
                for seconds in 0..4 {
                    host.sleep(ms(1_000)).await;
                    let there = ask(&mut stream, "EXISTS lock").await;
                    note(&log, &host, &format!("after {seconds} s: {there}"));
                }
            })
            .ends_at(ms(6_000))
    };
    let told = |by_us: i64| {
        let log = on_both(scene, move |control| {
            at(&control, 1_500, move |control| {
                control.change_clock(FIRST, ClockChange::Step { by_us });
            });
        });
        let timer = log.iter().find(|line| line.ends_with("three seconds")).unwrap();
        assert!(timer.starts_with("redis-1 3000000 "), "a monotonic timer: {timer}");
        let there = log.iter().filter(|line| line.ends_with(":1")).count();
        let asked = log.iter().filter(|line| line.starts_with("app-1")).count();
        (asked, there)
    };
    assert_eq!(told(0), (4, 2), "there until three seconds after 0.1 s");
    assert_eq!(told(2_000_000), (4, 1), "two seconds ahead: gone at 1.5 s");
    assert_eq!(told(-2_000_000), (4, 4), "two seconds back: there for two more");
}

#[test]
fn a_pause_makes_timers_late_and_loses_none() {
    let scene = || {
        Scene::new(&["node"])
            .node(|host, log| async move {
                for due_ms in [300_u64, 500, 2_000] {
                    let (timer, log) = (host.clone(), log.clone());
                    host.spawn("timer", async move {
                        timer.sleep(ms(due_ms)).await;
                        note(&log, &timer, &format!("due at {due_ms} ms"));
                    });
                }
                std::future::pending::<()>().await;
            })
            .ends_at(ms(3_000))
    };
    let log = on_both(scene, |control| {
        at(&control, 200, |control| control.pause(FIRST, None));
        at(&control, 1_000, |control| control.resume(FIRST, None));
    });
    assert_eq!(
        log,
        ["node 1000000 due at 300 ms", "node 1000000 due at 500 ms", "node 2000000 due at 2000 ms",]
    );
}

#[test]
fn a_hanging_program_keeps_what_its_renewer_renews() {
    let every_100_ms = |host: Host, log: Log, what: &'static str| async move {
        for _ in 0..8 {
            host.sleep(ms(100)).await;
            note(&log, &host, what);
        }
    };
    let scene = move || {
        Scene::new(&["app-1"])
            .node(move |host, log| async move {
                host.spawn("renewer", every_100_ms(host.clone(), log.clone(), "renews"));
                every_100_ms(host, log, "works").await;
            })
            .ends_at(ms(2_000))
    };
    let log = on_both(scene, |control| {
        at(&control, 250, |control| control.pause(FIRST, Some("main")));
        at(&control, 650, |control| control.resume(FIRST, Some("main")));
    });
    let times = |what: &str| {
        let told = log.iter().filter(|line| line.ends_with(what));
        let time = |line: &String| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 1_000;
        told.map(time).collect::<Vec<_>>()
    };
    assert_eq!(times("renews"), [100, 200, 300, 400, 500, 600, 700, 800]);
    assert_eq!(times("works"), [100, 200, 650, 750, 850, 950, 1_050, 1_150]);
}

/// How long the server keeps a silent session.
const SESSION_MS: u64 = 1_000;

/// A server of sessions: `hello` opens one, `resume` asks for it again, any line keeps it.
/// A session that was silent for too long on the server's clock is expired, and what it
/// held is free; its connection is closed, as ZooKeeper does it.
async fn keeper(host: Host, log: Log) {
    let listener = host.listen(2_181).await.unwrap();
    let expired = Arc::new(AtomicBool::new(false));
    loop {
        let stream = listener.accept().await.unwrap();
        let (host, log, expired) = (host.clone(), log.clone(), expired.clone());
        host.clone().spawn("session", async move {
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            loop {
                line.clear();
                match host.timeout(ms(SESSION_MS), lines.read_line(&mut line)).await {
                    Ok(Ok(0) | Err(_)) => return,
                    Ok(Ok(_)) => {}
                    Err(_) => {
                        expired.store(true, Ordering::Relaxed);
                        note(&log, &host, "expires the session: the lock is free");
                        return;
                    }
                }
                let reply = if expired.load(Ordering::Relaxed) { "expired\n" } else { "ok\n" };
                if lines.get_mut().write_all(reply.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Keeps the session alive; says so when it is lost.
async fn heartbeats(host: Host, log: Log, lost: Arc<AtomicBool>) {
    let mut first = true;
    loop {
        let mut stream = BufReader::new(host.connect("zk-1:2181").await.unwrap());
        let mut next = if first { "hello\n" } else { "resume\n" };
        first = false;
        loop {
            let mut line = String::new();
            if stream.get_mut().write_all(next.as_bytes()).await.is_err() {
                break;
            }
            match stream.read_line(&mut line).await {
                Ok(0) | Err(_) => break,
                Ok(_) if line == "expired\n" => {
                    note(&log, &host, "hears that its session is lost");
                    lost.store(true, Ordering::Relaxed);
                    return;
                }
                Ok(_) => {}
            }
            host.sleep(ms(SESSION_MS / 3)).await;
            next = "ping\n";
        }
        note(&log, &host, "was disconnected");
    }
}

#[test]
fn a_client_paused_beyond_its_session_acts_before_it_hears_of_the_loss() {
    let scene = || {
        Scene::new(&["zk-1", "app-1"])
            .node(keeper)
            .node(|host, log| async move {
                host.sleep(ms(10)).await;
                let lost = Arc::new(AtomicBool::new(false));
                host.spawn("heartbeats", heartbeats(host.clone(), log.clone(), lost.clone()));
                while !lost.load(Ordering::Relaxed) {
                    host.sleep(ms(50)).await;
                    note(&log, &host, "acts");
                }
            })
            .ends_at(ms(4_000))
    };
    let log = on_both(scene, |control| {
        at(&control, 1_400, |control| control.pause(SECOND, None));
        at(&control, 3_100, |control| control.resume(SECOND, None));
    });
    let place = |text: &str| log.iter().position(|line| line.ends_with(text)).unwrap();
    let time = |line: &str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    let ran = log.iter().filter(|line| line.starts_with("app-1"));
    let meanwhile = ran.filter(|line| (1_400_000..3_100_000).contains(&time(line)));
    assert_eq!(meanwhile.count(), 0, "no task of its node ran: {log:#?}");
    let expired = place("the lock is free");
    let heard = place("hears that its session is lost");
    let acts = log[expired..heard].iter().filter(|line| line.ends_with("acts")).count();
    assert!(acts > 0, "it acts on a lock that is free: {log:#?}");
    let last = time(log.last().unwrap());
    assert!(last < 3_300_000, "and stops once it has heard: {log:#?}");
}

mod disks {
    //! Faults of disks, as the conductor strikes them, on a program that writes.

    use std::collections::BTreeMap;

    use lockstorm_sim::disk::{Disk, Files, Settings};
    use lockstorm_sim::engine::world::World;
    use lockstorm_sim::engine::{Factory, Kernel, Links, Stage};
    use lockstorm_sim::fault::Ground;
    use lockstorm_sim::fault::cancel::Cancellations;
    use lockstorm_sim::history::{History, Recorder, What};
    use lockstorm_sim::plan::file;
    use lockstorm_sim::storm::conductor::{Conductor, Patience};

    use super::*;

    /// Appends a record and synchronises, every 100 ms; notes how each went.
    async fn journal(host: Host, files: Files, log: Log) {
        note(&log, &host, &format!("begins with {:?}", files.read("log").await.map(|b| b.len())));
        for number in 0_u8.. {
            files.append("log", &[number; 100]).unwrap();
            let began = host.monotonic();
            let outcome = files.sync("log").await;
            let took_ms = (host.monotonic() - began).as_millis();
            let ok = if outcome.is_ok() { "ok" } else { "failed" };
            note(&log, &host, &format!("synchronised {ok} {took_ms}"));
            // Written, and never synchronised in this round.
            files.append("log", &[number; 100]).unwrap();
            host.sleep(ms(100)).await;
        }
    }

    fn run(engine: &dyn Engine, faults: &str) -> (History, Vec<String>) {
        let text = format!(
            "schema = 1\nscenario = \"redis-single\"\nduration = \"4s\"\n[topology]\napps = 1\n{faults}"
        );
        let plan = file::parse("the test's plan", &text).unwrap();
        let names = plan.topology.nodes();
        let world = World::new(1, names.iter().map(|name| name.as_str().into()));
        let clock = world.clone();
        let recorder = Recorder::new(move || clock.now_us());
        let settings = Settings { sync_median_us: 5_000, sigma_milli: 0, ..Settings::default() };
        let disks: BTreeMap<NodeId, Disk> =
            [(FIRST, Disk::new(settings, 1, &names[0]))].into_iter().collect();
        let log = Log::default();
        let disk = disks[&FIRST].clone();
        let factories = names.iter().enumerate().map(|(node, _)| {
            let (disk, log) = (disk.clone(), log.clone());
            Arc::new(move |host: Host| {
                let (files, log) = (disk.mount(&host), log.clone());
                Box::pin(async move {
                    match node {
                        0 => journal(host, files, log).await,
                        _ => std::future::pending().await,
                    }
                }) as lockstorm::host::BoxFuture<'static, ()>
            }) as Factory
        });
        let held = Arc::new(Mutex::new(None));
        let ground = {
            let (world, recorder) = (world.clone(), recorder.clone());
            move |control| Ground {
                world,
                control,
                recorder,
                gates: Arc::default(),
                rates_ppm: Arc::default(),
                disks: Arc::new(disks),
                cancellations: Cancellations::default(),
                controls: Default::default(),
            }
        };
        let keep = held.clone();
        let opening = move |control: Arc<dyn Control>| {
            let patience = Patience { takeover_us: 1_000, settle_us: 1_000 };
            let quiet = Default::default();
            let conductor = Conductor::open(ground(control), &plan, patience, quiet, |_| {});
            *keep.lock().unwrap() = Some(conductor);
        };
        let ending = engine.run(Stage {
            world,
            factories: factories.collect(),
            links: Links { median_us: 1_000, sigma_milli: 0 },
            kernel: Kernel::default(),
            ends_at_us: 5_000_000,
            recorder: recorder.clone(),
            opening: Box::new(opening),
        });
        assert_eq!(ending.stuck, None);
        drop(held);
        let log = log.lock().unwrap().clone();
        (recorder.close().0, log)
    }

    fn on_both(faults: &str, check: impl Fn(&History, &[String]) + Send + Sync) {
        for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
            std::thread::scope(|scope| {
                let run = scope.spawn(|| {
                    let (history, log) = run(engine, faults);
                    check(&history, &log);
                });
                run.join().unwrap();
            });
        }
    }

    fn fault(kind: &str, rest: &str) -> String {
        format!("[[fault]]\nkind = \"{kind}\"\nnode = \"redis-1\"\nat = \"1s\"\n{rest}\n")
    }

    fn touches(history: &History) -> Vec<String> {
        let touches = history.iter().filter_map(|event| match &event.what {
            What::FaultTouched { how, .. } => Some(how.clone()),
            _ => None,
        });
        touches.collect()
    }

    /// The longest synchronisation, ms, and how many failed.
    fn synchronised(log: &[String]) -> (u64, usize) {
        let times = log.iter().filter(|line| line.contains("synchronised"));
        let took = times.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        (took.max().unwrap(), log.iter().filter(|line| line.contains("failed")).count())
    }

    #[test]
    fn a_slow_disk_makes_synchronisations_slow_and_shows() {
        let slow = fault("disk-slow", "extra = \"80ms\"\nfor = \"1s\"");
        on_both(&slow, |history, log| {
            assert_eq!(touches(history), ["redis-1 waited longer for its disk"]);
            let (longest_ms, failed) = synchronised(log);
            assert!((84..=90).contains(&longest_ms) && failed == 0, "{log:#?}");
        });
        let slower = fault("disk-slow", "extra = \"50ms\"\nfor = \"1s\"");
        on_both(&(slow + &slower), |history, log| {
            assert_eq!(touches(history).len(), 2, "they add up");
            assert!((134..=140).contains(&synchronised(log).0), "{log:#?}");
        });
    }

    #[test]
    fn a_stalled_disk_completes_nothing_until_it_is_over() {
        on_both(&fault("disk-stall", "for = \"2s\""), |history, log| {
            assert_eq!(touches(history), ["redis-1 waited for its disk"]);
            let (longest_ms, failed) = synchronised(log);
            assert!((1_850..2_010).contains(&longest_ms) && failed == 0, "{log:#?}");
        });
    }

    #[test]
    fn a_failing_disk_tells_the_program_and_heals() {
        on_both(&fault("disk-error", "for = \"1s\""), |history, log| {
            assert_eq!(touches(history), ["redis-1 was told that a synchronisation failed"]);
            let (_, failed) = synchronised(log);
            assert!((8..=10).contains(&failed), "{log:#?}");
            assert!(log.last().unwrap().contains("ok"), "{log:#?}");
        });
    }

    #[test]
    fn a_machine_crash_loses_the_tail_and_a_process_crash_none_of_it() {
        let length = |log: &[String]| {
            let begins: Vec<&String> = log.iter().filter(|line| line.contains("begins")).collect();
            assert_eq!(begins.len(), 2, "{log:#?}");
            let digits: String = begins[1].chars().skip_while(|c| *c != '(').collect();
            digits.trim_matches(['(', ')']).parse::<usize>().unwrap()
        };
        let kept = Mutex::new(Vec::new());
        on_both(&fault("process-crash", "for = \"500ms\""), |_, log| {
            kept.lock().unwrap().push(length(log));
        });
        let kept = kept.into_inner().unwrap();
        assert!(kept.iter().all(|length| length % 200 == 0), "all that was written: {kept:?}");
        let lost = Mutex::new(Vec::new());
        on_both(&fault("machine-crash", "for = \"500ms\""), |_, log| {
            lost.lock().unwrap().push(length(log));
        });
        let lost = lost.into_inner().unwrap();
        for (lost, kept) in lost.iter().zip(&kept) {
            assert!((kept - 100..=*kept).contains(lost), "what was synchronised: {lost} of {kept}");
        }
        assert_ne!(lost, kept, "a tail was lost on one of them at least");
    }
}

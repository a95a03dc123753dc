//! What is madsim's own: the order of tasks, the pump of tokio's timers, time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stage::{Said, program, run, stage};
use lockstorm_madsim::Madsim;
use lockstorm_sim::engine::clock::ClockChange;
use lockstorm_sim::engine::event::{EventEngine, ShuffledEventEngine};
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Engine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

const NODE: NodeId = NodeId(0);

/// Two tasks of one node that are woken forty times by one call: in which orders they run.
fn orders(engine: &dyn Engine) -> BTreeSet<Vec<String>> {
    let said = Said::default();
    let telling = said.clone();
    let waker = program(move |host| {
        let (said, woken) = (telling.clone(), Arc::new(Notify::new()));
        async move {
            for name in ["first", "second"] {
                let (said, woken) = (said.clone(), woken.clone());
                host.spawn("woken", async move {
                    loop {
                        woken.notified().await;
                        said.say(name);
                    }
                });
            }
            loop {
                host.sleep(Duration::from_millis(20)).await;
                woken.notify_waiters();
            }
        }
    });
    run(engine, stage(1, [("node", waker)], |_| ()));
    said.lines().chunks_exact(2).map(<[String]>::to_vec).collect()
}

#[test]
fn ready_tasks_run_in_any_order_and_on_event_as_they_were_woken() {
    assert_eq!(orders(&Madsim::default()).len(), 2);
    assert_eq!(orders(&ShuffledEventEngine).len(), 2);
    let in_order: Vec<String> = ["first", "second"].map(ToOwned::to_owned).into();
    assert_eq!(orders(&EventEngine), BTreeSet::from([in_order]));
}

#[test]
fn timers_of_the_host_end_in_their_microsecond_and_those_of_tokio_in_the_next_two() {
    let said = Said::default();
    let telling = said.clone();
    let sleeper = program(move |host| {
        let said = telling.clone();
        async move {
            let passed = |since| host.monotonic() - since;
            let start = host.monotonic();
            host.sleep(Duration::from_micros(300)).await;
            said.say(format!("{:?}", passed(start)));
            let start = host.monotonic();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let late = passed(start) - Duration::from_millis(20);
            said.say(format!("{}", late < Duration::from_millis(2)));
            let never = std::future::pending::<()>();
            let limited = tokio::time::timeout(Duration::from_millis(5), never).await;
            said.say(format!("{}", limited.is_err()));
        }
    });
    run(&Madsim::default(), stage(1, [("node", sleeper)], |_| ()));
    assert_eq!(said.lines(), ["300µs", "true", "true"]);
}

/// Has `look` called at these times, ms.
fn look_at(control: &Arc<dyn Control>, times_ms: &[u64], look: impl Fn() + Send + Sync + 'static) {
    let look = Arc::new(look);
    for ms in times_ms {
        let look = look.clone();
        control.after(ms * 1_000, Box::new(move || look()));
    }
}

#[test]
fn a_change_of_rate_moves_a_timer_that_is_under_way() {
    let (woken, seen) = (Said::default(), Said::default());
    let (waking, looking, told) = (woken.clone(), woken.clone(), seen.clone());
    let sleeper = program(move |host| {
        let woken = waking.clone();
        async move {
            host.sleep(Duration::from_secs(1)).await;
            woken.say("awake");
        }
    });
    let opening = move |control: Arc<dyn Control>| {
        look_at(&control, &[740, 760], move || told.say(looking.lines().len().to_string()));
        let faster = control.clone();
        // Half of the second is left, and the clock runs twice as fast.
        let change = ClockChange::Rate { ppm: 1_000_000 };
        control.after(500_000, Box::new(move || faster.change_clock(NODE, change)));
    };
    run(&Madsim::default(), stage(2, [("node", sleeper)], opening));
    assert_eq!(seen.lines(), ["0", "1"]);
}

#[test]
fn what_a_cut_kept_arrives_with_the_next_try_of_madsim() {
    let (heard, seen) = (Said::default(), Said::default());
    let (hearing, looking, told) = (heard.clone(), heard.clone(), seen.clone());
    let server = program(move |host| {
        let heard = hearing.clone();
        async move {
            let listener = host.listen(80).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            heard.say("a byte");
        }
    });
    let client = program(|host| async move {
        // The server listens first.
        host.sleep(Duration::from_millis(10)).await;
        let mut stream = host.connect("server:80").await.unwrap();
        host.sleep(Duration::from_secs(1) - host.monotonic()).await;
        stream.write_all(b"x").await.unwrap();
        std::future::pending().await
    });
    let opening = move |control: Arc<dyn Control>| {
        // Tries after 1, 3, 7 … 255, 511 ms; a kernel's would be after 200 and 600.
        look_at(&control, &[1_505, 1_520], move || told.say(looking.lines().len().to_string()));
        let (cutting, healing) = (control.clone(), control.clone());
        control.after(900_000, Box::new(move || cutting.cut(NodeId(1), NODE)));
        control.after(1_400_000, Box::new(move || healing.heal(NodeId(1), NODE)));
    };
    run(&Madsim::default(), stage(3, [("server", server), ("client", client)], opening));
    assert_eq!(seen.lines(), ["0", "1"]);
}

#[test]
fn a_pause_freezes_tasks_that_were_spawned_past_the_host_and_a_crash_ends_them() {
    let turns = Arc::new(AtomicU64::new(0));
    let (said, counted) = (Said::default(), turns.clone());
    let spawner = program(move |_host| {
        let turns = turns.clone();
        async move {
            // As a library does.
            drop(tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }));
            std::future::pending().await
        }
    });
    let telling = said.clone();
    let opening = move |control: Arc<dyn Control>| {
        let at = |ms: u64, act: Box<dyn FnOnce() + Send>| control.after(ms * 1_000, act);
        let (pausing, resuming, crashing) = (control.clone(), control.clone(), control.clone());
        for ms in [990, 1_010, 1_990, 2_500, 2_990, 3_010, 3_900] {
            let (said, counted) = (telling.clone(), counted.clone());
            at(ms, Box::new(move || said.say(counted.load(Ordering::Relaxed).to_string())));
        }
        at(1_000, Box::new(move || pausing.pause(NODE, None)));
        at(2_000, Box::new(move || resuming.resume(NODE, None)));
        at(3_000, Box::new(move || crashing.crash_process(NODE)));
    };
    run(&Madsim::default(), stage(4, [("node", spawner)], opening));
    let counts: Vec<u64> = said.lines().iter().map(|line| line.parse().unwrap()).collect();
    let [before, paused, still, later, last, crashed, over] = counts[..] else {
        panic!("{counts:?}")
    };
    assert!(before > 50 && paused <= before + 2, "{counts:?}");
    assert_eq!(paused, still, "{counts:?}");
    assert!(later > still + 20 && last > later && crashed <= last + 2, "{counts:?}");
    assert_eq!(crashed, over, "{counts:?}");
}

#[test]
fn an_unbiased_select_is_of_the_seed() {
    let choices = || {
        let said = Said::default();
        let telling = said.clone();
        let chooser = program(move |host| {
            let said = telling.clone();
            async move {
                for _ in 0..64 {
                    host.sleep(Duration::from_millis(1)).await;
                    tokio::select! {
                        () = std::future::ready(()) => said.say("a"),
                        () = std::future::ready(()) => said.say("b"),
                    }
                }
            }
        });
        run(&Madsim::default(), stage(1, [("node", chooser)], |_| ()));
        said.lines()
    };
    let first = choices();
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(first, choices());
}

#[test]
fn a_program_that_panics_is_named() {
    let wrong = program(|host| async move {
        host.sleep(Duration::from_millis(3)).await;
        panic!("out of ideas");
    });
    let ending = Madsim::default().run(stage(1, [("node", wrong)], |_| ()));
    let why = ending.stuck.unwrap();
    assert!(why.contains("node") && why.contains("out of ideas"), "{why}");
}

#[test]
fn this_ends_address_is_what_the_other_end_has_for_its_peer() {
    let said = Said::default();
    let (there, here) = (said.clone(), said.clone());
    let server = program(move |host| {
        let said = there.clone();
        async move {
            let stream = host.listen(80).await.unwrap().accept().await.unwrap();
            said.say(format!("{} {}", stream.local_addr().unwrap(), stream.peer_addr()));
            std::future::pending().await
        }
    });
    let client = program(move |host| {
        let said = here.clone();
        async move {
            // The server listens first.
            host.sleep(Duration::from_millis(10)).await;
            let stream = host.connect("server:80").await.unwrap();
            said.say(format!("{} {}", stream.peer_addr(), stream.local_addr().unwrap()));
            std::future::pending().await
        }
    });
    run(&Madsim::default(), stage(1, [("server", server), ("client", client)], |_| ()));
    let lines = said.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], lines[1]);
}

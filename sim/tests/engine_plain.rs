//! Is a run the same without what tokio has with `--cfg tokio_unstable` only? The engine
//! of such a build is asked here in whichever build these tests are.

mod stage;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use lockstorm::Host;
use lockstorm_sim::engine::event::{EventEngine, PlainEventEngine};
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Ending};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::seeds::{self, SeedFile};
use lockstorm_sim::storm;
use stage::{Scene, beside_idle, ms, note};

/// The same trace and the same work, event by event.
fn assert_same(name: &str, plan: &Plan) {
    let (with, without) = (storm::run(plan, &EventEngine), storm::run(plan, &PlainEventEngine));
    assert_eq!(with.trace_hash, without.trace_hash, "{name}");
    assert_eq!(with.history, without.history, "{name}");
    assert_eq!(with.ending, without.ending, "{name}");
    assert_eq!(with.judgement.verdict, without.judgement.verdict, "{name}");
}

#[test]
fn every_kept_seed_has_the_same_trace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    let paths = seeds::list(&folder).unwrap();
    assert!(!paths.is_empty());
    for path in paths {
        let file = SeedFile::load(&path).unwrap();
        assert_same(&path.display().to_string(), &file.plan);
    }
}

#[test]
fn two_hundred_drawn_seeds_have_the_same_trace() {
    for seed in 0..200 {
        let scenario = if seed % 4 == 0 { "redis-single" } else { "redis-failover" };
        let fence = if seed % 2 == 0 { Fence::Full } else { Fence::Off };
        let plan = Plan::from_seed(scenario, "redis", fence, Seed(seed)).unwrap();
        assert_same(&format!("{scenario} {seed}"), &plan);
    }
}

#[test]
fn a_waker_that_leads_nowhere_lets_no_time_leap() {
    let log = Scene::new(&["client", "server"])
        .node(|host, log| async move {
            // Its end is due to be told in the middle of a millisecond, to nobody: the task
            // is aborted in the same instant.
            for round in 0..20_u64 {
                let sleeper = host.clone();
                let task = host.spawn("sleeper", async move {
                    sleeper.sleep(std::time::Duration::from_micros(300)).await;
                });
                host.sleep(std::time::Duration::from_micros(100 + round)).await;
                task.abort();
                host.sleep(std::time::Duration::from_micros(250)).await;
                note(&log, &host, "");
            }
        })
        .node(|host, _| async move {
            host.sleep(ms(1)).await;
        })
        .run(&PlainEventEngine, |_| {});
    let mut expected_us = 0;
    for (round, line) in log.iter().enumerate() {
        expected_us += 350 + round as u64;
        assert_eq!(*line, format!("client {expected_us} "));
    }
    assert_eq!(log.len(), 20);
}

/// Runs `busy` as a build without the flag does.
fn run<F>(
    busy: impl Fn(Host) -> F + Send + Sync + 'static,
    opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
) -> Ending
where
    F: Future<Output = ()> + Send + 'static,
{
    beside_idle(&PlainEventEngine, busy, opening)
}

/// What a third-party library does: its own task, with tokio's own timer.
async fn with_a_stranger(host: Host) {
    tokio::spawn(async {
        loop {
            tokio::time::sleep(ms(20)).await;
        }
    });
    host.sleep(ms(1)).await;
    std::future::pending::<()>().await;
}

/// A program whose tasks are all its host's, and end, and are aborted.
async fn without_strangers(host: Host) {
    loop {
        let sleeper = host.clone();
        let task = host.spawn("sleeper", async move { sleeper.sleep(ms(50)).await });
        host.spawn("short", async {});
        host.sleep(ms(3)).await;
        task.abort();
    }
}

type Strike = fn(&dyn Control);

const STRIKES: [(&str, Strike); 3] = [
    ("a pause of busy", |control| control.pause(NodeId(1), None)),
    ("a crash of busy", |control| control.crash_process(NodeId(1))),
    ("a crash of busy", |control| control.crash_machine(NodeId(1))),
];

#[test]
fn beside_strangers_a_pause_or_crash_is_not_expressible() {
    for (name, strike) in STRIKES {
        let ending = run(with_a_stranger, move |control| {
            let striking = control.clone();
            control.after(100_000, Box::new(move || strike(&*striking)));
        });
        assert!(ending.not_expressible, "{name}: {ending:?}");
        assert_eq!(
            ending.stuck.unwrap(),
            format!(
                "{name}, while a task spawned past the host may be its own: build with \
                 `--cfg tokio_unstable`, which tells whose they are"
            )
        );
    }
}

#[test]
fn without_strangers_every_pause_and_crash_is_expressible() {
    for (name, strike) in STRIKES {
        for at_us in [1, 3_000, 50_500, 99_999] {
            let ending = run(without_strangers, move |control| {
                let striking = control.clone();
                control.after(at_us, Box::new(move || strike(&*striking)));
            });
            let told = (ending.stuck, ending.not_expressible);
            assert_eq!(told, (None, false), "{name} at {at_us} us");
        }
    }
}

#[test]
fn a_groups_pause_and_other_faults_do_not_mind_strangers() {
    let ending = run(with_a_stranger, |control| {
        let striking = control.clone();
        control.after(
            100_000,
            Box::new(move || {
                striking.pause(NodeId(1), Some("main"));
                striking.cut(NodeId(0), NodeId(1));
                striking.reset(NodeId(0), NodeId(1));
            }),
        );
    });
    assert_eq!((ending.stuck, ending.not_expressible), (None, false));
}

#[test]
fn strangers_that_never_wait_end_the_run() {
    let ending = run(
        |host| async move {
            host.sleep(ms(5)).await;
            tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
            std::future::pending::<()>().await;
        },
        |_| {},
    );
    let stuck = ending.stuck.unwrap();
    assert!(stuck.starts_with("time stands still at 5ms: a task spawned past the host"), "{stuck}");
    let ending = run(
        |host| async move {
            host.sleep(ms(5)).await;
            let (ping, pong) =
                (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
            let (there, back) = (ping.clone(), pong.clone());
            tokio::spawn(async move {
                loop {
                    there.notified().await;
                    back.notify_one();
                }
            });
            tokio::spawn(async move {
                loop {
                    ping.notify_one();
                    pong.notified().await;
                }
            });
            std::future::pending::<()>().await;
        },
        |_| {},
    );
    let stuck = ending.stuck.unwrap();
    assert!(stuck.starts_with("time stands still at 5ms: tasks spawned past the host"), "{stuck}");
}

#[test]
fn strangers_that_wait_are_no_standstill() {
    let ending = run(
        |host| async move {
            tokio::spawn(async {
                loop {
                    for _ in 0..500 {
                        tokio::task::yield_now().await;
                    }
                    tokio::time::sleep(ms(1)).await;
                }
            });
            host.sleep(ms(5)).await;
            std::future::pending::<()>().await;
        },
        |_| {},
    );
    assert_eq!((ending.stuck, ending.not_expressible), (None, false));
}

#[test]
fn a_fault_that_schedules_itself_for_ever_ends_the_run() {
    fn again(control: Arc<dyn Control>) {
        let next = control.clone();
        control.after(0, Box::new(move || again(next)));
    }
    let ending = run(without_strangers, again);
    assert!(ending.stuck.unwrap().starts_with("time stands still"));
}

#[test]
fn a_program_that_never_waits_is_named_beside_strangers_too() {
    let ending = run(
        |host| async move {
            tokio::spawn(std::future::pending::<()>());
            host.sleep(ms(5)).await;
            loop {
                tokio::task::yield_now().await;
            }
        },
        |_| {},
    );
    let stuck = ending.stuck.unwrap();
    assert!(stuck.ends_with("busy (main)"), "{stuck}");
}

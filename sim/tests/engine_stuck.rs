//! What becomes of a run that would never end? It stops, after a bounded number of
//! turns, and names the node and the task; one that blocks its thread is named to whoever
//! waits outside.

mod stage;

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, Lock, LockError, Owner};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Ending, Engine};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm::locks;
use lockstorm_sim::storm::{self, place};
use stage::{beside_idle, ms};
use tokio::sync::Notify;

/// Runs two nodes, `idle` and `busy`, for a second on a thread of its own.
fn run<F>(engine: &dyn Engine, busy: impl Fn(Host) -> F + Send + Sync + 'static) -> Ending
where
    F: Future<Output = ()> + Send + 'static,
{
    beside_idle(engine, busy, |_| {})
}

fn stuck_on_both<F>(busy: impl Fn(Host) -> F + Send + Sync + Clone + 'static) -> [String; 2]
where
    F: Future<Output = ()> + Send + 'static,
{
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    engines.map(|engine| {
        let ending = run(engine, busy.clone());
        ending.stuck.unwrap_or_else(|| panic!("{} ran to its end", engine.name()))
    })
}

#[test]
fn a_loop_that_only_yields_is_named() {
    let endings = stuck_on_both(|host: Host| async move {
        host.sleep(ms(5)).await;
        loop {
            tokio::task::yield_now().await;
        }
    });
    for stuck in endings {
        assert!(stuck.starts_with("time stands still at 5ms"), "{stuck}");
        assert!(stuck.contains("100000 times"), "{stuck}");
        assert!(stuck.ends_with("busy (main)"), "{stuck}");
    }
}

#[test]
fn two_tasks_that_wake_each_other_for_ever_are_both_named() {
    let endings = stuck_on_both(|host: Host| async move {
        let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (there, back) = (ping.clone(), pong.clone());
        host.spawn("responder", async move {
            loop {
                there.notified().await;
                back.notify_one();
            }
        });
        loop {
            ping.notify_one();
            pong.notified().await;
        }
    });
    for stuck in endings {
        assert!(stuck.contains("busy (main)") && stuck.contains("busy (responder)"), "{stuck}");
    }
}

#[test]
fn a_real_socket_is_a_panic_of_its_task() {
    let endings = stuck_on_both(|host: Host| async move {
        let asked = host.clone();
        host.spawn("dialer", async move {
            asked.sleep(ms(5)).await;
            let _ = tokio::net::TcpStream::connect("127.0.0.1:9").await;
        });
        std::future::pending::<()>().await;
    });
    for stuck in endings {
        assert!(stuck.starts_with("a task of busy (dialer) panicked"), "{stuck}");
    }
}

#[test]
fn a_busy_second_is_not_a_standstill() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for engine in engines {
        let ending = run(engine, |host: Host| async move {
            loop {
                for _ in 0..500 {
                    tokio::task::yield_now().await;
                }
                host.sleep(ms(1)).await;
            }
        });
        assert_eq!(ending.stuck, None, "{}", engine.name());
    }
}

#[test]
fn a_task_spawned_past_its_host_is_named_by_its_place_in_the_source() {
    let ending = run(&EventEngine, |host: Host| async move {
        host.sleep(ms(5)).await;
        tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        std::future::pending::<()>().await;
    });
    let stuck = ending.stuck.unwrap();
    assert!(stuck.contains("a task spawned past its host at sim/tests/engine_stuck.rs"), "{stuck}");
}

/// A lock whose acquire blocks the thread until somebody outside lets it go.
struct Blocking {
    lock: Arc<dyn Lock>,
    blocked: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Lock for Blocking {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        // Only the first time is there anybody to hear of it.
        if self.blocked.send(()).is_ok() {
            let _ = self.go_on.lock().unwrap().recv();
        }
        self.lock.acquire(key, owner, patience)
    }

    fn takeover_bound(&self) -> Duration {
        self.lock.takeover_bound()
    }
}

#[test]
fn a_blocking_call_is_named_to_whoever_waits_outside() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(1)).unwrap();
    let ((blocked, is_blocked), (let_go, go_on)) = (channel(), channel());
    let ends = Mutex::new(Some((blocked, go_on)));
    let factory = locks::made_by(move |host, plan| {
        let lock = locks::build(host, plan)?;
        let ends = if host.name() == "app-2" { ends.lock().unwrap().take() } else { None };
        Ok(match ends {
            Some((blocked, go_on)) => {
                Arc::new(Blocking { lock, blocked, go_on: Mutex::new(go_on) })
            }
            None => lock,
        })
    });
    let storm = std::thread::spawn(move || storm::run_with(&plan, &EventEngine, &factory));
    is_blocked.recv().unwrap();
    let place = place::place().unwrap();
    drop(is_blocked);
    drop(let_go);
    assert!(place.starts_with("the last turn, at "), "{place}");
    assert!(place.contains("app-2 ("), "{place}");
    assert_eq!(storm.join().unwrap().ending.stuck, None);
}

#[test]
fn a_task_past_its_host_that_runs_in_a_pause_makes_the_pause_not_expressible() {
    let busy = |host: Host| async move {
        // What a third-party library does: its own task, with tokio's own timer.
        tokio::spawn(async {
            loop {
                tokio::time::sleep(ms(20)).await;
            }
        });
        host.sleep(ms(1)).await;
        std::future::pending::<()>().await;
    };
    let calm = run(&EventEngine, busy);
    assert_eq!((calm.stuck, calm.not_expressible), (None, false), "nothing pauses");
    let paused = beside_idle(&EventEngine, busy, |control| {
        let pausing = control.clone();
        control.after(100_000, Box::new(move || pausing.pause(NodeId(1), None)));
    });
    assert!(paused.not_expressible);
    let clause = paused.stuck.unwrap();
    assert!(
        clause.starts_with("a pause of busy, where a task spawned past its host at "),
        "{clause}"
    );
    assert!(clause.contains("engine_stuck.rs"), "{clause}");
    let other = beside_idle(&EventEngine, busy, |control| {
        let pausing = control.clone();
        control.after(100_000, Box::new(move || pausing.pause(NodeId(0), None)));
    });
    assert_eq!((other.stuck, other.not_expressible), (None, false), "another node's pause");
}

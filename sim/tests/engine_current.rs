//! Does code that was handed no host find that of its node, and only that?

mod stage;

use lockstorm::Host;
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::current::host as current;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use stage::{Log, Scene, ms, note};

fn engines() -> [Box<dyn Engine>; 2] {
    [Box::new(EventEngine), Box::new(Turmoil::default())]
}

/// Spawns a task when it goes, as a lock does that is dropped.
struct Will(Log);

impl Drop for Will {
    fn drop(&mut self) {
        let (host, log) = (current().unwrap(), self.0.clone());
        note(&log, &host, "dropped");
        current().unwrap().spawn("will", async move { note(&log, &host, "executed") });
    }
}

async fn heir(host: Host, log: Log) {
    let will = Will(log);
    current().unwrap().spawn("keeper", async move {
        current().unwrap().sleep(ms(200)).await;
        drop(will);
    });
    host.sleep(ms(1_000)).await;
}

#[test]
fn each_task_finds_its_node_and_its_incarnation() {
    for engine in engines() {
        let log = Scene::new(&["a", "b"]).node(heir).node(heir).run(&*engine, |control| {
            let crashing = control.clone();
            control.after(100_000, Box::new(move || crashing.crash_process(NodeId(1))));
        });
        let told: Vec<_> = log.iter().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
        let told: Vec<_> = told.iter().map(|line| (line[0], line[2])).collect();
        let expected = [("b", "dropped"), ("a", "dropped"), ("a", "executed")];
        assert_eq!(told, expected, "{}", engine.name());
    }
}

#[test]
fn a_task_past_its_host_finds_it_as_well() {
    let log = Scene::new(&["a"]).node(|_, log| async move {
        tokio::spawn(async move { note(&log, &current().unwrap(), "found") });
    });
    assert_eq!(log.run(&EventEngine, |_| {}), ["a 0 found"]);
}

#[test]
fn what_belongs_to_no_node_is_refused() {
    for engine in engines() {
        let log = Log::default();
        let told = log.clone();
        Scene::new(&["a"]).node(|_, _| async {}).run(&*engine, move |control| {
            let action = move || {
                let host = current().unwrap();
                let unwelcome = told.clone();
                host.spawn("ghost", async move { unwelcome.lock().unwrap().push("ran".into()) });
                told.lock().unwrap().push(format!("{} {:?}", host.name(), host.monotonic()));
            };
            control.after(100_000, Box::new(action));
        });
        assert_eq!(*log.lock().unwrap(), ["nobody 100ms"], "{}", engine.name());
        assert!(current().is_none(), "outside of a run there is no answer");
    }
}

//! Does the published `zookeeper-client`, its source as it is, live by the simulated time
//! and network of its node, and by the real ones outside of a run?

#[path = "../../../tests/stage/mod.rs"]
mod stage;

use std::time::{Duration, Instant};

use lockstorm::Host;
use lockstorm_interpose::Senses;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Engine, senses};
use stage::{Log, Scene, ms, note};
use zookeeper_client::{Client, Error};

const APP: NodeId = NodeId(3);

fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// Accepts connections and never says a word.
async fn mute(host: Host, log: Log) {
    let listener = host.listen(2_181).await.unwrap();
    let mut streams = Vec::new();
    loop {
        streams.push(listener.accept().await.unwrap());
        note(&log, &host, "accepted");
    }
}

/// A client with a session timeout of six seconds, at a cluster of three that are mute.
fn mute_cluster(
    engine: &dyn Engine,
    seed: u64,
    opening: impl FnOnce(std::sync::Arc<dyn Control>) + Send + 'static,
) -> Vec<String> {
    install_senses();
    Scene::new(&["zk-1", "zk-2", "zk-3", "app"])
        .seed(seed)
        .ends_at(ms(20_000))
        .node(mute)
        .node(mute)
        .node(mute)
        .node(|host: Host, log: Log| async move {
            let connector = Client::connector().with_session_timeout(Duration::from_secs(6));
            let result = connector.connect("zk-1:2181,zk-2:2181,zk-3:2181").await;
            note(&log, &host, &result.err().map_or("a session".to_owned(), |e| e.to_string()));
        })
        .run(engine, opening)
}

fn ended_at_us(log: &[String]) -> u64 {
    let line = log.last().unwrap();
    assert!(line.starts_with("app ") && line.ends_with(" timeout"), "{log:?}");
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn servers_that_never_answer_time_out_in_simulated_time() {
    let log = mute_cluster(&EventEngine, 1, |_| {});
    // The order is drawn by the seed: the same in every process. Each server is given two
    // fifths of the session's timeout (2.4 s), and after three the session is over.
    let expected = [
        "zk-3 3000 accepted",
        "zk-2 2405000 accepted",
        "zk-1 4807000 accepted",
        "app 7206000 timeout",
    ];
    assert_eq!(log, expected);
}

#[test]
fn twice_it_leaves_the_same_trace_and_its_draws_are_of_the_seed() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for engine in engines {
        let run = |seed| mute_cluster(engine, seed, |_| {});
        assert_eq!(run(1), run(1), "{}", engine.name());
        // It shuffles its servers: some of these seeds have another order.
        let first = run(1);
        assert!((2..6).any(|seed| run(seed) != first), "{}", engine.name());
    }
}

#[test]
fn a_pause_makes_its_timeout_late() {
    let calm_us = ended_at_us(&mute_cluster(&EventEngine, 1, |_| {}));
    let log = mute_cluster(&EventEngine, 1, |control| {
        let (pausing, resuming) = (control.clone(), control.clone());
        control.after(5_000_000, Box::new(move || pausing.pause(APP, None)));
        control.after(15_000_000, Box::new(move || resuming.resume(APP, None)));
    });
    let late_us = ended_at_us(&log);
    assert!(calm_us < 15_000_000 && late_us >= 15_000_000, "{log:?}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the real clock is what is tested")]
async fn outside_of_a_run_a_closed_port_refuses_it() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let start = Instant::now();
    let connector = Client::connector().with_fail_eagerly();
    // It tells a refusal on each of its servers so, and at once.
    let error = connector.connect(&format!("127.0.0.1:{port}")).await.err().unwrap();
    assert!(matches!(error, Error::NoHosts), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(6), "it waited for a timeout instead");
}

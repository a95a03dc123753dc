//! Faults that are drawn without any sense, twice.

use lockstorm::host::Keepalive;
use lockstorm_sim::draw::Draw;

use super::*;

/// Asks an echo server for as long as the run lasts, whatever happens to it.
async fn asks_on(host: Host, log: Log) {
    loop {
        let connecting = host.timeout(ms(500), host.connect("server:7")).await;
        let mut stream = match connecting {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                note(&log, &host, &format!("not connected: {}", error.kind()));
                host.sleep(host.random_duration("again", ms(10), ms(60))).await;
                continue;
            }
            Err(_) => continue,
        };
        let second = Duration::from_secs(1);
        let keepalive = Keepalive { idle: second, interval: second, count: 2 };
        stream.set_keepalive(Some(keepalive)).unwrap();
        if host.random("limit").is_multiple_of(2) {
            stream.set_user_timeout(Some(ms(700))).unwrap();
        }
        for _ in 0..20 {
            let ask = async {
                stream.write_all(b"hi").await?;
                stream.read_exact(&mut [0; 2]).await
            };
            match host.timeout(ms(4_000), ask).await {
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
            host.sleep(host.random_duration("think", ms(1), ms(90))).await;
        }
        if host.random("abort").is_multiple_of(3) {
            stream.abort();
        }
    }
}

fn storm(seed: u64) -> Vec<String> {
    let scene = Scene::new(&["server", "a", "b", "c"]).node(echo());
    let scene = scene.node(asks_on).node(asks_on).node(asks_on).tells_touches();
    let scene = scene.latency_us(2_000).sigma_milli(500).seed(seed).ends_at(ms(30_000));
    scene.run(&EventEngine, move |control| {
        let mut draw = Draw::new(seed, "faults", "");
        for _ in 0..60 {
            let node = NodeId(draw.below(4) as u16);
            let peer = NodeId((u64::from(node.0) + 1 + draw.below(3)) as u16 % 4);
            let (at_ms, lasts_ms) = (draw.below(280) * 100, draw.below(3_000));
            let fault = draw.below(9);
            at(&control, at_ms, move |control| match fault {
                0 | 1 => control.crash_process(node),
                2 => control.crash_machine(node),
                3 => control.pause(node, None),
                4 => control.slow(node, peer, 30_000),
                5 => control.reset(node, peer),
                6 => control.cut(node, peer),
                _ => {
                    control.cut(node, peer);
                    control.cut(peer, node);
                }
            });
            at(&control, at_ms + lasts_ms, move |control| match fault {
                0..=2 => control.start(node),
                3 => control.resume(node, None),
                4 => control.slow(node, peer, 0),
                5 => {}
                6 => control.heal(node, peer),
                _ => {
                    control.heal(node, peer);
                    control.heal(peer, node);
                }
            });
        }
    })
}

/// Every way a connection can end is seen, and the same run comes out again.
#[test]
fn the_same_faults_give_the_same_run() {
    let mut seen = String::new();
    for seed in 0..40 {
        let first = storm(seed);
        assert!(first.iter().filter(|line| line.ends_with("echoed")).count() > 100, "seed {seed}");
        let again = storm(seed);
        let differs = first.iter().zip(&again).position(|(a, b)| a != b);
        let differs = differs.map(|at| (&first[at], &again[at]));
        assert!(first == again, "seed {seed}: {differs:?}");
        seen.push_str(&first.join("\n"));
    }
    for ending in [
        "connection reset",
        "timed out",
        "unexpected end of file",
        "connection refused",
        "Reset {",
        "silence",
    ] {
        assert!(seen.contains(ending), "{ending} was never seen");
    }
}

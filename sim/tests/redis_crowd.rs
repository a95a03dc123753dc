//! Ten thousand connections that say nothing: the server holds them all, answers those that
//! speak, refuses the next, as a real one does, and takes another once one has gone.

mod stage;

use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::server::redis::Server;
use stage::{Log, Scene, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// `maxclients` of Redis.
const MOST: usize = 10_000;

/// What comes next, as text; nothing at the end of the connection.
async fn hear(stream: &mut Stream) -> String {
    let mut bytes = [0; 256];
    let count = stream.read(&mut bytes).await.unwrap_or(0);
    bytes[..count].escape_ascii().to_string()
}

async fn ask(host: &Host) -> String {
    let mut stream = host.connect("redis-1:6379").await.unwrap();
    // Who is refused may be gone already.
    let _ = stream.write_all(b"PING\r\n").await;
    hear(&mut stream).await
}

async fn crowd(host: Host, log: Log) {
    // Once the server listens.
    host.sleep(ms(100)).await;
    let before = resident_bytes();
    let mut idle = Vec::with_capacity(MOST);
    for _ in 0..MOST {
        idle.push(host.connect("redis-1:6379").await.unwrap());
    }
    note(&log, &host, &format!("{} are connected", idle.len()));
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let each = after.saturating_sub(before) / MOST;
        eprintln!("{each} bytes for each idle connection");
        if each > MOST_BYTES_EACH {
            note(&log, &host, &format!("{each} bytes for each of them"));
        }
    }
    note(&log, &host, &ask(&host).await);
    for number in [0, MOST / 2, MOST - 1] {
        idle[number].write_all(b"PING\r\n").await.unwrap();
        let heard = hear(&mut idle[number]).await;
        note(&log, &host, &format!("{number}: {heard}"));
    }
    drop(idle.pop());
    host.sleep(ms(100)).await;
    note(&log, &host, &ask(&host).await);
}

/// How much memory this process has, bytes; none where nobody tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

/// What a connection may cost, with both of its ends and what the engine keeps of it.
const MOST_BYTES_EACH: usize = 32 * 1024;

#[test]
fn ten_thousand_idle_connections() {
    let log = Scene::new(&["redis-1", "app"])
        .latency_us(100)
        .ends_at(ms(60_000))
        .node(|host: Host, _: Log| async move {
            let listener = host.listen(6_379).await.unwrap();
            Server::alone(host).run_on(listener).await.unwrap();
        })
        .node(crowd)
        .run(&EventEngine, |_| {});
    let said: Vec<&str> = log.iter().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    let expected = [
        "10000 are connected",
        "-ERR max number of clients reached\\r\\n",
        "0: +PONG\\r\\n",
        "5000: +PONG\\r\\n",
        "9999: +PONG\\r\\n",
        "+PONG\\r\\n",
    ];
    assert_eq!(said, expected);
}

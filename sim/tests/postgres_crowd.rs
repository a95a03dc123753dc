//! Five thousand connections at once: the server serves as many as it may have, tells the others
//! in PostgreSQL's words, takes another once one has gone, and is no larger than its sessions.

mod postgres_support;
mod stage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::server::postgres::observe::Unobserved;
use lockstorm_sim::server::postgres::{Server, Settings};
use postgres_support::peak_bytes;
use stage::{Log, Scene, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CROWD: usize = 5_000;

/// Who it is: `postgres`, protocol 3.0.
const STARTUP: &[u8] = b"\x00\x00\x00\x17\x00\x03\x00\x00user\0postgres\0\0";

/// A connection, and what was heard on it.
struct Client {
    stream: Stream,
    heard: Vec<u8>,
}

impl Client {
    /// Connects and says who it is; whether it is served, or what it was told instead.
    async fn enter(host: &Host) -> (Client, String) {
        let stream = host.connect("pg-1:5432").await.unwrap();
        let mut client = Client { stream, heard: Vec::new() };
        // Who is refused may be gone already.
        let _ = client.stream.write_all(STARTUP).await;
        let said = client.hear().await;
        (client, said)
    }

    async fn ask(&mut self, statement: &str) -> String {
        let mut bytes = vec![b'Q'];
        bytes.extend_from_slice(&(statement.len() as u32 + 5).to_be_bytes());
        bytes.extend_from_slice(statement.as_bytes());
        bytes.push(0);
        self.stream.write_all(&bytes).await.unwrap();
        self.hear().await
    }

    /// Up to where the server waits again, or has failed: the kinds of its messages, or the error.
    async fn hear(&mut self) -> String {
        let mut kinds = String::new();
        loop {
            while let Some((kind, body)) = self.message() {
                match kind {
                    b'Z' => return kinds,
                    b'E' => return body.split(|byte| *byte == 0).map(field).collect(),
                    kind => kinds.push(char::from(kind)),
                }
            }
            match self.stream.read_buf(&mut self.heard).await {
                Ok(0) | Err(_) => return format!("{kinds} and the end"),
                Ok(_) => {}
            }
        }
    }

    fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let length = self.heard.get(1..5)?.try_into().ok().map(u32::from_be_bytes)? as usize;
        let body = self.heard.get(5..=length)?.to_vec();
        let kind = self.heard[0];
        self.heard.drain(..=length);
        Some((kind, body))
    }
}

/// Severity, code and message of an error.
fn field(field: &[u8]) -> String {
    match field.split_first() {
        Some((b'S' | b'C', told)) => format!("{} ", told.escape_ascii()),
        Some((b'M', told)) => told.escape_ascii().to_string(),
        _ => String::new(),
    }
}

/// Everybody comes in the same instant; what they hear, and what becomes of those who are served.
async fn crowd(host: Host, log: Log) {
    // Once the server listens.
    host.sleep(ms(100)).await;
    let before = peak_bytes();
    let (said, served) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(Mutex::new(Vec::new())));
    for _ in 0..CROWD {
        let (there, said, served) = (host.clone(), said.clone(), served.clone());
        host.spawn("client", async move {
            let (client, told) = Client::enter(&there).await;
            if told.starts_with('R') {
                served.lock().unwrap().push(client);
            }
            *said.lock().unwrap().entry(told).or_insert(0) += 1;
        });
    }
    while said.lock().unwrap().values().sum::<usize>() < CROWD {
        host.sleep(ms(10)).await;
    }
    for (told, count) in said.lock().unwrap().iter() {
        let kinds: String = told.chars().filter(|kind| *kind != 'S').collect();
        note(
            &log,
            &host,
            &format!("{count}: {}", if told.starts_with('R') { &kinds } else { told }),
        );
    }
    let mut served = std::mem::take(&mut *served.lock().unwrap());
    for number in [0, served.len() / 2, served.len() - 1] {
        note(&log, &host, &served[number].ask("SELECT 1").await);
    }
    note(&log, &host, &Client::enter(&host).await.1);
    drop(served.pop());
    host.sleep(ms(100)).await;
    let (_, told) = Client::enter(&host).await;
    note(&log, &host, if told.starts_with('R') { "another is served" } else { &told });
    if let (Some(before), Some(after)) = (before, peak_bytes()) {
        eprintln!("{} kB a connection, both ends", (after - before) / CROWD / 1024);
        let is_small = after - before < CROWD * MOST_BYTES;
        note(&log, &host, if is_small { "small" } else { "too large" });
    }
}

/// What a connection may take, with both its ends and the engine's kernels.
const MOST_BYTES: usize = 64 * 1024;

fn run(max_connections: usize) -> Vec<String> {
    let log = Scene::new(&["pg-1", "app"])
        .latency_us(1_000)
        .sigma_milli(400)
        .ends_at(ms(120_000))
        .node(move |host: Host, _: Log| async move {
            let files = Disk::new(disk::Settings::default(), 0, "pg-1").mount(&host);
            let settings = Settings { max_connections, ..Settings::default() };
            let listener = host.listen(5_432).await.unwrap();
            let server = Server::new(host, settings, files, Arc::new(Unobserved));
            server.run_on(listener).await.unwrap();
        })
        .node(crowd)
        .run(&EventEngine, |_| {});
    log.iter().filter_map(|line| line.splitn(3, ' ').nth(2)).map(str::to_owned).collect()
}

#[test]
fn five_thousand_at_once_where_a_hundred_may_come() {
    let too_many = "FATAL 53300 sorry, too many clients already";
    let refused = format!("4900: {too_many}");
    let expected =
        [&refused, "100: RK", "TDC", "TDC", "TDC", too_many, "another is served", "small"];
    assert_eq!(run(100), expected);
}

#[test]
fn five_thousand_at_once_where_all_may_come() {
    let too_many = "FATAL 53300 sorry, too many clients already";
    let expected = ["5000: RK", "TDC", "TDC", "TDC", too_many, "another is served", "small"];
    assert_eq!(run(CROWD), expected);
}

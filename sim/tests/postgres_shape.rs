//! How does the throughput of a hot row go with the number of clients, by each way to guard it?
//!
//! In simulated time, so the numbers are the same everywhere, always: with `--nocapture` they
//! are printed as they stand in docs/evidence/postgres-shape.txt. What is asserted is their
//! shape. The pessimistic way holds the row through the commit's disk write and two round
//! trips, whoever waits; the optimistic way tries again; an advisory lock waits for no disk.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::server::postgres::observe::Unobserved;
use lockstorm_sim::server::postgres::{Costs, Server, Settings};
use stage::{Scene, ms, note};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// One way, so a round trip is twice this.
const LATENCY: Duration = Duration::from_micros(250);
const SYNC: Duration = Duration::from_millis(1);
/// Sigma of the links' lognormal latency, in thousandths, as in storms; a network without
/// would have clients march in step.
const SIGMA_MILLI: u64 = 400;
const CLIENTS: [usize; 6] = [1, 2, 4, 8, 16, 32];

#[derive(Clone, Copy, Debug)]
enum Way {
    /// `SELECT … FOR UPDATE`, UPDATE, COMMIT.
    ForUpdate,
    /// A SELECT, and an UPDATE upon the version that was read.
    Optimistic,
    /// An advisory lock of the session, taken and given back.
    Advisory,
    /// One of a transaction that does nothing else.
    AdvisoryOfTransaction,
}

impl Way {
    const ALL: [Way; 4] =
        [Way::ForUpdate, Way::Optimistic, Way::Advisory, Way::AdvisoryOfTransaction];

    fn name(self) -> &'static str {
        match self {
            Way::ForUpdate => "FOR UPDATE",
            Way::Optimistic => "optimistic",
            Way::Advisory => "advisory",
            Way::AdvisoryOfTransaction => "advisory, transaction",
        }
    }

    /// What waits for no disk is soon seen.
    fn measured_for(self) -> Duration {
        match self {
            Way::ForUpdate | Way::Optimistic => Duration::from_secs(4),
            Way::Advisory | Way::AdvisoryOfTransaction => ms(500),
        }
    }

    /// Tries once: whether it came to something.
    async fn try_once(self, client: &Client) -> bool {
        match self {
            Way::ForUpdate => {
                ask(client, "BEGIN; SELECT count FROM stock WHERE id = 1 FOR UPDATE").await;
                ask(client, "UPDATE stock SET count = count - 1 WHERE id = 1").await;
                ask(client, "COMMIT").await;
                true
            }
            Way::Optimistic => {
                let read = "SELECT version FROM stock WHERE id = 1";
                let version = ask(client, read).await.unwrap();
                let update = "UPDATE stock SET count = count - 1, version = version + 1 \
                     WHERE id = 1 AND count > 0";
                let update = format!("{update} AND version = {version} RETURNING id");
                ask(client, &update).await.is_some()
            }
            Way::Advisory => {
                ask(client, "SELECT pg_advisory_lock(42)").await;
                ask(client, "SELECT pg_advisory_unlock(42)").await;
                true
            }
            Way::AdvisoryOfTransaction => {
                ask(client, "SELECT pg_advisory_xact_lock(42)").await;
                true
            }
        }
    }
}

/// The first column of the first row.
async fn ask(client: &Client, sql: &str) -> Option<String> {
    let messages = client.simple_query(sql).await.unwrap();
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

async fn connect(host: &Host) -> Option<Client> {
    let stream = host.connect("pg-1:5432").await.ok()?;
    let mut config = Config::new();
    config.user("postgres").dbname("postgres");
    let (client, connection) = config.connect_raw(stream, NoTls).await.ok()?;
    host.spawn("postgres-driver", async move {
        connection.await.unwrap();
    });
    Some(client)
}

async fn serve(host: Host) {
    let sync_median_us = SYNC.as_micros() as u64;
    let settings = disk::Settings { sync_median_us, ..disk::Settings::default() };
    let disk = Disk::new(settings, 1, "pg-1");
    let settings = Settings { costs: Costs::MEASURED, ..Settings::default() };
    let server = Server::new(host.clone(), settings, disk.mount(&host), Arc::new(Unobserved));
    server.run().await.unwrap();
}

/// So many clients do it for a while; notes successes and attempts.
async fn load(host: Host, way: Way, clients: usize, log: stage::Log) {
    let first = loop {
        if let Some(client) = connect(&host).await {
            break client;
        }
        host.sleep(ms(10)).await;
    };
    ask(&first, "CREATE TABLE stock (id int PRIMARY KEY, count int, version int)").await;
    ask(&first, "INSERT INTO stock VALUES (1, 1000000, 0)").await;
    let (successes, attempts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for _ in 0..clients {
        let client = connect(&host).await.unwrap();
        let (successes, attempts) = (successes.clone(), attempts.clone());
        host.spawn("buyer", async move {
            loop {
                let came_to_something = way.try_once(&client).await;
                attempts.fetch_add(1, Ordering::Relaxed);
                successes.fetch_add(u64::from(came_to_something), Ordering::Relaxed);
            }
        });
    }
    // Not the beginning, when not all are there.
    host.sleep(ms(500)).await;
    let count = || (successes.load(Ordering::Relaxed), attempts.load(Ordering::Relaxed));
    let before = count();
    host.sleep(way.measured_for()).await;
    let after = count();
    note(&log, &host, &format!("{} {}", after.0 - before.0, after.1 - before.1));
}

/// Successes a second, and attempts of a success in thousandths.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: u64,
    attempts_milli: u64,
}

fn measure(way: Way, clients: usize) -> Measured {
    let scene = Scene::new(&["pg-1", "app-1"])
        .latency_us(LATENCY.as_micros() as u64)
        .sigma_milli(SIGMA_MILLI)
        .ends_at(way.measured_for() + ms(1_500))
        .node(|host, _| serve(host))
        .node(move |host, log| load(host, way, clients, log));
    let log = scene.run(&EventEngine, |_| ());
    let [line] = &log[..] else { panic!("{way:?} of {clients}: {log:?}") };
    let numbers: Vec<u64> = line.split(' ').skip(2).map(|text| text.parse().unwrap()).collect();
    let (successes, attempts) = (numbers[0], numbers[1]);
    Measured {
        per_second: successes * 1_000 / way.measured_for().as_millis() as u64,
        attempts_milli: attempts * 1_000 / successes,
    }
}

/// For how long a holder keeps the hot row from the next: its two statements after it was
/// granted come over the network, the disk writes the commit, the next backend wakes.
fn held() -> Duration {
    let costs = Costs::MEASURED;
    SYNC + 4 * LATENCY + costs.write + costs.other + costs.wake_up
}

#[test]
fn a_hot_row_is_as_fast_as_its_holders_are_and_other_ways_have_other_shapes() {
    let table = Way::ALL.map(|way| CLIENTS.map(|clients| measure(way, clients)));
    println!("successes a second (attempts of a success), by clients");
    println!("{:22}{}", "", CLIENTS.map(|clients| format!("{clients:>14}")).concat());
    for (way, row) in Way::ALL.iter().zip(&table) {
        let cells = row.map(|Measured { per_second, attempts_milli }| {
            format!(
                "{per_second:>7} ({:>2}.{:02})",
                attempts_milli / 1_000,
                attempts_milli / 10 % 100
            )
        });
        println!("{:22}{}", way.name(), cells.map(|cell| format!("{cell:>14}")).concat());
    }
    let [for_update, optimistic, advisory, of_transaction] = table;
    let bound = 1_000_000 / held().as_micros() as u64;
    println!("FOR UPDATE: 1 / (fsync + 2 round trips + processor) = {bound} a second");

    // Flat: from two clients on it is what a holder takes, whoever waits.
    for Measured { per_second, .. } in &for_update[1..] {
        let share = per_second * 100 / bound;
        assert!((85..=105).contains(&share), "{per_second} of {bound} a second");
    }
    // One alone has a third round trip, in which nobody holds the row.
    assert!(for_update[0].per_second < for_update[1].per_second);

    // Attempts grow: at each number of clients they are more than at the one before.
    let attempts = optimistic.map(|measured| measured.attempts_milli);
    assert_eq!(attempts[0], 1_000, "nobody is in the way of one alone");
    assert!(attempts.is_sorted_by(|fewer, more| fewer < more), "{attempts:?}");
    assert!(attempts[5] > 4 * attempts[0], "{attempts:?}");

    // No disk: a session's lock costs one round trip, a transaction's own none.
    for (row, lock) in for_update.iter().zip(&advisory).skip(1) {
        assert!(lock.per_second > 2 * row.per_second, "{lock:?} {row:?}");
    }
    for (row, lock) in for_update.iter().zip(&of_transaction).skip(2) {
        assert!(lock.per_second > 5 * row.per_second, "{lock:?} {row:?}");
    }
}

#[test]
fn the_numbers_are_the_same_again() {
    let measured = || (measure(Way::Optimistic, 4), measure(Way::ForUpdate, 4));
    assert_eq!(format!("{:?}", measured()), format!("{:?}", measured()));
}

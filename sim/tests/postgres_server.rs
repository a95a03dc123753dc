//! What a PostgreSQL server of ours keeps through crashes and failovers, when it notices that
//! a client is gone.

mod postgres_support;

use std::time::Duration;

use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::server::postgres::{Primary, Settings};
use postgres_support::{Ours, connect, connect_closable, on_tokio, told};

fn disk(name: &str) -> Disk {
    Disk::new(disk::Settings::default(), 7, name)
}

/// Waits until a statement gives this.
async fn until(client: &tokio_postgres::Client, statement: &str, wanted: &str) {
    let mut found = String::new();
    for _ in 0..500 {
        found = told(client, statement).await;
        if found == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{statement}: {found}, not {wanted}");
}

#[test]
fn what_was_committed_outlives_a_crash() {
    on_tokio(async {
        let ours = Ours::start_on(disk("a"), Settings::default()).await;
        let client = connect(ours.port).await;
        told(&client, "CREATE TABLE t(id serial PRIMARY KEY, v int CHECK (v >= 0))").await;
        told(&client, "INSERT INTO t(v) VALUES (1),(2),(3)").await;
        told(&client, "UPDATE t SET v = 20 WHERE id = 2; DELETE FROM t WHERE id = 3").await;
        told(&client, "BEGIN; INSERT INTO t(v) VALUES (99)").await;
        let disk = ours.crash().await;
        disk.lose_power();
        let ours = Ours::start_on(disk, Settings::default()).await;
        let client = connect(ours.port).await;
        assert_eq!(told(&client, "SELECT id, v FROM t ORDER BY id").await, "(1,1) (2,20) #2");
        assert_eq!(told(&client, "INSERT INTO t VALUES (1, 1)").await, "23505");
        assert_eq!(told(&client, "INSERT INTO t(v) VALUES (-1)").await, "23514");
        // Values that were logged ahead are skipped, as after a crash of the real one.
        let next = told(&client, "SELECT nextval('t_id_seq')").await;
        assert_eq!(next, "(35) #1", "one was drawn by the refused row");
    });
}

#[test]
fn an_asynchronous_commit_is_lost_with_its_process() {
    on_tokio(async {
        let ours = Ours::start_on(disk("b"), Settings::default()).await;
        let client = connect(ours.port).await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY)").await;
        told(&client, "INSERT INTO t VALUES (1)").await;
        told(&client, "SET synchronous_commit = off").await;
        assert_eq!(told(&client, "INSERT INTO t VALUES (2)").await, "#1");
        let disk = ours.crash().await;
        let ours = Ours::start_on(disk, Settings::default()).await;
        let client = connect(ours.port).await;
        assert_eq!(told(&client, "SELECT id FROM t").await, "(1) #1");
        told(&client, "SET synchronous_commit = off").await;
        assert_eq!(told(&client, "INSERT INTO t VALUES (3)").await, "#1");
        // After the log's writer has come by it is there.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let disk = ours.crash().await;
        let ours = Ours::start_on(disk, Settings::default()).await;
        let client = connect(ours.port).await;
        assert_eq!(told(&client, "SELECT id FROM t").await, "(1) (3) #2");
    });
}

#[test]
fn a_promoted_standby_has_what_was_shipped_and_the_old_primary_serves_on() {
    on_tokio(async {
        let primary = Ours::start_on(disk("p"), Settings::default()).await;
        let client = connect(primary.port).await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY, v int)").await;
        told(&client, "INSERT INTO t VALUES (1, 1)").await;
        let follows = Primary { host: "127.0.0.1".to_owned(), port: primary.port };
        let settings = Settings { primary: Some(follows), ..Settings::default() };
        let standby = Ours::start_on(disk("s"), settings.clone()).await;
        let reader = connect(standby.port).await;
        until(&reader, "SELECT v FROM t", "(1) #1").await;
        assert_eq!(told(&reader, "INSERT INTO t VALUES (2, 2)").await, "25006");
        assert_eq!(told(&reader, "SELECT v FROM t FOR UPDATE").await, "25006");
        assert_eq!(told(&client, "SELECT count(*) FROM pg_stat_replication").await, "(1) #1");
        assert!(standby.control.promote());
        until(&reader, "SELECT pg_is_in_recovery()", "(f) #1").await;
        // Both are primaries now: a lock at one is nothing to the other.
        assert_eq!(told(&client, "BEGIN; UPDATE t SET v = v + 1").await, "#0 #1");
        assert_eq!(told(&reader, "UPDATE t SET v = v + 10 RETURNING v").await, "(11) #1");
        assert_eq!(told(&client, "COMMIT").await, "#0");
        assert_eq!(told(&client, "SELECT v FROM t").await, "(2) #1");
        // It stays a primary over a restart.
        let disk = standby.crash().await;
        let again = Ours::start_on(disk, settings).await;
        let reader = connect(again.port).await;
        assert_eq!(told(&reader, "SELECT v, pg_is_in_recovery() FROM t").await, "(11,f) #1");
    });
}

#[test]
fn a_synchronous_commit_waits_for_its_standby() {
    on_tokio(async {
        let named = vec!["standby".to_owned()];
        let settings = Settings { synchronous_standby_names: named, ..Settings::default() };
        let primary = Ours::start_on(disk("q"), settings).await;
        let client = connect(primary.port).await;
        told(&client, "SET synchronous_commit = local").await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY)").await;
        told(&client, "SET synchronous_commit = remote_apply").await;
        let waiting = tokio::spawn(async move { told(&client, "INSERT INTO t VALUES (1)").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        let other = connect(primary.port).await;
        assert_eq!(told(&other, "SELECT count(*) FROM t").await, "(0) #1", "nobody sees it yet");
        let follows = Primary { host: "127.0.0.1".to_owned(), port: primary.port };
        let name = "standby".to_owned();
        let settings = Settings { primary: Some(follows), name, ..Settings::default() };
        let standby = Ours::start_on(disk("r"), settings).await;
        assert_eq!(waiting.await.unwrap(), "#1");
        let reader = connect(standby.port).await;
        assert_eq!(told(&reader, "SELECT count(*) FROM t").await, "(1) #1");
    });
}

#[test]
fn a_client_that_is_gone_is_noticed_when_its_statement_ends() {
    on_tokio(async {
        let ours = Ours::start().await;
        let watcher = connect(ours.port).await;
        told(&watcher, "CREATE TABLE t(id int PRIMARY KEY)").await;
        told(&watcher, "INSERT INTO t VALUES (1)").await;
        // Idle in a transaction: at once.
        let client = connect(ours.port).await;
        told(&client, "BEGIN; SELECT * FROM t FOR UPDATE").await;
        assert_eq!(told(&watcher, "SELECT * FROM t FOR UPDATE NOWAIT").await, "55P03");
        drop(client);
        until(&watcher, "SELECT * FROM t FOR UPDATE NOWAIT", "(1) #1").await;
        for (interval, from_ms, to_ms) in [("0", 900, 10_000), ("50ms", 0, 700)] {
            let (client, socket) = connect_closable(ours.port).await.unwrap();
            told(&client, &format!("SET client_connection_check_interval = '{interval}'")).await;
            told(&client, "BEGIN; SELECT * FROM t FOR UPDATE").await;
            let began = tokio::time::Instant::now();
            tokio::spawn(async move { told(&client, "SELECT pg_sleep(1)").await });
            tokio::time::sleep(Duration::from_millis(100)).await;
            socket.abort();
            until(&watcher, "SELECT * FROM t FOR UPDATE NOWAIT", "(1) #1").await;
            let took_ms = began.elapsed().as_millis();
            assert!((from_ms..to_ms).contains(&took_ms), "{interval}: {took_ms} ms");
        }
    });
}

//! The same concurrent schedules to our server and to a real PostgreSQL 15: who waits, what
//! each statement gives, with which code it fails, and what is in the table at the end.

mod postgres_support;

use std::sync::Arc;
use std::time::Duration;

use lockstorm_sim::draw::Draw;
use postgres_support::{Ours, Real, connect, on_tokio, told};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// A session of a schedule.
struct Session {
    client: Arc<Client>,
    pid: String,
    pending: Option<JoinHandle<String>>,
}

/// One run of a schedule: a line for each step, then the table.
async fn run(port: u16, schedule: &[(usize, String)]) -> Vec<String> {
    let control = connect(port).await;
    told(&control, "DROP TABLE IF EXISTS t").await;
    told(&control, "CREATE TABLE t(id int PRIMARY KEY, v int, u int UNIQUE)").await;
    told(&control, "INSERT INTO t VALUES (1,10,1),(2,20,2),(3,30,3)").await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let client = Arc::new(connect(port).await);
        told(&client, "SET deadlock_timeout = '15ms'").await;
        let pid = told(&client, "SELECT pg_backend_pid()").await;
        let pid = pid.split(['(', ')']).nth(1).unwrap().to_owned();
        sessions.push(Session { client, pid, pending: None });
    }
    let mut lines = Vec::new();
    let ends = (0..3).map(|session| (session, "COMMIT".to_owned()));
    let ends: Vec<_> = ends.clone().chain(ends.clone()).chain(ends).collect();
    for (at, statement) in schedule.iter().chain(&ends) {
        if sessions[*at].pending.is_some() {
            continue;
        }
        let client = sessions[*at].client.clone();
        let text = statement.clone();
        sessions[*at].pending = Some(tokio::spawn(async move { told(&client, &text).await }));
        lines.push(format!("{at}: {statement}"));
        settle(&control, &mut sessions, &mut lines).await;
    }
    lines.push(told(&control, "SELECT * FROM t ORDER BY id").await);
    lines
}

/// Until every session has its answer or waits for another, for good.
async fn settle(control: &Client, sessions: &mut [Session], lines: &mut Vec<String>) {
    let (mut quiet, mut answers) = (0, Vec::new());
    while quiet < 4 {
        quiet += 1;
        for (at, session) in sessions.iter_mut().enumerate() {
            if session.pending.as_ref().is_some_and(JoinHandle::is_finished) {
                let answer = session.pending.take().unwrap().await.unwrap();
                answers.push(format!("   {at} -> {answer}"));
                quiet = 0;
            } else if session.pending.is_some() {
                let blockers =
                    told(control, &format!("SELECT pg_blocking_pids({})", session.pid)).await;
                if blockers.starts_with("({}") {
                    quiet = 0;
                }
            }
        }
        if sessions.iter().any(|session| session.pending.is_some()) {
            tokio::time::sleep(Duration::from_millis(8)).await;
        } else if quiet > 0 {
            break;
        }
    }
    // Two who are woken at once answer in any order.
    answers.sort();
    lines.extend(answers);
    for (at, session) in sessions.iter().enumerate() {
        if session.pending.is_some() {
            lines.push(format!("   {at} waits"));
        }
    }
}

fn statement(draw: &mut Draw) -> String {
    let row = 1 + draw.below(3);
    let other = 1 + draw.below(4);
    let isolation = ["READ COMMITTED", "REPEATABLE READ"][draw.below(2) as usize];
    match draw.below(24) {
        0..=3 => format!("BEGIN ISOLATION LEVEL {isolation}"),
        4 | 5 => "COMMIT".to_owned(),
        6 => "ROLLBACK".to_owned(),
        7 => format!("SELECT v FROM t WHERE id = {row} FOR UPDATE"),
        8 => format!("SELECT id, v FROM t WHERE id = {row} FOR SHARE"),
        9 => format!("SELECT id FROM t WHERE id = {row} FOR KEY SHARE"),
        10 => format!("SELECT id FROM t WHERE id = {row} FOR NO KEY UPDATE"),
        11 => format!("SELECT id FROM t WHERE id = {row} FOR UPDATE NOWAIT"),
        12 => "SELECT id, v FROM t ORDER BY id FOR UPDATE SKIP LOCKED".to_owned(),
        13 | 14 => format!("UPDATE t SET v = v - 1 WHERE id = {row} AND v > 0 RETURNING id, v"),
        15 => "UPDATE t SET v = v + 10 WHERE v >= 20".to_owned(),
        16 => format!("DELETE FROM t WHERE id = {row}"),
        17 => format!("INSERT INTO t VALUES ({other}, 5, {other})"),
        18 => format!("INSERT INTO t VALUES ({other}, 5, {other}) ON CONFLICT DO NOTHING"),
        19 => format!(
            "INSERT INTO t VALUES ({other}, 5, {other}) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v RETURNING v"
        ),
        20 => "SELECT sum(v), count(*) FROM t".to_owned(),
        21 => "SAVEPOINT s".to_owned(),
        22 => "ROLLBACK TO s".to_owned(),
        _ => format!("SELECT pg_advisory_xact_lock({row})"),
    }
}

#[test]
fn generated_schedules() {
    let count: u64 = std::env::var("POSTGRES_SCHEDULES").map_or(60, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("POSTGRES_SEED").map_or(1, |text| text.parse().unwrap());
    on_tokio(async {
        let Some(real) = Real::start().await else { return };
        let ours = Ours::start().await;
        let mut different = Vec::new();
        for number in 0..count {
            let mut draw = Draw::new(seed, "schedule", &number.to_string());
            let sessions = 2 + draw.below(2);
            let length = 6 + draw.below(10);
            let schedule: Vec<(usize, String)> = (0..length)
                .map(|_| (draw.below(sessions) as usize, statement(&mut draw)))
                .collect();
            let expected = run(real.port, &schedule).await;
            let found = run(ours.port, &schedule).await;
            if expected != found {
                let at = expected.iter().zip(&found).position(|(one, other)| one != other);
                let at = at.unwrap_or(expected.len().min(found.len()));
                let before = expected[..at].join("\n");
                let rest = |lines: &[String]| lines[at.min(lines.len())..].join("\n    ");
                different.push(format!(
                    "schedule {number}:\n{before}\n  real:\n    {}\n  ours:\n    {}",
                    rest(&expected),
                    rest(&found)
                ));
            }
        }
        let shown = different.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n");
        assert!(different.is_empty(), "{} of {count} differ\n{shown}", different.len());
    });
}

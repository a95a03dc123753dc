//! When is Redlock safe, and when not? Five servers that know nothing of each other. Told
//! here: a minority may die, lag or be cut off; clocks may run apart within the drift
//! allowance; a pause, a step of a clock, a server that forgets, break it.

mod on_both_engines;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::redis::Options;
use lockstorm::lock::redis::redlock::{Redlock, RedlockOptions};
use lockstorm::lock::{Lock, Owner, Release};
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::history::What;
use lockstorm_sim::plan::{Ask, file};
use lockstorm_sim::server::redis::codec::{RequestDecoder, RequestLimits};
use lockstorm_sim::storm::Run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use on_both_engines::{assert_withstood, each_of, grants, is_struck, plan, told};

/// Two clients; sections of about two seconds under a lease of five.
const TWO: &str = r#"
schema = 1
scenario = "redlock-five"
seed = "0x6"
duration = "12s"

[lock]
name = "redlock"

[topology]
apps = 2

[workload]
work = "2s"
patience = "8s"
"#;

/// Only three servers hear app-1: no more than the majority that it needs.
const JUST_A_MAJORITY: &str = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-4", "redis-5"]
at = "0s"
"#;

/// Runs on both engines and with both ways of asking.
fn each(text: &str, check: impl Fn(&Run)) {
    let mut plan = plan(text);
    for ask in Ask::ALL {
        plan.lock.own.ask = ask;
        each_of(&plan, |run| {
            assert!(grants(run).len() > 1, "{} {ask:?}: nobody got in", run.engine);
            check(run);
        });
    }
}

#[test]
fn in_calm_weather_it_excludes_and_every_server_has_its_record() {
    each(TWO, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        for number in 1..=5 {
            let server = format!("redis-{number}");
            let set = |what: &What| matches!(what, What::RecordSet { .. });
            let has = run.history.iter().any(|event| *event.node == *server && set(&event.what));
            assert!(has, "{server} was never asked");
        }
    });
}

#[test]
fn two_dead_servers_of_five_are_no_matter() {
    let dead = r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
at = "1s"

[[fault]]
kind = "machine-crash"
node = "redis-2"
at = "1s"
"#;
    each(&format!("{TWO}{dead}"), |run| {
        assert_withstood(run);
    });
}

#[test]
fn clients_on_two_sides_of_a_split_are_never_both_let_in() {
    let split = r#"
[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-1", "redis-2"]
at = "500ms"
for = "8s"

[[fault]]
kind = "partition"
from = ["app-2"]
to = ["redis-3", "redis-4", "redis-5"]
at = "500ms"
for = "8s"
"#;
    each(&format!("{TWO}{split}"), |run| {
        assert_withstood(run);
    });
}

#[test]
fn a_reply_that_is_lost_lets_nobody_else_in() {
    let lost = r#"
[[fault]]
kind = "reset"
from = ["app-1"]
to = ["redis-1", "redis-2", "redis-3", "redis-4", "redis-5"]
after = "app-1 acquire 1 applied"
"#;
    each(&format!("{TWO}{lost}"), |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
    });
}

#[test]
fn a_server_that_comes_back_empty_makes_a_second_majority() {
    let amnesiac = r#"
[[fault]]
kind = "process-crash"
node = "redis-3"
after = "app-1 acquire 1 returned"
for = "100ms"
"#;
    each(&format!("{TWO}{JUST_A_MAJORITY}{amnesiac}"), |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
        let found = run.judgement.violations().find(|found| found.kind == Kind::DoubleGrant);
        let blamed = found.map(|found| found.blame.faults.iter().map(|f| f.fault).collect());
        assert_eq!(blamed, Some(vec![1]), "{}", told(run));
    });
    // With its record at all five, the same restart is no matter. (Asked in parallel, two
    // clients can share them out, and the winner has three.)
    each_of(&plan(&format!("{TWO}{amnesiac}")), |run| {
        assert_withstood(run);
    });
}

#[test]
fn a_clock_that_steps_makes_a_second_majority() {
    let step = r#"
[[fault]]
kind = "clock-step"
node = "redis-3"
by = "+10s"
after = "app-1 acquire 1 returned"
"#;
    each(&format!("{TWO}{JUST_A_MAJORITY}{step}"), |run| {
        assert!(run.judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
    });
    // With its record at all five, one clock is no matter.
    each_of(&plan(&format!("{TWO}{step}")), |run| {
        assert_withstood(run);
    });
}

/// Sections that outlast the lease of ten seconds, one server that runs fast.
fn drifting(margin: &str, rate: &str) -> String {
    format!(
        r#"
schema = 1
scenario = "redlock-five"
seed = "0x1"
duration = "40s"

[lock]
name = "redlock"
lease = "10s"
margin = "{margin}"

[topology]
apps = 3

[workload]
work = "22s"
patience = "30s"

[[clock]]
node = "redis-3"
rate = "{rate}"

[[fault]]
kind = "partition"
from = ["app-1"]
to = ["redis-4", "redis-5"]
at = "0s"
"#
    )
}

#[test]
fn drift_within_the_allowance_is_harmless_and_beyond_it_is_not() {
    for (margin, rate) in [("1%", "+500ppm"), ("1%", "+0.5%"), ("6%", "+5%"), ("0%", "-5%")] {
        each(&drifting(margin, rate), |run| {
            let withstood = is_struck(run) && run.judgement.verdict.is_safe();
            assert!(withstood, "{margin} {rate}: {}", told(run));
        });
    }
    for (margin, rate) in [("1%", "+5%"), ("0%", "+2%")] {
        each(&drifting(margin, rate), |run| {
            let found = run.judgement.has_violation(Kind::DoubleGrant);
            assert!(found, "{margin} {rate}: {}", told(run));
        });
    }
}

#[test]
fn a_pause_beyond_the_validity_has_no_fence_to_stop_it() {
    let pause = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "6s"
"#;
    let careless = TWO.replace("patience", "deadline-check = false\npatience");
    each(&format!("{careless}{pause}"), |run| {
        assert!(!run.judgement.found(Kind::DoubleGrant), "{}", told(run));
        assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{}", told(run));
    });
    // Whoever asks its own clock first is late, and does nothing.
    each(&format!("{TWO}{pause}"), |run| {
        assert_withstood(run);
    });
    let fenced = careless.replace("[lock]", "fence = \"full\"\n[lock]");
    let error = file::parse("plan.toml", &fenced).unwrap_err().to_string();
    assert!(error.contains("the lock \"redlock\" gives no fencing tokens"), "{error}");
}

#[test]
fn a_holder_that_dies_keeps_others_out_for_its_lease() {
    let dies = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 1 returned"
"#;
    each(&format!("{TWO}{dies}"), |run| {
        assert_withstood(run);
    });
}

/// A server that a test has in its hand, on a port of this machine.
#[derive(Default)]
struct Fake {
    record: Option<String>,
    /// So many requests find somebody else's record.
    others: u32,
    /// The next release is held up by the network until the record is granted.
    holds_up: bool,
    held_up: Option<String>,
}

impl Fake {
    /// What it answers; `None` while the network has the request.
    fn answer(&mut self, request: &[String]) -> Option<&'static str> {
        match request[0].as_str() {
            "SET" if self.others > 0 => {
                self.others -= 1;
                Some("$-1\r\n")
            }
            "SET" if self.record.is_some() => Some("$-1\r\n"),
            "SET" => {
                self.record = Some(request[2].clone());
                if let Some(owner) = self.held_up.take() {
                    self.release(&owner);
                }
                Some("+OK\r\n")
            }
            "EVAL" | "EVALSHA" if std::mem::take(&mut self.holds_up) => {
                self.held_up = request.last().cloned();
                None
            }
            "EVAL" | "EVALSHA" => Some(self.release(&request[request.len() - 1])),
            _ => Some("+OK\r\n"),
        }
    }

    fn release(&mut self, owner: &str) -> &'static str {
        if self.record.as_deref() == Some(owner) {
            self.record = None;
            return ":1\r\n";
        }
        ":0\r\n"
    }

    async fn serve(fake: Arc<Mutex<Fake>>, listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let fake = fake.clone();
            tokio::spawn(async move {
                let mut decoder = RequestDecoder::new(RequestLimits::default());
                while let Ok(1..) = stream.read_buf(decoder.buffer_mut()).await {
                    while let Ok(Some(arguments)) = decoder.decode() {
                        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
                        let request: Vec<String> = arguments.iter().map(text).collect();
                        let answer = fake.lock().unwrap().answer(&request);
                        let answer = answer.unwrap_or_default().as_bytes();
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    }
}

/// A round that was given up releases everywhere, also where somebody else's record was. Where
/// that comes late, the record of a later round may be there.
#[tokio::test]
async fn a_release_that_was_held_up_leaves_the_vote_of_a_later_round() {
    let (mut fakes, mut addresses) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap().to_string());
        let fake = Fake { others: 1, holds_up: number == 1, ..Fake::default() };
        fakes.push(Arc::new(Mutex::new(fake)));
        tokio::spawn(Fake::serve(fakes[number - 1].clone(), listener));
    }
    let redis = Options {
        command_timeout: Duration::from_millis(200),
        retry: Duration::from_millis(20),
        ..Options::new(Duration::from_secs(10))
    };
    let lock = Redlock::new(Host::tokio("app-1"), &addresses, RedlockOptions::new(redis)).unwrap();
    let owner = Owner::named("app-1/1");
    let guard = lock.acquire("stock:42", &owner, Duration::from_secs(5)).await.unwrap();
    assert_eq!(guard.owner(), &owner);
    let records = || -> Vec<Option<String>> {
        fakes.iter().map(|fake| fake.lock().unwrap().record.clone()).collect()
    };
    assert!(fakes[0].lock().unwrap().held_up.is_none(), "it has come");
    assert_eq!(records(), vec![Some("app-1/1#1".to_owned()); 3]);
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(records(), vec![None; 3]);
}

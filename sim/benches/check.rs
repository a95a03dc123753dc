//! What judging costs: a synthetic history of a million events, written, read back and
//! judged, with the memory that it took.
//!
//! `cargo bench --bench check` prints seconds of this machine; the numbers that can be
//! compared are the ratios. `-- events N` takes another size, `-- judge N` only judges:
//! what a profiler or an instruction counter is to look at.

use std::path::Path;

use lockstorm::lock::Release;
use lockstorm_sim::check::{self, Judgement, Setting};
use lockstorm_sim::history::file::{self, Header, Recorded};
use lockstorm_sim::history::{
    AcquireOutcome, Attempt, Event, EventId, History, Name, StockOperation, What,
};

const EVENTS: usize = 1_000_000;
const CLIENTS: u32 = 12;
const KEY: &str = "lock:sku-42";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["judge", count] => {
            let history = sale(count.parse().unwrap_or(EVENTS));
            std::hint::black_box(check::judge(&history, &setting()));
        }
        ["check", path] => judge_file(Path::new(path)),
        ["events", count] => bench(count.parse().unwrap_or(EVENTS)),
        _ => {
            bench(EVENTS / 4);
            bench(EVENTS);
        }
    }
}

fn setting() -> Setting {
    Setting {
        takeover_bound_us: Some(10_000_000),
        bypass_bound: Some(1_000),
        ordered_tokens: true,
        ..Setting::default()
    }
}

fn bench(events: usize) {
    let history = sale(events);
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = folder.path().join("history.ndjson.gz");
    let header = Header { setting: setting().to_header(), ..Header::default() };
    let written = timed(|| {
        file::save(&path, &header, &history).unwrap_or_else(|error| panic!("{error}"));
    });
    let packed = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    println!("{} events, {packed} bytes packed, written in {written}", history.events.len());
    drop(history);
    // In a process of its own, so that the memory is that of `lockstorm check`.
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let checked = std::process::Command::new(program).arg("check").arg(&path).status();
    assert!(checked.is_ok_and(|status| status.success()), "the history is not judged");
}

fn judge_file(path: &Path) {
    let mut recorded = Recorded::default();
    let read = timed(|| {
        recorded = file::read(path).unwrap_or_else(|error| panic!("{error}"));
    });
    let after_read = peak_mib();
    let mut judgement = Judgement::internal();
    let judged = timed(|| judgement = check::judge(&recorded.history, &setting()));
    println!(
        "    read in {read}, judged in {judged}; peak memory {after_read} MiB read, {} MiB judged; \
         {} ({} grants)",
        peak_mib(),
        judgement.verdict,
        judgement.numbers.grants,
    );
}

/// Seconds by the clock on the wall, and those that the processor worked for us: on a
/// busy machine only these say what it costs.
struct Cost {
    wall_s: f64,
    processor_s: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.2} s ({:.2} s of one core)", self.wall_s, self.processor_s)
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(work: impl FnOnce()) -> Cost {
    let (start, worked_s) = (std::time::Instant::now(), processor_s());
    work();
    Cost { wall_s: start.elapsed().as_secs_f64(), processor_s: processor_s() - worked_s }
}

/// How long processors have worked for this process, where the system tells.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets: the 12th and 13th field, in ticks of 10 ms.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that this process has had, where the system tells.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

/// A sale under one lock: clients in turn ask, wait, are granted, read, sell, release;
/// each round is twelve events.
fn sale(events: usize) -> History {
    let clients: Vec<Name> = (1..=CLIENTS).map(|n| Name::from(format!("app-{n}"))).collect();
    let (redis, stock, storm) = (Name::from("redis-1"), Name::from("stock-1"), Name::from("storm"));
    let (mut history, key) = (History::default(), Name::from(KEY));
    let mut now_us = 0;
    let mut push = |now_us: u64, node: &Name, what: What| {
        let id = EventId(history.events.len() as u64);
        history.events.push(Event { id, at_us: now_us, node: node.clone(), cause: None, what });
    };
    push(0, &storm, What::Healed);
    let mut sales = Vec::new();
    let mut round = 0_u32;
    while (round as usize + 1) * 12 < events {
        let client = &clients[(round % CLIENTS) as usize];
        let attempt = Attempt { client: client.clone(), ordinal: round / CLIENTS + 1 };
        let owner = Name::from(attempt.to_string());
        let key = key.clone();
        let (unit, order) = (round + 1, Name::from(format!("order-{round}")));
        let token = Some(u64::from(round) + 1);
        let mut say = |after_us: u64, node: &Name, what: What| {
            now_us += after_us;
            push(now_us, node, what);
        };
        let lease_us = 5_000_000;
        let asked =
            What::AcquireInvoked { attempt: attempt.clone(), key: key.clone(), shared: false };
        say(50, client, asked);
        say(300, &redis, What::WaitBegan { key: key.clone(), owner: owner.clone() });
        say(
            200,
            &redis,
            What::RecordSet {
                key: key.clone(),
                owner: owner.clone(),
                lease_us: Some(lease_us),
                shared: false,
            },
        );
        say(200, &redis, What::RecordReplicated { key: key.clone(), owner: owner.clone() });
        say(
            100,
            client,
            What::AcquireReturned {
                attempt: attempt.clone(),
                key: key.clone(),
                outcome: AcquireOutcome::Granted { token, lease_us, margin_us: 50_000 },
            },
        );
        let read = StockOperation::Read { left: u32::MAX - unit, next_unit: Some(unit) };
        let effect = |operation: StockOperation| What::Effect {
            owner: owner.clone(),
            token,
            operation,
            accepted: true,
            refusal: None,
        };
        say(300, &stock, effect(read));
        say(900, &stock, effect(StockOperation::Sell { unit, order: order.clone() }));
        say(300, client, What::ReleaseInvoked { attempt: attempt.clone() });
        say(300, &redis, What::RecordReleased { key: key.clone(), owner: owner.clone() });
        say(200, &redis, What::RecordUnreplicated { key, owner });
        say(100, client, What::ReleaseReturned { attempt, release: Release::Released });
        say(10, &stock, What::ReplicationPosition { offset: u64::from(round) * 100 });
        sales.push((unit, order));
        round += 1;
    }
    push(now_us + 1_000, &stock, What::Ledger { units: round, sales });
    history.ended_us = now_us + 2_000;
    history
}

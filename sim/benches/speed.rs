//! Speed, as ratios from one run: machines are noisy, so only what was measured side
//! by side is compared.
//!
//! `cargo bench --bench speed` prints storms per second and core on both engines for
//! the same plans, and the echo load (clients that ask one server every 100 ms for 60
//! simulated seconds) at 10, 20 and 40 hosts. `-- storms N` runs N storms on the event
//! engine and nothing else: what a profiler or an instruction counter is to look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Name, Recorder};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Rounds of the comparison; each runs the same plans on both engines.
const ROUNDS: u64 = 5;
/// Storms of a round on the event engine.
const STORMS: u64 = 40;
/// Of which so many also run under turmoil.
const STORMS_ON_TURMOIL: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, count] = arguments.as_slice()
        && what == "storms"
    {
        let count = count.parse().unwrap_or(20);
        for seed in 0..count {
            std::hint::black_box(storm::run(&plan(seed), &EventEngine));
        }
        return;
    }
    storms();
    echo_load();
}

fn plan(seed: u64) -> Plan {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Full, Seed(seed));
    plan.unwrap_or_else(|error| panic!("{error}"))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn seconds(work: impl FnOnce()) -> f64 {
    let start = std::time::Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn storms() {
    println!(
        "standard storm: redis-failover, redis-1..3, sentinel-1, app-1..3, stock-1, 10 simulated s and the healing\n"
    );
    println!("round   event storms/s   ms per storm   turmoil ms per storm   ratio");
    // The first storm of a process pays for what all share.
    storm::run(&plan(0), &EventEngine);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let seeds = round * STORMS..(round + 1) * STORMS;
        let on_event = seconds(|| {
            for seed in seeds.clone() {
                std::hint::black_box(storm::run(&plan(seed), &EventEngine));
            }
        }) / STORMS as f64;
        // Only plans that turmoil can express are compared.
        let turmoil = Turmoil::default();
        let both: Vec<Plan> = seeds
            .map(plan)
            .filter(|plan| turmoil.cannot_express(plan).is_none())
            .take(STORMS_ON_TURMOIL as usize)
            .collect();
        let timed = |engine: &dyn Engine| {
            seconds(|| {
                for plan in &both {
                    std::hint::black_box(storm::run(plan, engine));
                }
            }) / both.len() as f64
        };
        let (same_on_event, on_turmoil) = (timed(&EventEngine), timed(&turmoil));
        let ratio = on_turmoil / same_on_event;
        ratios.push(ratio);
        println!(
            "{:>5}   {:>14.1}   {:>12.2}   {:>20.1}   {ratio:>5.1}",
            round + 1,
            1.0 / on_event,
            on_event * 1_000.0,
            on_turmoil * 1_000.0,
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.1}\n", ratios[ratios.len() / 2]);
}

const ECHO_SECONDS: u64 = 60;

fn echo_load() {
    println!("echo load: clients ask one server every 100 ms, {ECHO_SECONDS} simulated s\n");
    println!("hosts   event ×real   µs per request   turmoil ×real   µs per request   ratio");
    for hosts in [10_u16, 20, 40] {
        let (event_s, event_requests) = echo(&EventEngine, hosts);
        let (turmoil_s, turmoil_requests) = echo(&Turmoil::default(), hosts);
        println!(
            "{hosts:>5}   {:>11.0}   {:>14.2}   {:>13.1}   {:>14.1}   {:>5.0}",
            ECHO_SECONDS as f64 / event_s,
            event_s * 1e6 / event_requests as f64,
            ECHO_SECONDS as f64 / turmoil_s,
            turmoil_s * 1e6 / turmoil_requests as f64,
            turmoil_s / event_s,
        );
    }
}

fn echo(engine: &dyn Engine, hosts: u16) -> (f64, u64) {
    let names = std::iter::once(Name::from("server"))
        .chain((1..hosts).map(|number| Name::from(format!("client-{number}"))));
    let world = World::new(1, names);
    let requests = Arc::new(AtomicU64::new(0));
    let mut factories: Vec<Factory> = vec![Arc::new(|host| Box::pin(serve(host)))];
    for _ in 1..hosts {
        let requests = requests.clone();
        factories.push(Arc::new(move |host| Box::pin(ask(host, requests.clone()))));
    }
    let clock = world.clone();
    let stage = Stage {
        world,
        factories,
        links: Links { median_us: 250, sigma_milli: 400 },
        kernel: Kernel::default(),
        ends_at_us: ECHO_SECONDS * 1_000_000,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(|_| ()),
    };
    let elapsed = seconds(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| engine.run(stage));
        });
    });
    (elapsed, requests.load(Ordering::Relaxed).max(1))
}

async fn serve(host: Host) {
    let Ok(listener) = host.listen(7).await else { return };
    while let Ok(mut stream) = listener.accept().await {
        host.spawn("echo", async move {
            let mut buffer = [0; 128];
            while let Ok(count) = stream.read(&mut buffer).await {
                if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn ask(host: Host, requests: Arc<AtomicU64>) {
    let Ok(mut stream) = host.connect("server:7").await else { return };
    let (question, mut answer) = ([7; 100], [0; 100]);
    loop {
        host.sleep(Duration::from_millis(100)).await;
        let asked = stream.write_all(&question).await;
        if asked.is_err() || stream.read_exact(&mut answer).await.is_err() {
            return;
        }
        requests.fetch_add(1, Ordering::Relaxed);
    }
}

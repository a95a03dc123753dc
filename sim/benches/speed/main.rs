//! Speed, as ratios from one run: machines are noisy, so only what was measured side
//! by side is compared.
//!
//! `cargo bench --bench speed` prints all of it: storms per second and core on both
//! engines for the same plans, the echo load, idle clusters, worker processes against a
//! spin loop, the memory of a storm, and what a build without `--cfg tokio_unstable` costs.
//! `-- storms`, `-- echo`, `-- idle`, `-- workers`, `-- memory`, `-- plain` print one
//! part. `-- count N` runs N storms on the event engine and prints nothing: what a
//! profiler or an instruction counter is to look at.

mod echo;
mod idle;
mod memory;
mod plain;
mod workers;

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Rounds of the comparison; each runs the same plans on both engines.
const ROUNDS: u64 = 5;
/// Storms of a round on the event engine.
const STORMS: u64 = 40;
/// Of which so many also run under turmoil.
const STORMS_ON_TURMOIL: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["count", count] => {
            for seed in 0..count.parse().unwrap_or(20) {
                std::hint::black_box(storm::run(&plan(seed), &EventEngine));
            }
        }
        ["storms", ..] => storms(),
        ["echo", ..] => echo::load(),
        ["idle", ..] => idle::clusters(),
        ["workers", ..] => workers::scaling(),
        ["memory", ..] => memory::of_a_storm(),
        ["plain", ..] => plain::build(),
        // cargo adds `--bench`.
        _ => {
            storms();
            echo::load();
            idle::clusters();
            workers::scaling();
            memory::of_a_storm();
            plain::build();
        }
    }
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
        "standard storm: redis-failover, redis-1..3, sentinel-1..3, app-1..3, stock-1, 10 simulated s and the healing\n"
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

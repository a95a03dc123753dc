//! The speed of the three engines, from one run: the same standard storms and the same echo
//! load on each of them, one after the other, in processor time, for machines have other work.
//! The ratios are what counts.
//!
//! `cargo bench -p lockstorm-madsim` prints all of it; `-- storms` and `-- echo` one part.

#[path = "../../benches/speed/echo.rs"]
#[allow(dead_code, reason = "the other bench has a table of its own")]
mod echo;

use std::sync::Arc;

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm;

/// Rounds of the comparison.
const ROUNDS: u64 = 5;
/// Storms of a round, on each engine.
const STORMS: usize = 4;

/// The processor time of this process so far, s.
fn used() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = used();
    work();
    used() - start
}

fn main() {
    let engines: [Arc<dyn Engine>; 3] = match lockstorm_madsim::engine() {
        Ok(madsim) => [Arc::new(EventEngine), Arc::new(Turmoil::default()), madsim],
        Err(why) => {
            eprintln!("{why}");
            return;
        }
    };
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |part: &str| {
        let parts = ["storms", "echo"];
        asked.iter().any(|word| word == part) || !asked.iter().any(|word| parts.contains(&&**word))
    };
    if is_asked("storms") {
        storms(&engines);
    }
    if is_asked("echo") {
        load(&engines);
    }
}

/// Plans that all engines can express.
fn plans(round: u64, engines: &[Arc<dyn Engine>]) -> Vec<Plan> {
    let drawn = (round * 40..(round + 1) * 40)
        .map(|seed| Plan::from_seed("redis-failover", "redis", Fence::Full, Seed(seed)))
        .map(|plan| plan.unwrap_or_else(|error| panic!("{error}")));
    let on_all = |plan: &Plan| engines.iter().all(|engine| engine.cannot_express(plan).is_none());
    drawn.filter(on_all).take(STORMS).collect()
}

fn storms(engines: &[Arc<dyn Engine>; 3]) {
    println!(
        "standard storm: ms of processor for each of {STORMS} of a round, the same on all engines\n"
    );
    println!("round      event    turmoil     madsim   turmoil/event   madsim/event");
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS {
        let plans = plans(round, engines);
        let each_ms = |engine: &dyn Engine| {
            // The first storm of a process pays for what all share.
            storm::run(&plans[0], engine);
            let all = seconds(|| {
                for plan in &plans {
                    std::hint::black_box(storm::run(plan, engine));
                }
            });
            all * 1_000.0 / plans.len() as f64
        };
        let [event, turmoil, madsim] = engines.each_ref().map(|engine| each_ms(engine.as_ref()));
        ratios[0].push(turmoil / event);
        ratios[1].push(madsim / event);
        println!(
            "{:>5}   {event:>8.2}   {turmoil:>8.2}   {madsim:>8.2}   {:>13.1}   {:>12.1}",
            round + 1,
            turmoil / event,
            madsim / event
        );
    }
    let [turmoil, madsim] = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    });
    println!("median ratios to event: turmoil {turmoil:.1}, madsim {madsim:.1}\n");
}

fn load(engines: &[Arc<dyn Engine>; 3]) {
    println!("echo load: clients ask one server every 100 ms; simulated s for each of processor\n");
    println!("hosts      event    turmoil     madsim   requests (event, turmoil, madsim)");
    for hosts in [10_u16, 20, 40] {
        let [event, turmoil, madsim] =
            engines.each_ref().map(|engine| echo::echo(engine.as_ref(), hosts));
        let speed = |(real_s, _): (f64, u64)| echo::ECHO_SECONDS as f64 / real_s;
        println!(
            "{hosts:>5}   {:>8.0}   {:>8.1}   {:>8.0}   {} {} {}",
            speed(event),
            speed(turmoil),
            speed(madsim),
            event.1,
            turmoil.1,
            madsim.1
        );
    }
}

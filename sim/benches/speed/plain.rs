//! What a build without `--cfg tokio_unstable` costs: the same plans on the event engine,
//! and on the event engine as such a build has it.

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::{EventEngine, PlainEventEngine};
use lockstorm_sim::storm;

use super::{ROUNDS, STORMS, plan, seconds};

pub(super) fn build() {
    println!("event without what tokio has with --cfg tokio_unstable only\n");
    println!("round   event ms per storm   without it   ratio");
    storm::run(&plan(0), &EventEngine);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (mut with, mut without) = (0.0, 0.0);
        // Plan by plan: what else the machine does is shared by both.
        for seed in round * STORMS..(round + 1) * STORMS {
            let timed = |engine: &dyn Engine| {
                seconds(|| {
                    std::hint::black_box(storm::run(&plan(seed), engine));
                })
            };
            with += timed(&EventEngine);
            without += timed(&PlainEventEngine);
        }
        let ratio = without / with;
        ratios.push(ratio);
        let ms = |seconds: f64| seconds * 1_000.0 / STORMS as f64;
        println!("{:>5}   {:>18.2}   {:>10.2}   {ratio:>5.2}", round + 1, ms(with), ms(without));
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2}\n", ratios[ratios.len() / 2]);
}

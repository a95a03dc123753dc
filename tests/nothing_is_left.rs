//! What a run leaves in memory: nothing. A hunt runs hundreds of thousands of storms in one
//! process.
//!
//! The only test of its program: it counts worlds, and others would have theirs.

mod on_both_engines;

use std::path::Path;

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::seeds::{Shelf, load_shelf};
use lockstorm_sim::storm;

#[test]
fn a_run_lets_go_of_its_world_whatever_struck_it() {
    on_both_engines::install_senses();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let files = load_shelf(&folder, Shelf::KnownUnsafe).unwrap();
    let mut runs = 0;
    for (number, (path, file)) in files.iter().enumerate() {
        let turmoil = Turmoil::default();
        let mut engines = vec![&EventEngine as &dyn Engine];
        // Each takes ten times as long there.
        if number % 6 == 0 && turmoil.cannot_express(&file.plan).is_none() {
            engines.push(&turmoil);
        }
        for engine in engines {
            drop(storm::run(&file.plan, engine));
            assert_eq!(World::living(), 0, "{} on {}", path.display(), engine.name());
            runs += 1;
        }
    }
    assert!(runs > 50);
}

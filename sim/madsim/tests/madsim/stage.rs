//! Stages of programs, for tests of the engine.

use std::future::Future;
use std::sync::{Arc, Mutex};

use lockstorm::Host;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Control, Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Name, Recorder};

/// What programs say, with true time in ms.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub fn say(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A program of a node.
pub fn program<F>(run: impl Fn(Host) -> F + Send + Sync + 'static) -> Factory
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |host| Box::pin(run(host)))
}

/// So many simulated seconds of these programs, with faults.
pub fn stage(
    seconds: u64,
    programs: impl IntoIterator<Item = (&'static str, Factory)>,
    opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
) -> Stage {
    let (names, factories): (Vec<_>, Vec<_>) = programs.into_iter().unzip();
    let world = World::new(7, names.into_iter().map(Name::from));
    let clock = world.clone();
    Stage {
        world,
        factories,
        links: Links { median_us: 1_000, sigma_milli: 400 },
        kernel: Kernel::default(),
        ends_at_us: seconds * 1_000_000,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(opening),
    }
}

/// Runs a stage, which must come to its end.
pub fn run(engine: &dyn Engine, stage: Stage) {
    let ending = engine.run(stage);
    assert_eq!(ending.stuck, None);
}

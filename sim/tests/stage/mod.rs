//! A small scene for tests of engines: named nodes, each an async function that
//! writes to a common log.

#![allow(dead_code, reason = "each test program uses its part")]

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Control, Ending, Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::Recorder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub type Log = Arc<Mutex<Vec<String>>>;
type Program = Arc<dyn Fn(Host, Log) -> BoxFuture<'static, ()> + Send + Sync>;

pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Writes `node time text`, the time in true microseconds (the nodes' clocks may lie,
/// so it is asked of the world by whoever runs the scene: see `Scene::run`).
pub fn note(log: &Log, host: &Host, text: &str) {
    let now_us = NOW.with(|now| now.borrow().as_ref().map_or(0, |world| world.now_us()));
    log.lock().unwrap().push(format!("{} {now_us} {text}", host.name()));
}

thread_local! {
    static NOW: std::cell::RefCell<Option<Arc<World>>> = const { std::cell::RefCell::new(None) };
}

pub struct Scene {
    names: Vec<&'static str>,
    programs: Vec<Program>,
    latency_us: u64,
    sigma_milli: u64,
    ends_at: Duration,
    seed: u64,
    kernel: Kernel,
    tells_touches: bool,
}

impl Scene {
    pub fn new(names: &[&'static str]) -> Self {
        Scene {
            names: names.to_vec(),
            programs: Vec::new(),
            latency_us: 1_000,
            sigma_milli: 0,
            ends_at: ms(5_000),
            seed: 1,
            kernel: Kernel::default(),
            tells_touches: false,
        }
    }

    pub fn node<F>(mut self, program: impl Fn(Host, Log) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.programs.push(Arc::new(move |host, log| Box::pin(program(host, log))));
        self
    }

    pub fn latency_us(mut self, latency_us: u64) -> Self {
        self.latency_us = latency_us;
        self
    }

    pub fn sigma_milli(mut self, sigma_milli: u64) -> Self {
        self.sigma_milli = sigma_milli;
        self
    }

    pub fn ends_at(mut self, ends_at: Duration) -> Self {
        self.ends_at = ends_at;
        self
    }

    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Has the log tell which faults touched something.
    pub fn tells_touches(mut self) -> Self {
        self.tells_touches = true;
        self
    }

    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the scene on a fresh thread and returns its log.
    pub fn run(
        self,
        engine: &dyn Engine,
        opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
    ) -> Vec<String> {
        std::thread::scope(|scope| {
            scope.spawn(move || self.run_here(engine, opening)).join().unwrap()
        })
    }

    fn run_here(
        self,
        engine: &dyn Engine,
        opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
    ) -> Vec<String> {
        let world = World::new(self.seed, self.names.iter().map(|name| (*name).into()));
        NOW.with(|now| *now.borrow_mut() = Some(world.clone()));
        let log = Log::default();
        if self.tells_touches {
            let (log, clock) = (log.clone(), world.clone());
            let tell = move |touch| {
                log.lock().unwrap().push(format!("- {} {touch:?}", clock.now_us()));
            };
            world.on_touch(Some(Arc::new(tell)));
        }
        let factories = self.programs.into_iter().map(|program| {
            let log = log.clone();
            Arc::new(move |host: Host| program(host, log.clone())) as Factory
        });
        let clock = world.clone();
        let ending = engine.run(Stage {
            world,
            factories: factories.collect(),
            links: Links { median_us: self.latency_us, sigma_milli: self.sigma_milli },
            kernel: self.kernel,
            ends_at_us: self.ends_at.as_micros() as u64,
            recorder: Recorder::new(move || clock.now_us()),
            opening: Box::new(opening),
        });
        assert_eq!(ending.stuck, None);
        let log = log.lock().unwrap();
        log.clone()
    }
}

/// A program that echoes everything on port 7.
pub fn echo() -> impl Fn(Host, Log) -> BoxFuture<'static, ()> + Send + Sync {
    |host, _| {
        Box::pin(async move {
            let listener = host.listen(7).await.unwrap();
            loop {
                let mut stream = listener.accept().await.unwrap();
                host.spawn("echo", async move {
                    let mut buffer = [0; 1_024];
                    while let Ok(count) = stream.read(&mut buffer).await {
                        if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        })
    }
}

/// Runs two nodes, `idle` and `busy`, for a second on a thread of its own.
pub fn beside_idle<F>(
    engine: &dyn Engine,
    busy: impl Fn(Host) -> F + Send + Sync + 'static,
    opening: impl FnOnce(Arc<dyn Control>) + Send + 'static,
) -> Ending
where
    F: Future<Output = ()> + Send + 'static,
{
    let world = World::new(1, ["idle", "busy"].map(Into::into));
    let idle: Factory = Arc::new(|host: Host| {
        Box::pin(async move {
            loop {
                host.sleep(ms(10)).await;
            }
        })
    });
    let busy: Factory = Arc::new(move |host| Box::pin(busy(host)));
    let clock = world.clone();
    let stage = Stage {
        world,
        factories: vec![idle, busy],
        links: Links { median_us: 1_000, sigma_milli: 0 },
        kernel: Kernel::default(),
        ends_at_us: 1_000_000,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(opening),
    };
    std::thread::scope(|scope| scope.spawn(|| engine.run(stage)).join().unwrap())
}

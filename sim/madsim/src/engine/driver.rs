//! Runs a stage in a runtime of madsim, and ends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm_sim::draw::Draw;
use lockstorm_sim::engine::world::{NodeId, World, panic_message};
use lockstorm_sim::engine::{Control, Ending, Factory, Stage, current, senses};
use madsim::Config;
use madsim::runtime::{Handle, Runtime};

use super::Madsim;
use super::connect::EPHEMERAL_FIRST;
use super::control::MadsimControl;
use super::core::{Core, Machine, latency_range};
use super::kernel;
use super::substrate::{MadsimSubstrate, OnMadsim};

/// So many turns the tasks of an ended run have to be dropped in.
const LAST_TURNS: u32 = 10_000;

/// Runs the stage to its end, on a thread of its own: madsim seeds the hash keys of a thread
/// once, and must be the first to ask for them.
pub(super) fn drive(engine: Madsim, stage: Stage) -> Ending {
    let stuck = |why: String| Ending { stuck: Some(why), ..Ending::default() };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("madsim".to_owned());
        match thread.spawn_scoped(scope, || here(engine, stage)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| stuck(panic_message(&*panic))),
            Err(error) => stuck(format!("no thread for the storm: {error}")),
        }
    })
}

fn here(engine: Madsim, stage: Stage) -> Ending {
    let seed = Draw::new(stage.world.seed(), "madsim", &engine.reseed.to_string()).bits();
    let mut config = Config::default();
    config.net.send_latency = latency_range(stage.links);
    let mut runtime = Runtime::with_seed_and_config(seed, config);
    // Ours is the end of the run; madsim's only must not come before it.
    runtime.set_time_limit(Duration::from_micros(stage.ends_at_us) + Duration::from_secs(60));
    let world = stage.world.clone();
    let run = catch_unwind(AssertUnwindSafe(|| runtime.block_on(carry(stage))));
    let torn = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
    let why = |panic: Box<dyn std::any::Any + Send>| {
        world.stuck().unwrap_or_else(|| panic_message(&*panic))
    };
    match (run, torn) {
        (Ok(ending), Ok(())) => ending,
        (Ok(ending), Err(panic)) => {
            let dropped = format!("a task panicked as it was dropped: {}", panic_message(&*panic));
            Ending { stuck: ending.stuck.or(Some(dropped)), ..ending }
        }
        (Err(panic), _) => Ending { stuck: Some(why(panic)), ..Ending::default() },
    }
}

/// Runs the stage in the runtime of madsim that runs on this thread: for tests that make
/// that runtime themselves, as madsim's own check of determinism does.
pub async fn carry(stage: Stage) -> Ending {
    let world = stage.world.clone();
    let _senses = senses::enter(&world);
    senses::answered_by_engine();
    let core = Core::new(&stage);
    let _current = current::enter(&world, Arc::new(MadsimSubstrate(core.clone())));
    world.on_spawn(Arc::new(OnMadsim(Arc::downgrade(&core))));
    boot(&core).await;
    let factories: Arc<[Factory]> = stage.factories.into();
    let control: Arc<dyn Control> = Arc::new(MadsimControl::new(core.clone(), factories));
    (stage.opening)(control.clone());
    core.nodes().for_each(|node| control.start(node));
    supervise(&core, stage.ends_at_us).await;
    core.recorder.stop();
    core.finish();
    let ending = Ending {
        steps: core.steps(),
        messages: core.messages(),
        stuck: core.stuck().or_else(|| world.stuck()),
        not_expressible: world.not_expressible().is_some(),
        mend: None,
    };
    tear_down(&core).await;
    ending
}

/// Makes each node a node of madsim, and waits for the kernels. Then the run begins.
async fn boot(core: &Arc<Core>) {
    let madsim = Handle::current();
    for node in core.nodes() {
        let kernel = core.clone();
        let builder = madsim.create_node().name(&*core.world.name(node));
        let builder = builder.ip(World::address(node).into());
        let handle = builder.init(move || kernel::run(kernel.clone(), node)).build();
        core.lock().machines.push(Machine {
            handle,
            life: 0,
            endpoint: None,
            is_dead: false,
            library: None,
            next_port: EPHEMERAL_FIRST,
        });
    }
    for node in core.nodes() {
        core.until_booted(node).await;
    }
    core.begin();
}

impl Core {
    /// Completes once the machine has a kernel, which may never be.
    pub(super) async fn until_booted(&self, node: NodeId) {
        loop {
            let booted = self.booted.notified();
            if self.lock().machine(node).endpoint.is_some() {
                return;
            }
            booted.await;
        }
    }
}

/// Does what is due, until the run is over.
async fn supervise(core: &Arc<Core>, ends_at_us: u64) {
    loop {
        core.follow();
        let (due, next_us) = core.due();
        for action in due {
            action();
        }
        bury(core);
        if core.is_finished() || core.world.is_halted() || core.now_us() >= ends_at_us {
            return;
        }
        let until_us = next_us.unwrap_or(ends_at_us).min(ends_at_us);
        let mut timer = core.until(until_us);
        let mut is_first = true;
        std::future::poll_fn(|context: &mut Context<'_>| {
            core.keep_driver(context);
            // Whatever wakes the driver, it looks at everything again.
            if std::mem::replace(&mut is_first, false) && !core.has_due() {
                return Pin::new(&mut timer).poll(context);
            }
            Poll::Ready(())
        })
        .await;
    }
}

/// Drops what is left of dead programs, here where no runtime of tokio runs.
fn bury(core: &Core) {
    let buried = std::mem::take(&mut core.lock().buried);
    drop(buried);
}

/// Drops all tasks while madsim still runs, which they may ask things of.
async fn tear_down(core: &Arc<Core>) {
    for node in core.nodes() {
        core.world.crash(node);
    }
    {
        let state = &mut *core.lock();
        let libraries = state.machines.iter_mut().filter_map(|machine| machine.library.take());
        state.buried.extend(libraries);
    }
    for _ in 0..LAST_TURNS {
        if core.world.living_tasks() == 0 {
            break;
        }
        madsim::task::yield_now().await;
    }
    let madsim = Handle::current();
    let ids: Vec<_> = core.lock().machines.iter().map(|machine| machine.handle.id()).collect();
    ids.into_iter().for_each(|id| madsim.kill(id));
    for _ in 0..LAST_TURNS {
        if madsim.metrics().num_tasks() == 0 {
            break;
        }
        madsim::task::yield_now().await;
    }
    bury(core);
    // What is still to come may hold the engine itself.
    drop(core.dismantle());
    core.world.let_go();
}

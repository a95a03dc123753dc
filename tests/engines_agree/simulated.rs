//! The arms that are engines: the script is played by their controls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm_sim::engine::world::{NodeId, World};
use lockstorm_sim::engine::{Control, Engine, Factory, Links, Stage};
use lockstorm_sim::history::Recorder;
use tokio::sync::Notify;

use crate::actor::{Actor, PORT, Surroundings};
use crate::behaviour::{Behaviour, Fault, ROLES, Role, Score, Step};

/// When a script that waits in vain is given up, simulated µs.
const LIMIT_US: u64 = 60_000_000;

struct Scene {
    control: Mutex<Option<Arc<dyn Control>>>,
    script: Vec<Step>,
    progress: Mutex<Progress>,
    cued: Notify,
}

#[derive(Default)]
struct Progress {
    score: Score,
    next: usize,
    is_passing: bool,
    cues: BTreeSet<&'static str>,
    is_server_ready: bool,
    cut: Vec<(Role, Role)>,
}

/// Runs the behaviour on an engine, on a fresh thread; what the programs said.
pub fn run(behaviour: &Behaviour, engine: &dyn Engine) -> Vec<String> {
    std::thread::scope(|scope| scope.spawn(|| run_here(behaviour, engine)).join().unwrap())
}

fn run_here(behaviour: &Behaviour, engine: &dyn Engine) -> Vec<String> {
    let world = World::new(1, ROLES.map(|role| role.name().into()));
    let scene = Arc::new(Scene {
        control: Mutex::new(None),
        script: behaviour.script.clone(),
        progress: Mutex::default(),
        cued: Notify::new(),
    });
    let factories = ROLES.into_iter().map(|role| factory(&scene, role, behaviour));
    let (opened, clock) = (scene.clone(), world.clone());
    let ending = engine.run(Stage {
        world,
        factories: factories.collect(),
        links: Links { median_us: 1_000, sigma_milli: 0 },
        kernel: behaviour.kernel,
        ends_at_us: LIMIT_US,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(move |control| {
            *opened.control.lock().unwrap() = Some(control);
            go_on(&opened);
        }),
    });
    let progress = scene.progress.lock().unwrap();
    let mut outcome = progress.score.outcome(scene.script.get(progress.next));
    outcome.extend(ending.stuck.map(|why| format!("engine: {why}")));
    outcome
}

fn factory(scene: &Arc<Scene>, role: Role, behaviour: &Behaviour) -> Factory {
    let (scene, program) = (scene.clone(), behaviour.programs[role.index()].clone());
    let lives = AtomicU32::new(0);
    Arc::new(move |host: Host| {
        let life = lives.fetch_add(1, Ordering::Relaxed) + 1;
        let surroundings = Arc::new(Here { scene: scene.clone(), role });
        let (scene, program) = (scene.clone(), program.clone());
        Box::pin(async move {
            if role == Role::Client {
                wait_for(scene, |progress| progress.is_server_ready).await;
            }
            program(Actor::new(host, life, surroundings)).await;
        })
    })
}

struct Here {
    scene: Arc<Scene>,
    role: Role,
}

impl Surroundings for Here {
    fn say(&self, line: String) {
        self.scene.progress.lock().unwrap().score.say(self.role, line);
        let (scene, control) = (self.scene.clone(), self.scene.control());
        control.after(0, Box::new(move || go_on(&scene)));
    }

    fn ready(&self) {
        if self.role == Role::Server {
            self.scene.progress.lock().unwrap().is_server_ready = true;
            self.scene.cued.notify_waiters();
        }
    }

    fn cue(&self, name: &'static str) -> BoxFuture<'static, ()> {
        Box::pin(wait_for(self.scene.clone(), move |progress| progress.cues.contains(name)))
    }

    fn server(&self) -> String {
        format!("server:{PORT}")
    }
}

async fn wait_for(scene: Arc<Scene>, condition: impl Fn(&Progress) -> bool) {
    loop {
        let cued = scene.cued.notified();
        if condition(&scene.progress.lock().unwrap()) {
            return;
        }
        cued.await;
    }
}

impl Scene {
    fn control(&self) -> Arc<dyn Control> {
        self.control.lock().unwrap().clone().expect("the stage is open")
    }
}

/// Plays the script as far as it goes now.
fn go_on(scene: &Arc<Scene>) {
    let control = scene.control();
    loop {
        let step = {
            let progress = &mut *scene.progress.lock().unwrap();
            if progress.is_passing {
                return;
            }
            let Some(step) = scene.script.get(progress.next).copied() else {
                return control.finish();
            };
            if let Step::Hear(role, line) = step
                && !progress.score.hear(role, line)
            {
                return;
            }
            progress.next += 1;
            if let Step::Cue(name) = step {
                progress.cues.insert(name);
            }
            progress.is_passing = matches!(step, Step::Pass(_));
            step
        };
        match step {
            Step::Hear(..) => {}
            Step::Cue(_) => scene.cued.notify_waiters(),
            Step::Strike(fault) => strike(scene, &*control, fault),
            Step::Pass(ms) => {
                let later = scene.clone();
                let passed = move || {
                    later.progress.lock().unwrap().is_passing = false;
                    go_on(&later);
                };
                control.after(ms * 1_000, Box::new(passed));
            }
        }
    }
}

fn strike(scene: &Scene, control: &dyn Control, fault: Fault) {
    let node = |role: Role| NodeId(role.index() as u16);
    let cut = |from: Role| {
        scene.progress.lock().unwrap().cut.push((from, from.other()));
        control.cut(node(from), node(from.other()));
    };
    match fault {
        Fault::CrashProcess(role) => control.crash_process(node(role)),
        Fault::CrashMachine(role) => control.crash_machine(node(role)),
        Fault::Start(role) => control.start(node(role)),
        Fault::Pause(role) => control.pause(node(role), None),
        Fault::Resume(role) => control.resume(node(role), None),
        Fault::Cut => ROLES.into_iter().for_each(cut),
        Fault::CutFrom(role) => cut(role),
        Fault::Heal => {
            let cuts = std::mem::take(&mut scene.progress.lock().unwrap().cut);
            for (from, to) in cuts {
                control.heal(node(from), node(to));
            }
        }
        Fault::Reset => control.reset(node(Role::Server), node(Role::Client)),
    }
}

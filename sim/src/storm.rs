//! A storm: a plan set on a stage, run, judged.
//!
//! Order of things: [`run`] takes a plan and an engine and gives a [`Run`];
//! [`scene`] builds the nodes, [`client`] is what they do ([`cancelling`] drops it
//! half-way, [`beside`] has several buyers do it), [`locks`] what they do it with, [`observe`] writes down what servers see (`drawn` finds out whose it is, of a lock that is not ours), [`conductor`] strikes and ends,
//! [`anchors`] finds events by name, [`mod@reseed`] tries other futures of one past, [`frozen`] has one stand still to be looked at,
//! [`place`] tells outsiders where it is, [`opinion`] asks other engines, [`watchdog`] ends one that does not come back, [`mod@abreast`] makes several runs at once.
//! [`builder`] is the door for tests, [`mod@crew`] has programs of its own on the application nodes, [`served`] has programs outside in the place of the clients.

pub mod abreast;
pub mod anchors;
pub mod beside;
pub mod builder;
pub mod cancelling;
pub mod checkout;
pub mod client;
pub mod conductor;
pub mod confirm;
pub mod connections;
pub mod crew;
mod drawn;
pub mod environment;
pub mod frozen;
pub mod locks;
pub mod observe;
pub mod opinion;
pub mod place;
pub mod pooled;
pub mod postgres;
pub mod repeat;
pub mod reseed;
pub mod scene;
mod sentinels;
pub mod served;
pub mod shop;
pub mod watchdog;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use builder::Storm;
pub use reseed::{Reseed, run_reseeded};

use crate::check::{self, Judgement, Setting};
use crate::engine::event::{
    CoarseEventEngine, EventEngine, PlainEventEngine, PromptEventEngine, ShuffledEventEngine,
    UnseededEventEngine,
};
use crate::engine::shims::Refusal;
use crate::engine::turmoil::Turmoil;
use crate::engine::{Ending, Engine};
use crate::history::History;
use crate::history::file::{Header, Origin};
use crate::history::recorder::TraceHash;
use crate::plan::{Plan, file};
use connections::Connections;
use locks::LockFactory;

/// A plan that was run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What ran.
    pub plan: Plan,
    /// On which engine, with its version.
    pub engine: &'static str,
    /// The engine's name, as [`engine`] knows it.
    pub engine_name: &'static str,
    /// What happened.
    pub history: History,
    /// Its fingerprint.
    pub trace_hash: TraceHash,
    /// What the judge had to know beside it.
    pub setting: Setting,
    /// What is to be thought of it.
    pub judgement: Judgement,
    /// What it cost; and in [`Ending::stuck`] why it did not run, or broke.
    pub ending: Ending,
    /// How the connections were used, where buyers share pools of them.
    pub connections: Option<Connections>,
}

impl Run {
    /// The header of a file that keeps this run's history: with it the history is
    /// judged as the run was.
    pub fn header(&self) -> Header {
        Header {
            lockstorm: Some(env!("CARGO_PKG_VERSION").to_owned()),
            setting: self.setting.to_header(),
            run: Some(Origin {
                scenario: self.plan.scenario.clone(),
                lock: self.plan.lock.name.clone(),
                seed: self.plan.seed.to_string(),
                engine: self.engine.to_owned(),
                trace: self.trace_hash.to_string(),
                stuck: self.ending.told(),
                plan: file::write(&self.plan),
            }),
            ..Header::default()
        }
    }
}

/// The engine of this name, `None` if there is none.
pub fn engine(name: &str) -> Option<Arc<dyn Engine>> {
    match name {
        "event" => Some(Arc::new(EventEngine)),
        "turmoil" => Some(Arc::new(Turmoil::default())),
        "event-prompt" => Some(Arc::new(PromptEventEngine)),
        "event-coarse" => Some(Arc::new(CoarseEventEngine)),
        "event-plain" => Some(Arc::new(PlainEventEngine)),
        "event-unseeded" => Some(Arc::new(UnseededEventEngine)),
        "event-shuffled" => Some(Arc::new(ShuffledEventEngine)),
        _ => added().iter().find(|engine| engine.name() == name).cloned(),
    }
}

/// The names of the engines for users; the others are for asking one question each.
pub const ENGINES: [&str; 4] = ["event", "event-shuffled", "turmoil", "madsim"];

static ADDED: Mutex<Vec<Arc<dyn Engine>>> = Mutex::new(Vec::new());

/// Adds an engine that this crate does not know: [`engine`] finds it by its name, in this
/// process.
pub fn add_engine(engine: Arc<dyn Engine>) {
    added().push(engine);
}

fn added() -> MutexGuard<'static, Vec<Arc<dyn Engine>>> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `plan` with one of our own locks on `engine`, on a fresh thread, and judges it.
pub fn run(plan: &Plan, engine: &dyn Engine) -> Run {
    run_with(plan, engine, &(Arc::new(locks::build) as LockFactory))
}

/// Runs `plan` with a lock from `factory`.
pub fn run_with(plan: &Plan, engine: &dyn Engine, factory: &LockFactory) -> Run {
    staged(plan, engine, factory, Manner::default())
}

/// The same run once more, with what a page shows beside its events: messages, and how far
/// replication is. `None` where the engine tells of neither, or where the run did not come out
/// the same.
pub fn with_asides(run: &Run, factory: &LockFactory) -> Option<Run> {
    let engine = engine(run.engine_name).filter(|engine| engine.tells_messages())?;
    let manner = Manner { asides: true, ..Manner::default() };
    let told = staged(&run.plan, engine.as_ref(), factory, manner);
    (told.trace_hash == run.trace_hash).then_some(told)
}

/// How a plan is run.
#[derive(Clone, Debug, Default)]
struct Manner {
    /// Where the draws become others.
    reseed: Option<Reseed>,
    /// Whether what a page shows is kept beside the events.
    asides: bool,
    /// The doors of programs outside, which are there instead of clients.
    served: Option<Arc<served::Served>>,
    /// Where it stands still, or whether that is only to be known.
    freezing: Option<Arc<frozen::Freezing>>,
    /// Programs in the place of the clients.
    crew: Option<Arc<dyn crew::Crew>>,
}

/// Runs `plan` with a crew's programs in the place of the clients. What is to be thought of it is
/// for whoever sent the crew to say: the judgement tells only whether it was run.
pub fn run_crewed(plan: &Plan, engine: &dyn Engine, crew: Arc<dyn crew::Crew>) -> Run {
    if let Some(Refusal { clause, mend }) = crew_refusal(plan, engine) {
        let mut run = not_run(plan, engine, Judgement::not_expressible(), clause);
        run.ending.mend = Some(mend);
        return run;
    }
    let manner = Manner { crew: Some(crew), ..Manner::default() };
    staged(plan, engine, &(Arc::new(locks::build) as LockFactory), manner)
}

/// Why a crew's clients cannot be put through a storm by this program; `None` if they can.
fn crew_refusal(plan: &Plan, engine: &dyn Engine) -> Option<Refusal> {
    let are_answered = engine.answers_libraries();
    (plan.topology.zookeeper > 0).then(|| crate::engine::shims::refusal(are_answered))?
}

fn staged(plan: &Plan, engine: &dyn Engine, factory: &LockFactory, manner: Manner) -> Run {
    if let Some(clause) = engine.cannot_express(plan) {
        return not_run(plan, engine, Judgement::not_expressible(), clause);
    }
    let is_served = manner.served.is_some();
    if let Some(Refusal { clause, mend }) = locks::refusal(plan, engine).filter(|_| !is_served) {
        let mut run = not_run(plan, engine, Judgement::not_expressible(), clause);
        run.ending.mend = Some(mend);
        return run;
    }
    let outcome = std::thread::scope(|scope| {
        // A fresh thread: thread-local state (allocators, hashers, Lua's) starts anew.
        let builder = std::thread::Builder::new().name("storm".to_owned());
        match builder.spawn_scoped(scope, || scene::run(plan, engine, factory, manner)) {
            Ok(thread) => thread.join().map_err(|panic| told(&*panic)),
            Err(error) => Err(format!("no thread for the storm: {error}")),
        }
    });
    match outcome.and_then(|outcome| outcome) {
        Ok(outcome) => {
            let setting = outcome.setting;
            let judgement = match (&outcome.ending.stuck, outcome.ending.not_expressible) {
                (Some(_), true) => Judgement::not_expressible(),
                (Some(_), false) => Judgement::internal(),
                (None, _) => check::judge(&outcome.history, &setting),
            };
            Run {
                plan: plan.clone(),
                engine: engine.title(),
                engine_name: engine.name(),
                history: outcome.history,
                trace_hash: outcome.trace_hash,
                setting,
                judgement,
                ending: outcome.ending,
                connections: outcome.connections,
            }
        }
        Err(why) => not_run(plan, engine, Judgement::internal(), why),
    }
}

/// A run that killed its process: nothing is known but `why`.
pub fn lost(plan: &Plan, engine: &dyn Engine, why: String) -> Run {
    not_run(plan, engine, Judgement::internal(), why)
}

fn not_run(plan: &Plan, engine: &dyn Engine, judgement: Judgement, why: String) -> Run {
    Run {
        plan: plan.clone(),
        engine: engine.title(),
        engine_name: engine.name(),
        history: History::default(),
        trace_hash: TraceHash([0; 32]),
        setting: Setting::default(),
        judgement,
        ending: Ending { stuck: Some(why), ..Ending::default() },
        connections: None,
    }
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

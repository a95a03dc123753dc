//! What a worker process does: requests in, one JSON line each; answers out, one
//! JSON line each; until its input ends. A run that takes longer than the request
//! allows ends the process, after an answer that says where the run is.

use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Quarry, Summary, Task};
use crate::plan::{Plan, file};
use crate::shrink::{Limits, shrink_with};
use crate::storm::confirm::{self, Confirmation};
use crate::storm::locks::{self, LockFactory};
use crate::storm::opinion::{self, Claim, Opinion};
use crate::storm::place::place;
use crate::storm::repeat::Report;
use crate::storm::watchdog::Watchdog;
use crate::storm::{engine, run};

/// What is asked of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Run these plans; one [`Answer::Ran`] each, in their order.
    Run {
        /// Of which storm.
        quarry: Quarry,
        /// Which plans.
        tasks: Vec<Task>,
        /// How long each may take, real time.
        limit: Duration,
    },
    /// Run this plan once; one [`Answer::Examined`].
    Examine {
        /// As TOML.
        plan: String,
        /// On this engine.
        engine: String,
        /// Whether to ask turmoil about what is found.
        confirm: bool,
        /// Whether to send every event, to find where two traces part.
        events: bool,
        /// How long it may take, real time.
        limit: Duration,
    },
    /// Say whether this plan shows that: one [`Answer::Thought`].
    Opinion {
        /// As TOML.
        plan: String,
        /// On this engine.
        engine: String,
        /// What it is to show.
        claim: Claim,
        /// With these draws of it, from and before.
        draws: (u32, u32),
        /// How long it may take, real time.
        limit: Duration,
    },
    /// Shrink this plan: an [`Answer::Smaller`] for each improvement, then one
    /// [`Answer::Shrunk`].
    Shrink {
        /// As TOML.
        plan: String,
        /// How many runs at most.
        replays: u32,
        /// How long it may take, real time.
        limit: Duration,
    },
}

/// What a worker answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// A plan was run.
    Ran(Summary),
    /// A plan was run and asked about.
    Examined {
        /// Its trace.
        report: Report,
        /// What turmoil says.
        confirmation: Option<Confirmation>,
    },
    /// An engine was asked about a plan.
    Thought(Opinion),
    /// A smaller plan fails in the same way.
    Smaller {
        /// As TOML.
        plan: String,
        /// How many plans were run so far.
        replays: u32,
    },
    /// A plan was shrunk.
    Shrunk {
        /// The smallest, as TOML.
        plan: String,
        /// How many plans were run.
        replays: u32,
        /// Whether each of its faults is proved necessary.
        minimal: bool,
    },
    /// A run took too long: the worker ends after this.
    Stuck {
        /// Where it is.
        why: String,
    },
    /// The request cannot be met.
    Refused {
        /// Why.
        why: String,
    },
}

/// Serves requests from `input` until it ends. Ends the process when a run takes longer
/// than its request allows.
///
/// # Errors
/// When input or output fail; the process is then of no more use.
pub fn serve(input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let output = Arc::new(Mutex::new(output));
    let last_words = output.clone();
    let watchdog = Watchdog::start(move |limit| {
        let place = place().unwrap_or_else(|| "nothing has run yet".to_owned());
        let why = format!("no end in {} s of real time; {place}", limit.as_secs_f64());
        // If even this fails the parent finds out by its own limit.
        let _ = write(&last_words, &Answer::Stuck { why });
    });
    for line in input.lines() {
        match serde_json::from_str(&line?) {
            Ok(request) => answer(request, &watchdog, &mut |answer| write(&output, answer))?,
            Err(error) => write(&output, &Answer::Refused { why: error.to_string() })?,
        }
    }
    Ok(())
}

/// One line.
fn write(output: &Mutex<impl Write>, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let output = &mut *output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line)?;
    output.flush()
}

fn answer(
    request: Request,
    watchdog: &Watchdog,
    say: &mut dyn FnMut(&Answer) -> io::Result<()>,
) -> io::Result<()> {
    let watched = |limit, work: &mut dyn FnMut() -> Result<Answer, String>| {
        watchdog.begin(limit);
        let answer = work().unwrap_or_else(|why| Answer::Refused { why });
        watchdog.end();
        answer
    };
    match request {
        Request::Run { quarry, tasks, limit } => {
            for task in &tasks {
                say(&watched(limit, &mut || run_task(&quarry, task).map(Answer::Ran)))?;
            }
            Ok(())
        }
        Request::Examine { plan, engine, confirm, events, limit } => {
            say(&watched(limit, &mut || examine(&plan, &engine, confirm, events)))
        }
        Request::Opinion { plan, engine, claim, draws, limit } => {
            say(&watched(limit, &mut || opinion_of(&plan, &engine, &claim, draws)))
        }
        Request::Shrink { plan, replays, limit } => {
            let answer = watched(limit, &mut || shrunk(&plan, replays, say));
            say(&answer)
        }
    }
}

fn run_task(quarry: &Quarry, task: &Task) -> Result<Summary, String> {
    let plan = quarry.plan_of(task).map_err(|error| error.to_string())?;
    let engine = engine(&quarry.engine).ok_or("no such engine")?;
    Ok(Summary::of(&run(&plan, engine.as_ref())))
}

fn examine(plan: &str, engine_name: &str, confirm: bool, events: bool) -> Result<Answer, String> {
    let plan: Plan = file::parse("the plan", plan).map_err(|error| error.to_string())?;
    let engine = engine(engine_name).ok_or("no such engine")?;
    let run = run(&plan, engine.as_ref());
    let factory: LockFactory = Arc::new(locks::build);
    let confirmation = confirm.then(|| confirm::confirm(&run, &factory));
    let mut report = Report::of(&run);
    if !events {
        report.events.clear();
    }
    Ok(Answer::Examined { report, confirmation })
}

fn opinion_of(
    plan: &str,
    engine_name: &str,
    claim: &Claim,
    (from, before): (u32, u32),
) -> Result<Answer, String> {
    let plan: Plan = file::parse("the plan", plan).map_err(|error| error.to_string())?;
    let engine = engine(engine_name).ok_or("no such engine")?;
    let factory: LockFactory = Arc::new(locks::build);
    Ok(Answer::Thought(opinion::ask(&plan, engine.as_ref(), claim, from..before, &factory)))
}

fn shrunk(
    plan: &str,
    replays: u32,
    say: &mut dyn FnMut(&Answer) -> io::Result<()>,
) -> Result<Answer, String> {
    let plan: Plan = file::parse("the plan", plan).map_err(|error| error.to_string())?;
    let factory: LockFactory = Arc::new(locks::build);
    let shrunk = shrink_with(&plan, &Limits { replays }, &factory, &mut |progress| {
        let (plan, replays) = (file::write(progress.plan), progress.replays);
        // Whoever does not listen any more has no use for what is left.
        match say(&Answer::Smaller { plan, replays }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    Ok(match shrunk {
        Ok(shrunk) => Answer::Shrunk {
            plan: file::write(shrunk.plan()),
            replays: shrunk.replays,
            minimal: shrunk.is_minimal(),
        },
        Err(error) => return Err(error.to_string()),
    })
}

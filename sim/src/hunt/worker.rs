//! What a worker process does: requests in, one JSON line each; answers out, one
//! JSON line each; until its input ends.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Quarry, Summary};
use crate::plan::{Plan, Seed, file};
use crate::storm::confirm::{self, Confirmation};
use crate::storm::locks::{self, LockFactory};
use crate::storm::repeat::Report;
use crate::storm::{engine, run};

/// What is asked of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Run these seeds; one [`Answer::Seed`] each.
    Seeds {
        /// Of which storm.
        quarry: Quarry,
        /// From this one.
        first: Seed,
        /// So many.
        count: u64,
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
    },
}

/// What a worker answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// A seed was run.
    Seed(Summary),
    /// A plan was run.
    Examined {
        /// Its trace.
        report: Report,
        /// What turmoil says.
        confirmation: Option<Confirmation>,
    },
    /// The request cannot be met.
    Refused {
        /// Why.
        why: String,
    },
}

/// Serves requests from `input` until it ends.
///
/// # Errors
/// When input or output fail; the process is then of no more use.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        match serde_json::from_str(&line?) {
            Ok(request) => answer(request, &mut |answer| {
                serde_json::to_writer(&mut output, answer)?;
                output.write_all(b"\n")?;
                output.flush()
            })?,
            Err(error) => {
                let answer = Answer::Refused { why: error.to_string() };
                serde_json::to_writer(&mut output, &answer)?;
                output.write_all(b"\n")?;
                output.flush()?;
            }
        }
    }
    Ok(())
}

fn answer(request: Request, say: &mut dyn FnMut(&Answer) -> io::Result<()>) -> io::Result<()> {
    match request {
        Request::Seeds { quarry, first, count } => {
            for index in 0..count {
                let seed = Seed(first.0.wrapping_add(index));
                let answer = match run_seed(&quarry, seed) {
                    Ok(summary) => Answer::Seed(summary),
                    Err(why) => Answer::Refused { why },
                };
                say(&answer)?;
            }
            Ok(())
        }
        Request::Examine { plan, engine, confirm, events } => {
            say(&examine(&plan, &engine, confirm, events)
                .unwrap_or_else(|why| Answer::Refused { why }))
        }
    }
}

fn run_seed(quarry: &Quarry, seed: Seed) -> Result<Summary, String> {
    let plan = quarry.plan(seed).map_err(|error| error.to_string())?;
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

//! `lockstorm` alone: how replication lag loses a lock and sells a unit twice, and what
//! a full fence makes of the same storm. Everything shown is run, on both engines.

use crate::check::Verdict;
use crate::plan::{Fence, Plan, file};
use crate::report::{Shown, demonstration};
use crate::storm::{self, Run};

use super::exit::{self, Failure};
use super::run::confirmed;
use super::say::{manner, say};

const PLAN: &str = include_str!("demonstration.toml");

/// What to do after it, with a few words each.
const NEXT: [(&str, &str); 3] = [
    ("cargo run -- hunt --lock redis --scenario redis-failover", "find such storms by seed"),
    ("cargo run -- hunt --fence full", "look for one that gets past the fence"),
    ("cargo test", "the same storms as tests"),
];

/// Runs both storms and tells them. Safe (0) when they show what they are to show.
pub fn demonstrate() -> Result<u8, Failure> {
    let plan = file::parse("the demonstration's plan", PLAN)?;
    let fenced = Plan { fence: Fence::Full, ..plan.clone() };
    let (bare, fenced) = (run(&plan)?, run(&fenced)?);
    let (bare_said, fenced_said) = (confirmed(&bare), confirmed(&fenced));
    let text = demonstration(
        &Shown { run: &bare, confirmation: Some(&bare_said) },
        &Shown { run: &fenced, confirmation: Some(&fenced_said) },
        &NEXT,
        &manner(),
    );
    say(text);
    let shows = bare.judgement.verdict == Verdict::Violation
        && fenced.judgement.verdict == Verdict::SafeByFence
        && bare_said.is_settled()
        && fenced_said.is_settled();
    match shows {
        true => Ok(exit::SAFE),
        false => Err(Failure::internal("the demonstration does not show what it should")),
    }
}

fn run(plan: &Plan) -> Result<Run, Failure> {
    let engine =
        storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))?;
    Ok(storm::run(plan, engine.as_ref()))
}

//! Do the engines' networks look to a program like Linux's?
//!
//! Each behaviour is one scenario, written once against `lockstorm::Host`: a server, a
//! client, and a script of faults. It runs on four arms: the event engine, turmoil,
//! madsim, and real TCP of this machine's kernel, in network namespaces. What the programs saw
//! is compared exactly, times only in coarse classes. What an engine does otherwise
//! stands in one table ([`deviations`]): one that deviates in another way, or no longer
//! deviates, fails. docs/engines.md has the table for people, written from here
//! (`LOCKSTORM_UPDATE_DOCS=1` writes it anew).
//!
//! The real arm needs root, `ip` and `nft`; where they are missing it says SKIPPED.

#[path = "engines_agree/actor.rs"]
mod actor;
#[path = "engines_agree/behaviour.rs"]
mod behaviour;
#[path = "engines_agree/behaviours/mod.rs"]
mod behaviours;
#[path = "engines_agree/deviations.rs"]
mod deviations;
#[path = "engines_agree/docs.rs"]
mod docs;
#[path = "engines_agree/namespaces.rs"]
mod namespaces;
#[path = "engines_agree/process.rs"]
mod process;
#[path = "engines_agree/real.rs"]
mod real;
#[path = "engines_agree/simulated.rs"]
mod simulated;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;

use behaviour::Behaviour;

/// The engines, in the order of the table's columns.
const ENGINES: [&str; 3] = ["event", "turmoil", "madsim"];

/// The real arm waits more than it works.
const THREADS: usize = 8;

fn main() -> ExitCode {
    if let Some(role) = process::role_of_this_process() {
        return process::play(role);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let skipped = namespaces::missing();
    if let Some(why) = &skipped {
        eprintln!("SKIPPED: the arm of real TCP: {why}");
    }
    let mut trials = Vec::new();
    for behaviour in behaviours::all() {
        let behaviour = Arc::new(behaviour);
        let (on_event, on_turmoil) = (behaviour.clone(), behaviour.clone());
        trials.push(trial("event", &behaviour, move || {
            let outcome = simulated::run(&on_event, &EventEngine);
            // The same run again: nothing of it hangs on chance.
            match outcome == simulated::run(&on_event, &EventEngine) {
                true => judge(&on_event, "event", &outcome),
                false => Err("the second run was another one".into()),
            }
        }));
        trials.push(trial("turmoil", &behaviour, move || {
            judge(&on_turmoil, "turmoil", &simulated::run(&on_turmoil, &Turmoil::default()))
        }));
        let on_madsim = behaviour.clone();
        trials.push(trial("madsim", &behaviour, move || {
            let engine = lockstorm_madsim::engine()?;
            let outcome = simulated::run(&on_madsim, engine.as_ref());
            match outcome == simulated::run(&on_madsim, engine.as_ref()) {
                true => judge(&on_madsim, "madsim", &outcome),
                false => Err("the second run was another one".into()),
            }
        }));
        let on_linux = behaviour.clone();
        let real =
            trial("linux", &behaviour, move || judge(&on_linux, "linux", &real::run(&on_linux)?));
        trials.push(real.with_ignored_flag(skipped.is_some()));
    }
    trials.push(Trial::test("every_deviation_is_of_a_behaviour", || {
        deviations::check().map_err(Failed::from)
    }));
    trials.push(Trial::test("the_table_in_docs_engines_md_is_this_one", || {
        docs::check().map_err(Failed::from)
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(
    arm: &str,
    behaviour: &Behaviour,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    Trial::test(format!("{arm}::{}", behaviour.name), run)
}

/// Compares what the programs saw with what they see on Linux, or with the deviation.
fn judge(behaviour: &Behaviour, arm: &str, outcome: &[String]) -> Result<(), Failed> {
    let deviation = deviations::of(arm, behaviour.name);
    let expected = deviation.map_or(&behaviour.expected[..], |deviation| deviation.outcome);
    if outcome == expected {
        return Ok(());
    }
    let title = match deviation {
        Some(_) if outcome == behaviour.expected => "it no longer deviates",
        Some(_) => "it deviates in another way than the table says",
        None => "it is not what Linux does",
    };
    let list =
        |lines: &[String]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
    let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
    Err(format!("{title}\n  expected:{}\n  seen:{}", list(&expected), list(outcome)).into())
}

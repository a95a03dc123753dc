//! The command line: what the verbs and flags are, and who does them.
//!
//! Order of things: [`arguments`] is the grammar; [`demonstrate`], [`run`], [`hunt`],
//! [`merge`], [`shrink`], [`explain`], [`report`], [`bench`], [`frozen`] (a replay that stands still), [`check`], [`mod@claims`], [`kept`], [`lesson`],
//! [`manual`], [`mod@matrix`], [`mod@sale`], [`serve`], [`serve_plan`] do the verbs, [`wrong`] tells what the grammar refuses, [`sort`] which file is for another verb;
//! [`all_engines`] asks all engines, [`with_madsim`] is the program that has the one that is not here; [`plan_source`] finds their plans, [`plan_folder`] is where hunts write; [`say`] prints,
//! [`progress`] says how far it is; [`exit`]
//! has the codes.

mod all_engines;
mod arguments;
mod bench;
mod check;
mod claims;
mod demonstrate;
pub mod exit;
mod explain;
mod frozen;
mod hunt;
mod kept;
mod lesson;
mod manual;
mod matrix;
mod merge;
mod plan_folder;
mod plan_source;
mod progress;
mod report;
mod run;
mod sale;
mod say;
mod serve;
mod serve_plan;
mod shrink;
mod sort;
mod with_madsim;
mod wrong;

use std::io::{self, BufReader};
use std::process::ExitCode;

use clap::Parser;
use lockstorm_sim::storm::environment::Environment;

use arguments::{Arguments, Verb};
use exit::Failure;

/// Parses, does, and says how it went.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; clap's own 2 is our 64.
            let code = if error.use_stderr() { exit::USAGE } else { exit::SAFE };
            match wrong::one_line(&error) {
                Some(line) => say::complain(line),
                None => drop(error.print()),
            }
            return ExitCode::from(code);
        }
    };
    if arguments.quiet {
        progress::hush();
    }
    let is_ours = matches!(arguments.verb, Some(Verb::Worker | Verb::BenchWorker));
    let environment = if is_ours { Ok(Environment::default()) } else { Environment::of_process() };
    let environment = match environment {
        Ok(environment) => environment,
        Err(why) => return Failure::usage(why).tell(),
    };
    if arguments.needs_madsim(&environment) && !with_madsim::is_this() {
        return with_madsim::hand_over().map_or_else(Failure::tell, ExitCode::from);
    }
    let result = match arguments.verb {
        None => demonstrate::demonstrate(),
        Some(Verb::Run(arguments)) => run::run(&arguments, &environment),
        Some(Verb::Replay(arguments)) => run::replay(&arguments, &environment),
        Some(Verb::Hunt(arguments)) => hunt::hunt(&arguments, &environment),
        Some(Verb::Shrink(arguments)) => shrink::shrink(&arguments),
        Some(Verb::Explain(arguments)) => explain::explain(&arguments),
        Some(Verb::Report(arguments)) => report::report(&arguments),
        Some(Verb::Merge(arguments)) => merge::merge(&arguments),
        Some(Verb::Check(arguments)) => check::check(&arguments),
        Some(Verb::Matrix(arguments)) => matrix::matrix(&arguments),
        Some(Verb::Claims(arguments)) => claims::claims(&arguments),
        Some(Verb::Sale(arguments)) => sale::sale(&arguments),
        Some(Verb::Seeds(verb)) => kept::kept(&verb),
        Some(Verb::Serve(arguments)) => match &arguments.verb {
            Some(verb) => serve::serve(verb),
            None => serve_plan::serve(&arguments.plan),
        },
        Some(Verb::Bench(verb)) => bench::bench(&verb),
        Some(Verb::Lesson(verb)) => lesson::lesson(&verb),
        Some(Verb::Completions(arguments)) => manual::completions(&arguments),
        Some(Verb::Man(arguments)) => manual::manual(&arguments),
        Some(Verb::Worker) => work(),
        Some(Verb::BenchWorker) => bench::work(),
    };
    match result {
        Ok(_) if say::is_unsaid() => ExitCode::from(exit::INTERNAL),
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(),
    }
}

fn work() -> Result<u8, Failure> {
    let input = BufReader::new(io::stdin());
    lockstorm_sim::hunt::worker::serve(input, io::stdout()).map_err(Failure::internal)?;
    Ok(exit::SAFE)
}

//! `lockstorm bench bugs`: how soon each strategy finds each planted bug.

use std::io::{self, BufReader};

use lockstorm_sim::bench::{Report, Trial, pack};
use lockstorm_sim::hunt::course::Strategy;
use lockstorm_sim::planted::{BUGS, Bug};

use super::arguments::{BenchVerb, BugsArguments, Format, StrategyArgument};
use super::exit::{self, Failure};
use super::hunt::walk::progress;
use super::say::say;

/// `lockstorm bench …`.
pub fn bench(verb: &BenchVerb) -> Result<u8, Failure> {
    match verb {
        BenchVerb::Bugs(arguments) => bugs(arguments),
    }
}

/// 0 iff the portfolio, or whatever strategies were asked for without it, found every bug in
/// every hunt.
fn bugs(arguments: &BugsArguments) -> Result<u8, Failure> {
    let trials = trials(arguments)?;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let bar = progress("hunts", Some(trials.len() as u64));
    let tried = pack::run(&trials, usize::from(arguments.jobs), &program, |_| bar.inc(1));
    bar.finish_and_clear();
    let report = Report::new(arguments.budget, &tried.map_err(Failure::internal)?);
    say(match arguments.format {
        Format::Text => report.text(),
        Format::Json => report.json(),
    });
    let asked = strategies(arguments);
    let of_interest: Vec<Strategy> = match asked.contains(&Strategy::Portfolio) {
        true => vec![Strategy::Portfolio],
        false => asked,
    };
    let is_missed = |strategy: &Strategy| !report.missed_by(*strategy).is_empty();
    Ok(if of_interest.iter().any(is_missed) { exit::VIOLATION } else { exit::SAFE })
}

fn strategies(arguments: &BugsArguments) -> Vec<Strategy> {
    use StrategyArgument::{Certify, Pairs, Portfolio, Swarm};
    let asked = match &arguments.strategy[..] {
        [] => &[Certify, Pairs, Swarm, Portfolio],
        asked => asked,
    };
    asked.iter().map(|strategy| strategy.strategy()).collect()
}

/// Those with the same number lie together, so that a bench that is interrupted would have
/// some of everything.
fn trials(arguments: &BugsArguments) -> Result<Vec<Trial>, Failure> {
    let mut bugs: Vec<&Bug> = Vec::new();
    for name in &arguments.bug {
        let name = name.strip_prefix("planted/").unwrap_or(name);
        let bug = BUGS.iter().find(|bug| bug.name == name);
        let known = || BUGS.iter().map(|bug| bug.name).collect::<Vec<_>>().join(", ");
        bugs.push(bug.ok_or_else(|| {
            Failure::usage(format!(
                "--bug {name}: no planted bug is called so; there are: {}",
                known()
            ))
        })?);
    }
    if bugs.is_empty() {
        bugs.extend(BUGS);
    }
    let mut trials = Vec::new();
    for number in 0..arguments.repeat {
        for bug in &bugs {
            for strategy in strategies(arguments) {
                let (bug, budget) = (bug.name.to_owned(), arguments.budget);
                trials.push(Trial { bug, strategy, number, budget });
            }
        }
    }
    Ok(trials)
}

/// Serves a bench.
pub fn work() -> Result<u8, Failure> {
    pack::serve(BufReader::new(io::stdin()), io::stdout()).map_err(Failure::internal)?;
    Ok(exit::SAFE)
}

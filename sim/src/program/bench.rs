//! `lockstorm bench bugs`: how soon each strategy finds each planted bug.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::Path;

use crate::bench::{Report, Trial, Tried, pack};
use crate::hunt::course::Strategy;
use crate::planted::{BUGS, Bug};

use super::arguments::{BenchVerb, BugsArguments, Format, StrategyArgument};
use super::exit::{self, Failure};
use super::progress::Progress;
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
    let mut tried = known(arguments, &trials)?;
    let left: Vec<Trial> = trials.into_iter().filter(|trial| !has(&tried, trial)).collect();
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let bar = Progress::new("hunts", Some(left.len() as u64));
    let mut unwritten = None;
    let made = pack::run(&left, usize::from(arguments.jobs), &program, |tried| {
        bar.inc();
        unwritten = unwritten.take().or(write_down(arguments, tried).err());
    });
    drop(bar);
    tried.extend(made.map_err(Failure::internal)?);
    if let Some(error) = unwritten {
        return Err(error);
    }
    let report = Report::new(arguments.budget, &tried);
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

fn has(tried: &[Tried], trial: &Trial) -> bool {
    tried.iter().any(|tried| tried.trial == *trial)
}

fn journal_error(path: &Path, why: &dyn Display) -> Failure {
    Failure::usage(format!("--journal {}: {why}", path.display()))
}

/// What the journal has of `trials`. A last line without its end was cut short, and its
/// hunt is made again.
fn known(arguments: &BugsArguments, trials: &[Trial]) -> Result<Vec<Tried>, Failure> {
    let Some(path) = &arguments.journal else { return Ok(Vec::new()) };
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| journal_error(path, &error))?,
    };
    let (whole, cut) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
    if !cut.is_empty() {
        std::fs::write(path, whole).map_err(|error| journal_error(path, &error))?;
    }
    let mut tried: Vec<Tried> = Vec::new();
    for (position, line) in whole.lines().enumerate() {
        let read: Tried = serde_json::from_str(line).map_err(|error| {
            let mend = "mend the line or take another file";
            journal_error(path, &format!("line {}: {error}; {mend}", position + 1))
        })?;
        if trials.contains(&read.trial) && !has(&tried, &read.trial) {
            tried.push(read);
        }
    }
    Ok(tried)
}

/// At once: a bench that is interrupted has lost nothing that it had measured.
fn write_down(arguments: &BugsArguments, tried: &Tried) -> Result<(), Failure> {
    let Some(path) = &arguments.journal else { return Ok(()) };
    let mut line = serde_json::to_vec(tried).map_err(Failure::internal)?;
    line.push(b'\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(&line));
    written.map_err(|error| journal_error(path, &error))
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

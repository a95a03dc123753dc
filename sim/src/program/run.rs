//! `lockstorm run` and `lockstorm replay`: one plan, run, repeated, confirmed, told.

use std::path::Path;
use std::sync::Arc;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::history::file as history_file;
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::hunt::examine::{Examination, examine};
use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::report::{block, json};
use lockstorm_sim::seeds::{self, SeedFile};
use lockstorm_sim::storm::confirm::{self, Confirmation};
use lockstorm_sim::storm::repeat::Repetition;
use lockstorm_sim::storm::{self, Run, locks};

use super::arguments::{EngineArgument, Format, ReplayArguments, RunArguments, StormArguments};
use super::exit::Failure;
use super::say::{manner, say};

/// `lockstorm run`.
pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let (plan, reproduce) = match &arguments.plan {
        Some(path) => {
            let mut plan = file::load(path)?;
            for (key, value) in &arguments.storm.settings {
                plan = plan.with_set(key, value)?;
            }
            if arguments.storm.calm {
                plan = plan.without_faults();
            }
            (plan, command_of_file("run --plan", path, &arguments.storm))
        }
        None => {
            let plan = quarry(&arguments.storm).plan(arguments.seed)?;
            let command = command_of_seed(arguments.seed, &arguments.storm);
            (plan, command)
        }
    };
    if arguments.print_plan {
        say(file::write(&plan).trim_end());
        return Ok(super::exit::SAFE);
    }
    tell(&plan, arguments.storm.engine, arguments.format, &reproduce, arguments.out.as_deref())
}

/// `lockstorm replay`.
pub fn replay(arguments: &ReplayArguments) -> Result<u8, Failure> {
    let plan = load_any(&arguments.file)?;
    let engine = match arguments.engine {
        EngineArgument::Event => String::new(),
        other => format!(" --engine {}", other.name()),
    };
    let reproduce = format!("lockstorm replay {}{engine}", shown(&arguments.file));
    tell(&plan, arguments.engine, arguments.format, &reproduce, None)
}

/// Reads a plan file or the plan of a seed file.
fn load_any(path: &Path) -> Result<Plan, Failure> {
    Ok(if seeds::is_seed_file(path)? { SeedFile::load(path)?.plan } else { file::load(path)? })
}

/// Runs, examines, prints; the exit code is the verdict's.
fn tell(
    plan: &Plan,
    engine_argument: EngineArgument,
    format: Format,
    reproduce: &str,
    out: Option<&Path>,
) -> Result<u8, Failure> {
    let engine = storm::engine(engine_argument.name())
        .ok_or_else(|| Failure::internal("the engine is missing"))?;
    let run = storm::run(plan, engine.as_ref());
    if let Some(path) = out {
        history_file::save(path, &run.header(), &run.history)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    }
    let examination = examined(&run, engine_argument)?;
    let (repetition, confirmation) = match &examination {
        Some(examination) => (Some(&examination.repetition), examination.confirmation.as_ref()),
        None => (None, None),
    };
    let failure = block::Failure { run: &run, position: None, repetition, confirmation, reproduce };
    match format {
        Format::Text => say(block::failure_block_in(&failure, &manner())),
        Format::Json => say(json::run_json(&failure)),
    }
    Ok(verdict_with(&run, repetition).exit_code())
}

/// A run that is not safe is repeated in a fresh process and asked about.
pub fn examined(run: &Run, engine: EngineArgument) -> Result<Option<Examination>, Failure> {
    if run.judgement.verdict.is_safe() || run.judgement.verdict == Verdict::NotExpressible {
        return Ok(None);
    }
    let confirm = engine == EngineArgument::Event && run.judgement.verdict == Verdict::Violation;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    examine(run, engine.name(), confirm, &program).map(Some).map_err(Failure::internal)
}

/// Nondeterminism overrides whatever the run seemed to say.
pub fn verdict_with(run: &Run, repetition: Option<&Repetition>) -> Verdict {
    match repetition {
        Some(Repetition::Differs { .. }) => Verdict::Nondeterminism,
        _ => run.judgement.verdict,
    }
}

/// What the flags hunt.
pub fn quarry(storm: &StormArguments) -> Quarry {
    Quarry {
        scenario: storm.scenario.clone(),
        lock: storm.lock.clone(),
        fence: storm.fence.fence(),
        engine: storm.engine.name().to_owned(),
        faults: !storm.calm,
        settings: storm.settings.clone(),
    }
}

/// The one line that runs this seed again.
pub fn command_of_seed(seed: lockstorm_sim::plan::Seed, storm: &StormArguments) -> String {
    let StormArguments { scenario, lock, fence, .. } = storm;
    format!(
        "lockstorm run --scenario {scenario} --lock {lock} --fence {} --seed {seed}{}",
        fence.name(),
        rest(storm)
    )
}

fn command_of_file(verb: &str, path: &Path, storm: &StormArguments) -> String {
    format!("lockstorm {verb} {}{}", shown(path), rest(storm))
}

fn rest(storm: &StormArguments) -> String {
    let mut rest = String::new();
    for (key, value) in &storm.settings {
        rest.push_str(&format!(" --set {}", quoted(&format!("{key}={value}"))));
    }
    if storm.calm {
        rest.push_str(" --calm");
    }
    if storm.engine != EngineArgument::Event {
        rest.push_str(&format!(" --engine {}", storm.engine.name()));
    }
    rest
}

fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Quotes for a POSIX shell, where needed.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// What turmoil says of `run`, asked in this process: for the demonstration.
pub fn confirmed(run: &Run) -> Confirmation {
    let factory: locks::LockFactory = Arc::new(locks::build);
    match run.judgement.verdict {
        Verdict::Violation => confirm::confirm(run, &factory),
        verdict => confirm::confirm_verdict(&run.plan, verdict, &factory),
    }
}

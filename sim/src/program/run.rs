//! `lockstorm run` and `lockstorm replay`: one plan, run, repeated, confirmed, told.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::history::file as history_file;
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::hunt::examine::{Examination, Examiner};
use lockstorm_sim::plan::{Plan, capsule, file};
use lockstorm_sim::report::html::{Source, pages};
use lockstorm_sim::report::{block, json};
use lockstorm_sim::storm::confirm::{self, Confirmation};
use lockstorm_sim::storm::environment::Environment;
use lockstorm_sim::storm::repeat::Repetition;
use lockstorm_sim::storm::{self, Run, locks};

use super::all_engines;
use super::arguments::{
    ChangeArguments, DrawsArgument, EngineArgument, EngineChoice, Format, OF_FLAGS,
    ReplayArguments, RunArguments, StormArguments,
};
use super::exit::Failure;
use super::frozen;
use super::plan_source::load_any;
use super::progress::Waiting;
use super::report::{Files, shown as shown_with_messages};
use super::say::{complain, manner, say};

/// `lockstorm run`.
pub fn run(arguments: &RunArguments, environment: &Environment) -> Result<u8, Failure> {
    let arguments = &arguments.within(environment)?;
    arguments.files.check(arguments.plan.as_deref(), arguments.out.as_deref())?;
    let (plan, reproduce) = match &arguments.plan {
        Some(path) => {
            let plan = arguments.storm.change.of_file(load_any(path)?)?;
            let command = command_of_file("run --plan", path, &arguments.storm.change);
            (plan, command + &rest(&arguments.storm))
        }
        None if !arguments.faults.is_empty() => {
            if arguments.storm.change.calm {
                let what = "--calm has no faults, and --fault is one; leave out one of the two";
                return Err(Failure::usage(what));
            }
            let plan = quarry(&arguments.storm)?.calm_plan(arguments.seed())?;
            let plan = file::with_faults("--fault", &plan, &arguments.faults)?;
            let command = command_of_faults(&plan, &arguments.storm);
            (plan, command)
        }
        None => {
            let plan = quarry(&arguments.storm)?.plan(arguments.seed())?;
            let command = command_of_seed(arguments.seed(), &arguments.storm);
            (plan, command)
        }
    };
    // A variable must not send the line that is printed elsewhere.
    let reproduce = match environment.engine.is_some() && !reproduce.contains(" --engine ") {
        true => format!("{reproduce} --engine {}", arguments.storm.engine().name()),
        false => reproduce,
    };
    if arguments.print_plan {
        say(file::write(&plan).trim_end());
        return Ok(super::exit::SAFE);
    }
    if arguments.print_capsule {
        say(capsule::write(&plan));
        return Ok(super::exit::SAFE);
    }
    let telling = Telling {
        engine: arguments.storm.engine(),
        format: arguments.format,
        twice: arguments.twice,
        reproduce: &reproduce,
        out: arguments.out.as_deref(),
        files: &arguments.files,
    };
    tell(&plan, &telling)
}

/// `lockstorm replay`.
pub fn replay(arguments: &ReplayArguments, environment: &Environment) -> Result<u8, Failure> {
    let arguments = &arguments.within(environment)?;
    arguments.files.check(Some(&arguments.file), None)?;
    frozen::check(arguments)?;
    let plan = arguments.change.of_file(load_any(&arguments.file)?)?;
    let asked = match arguments.engine {
        None => EngineArgument::Event,
        Some(EngineChoice::One(engine)) => engine,
        Some(EngineChoice::All) => return on_all(&plan, arguments),
    };
    if let Some(until) = arguments.until {
        return frozen::stand(&plan, until, arguments.serve);
    }
    let engine = match asked {
        EngineArgument::Event if environment.engine.is_none() => String::new(),
        other => format!(" --engine {}", other.name()),
    };
    let reproduce = command_of_file("replay", &arguments.file, &arguments.change) + &engine;
    let telling = Telling {
        engine: asked,
        format: arguments.format,
        twice: false,
        reproduce: &reproduce,
        out: None,
        files: &arguments.files,
    };
    tell(&plan, &telling)
}

/// `lockstorm replay --engine all`.
fn on_all(plan: &Plan, arguments: &ReplayArguments) -> Result<u8, Failure> {
    if arguments.format != Format::Text || !arguments.files.is_empty() {
        return Err(Failure::usage(
            "--engine all: whether engines agree is told as a table alone; leave out --format \
             and the files, or ask one engine",
        ));
    }
    all_engines::plan(plan, &arguments.file.display().to_string())
}

/// How a run is made and told.
struct Telling<'a> {
    engine: EngineArgument,
    format: Format,
    /// Whether a safe run is repeated as well.
    twice: bool,
    reproduce: &'a str,
    /// Where the history is written, if anywhere.
    out: Option<&'a Path>,
    /// What else is written.
    files: &'a Files,
}

/// Runs, examines, prints; the exit code is the verdict's.
fn tell(plan: &Plan, telling: &Telling<'_>) -> Result<u8, Failure> {
    let engine = storm::engine(telling.engine.name())
        .ok_or_else(|| Failure::internal("the engine is missing"))?;
    let waiting = Waiting::begin();
    let run = storm::run(plan, engine.as_ref());
    drop(waiting);
    let unwritten = telling.out.and_then(|path| {
        let saved = history_file::save(path, &run.header(), &run.history);
        let mend = "look at the path and its rights, or name another file";
        let failed = |error| Failure::usage(format!("--out {}: {error}; {mend}", path.display()));
        saved.err().map(failed)
    });
    let examination = examined(&run, telling.engine, telling.twice)?;
    let (repetition, confirmation) = match &examination {
        Some(examination) => (Some(&examination.repetition), examination.confirmation.as_ref()),
        None => (None, None),
    };
    let reproduce = telling.reproduce;
    let failure = block::Failure { run: &run, position: None, repetition, confirmation, reproduce };
    match telling.format {
        Format::Text => say(block::failure_block_in(&failure, &manner())),
        Format::Json => say(json::run_json(&failure)),
    }
    let files = telling.files.of_run(&failure, None);
    let verdict = verdict_with(&run, repetition);
    let asked = Environment::get();
    if !verdict.is_safe() && !asked.reports.is_empty() {
        let shown = shown_with_messages(&run);
        let failure = block::Failure { run: shown.as_ref().unwrap_or(&run), ..failure };
        for line in pages::written(asked, &Source::of_run(&failure)) {
            complain(line);
        }
    }
    // After what the run came to: that is not lost with its history.
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    files?;
    Ok(verdict.exit_code())
}

/// How long a run that took this process no time worth telling may take elsewhere.
const REPEAT_LIMIT: Duration = Duration::from_secs(600);

/// A run that is not safe (with `twice`, any run) is repeated in a fresh process; a
/// violation is asked about.
pub fn examined(
    run: &Run,
    engine: EngineArgument,
    twice: bool,
) -> Result<Option<Examination>, Failure> {
    let verdict = run.judgement.verdict;
    if verdict == Verdict::NotExpressible || (verdict.is_safe() && !twice) {
        return Ok(None);
    }
    let confirm = engine == EngineArgument::Event && verdict == Verdict::Violation;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let examiner = Examiner::new(program, REPEAT_LIMIT);
    let examination = examiner.repeat(run, engine.name(), confirm);
    examination.map(Some).map_err(Failure::internal)
}

/// Nondeterminism overrides whatever the run seemed to say.
pub fn verdict_with(run: &Run, repetition: Option<&Repetition>) -> Verdict {
    match repetition {
        Some(Repetition::Differs { .. }) => Verdict::Nondeterminism,
        _ => run.judgement.verdict,
    }
}

/// What the flags hunt.
///
/// # Errors
/// When `--set` sets what another flag sets.
pub fn quarry(storm: &StormArguments) -> Result<Quarry, Failure> {
    storm.change.refuse_settings(&OF_FLAGS)?;
    // A file has these in its own text; what is drawn has flags for them.
    storm.change.refuse_settings(&[("scenario", "--scenario"), ("seed", "--seed")])?;
    Ok(Quarry {
        scenario: storm.scenario.clone(),
        lock: storm.lock(),
        fence: storm.fence(),
        engine: storm.engine().name().to_owned(),
        faults: !storm.change.calm,
        draws: storm.draws.unwrap_or(DrawsArgument::First).draws(),
        settings: storm.change.settings.clone(),
    })
}

/// How this program was started, so that the lines it prints can be pasted: `cargo run`
/// tells its child of the package.
fn program() -> &'static str {
    if std::env::var_os("CARGO_MANIFEST_DIR").is_some() { "cargo run --" } else { "lockstorm" }
}

/// The one line that runs this seed again.
pub fn command_of_seed(seed: lockstorm_sim::plan::Seed, storm: &StormArguments) -> String {
    format!(
        "{} run --scenario {} --lock {} --fence {} --seed {seed}{}{}",
        program(),
        storm.scenario,
        storm.lock(),
        storm.fence(),
        settings(&storm.change),
        rest(storm)
    )
}

/// The one line that does `verb` with a plan: with the file that it is in, just so, or else with
/// its capsule.
pub fn command_of_plan(verb: &str, plan: &Plan, path: Option<&Path>) -> String {
    let named = path.map_or_else(|| capsule::write(plan), shown);
    format!("{} {verb} {named}", program())
}

/// The one line that runs a plan again of which only the faults were written.
pub fn command_of_faults(plan: &Plan, storm: &StormArguments) -> String {
    let storm = StormArguments { draws: None, ..storm.clone() };
    let mut command = command_of_seed(plan.seed, &storm);
    for fault in &plan.faults {
        command.push_str(&format!(" --fault {}", quoted(&file::inline_fault(fault))));
    }
    command
}

/// The one line that does `verb` with the plan of a file, changed as it was.
pub fn command_of_file(verb: &str, path: &Path, change: &ChangeArguments) -> String {
    format!("{} {verb} {}{}", program(), shown(path), changes(change))
}

/// The flags that say what is not as a file has it.
fn changes(change: &ChangeArguments) -> String {
    let lock = change.lock.as_ref().map(|lock| format!(" --lock {}", quoted(lock)));
    let fence = change.fence.map(|fence| format!(" --fence {}", fence.fence()));
    format!("{}{}{}", lock.unwrap_or_default(), fence.unwrap_or_default(), settings(change))
}

fn settings(change: &ChangeArguments) -> String {
    let mut flags = String::new();
    for (key, value) in &change.settings {
        flags.push_str(&format!(" --set {}", quoted(&format!("{key}={value}"))));
    }
    if change.calm {
        flags.push_str(" --calm");
    }
    flags
}

fn rest(storm: &StormArguments) -> String {
    let mut rest = String::new();
    if let Some(draws) = storm.draws.filter(|draws| *draws != DrawsArgument::First) {
        rest.push_str(&format!(" --draws {}", draws.draws().name()));
    }
    if storm.engine() != EngineArgument::Event {
        rest.push_str(&format!(" --engine {}", storm.engine().name()));
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

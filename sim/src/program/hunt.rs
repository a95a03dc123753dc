//! `lockstorm hunt`: many seeds over worker processes; each failure is repeated in a
//! fresh process, asked about under turmoil, and told: the first of its signature in
//! full, the others by the line that runs them again.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, stderr};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use lockstorm_sim::check::Verdict;
use lockstorm_sim::hunt::examine::{Examination, Examiner};
use lockstorm_sim::hunt::process::Trouble;
use lockstorm_sim::hunt::{Quarry, Summary, pack};
use lockstorm_sim::plan::Seed;
use lockstorm_sim::report::block::{Failure as Told, failure_block_in};
use lockstorm_sim::report::layout::{counted, labelled};
use lockstorm_sim::report::{json, table};
use lockstorm_sim::storm::confirm::Confirmation;
use lockstorm_sim::storm::repeat::Repetition;
use lockstorm_sim::storm::{self, Run};

use super::arguments::{EngineArgument, Format, HuntArguments};
use super::exit::Failure;
use super::plan_folder::PlanFolder;
use super::run::{command_of_seed, quarry};
use super::say::{manner, say};

/// `lockstorm hunt`.
pub fn hunt(arguments: &HuntArguments) -> Result<u8, Failure> {
    let quarry = quarry(&arguments.storm)?;
    // Refuse bad flags before any worker is started.
    if arguments.seed.0.checked_add(arguments.seeds - 1).is_none() {
        let (first, seeds) = (arguments.seed, arguments.seeds);
        return Err(Failure::usage(format!(
            "--seed {first} --seeds {seeds}: there are no seeds beyond 0x{:x}; begin earlier or \
             ask for fewer",
            u64::MAX
        )));
    }
    quarry.plan(arguments.seed)?;
    let folder = arguments.out.as_deref().map(PlanFolder::open).transpose()?;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let examiner = Examiner { program, limit: arguments.seed_limit };
    let mut unwritten = None;
    let mut keep = |summary: &Summary| {
        // At once: a hunt that is interrupted has lost nothing that it had found. What
        // cannot be written is told after everything else.
        if let (Some(folder), false) = (&folder, summary.verdict.is_safe()) {
            let kept = quarry.plan(summary.seed).map_err(Failure::from);
            let kept = kept.and_then(|plan| folder.keep(&plan));
            unwritten = unwritten.take().or(kept.err());
        }
    };
    let mut summaries = run_all(arguments, &quarry, &examiner, &mut keep)?;
    if arguments.twice {
        let again = run_all(arguments, &quarry, &examiner, &mut |_| {})?;
        for (summary, again) in summaries.iter_mut().zip(&again) {
            summary.compare(again);
            keep(summary);
        }
    }
    let failures = summaries.iter().filter(|summary| !summary.verdict.is_safe());
    let failures: Vec<&Summary> = failures.collect();
    let examined = examine_all(arguments, &quarry, &failures, &examiner)?;
    match arguments.format {
        Format::Text => tell(arguments, &summaries, &examined),
        Format::Json => {
            let failures = examined.iter().map(|failure| {
                let reproduce = command_of_seed(failure.run.plan.seed, &arguments.storm);
                json::run_value(&told(failure, &reproduce))
            });
            say(json::hunt_json(&quarry, &summaries, failures.collect()));
        }
    }
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    let nondeterministic = examined.iter().any(|failure| failure.is_nondeterministic());
    let verdicts = summaries.iter().map(|summary| summary.verdict);
    let all = verdicts.chain(nondeterministic.then_some(Verdict::Nondeterminism));
    Ok(Verdict::merge_drawn(all).exit_code())
}

/// A failure that was run again and asked about.
struct Examined {
    run: Run,
    /// None for a run that its worker did not survive.
    examination: Option<Examination>,
}

impl Examined {
    fn is_nondeterministic(&self) -> bool {
        let repetition = self.examination.as_ref().map(|examination| &examination.repetition);
        matches!(repetition, Some(Repetition::Differs { .. }))
    }

    fn confirmation(&self) -> Option<&Confirmation> {
        self.examination.as_ref()?.confirmation.as_ref()
    }
}

fn run_all(
    arguments: &HuntArguments,
    quarry: &Quarry,
    examiner: &Examiner,
    each: &mut dyn FnMut(&Summary),
) -> Result<Vec<Summary>, Failure> {
    let bar = progress("seeds", arguments.seeds);
    let mut failures = 0_u64;
    let mut summaries = Vec::new();
    let (first, jobs) = (arguments.seed, usize::from(arguments.jobs));
    let Examiner { program, limit } = examiner;
    let result = pack::run(quarry, first, arguments.seeds, jobs, program, *limit, |summary| {
        failures += u64::from(!summary.verdict.is_safe());
        each(&summary);
        summaries.push(summary);
        bar.set_message(format!("{failures} not safe"));
        bar.inc(1);
        true
    });
    bar.finish_and_clear();
    result.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error),
        _ => Failure::internal(error),
    })?;
    Ok(summaries)
}

/// Examines all failures, as many at once as there are jobs.
fn examine_all(
    arguments: &HuntArguments,
    quarry: &Quarry,
    failures: &[&Summary],
    examiner: &Examiner,
) -> Result<Vec<Examined>, Failure> {
    let bar = progress("failures examined", failures.len() as u64);
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(summary) = failures.get(index) else { return };
                    let result = examine_one(quarry, summary, examiner);
                    bar.inc(1);
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    bar.finish_and_clear();
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn examine_one(
    quarry: &Quarry,
    summary: &Summary,
    examiner: &Examiner,
) -> Result<Examined, Failure> {
    let plan = quarry.plan(summary.seed)?;
    let engine =
        storm::engine(&quarry.engine).ok_or_else(|| Failure::internal("the engine is missing"))?;
    let lost = |why| Examined { run: storm::lost(&plan, engine.as_ref(), why), examination: None };
    if summary.is_lost() {
        // What killed its worker would kill the next: it is told, not run.
        return Ok(lost(summary.trouble.clone().unwrap_or_default()));
    }
    let is_event = quarry.engine == EngineArgument::Event.name();
    let confirm = is_event && summary.verdict == Verdict::Violation;
    let (run, mut examination) = match examiner.examine(&plan, engine.as_ref(), confirm) {
        Ok(examined) => examined,
        // A plan that kills or hangs a fresh process is told as what it is.
        Err(Trouble::Lost(why)) => return Ok(lost(why)),
        Err(Trouble::Failed(error)) => return Err(Failure::internal(error)),
    };
    let was_same = summary.trace == run.trace_hash.to_string();
    let is_same = !matches!(examination.repetition, Repetition::Differs { .. });
    let parted = summary.verdict == Verdict::Nondeterminism || !was_same;
    if parted && is_same {
        examination.repetition = Repetition::Differs { first: None };
    }
    Ok(Examined { run, examination: Some(examination) })
}

fn told<'a>(failure: &'a Examined, reproduce: &'a str) -> Told<'a> {
    Told {
        run: &failure.run,
        position: None,
        repetition: failure.examination.as_ref().map(|examination| &examination.repetition),
        confirmation: failure.confirmation(),
        reproduce,
    }
}

/// How many failures are told in full; the others by one line.
const TOLD_IN_FULL: usize = 5;

fn tell(arguments: &HuntArguments, summaries: &[Summary], examined: &[Examined]) {
    let mut of_signature: BTreeMap<String, Vec<&Examined>> = BTreeMap::new();
    for failure in examined {
        of_signature.entry(failure.run.judgement.signature()).or_default().push(failure);
    }
    // What is wrong with us first, then the commonest; among equals by their names.
    let mut groups: Vec<(&String, &Vec<&Examined>)> = of_signature.iter().collect();
    let is_ours = |failure: &&Examined| {
        failure.is_nondeterministic() || failure.run.judgement.verdict == Verdict::Internal
    };
    groups.sort_by_key(|(_, group)| (!group.iter().any(is_ours), std::cmp::Reverse(group.len())));
    let manner = manner();
    for (signature, group) in groups.iter().take(TOLD_IN_FULL) {
        let Some(first) = group.first() else { continue };
        let reproduce = command_of_seed(first.run.plan.seed, &arguments.storm);
        say(failure_block_in(&told(first, &reproduce), &manner));
        if group.len() > 1 {
            let more = format!("… and {} more with the signature {signature}", group.len() - 1);
            say(manner.charset.fit(&labelled("  ", 2, &more, manner.width)));
        }
        say("");
    }
    if groups.len() > TOLD_IN_FULL {
        let rest = &groups[TOLD_IN_FULL..];
        say(format!("{}, not told in full:", counted(rest.len() as u64, "more signature")));
        say("   runs  first seed          signature");
        for (signature, group) in rest {
            let seed =
                group.first().map_or_else(String::new, |first| first.run.plan.seed.to_string());
            let label = format!("  {:>5}  {seed}  ", group.len());
            say(labelled(&label, label.len(), signature, manner.width));
        }
        say("");
    }
    if examined.len() > groups.len().min(TOLD_IN_FULL) {
        let command = command_of_seed(Seed(0), &arguments.storm);
        let command = command.replace(&Seed(0).to_string(), "SEED");
        say(format!("All {} runs that were not safe; to see one of them:", examined.len()));
        say(format!("  {command}"));
        for failure in examined {
            say(one_line(failure, manner.width));
        }
        say("");
    }
    let confirmations = examined.iter().map(Examined::confirmation);
    say(table::summary_in(summaries, confirmations, &manner));
}

/// `  0x0000000000000005  turmoil 0.7: confirmed  violation  double-grant …`: the seed,
/// what the reference engine says, the verdict, and what it was.
fn one_line(failure: &Examined, cells: usize) -> String {
    let judgement = &failure.run.judgement;
    let nondeterministic = failure.is_nondeterministic();
    let verdict = if nondeterministic { Verdict::Nondeterminism } else { judgement.verdict };
    let confirmation = failure.confirmation();
    let confirmation = confirmation.map_or_else(String::new, |said| format!("{said};  "));
    // Without violations the signature is the verdict.
    let signature = match judgement.violations().next() {
        Some(_) if !nondeterministic => format!("  {}", judgement.signature()),
        _ => String::new(),
    };
    let seed = format!("  {}  ", failure.run.plan.seed);
    labelled(&seed, seed.len(), &format!("{confirmation}{verdict}{signature}"), cells)
}

/// A progress bar where a terminal watches, nothing elsewhere.
fn progress(what: &'static str, length: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let template = "{bar:30} {pos}/{len} {prefix}  {per_sec}  {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(what);
    bar
}

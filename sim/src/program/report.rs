//! `lockstorm report`: a history, a kept plan or a capsule as a page, a trace or a diagram;
//! and the same beside `run` and `replay`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lockstorm_sim::check::{self, Judgement, Setting, Verdict};
use lockstorm_sim::explain::{Effort, Explained};
use lockstorm_sim::history::file::error::Complaint;
use lockstorm_sim::history::file::read;
use lockstorm_sim::plan::capsule;
use lockstorm_sim::report::block;
use lockstorm_sim::report::html::{self, Source};
use lockstorm_sim::report::{mermaid, perfetto};
use lockstorm_sim::storm::{self, Run, locks};
use lockstorm_sim::whole_file;

use super::arguments::{ChangeArguments, EngineArgument};
use super::exit::Failure;
use super::explain::watched;
use super::plan_source::load_any;
use super::run::{command_of_file, examined, verdict_with};
use super::say::{complain, say};

/// Which files are written.
#[derive(Debug, Clone, Default, Args)]
pub struct Files {
    /// Write the run as one page of HTML that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write it as a trace for ui.perfetto.dev (trace event format).
    #[arg(long, value_name = "FILE.json")]
    pub perfetto: Option<PathBuf>,
    /// Write its story as a Mermaid sequence diagram.
    #[arg(long, value_name = "FILE.mmd")]
    pub mermaid: Option<PathBuf>,
}

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A recorded history, a plan file, a seed file, or a capsule (`storm1:…`).
    pub file: PathBuf,
    /// What to write; without any of them a page beside the file's name.
    #[command(flatten)]
    pub files: Files,
    /// Of a plan: also run what might have been, for the cliff (as `lockstorm explain`).
    #[arg(long)]
    pub explain: bool,
    /// Of a plan: what is not as the file has it.
    #[command(flatten)]
    pub change: ChangeArguments,
}

impl Files {
    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.html.is_none() && self.perfetto.is_none() && self.mermaid.is_none()
    }

    /// Refuses what cannot be written and what would be written over the file that is read, before
    /// anything is run: nobody waits for a storm whose report then goes nowhere. `out` is what
    /// else is written.
    pub fn check(&self, read: Option<&Path>, out: Option<&Path>) -> Result<(), Failure> {
        let place = |path: &Path| fs::canonicalize(path).ok().filter(|path| path.is_file());
        let read = read.and_then(place);
        let written = [
            ("--out", out),
            ("--html", self.html.as_deref()),
            ("--perfetto", self.perfetto.as_deref()),
            ("--mermaid", self.mermaid.as_deref()),
        ];
        for (flag, path) in written {
            let Some(path) = path else { continue };
            if read.is_some() && place(path) == read {
                let what = "this is the file that is read, and would be written over";
                let path = path.display();
                return Err(Failure::usage(format!("{flag} {path}: {what}; name another")));
            }
            let folder = match path.parent() {
                Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
                Some(folder) => folder,
                None => continue,
            };
            if !folder.is_dir() {
                let (path, folder) = (path.display(), folder.display());
                let mend = "make it, or name a file in one that is there";
                return Err(Failure::usage(format!(
                    "{flag} {path}: there is no folder {folder}; {mend}"
                )));
            }
        }
        Ok(())
    }

    /// Writes what is asked for of a run, with its messages, and says where it is.
    pub fn of_run(
        &self,
        failure: &block::Failure<'_>,
        explained: Option<&Explained>,
    ) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let shown = shown(failure.run);
        let failure = block::Failure { run: shown.as_ref().unwrap_or(failure.run), ..*failure };
        self.write(&Source { explained, ..Source::of_run(&failure) })
    }

    /// Writes what is asked for, and says where it is.
    pub fn write(&self, source: &Source<'_>) -> Result<(), Failure> {
        let files: [(&Option<PathBuf>, Writer); 3] = [
            (&self.html, html::page),
            (&self.perfetto, perfetto::trace),
            (&self.mermaid, mermaid::diagram),
        ];
        for (path, text) in files {
            let Some(path) = path else { continue };
            whole_file::write(path, &text(source)).map_err(|error| {
                Failure::usage(format!(
                    "{}: cannot be written: {error}; name a file in a folder that is there",
                    path.display()
                ))
            })?;
            // Where standard output is for machines, this is not in their way.
            complain(format!("report: {}", absolute(path).display()));
        }
        Ok(())
    }
}

/// The run with its messages, where its engine tells them.
pub fn shown(run: &Run) -> Option<Run> {
    let factory: locks::LockFactory = Arc::new(locks::build);
    storm::with_asides(run, &factory)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `lockstorm report`. The exit code is the verdict's.
pub fn report(arguments: &ReportArguments) -> Result<u8, Failure> {
    let files = match arguments.files.is_empty() {
        true => Files { html: Some(beside(&arguments.file)), ..Files::default() },
        false => arguments.files.clone(),
    };
    files.check(Some(&arguments.file), None)?;
    let verdict = match is_history(&arguments.file) {
        true if arguments.explain => {
            let mend = "name its plan instead";
            return Err(Failure::usage(format!("--explain runs a plan, and this is none; {mend}")));
        }
        true if !arguments.change.is_empty() => {
            let flags = "--set, --lock, --fence and --calm change a plan, and this is none";
            return Err(Failure::usage(format!("{flags}; name its plan instead")));
        }
        true => of_history(&arguments.file, &files)?,
        false => of_plan(arguments, &files)?,
    };
    say(verdict.id());
    Ok(verdict.exit_code())
}

/// `runs/a.ndjson.gz` → `a.html`, here.
fn beside(path: &Path) -> PathBuf {
    if capsule::of_path(path).is_some() {
        return PathBuf::from("report.html");
    }
    let name = path.file_name().map_or_else(|| "report".into(), |name| name.to_string_lossy());
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("report");
    PathBuf::from(format!("{stem}.html"))
}

/// Plans are TOML or capsules; whatever else is read as a history.
fn is_history(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    capsule::of_path(path).is_none() && !is_toml
}

fn of_history(path: &Path, files: &Files) -> Result<Verdict, Failure> {
    let name = path.display().to_string();
    let recorded = read(path).map_err(Failure::usage)?;
    let setting = Setting::from_header(&recorded.header.setting)
        .map_err(|what| Complaint::new(what, "see docs/history.md").at(&name, 1))
        .map_err(Failure::usage)?;
    let stuck = recorded.header.run.as_ref().and_then(|run| run.stuck.as_ref());
    let judgement = match stuck {
        Some(_) => Judgement::internal(),
        None => check::judge(&recorded.history, &setting),
    };
    files.write(&Source::of_file(&name, &recorded, setting, &judgement))?;
    Ok(judgement.verdict)
}

fn of_plan(arguments: &ReportArguments, files: &Files) -> Result<Verdict, Failure> {
    let ReportArguments { file: path, change, .. } = arguments;
    let plan = change.of_file(load_any(path)?)?;
    let engine =
        storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))?;
    let run = storm::run(&plan, engine.as_ref());
    let examination = examined(&run, EngineArgument::Event, false)?;
    let (repetition, confirmation) = match &examination {
        Some(examination) => (Some(&examination.repetition), examination.confirmation.as_ref()),
        None => (None, None),
    };
    let explained: Option<Explained> = match arguments.explain {
        true => Some(watched(&plan, &Effort::default())?),
        false => None,
    };
    let reproduce = command_of_file("replay", path, change);
    let failure = block::Failure {
        run: &run,
        position: None,
        repetition,
        confirmation,
        reproduce: &reproduce,
    };
    files.of_run(&failure, explained.as_ref())?;
    Ok(verdict_with(&run, repetition))
}

/// Makes one sort of file of a run.
type Writer = fn(&Source<'_>) -> String;

//! `lockstorm claims`: what a text says, sentence by sentence, and what comes of it in storms.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockstorm_sim::check::Language;
use lockstorm_sim::claims::prove::{self, Prover, Repeated};
use lockstorm_sim::claims::{self, Claim, Judged, QUICK_SEEDS, SEEDS};
use lockstorm_sim::plan::{Complaint, PlanError};
use lockstorm_sim::report::claims as told;
use lockstorm_sim::whole_file;

use super::arguments::real_time;
use super::exit::{self, Failure};
use super::lesson::{LanguageArgument, language};
use super::progress::Progress;
use super::say::say;

/// `claims`.
#[derive(Debug, Args)]
pub struct ClaimsArguments {
    /// Only these sentences, by their names, such as `d9`; all where nothing is said.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// How many seeds for each arm of an experiment; 10 where nothing is said.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: Option<u64>,
    /// A first look: 3 seeds for each arm, and turmoil is not asked.
    #[arg(long, conflicts_with = "seeds")]
    pub quick: bool,
    /// How many storms run at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How long a fresh process may take over one run before the witness is told as lost; real
    /// time.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = real_time)]
    pub seed_limit: Duration,
    /// Write the page of documentation into this file, and the Chinese one beside it
    /// (`claims.md`, `claims.zh-CN.md`). Of all sentences only.
    #[arg(long, value_name = "FILE.md", conflicts_with = "ids")]
    pub out: Option<PathBuf>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = ClaimsFormat::Text)]
    pub format: ClaimsFormat,
    /// In which language; that of the locale where nothing is said.
    #[arg(long, value_enum)]
    pub lang: Option<LanguageArgument>,
}

/// `--format` of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClaimsFormat {
    /// For people at a terminal.
    Text,
    /// One JSON value.
    Json,
    /// A page of documentation.
    Markdown,
}

/// The sentences that are asked for, in the order of the text.
fn chosen(ids: &[String]) -> Result<Vec<&'static Claim>, Failure> {
    for id in ids {
        if claims::all().all(|claim| claim.id != id) {
            let known = claims::all().map(|claim| claim.id);
            let complaint = Complaint::unknown("sentence", id, known);
            return Err(PlanError::named("claims", complaint).into());
        }
    }
    let is_asked = |claim: &&Claim| ids.is_empty() || ids.iter().any(|id| id == claim.id);
    Ok(claims::all().filter(is_asked).collect())
}

/// `lockstorm claims`: 0 if each sentence came out as the committed table says.
pub fn claims(arguments: &ClaimsArguments) -> Result<u8, Failure> {
    let chosen = chosen(&arguments.ids)?;
    let seeds = if arguments.quick { QUICK_SEEDS } else { SEEDS };
    let seeds = arguments.seeds.unwrap_or(seeds);
    let judged = judged(&chosen, seeds, arguments)?;
    let language: Language = language(arguments.lang);
    if let Some(path) = &arguments.out {
        write(path, &told::markdown(&judged, seeds, Language::English))?;
        let chinese = path.with_extension("zh-CN.md");
        write(&chinese, &told::markdown(&judged, seeds, Language::Chinese))?;
    }
    say(match arguments.format {
        ClaimsFormat::Text => told::text(&judged, seeds, language),
        ClaimsFormat::Json => told::json(&judged, seeds),
        ClaimsFormat::Markdown => told::markdown(&judged, seeds, language).trim_end().to_owned(),
    });
    Ok(code(&judged))
}

/// Runs, and repeats what will be shown.
fn judged(
    chosen: &[&'static Claim],
    seeds: u64,
    arguments: &ClaimsArguments,
) -> Result<Vec<Judged>, Failure> {
    let jobs = usize::from(arguments.jobs);
    let bar = Progress::new("storms", Some(claims::judge::storms(chosen).len() as u64));
    let judged = claims::judge(chosen, seeds, jobs, &|| bar.inc());
    drop(bar);
    let mut judged = judged.map_err(Failure::internal)?;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let prover = Prover { program, limit: arguments.seed_limit, confirms: !arguments.quick };
    let bar = Progress::new("witnesses", Some(judged.len() as u64));
    let proved = prove::prove(&mut judged, &prover, jobs, &|| bar.inc());
    drop(bar);
    proved.map_err(Failure::internal)?;
    Ok(judged)
}

/// What could not be repeated comes first: then nothing else is sure.
fn code(judged: &[Judged]) -> u8 {
    let repeated = || {
        let witnesses = judged.iter().filter_map(|one| one.witness.as_ref());
        witnesses.filter_map(|witness| witness.proof.as_ref()).map(|proof| &proof.repeated)
    };
    match () {
        () if repeated().any(|one| matches!(one, Repeated::Differs(_))) => exit::NONDETERMINISM,
        () if repeated().any(|one| matches!(one, Repeated::Lost(_))) => exit::INTERNAL,
        () if !judged.iter().all(Judged::is_as_expected) => exit::VIOLATION,
        () => exit::SAFE,
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mend = "look at the path and its rights, or name another file";
    whole_file::write(path, text)
        .map_err(|error| Failure::usage(format!("--out {}: {error}; {mend}", path.display())))
}

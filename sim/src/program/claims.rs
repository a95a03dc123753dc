//! `lockstorm claims`: what a text says, sentence by sentence, and what comes of it in storms.

use clap::{Args, ValueEnum};
use lockstorm_sim::check::Language;
use lockstorm_sim::claims::{self, Claim, QUICK_SEEDS, SEEDS};
use lockstorm_sim::plan::{Complaint, PlanError};
use lockstorm_sim::report::claims as told;

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
    /// A first look: 3 seeds for each arm.
    #[arg(long, conflicts_with = "seeds")]
    pub quick: bool,
    /// How many storms run at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
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

/// `lockstorm claims`. That a sentence is refuted is no failure: 0 if all were tried.
pub fn claims(arguments: &ClaimsArguments) -> Result<u8, Failure> {
    let chosen = chosen(&arguments.ids)?;
    let seeds = if arguments.quick { QUICK_SEEDS } else { SEEDS };
    let seeds = arguments.seeds.unwrap_or(seeds);
    let arms = chosen.iter().map(|claim| claim.arms().len() as u64).sum();
    let bar = Progress::new("arms", Some(arms));
    let judged = claims::judge(&chosen, seeds, usize::from(arguments.jobs), &|| bar.inc());
    drop(bar);
    let judged = judged.map_err(Failure::internal)?;
    let language: Language = language(arguments.lang);
    say(match arguments.format {
        ClaimsFormat::Text => told::text(&judged, seeds, language),
        ClaimsFormat::Json => told::json(&judged, seeds),
        ClaimsFormat::Markdown => told::markdown(&judged, seeds, language).trim_end().to_owned(),
    });
    Ok(exit::SAFE)
}

//! `lockstorm seeds`: the kept plans.

use std::path::Path;

use lockstorm_sim::seeds::{self, SeedFile, Shelf, Title, check};
use lockstorm_sim::storm;

use super::arguments::{SeedsVerb, StormArguments};
use super::exit::{self, Failure};
use super::run::quarry;

/// `lockstorm seeds …`.
pub fn kept(verb: &SeedsVerb) -> Result<u8, Failure> {
    match verb {
        SeedsVerb::Check { folder } => check_all(folder),
        SeedsVerb::Add { seed, storm, id, title, title_zh, folder } => {
            let titles = [title.as_str(), title_zh.as_str()];
            add(*seed, storm, id, titles, folder)
        }
    }
}

fn check_all(folder: &Path) -> Result<u8, Failure> {
    let paths = seeds::list(folder)?;
    if paths.is_empty() {
        return Err(Failure::usage(format!("{}: no seed files here", folder.display())));
    }
    let mut failed = 0;
    for path in &paths {
        let outcome = check::check(&SeedFile::load(path)?);
        println!("{} {}", outcome.word(), path.display());
        for line in &outcome.lines {
            println!("     {line}");
        }
        failed += u32::from(!outcome.is_met());
    }
    println!("{} seed files, {failed} not as expected", paths.len());
    Ok(if failed == 0 { exit::SAFE } else { exit::VIOLATION })
}

fn add(
    seed: lockstorm_sim::plan::Seed,
    arguments: &StormArguments,
    id: &str,
    [title, title_zh]: [&str; 2],
    folder: &Path,
) -> Result<u8, Failure> {
    let plan = quarry(arguments).plan(seed)?;
    let engine =
        storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))?;
    let run = storm::run(&plan, engine.as_ref());
    if run.judgement.verdict.is_safe() {
        return Err(Failure::usage(format!(
            "seed {seed} is safe; only a run that fails is kept under known-unsafe"
        )));
    }
    let title = Title { en: title.to_owned(), zh: title_zh.to_owned() };
    let file = check::keep(&run, id, title).map_err(Failure::Usage)?;
    let path = seeds::save(folder, Shelf::KnownUnsafe, &file)?;
    println!("kept {}", path.display());
    Ok(exit::SAFE)
}

//! `lockstorm seeds`: the kept plans.

use std::path::Path;

use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::report::layout::counted;
use lockstorm_sim::seeds::{self, SeedFile, Shelf, Title, check};
use lockstorm_sim::storm;

use super::arguments::SeedsVerb;
use super::exit::{self, Failure};
use super::run::quarry;
use super::say::say;

/// `lockstorm seeds …`.
pub fn kept(verb: &SeedsVerb) -> Result<u8, Failure> {
    match verb {
        SeedsVerb::Check { folder } => check_all(folder),
        SeedsVerb::Add { seed, plan, shelf, storm, id, title, title_zh, folder } => {
            let plan = match plan {
                Some(path) => file::load(path)?,
                None => quarry(storm)?.plan(*seed)?,
            };
            let title = Title { en: title.clone(), zh: title_zh.clone() };
            add(&plan, shelf.shelf(), id, title, folder)
        }
    }
}

fn check_all(folder: &Path) -> Result<u8, Failure> {
    if !folder.is_dir() {
        return Err(Failure::usage(format!("{}: no such folder", folder.display())));
    }
    let paths = seeds::list(folder)?;
    if paths.is_empty() {
        return Err(Failure::usage(format!("{}: no seed files here", folder.display())));
    }
    let (mut failed, mut unread) = (0, 0);
    for path in &paths {
        // One broken file does not hide the others.
        let file = match SeedFile::load(path) {
            Ok(file) => file,
            Err(error) => {
                unread += 1;
                say(format!("BROKEN {}", path.display()));
                say(format!("     {error}"));
                continue;
            }
        };
        let outcome = check::check(&file);
        say(format!("{} {}", outcome.word(), path.display()));
        for line in &outcome.lines {
            say(format!("     {line}"));
        }
        failed += u32::from(!outcome.is_met());
    }
    let files = counted(paths.len() as u64, "seed file");
    let broken = if unread == 0 { String::new() } else { format!(", {unread} cannot be read") };
    say(format!("{files}, {failed} not as expected{broken}"));
    Ok(match (failed, unread) {
        (0, 0) => exit::SAFE,
        (0, _) => exit::USAGE,
        _ => exit::VIOLATION,
    })
}

fn add(plan: &Plan, shelf: Shelf, id: &str, title: Title, folder: &Path) -> Result<u8, Failure> {
    let engine =
        storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))?;
    let run = storm::run(plan, engine.as_ref());
    let file = check::keep(&run, id, title).map_err(Failure::Usage)?;
    let path = seeds::save(folder, shelf, &file)?;
    say(format!("kept {}: {}", path.display(), run.judgement.verdict));
    Ok(exit::SAFE)
}

//! `lockstorm seeds`: the kept plans.

use std::fs;
use std::path::{Path, PathBuf};

use lockstorm_sim::plan::{Plan, PlanError};
use lockstorm_sim::report::layout::{counted, labelled};
use lockstorm_sim::seeds::duplicates::{self, Likeness};
use lockstorm_sim::seeds::{self, SeedFile, Shelf, Title, check};
use lockstorm_sim::storm;
use lockstorm_sim::storm::abreast::abreast;

use super::all_engines;
use super::arguments::{AllEngines, Format, SeedsVerb};
use super::exit::{self, Failure};
use super::plan_source::load_any;
use super::progress::Progress;
use super::run::quarry;
use super::say::{manner, say};

/// `lockstorm seeds …`.
pub fn kept(verb: &SeedsVerb) -> Result<u8, Failure> {
    match verb {
        SeedsVerb::Check { folder, engine: None } => check_all(folder),
        SeedsVerb::Check { folder, engine: Some(AllEngines::All) } => {
            all_engines::seeds(&paths(folder)?)
        }
        SeedsVerb::List { folder, format } => list(folder, *format),
        SeedsVerb::Prune { folder, delete } => prune(folder, *delete),
        SeedsVerb::Add { seed, plan, shelf, storm, another, id, title, title_zh, folder } => {
            let plan = match plan {
                Some(path) => storm.change.of_file(load_any(path)?)?,
                None => quarry(storm)?.plan(*seed)?,
            };
            let title = Title { en: title.clone(), zh: title_zh.clone() };
            let place = Place { folder, shelf: shelf.shelf(), another: *another };
            add(&plan, &place, id, title)
        }
    }
}

fn check_all(folder: &Path) -> Result<u8, Failure> {
    let paths = paths(folder)?;
    let (mut failed, mut unread) = (0, 0);
    let progress = Progress::new("seed files", Some(paths.len() as u64));
    let outcomes = abreast(&paths, |path| {
        let outcome = SeedFile::load(path).map(|file| check::check(&file));
        progress.inc();
        outcome
    });
    drop(progress);
    for (path, outcome) in paths.iter().zip(outcomes) {
        // One broken file does not hide the others.
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                unread += 1;
                say_broken(path, &error);
                continue;
            }
        };
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

fn say_broken(path: &Path, error: &PlanError) {
    say(format!("BROKEN {}", path.display()));
    say(format!("     {error}"));
}

/// The paths of a folder that must be there.
fn paths(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.is_file() {
        let name = folder.display();
        return Err(Failure::usage(format!(
            "{name}: is a file, and a folder of seed files is wanted; name its folder, or run \
             this one with `lockstorm replay {name}`"
        )));
    }
    if !folder.is_dir() {
        let name = folder.display();
        return Err(Failure::usage(format!(
            "{name}: no such folder; name one with seed files, or make it with `lockstorm seeds add`"
        )));
    }
    let paths = seeds::list(folder)?;
    if paths.is_empty() {
        return Err(Failure::usage(format!(
            "{}: no seed files here; `lockstorm seeds add` keeps one",
            folder.display()
        )));
    }
    Ok(paths)
}

fn list(folder: &Path, format: Format) -> Result<u8, Failure> {
    let mut files: Vec<(PathBuf, SeedFile)> = Vec::new();
    let mut broken: Vec<(PathBuf, PlanError)> = Vec::new();
    for path in paths(folder)? {
        match SeedFile::load(&path) {
            Ok(file) => files.push((path, file)),
            Err(error) => broken.push((path, error)),
        }
    }
    let code = if broken.is_empty() { exit::SAFE } else { exit::USAGE };
    if format == Format::Json {
        let files = files.iter().map(|(path, file)| {
            serde_json::json!({
                "path": path.display().to_string(),
                "id": file.id,
                "title": { "en": file.title.en, "zh": file.title.zh },
                "verdict": file.expect.verdict,
                "kinds": file.expect.kinds,
                "scenario": file.plan.scenario,
                "lock": file.plan.lock.name,
                "fence": file.plan.fence.name(),
                "faults": file.plan.faults.len(),
                "turmoil": file.turmoil.to_string(),
            })
        });
        let broken = broken.iter().map(|(path, error)| {
            serde_json::json!({ "path": path.display().to_string(), "error": error.to_string() })
        });
        let document = serde_json::json!({
            "schema": 1,
            "files": files.collect::<Vec<_>>(),
            "broken": broken.collect::<Vec<_>>(),
        });
        say(format!("{document:#}"));
        return Ok(code);
    }
    let manner = manner();
    for (path, file) in &files {
        let plan = &file.plan;
        let faults = counted(plan.faults.len() as u64, "fault");
        say(path.display().to_string());
        say(format!("     {}", file.title.en));
        if manner.charset.has_chinese() {
            say(format!("     {}", file.title.zh));
        }
        let kinds = file.expect.kinds.join(", ");
        let what = format!(
            "{} {kinds}  [{} {} fence {}, {faults}]",
            file.expect.verdict, plan.scenario, plan.lock.name, plan.fence
        );
        say(manner.charset.fit(&labelled("     ", 5, &what, manner.width)));
    }
    // One broken file does not hide the others.
    broken.iter().for_each(|(path, error)| say_broken(path, error));
    let unread = match broken.len() {
        0 => String::new(),
        number => format!(", {number} cannot be read"),
    };
    say(format!("{}{unread}", counted(files.len() as u64, "seed file")));
    Ok(code)
}

fn prune(folder: &Path, delete: bool) -> Result<u8, Failure> {
    paths(folder)?;
    let mut found = 0_u64;
    for group in duplicates::groups(folder)? {
        let duplicates::Group { likeness, kept, others } = group;
        for path in others {
            found += 1;
            let done = if delete { "deleted" } else { "larger " };
            if delete {
                fs::remove_file(&path).map_err(|error| {
                    let mend = "look at the folder's rights";
                    Failure::usage(format!(
                        "{}: cannot be deleted: {error}; {mend}",
                        path.display()
                    ))
                })?;
            }
            say(format!("{done} {}", path.display()));
            say(format!("        than {}, which also shows", kept.display()));
            say(format!("        {} in {}", likeness.signature, likeness.scenario));
        }
    }
    let left = if delete || found == 0 { "" } else { "; --delete deletes them" };
    say(format!("{}{left}", counted(found, "known-unsafe duplicate")));
    Ok(exit::SAFE)
}

/// Where a plan is kept.
struct Place<'a> {
    folder: &'a Path,
    shelf: Shelf,
    /// Also beside one that shows the same.
    another: bool,
}

fn add(plan: &Plan, place: &Place<'_>, id: &str, title: Title) -> Result<u8, Failure> {
    let engine =
        storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))?;
    let run = storm::run(plan, engine.as_ref());
    if place.shelf == Shelf::KnownUnsafe
        && !place.another
        && let Some(likeness) = Likeness::of(&run)
        && let Some(known) =
            duplicates::groups(place.folder)?.into_iter().find(|group| group.likeness == likeness)
    {
        return Err(Failure::usage(format!(
            "{} shows the same failure already ({}); --another keeps this one as well",
            known.kept.display(),
            likeness.signature
        )));
    }
    let file = check::keep(&run, id, title).map_err(Failure::Usage)?;
    let path = seeds::save(place.folder, place.shelf, &file)?;
    say(format!("kept {}: {}", path.display(), run.judgement.verdict));
    Ok(exit::SAFE)
}

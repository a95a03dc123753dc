//! What a hunt leaves in its folder at its end, and the canary that shows that it can see.

use std::io::Write as _;

use crate::check::Verdict;
use crate::hunt::Task;
use crate::hunt::campaign::evidence::{TWIN_FINDS, TWIN_SEEDS, TwinHunt};
use crate::hunt::campaign::{evidence, junit, markdown};
use crate::hunt::course::Course;
use crate::hunt::examine::Examiner;
use crate::plan::Seed;

use super::Setup;
use super::examine::Examined;
use super::tell::{plain, told};
use super::walk::{Walk, run};
use crate::program::exit::Failure;

/// Seeds of the twin that are run before it is asked whether they were enough.
const TWIN_ROUND: u64 = 100;

/// Hunts the twin of a campaign that has found nothing: the same storm without its
/// protection must fail, or the harness is blind.
pub fn twin(
    setup: &Setup,
    examiner: &Examiner,
    walk: &Walk<'_>,
) -> Result<Option<TwinHunt>, Failure> {
    let is_whole = setup.shard.is_none();
    if !setup.is_campaign || !is_whole || !walk.book.verdict().is_safe() {
        return Ok(None);
    }
    let Some((quarry, witness)) = evidence::twin(&setup.quarry) else { return Ok(None) };
    let mut twin = TwinHunt { quarry, witness, seeds: 0, found: 0 };
    while !twin.is_seen() && twin.seeds < TWIN_SEEDS {
        let seed = |offset| Seed(setup.seeds.first.0.wrapping_add(twin.seeds + offset));
        let tasks: Vec<Task> = (0..TWIN_ROUND).map(|offset| Task::Drawn(seed(offset))).collect();
        let (mut seeds, mut found) = (0, 0);
        let before = twin.found;
        run(setup, &twin.quarry, &tasks, |summary| {
            seeds += 1;
            found += u64::from(summary.verdict == Verdict::Violation);
            before + found < TWIN_FINDS && !examiner.is_over()
        })?;
        twin.seeds += seeds;
        twin.found += found;
        if examiner.is_over() && !twin.is_seen() {
            // A twin that had no time shows nothing: not that the harness is blind, either.
            return Ok(None);
        }
    }
    Ok(Some(twin))
}

/// Writes the certificate, and for a campaign its reports. What cannot be written is noted
/// in the walk.
pub fn write(
    setup: &Setup,
    course: &Course,
    walk: &mut Walk<'_>,
    examined: &[Examined],
    twin: Option<&TwinHunt>,
) {
    let written = files(setup, course, walk, examined, twin);
    walk.unwritten = walk.unwritten.take().or(written.err());
}

fn files(
    setup: &Setup,
    course: &Course,
    walk: &Walk<'_>,
    examined: &[Examined],
    twin: Option<&TwinHunt>,
) -> Result<(), Failure> {
    let Some(folder) = walk.folder() else { return Ok(()) };
    if let Some(certificate) = course.certificate(&setup.quarry, &walk.book.outcomes) {
        folder.write(&certificate.file_name(), &certificate.text())?;
    }
    let Some(journal) = &walk.journal else { return Ok(()) };
    let identity = setup.identity()?;
    let told = told(examined, &plain());
    let summary = markdown::summary(&identity, &walk.book, course, &told);
    let evidence = evidence::evidence(&identity, &walk.book, course, twin);
    for (name, text) in [
        ("summary.md", summary.as_str()),
        ("junit.xml", &junit::junit(&identity, &walk.book, &told)),
        ("evidence.md", &evidence),
    ] {
        journal.conclude(name, text).map_err(Failure::Usage)?;
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(summary.as_bytes()));
        written.map_err(|error| {
            Failure::usage(format!("{}: cannot be written: {error}", path.display()))
        })?;
    }
    Ok(())
}

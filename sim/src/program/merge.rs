//! `lockstorm merge`: the shards of a campaign become the campaign that one hunt would
//! have been.

use std::fs;
use std::path::Path;

use crate::hunt::campaign::merge::{Merged, merge as read_shards};
use crate::hunt::campaign::{IDENTITY_FILE, JOURNAL_FILE, Journal};

use super::arguments::MergeArguments;
use super::exit::Failure;
use super::hunt::{Setup, finish_merged};

/// `lockstorm merge`.
pub fn merge(arguments: &MergeArguments) -> Result<u8, Failure> {
    let mut merged = read_shards(&arguments.folders).map_err(Failure::Usage)?;
    let out = &arguments.out;
    if fs::metadata(out.join(JOURNAL_FILE)).is_ok_and(|file| file.len() > 0) {
        return Err(Failure::usage(format!(
            "--out {}: there is a campaign here already; name a new folder",
            out.display()
        )));
    }
    let was_there = out.exists();
    if let Err(why) = write_whole(&mut merged, out) {
        if !was_there {
            // Only where it is empty.
            let _ = fs::remove_dir(out);
        }
        return Err(Failure::Usage(why));
    }
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let mut setup = Setup::of_merged(merged.identity, program, out.clone());
    setup.jobs = arguments.jobs;
    setup.format = arguments.format;
    setup.shrinks = !arguments.no_shrink;
    finish_merged(&setup)
}

/// The folder in the folder of `--out` in which the journal grows.
const GROWING: &str = ".merging";

/// Writes the journal beside its place, and puts it there when it is whole: after an error
/// half-way the folder is not a campaign's.
fn write_whole(merged: &mut Merged, out: &Path) -> Result<(), String> {
    let growing = out.join(GROWING);
    // What a merge left that was killed.
    remove(&growing);
    let written = write_into(merged, &growing).and_then(|()| {
        // Refuses what is there of another hunt.
        drop(Journal::open(out, &merged.identity)?);
        let path = out.join(JOURNAL_FILE);
        fs::rename(growing.join(JOURNAL_FILE), &path)
            .map_err(|error| format!("{}: cannot be written: {error}", path.display()))
    });
    remove(&growing);
    written
}

fn write_into(merged: &mut Merged, folder: &Path) -> Result<(), String> {
    let mut journal = Journal::open(folder, &merged.identity)?;
    while let Some(line) = merged.next_line()? {
        journal.add(&line)?;
    }
    Ok(())
}

/// Removes the folder with the files of a merge, and nothing else.
fn remove(growing: &Path) {
    for name in [IDENTITY_FILE, JOURNAL_FILE] {
        let _ = fs::remove_file(growing.join(name));
    }
    let _ = fs::remove_dir(growing);
}

//! `lockstorm merge`: the shards of a campaign become the campaign that one hunt would
//! have been.

use std::fs;

use lockstorm_sim::hunt::campaign::merge::merge as read_shards;
use lockstorm_sim::hunt::campaign::{JOURNAL_FILE, Journal};

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
    let mut journal = Journal::open(out, &merged.identity).map_err(Failure::Usage)?;
    while let Some(line) = merged.next_line().map_err(Failure::Usage)? {
        journal.add(&line).map_err(Failure::Usage)?;
    }
    drop(journal);
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let mut setup = Setup::of_merged(merged.identity, program, out.clone());
    setup.jobs = arguments.jobs;
    setup.format = arguments.format;
    finish_merged(&setup)
}

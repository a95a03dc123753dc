//! `lockstorm check`: a recorded history, read, judged, told.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::check::{self, Judgement, Setting};
use crate::history::edn::{self, Wording};
use crate::history::file::lines::Lines;
use crate::history::file::{FileError, Recorded, error::Complaint, read};
use crate::report::recorded::Told;

use super::arguments::{CheckArguments, Format};
use super::exit::Failure;
use super::say::{manner, say};
use super::sort::Sort;

/// `lockstorm check`. The exit code is the verdict's.
pub fn check(arguments: &CheckArguments) -> Result<u8, Failure> {
    let name = name(&arguments.file);
    let mut recorded = read_any(arguments, &name).map_err(|error| {
        let other = Sort::instead_of(&arguments.file, Sort::History);
        other.unwrap_or_else(|| Failure::usage(error))
    })?;
    every_host_is_there(arguments, &recorded)?;
    let clocks = &mut recorded.history.clock_uncertainty;
    for (host, time) in &arguments.clock_uncertainty {
        match host {
            Some(host) => {
                clocks.nodes_us.insert(host.clone(), time.0);
            }
            None => clocks.others_us = time.0,
        }
    }
    let setting = Setting::from_header(&recorded.header.setting)
        .map_err(|what| Complaint::new(what, "see docs/history.md").at(&name, 1))
        .map_err(Failure::usage)?;
    let stuck = recorded.header.run.as_ref().and_then(|run| run.stuck.as_ref());
    let judgement = match stuck {
        Some(_) => Judgement::internal(),
        None => check::judge(&recorded.history, &setting),
    };
    let told = Told { file: &name, recorded: &recorded, judgement: &judgement };
    match arguments.format {
        Format::Text => say(told.text(&manner())),
        Format::Json => say(told.json()),
    }
    Ok(judgement.verdict.exit_code())
}

/// Refuses the uncertainty of a host that did nothing: a name that is written wrongly would
/// leave the clock it means without any.
fn every_host_is_there(arguments: &CheckArguments, recorded: &Recorded) -> Result<(), Failure> {
    let hosts: BTreeSet<&str> = recorded.history.iter().map(|event| &*event.node).collect();
    let named = arguments.clock_uncertainty.iter().filter_map(|(host, _)| host.as_deref());
    match named.into_iter().find(|host| !hosts.contains(host)) {
        None => Ok(()),
        Some(stranger) => {
            let hosts: Vec<&str> = hosts.into_iter().collect();
            Err(Failure::usage(format!(
                "--clock-uncertainty: no event is of the host {stranger:?}; there are: {}",
                hosts.join(", ")
            )))
        }
    }
}

fn name(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Reads NDJSON or EDN, whichever it is.
fn read_any(arguments: &CheckArguments, name: &str) -> Result<Recorded, FileError> {
    let unreadable = |error: io::Error| {
        Complaint::new(error.to_string(), "name a file that can be read").at(name, None)
    };
    let mut lines = match arguments.file == Path::new("-") {
        true => Lines::of(io::stdin().lock()),
        false => std::fs::File::open(&arguments.file).and_then(Lines::of),
    }
    .map_err(unreadable)?;
    let start = lines.peek().map_err(|complaint| complaint.at(name, 1))?;
    if edn::looks_like_edn(start) {
        let wording = Wording {
            model: arguments.model.map(|model| model.model()),
            lease_us: arguments.lease.map(|lease| lease.0),
            units: arguments.units,
        };
        return edn::read_lines(name, lines, wording);
    }
    let edn_only = [
        ("--model", arguments.model.is_some()),
        ("--lease", arguments.lease.is_some()),
        ("--units", arguments.units.is_some()),
    ];
    if let Some((flag, _)) = edn_only.iter().find(|(_, given)| *given) {
        let what = format!("{flag} is for EDN histories, and this is none");
        return Err(Complaint::new(what, "say it in the header's `setting`").at(name, None));
    }
    read::read_lines(name, lines)
}

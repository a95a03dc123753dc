//! The files that `LOCKSTORM_REPORT` asks for, in the folder of `LOCKSTORM_OUT`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Source, page};
use crate::report::{mermaid, perfetto};
use crate::storm::environment::Environment;
use crate::whole_file;

/// Where they are written when nobody says.
const FOLDER: &str = "target/lockstorm";

/// Writes them, and gives a line of each: its path, or why it could not be written.
pub fn written(environment: &Environment, source: &Source<'_>) -> Vec<String> {
    let folder = environment.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    let reports = environment.reports.iter();
    reports.map(|report| one(&folder, report, source)).collect()
}

fn one(folder: &Path, report: &str, source: &Source<'_>) -> String {
    let (ending, text) = match report {
        "perfetto" => ("perfetto.json", perfetto::trace(source)),
        "mermaid" => ("mmd", mermaid::diagram(source)),
        _ => ("html", page(source)),
    };
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let path = folder.join(format!("{}.{ending}", stem(source)));
    let done = fs::create_dir_all(&folder).and_then(|()| whole_file::write(&path, &text));
    match done {
        Ok(()) => format!("Report      {}", path.display()),
        Err(error) => format!("Report      {} cannot be written: {error}", path.display()),
    }
}

/// `redis-failover-redis-0x2a-4202497686c120f6`: which run of which build it was.
fn stem(source: &Source<'_>) -> String {
    let plan = &source.plan;
    let parts = [&plan.scenario, &plan.lock.name, &plan.seed.to_string(), &source.trace];
    let parts: Vec<&str> =
        parts.into_iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    parts.join("-").chars().map(safe).take(120).collect()
}

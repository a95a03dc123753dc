//! The environment variables that storms in tests obey, and `lockstorm hunt`, `run` and
//! `replay` where they have the flag of the same name and it is not given.
//!
//! | variable | what |
//! |---|---|
//! | `LOCKSTORM_SEED` | run this one seed (hex with `0x`, or decimal); of a hunt the first |
//! | `LOCKSTORM_PLAN` | run this one plan, a capsule (`storm1:…`) or a file: in tests alone |
//! | `LOCKSTORM_SEEDS` | run so many seeds instead of what the test says |
//! | `LOCKSTORM_FOR` | go on with further seeds until so much real time is over, such as `10m` |
//! | `LOCKSTORM_ENGINE` | run on this engine: `event`, `event-shuffled`, `turmoil`; `madsim` where it is linked, and in a hunt |
//! | `LOCKSTORM_REPORT` | write a failure as `html`, `perfetto`, `mermaid` (several with commas) and print the path |
//! | `LOCKSTORM_OUT` | plans of failures go into this folder, and reports; reports into `target/lockstorm` where it is not set |
//! | `LOCKSTORM_WORKER`, `LOCKSTORM_WORKER_OUT`, `LOCKSTORM_WORKER_STORM` | set by lockstorm for its own fresh processes |
//!
//! A variable that begins with `LOCKSTORM_` and is none of these is warned about: it
//! is most likely misspelt.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::plan::{Micros, Plan, Seed, capsule, file};

/// Names that are for users.
const KNOWN: [&str; 7] = [
    "LOCKSTORM_SEED",
    "LOCKSTORM_PLAN",
    "LOCKSTORM_SEEDS",
    "LOCKSTORM_FOR",
    "LOCKSTORM_ENGINE",
    "LOCKSTORM_REPORT",
    "LOCKSTORM_OUT",
];

/// Names that are for our own processes.
const OURS: [&str; 3] = ["LOCKSTORM_WORKER", "LOCKSTORM_WORKER_OUT", "LOCKSTORM_WORKER_STORM"];

/// What `LOCKSTORM_REPORT` can ask for.
pub const REPORTS: [&str; 3] = ["html", "perfetto", "mermaid"];

/// What the environment asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `LOCKSTORM_SEED`.
    pub seed: Option<Seed>,
    /// `LOCKSTORM_PLAN`.
    pub plan: Option<Plan>,
    /// `LOCKSTORM_SEEDS`.
    pub seeds: Option<u64>,
    /// `LOCKSTORM_FOR`.
    pub duration: Option<Duration>,
    /// `LOCKSTORM_ENGINE`.
    pub engine: Option<String>,
    /// `LOCKSTORM_REPORT`: each of [`REPORTS`].
    pub reports: Vec<String>,
    /// `LOCKSTORM_OUT`.
    pub out: Option<PathBuf>,
}

impl Environment {
    /// The environment of this process, read once.
    ///
    /// # Panics
    /// When one of our variables cannot be read as what it is: a storm that was asked
    /// for must not silently be another.
    pub fn get() -> &'static Environment {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT
            .get_or_init(|| Environment::of_process().unwrap_or_else(|error| panic!("{error}")))
    }

    /// The environment of this process; what it does not know is warned about on standard
    /// error.
    ///
    /// # Errors
    /// As [`Environment::read`].
    pub fn of_process() -> Result<Environment, String> {
        // A value that is no Unicode is none of these, either.
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        let ours = variables.filter(|(name, _)| name.starts_with("LOCKSTORM_"));
        let (environment, warnings) = Environment::read(ours)?;
        for warning in warnings {
            // Whoever does not read it does not miss it: `eprintln!` would panic.
            let _ = writeln!(std::io::stderr(), "warning: {warning}");
        }
        Ok(environment)
    }

    /// Reads the variables, and says which it does not know.
    ///
    /// # Errors
    /// One sentence with the variable's name, its value and the mend.
    pub fn read(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Environment, Vec<String>), String> {
        let mut environment = Environment::default();
        let mut warnings = Vec::new();
        for (name, value) in variables {
            match name.as_str() {
                "LOCKSTORM_SEED" => {
                    let seed = value.parse();
                    environment.seed =
                        Some(seed.map_err(|error| format!("{name}=`{value}`: {error}"))?);
                }
                "LOCKSTORM_PLAN" => {
                    let plan = plan_of(&value).map_err(|error| format!("{name}: {error}"))?;
                    environment.plan = Some(plan);
                }
                "LOCKSTORM_SEEDS" => {
                    let seeds = value.parse();
                    environment.seeds =
                        Some(seeds.map_err(|_| format!("{name}=`{value}`: write a whole number"))?);
                }
                "LOCKSTORM_FOR" => {
                    let time: Micros =
                        value.parse().map_err(|error| format!("{name}=`{value}`: {error}"))?;
                    if time.0 < 1_000_000 {
                        return Err(format!("{name}=`{value}`: write at least 1s"));
                    }
                    environment.duration = Some(time.to_duration());
                }
                "LOCKSTORM_ENGINE" => environment.engine = Some(value),
                "LOCKSTORM_OUT" if value.is_empty() => {
                    return Err(format!("{name} is empty: write a folder, or unset it"));
                }
                "LOCKSTORM_OUT" => environment.out = Some(PathBuf::from(value)),
                "LOCKSTORM_REPORT" => {
                    let reports =
                        value.split(',').map(str::trim).filter(|report| !report.is_empty());
                    let reports: Vec<String> = reports.map(ToOwned::to_owned).collect();
                    if let Some(stranger) =
                        reports.iter().find(|report| !REPORTS.contains(&report.as_str()))
                    {
                        let known = REPORTS.join(", ");
                        return Err(format!(
                            "{name}: no report is called `{stranger}`; write {known}"
                        ));
                    }
                    environment.reports = reports;
                }
                ours if OURS.contains(&ours) => {}
                unknown => warnings.push(format!(
                    "{unknown} is not a variable of lockstorm; there are: {}",
                    KNOWN.join(", ")
                )),
            }
        }
        Ok((environment, warnings))
    }
}

/// The plan of a capsule, or of the file of this name.
fn plan_of(value: &str) -> Result<Plan, String> {
    if capsule::is_capsule(value) {
        return capsule::parse(value).map_err(|error| error.to_string());
    }
    let text = std::fs::read_to_string(value)
        .map_err(|error| format!("`{value}` is no capsule, and no file: {error}"))?;
    file::parse(value, &text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<(Environment, Vec<String>), String> {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::read(owned)
    }

    #[test]
    fn known_variables_are_read_and_unknown_ones_warned_about() {
        let (environment, warnings) =
            read(&[("LOCKSTORM_SEED", "0x2a"), ("LOCKSTORM_SEDS", "5")]).unwrap();
        assert_eq!(environment.seed, Some(Seed(42)));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("LOCKSTORM_SEDS"));
    }

    #[test]
    fn how_long_and_where_are_read() {
        let (environment, warnings) =
            read(&[("LOCKSTORM_FOR", "10m"), ("LOCKSTORM_OUT", "found")]).unwrap();
        assert_eq!(environment.duration, Some(Duration::from_secs(600)));
        assert_eq!(environment.out, Some(PathBuf::from("found")));
        assert!(warnings.is_empty());
    }

    #[test]
    fn reports_are_asked_for_by_name() {
        let (environment, warnings) =
            read(&[("LOCKSTORM_REPORT", "html, mermaid"), ("LOCKSTORM_OUT", "here")]).unwrap();
        assert_eq!(environment.reports, ["html", "mermaid"]);
        assert_eq!(environment.out, Some(PathBuf::from("here")));
        assert!(warnings.is_empty());
        assert!(read(&[("LOCKSTORM_REPORT", "pdf")]).unwrap_err().contains("write html"));
    }

    #[test]
    fn a_value_that_cannot_be_read_is_an_error() {
        assert!(read(&[("LOCKSTORM_SEEDS", "many")]).unwrap_err().contains("whole number"));
        assert!(read(&[("LOCKSTORM_SEED", "zebra")]).unwrap_err().contains("LOCKSTORM_SEED"));
        assert!(read(&[("LOCKSTORM_FOR", "1ms")]).unwrap_err().contains("at least 1s"));
        assert!(read(&[("LOCKSTORM_OUT", "")]).unwrap_err().contains("write a folder"));
    }
}

//! The environment variables that storms in tests obey.
//!
//! | variable | what |
//! |---|---|
//! | `LOCKSTORM_SEED` | run this one seed (hex with `0x`, or decimal) |
//! | `LOCKSTORM_SEEDS` | run so many seeds instead of what the test says |
//! | `LOCKSTORM_ENGINE` | run on this engine: `event` or `turmoil` |
//! | `LOCKSTORM_REPORT` | write a failure as `html`, `perfetto`, `mermaid` (several with commas) and print the path |
//! | `LOCKSTORM_OUT` | into this folder; `target/lockstorm` where it is not set |
//! | `LOCKSTORM_WORKER`, `LOCKSTORM_WORKER_OUT` | set by lockstorm for its own fresh processes |
//!
//! A variable that begins with `LOCKSTORM_` and is none of these is warned about: it
//! is most likely misspelt. `LOCKSTORM_FOR` is reserved: it does nothing yet, and setting it is
//! warned about.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::plan::Seed;

/// Names that are ours.
const KNOWN: [&str; 8] = [
    "LOCKSTORM_SEED",
    "LOCKSTORM_SEEDS",
    "LOCKSTORM_ENGINE",
    "LOCKSTORM_FOR",
    "LOCKSTORM_OUT",
    "LOCKSTORM_REPORT",
    "LOCKSTORM_WORKER",
    "LOCKSTORM_WORKER_OUT",
];

/// What `LOCKSTORM_REPORT` can ask for.
pub const REPORTS: [&str; 3] = ["html", "perfetto", "mermaid"];

/// What the environment asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `LOCKSTORM_SEED`.
    pub seed: Option<Seed>,
    /// `LOCKSTORM_SEEDS`.
    pub seeds: Option<u64>,
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
        ENVIRONMENT.get_or_init(|| {
            let variables = std::env::vars().filter(|(name, _)| name.starts_with("LOCKSTORM_"));
            let (environment, warnings) =
                Environment::read(variables).unwrap_or_else(|error| panic!("{error}"));
            for warning in warnings {
                eprintln!("warning: {warning}");
            }
            environment
        })
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
                "LOCKSTORM_SEEDS" => {
                    let seeds = value.parse();
                    environment.seeds =
                        Some(seeds.map_err(|_| format!("{name}=`{value}`: write a whole number"))?);
                }
                "LOCKSTORM_ENGINE" => environment.engine = Some(value),
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
                "LOCKSTORM_FOR" => {
                    warnings.push(format!("{name} is reserved and does nothing yet"));
                }
                known if KNOWN.contains(&known) => {}
                unknown => warnings.push(format!(
                    "{unknown} is not a variable of lockstorm; there are: {}",
                    KNOWN[..3].join(", ")
                )),
            }
        }
        Ok((environment, warnings))
    }
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
    fn a_reserved_variable_is_not_obeyed_in_silence() {
        let (environment, warnings) = read(&[("LOCKSTORM_FOR", "8h")]).unwrap();
        assert_eq!(environment, Environment::default());
        assert_eq!(warnings, ["LOCKSTORM_FOR is reserved and does nothing yet"]);
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
    }
}

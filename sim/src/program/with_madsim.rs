//! The program that has the engine `madsim`: `lockstorm-madsim`, beside this one.
//!
//! madsim and the interposer answer the same questions of the C library, so no binary has
//! both. What is to be done on that engine alone is handed over, with all its arguments; where
//! it is one of several, it is asked as a worker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::exit::{self, Failure};
use crate::hunt::process::{GRACE, Worker};
use crate::hunt::worker::{Answer, Request};
use crate::plan::{Plan, file};
use crate::storm;
use crate::storm::opinion::{Claim, Opinion};

/// The engine's name.
const ENGINE: &str = "madsim";
/// The program's name, and its package's.
const PROGRAM: &str = "lockstorm-madsim";
/// How long the engine may think about one plan, real time.
const LIMIT: Duration = Duration::from_secs(600);

/// Whether this program has it.
pub fn is_this() -> bool {
    storm::engine(ENGINE).is_some()
}

/// Does there what this process was asked for; the exit code is that program's.
pub fn hand_over() -> Result<u8, Failure> {
    let program = find()?;
    let status = Command::new(&program).args(std::env::args_os().skip(1)).status();
    let status = status.map_err(|error| not_started(&program, &error))?;
    // One that was killed has no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::INTERNAL))
}

/// The engine, to be asked about one plan after the other.
pub struct Asked(Worker);

impl Asked {
    /// Starts it.
    pub fn start() -> Result<Asked, Failure> {
        let program = match is_this() {
            true => std::env::current_exe().map_err(Failure::internal)?,
            false => find()?,
        };
        Worker::start(&program).map(Asked).map_err(Failure::internal)
    }

    /// Whether the plan shows this there.
    pub fn ask(&mut self, plan: &Plan, claim: Claim) -> Result<Opinion, Failure> {
        let (plan, engine) = (file::write(plan), ENGINE.to_owned());
        let request = Request::Opinion { plan, engine, claim, limit: LIMIT };
        self.0.ask(&request).map_err(Failure::internal)?;
        match self.0.hear(LIMIT + GRACE).map_err(Failure::internal)? {
            Answer::Thought(opinion) => Ok(opinion),
            Answer::Stuck { why } | Answer::Refused { why } => Err(Failure::Internal(why)),
            _ => Err(Failure::internal("the worker answered another question")),
        }
    }
}

/// The program, beside this one. Under `cargo run` it is built first, as this one was.
fn find() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe().map_err(Failure::internal)?;
    let program = this.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
    let build = Build::of(&this);
    if std::env::var_os("CARGO_MANIFEST_DIR").is_some() {
        build.run()?;
    }
    if !program.is_file() {
        return Err(Failure::usage(format!(
            "--engine {ENGINE} is done by a program of its own, and there is no {}; build it: {}",
            program.display(),
            build.line()
        )));
    }
    look_at(&program, &build)?;
    Ok(program)
}

/// Refuses a program that was built without the engine, or of another version.
fn look_at(program: &Path, build: &Build) -> Result<(), Failure> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| not_started(program, &error))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::usage(why.trim().trim_start_matches("error: ")));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    match told.trim().ends_with(concat!(" ", env!("CARGO_PKG_VERSION"))) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} is {}, and this is {}; build it again: {}",
            program.display(),
            told.trim(),
            env!("CARGO_PKG_VERSION"),
            build.line()
        ))),
    }
}

fn not_started(program: &Path, error: &std::io::Error) -> Failure {
    Failure::internal(format!("{} did not start: {error}", program.display()))
}

/// How the program is built so that it stands beside this one.
struct Build {
    arguments: Vec<String>,
}

impl Build {
    fn of(this: &Path) -> Build {
        let mut arguments = vec!["build".to_owned(), "-p".to_owned(), PROGRAM.to_owned()];
        let profile = this.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        match profile.as_deref() {
            None | Some("debug") => {}
            Some("release") => arguments.push("--release".to_owned()),
            Some(other) => arguments.extend(["--profile".to_owned(), other.to_owned()]),
        }
        Build { arguments }
    }

    /// As it is typed.
    fn line(&self) -> String {
        format!("cargo {}", self.arguments.join(" "))
    }

    fn run(&self) -> Result<(), Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).args(&self.arguments).arg("--quiet").status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(Failure::usage(format!("`{}` failed", self.line()))),
            Err(error) => Err(Failure::internal(format!("`{}`: {error}", self.line()))),
        }
    }
}

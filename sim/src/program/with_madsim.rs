//! The program that has the engine `madsim`: `lockstorm-madsim`, beside this one.
//!
//! madsim and the interposer answer the same questions of the C library, so no binary has
//! both. What is to be done on that engine alone is handed over, with all its arguments; where
//! it is one of several, it is asked as a worker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::hunt::process::{GRACE, Trouble, Worker};
use lockstorm_sim::hunt::worker::{Answer, Request};
use lockstorm_sim::plan::{Plan, file};
use lockstorm_sim::storm;
use lockstorm_sim::storm::opinion::{Claim, FURTHER, Opinion, TRIES};

use super::exit::{self, Failure};

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

/// The engine, to be asked about plans, by several threads.
pub struct Asked {
    program: PathBuf,
    idle: Mutex<Vec<Worker>>,
}

impl Asked {
    /// Finds it.
    ///
    /// # Errors
    /// When there is no such program, with the line that builds it.
    pub fn begin() -> Result<Asked, Failure> {
        let program = match is_this() {
            true => std::env::current_exe().map_err(Failure::internal)?,
            false => find()?,
        };
        Ok(Asked { program, idle: Mutex::default() })
    }

    /// Whether the plan shows this there. A process that dies of a plan, or does not come back
    /// from it, is what that plan shows.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn ask(&self, plan: &Plan, claim: Claim) -> Result<Opinion, Failure> {
        let first = self.ask_with((0, TRIES), plan, claim)?;
        if first.agrees || first.tries < TRIES {
            return Ok(first);
        }
        self.ask_with((TRIES, FURTHER), plan, claim)
    }

    fn ask_with(&self, draws: (u32, u32), plan: &Plan, claim: Claim) -> Result<Opinion, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let worker = idle.map_or_else(|| Worker::start(&self.program), Ok);
        let mut worker = worker.map_err(Failure::internal)?;
        let (text, engine) = (file::write(plan), ENGINE.to_owned());
        let request = Request::Opinion { plan: text, engine, claim, draws, limit: LIMIT };
        let answer = worker.ask(&request).and_then(|()| worker.hear(LIMIT + GRACE));
        let why = match answer {
            Ok(Answer::Thought(opinion)) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                return Ok(opinion);
            }
            Ok(Answer::Stuck { why }) | Err(Trouble::Lost(why)) => why,
            Ok(Answer::Refused { why }) => return Err(Failure::Internal(why)),
            Ok(_) => return Err(Failure::internal("the worker answered another question")),
            Err(Trouble::Failed(error)) => return Err(Failure::internal(error)),
        };
        let shows = Claim { verdict: Verdict::Unknown, gravest: None };
        let (engine, agrees, tries) = (ENGINE.to_owned(), false, 1);
        Ok(Opinion { engine, agrees, shows, tries, clause: Some(why) })
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

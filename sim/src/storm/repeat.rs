//! Repeats a failing run in a fresh process before it is told: a failure that does
//! not come back the same way is a failure of ours.
//!
//! In a test, the fresh process is the test program itself, run for that one test
//! with the plan in a file named by the environment; the first storm of the test then
//! runs that plan, writes down what came of it and exits. Where that cannot be (the
//! test's name is not known, as with one test thread), a fresh thread has to do, and
//! the report says so.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::locks::LockFactory;
use super::{Run, engine, run_with};
use crate::plan::{Plan, file};

const PLAN: &str = "LOCKSTORM_WORKER";
const OUT: &str = "LOCKSTORM_WORKER_OUT";

/// How a run repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The same trace in a fresh process.
    FreshProcess,
    /// The same trace on a fresh thread: no process could be had, and why.
    FreshThread {
        /// Why no process.
        why: String,
    },
    /// Another trace: nondeterminism.
    Differs {
        /// The first event that differs, if the events differ at all.
        first: Option<Difference>,
    },
}

/// The first event at which two traces part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its position.
    pub event: u64,
    /// What it was, as JSON.
    pub was: Option<String>,
    /// What it is now.
    pub is: Option<String>,
}

/// What a fresh process tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The full trace hash, hex.
    pub trace: String,
    /// Every event, as JSON.
    pub events: Vec<String>,
}

impl Report {
    /// Of a run.
    pub fn of(run: &Run) -> Self {
        let events = run.history.iter().map(|event| {
            serde_json::to_string(event).unwrap_or_else(|error| format!("unwritable: {error}"))
        });
        Report {
            trace: run.trace_hash.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            events: events.collect(),
        }
    }

    /// Where two runs part; `None` if they are the same.
    pub fn difference(&self, other: &Report) -> Option<Option<Difference>> {
        if self.trace == other.trace {
            return None;
        }
        let longest = self.events.len().max(other.events.len());
        let first = (0..longest).find(|index| self.events.get(*index) != other.events.get(*index));
        Some(first.map(|index| Difference {
            event: index as u64,
            was: self.events.get(index).cloned(),
            is: other.events.get(index).cloned(),
        }))
    }
}

/// The name of the test that runs on this thread: libtest names its threads so.
pub fn test_name() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(ToOwned::to_owned)
}

/// Runs the plan of `run` once more, elsewhere, and compares.
pub fn twice(run: &Run, factory: &LockFactory) -> Repetition {
    let first = Report::of(run);
    let (second, why) = match test_name() {
        Some(test) => match in_test_process(run, &test) {
            Ok(report) => (report, None),
            Err(why) => (on_thread(run, factory), Some(why)),
        },
        None => (on_thread(run, factory), Some("the test's name is not known".to_owned())),
    };
    match (first.difference(&second), why) {
        (Some(first), _) => Repetition::Differs { first },
        (None, None) => Repetition::FreshProcess,
        (None, Some(why)) => Repetition::FreshThread { why },
    }
}

fn on_thread(run: &Run, factory: &LockFactory) -> Report {
    match engine(run.engine_name) {
        Some(engine) => Report::of(&run_with(&run.plan, engine.as_ref(), factory)),
        // An engine of nobody's name ran nothing that could be repeated.
        None => Report::of(run),
    }
}

fn in_test_process(run: &Run, test: &str) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = std::env::temp_dir();
    let stem = format!("lockstorm-{}-{}", std::process::id(), run.trace_hash);
    let (plan, out) = (folder.join(format!("{stem}.toml")), folder.join(format!("{stem}.json")));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&plan)?;
        writeln!(file, "# engine: {}", run.engine_name)?;
        file.write_all(file::write(&run.plan).as_bytes())
    };
    write().map_err(|error| format!("{}: {error}", plan.display()))?;
    let status = Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads", "2"])
        .env(PLAN, &plan)
        .env(OUT, &out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let report = status.map_err(|error| error.to_string()).and_then(|_| read_report(&out));
    for path in [&plan, &out] {
        // Left-over files in the temporary folder harm nobody.
        let _ = std::fs::remove_file(path);
    }
    report
}

fn read_report(path: &Path) -> Result<Report, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|_| "the fresh process wrote no report".to_owned())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// If this process is such a fresh process: runs its plan and exits.
pub fn serve(factory: &LockFactory) {
    let (Ok(plan), Ok(out)) = (std::env::var(PLAN), std::env::var(OUT)) else { return };
    let code = match serve_plan(Path::new(&plan), Path::new(&out), factory) {
        Ok(()) => 0,
        Err(why) => {
            // Nobody need read it: `eprintln!` would panic.
            let _ = writeln!(std::io::stderr(), "{why}");
            70
        }
    };
    std::process::exit(code);
}

fn serve_plan(plan: &Path, out: &Path, factory: &LockFactory) -> Result<(), String> {
    let text = std::fs::read_to_string(plan).map_err(|error| error.to_string())?;
    let engine_name = text.lines().next().and_then(|line| line.strip_prefix("# engine: "));
    let engine = engine(engine_name.unwrap_or("event")).ok_or("no such engine")?;
    let plan: Plan = file::parse(&plan.display().to_string(), &text).map_err(|e| e.to_string())?;
    let report = Report::of(&run_with(&plan, engine.as_ref(), factory));
    let json = serde_json::to_string(&report).map_err(|error| error.to_string())?;
    std::fs::write(out, json).map_err(|error| error.to_string())
}

//! Repeats a failing run in a fresh process before it is told: a failure that does
//! not come back the same way is a failure of ours.
//!
//! In a test, the fresh process is the test program itself, run for that one test
//! with the plan in a file named by the environment; the first storm of the test that has the
//! same lock under test then runs that plan, writes down what came of it and exits. A plan names
//! a lock of ours, so any storm of ours will do; a lock of the test's own is known by the line
//! that brought it ([`Site`]), and storms before it run as ever. Where there is no process (the
//! test's name is not known, as with one test thread), a fresh thread has to do, and the report
//! says so.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::Location;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::locks::LockFactory;
use super::{Run, engine, run_with};
use crate::plan::{Plan, file};

const PLAN: &str = "LOCKSTORM_WORKER";
const OUT: &str = "LOCKSTORM_WORKER_OUT";
const STORM: &str = "LOCKSTORM_WORKER_STORM";

/// Where in a test's code the lock of its own was brought in.
pub type Site = &'static Location<'static>;

/// What is under test, and how a fresh process of this test finds it.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a lock that is built has no face")]
pub struct Tested {
    /// Builds it.
    pub factory: LockFactory,
    /// `None` for a lock of ours.
    pub site: Option<Site>,
}

thread_local! {
    /// How many storms of each site this thread has begun.
    static STORMS: RefCell<BTreeMap<String, u32>> = const { RefCell::new(BTreeMap::new()) };
}

impl Tested {
    /// Which storm of its test this is, or will be: a line may be passed more than once.
    fn storm(&self) -> Option<String> {
        let site = self.site?.to_string();
        let count = STORMS.with_borrow(|storms| storms.get(&site).copied().unwrap_or(0));
        Some(format!("{site} #{count}"))
    }
}

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
pub fn twice(run: &Run, tested: &Tested) -> Repetition {
    let first = Report::of(run);
    let in_process = match test_name() {
        // A storm before the one that is asked for.
        Some(_) if std::env::var_os(PLAN).is_some() => Err("it is itself one".to_owned()),
        Some(test) => in_test_process(run, &test, tested.storm()),
        None => Err("the test's name is not known".to_owned()),
    };
    let (second, why) = match in_process {
        Ok(report) => (report, None),
        Err(why) => (on_thread(run, &tested.factory), Some(why)),
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

fn in_test_process(run: &Run, test: &str, storm: Option<String>) -> Result<Report, String> {
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
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads", "2"]);
    // Storms before it are run for their results, and no longer than that.
    command.env(PLAN, &plan).env(OUT, &out).env_remove("LOCKSTORM_FOR").env_remove(STORM);
    if let Some(storm) = storm {
        command.env(STORM, storm);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
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

/// A storm of a test begins. If this process is such a fresh process, and this the storm that
/// is asked for: runs its plan and exits.
pub fn serve(tested: &Tested) {
    if let Some(site) = tested.site {
        STORMS.with_borrow_mut(|storms| *storms.entry(site.to_string()).or_default() += 1);
    }
    let (Ok(plan), Ok(out)) = (std::env::var(PLAN), std::env::var(OUT)) else { return };
    if tested.storm() != std::env::var(STORM).ok() {
        return;
    }
    let code = match serve_plan(Path::new(&plan), Path::new(&out), &tested.factory) {
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

//! Runs trials in worker processes, as many at once as there are jobs; each worker runs one
//! after the other, so that its CPU time is that of its hunt.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use super::trial::{Trial, Tried};
use crate::planted::BUGS;

/// The verb, hidden, that makes the program a worker of the bench.
pub const WORKER: &str = "bench-worker";

/// Serves trials, one JSON line each, until the input ends.
///
/// # Errors
/// When a line cannot be read or written, or is no trial of a known bug.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        let trial: Trial = serde_json::from_str(&line?)?;
        let bug = BUGS.iter().find(|bug| bug.name == trial.bug);
        let bug = bug.ok_or_else(|| io::Error::other(format!("no bug `{}`", trial.bug)))?;
        let tried = trial.run(bug).map_err(|error| io::Error::other(error.to_string()))?;
        serde_json::to_writer(&mut output, &tried)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// Runs all `trials` over `jobs` workers of `program`, tells `each` of every one that is
/// done, and gives the results in the order of the trials.
///
/// # Errors
/// When a worker cannot be started, or died.
pub fn run(
    trials: &[Trial],
    jobs: usize,
    program: &Path,
    mut each: impl FnMut(&Tried),
) -> io::Result<Vec<Tried>> {
    let waiting = Mutex::new(trials.iter().enumerate());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, trials.len().max(1)) {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                let mut worker = None;
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((position, trial)) = next else { return };
                    let tried = ask(&mut worker, program, trial);
                    let is_over = tried.is_err();
                    if sender.send((position, tried)).is_err() || is_over {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut done = BTreeMap::new();
        for (position, tried) in receiver {
            match tried {
                Ok(tried) => {
                    each(&tried);
                    done.insert(position, tried);
                }
                Err(error) => {
                    // Nobody begins another.
                    waiting.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                    return Err(error);
                }
            }
        }
        Ok(done.into_values().collect())
    })
}

/// A worker process.
struct Worker {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(worker: &mut Option<Worker>, program: &Path, trial: &Trial) -> io::Result<Tried> {
    let worker = match worker {
        Some(worker) => worker,
        none => none.insert(start(program)?),
    };
    let missing = || io::Error::other("the worker's pipes are missing");
    let requests = worker.child.stdin.as_mut().ok_or_else(missing)?;
    serde_json::to_writer(&mut *requests, trial)?;
    requests.write_all(b"\n")?;
    requests.flush()?;
    let mut line = String::new();
    if worker.answers.read_line(&mut line)? == 0 {
        let how = worker.child.wait()?;
        let Trial { bug, strategy, number, .. } = trial;
        let which = format!("{bug} by {}, hunt {number}", strategy.name());
        return Err(io::Error::other(format!("a worker died ({how}) over {which}")));
    }
    Ok(serde_json::from_str(&line)?)
}

fn start(program: &Path) -> io::Result<Worker> {
    let mut child =
        Command::new(program).arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let output = output.ok_or_else(|| io::Error::other("the worker's pipes are missing"))?;
    Ok(Worker { child, answers: BufReader::new(output) })
}

//! A pack of worker processes and the order of what they bring.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::worker::{Answer, Request};
use super::{Quarry, Summary};
use crate::plan::Seed;

/// Seeds that a worker gets at once: few enough that all workers end together, many
/// enough that nobody waits for a pipe.
const CHUNK: u64 = 20;

/// One worker process.
pub struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts `program worker`.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(program: &PathBuf) -> io::Result<Worker> {
        let mut child = Command::new(program)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::other("the worker's pipes are missing");
        let requests = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Worker { child, requests, answers })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When the worker has died.
    pub fn ask(&mut self, request: &Request) -> io::Result<()> {
        serde_json::to_writer(&mut self.requests, request)?;
        self.requests.write_all(b"\n")?;
        self.requests.flush()
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// When the worker has died; the text says how.
    pub fn hear(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            return Err(io::Error::other(format!("the worker died ({status})")));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that is not needed any more has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Worker").field("process", &self.child.id()).finish_non_exhaustive()
    }
}

/// Runs `count` seeds from `first` over `jobs` workers and gives each summary to
/// `each`, in the order of the seeds. `each` returns whether to go on.
///
/// # Errors
/// When no worker can be started, or a request is refused (an unknown knob).
pub fn run(
    quarry: &Quarry,
    first: Seed,
    count: u64,
    jobs: usize,
    program: &PathBuf,
    mut each: impl FnMut(Summary) -> bool,
) -> io::Result<()> {
    let chunks = Mutex::new((0..count).step_by(CHUNK as usize));
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, chunks) = (sender.clone(), &chunks);
            scope.spawn(move || work(quarry, first, count, program, chunks, &sender));
        }
        drop(sender);
        let result = in_order(&receiver, &mut each);
        // Whoever still works finds no more chunks.
        chunks.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
        result
    })
}

type Brought = (u64, io::Result<Summary>);

fn in_order(
    receiver: &Receiver<Brought>,
    each: &mut impl FnMut(Summary) -> bool,
) -> io::Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (index, summary) in receiver {
        early.insert(index, summary?);
        while let Some(summary) = early.remove(&next) {
            next += 1;
            if !each(summary) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn work(
    quarry: &Quarry,
    first: Seed,
    count: u64,
    program: &PathBuf,
    chunks: &Mutex<std::iter::StepBy<std::ops::Range<u64>>>,
    sender: &Sender<Brought>,
) {
    let mut worker = None;
    loop {
        let chunk = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(mut index) = chunk else { return };
        let end = (index + CHUNK).min(count);
        while index < end {
            let Err((at, trouble)) = bring(quarry, first, index..end, program, &mut worker, sender)
            else {
                break;
            };
            // The seed that killed its worker is told; the others go on with a new one.
            worker = None;
            let seed = Seed(first.0.wrapping_add(at));
            let brought = match trouble {
                Trouble::Death(why) => Ok(Summary::lost(seed, why)),
                Trouble::Refused(why) => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
            };
            let is_over = brought.is_err();
            if sender.send((at, brought)).is_err() || is_over {
                return;
            }
            index = at + 1;
        }
    }
}

enum Trouble {
    Death(String),
    Refused(String),
}

/// Has a worker run a range of seeds; on trouble says at which index it was.
fn bring(
    quarry: &Quarry,
    first: Seed,
    range: std::ops::Range<u64>,
    program: &PathBuf,
    worker: &mut Option<Worker>,
    sender: &Sender<Brought>,
) -> Result<(), (u64, Trouble)> {
    let death = |at: u64| move |error: io::Error| (at, Trouble::Death(error.to_string()));
    let start = range.start;
    let worker = match worker {
        Some(worker) => worker,
        none => none.insert(Worker::start(program).map_err(death(start))?),
    };
    let request = Request::Seeds {
        quarry: quarry.clone(),
        first: Seed(first.0.wrapping_add(start)),
        count: range.end - start,
    };
    worker.ask(&request).map_err(death(start))?;
    for index in range {
        match worker.hear().map_err(death(index))? {
            Answer::Seed(summary) => {
                if sender.send((index, Ok(summary))).is_err() {
                    return Ok(());
                }
            }
            Answer::Refused { why } => return Err((index, Trouble::Refused(why))),
            Answer::Examined { .. } => {
                return Err((index, Trouble::Death("the worker answered another question".into())));
            }
        }
    }
    Ok(())
}

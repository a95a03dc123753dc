//! Keeps the workers busy and gives what they bring in the order of the tasks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::process::{GRACE, Trouble, Worker};
use super::worker::{Answer, Request};
use super::{Quarry, Summary, Task};

/// Tasks that a worker gets at once: few enough that all workers end together, many
/// enough that nobody waits for a pipe.
const CHUNK: usize = 20;

/// Runs `tasks` over `jobs` workers and gives each summary to `each`, in the order of the
/// tasks. `each` returns whether to go on. A worker that dies, or that has nothing to say
/// of a task for longer than `limit`, makes that task `internal`.
///
/// # Errors
/// When a worker cannot be started, or a request is refused
/// ([`InvalidInput`](io::ErrorKind::InvalidInput): an unknown knob).
pub fn run(
    quarry: &Quarry,
    tasks: &[Task],
    jobs: usize,
    program: &PathBuf,
    limit: Duration,
    each: impl FnMut(Summary) -> bool,
) -> io::Result<()> {
    Pack { quarry, tasks, program, limit, apart: false }.run(jobs, each)
}

/// Likewise, each task in a process of its own: what one has left behind changes nothing for
/// the next.
///
/// # Errors
/// As [`run`].
pub fn run_apart(
    quarry: &Quarry,
    tasks: &[Task],
    jobs: usize,
    program: &PathBuf,
    limit: Duration,
    each: impl FnMut(Summary) -> bool,
) -> io::Result<()> {
    Pack { quarry, tasks, program, limit, apart: true }.run(jobs, each)
}

type Brought = (usize, io::Result<Summary>);

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

/// What all workers of a hunt have in common.
struct Pack<'a> {
    quarry: &'a Quarry,
    tasks: &'a [Task],
    program: &'a PathBuf,
    limit: Duration,
    /// Whether each task has a process of its own.
    apart: bool,
}

impl Pack<'_> {
    fn run(&self, jobs: usize, mut each: impl FnMut(Summary) -> bool) -> io::Result<()> {
        let chunks = Mutex::new((0..self.tasks.len()).step_by(self.chunk()));
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                let (sender, chunks) = (sender.clone(), &chunks);
                scope.spawn(move || self.work(chunks, &sender));
            }
            drop(sender);
            let result = in_order(&receiver, &mut each);
            // Whoever still works finds no more chunks.
            chunks.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
            result
        })
    }

    /// So many tasks a worker gets at once.
    fn chunk(&self) -> usize {
        if self.apart { 1 } else { CHUNK }
    }

    fn work(
        &self,
        chunks: &Mutex<std::iter::StepBy<std::ops::Range<usize>>>,
        sender: &Sender<Brought>,
    ) {
        let mut worker = None;
        loop {
            let chunk = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(mut index) = chunk else { return };
            if self.apart {
                worker = None;
            }
            let end = (index + self.chunk()).min(self.tasks.len());
            while index < end {
                let Err((at, trouble)) = self.bring(index..end, &mut worker, sender) else {
                    break;
                };
                // The task that killed its worker is told; the others go on with a new one.
                worker = None;
                let brought = match trouble {
                    Trouble::Lost(why) => Ok(Summary::lost(self.tasks[at].seed(), why)),
                    Trouble::Failed(error) => Err(error),
                };
                let is_over = brought.is_err();
                if sender.send((at, brought)).is_err() || is_over {
                    return;
                }
                index = at + 1;
            }
        }
    }

    /// Has a worker run a range of tasks; on trouble says at which index it was.
    fn bring(
        &self,
        range: std::ops::Range<usize>,
        worker: &mut Option<Worker>,
        sender: &Sender<Brought>,
    ) -> Result<(), (usize, Trouble)> {
        let start = range.start;
        let worker = match worker {
            Some(worker) => worker,
            none => {
                let started = Worker::start(self.program);
                none.insert(started.map_err(|error| (start, Trouble::Failed(error)))?)
            }
        };
        let request = Request::Run {
            quarry: self.quarry.clone(),
            tasks: self.tasks[range.clone()].to_vec(),
            limit: self.limit,
        };
        worker.ask(&request).map_err(|trouble| (start, trouble))?;
        for index in range {
            match worker.hear(self.limit + GRACE).map_err(|trouble| (index, trouble))? {
                Answer::Ran(summary) => {
                    if sender.send((index, Ok(summary))).is_err() {
                        return Ok(());
                    }
                }
                Answer::Examined { .. }
                | Answer::Thought(_)
                | Answer::Smaller { .. }
                | Answer::Shrunk { .. } => {
                    let why = "the worker answered another question".to_owned();
                    return Err((index, Trouble::Lost(why)));
                }
                Answer::Stuck { why } => return Err((index, Trouble::Lost(why))),
                Answer::Refused { why } => return Err((index, Trouble::refused(why))),
            }
        }
        Ok(())
    }
}
